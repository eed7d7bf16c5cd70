//! Writing a segment: one pass over sorted rows, streamed to the file.
//!
//! Blocks are closed by encoded bytes; each index page and its statistics page follow the blocks they
//! describe, so memory does not grow with the blocks. What does grow is the summary (a few bytes per index page) and, where the
//! table has a set column, the posting lists: about a byte or two a row until the rows have passed.

use std::sync::Arc;

use arrow_array::ArrayRef;
use drillcore_format::block;
use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{IndexPageBuilder, Summary, key_hash};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::separator;
use drillcore_format::page::{HEADER_BYTES, PAGE_BYTES, PageKind};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::StatisticsPageBuilder;
use drillcore_format::weight::stored_units;

use crate::directory::Directory;
use crate::error::{Result, StorageError};
use crate::page_writer::PageWriter;
use crate::set_lists::SetLists;

/// Encoded bytes of a block, so that it fills one page.
const BLOCK_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// An index page is closed at this size, to fill two pages.
const INDEX_PAGE_BYTES: usize = 2 * PAGE_BYTES - HEADER_BYTES - 160;

/// A segment under construction.
pub struct SegmentWriter {
    file: PageWriter,
    layout: Layout,
    footer: SegmentFooter,
    index: IndexPageBuilder,
    index_first_ordinal: u64,
    index_first_offset: u64,
    index_weights: Vec<u128>,
    statistics: StatisticsPageBuilder,
    summary: Summary,
    sets: SetLists,
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
            columns: schema.columns.fields().len() as u32,
            first_key: Vec::new(),
            last_key: Vec::new(),
            summary: (0, 0),
            set_directory: None,
            indexed: IndexedSets::none(),
            set_column: schema.set_column().map(|column| column as u32),
            blocks: 0,
            index_pages: 0,
        };
        Ok(SegmentWriter {
            file,
            layout: layout.clone(),
            footer,
            index: IndexPageBuilder::new(),
            index_first_ordinal: 0,
            index_first_offset: 0,
            index_weights: vec![0; layout.weight_count()],
            statistics: StatisticsPageBuilder::new(layout),
            summary: Summary::new(),
            sets: SetLists::new(indexed),
        })
    }

    /// Adds rows, which hold all columns and follow those before them in key order.
    pub fn append(&mut self, rows: &Rows) -> Result<()> {
        let noted = self.sets.note(&self.layout, rows, self.footer.rows);
        noted.map_err(|source| self.damaged(source))?;
        self.statistics.begin_batch(rows).map_err(|source| self.damaged(source))?;
        let weights: Vec<Vec<u64>> =
            self.layout.weight_values().map(|value| weight_units(rows.value(value))).collect();
        let mut from = 0;
        while from < rows.len() {
            let to = from + block::rows_that_fit(rows, from, BLOCK_BYTES);
            let sum = |units: &Vec<u64>| units[from..to].iter().map(|&unit| u128::from(unit)).sum();
            let sums: Vec<u128> = weights.iter().map(sum).collect();
            self.put_block(rows, from, to, &sums);
            from = to;
            if self.index.encoded_len() >= INDEX_PAGE_BYTES {
                self.put_index_page();
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

    /// Writes what follows the blocks and makes the file durable. The segment must have rows.
    pub fn finish(mut self) -> Result<()> {
        assert!(self.footer.rows > 0, "a segment has rows");
        if !self.index.is_empty() {
            self.put_index_page();
        }
        if !self.sets.indexed().is_none() {
            self.footer.indexed = self.sets.indexed().clone();
            self.footer.set_directory = Some(self.sets.write(self.footer.rows, &mut self.file)?);
        }
        let mut summary = Vec::new();
        self.summary.encode(&mut summary);
        self.footer.summary = self.file.put_page(PageKind::Summary, &summary, false);
        let mut footer = Vec::new();
        self.footer.encode(&mut footer);
        self.file.finish(&footer)?;
        Ok(())
    }

    fn put_block(&mut self, rows: &Rows, from: usize, to: usize, weights: &[u128]) {
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
        block::encode(rows, from, to, &mut payload);
        let hashes: Vec<u64> = (from..to).map(|row| key_hash(rows.key(row))).collect();
        if self.index.is_empty() {
            self.index_first_ordinal = self.footer.rows;
            self.index_first_offset = self.file.position();
        }
        let (_, bytes) = self.file.put_page(PageKind::Block, &payload, true);
        let pages = bytes / PAGE_BYTES as u32;
        self.index.push(shortest, (to - from) as u32, pages, &hashes, weights);
        self.statistics.push_block(to - from, bytes as usize);
        self.index_weights.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        self.footer.rows += (to - from) as u64;
        self.footer.blocks += 1;
        self.footer.last_key.clear();
        self.footer.last_key.extend_from_slice(rows.key(to - 1));
    }

    fn put_index_page(&mut self) {
        let first = self.index.first_separator().to_vec();
        let payload = self.index.finish(self.index_first_ordinal, self.index_first_offset);
        let place = self.file.put_page(PageKind::Index, &payload, true);
        let statistics = self.statistics.finish();
        let (_, statistics_bytes) = self.file.put_page(PageKind::Statistics, &statistics, true);
        self.summary.push(&first, self.index_first_ordinal, place, statistics_bytes);
        self.summary.push_weights(&self.index_weights);
        self.index_weights.fill(0);
        self.footer.index_pages += 1;
    }

    /// Rows that do not decode.
    fn damaged(&self, source: FormatError) -> StorageError {
        let (file, offset) = (self.file.name().to_string(), self.file.position());
        StorageError::Damaged { file, offset, source }
    }
}

/// Weights were checked when they were appended.
pub(crate) fn weight_units(values: &ArrayRef) -> Vec<u64> {
    stored_units(values).expect("append refuses rows without a weight")
}
