//! Some ascending ordinals, bit-packed over the first of them (*frame of reference*).

use crate::cursor::{Cursor, put_u16, put_u32};
use crate::error::Result;
use crate::packed::{self, packed_at, packed_len, put_packed};
use crate::postings::item_place::item_at;

/// The ordinals of a chunk; only the last chunk of a list may have fewer.
///
/// At 256 the widest chunk takes a quarter of a page, so pages close with little space left over.
pub const CHUNK: usize = 256;

const HEADER_BYTES: usize = 7;

/// The bytes of a chunk of `ordinals` on a postings page.
pub(super) fn chunk_len(ordinals: &[u32]) -> usize {
    HEADER_BYTES + packed_len(ordinals.len(), width_of(ordinals))
}

/// Appends `ordinals`, 1 to [`CHUNK`] of them, ascending, as a chunk on a postings page.
pub(super) fn put_chunk(ordinals: &[u32], out: &mut Vec<u8>) {
    put_u16(out, ordinals.len() as u16);
    put_ordinals(ordinals, out);
}

/// Appends `ordinals`, 1 to [`CHUNK`] of them, ascending, without their number.
pub(super) fn put_ordinals(ordinals: &[u32], out: &mut Vec<u8>) {
    let (first, width) = (ordinals[0], width_of(ordinals));
    put_u32(out, first);
    out.push(width);
    put_packed(ordinals.iter().map(|ordinal| u64::from(ordinal - first)), width, out);
}

fn width_of(ordinals: &[u32]) -> u8 {
    packed::width_of(u64::from(ordinals[ordinals.len() - 1] - ordinals[0]))
}

/// A chunk inside the payload of a postings page, or of a page of the set directory.
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
        let len = usize::from(cursor.u16()?);
        PostingChunk::of_len(len, &mut cursor)
    }

    /// Reads a chunk of `len` ordinals whose number is stored elsewhere. Costs O(1), and fails as [`PostingChunk::parse`].
    pub(super) fn of_len(len: usize, cursor: &mut Cursor<'a>) -> Result<PostingChunk<'a>> {
        let (first, width) = (cursor.u32()?, cursor.u8()?);
        if !(1..=CHUNK).contains(&len) || width > 32 {
            return Err(cursor.error(format!("{len} ordinals of {width} bits")));
        }
        let packed = cursor.take(packed_len(len, width))?;
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

    /// The least ordinal, that of member 0. O(1).
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

    /// The distance of a member from the first, of at most 32 bits.
    fn delta(&self, member: usize) -> u32 {
        packed_at(self.packed, self.width, member) as u32
    }
}
