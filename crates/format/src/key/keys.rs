//! The encoded keys of some rows.

use std::ops::Range;

use arrow_array::{Array, BinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer};

use crate::pick::Pick;

/// Encoded keys, one per row. Cheap to clone and to slice.
///
/// Keys of one length, as those of numbers and times are, lie one behind the other, and a key is found by its number.
/// Keys of several lengths have offsets besides, four bytes each.
#[derive(Debug, Clone)]
pub struct Keys(Form);

#[derive(Debug, Clone)]
enum Form {
    Even { len: usize, width: usize, bytes: Buffer },
    Uneven(BinaryArray),
}

/// Where keys end.
pub(super) enum Ends<'k> {
    /// They have one length.
    Even(usize),
    /// The first begins at the first number.
    Uneven(i32, &'k [i32]),
}

impl Ends<'_> {
    /// Where a key ends.
    #[inline]
    pub fn of(&self, row: usize) -> usize {
        match self {
            Ends::Even(width) => (row + 1) * width,
            Ends::Uneven(first, ends) => (ends[row] - first) as usize,
        }
    }
}

/// The first sixteen bytes as a number, with zeros behind the end: not above the word of a greater key. Keys of one length
/// up to sixteen are equal where their words are.
#[inline]
pub fn leading_word(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => {
            // The last eight bytes overlap the first, whose bits are moved out.
            let behind = u64::from_be_bytes(*last).unbounded_shl(8 * (16 - key.len() as u32));
            u128::from(u64::from_be_bytes(*first)) << 64 | u128::from(behind)
        }
        _ => {
            let mut bytes = [0; 16];
            bytes[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(bytes)
        }
    }
}

impl Keys {
    /// Keys by the places where they begin, and the end of the last. O(keys).
    ///
    /// Panics if offsets do not rise within the bytes.
    pub fn new(offsets: Vec<i32>, bytes: Vec<u8>) -> Keys {
        let len = offsets.len().checked_sub(1).expect("offsets have an end");
        let width = (offsets[len.min(1)] - offsets[0]) as usize;
        let is_even = offsets.windows(2).all(|ends| (ends[1] - ends[0]) as usize == width);
        if is_even && offsets[0] == 0 {
            return Keys::even(len, width, bytes);
        }
        Keys::uneven(offsets, bytes)
    }

    /// [`Keys::new`] of keys that are known to have several lengths. O(1).
    pub(super) fn uneven(offsets: Vec<i32>, bytes: Vec<u8>) -> Keys {
        Keys(Form::Uneven(BinaryArray::new(OffsetBuffer::new(offsets.into()), bytes.into(), None)))
    }

    /// Keys of `width` bytes each. Panics if the bytes are of another number of keys.
    pub fn even(len: usize, width: usize, bytes: Vec<u8>) -> Keys {
        assert_eq!(bytes.len(), len * width, "{len} keys of {width} bytes");
        Keys(Form::Even { len, width, bytes: bytes.into() })
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Even { len, .. } => *len,
            Form::Uneven(keys) => keys.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of each key, if it is known that they all have one. A slice of keys of several lengths does not know.
    pub fn width(&self) -> Option<usize> {
        match &self.0 {
            Form::Even { width, .. } => Some(*width),
            Form::Uneven(_) => None,
        }
    }

    /// All bytes of keys that have one length.
    pub(crate) fn even_bytes(&self) -> Option<(usize, &[u8])> {
        match &self.0 {
            Form::Even { width, bytes, .. } => Some((*width, bytes.as_slice())),
            Form::Uneven(_) => None,
        }
    }

    /// All bytes, and where in them keys end.
    pub(super) fn ends(&self) -> (Ends<'_>, &[u8]) {
        match &self.0 {
            Form::Even { width, bytes, .. } => (Ends::Even(*width), bytes.as_slice()),
            Form::Uneven(keys) => {
                let offsets = keys.value_offsets();
                let (first, last) = (offsets[0], offsets[keys.len()]);
                let bytes = &keys.value_data()[first as usize..last as usize];
                (Ends::Uneven(first, &offsets[1..]), bytes)
            }
        }
    }

    /// Which of some rows, which ascend by key, have a key from `first` to `last`. O(log rows · key). Panics if there is no such row.
    pub fn between(&self, rows: &[u32], first: &[u8], last: &[u8]) -> Range<usize> {
        let from = rows.partition_point(|row| self.value(*row as usize) < first);
        let count = rows[from..].partition_point(|row| self.value(*row as usize) <= last);
        from..from + count
    }

    /// The encoded key of a row. O(1). Panics if there is no such row.
    #[inline]
    pub fn value(&self, row: usize) -> &[u8] {
        match &self.0 {
            Form::Even { width, bytes, .. } => &bytes.as_slice()[row * width..][..*width],
            Form::Uneven(keys) => keys.value(row),
        }
    }

    /// Writes the [words](leading_word) of the keys from row `first` on, as many as there is place for. O(words). Panics if there are
    /// fewer keys.
    pub fn leading_words(&self, first: usize, words: &mut [u128]) {
        match &self.0 {
            Form::Even { width: 0, .. } => words.fill(0),
            Form::Even { width, bytes, .. } => {
                let bytes = &bytes.as_slice()[first * width..][..words.len() * width];
                let keys = bytes.chunks_exact(*width);
                words.iter_mut().zip(keys).for_each(|(word, key)| *word = leading_word(key));
            }
            Form::Uneven(keys) => {
                let of = |at| leading_word(keys.value(first + at));
                words.iter_mut().enumerate().for_each(|(at, word)| *word = of(at));
            }
        }
    }

    /// The keys, in the order of their rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        (0..self.len()).map(|row| self.value(row))
    }

