//! Set postings: the rows of each set, as ascending ordinals.
//!
//! A list is cut into *chunks* of [`CHUNK`] ordinals, each bit-packed over its first. Chunks lie in
//! postings pages of [`PAGE_BYTES`]; none straddles two. A list of several chunks also has *skip
//! tables*, each with the first ordinal and the place of [`TABLE_CHUNKS`] chunks, in the same pages;
//! the set's directory entry names its skip tables. So the i-th member and the rank of an ordinal
//! cost one skip table and one chunk, at most two page reads, however long the list is. Where the table has weight columns,
//! a list has *weight tables* of each, too.
//!
//! The *set directory* holds an entry per set, sorted by value, in pages of its own; a resident
//! [`SetDirectorySummary`] holds the first value of each. [`PostingsWriter`] streams all of it in one
//! pass. Reading pages is left to the caller: every search says which page it needs next, or takes a
//! function that reads one. Drawn in `docs/format.md`, section "Set postings".

mod chunk;
mod directory;
mod search;
mod weights;
mod writer;

use crate::cursor::{Cursor, put_u16, put_u32};
use crate::error::{FormatError, Result};
use crate::page::PAGE_BYTES;

pub use chunk::PostingChunk;
pub use directory::{DirectoryPage, SetDirectorySummary, SetEntry};
pub use weights::{GroupWeight, WEIGHT_GROUP, WeightGroup, WeightTables};
pub use writer::PostingsWriter;

/// The ordinals of a chunk; only the last chunk of a list may have fewer.
///
/// At 256 the widest chunk takes a quarter of a page, so pages close with little space left over.
pub const CHUNK: usize = 256;

/// The chunks of a skip table; only the last table of a list may have fewer.
pub const TABLE_CHUNKS: usize = 128;

/// The members whose chunks one skip table lists.
pub const TABLE_MEMBERS: u64 = (TABLE_CHUNKS * CHUNK) as u64;

/// Where a chunk or a skip table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemPlace {
    /// File offset of the postings page, which is [`PAGE_BYTES`] long.
    pub page_offset: u64,
    /// Byte position in the page's payload.
    pub position: u16,
}

/// Where the members of a set are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListPlace {
    /// The set is the whole segment; nothing is stored.
    All,
    /// The list is one chunk.
    Chunk(ItemPlace),
    /// The list has several chunks.
    Skips(ListRoot),
}

/// The bytes of an entry: first ordinal and place, of a skip table of a list or of a chunk of a table.
const ENTRY_BYTES: usize = 10;

fn put_place_entry(out: &mut Vec<u8>, first: u32, place: ItemPlace) {
    put_u32(out, first);
    put_u32(out, page_number(place));
    put_u16(out, place.position);
}

/// Reads entry `number`; there must be one.
fn place_entry(entries: &[u8], number: usize) -> (u32, ItemPlace) {
    let entry = &entries[number * ENTRY_BYTES..(number + 1) * ENTRY_BYTES];
    let page = u32::from_le_bytes(entry[4..8].try_into().expect("four bytes were sliced"));
    let position = u16::from_le_bytes([entry[8], entry[9]]);
    (first_of_entry(entries, number), place_of(page, position))
}

fn first_of_entry(entries: &[u8], number: usize) -> u32 {
    let at = number * ENTRY_BYTES;
    u32::from_le_bytes(entries[at..at + 4].try_into().expect("four bytes were sliced"))
}

/// The last of `entries` whose first ordinal is at most `ordinal`, else the first.
fn entry_of_ordinal(entries: &[u8], ordinal: u32) -> usize {
    let (mut low, mut high) = (0, entries.len() / ENTRY_BYTES);
    while low < high {
        let middle = low + (high - low) / 2;
        if first_of_entry(entries, middle) <= ordinal {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.saturating_sub(1)
}

/// Postings pages are aligned, so that a page number of 32 bits reaches 16 TiB.
fn page_number(place: ItemPlace) -> u32 {
    u32::try_from(place.page_offset / PAGE_BYTES as u64)
        .expect("a segment file is shorter than 16 TiB")
}

fn place_of(page: u32, position: u16) -> ItemPlace {
    ItemPlace { page_offset: u64::from(page) * PAGE_BYTES as u64, position }
}

/// The skip tables of a list of several chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRoot {
    entries: Box<[u8]>,
}

impl ListRoot {
    fn from_entries(entries: &[u8]) -> ListRoot {
        ListRoot { entries: entries.into() }
    }

    /// The number of skip tables, at least 1.
    pub fn tables(&self) -> usize {
        self.entries.len() / ENTRY_BYTES
    }

    /// The place of a skip table. Table `t` has the members from `t * TABLE_MEMBERS` on.
    pub fn table(&self, number: usize) -> ItemPlace {
        place_entry(&self.entries, number).1
    }

    /// The only skip table that may have `ordinal`: the last whose first ordinal is at most it.
    pub fn table_of_ordinal(&self, ordinal: u32) -> usize {
        entry_of_ordinal(&self.entries, ordinal)
    }

    fn entries(&self) -> &[u8] {
        &self.entries
    }
}

/// A skip table inside a postings page's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipTable<'a> {
    entries: &'a [u8],
}

impl<'a> SkipTable<'a> {
    /// The table at `position` of a postings page's payload. Costs O(1).
    pub fn parse(payload: &'a [u8], position: u16) -> Result<SkipTable<'a>> {
        let mut cursor = Cursor::new(item_at(payload, position)?, "skip table");
        let chunks = usize::from(cursor.u16()?);
        if !(1..=TABLE_CHUNKS).contains(&chunks) {
            return Err(cursor.error(format!("{chunks} chunks")));
        }
        Ok(SkipTable { entries: cursor.take(chunks * ENTRY_BYTES)? })
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.entries.len() / ENTRY_BYTES
    }

    /// The place of a chunk. Chunk `c` has the table's members from `c * CHUNK` on.
    pub fn chunk(&self, number: usize) -> ItemPlace {
        place_entry(self.entries, number).1
    }

    /// The only chunk that may have `ordinal`: the last whose first ordinal is at most it.
    pub fn chunk_of_ordinal(&self, ordinal: u32) -> usize {
        entry_of_ordinal(self.entries, ordinal)
    }
}

fn item_at(payload: &[u8], position: u16) -> Result<&[u8]> {
    payload.get(usize::from(position)..).ok_or_else(|| {
        let detail = format!("byte {position} of {} is named", payload.len());
        FormatError::malformed("postings page", detail)
    })
}

#[cfg(test)]
mod tests;
