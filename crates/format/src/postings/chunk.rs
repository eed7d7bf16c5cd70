//! Some ascending ordinals, bit-packed over the first of them (*frame of reference*).

use super::{CHUNK, item_at};
use crate::cursor::{Cursor, put_u16, put_u32};
use crate::error::Result;

const HEADER_BYTES: usize = 7;

/// The bytes of a chunk of `ordinals`.
pub(super) fn chunk_len(ordinals: &[u32]) -> usize {
    HEADER_BYTES + packed_bytes(ordinals.len(), width_of(ordinals))
}

/// Appends `ordinals`, 1 to [`CHUNK`] of them, ascending.
pub(super) fn put_chunk(ordinals: &[u32], out: &mut Vec<u8>) {
    let (first, width) = (ordinals[0], width_of(ordinals));
    put_u32(out, first);
    put_u16(out, ordinals.len() as u16);
    out.push(width);
    let (mut pending, mut pending_bits) = (0u64, 0);
    for &ordinal in ordinals {
        pending |= u64::from(ordinal - first) << pending_bits;
        pending_bits += u32::from(width);
        while pending_bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            pending_bits -= 8;
        }
    }
    if pending_bits > 0 {
        out.push(pending as u8);
    }
}

fn width_of(ordinals: &[u32]) -> u8 {
    let span = ordinals[ordinals.len() - 1] - ordinals[0];
    (u32::BITS - span.leading_zeros()) as u8
}

fn packed_bytes(len: usize, width: u8) -> usize {
    (len * usize::from(width)).div_ceil(8)
}

/// A chunk inside a postings page's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingChunk<'a> {
    first: u32,
    len: usize,
    width: u8,
    packed: &'a [u8],
}

impl<'a> PostingChunk<'a> {
    /// The chunk at `position` of a postings page's payload. Costs O(1).
    ///
    /// Fails if the chunk runs past the page or past the last ordinal. Whether the ordinals between the
    /// first and the last ascend shows when they are read.
    pub fn parse(payload: &'a [u8], position: u16) -> Result<PostingChunk<'a>> {
        let mut cursor = Cursor::new(item_at(payload, position)?, "posting chunk");
        let (first, len, width) = (cursor.u32()?, usize::from(cursor.u16()?), cursor.u8()?);
        if !(1..=CHUNK).contains(&len) || width > 32 {
            return Err(cursor.error(format!("{len} ordinals of {width} bits")));
        }
        let packed = cursor.take(packed_bytes(len, width))?;
        let chunk = PostingChunk { first, len, width, packed };
        if chunk.delta(0) != 0 || first.checked_add(chunk.delta(len - 1)).is_none() {
            return Err(cursor.error("its first or its last ordinal is out of range"));
        }
        Ok(chunk)
    }

    /// The number of ordinals, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a chunk is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn first(&self) -> u32 {
        self.first
    }

    /// The ordinal of member `member` of the chunk, less than [`PostingChunk::len`]. Costs O(1).
    pub fn select(&self, member: usize) -> u32 {
        assert!(member < self.len, "member {member} of {}", self.len);
        // Only bytes that break the chunk's promise can overflow; those read as some ordinal.
        self.first.wrapping_add(self.delta(member))
    }

    /// The members below `ordinal`. Costs O(log [`CHUNK`]).
    pub fn rank(&self, ordinal: u32) -> usize {
        let Some(delta) = ordinal.checked_sub(self.first) else {
            return 0;
        };
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.delta(middle) < delta {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Appends all ordinals.
    pub fn decode_into(&self, out: &mut Vec<u32>) {
        out.extend((0..self.len).map(|member| self.first.wrapping_add(self.delta(member))));
    }

    /// The distance of a member from the first. At most 32 bits behind a shift of at most 7: five
    /// bytes hold it.
    fn delta(&self, member: usize) -> u32 {
        let bit = member * usize::from(self.width);
        let mask = (1u64 << self.width) - 1;
        let bytes = &self.packed[bit / 8..];
        let word = match bytes.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
        };
        ((word >> (bit % 8)) & mask) as u32
    }
}
