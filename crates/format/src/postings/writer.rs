//! Writing the postings of a segment in one pass, set by set.

use crate::cursor::put_u16;
use crate::ids::SegmentId;
use crate::page::{HEADER_BYTES, PAGE_BYTES, PageAddress, PageKind, write_page};
use crate::postings::chunk::{CHUNK, chunk_len, put_chunk};
use crate::postings::directory::{DirectoryBuilder, SetDirectorySummary, SetEntry};
use crate::postings::item_place::ItemPlace;
use crate::postings::list_place::{INLINE_MEMBERS, InlineList, ListPlace};
use crate::postings::skip_table::{
    ENTRY_BYTES, ListRoot, TABLE_CHUNKS, place_entry, put_place_entry,
};
use crate::postings::weights::{
    GroupWeight, SetWeights, TABLE_GROUPS, WEIGHT_GROUP, WeightTables, put_table, table_len,
};

const PAYLOAD_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES;

/// Directory bytes that may wait for the open postings page to fill up, before it is closed early.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// Writes chunks, skip tables and the set directory.
///
/// Finished pages are appended to the caller's buffer, which must go to the file from the writer's
/// file offset on, without a gap. Memory: the places of one list's chunks, one open page, at most
/// about a mebibyte of directory pages beside the longest set value, and the summary: the first value of each directory page.
#[derive(Debug)]
pub struct PostingsWriter {
    segment: SegmentId,
    /// Where the next finished page goes; the open postings page is always the next.
    offset: u64,
    /// The payload of the open postings page.
    page: Vec<u8>,
    directory: DirectoryBuilder,
    summary: SetDirectorySummary,
    last_value: Option<Box<[u8]>>,
    /// How many weight columns there are.
    weights: usize,
}

impl PostingsWriter {
    /// Starts at byte `file_offset` of the segment file, a multiple of [`PAGE_BYTES`]. `weights` is the number of the table's
    /// weight columns.
    pub fn new(segment: SegmentId, file_offset: u64, weights: usize) -> PostingsWriter {
        assert!(
            file_offset.is_multiple_of(PAGE_BYTES as u64),
            "postings at byte {file_offset} are not aligned"
        );
        PostingsWriter {
            segment,
            offset: file_offset,
            page: Vec::new(),
            directory: DirectoryBuilder::default(),
            summary: SetDirectorySummary::of_weights(weights),
            last_value: None,
            weights,
        }
    }

    /// Where the page after the finished ones goes; after [`PostingsWriter::finish`], where the file
    /// goes on, is [`SetDirectorySummary::end`].
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Adds a set: its value and its `count` ordinals, ascending. Values must rise from call to call.
    ///
    /// `all` says that the set is the whole segment, the ordinals `0..count`; `ordinals` is not read. `weights` has the groups
    /// of each weight column, as many of them for each set; those of a whole segment are in its index, too.
    pub fn push(
        &mut self,
        value: &[u8],
        ordinals: impl Iterator<Item = u32>,
        count: u64,
        all: bool,
        weights: &[Vec<GroupWeight>],
        out: &mut Vec<u8>,
    ) {
        assert!(count > 0, "an empty set is not listed");
        assert!(
            self.last_value.as_deref().is_none_or(|last| last < value),
            "set values do not rise"
        );
        let place = if all { ListPlace::All } else { self.put_list(ordinals, count, out) };
        assert_eq!(weights.len(), self.weights, "each set has the same weights");
        let weights = weights.iter().map(|groups| self.put_weights(groups, count, out)).collect();
        self.last_value = Some(value.into());
        self.directory.push(&SetEntry { value: value.into(), count, place, weights });
        // As long as the open page is empty, nothing names it.
        let pending = self.directory.pending_bytes();
        if pending > PENDING_BYTES_MAX || pending > 0 && self.page.is_empty() {
            self.close_page(out);
        }
    }

    /// Writes what is left and returns the summary of the directory. Takes no sets afterwards.
    pub fn finish(mut self, out: &mut Vec<u8>) -> SetDirectorySummary {
        self.directory.close();
        self.close_page(out);
        self.summary.set_end(self.offset);
        self.summary
    }

