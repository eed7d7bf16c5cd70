//! Writing keys, one behind the other.

/// Bytes that are moved at once, however few are wanted: a length that is known takes a few instructions, others a call.
const CHUNK: usize = 16;
const LONG_CHUNK: usize = 2 * CHUNK;

/// A buffer that keys are written into.
pub(super) struct KeyWriter {
    bytes: Vec<u8>,
    at: usize,
}

impl KeyWriter {
    /// With room for keys of `bytes_max` bytes together, and for what [`KeyWriter::copy`] moves too much.
    pub fn new(bytes_max: usize) -> KeyWriter {
        KeyWriter { bytes: vec![0; bytes_max + LONG_CHUNK], at: 0 }
    }

    /// Makes room for `more` bytes behind those so far.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        let needed = self.at + more + LONG_CHUNK;
        if needed > self.bytes.len() {
            self.bytes.resize(needed.max(2 * self.bytes.len()), 0);
        }
    }

    /// Bytes of the keys so far.
    pub fn len(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    /// Writes the lowest `width` bytes of a number, the greatest first.
    #[inline]
    pub fn put_number(&mut self, number: u64, width: usize) {
        // What is too much is written over by what follows, or is behind the last key.
        let bytes = (number.unbounded_shl(u64::BITS - u8::BITS * width as u32)).to_be_bytes();
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(&bytes);
        self.at += width;
    }

    /// Writes `len` of the bytes from `begin` on.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8], begin: usize, len: usize) {
        match bytes[begin..].first_chunk::<CHUNK>() {
            Some(chunk) if len <= CHUNK => {
                self.bytes[self.at..self.at + CHUNK].copy_from_slice(chunk);
            }
            _ if len <= LONG_CHUNK && begin + LONG_CHUNK <= bytes.len() => {
                let chunk = &bytes[begin..begin + LONG_CHUNK];
                self.bytes[self.at..self.at + LONG_CHUNK].copy_from_slice(chunk);
            }
            _ => self.bytes[self.at..self.at + len].copy_from_slice(&bytes[begin..begin + len]),
        }
        self.at += len;
    }

    /// Drops all bytes from `end` on.
    #[inline]
    pub fn truncate(&mut self, end: usize) {
        self.at = end;
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.truncate(self.at);
        self.bytes.shrink_to_fit();
        self.bytes
    }
}
