//! Writing a segment: one pass over sorted rows, streamed to the file.
//!
//! Blocks are closed by encoded bytes. Those of an index page wait in memory, some MiB, while their long values are
//! written; then come these blocks, their statistics page and their filter, and behind them the stream pages of
//! the groups that are whole. So memory does not grow with the blocks.
//! What does grow are the index pages, which are written together at the end (some ten bytes per block), and, where the
//! table has a set column, the posting lists: about a byte or two a row until the rows have passed, or until they have no
//! room. Then the segment has none, and they are made later (`postings_writer.rs`).

use std::ops::Range;
use std::sync::Arc;

use drillcore_format::block::{self, Apart, Effort};
use drillcore_format::error::FormatError;
use drillcore_format::extents::INLINE_BYTES_MAX;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{FinishedIndexPage, IndexPageBuilder, Summary, key_hash};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::separator;
use drillcore_format::page::{HEADER_BYTES, PAGE_BYTES, PageKind, page_len};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::StatisticsPageBuilder;
use drillcore_format::value_bytes::string_offsets;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::pages::page_writer::PageWriter;
use crate::postings::set_lists::SetLists;
use crate::segments::extents_writer::LongValues;
use crate::segments::streams_writer::{StreamsWriter, StringsOfBlocks};
use crate::segments::weights::weights_of;

/// Encoded bytes of a block that fills one page.
const BLOCK_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// The most pages of a block of more than one row: what a read of one row takes at most where rows have hundreds of columns.
const BLOCK_PAGES: usize = 4;
/// An index page is closed at this size, so that the last block's entry still fits into one page.
const INDEX_PAGE_BYTES: usize = PAGE_BYTES - HEADER_BYTES - 80;
/// An index page is closed, too, when this many bytes of blocks wait for it: those of rows that have a block, or many, each. Of others
/// some hundred wait.
const WAITING_BYTES_MAX: u64 = 4 << 20;
/// A block is closed when its long values reach this many bytes, because its rows may be read together.
const BLOCK_EXTENT_BYTES: u64 = 256 << 10;

/// A block is closed when its strings had this many bytes before they were compressed. Strings that are all alike take no room in a
/// block, and readers bound what they read at once by the bytes of blocks.
const BLOCK_UNCOMPRESSED_BYTES: usize = 64 << 10;

/// A segment under construction.
pub struct SegmentWriter {
    file: PageWriter,
    layout: Layout,
    footer: SegmentFooter,
    index: IndexPageBuilder,
    index_first_ordinal: u64,
    /// The payloads of whole index pages.
    index_pages: Vec<Vec<u8>>,
    /// The blocks of the index page under construction.
    blocks: Vec<Vec<u8>>,
    block_bytes_waiting: u64,
    index_weights: Vec<u128>,
    statistics: StatisticsPageBuilder,
    summary: Summary,
    sets: SetLists,
    streams: StreamsWriter,
    block_bytes: usize,
    block_pages: usize,
    index_page_bytes: usize,
}

impl SegmentWriter {
    /// Starts the file of a new segment with the commits `lsns` of `table`.
    pub fn create(
        directory: Arc<dyn Directory>,
        segment: SegmentId,
        table: TableId,
        layout: &Layout,
        lsns: LsnRange,
    ) -> Result<SegmentWriter> {
        let file = PageWriter::create(directory, FileKind::Segment, segment)?;
        let schema = layout.schema();
        let indexed = schema.set.as_ref().map_or(IndexedSets::none(), |set| set.indexed.clone());
        let footer = SegmentFooter {
            segment,
            table,
            rows: 0,
            lsns,
            columns: schema.stored_count() as u32,
            first_key: Vec::new(),
            last_key: Vec::new(),
            summary: (0, 0),
            streams: None,
            dictionaries: Vec::new(),
            set_directory: None,
            indexed: IndexedSets::none(),
            set_column: schema.set_column().map(|column| schema.stored.number(column) as u32),
            blocks: 0,
            index_pages: 0,
        };
        Ok(SegmentWriter {
            file,
            layout: layout.clone(),
            footer,
            index: IndexPageBuilder::new(),
            index_first_ordinal: 0,
            index_pages: Vec::new(),
            blocks: Vec::new(),
            block_bytes_waiting: 0,
            index_weights: vec![0; layout.weight_count()],
            statistics: StatisticsPageBuilder::new(layout),
            summary: Summary::new(),
            sets: SetLists::new(indexed, layout),
            streams: StreamsWriter::new(layout),
            block_bytes: BLOCK_BYTES,
            block_pages: BLOCK_PAGES,
            index_page_bytes: INDEX_PAGE_BYTES,
        })
    }

