//! The set directory: how many members each set has and where they are listed.

use crate::cursor::{Cursor, put_bytes, put_u16, put_u32, put_varint};
use crate::error::{FormatError, Result};
use crate::page::{HEADER_BYTES, PAGE_BYTES};
use crate::postings::chunk::CHUNK;
use crate::postings::item_place::{page_number, place_of};
use crate::postings::list_place::{INLINE_MEMBERS, InlineList, ListPlace};
use crate::postings::skip_table::{ENTRY_BYTES, ListRoot, TABLE_MEMBERS};
use crate::postings::weights::SetWeights;
use crate::weight::WEIGHTS_MAX;

/// A directory page is closed before its payload exceeds this; only a page of one entry, with a long
/// value or a long list, is longer.
const PAYLOAD_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES;

/// Bytes of the end of an entry.
const END_BYTES: usize = 4;

const PLACE_ALL: u8 = 0;
const PLACE_CHUNK: u8 = 1;
const PLACE_SKIPS: u8 = 2;
const PLACE_INLINE: u8 = 3;

/// What the directory says about one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetEntry {
    /// The encoded value that names the set.
    pub value: Box<[u8]>,
    /// The number of members, at least 1.
    pub count: u64,
    /// Where the members are listed.
    pub place: ListPlace,
    /// Of each weight column.
    pub weights: Vec<SetWeights>,
}

impl SetEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.value);
        put_varint(out, self.count);
        match &self.place {
            ListPlace::All => out.push(PLACE_ALL),
            ListPlace::Inline(list) => {
                out.push(PLACE_INLINE);
                out.extend_from_slice(list.bytes());
            }
            ListPlace::Chunk(place) => {
                out.push(PLACE_CHUNK);
                put_u32(out, page_number(*place));
                put_u16(out, place.position);
            }
            ListPlace::Skips(root) => {
                out.push(PLACE_SKIPS);
                out.extend_from_slice(root.entries());
            }
        }
        self.weights.iter().for_each(|weights| weights.encode(out));
    }

    /// Reads an entry behind its value.
    fn decode(value: &[u8], weights: usize, cursor: &mut Cursor<'_>) -> Result<SetEntry> {
        let count = cursor.varint()?;
        let place = match cursor.u8()? {
            PLACE_ALL => ListPlace::All,
            PLACE_INLINE => {
                let len = usize::try_from(count).unwrap_or(usize::MAX);
                ListPlace::Inline(InlineList::decode(len, cursor)?)
            }
            PLACE_CHUNK => ListPlace::Chunk(place_of(cursor.u32()?, cursor.u16()?)),
            PLACE_SKIPS => {
                let tables = count.div_ceil(TABLE_MEMBERS) as usize;
                ListPlace::Skips(ListRoot::from_entries(
                    cursor.take(tables.saturating_mul(ENTRY_BYTES))?,
                ))
            }
            other => return Err(cursor.error(format!("unknown kind of list {other}"))),
        };
        let fits = match place {
            ListPlace::All => (1..=u64::from(u32::MAX)).contains(&count),
            ListPlace::Inline(_) => (1..=INLINE_MEMBERS).contains(&count),
            ListPlace::Chunk(_) => (INLINE_MEMBERS + 1..=CHUNK as u64).contains(&count),
            ListPlace::Skips(_) => (CHUNK as u64 + 1..=u64::from(u32::MAX)).contains(&count),
        };
        if !fits {
            return Err(cursor.error(format!("{count} members are not listed in this way")));
        }
        let weights = (0..weights).map(|_| SetWeights::decode(count, cursor));
        let weights = weights.collect::<Result<_>>()?;
        Ok(SetEntry { value: value.into(), count, place, weights })
    }
}

/// Entries of a directory page under construction, and the pages closed since they were last taken.
#[derive(Debug, Default)]
pub(super) struct DirectoryBuilder {
    entries: Vec<u8>,
    entry_ends: Vec<u32>,
    first_value: Box<[u8]>,
    closed: Vec<ClosedPage>,
    closed_bytes: usize,
}

