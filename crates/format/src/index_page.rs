//! The partition index: where the blocks of a segment lie, by key and by ordinal.
//!
//! An *index page* describes consecutive blocks; those of a segment lie together. Per block it holds
//! a shortened separator key, where its rows end and where its bytes end, in arrays of fixed-width
//! entries, so that it is searched as it lies. The filter over the keys of all its rows lies in pages of its own: so an
//! index page is small, and who needs no filter reads none. Above the index pages lies the resident
//! [`Summary`]. Reading pages is left to the storage floor. Drawn in `docs/format.md`, section
//! "Index pages".

mod search;
mod filter;
mod summary;

use crate::cursor::{Cursor, put_u32, put_u64};
use crate::error::Result;
use crate::key::{Bound, shared_len};
use crate::page::PAGE_BYTES;

pub use filter::{FilterPlace, key_hash, may_contain};
use search::{last_before, partition_point, partition_point_near};
pub use summary::Summary;

const FIXED_BYTES: usize = 33;

/// The unit in which the extents of blocks are measured.
const EXTENT_UNIT_BYTES: u64 = 1 << 10;

/// No block is longer than this many pages: its bytes fit 32 bits.
const BLOCK_PAGES_MAX: u32 = u32::MAX / PAGE_BYTES as u32;

/// Collects the entries of one index page after the other.
#[derive(Debug, Default)]
pub struct IndexPageBuilder {
    /// The separators back to back; number `i` ends at `separator_ends[i]`.
    separators: Vec<u8>,
    separator_ends: Vec<usize>,
    row_ends: Vec<u32>,
    page_ends: Vec<u32>,
    /// Units of extents.
    extent_ends: Vec<u32>,
    /// Hashes of the distinct keys.
    key_hashes: Vec<u64>,
    /// Length of the prefix that all separators share.
    prefix_len: usize,
    /// Per weight column, the sums of the blocks up to and with each.
    weight_ends: Vec<Vec<u128>>,
}

impl IndexPageBuilder {
    /// A builder whose page has no block yet.
    pub fn new() -> IndexPageBuilder {
        IndexPageBuilder::default()
    }

    /// Adds the next block: its separator, rows, length in pages of [`PAGE_BYTES`], bytes of its extents, the hashes of
    /// the keys of its rows in key order, and its rows' sum of each weight column.
    ///
    /// Separators must not fall. Repeated keys are counted once by the filter.
    pub fn push(
        &mut self,
        separator: &[u8],
        rows: u32,
        pages: u32,
        extent_bytes: u64,
        key_hashes: &[u64],
        weights: &[u128],
    ) {
        if self.is_empty() {
            self.weight_ends = vec![Vec::new(); weights.len()];
        }
        assert_eq!(weights.len(), self.weight_ends.len(), "every block has the same weights");
        for (ends, weight) in self.weight_ends.iter_mut().zip(weights) {
            let end = ends.last().copied().unwrap_or(0).checked_add(*weight);
            ends.push(end.expect("a page's weights fit 128 bits"));
        }
        assert!(rows > 0, "a block has rows");
        assert!((1..=BLOCK_PAGES_MAX).contains(&pages), "a block of {pages} pages");
        assert!(rows as usize <= pages as usize * PAGE_BYTES, "{rows} rows in {pages} pages");
        assert!(!key_hashes.is_empty(), "a filter that leaves keys out would hide them");
        self.prefix_len = match self.separator_ends.last() {
            None => separator.len(),
            Some(_) => {
                assert!(self.last_separator() <= separator, "a separator falls");
                shared_len(&self.separators[..self.prefix_len], separator)
            }
        };
        self.separators.extend_from_slice(separator);
        self.separator_ends.push(self.separators.len());
        let sum =
            |ends: &[u32], more: u32| ends.last().map_or(Some(more), |last| last.checked_add(more));
        self.row_ends.push(sum(&self.row_ends, rows).expect("a segment has fewer than 2^32 rows"));
        self.page_ends
            .push(sum(&self.page_ends, pages).expect("an index page covers less than 16 TiB"));
        let units = u32::try_from(extent_bytes.div_ceil(EXTENT_UNIT_BYTES)).ok();
        self.extent_ends.push(
            units
                .and_then(|units| sum(&self.extent_ends, units))
                .expect("an index page covers less than 4 TiB of extents"),
        );
        for &hash in key_hashes {
            if self.key_hashes.last() != Some(&hash) {
                self.key_hashes.push(hash);
            }
        }
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.row_ends.len()
    }