    /// Closes blocks and index pages at other sizes than usual: for tests, in which a few rows are to make many pages.
    pub fn with_page_bytes(self, block_bytes: usize, index_page_bytes: usize) -> SegmentWriter {
        SegmentWriter { block_bytes, block_pages: 1, index_page_bytes, ..self }
    }

    /// Gives the segment no lists of sets, if there are several so far: a pass over its set column makes them later.
    pub fn leave_sets_out(&mut self) {
        if self.sets.len() > 1 {
            self.sets = SetLists::new(IndexedSets::none(), &self.layout);
        }
    }

    /// What lists of sets take, about.
    pub fn list_bytes(&self) -> usize {
        self.sets.bytes()
    }

    /// Adds rows, which hold all columns and follow those before them in key order. Fails on values that do not
    /// decode; that the order is kept, is for the caller to see to.
    pub fn append(&mut self, rows: &Rows) -> Result<()> {
        let weights = weights_of(&self.layout, rows, &self.layout.all());
        let weights = weights.map_err(|error| self.unwritable(error))?;
        let noted = self.sets.note(&self.layout, rows, &weights, self.footer.rows);
        noted.map_err(|error| self.unwritable(error))?;
        if !self.sets.have_room() {
            // The rows go by once.
            self.leave_sets_out();
        }
        let columns = self.layout.stored_columns(rows).map_err(|error| self.unwritable(error))?;
        let StringsOfBlocks { codes, compressed } =
            self.streams.append(&self.layout, rows, &columns);
        self.statistics.begin_batch(columns);
        let is_compressed: Vec<bool> = compressed.iter().map(Option::is_some).collect();
        let stored = rows.values().iter().zip(compressed);
        let stored =
            stored.map(|(strings, compressed)| compressed.unwrap_or_else(|| strings.clone()));
        let stored = rows.with_values(stored.collect());
        let uncompressed_ends = uncompressed_ends(rows, &stored, &is_compressed);
        let rows = &stored;
        let mut from = 0;
        let mut long = LongValues::of(rows, from, self.file.position());
        while from < rows.len() {
            let effort = Effort::Small(Apart {
                codes: &codes,
                compressed: &is_compressed,
                extents: &long.references,
            });
            let most = block::rows_of_block(rows, from, effort, self.block_bytes, self.block_pages);
            let most = rows_within(&uncompressed_ends, from, most, BLOCK_UNCOMPRESSED_BYTES);
            let to = from + long.rows_within(from, most, BLOCK_EXTENT_BYTES);
            let sum = |units: &Vec<u64>| units[from..to].iter().map(|&unit| u128::from(unit)).sum();
            let sums: Vec<u128> = weights.iter().map(sum).collect();
            long.write(rows, from, to, &mut self.file);
            self.put_block(rows, from..to, effort, long.bytes(from, to), &sums);
            from = to;
            if self.index.encoded_len() >= self.index_page_bytes
                || self.block_bytes_waiting >= WAITING_BYTES_MAX
            {
                self.put_index_page()?;
                // The next ones lie behind what was just written.
                long = LongValues::of(rows, from, self.file.position());
            }
            self.file.write_portion()?;
        }
        self.statistics.end_batch();
        Ok(())
    }

