//! Reading and writing the small scalars that all encodings are made of: little-endian integers,
//! LEB128 variable-length integers and length-prefixed byte strings.

use crate::error::{FormatError, Result};
use crate::ids::{Lsn, LsnRange, SegmentId, TableId};

/// Appends a little-endian `u16`.
pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u32`.
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u64`.
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends an LEB128 integer: seven bits a byte, least significant first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends an LEB128 integer of up to 128 bits.
pub(crate) fn put_varint_u128(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a byte string behind its varint length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The bytes an LEB128 integer takes.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads scalars front to back; running past the end is an error that names `what` is being read.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes` from their start. Errors name `what`, such as "commit" or "footer".
    pub fn new(bytes: &'a [u8], what: &'static str) -> Cursor<'a> {
        Cursor { rest: bytes, what }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The part of what this cursor has not read that `later`, a clone of it, has.
    pub(crate) fn up_to(self, later: &Cursor<'a>) -> Cursor<'a> {
        Cursor { rest: &self.rest[..self.rest.len() - later.rest.len()], what: self.what }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.error(format!("{len} bytes expected, {} left", self.rest.len())));
        };
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes were taken")))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }

    /// An LEB128 integer of up to 64 bits. Fails if it is cut short or longer.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        // Lengths and counts mostly take one byte or two.
        match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a))
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            _ => self.long_varint(),
        }
    }

    /// An LEB128 integer of up to 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.error(format!("{value} does not fit 32 bits")))
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a variable-length integer does not fit 64 bits"))
    }

    pub(crate) fn varint_u128(&mut self) -> Result<u128> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if shift == 126 && bits > 3 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a variable-length integer does not fit 128 bits"))
    }

    /// The number of a table.
    pub(crate) fn table_id(&mut self) -> Result<TableId> {
        Ok(TableId(self.varint_below("table", TableId::MAX.0.into())? as u32))
    }

    /// The number of a segment, or of a postings file.
    pub(crate) fn segment_id(&mut self) -> Result<SegmentId> {
        Ok(SegmentId(self.varint_below("segment", SegmentId::MAX.0)?))
    }

    pub(crate) fn lsn(&mut self) -> Result<Lsn> {
        Ok(Lsn(self.varint_below("LSN", Lsn::MAX.0)?))
    }

    /// The first and the last of some commits.
    pub(crate) fn lsns(&mut self) -> Result<LsnRange> {
        let (first, last) = (self.lsn()?, self.lsn()?);
        if first > last {
            return Err(self.error(format!("LSNs {first}..={last}")));
        }
        Ok(LsnRange { first, last })
    }

    pub(crate) fn varint_below(&mut self, what: &str, end: u64) -> Result<u64> {
        let value = self.varint()?;
        if value >= end {
            return Err(self.error(format!("{what} {value} is not below {end}")));
        }
        Ok(value)
    }

    /// A byte string behind its varint length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| self.error("a length does not fit memory"))?;
        self.take(len)
    }

    /// A UTF-8 string behind its varint length.
    pub(crate) fn str(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.error("a name is not UTF-8"))
    }

    #[cold]
    pub(crate) fn error(&self, detail: impl Into<String>) -> FormatError {
        FormatError::malformed(self.what, detail)
    }

    /// Fails unless everything has been read.
    pub(crate) fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.error(format!("{} bytes left over", self.rest.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_reads_back_and_its_length_is_foreseen() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value));
            let mut cursor = Cursor::new(&out, "test");
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.finish(), Ok(()));
        }
    }

    #[test]
    fn a_varint_of_128_bits_reads_back_and_a_longer_one_is_malformed() {
        for value in [0, 127, 128, u128::from(u64::MAX), u128::MAX] {
            let mut out = Vec::new();
            put_varint_u128(&mut out, value);
            assert_eq!(Cursor::new(&out, "test").varint_u128(), Ok(value));
        }
        let bytes = [0xff; 18].into_iter().chain([0x04]).collect::<Vec<u8>>();
        assert!(Cursor::new(&bytes, "test").varint_u128().is_err());
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_malformed() {
        let bytes = [0xff; 9].into_iter().chain([0x02]).collect::<Vec<u8>>();
        assert!(Cursor::new(&bytes, "test").varint().is_err());
    }

    #[test]
    fn reading_past_the_end_is_malformed() {
        assert!(Cursor::new(&[1, 2, 3], "test").u32().is_err());
        assert!(Cursor::new(&[5, 1, 2], "test").bytes().is_err());
    }
}