    /// Whether the page under construction has no block.
    pub fn is_empty(&self) -> bool {
        self.row_ends.is_empty()
    }

    /// The rows of all its blocks.
    pub fn rows(&self) -> u64 {
        self.row_ends.last().map_or(0, |&rows| u64::from(rows))
    }

    /// The separator of the first block; there must be one.
    pub fn first_separator(&self) -> &[u8] {
        &self.separators[..self.separator_ends[0]]
    }

    fn last_separator(&self) -> &[u8] {
        let start = if self.len() > 1 { self.separator_ends[self.len() - 2] } else { 0 };
        &self.separators[start..]
    }

    /// The bytes [`IndexPageBuilder::finish`] would return now. Costs O(1).
    pub fn encoded_len(&self) -> usize {
        let entry = self.widths().iter().map(|&width| usize::from(width)).sum::<usize>();
        let weights: usize = self.weight_ends.iter().map(|ends| weights_len(ends)).sum();
        FIXED_BYTES + self.prefix_len + self.len() * entry + self.suffix_bytes() + weights
    }

    /// Encodes the payload of the page, and those of its filter's pages, and starts over with an empty page.
    ///
    /// `first_ordinal` is that of the first row of the first block, which lies at byte
    /// `first_block_offset` of the segment file; the others follow without a gap.
    pub fn finish(&mut self, first_ordinal: u64, first_block_offset: u64) -> FinishedIndexPage {
        assert!(!self.is_empty(), "an index page describes blocks");
        let len = self.encoded_len();
        let mut out = Vec::with_capacity(len);
        let widths = self.widths();
        put_u64(&mut out, first_ordinal);
        put_u64(&mut out, first_block_offset);
        put_u32(&mut out, self.len() as u32);
        put_u32(&mut out, self.prefix_len as u32);
        put_u32(&mut out, filter::line_count(self.key_hashes.len()) as u32);
        out.extend_from_slice(&widths);
        out.push(u8::try_from(self.weight_ends.len()).expect("create_table allows 255 weights"));
        out.extend_from_slice(&self.separators[..self.prefix_len]);
        for &end in &self.row_ends {
            put_entry(&mut out, end, widths[0]);
        }
        for &end in &self.page_ends {
            put_entry(&mut out, end, widths[1]);
        }
        if widths[2] > 0 {
            self.extent_ends.iter().for_each(|&end| put_entry(&mut out, end, widths[2]));
        }
        for (number, &end) in self.separator_ends.iter().enumerate() {
            put_entry(&mut out, (end - (number + 1) * self.prefix_len) as u32, widths[3]);
        }
        let mut start = 0;
        for &end in &self.separator_ends {
            out.extend_from_slice(&self.separators[start + self.prefix_len..end]);
            start = end;
        }
        for ends in &self.weight_ends {
            put_weights(ends, &mut out);
        }
        assert_eq!(out.len(), len, "the length of an index page was not foreseen");
        let filter_pages = filter::filter_pages(&self.key_hashes);
        self.clear();
        FinishedIndexPage { payload: out, filter_pages }
    }

    fn suffix_bytes(&self) -> usize {
        self.separators.len() - self.len() * self.prefix_len
    }