/// A directory page that has no place yet.
#[derive(Debug)]
pub(super) struct ClosedPage {
    pub payload: Vec<u8>,
    pub first_value: Box<[u8]>,
    pub sets: u64,
}

impl DirectoryBuilder {
    pub fn push(&mut self, entry: &SetEntry) {
        let start = self.entries.len();
        entry.encode(&mut self.entries);
        if start > 0 && self.payload_len() + 4 > PAYLOAD_BYTES_MAX {
            let entry = self.entries.split_off(start);
            self.close();
            self.entries = entry;
        }
        if self.entry_ends.is_empty() {
            self.first_value = entry.value.clone();
        }
        let end =
            u32::try_from(self.entries.len()).expect("a directory page is shorter than 4 GiB");
        self.entry_ends.push(end);
    }

    fn payload_len(&self) -> usize {
        4 + self.entry_ends.len() * 4 + self.entries.len()
    }

    /// Closes the page under construction, if it has entries.
    pub fn close(&mut self) {
        if self.entry_ends.is_empty() {
            return;
        }
        let mut payload = Vec::with_capacity(self.payload_len());
        put_u32(&mut payload, self.entry_ends.len() as u32);
        for &end in &self.entry_ends {
            put_u32(&mut payload, end);
        }
        payload.append(&mut self.entries);
        let sets = self.entry_ends.len() as u64;
        self.entry_ends.clear();
        self.closed_bytes += payload.len();
        self.closed.push(ClosedPage {
            payload,
            first_value: std::mem::take(&mut self.first_value),
            sets,
        });
    }

    /// Those of closed pages.
    pub fn pending_bytes(&self) -> usize {
        self.closed_bytes
    }

    pub fn take_closed(&mut self) -> Vec<ClosedPage> {
        self.closed_bytes = 0;
        std::mem::take(&mut self.closed)
    }
}

/// A set directory page as it lies on disk. Every access checks what it reads; that values rise is the
/// page checksum's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryPage<'a> {
    /// Where each entry ends.
    ends: &'a [u8],
    entries: &'a [u8],
    /// How many weight columns each has something of.
    weights: usize,
}

impl<'a> DirectoryPage<'a> {
    /// Opens a set directory page's payload; `weights` is the number of the table's weight columns. Costs O(1).
    pub fn parse(payload: &'a [u8], weights: usize) -> Result<DirectoryPage<'a>> {
        let mut cursor = Cursor::new(payload, "set directory page");
        let sets = cursor.u32()? as usize;
        let ends = cursor.take(sets.saturating_mul(END_BYTES))?;
        let page = DirectoryPage { ends, entries: cursor.rest(), weights };
        if page.entry_start(sets) != page.entries.len() {
            let detail = format!("{sets} sets do not fill {} bytes", page.entries.len());
            return Err(cursor.error(detail));
        }
        Ok(page)
    }

    /// The number of sets on this page.
    pub fn len(&self) -> usize {
        self.ends.len() / END_BYTES
    }

    /// Whether no set is on this page.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entry of the set named by `value`, if it is on this page. Costs O(log sets).
    pub fn find(&self, value: &[u8]) -> Result<Option<SetEntry>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.value(middle)?.0.cmp(value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.entry(middle).map(Some),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// All entries, by ascending value.
    pub fn entries(self) -> impl Iterator<Item = Result<SetEntry>> + 'a {
        (0..self.len()).map(move |number| self.entry(number))
    }

    /// The entry at a position, less than [`DirectoryPage::len`].
    pub fn entry(&self, number: usize) -> Result<SetEntry> {
        let (value, mut cursor) = self.value(number)?;
        let entry = SetEntry::decode(value, self.weights, &mut cursor)?;
        cursor.finish()?;
        Ok(entry)
    }

    /// The value of an entry, and what lies behind it.
    fn value(&self, number: usize) -> Result<(&'a [u8], Cursor<'a>)> {
        let range = self.entry_start(number)..self.entry_start(number + 1);
        let Some(entry) = self.entries.get(range.clone()) else {
            let detail = format!("entry {number} has the range {range:?}");
            return Err(FormatError::malformed("set directory page", detail));
        };
        let mut cursor = Cursor::new(entry, "set directory entry");
        Ok((cursor.bytes()?, cursor))
    }

    /// Where entry `number` begins: where the one before it ends.
    fn entry_start(&self, number: usize) -> usize {
        let Some(previous) = number.checked_sub(1) else { return 0 };
        let end = &self.ends[previous * END_BYTES..number * END_BYTES];
        u32::from_le_bytes(end.try_into().expect("four bytes were sliced")) as usize
    }
}

/// The first value and the place of every set directory page of a segment; resident.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetDirectorySummary {
    /// The first values back to back; number `i` ends at `value_ends[i]`.
    values: Vec<u8>,
    value_ends: Vec<usize>,
    places: Vec<(u64, u32)>,
    sets: u64,
    end: u64,
    weights: usize,
}