    /// The rows added so far.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// The bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.file.position() + self.block_bytes_waiting
    }

    /// Writes the indexes and makes the file durable. The segment must have rows.
    pub fn finish(mut self) -> Result<()> {
        assert!(self.footer.rows > 0, "a segment has rows");
        if !self.index.is_empty() {
            self.put_index_page()?;
        }
        (self.footer.streams, self.footer.dictionaries) = self.streams.finish(&mut self.file);
        self.summary.place_at(self.file.position());
        for payload in std::mem::take(&mut self.index_pages) {
            self.file.put_page(PageKind::Index, &payload, true);
            self.file.write_portion()?;
        }
        if !self.sets.indexed().is_none() {
            self.footer.indexed = self.sets.indexed().clone();
            self.footer.set_directory =
                Some(self.sets.write_all(self.footer.rows, &mut self.file)?);
        }
        let mut summary = Vec::new();
        self.summary.encode(&mut summary);
        self.footer.summary = self.file.put_page(PageKind::Summary, &summary, false);
        let mut footer = Vec::new();
        self.footer.encode(&mut footer);
        self.file.finish(&footer)?;
        Ok(())
    }

    fn put_block(
        &mut self,
        rows: &Rows,
        range: Range<usize>,
        effort: Effort<'_>,
        extent_bytes: u64,
        weights: &[u128],
    ) {
        let Range { start: from, end: to } = range;
        let first = rows.key(from);
        if self.footer.rows == 0 {
            self.footer.first_key = first.to_vec();
        }
        assert!(
            *self.footer.last_key <= *first || self.footer.rows == 0,
            "rows arrive in key order"
        );
        let shortest: &[u8] =
            if self.footer.rows == 0 { &[] } else { separator(&self.footer.last_key, first) };
        let mut payload = Vec::with_capacity(BLOCK_BYTES);
        block::encode(rows, from, to, effort, &mut payload);
        let hashes: Vec<u64> = (from..to).map(|row| key_hash(rows.key(row))).collect();
        let bytes = page_len(0, payload.len(), true);
        if self.index.is_empty() {
            self.index_first_ordinal = self.footer.rows;
        }
        let pages = (bytes / PAGE_BYTES) as u32;
        self.index.push(shortest, (to - from) as u32, pages, extent_bytes, &hashes, weights);
        self.statistics.push_block(to - from, bytes.saturating_add(extent_bytes as usize));
        self.blocks.push(payload);
        self.block_bytes_waiting += bytes as u64;
        self.index_weights.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        self.footer.rows += (to - from) as u64;
        self.footer.blocks += 1;
        self.footer.last_key.clear();
        self.footer.last_key.extend_from_slice(rows.key(to - 1));
    }

    fn put_index_page(&mut self) -> Result<()> {
        // Behind long values.
        self.file.pad();
        let first_offset = self.file.position();
        for payload in self.blocks.drain(..) {
            self.file.put_page(PageKind::Block, &payload, true);
            self.file.write_portion()?;
        }
        self.block_bytes_waiting = 0;
        let first = self.index.first_separator().to_vec();
        let FinishedIndexPage { payload, filter_pages } =
            self.index.finish(self.index_first_ordinal, first_offset);
        let statistics = self.statistics.finish();
        let statistics = self.file.put_page(PageKind::Statistics, &statistics, true);
        for page in filter_pages {
            self.file.put_page(PageKind::Filter, &page, true);
        }
        let bytes = page_len(0, payload.len(), true) as u32;
        self.summary.push(&first, self.index_first_ordinal, bytes, statistics);
        self.index_pages.push(payload);
        self.summary.push_weights(&self.index_weights);
        self.index_weights.fill(0);
        self.footer.index_pages += 1;
        self.streams.put_whole_groups(&mut self.file);
        Ok(())
    }

    /// Rows that do not decode: what they were read from is damaged, not this file.
    fn unwritable(&self, error: FormatError) -> StorageError {
        let (file, rows) = (self.file.name().to_string(), self.footer.rows);
        let detail = format!("the rows that were to follow the first {rows} are damaged: {error}");
        StorageError::Inconsistent { file, detail }
    }
}

