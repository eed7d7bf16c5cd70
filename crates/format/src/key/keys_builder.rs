//! Collects encoded keys.

use crate::key::keys::{Ends, Keys, offset};

/// Keys that come one by one, or some at a time. They stay without offsets as long as all have one length.
#[derive(Debug, Default)]
pub struct KeysBuilder {
    len: usize,
    /// About how many keys come.
    expected: usize,
    lengths: Lengths,
    bytes: Vec<u8>,
}

/// How long the keys so far are.
#[derive(Debug, Default)]
enum Lengths {
    #[default]
    OfNothing,
    Even(usize),
    /// Where each begins, and the end of the last.
    Uneven(Vec<i32>),
}

impl KeysBuilder {
    /// Expects about this many keys, and takes more.
    pub fn new(expected: usize) -> KeysBuilder {
        KeysBuilder { expected, ..KeysBuilder::default() }
    }

    /// For the keys of all parts: takes memory of exact size. Panics if they have more than 2 GiB.
    pub(crate) fn for_all(parts: &[Keys]) -> KeysBuilder {
        let bytes = parts.iter().map(Keys::bytes).sum();
        offset(bytes);
        let expected = parts.iter().map(Keys::len).sum();
        KeysBuilder { expected, bytes: Vec::with_capacity(bytes), ..KeysBuilder::default() }
    }

    /// Bytes of the keys so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Appends a key that has two parts. The caller keeps all keys below 2 GiB.
    #[inline]
    pub fn push(&mut self, prefix: &[u8], rest: &[u8]) {
        let len = prefix.len() + rest.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(rest);
        match &mut self.lengths {
            Lengths::Even(width) if *width == len => {}
            lengths @ Lengths::OfNothing => *lengths = Lengths::Even(len),
            _ => {
                let end = offset(self.bytes.len());
                self.offsets().push(end);
            }
        }
        self.len += 1;
    }

    /// Appends all keys. The caller keeps all keys below 2 GiB.
    pub(crate) fn extend_keys(&mut self, keys: &Keys) {
        let (ends, bytes) = keys.ends();
        let start = offset(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
        match (&mut self.lengths, ends) {
            _ if keys.is_empty() => {}
            (lengths @ Lengths::OfNothing, Ends::Even(width)) => *lengths = Lengths::Even(width),
            (Lengths::Even(width), Ends::Even(other)) if *width == other => {}
            (_, Ends::Even(width)) => {
                let ends = (1..=keys.len()).map(|key| start + offset(key * width));
                self.offsets().extend(ends);
            }
            (_, Ends::Uneven(first, ends)) => {
                self.offsets().extend(ends.iter().map(|end| end - first + start));
            }
        }
        self.len += keys.len();
    }

    /// Where each of the keys so far begins, and the end of the last.
    fn offsets(&mut self) -> &mut Vec<i32> {
        let width = match self.lengths {
            Lengths::OfNothing => Some(0),
            Lengths::Even(width) => Some(width),
            Lengths::Uneven(_) => None,
        };
        if let Some(width) = width {
            let mut offsets = Vec::with_capacity(self.expected.max(self.len + 1) + 1);
            offsets.extend((0..=self.len).map(|keys| offset(keys * width)));
            self.lengths = Lengths::Uneven(offsets);
        }
        match &mut self.lengths {
            Lengths::Uneven(offsets) => offsets,
            _ => unreachable!("made above"),
        }
    }

    /// Appends keys that begin with `prefix` and go on with one of `rests` each, which have `rest_width` bytes, one at
    /// least.
    pub fn extend(&mut self, prefix: &[u8], rests: &[u8], rest_width: usize) {
        rests.chunks_exact(rest_width).for_each(|rest| self.push(prefix, rest));
    }

    pub fn finish(mut self) -> Keys {
        self.bytes.shrink_to_fit();
        match self.lengths {
            Lengths::OfNothing => Keys::even(0, 0, self.bytes),
            Lengths::Even(width) => Keys::even(self.len, width, self.bytes),
            Lengths::Uneven(mut offsets) => {
                offsets.shrink_to_fit();
                Keys::uneven(offsets, self.bytes)
            }
        }
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for Keys {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Keys {
        let mut builder = KeysBuilder::default();
        keys.into_iter().for_each(|key| builder.push(key.as_ref(), &[]));
        builder.finish()
    }
}