    /// Shares the bytes: the slice keeps all of them alive.
    pub fn slice(&self, offset: usize, len: usize) -> Keys {
        assert!(offset + len <= self.len(), "{len} keys from {offset} of {}", self.len());
        Keys(match &self.0 {
            Form::Even { width, bytes, .. } => {
                let bytes = bytes.slice_with_length(offset * width, len * width);
                Form::Even { len, width: *width, bytes }
            }
            Form::Uneven(keys) => Form::Uneven(keys.slice(offset, len)),
        })
    }

    /// Copies the keys at `rows`, in that order. Panics if they have more than 2 GiB.
    pub fn take(&self, rows: &[u32]) -> Keys {
        match &self.0 {
            Form::Even { width, bytes, .. } => {
                gather_even(*width, &[bytes], rows.iter().map(|&row| Pick::new(0, row as usize)))
            }
            Form::Uneven(keys) => {
                gather(rows.len(), || rows.iter().map(|&row| keys.value(row as usize)))
            }
        }
    }

    /// Copies the keys at `picks`. Panics if they have more than 2 GiB.
    pub fn interleave(parts: &[&Keys], picks: &[Pick]) -> Keys {
        let width = parts.first().and_then(|first| first.width());
        let even: Option<Vec<&[u8]>> = parts
            .iter()
            .map(|part| part.even_bytes().filter(|(of, _)| Some(*of) == width))
            .map(|part| part.map(|(_, bytes)| bytes))
            .collect();
        match (even, width) {
            (Some(parts), Some(width)) => gather_even(width, &parts, picks.iter().copied()),
            _ => gather(picks.len(), || {
                picks.iter().map(|pick| parts[pick.part()].value(pick.row()))
            }),
        }
    }

    /// Bytes of all keys. O(1).
    pub fn bytes(&self) -> usize {
        self.bytes_in(0..self.len())
    }

    /// Bytes of some keys. O(1).
    pub fn bytes_in(&self, rows: Range<usize>) -> usize {
        match &self.0 {
            Form::Even { width, .. } => rows.len() * width,
            Form::Uneven(keys) => {
                let offsets = keys.value_offsets();
                (offsets[rows.end] - offsets[rows.start]) as usize
            }
        }
    }

    /// Bytes of the keys at `picks`. O(picks), or O(parts) where all keys have one length.
    pub fn picked_bytes(parts: &[&Keys], picks: &[Pick]) -> usize {
        let width = parts.first().and_then(|first| first.width());
        match width.filter(|_| parts.iter().all(|part| part.width() == width)) {
            Some(width) => picks.len() * width,
            None => {
                let bytes = |pick: &Pick| parts[pick.part()].bytes_in(pick.row()..pick.row() + 1);
                picks.iter().map(bytes).sum()
            }
        }
    }

    /// Whether the bytes are those that other keys hold.
    pub fn shares_bytes_with(&self, other: &Keys) -> bool {
        let bytes = |keys: &Keys| match &keys.0 {
            Form::Even { bytes, .. } => bytes.as_ptr(),
            Form::Uneven(keys) => keys.values().as_ptr(),
        };
        std::ptr::eq(bytes(self), bytes(other))
    }

    /// Bytes of the buffers held. A buffer that other keys share counts whole.
    pub fn allocated_bytes(&self) -> usize {
        match &self.0 {
            Form::Even { bytes, .. } => bytes.capacity(),
            Form::Uneven(keys) => keys.get_buffer_memory_size(),
        }
    }
}

/// The same keys in the same order.
impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Keys {}

/// Copies keys into arrays of exact size.
fn gather<'k, I: Iterator<Item = &'k [u8]>>(len: usize, keys: impl Fn() -> I) -> Keys {
    let mut offsets = Vec::with_capacity(len + 1);
    offsets.push(0);
    let mut end = 0;
    for key in keys() {
        end += key.len();
        offsets.push(offset(end));
    }
    let mut bytes = Vec::with_capacity(end);
    keys().for_each(|key| bytes.extend_from_slice(key));
    Keys::new(offsets, bytes)
}

/// Copies keys of one length.
fn gather_even(width: usize, parts: &[&[u8]], keys: impl ExactSizeIterator<Item = Pick>) -> Keys {
    let len = keys.len();
    offset(len * width);
    // A length that is known is moved by a few instructions, others by a call. These are the lengths of one and of two
    // whole numbers or times.
    let bytes = match width {
        0 => Vec::new(),
        5 => copied::<5>(parts, keys),
        9 => copied::<9>(parts, keys),
        10 => copied::<10>(parts, keys),
        14 => copied::<14>(parts, keys),
        18 => copied::<18>(parts, keys),
        _ => {
            let mut bytes = Vec::with_capacity(len * width);
            keys.for_each(|pick| {
                bytes.extend_from_slice(&parts[pick.part()][pick.row() * width..][..width]);
            });
            bytes
        }
    };
    Keys::even(len, width, bytes)
}

/// The fewer instructions a key takes, the more of them a processor waits for memory for at a time.
fn copied<const WIDTH: usize>(parts: &[&[u8]], keys: impl Iterator<Item = Pick>) -> Vec<u8> {
    let parts: Vec<&[[u8; WIDTH]]> = parts.iter().map(|part| part.as_chunks().0).collect();
    keys.map(|pick| parts[pick.part()][pick.row()]).collect::<Vec<_>>().into_flattened()
}

/// The end of keys as an offset.
pub(super) fn offset(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("the keys of some rows exceed 2 GiB")
}