    /// Bytes of a row end, a page end, an end of extents, which there may be none of, and a separator end.
    fn widths(&self) -> [u8; 4] {
        let last = |ends: &[u32]| ends.last().copied().unwrap_or(0);
        let suffixes =
            u32::try_from(self.suffix_bytes()).expect("an index page is shorter than 4 GiB");
        let extents = match last(&self.extent_ends) {
            0 => 0,
            units => entry_width(units),
        };
        let [rows, pages, suffixes] =
            [last(&self.row_ends), last(&self.page_ends), suffixes].map(entry_width);
        [rows, pages, extents, suffixes]
    }

    fn clear(&mut self) {
        self.separators.clear();
        self.separator_ends.clear();
        self.row_ends.clear();
        self.page_ends.clear();
        self.extent_ends.clear();
        self.key_hashes.clear();
        self.prefix_len = 0;
        self.weight_ends.clear();
    }
}

/// Payloads of an index page and of the pages of its filter.
pub struct FinishedIndexPage {
    /// The index page: separators, ends of rows and pages, weights.
    pub payload: Vec<u8>,
    /// The filter over the keys of the page's rows, in one page or several.
    pub filter_pages: Vec<Vec<u8>>,
}

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// The ordinal of the block's first row.
    pub first_ordinal: u64,
    /// The rows in the block, at least 1.
    pub rows: u32,
    /// File offset of the block's page.
    pub offset: u64,
    /// The length of the block's page, padding included.
    pub bytes: u32,
    /// About the bytes of its extents: as much or up to a KiB more.
    pub extent_bytes: u64,
    /// The block's position in its index page.
    pub number: usize,
}

/// An index page as it lies on disk, checked and ready to be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPage {
    payload: Box<[u8]>,
    first_ordinal: u64,
    first_block_offset: u64,
    blocks: usize,
    rows: u32,
    prefix_len: usize,
    row_ends: Entries,
    page_ends: Entries,
    /// `None` if no block has extents.
    extent_ends: Option<Entries>,
    suffix_ends: Entries,
    suffixes: usize,
    weights: Box<[WeightEnds]>,
    filter_lines: usize,
}

impl IndexPage {
    /// Reads what [`IndexPageBuilder::finish`] returned. Costs O(bytes), and a few times as much memory until it returns.
    pub fn parse(payload: &[u8]) -> Result<IndexPage> {
        let mut cursor = Cursor::new(payload, "index page");
        let (first_ordinal, first_block_offset) = (cursor.u64()?, cursor.u64()?);
        let (blocks, prefix_len) = (cursor.u32()? as usize, cursor.u32()? as usize);
        let filter_lines = cursor.u32()? as usize;
        let widths = [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
        let weight_count = cursor.u8()?;
        if blocks == 0 {
            return Err(cursor.error(format!("a header of {blocks} blocks")));
        }
        let is_known = |(number, width): (usize, &u8)| match width {
            0 => number == 2,
            width => [1, 2, 4].contains(width),
        };
        if let Some((_, width)) = widths.iter().enumerate().find(|entry| !is_known(*entry)) {
            return Err(cursor.error(format!("entries of {width} bytes")));
        }
        cursor.take(prefix_len)?;
        let entries = |cursor: &mut Cursor<'_>, width: u8| {
            let entries = Entries { start: payload.len() - cursor.rest().len(), width };
            cursor.take(blocks * usize::from(width)).map(|_| entries)
        };
        let row_ends = entries(&mut cursor, widths[0])?;
        let page_ends = entries(&mut cursor, widths[1])?;
        let extent_ends = (widths[2] > 0).then(|| entries(&mut cursor, widths[2])).transpose()?;
        let suffix_ends = entries(&mut cursor, widths[3])?;
        let suffixes = payload.len() - cursor.rest().len();
        cursor.take(suffix_ends.get(payload, blocks - 1) as usize)?;
        let mut weights = Vec::new();
        for _ in 0..weight_count {
            let width = cursor.u8()?;
            if ![8, 16].contains(&width) {
                return Err(cursor.error(format!("weights of {width} bytes")));
            }
            let start = payload.len() - cursor.rest().len();
            let len = blocks.checked_mul(usize::from(width));
            cursor.take(len.ok_or_else(|| cursor.error("weights do not fit memory"))?)?;
            weights.push(WeightEnds { start, width });
        }
        cursor.clone().finish()?;
        let page = IndexPage {
            payload: payload.into(),
            first_ordinal,
            first_block_offset,
            blocks,
            rows: row_ends.get(payload, blocks - 1),
            prefix_len,
            row_ends,
            page_ends,
            extent_ends,
            suffix_ends,
            suffixes,
            weights: weights.into(),
            filter_lines,
        };
        page.check().map_err(|detail| cursor.error(detail))?;
        Ok(page)
    }

