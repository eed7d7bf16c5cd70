//! Skip tables: where the chunks of a list lie, and of a list of several tables, where these do.

use crate::cursor::{Cursor, put_u16, put_u32};
use crate::error::Result;
use crate::postings::chunk::CHUNK;
use crate::postings::item_place::{ItemPlace, item_at, page_number, place_of};

/// The chunks of a skip table; only the last table of a list may have fewer.
pub const TABLE_CHUNKS: usize = 128;

/// The members whose chunks one skip table lists.
pub const TABLE_MEMBERS: u64 = (TABLE_CHUNKS * CHUNK) as u64;

/// The bytes of an entry: first ordinal and place, of a skip table of a list or of a chunk of a table.
pub(super) const ENTRY_BYTES: usize = 10;

pub(super) fn put_place_entry(out: &mut Vec<u8>, first: u32, place: ItemPlace) {
    put_u32(out, first);
    put_u32(out, page_number(place));
    put_u16(out, place.position);
}

/// Reads entry `number`; there must be one.
pub(super) fn place_entry(entries: &[u8], number: usize) -> (u32, ItemPlace) {
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

/// The skip tables of a list of several chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRoot {
    entries: Box<[u8]>,
}

impl ListRoot {
    pub(super) fn from_entries(entries: &[u8]) -> ListRoot {
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

    pub(super) fn entries(&self) -> &[u8] {
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
