//! Writing a segment: one pass over sorted rows, streamed to the file.
//!
//! Blocks are closed by encoded bytes; each index page and its statistics page follow the blocks they
//! describe, so memory does not grow with the blocks. What does grow is the summary (a few bytes per index page) and, where the
//! table has a set column, the posting lists: about a byte or two a row until the rows have passed.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use drillcore_format::block;
use drillcore_format::error::FormatError;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{IndexPageBuilder, Summary, key_hash};
use drillcore_format::key::separator;
use drillcore_format::page::{HEADER_BYTES, PAGE_BYTES, PageAddress, PageKind, write_page};
use drillcore_format::postings::PostingsWriter;
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::segment_footer::{SegmentFooter, write_tail};
use drillcore_format::statistics_page::StatisticsPageBuilder;
use drillcore_format::weight::stored_units;

use crate::directory::{Directory, WriteFile};
use crate::error::{IoContext, Result, StorageError};
use crate::ordinal_list::OrdinalList;
use crate::segment::Segment;

/// Encoded bytes of a block, so that it fills one page.
const BLOCK_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// An index page is closed at this size, to fill two pages.
const INDEX_PAGE_BYTES: usize = 2 * PAGE_BYTES - HEADER_BYTES - 160;
/// Bytes are handed to the file in portions of this size.
const WRITE_BYTES: usize = 256 << 10;

/// A segment under construction.
pub struct SegmentWriter {
    directory: Arc<dyn Directory>,
    file: Box<dyn WriteFile>,
    name: String,
    layout: Layout,
    footer: SegmentFooter,
    /// Bytes not yet handed to the file, which begin at byte `written`.
    pending: Vec<u8>,
    written: u64,
    index: IndexPageBuilder,
    index_first_ordinal: u64,
    index_first_offset: u64,
    index_weights: Vec<u128>,
    statistics: StatisticsPageBuilder,
    summary: Summary,
    sets: HashMap<Box<[u8]>, OrdinalList>,
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
        let name = Segment::file_name(segment);
        let file = directory.create(&name).context("create", &name)?;
        let schema = layout.schema();
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
            set_column: schema.set.map(|column| column as u32),
            blocks: 0,
            index_pages: 0,
        };
        Ok(SegmentWriter {
            directory,
            file,
            name,
            layout: layout.clone(),
            footer,
            pending: Vec::new(),
            written: 0,
            index: IndexPageBuilder::new(),
            index_first_ordinal: 0,
            index_first_offset: 0,
            index_weights: vec![0; layout.weight_count()],
            statistics: StatisticsPageBuilder::new(layout),
            summary: Summary::new(),
            sets: HashMap::new(),
        })
    }

    /// Adds rows, which hold all columns and follow those before them in key order.
    pub fn append(&mut self, rows: &Rows) -> Result<()> {
        self.note_sets(rows)?;
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
            if self.pending.len() >= WRITE_BYTES {
                self.write_out()?;
            }
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
        if self.layout.schema().set.is_some() {
            self.put_sets()?;
        }
        let mut summary = Vec::new();
        self.summary.encode(&mut summary);
        self.footer.summary = self.put_page(PageKind::Summary, &summary, false);
        let mut footer = Vec::new();
        self.footer.encode(&mut footer);
        let (offset, bytes) = self.put_page(PageKind::Footer, &footer, false);
        write_tail(offset, bytes, &mut self.pending);
        self.write_out()?;
        self.file.sync().context("sync", &self.name)?;
        self.directory.sync().context("sync the folder of", &self.name)
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
            self.index_first_offset = self.position();
        }
        let address = self.address();
        let start = self.pending.len();
        write_page(PageKind::Block, address, &payload, true, &mut self.pending);
        let bytes = self.pending.len() - start;
        let pages = (bytes / PAGE_BYTES) as u32;
        self.index.push(shortest, (to - from) as u32, pages, &hashes, weights);
        self.statistics.push_block(to - from, bytes);
        self.index_weights.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        self.footer.rows += (to - from) as u64;
        self.footer.blocks += 1;
        self.footer.last_key.clear();
        self.footer.last_key.extend_from_slice(rows.key(to - 1));
    }

    fn put_index_page(&mut self) {
        let first = self.index.first_separator().to_vec();
        let payload = self.index.finish(self.index_first_ordinal, self.index_first_offset);
        let place = self.put_page(PageKind::Index, &payload, true);
        let statistics = self.statistics.finish();
        let (_, statistics_bytes) = self.put_page(PageKind::Statistics, &statistics, true);
        self.summary.push(&first, self.index_first_ordinal, place, statistics_bytes);
        self.summary.push_weights(&self.index_weights);
        self.index_weights.fill(0);
        self.footer.index_pages += 1;
    }

    fn put_sets(&mut self) -> Result<()> {
        let mut sets: Vec<(Box<[u8]>, OrdinalList)> = self.sets.drain().collect();
        sets.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut writer = PostingsWriter::new(self.footer.segment, self.position());
        for (value, list) in sets {
            let all = list.len() == self.footer.rows;
            writer.push(&value, list.iter(), list.len(), all, &mut self.pending);
            if self.pending.len() >= WRITE_BYTES {
                self.write_out()?;
            }
        }
        let directory = writer.finish(&mut self.pending);
        let mut payload = Vec::new();
        directory.encode(&mut payload);
        self.footer.set_directory = Some(self.put_page(PageKind::SetSummary, &payload, false));
        Ok(())
    }

    fn put_page(&mut self, kind: PageKind, payload: &[u8], pad: bool) -> (u64, u32) {
        let (address, start) = (self.address(), self.pending.len());
        write_page(kind, address, payload, pad, &mut self.pending);
        let bytes =
            u32::try_from(self.pending.len() - start).expect("a page is shorter than 4 GiB");
        (address.offset, bytes)
    }

    fn note_sets(&mut self, rows: &Rows) -> Result<()> {
        let codes = self.layout.set_codes(rows).map_err(|source| self.damaged(source))?;
        let Some(codes) = codes else { return Ok(()) };
        let mut of_code: Vec<Vec<u32>> = vec![Vec::new(); codes.values.len()];
        let first = u32::try_from(self.footer.rows + rows.len() as u64)
            .expect("a segment has fewer than 2^32 rows")
            - rows.len() as u32;
        for (row, &code) in codes.codes.iter().enumerate() {
            of_code[code as usize].push(first + row as u32);
        }
        for (value, ordinals) in codes.values.into_iter().zip(of_code) {
            self.sets.entry(value).or_default().extend(&ordinals);
        }
        Ok(())
    }

    /// Rows that do not decode.
    fn damaged(&self, source: FormatError) -> StorageError {
        StorageError::Damaged { file: self.name.clone(), offset: self.position(), source }
    }

    fn position(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn address(&self) -> PageAddress {
        PageAddress { segment: self.footer.segment, offset: self.position() }
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_all(&self.pending).context("write", &self.name)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Weights were checked when they were appended.
pub(crate) fn weight_units(values: &ArrayRef) -> Vec<u64> {
    stored_units(values).expect("append refuses rows without a weight")
}