    /// What the searches rely on: rows and pages rise, and so that a number of rows is worth as many bytes,
    /// separators and weights do not fall, positions fit. That the page is the one it was looked up as, is
    /// left to who reads it.
    fn check(&self) -> std::result::Result<(), String> {
        let last = |entries: Entries| u64::from(entries.get(&self.payload, self.blocks - 1));
        let bytes = last(self.page_ends) * PAGE_BYTES as u64;
        let fit = self.first_ordinal.checked_add(last(self.row_ends)).is_some()
            && self.first_block_offset.checked_add(bytes).is_some();
        if !fit {
            return Err("a position does not fit 64 bits".into());
        }
        if self.filter_lines > filter::line_count(self.rows as usize) {
            let (lines, rows) = (self.filter_lines, self.rows);
            return Err(format!("a filter of {lines} lines over {rows} rows"));
        }
        let ends = |ends: Entries| ends.all(&self.payload, self.blocks);
        let (row_ends, page_ends) = (ends(self.row_ends), ends(self.page_ends));
        let mut spans = row_ends.windows(2).zip(page_ends.windows(2));
        // Each row takes at least a byte of its block.
        let rise = |ends: &[u32]| ends[1].saturating_sub(ends[0]);
        let fits = |(rows, pages): (&[u32], &[u32])| {
            let (rows, pages) = (rise(rows), rise(pages));
            let rows_max = u64::from(pages) * PAGE_BYTES as u64;
            (1..=rows_max).contains(&u64::from(rows)) && pages <= BLOCK_PAGES_MAX
        };
        if let Some(number) = spans.position(|span| !fits(span)) {
            let (rows, pages) = (&row_ends[number..number + 2], &page_ends[number..number + 2]);
            return Err(format!(
                "block {number} has the rows from {} to {} and the pages from {} to {}",
                rows[0], rows[1], pages[0], pages[1]
            ));
        }
        let falls = |ends: &[u32]| ends.windows(2).position(|ends| ends[0] > ends[1]);
        if let Some(number) = self.extent_ends.and_then(|extents| falls(&ends(extents))) {
            return Err(format!("the extents of block {number} end before they begin"));
        }
        let suffix_ends = ends(self.suffix_ends);
        if let Some(number) = falls(&suffix_ends) {
            return Err(format!("separator {number} ends before it begins"));
        }
        // The last end lies within them, and so do all.
        let suffixes = &self.payload[self.suffixes..];
        let mut before = (0, &[][..]);
        for (number, ends) in suffix_ends.windows(2).enumerate() {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            // Mostly their first bytes differ, and to compare these is faster.
            let next = (leading_word(&suffixes[start..], end - start), &suffixes[start..end]);
            if before > next {
                return Err(format!("separator {number} is less than the one before"));
            }
            before = next;
        }
        for (weight, ends) in self.weights.iter().enumerate() {
            let end = |number| ends.get(&self.payload, number);
            if let Some(number) = (1..self.blocks).find(|&number| end(number - 1) > end(number)) {
                return Err(format!("weight {weight} decreases at block {number}"));
            }
        }
        Ok(())
    }

    /// The number of blocks, at least 1.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The rows of all blocks.
    pub fn rows(&self) -> u64 {
        u64::from(self.rows)
    }