/// For each row how many bytes it and those before it had of the strings that stand compressed in their blocks. `stored` has them
/// compressed where `is_compressed` says so. Nothing if none are.
fn uncompressed_ends(rows: &Rows, stored: &Rows, is_compressed: &[bool]) -> Vec<usize> {
    let compressed = (0..is_compressed.len()).filter(|&value| is_compressed[value]);
    let of_column =
        |value| Some((string_offsets(rows.value(value))?, string_offsets(stored.value(value))?));
    let columns: Vec<(&[i32], &[i32])> = compressed.filter_map(of_column).collect();
    if columns.is_empty() {
        return Vec::new();
    }
    let len = |offsets: &[i32], row: usize| (offsets[row + 1] - offsets[row]) as usize;
    let mut end = 0;
    (0..rows.len())
        .map(|row| {
            // Others lie apart from their block.
            let inline = columns.iter().filter(|(_, stored)| len(stored, row) <= INLINE_BYTES_MAX);
            end += inline.map(|(strings, _)| len(strings, row)).sum::<usize>();
            end
        })
        .collect()
}

/// How many rows from `from` on have no more than `bytes_max`, given where the bytes of each row end; one at least, of `most`.
fn rows_within(ends: &[usize], from: usize, most: usize, bytes_max: usize) -> usize {
    if ends.is_empty() {
        return most;
    }
    let start = from.checked_sub(1).map_or(0, |before| ends[before]);
    ends[from..from + most].partition_point(|&end| end - start <= bytes_max).max(1)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, ArrayRef, BinaryArray, StringArray};
    use drillcore_format::symbol_table::StringCompressor;

    use super::*;

    #[test]
    fn a_block_ends_where_its_compressed_strings_had_many_bytes() {
        let long = |at: usize| format!("{at} ").repeat(3_000);
        let text =
            |at: usize| if at % 10 == 9 { long(at) } else { "connection refused ".repeat(200) };
        let texts = StringArray::from_iter_values((0..400).map(text));
        let compressed = StringCompressor::default().compress(&texts, true).unwrap();
        let lens: Vec<usize> = (0..400).map(|row| texts.value(row).len()).collect();
        let other: ArrayRef =
            Arc::new(BinaryArray::from_iter_values((0..400).map(|at| vec![1; at])));
        let rows = Rows::new(400, None, vec![other.clone(), Arc::new(texts)]);
        let stored = Rows::new(400, None, vec![other, compressed.clone()]);
        assert!(uncompressed_ends(&rows, &stored, &[false, false]).is_empty());
        assert_eq!(rows_within(&[], 7, 300, 100), 300);
        let ends = uncompressed_ends(&rows, &stored, &[false, true]);
        let compressed = compressed.to_data();
        let offsets = compressed.buffers()[0].typed_data::<i32>();
        let mut end = 0;
        for row in 0..400 {
            let is_apart = (offsets[row + 1] - offsets[row]) as usize > INLINE_BYTES_MAX;
            assert_eq!(is_apart, row % 10 == 9, "the long ones lie apart");
            end += if is_apart { 0 } else { lens[row] };
            assert_eq!(ends[row], end);
        }
        // 3,800 bytes each.
        assert_eq!(rows_within(&ends, 0, 300, 38_000), 11, "and one that lies apart");
        assert_eq!(rows_within(&ends, 10, 300, 3_799), 1);
        assert_eq!(rows_within(&ends, 390, 10, 1 << 20), 10);
        assert_eq!(rows_within(&ends, 390, 4, 1 << 20), 4);
    }
}