impl SetDirectorySummary {
    /// An empty summary for a table with this number of weight columns.
    pub(super) fn of_weights(weights: usize) -> SetDirectorySummary {
        SetDirectorySummary { weights, ..SetDirectorySummary::default() }
    }

    pub(super) fn push(&mut self, first_value: &[u8], sets: u64, offset: u64, bytes: u32) {
        self.values.extend_from_slice(first_value);
        self.value_ends.push(self.values.len());
        self.places.push((offset, bytes));
        self.sets += sets;
    }

    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Appends the payload of the summary's page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.sets);
        put_varint(out, self.end);
        put_varint(out, self.weights as u64);
        put_varint(out, self.len() as u64);
        for page in 0..self.len() {
            put_bytes(out, self.first_value(page));
            put_varint(out, self.places[page].0);
            put_varint(out, u64::from(self.places[page].1));
        }
    }

    /// Reads what [`SetDirectorySummary::encode`] wrote.
    pub fn decode(payload: &[u8]) -> Result<SetDirectorySummary> {
        let mut cursor = Cursor::new(payload, "set directory summary");
        let (sets, end) = (cursor.varint()?, cursor.varint()?);
        let weights = cursor.varint()?;
        if weights > WEIGHTS_MAX as u64 {
            return Err(cursor.error(format!("{weights} weight columns")));
        }
        let count = cursor.varint()?;
        let mut summary = SetDirectorySummary::of_weights(weights as usize);
        for page in 0..count {
            let value = cursor.bytes()?;
            let (offset, bytes) = (cursor.varint()?, cursor.varint()?);
            let bytes = u32::try_from(bytes)
                .map_err(|_| cursor.error(format!("a page of {bytes} bytes")))?;
            if page > 0 && summary.first_value(summary.len() - 1) >= value {
                return Err(
                    cursor.error(format!("the first value of page {page} is not ascending"))
                );
            }
            summary.push(value, 0, offset, bytes);
        }
        cursor.finish()?;
        summary.values.shrink_to_fit();
        summary.value_ends.shrink_to_fit();
        summary.places.shrink_to_fit();
        Ok(SetDirectorySummary { sets, end, ..summary })
    }

    /// The number of directory pages.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no directory pages, as in a segment without indexed sets.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many weight columns the entries have something of.
    pub fn weights(&self) -> usize {
        self.weights
    }

    /// The number of sets in the segment.
    pub fn sets(&self) -> u64 {
        self.sets
    }

    /// The file offset behind the postings and their directory.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The only directory page that may hold the set named by `value`. Costs O(log pages).
    pub fn page_of_value(&self, value: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_value(middle) <= value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// File offset and bytes of a directory page.
    pub fn place(&self, page: usize) -> (u64, u32) {
        self.places[page]
    }

    /// The first value on a directory page.
    pub fn first_value(&self, page: usize) -> &[u8] {
        let start = page.checked_sub(1).map_or(0, |previous| self.value_ends[previous]);
        &self.values[start..self.value_ends[page]]
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.values.capacity()
            + self.value_ends.capacity() * size_of::<usize>()
            + self.places.capacity() * size_of::<(u64, u32)>()
    }
}