    /// The ordinal of the first row of the first block.
    pub fn first_ordinal(&self) -> u64 {
        self.first_ordinal
    }

    /// The file offset behind the last block.
    pub fn blocks_end(&self) -> u64 {
        let pages = self.span(self.page_ends, self.blocks - 1).end;
        self.first_block_offset + (pages * PAGE_BYTES) as u64
    }

    /// Whether this is the separator of the first block.
    pub fn begins_with(&self, separator: &[u8]) -> bool {
        let prefix = &self.payload[FIXED_BYTES..FIXED_BYTES + self.prefix_len];
        separator.strip_prefix(prefix) == Some(self.suffix(0))
    }

    /// The place of block `number`. Costs O(1).
    pub fn block(&self, number: usize) -> BlockPlace {
        assert!(number < self.blocks, "block {number} of {}", self.blocks);
        let (rows, pages) = (self.span(self.row_ends, number), self.span(self.page_ends, number));
        BlockPlace {
            first_ordinal: self.first_ordinal + rows.start as u64,
            rows: rows.len() as u32,
            offset: self.first_block_offset + (pages.start * PAGE_BYTES) as u64,
            bytes: (pages.len() * PAGE_BYTES) as u32,
            extent_bytes: self
                .extent_span(number)
                .map_or(0, |units| units.len() as u64 * EXTENT_UNIT_BYTES),
            number,
        }
    }

    /// About the bytes of the extents of block `number` and those behind it in the page.
    pub fn extent_bytes_from(&self, number: usize) -> u64 {
        let Some(ends) = self.extent_ends else { return 0 };
        let units = self.span(ends, self.blocks - 1).end - self.span(ends, number).start;
        units as u64 * EXTENT_UNIT_BYTES
    }

    /// The units of extents of block `number` among those of the page.
    fn extent_span(&self, number: usize) -> Option<std::ops::Range<usize>> {
        self.extent_ends.map(|ends| self.span(ends, number))
    }

    /// The block that holds `ordinal`, which must be one of the page's. Costs O(log blocks), and two or three looks where all have about
    /// as many rows: each is another cache line of a page that was mostly not looked at for long.
    pub fn block_of_ordinal(&self, ordinal: u64) -> BlockPlace {
        let within = ordinal.checked_sub(self.first_ordinal).filter(|&row| row < self.rows());
        let row = within.unwrap_or_else(|| {
            panic!(
                "ordinal {ordinal} is none of the {} from {} on",
                self.rows(),
                self.first_ordinal
            )
        });
        let guess = (row * self.blocks as u64 / self.rows()) as usize;
        let row_ends = |number| u64::from(self.row_ends.get(&self.payload, number));
        self.block(partition_point_near(guess, self.blocks, |number| row_ends(number) > row))
    }

    /// The block in which the first row behind a bound lies, or at whose end it would: the last block
    /// whose separator is not behind the bound, else the first. Costs O(log blocks).
    pub fn block_of_bound(&self, bound: &Bound) -> BlockPlace {
        let bound = bound.within(&self.payload[FIXED_BYTES..FIXED_BYTES + self.prefix_len]);
        self.block(last_before(self.blocks, |number| bound.lies_before(self.suffix(number))))
    }

    /// The sum of a weight column over the page's blocks before block `number`.
    pub fn weight_before(&self, weight: usize, number: usize) -> u128 {
        number.checked_sub(1).map_or(0, |previous| self.weight_end(weight, previous))
    }

    /// The block that holds the `target`-th unit of a weight column, counted from 0 over the page's
    /// rows; it must be below the page's sum. Costs O(log blocks).
    pub fn block_of_weight(&self, weight: usize, target: u128) -> BlockPlace {
        self.block(partition_point(self.blocks, |number| self.weight_end(weight, number) > target))
    }

    /// How many weight columns the page sums up.
    pub fn weights(&self) -> usize {
        self.weights.len()
    }