    fn put_list(
        &mut self,
        mut ordinals: impl Iterator<Item = u32>,
        count: u64,
        out: &mut Vec<u8>,
    ) -> ListPlace {
        let chunks = usize::try_from(count.div_ceil(CHUNK as u64)).expect("a list fits memory");
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut places = Vec::new();
        let (mut left, mut last) = (count, None);
        for _ in 0..chunks {
            chunk.clear();
            chunk.extend(ordinals.by_ref().take(left.min(CHUNK as u64) as usize));
            assert!(!chunk.is_empty(), "a set has other than {count} members");
            left -= chunk.len() as u64;
            assert!(
                last < chunk.first().copied() && chunk.is_sorted_by(|a, b| a < b),
                "ordinals do not rise"
            );
            last = chunk.last().copied();
            if count <= INLINE_MEMBERS {
                break;
            }
            let place = self.put_item(chunk_len(&chunk), out, |page| put_chunk(&chunk, page));
            put_place_entry(&mut places, chunk[0], place);
        }
        assert!(left == 0 && ordinals.next().is_none(), "a set has other than {count} members");
        match places.len() / ENTRY_BYTES {
            0 => ListPlace::Inline(InlineList::of(&chunk)),
            1 => ListPlace::Chunk(place_entry(&places, 0).1),
            _ => ListPlace::Skips(self.put_skip_tables(&places, out)),
        }
    }

    fn put_skip_tables(&mut self, places: &[u8], out: &mut Vec<u8>) -> ListRoot {
        let mut root = Vec::new();
        for entries in places.chunks(TABLE_CHUNKS * ENTRY_BYTES) {
            let place = self.put_item(2 + entries.len(), out, |page| {
                put_u16(page, (entries.len() / ENTRY_BYTES) as u16);
                page.extend_from_slice(entries);
            });
            put_place_entry(&mut root, place_entry(entries, 0).0, place);
        }
        ListRoot::from_entries(&root)
    }

    fn put_weights(&mut self, groups: &[GroupWeight], count: u64, out: &mut Vec<u8>) -> SetWeights {
        assert_eq!(groups.len() as u64, count.div_ceil(WEIGHT_GROUP), "groups of {count} members");
        if let [group] = groups {
            return SetWeights::Group(*group);
        }
        let (mut tables, mut end) = (Vec::new(), 0u128);
        for groups in groups.chunks(TABLE_GROUPS as usize) {
            let place = self.put_item(table_len(groups), out, |page| put_table(groups, page));
            end += groups.iter().map(|group| group.sum).sum::<u128>();
            tables.push((end, place));
        }
        SetWeights::Tables(WeightTables::of(&tables))
    }

    /// Puts an item of `len` bytes into the open page, or into the next one if it does not fit.
    fn put_item(
        &mut self,
        len: usize,
        out: &mut Vec<u8>,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> ItemPlace {
        if self.page.len() + len > PAYLOAD_BYTES_MAX {
            self.close_page(out);
        }
        let place = ItemPlace { page_offset: self.offset, position: self.page.len() as u16 };
        put(&mut self.page);
        assert_eq!(
            self.page.len(),
            usize::from(place.position) + len,
            "the length of an item was not foreseen"
        );
        place
    }

    /// Writes the open postings page, if it holds anything, then the directory pages that waited for
    /// it: its address was given out before they were closed.
    fn close_page(&mut self, out: &mut Vec<u8>) {
        if !self.page.is_empty() {
            let payload = std::mem::take(&mut self.page);
            self.write(PageKind::Postings, &payload, out);
        }
        for page in self.directory.take_closed() {
            let offset = self.offset;
            let bytes = self.write(PageKind::SetDirectory, &page.payload, out);
            self.summary.push(&page.first_value, page.sets, offset, bytes);
        }
    }

    fn write(&mut self, kind: PageKind, payload: &[u8], out: &mut Vec<u8>) -> u32 {
        let before = out.len();
        write_page(
            kind,
            PageAddress { segment: self.segment, offset: self.offset },
            payload,
            true,
            out,
        );
        let bytes = out.len() - before;
        self.offset += bytes as u64;
        u32::try_from(bytes).expect("a page is shorter than 4 GiB")
    }
}