    fn weight_end(&self, weight: usize, number: usize) -> u128 {
        self.weights[weight].get(&self.payload, number)
    }

    /// How many pages the filter over the keys of all rows has.
    pub fn filter_pages(&self) -> usize {
        filter::page_count(self.filter_lines)
    }

    /// Where the filter tells of a [`key_hash`] whether a row with that key may be in one of the blocks: see
    /// [`may_contain`]. `None` if there is no filter, so that it may be.
    pub fn filter_place(&self, hash: u64) -> Option<FilterPlace> {
        filter::place(self.filter_lines, hash)
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The part of a block's separator behind the common prefix.
    fn suffix(&self, number: usize) -> &[u8] {
        let span = self.span(self.suffix_ends, number);
        &self.payload[self.suffixes + span.start..self.suffixes + span.end]
    }

    /// From the end of entry `number - 1` to the end of entry `number`.
    fn span(&self, ends: Entries, number: usize) -> std::ops::Range<usize> {
        let start = number.checked_sub(1).map_or(0, |previous| ends.get(&self.payload, previous));
        start as usize..ends.get(&self.payload, number) as usize
    }
}

/// An array of little-endian integers of 1, 2 or 4 bytes inside a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entries {
    start: usize,
    width: u8,
}

impl Entries {
    /// 0, and the first `count`: so each number lies from one to the next.
    fn all(self, payload: &[u8], count: usize) -> Vec<u32> {
        let bytes = &payload[self.start..self.start + count * usize::from(self.width)];
        let mut ends = Vec::with_capacity(count + 1);
        ends.push(0);
        match self.width {
            1 => ends.extend(bytes.iter().map(|&end| u32::from(end))),
            2 => ends
                .extend(bytes.as_chunks().0.iter().map(|&end| u32::from(u16::from_le_bytes(end)))),
            _ => ends.extend(bytes.as_chunks().0.iter().map(|&end| u32::from_le_bytes(end))),
        }
        ends
    }

    fn get(self, payload: &[u8], number: usize) -> u32 {
        let at = self.start + number * usize::from(self.width);
        match self.width {
            1 => u32::from(payload[at]),
            2 => u32::from(u16::from_le_bytes([payload[at], payload[at + 1]])),
            _ => {
                u32::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes were sliced"))
            }
        }
    }
}

/// Running sums of 8 or 16 bytes inside a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WeightEnds {
    start: usize,
    width: u8,
}

impl WeightEnds {
    fn get(self, payload: &[u8], number: usize) -> u128 {
        let at = self.start + number * usize::from(self.width);
        let mut bytes = [0; 16];
        bytes[..usize::from(self.width)]
            .copy_from_slice(&payload[at..at + usize::from(self.width)]);
        u128::from_le_bytes(bytes)
    }
}

/// The first bytes of a string, of which it has `len`, as a number, with zeros behind its end: not above that of a greater string.
fn leading_word(bytes: &[u8], len: usize) -> u64 {
    let word = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..len.min(8)].copy_from_slice(&bytes[..len.min(8)]);
        word
    });
    u64::from_be_bytes(word) & !u64::MAX.unbounded_shr(8 * len.min(8) as u32)
}

fn weight_width(ends: &[u128]) -> u8 {
    if ends.last().is_none_or(|&sum| u64::try_from(sum).is_ok()) { 8 } else { 16 }
}

fn weights_len(ends: &[u128]) -> usize {
    1 + ends.len() * usize::from(weight_width(ends))
}

fn put_weights(ends: &[u128], out: &mut Vec<u8>) {
    let width = weight_width(ends);
    out.push(width);
    for end in ends {
        out.extend_from_slice(&end.to_le_bytes()[..usize::from(width)]);
    }
}

fn entry_width(max: u32) -> u8 {
    match max {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

fn put_entry(out: &mut Vec<u8>, value: u32, width: u8) {
    out.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
}

#[cfg(test)]
mod tests;
