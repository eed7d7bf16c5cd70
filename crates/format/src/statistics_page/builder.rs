//! Collects the zones of statistics pages.

use arrow_array::ArrayRef;

use crate::block;
use crate::pick::Pick;
use crate::rows::{Layout, Rows};
use crate::statistics_page::statistics_layout::{StatisticsLayout, ZoneSpan};

/// A zone covers at least this many bytes of blocks for each byte of its bounds, written plainly: statistics
/// stay a small share of a segment, however many columns there are and however few rows a block has.
const BLOCK_BYTES_PER_BOUND_BYTE: usize = 8;

/// Collects the zones of one statistics page after the other.
///
/// Holds the statistics of the page under construction and the columns of the present batch.
#[derive(Debug)]
pub struct StatisticsPageBuilder {
    layout: StatisticsLayout,
    zone_bytes_min: usize,
    /// The columns of the rows whose blocks come in.
    batch: Vec<ArrayRef>,
    /// The rows of the batch that have been measured.
    measured: usize,
    /// The zones that have not, and the bytes of the last one's blocks, 0 once it is closed.
    spans: Vec<ZoneSpan>,
    open_bytes: usize,
    /// What was measured for the page.
    zones: Vec<Rows>,
}

impl StatisticsPageBuilder {
    /// A builder for segments of a table, whose page has no zone yet.
    pub fn new(table: &Layout) -> StatisticsPageBuilder {
        let layout = StatisticsLayout::new(table);
        StatisticsPageBuilder {
            zone_bytes_min: layout.bound_bytes() * BLOCK_BYTES_PER_BOUND_BYTE,
            layout,
            batch: Vec::new(),
            measured: 0,
            spans: Vec::new(),
            open_bytes: 0,
            zones: Vec::new(),
        }
    }

    /// Takes the rows that the next blocks hold: their columns as [`Layout::stored_columns`] gives them. No zone
    /// reaches from one batch into the next.
    pub fn begin_batch(&mut self, columns: Vec<ArrayRef>) {
        self.measure();
        self.batch = columns;
        self.measured = 0;
    }

    /// Adds the block of the next `rows` rows of the batch, which takes `bytes` bytes.
    pub fn push_block(&mut self, rows: usize, bytes: usize) {
        match self.spans.last_mut().filter(|_| self.open_bytes > 0) {
            Some(span) => {
                span.rows += rows as u64;
                span.blocks += 1;
            }
            None => self.spans.push(ZoneSpan { rows: rows as u64, blocks: 1 }),
        }
        self.open_bytes += bytes;
        if self.open_bytes >= self.zone_bytes_min {
            self.open_bytes = 0;
        }
    }

    /// Ends the batch and lets go of its columns.
    pub fn end_batch(&mut self) {
        self.measure();
        self.batch.clear();
    }

    /// Encodes the page's payload and starts over with an empty page. There must be a block.
    pub fn finish(&mut self) -> Vec<u8> {
        self.measure();
        let parts: Vec<&Rows> = self.zones.iter().collect();
        let rows = Rows::interleave(&parts, &Pick::all(self.zones.iter().map(Rows::len)));
        let mut payload = Vec::new();
        block::encode(&rows, 0, rows.len(), block::Effort::Quick, &mut payload);
        self.zones.clear();
        payload
    }

    fn measure(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        self.zones.push(self.layout.measure(&self.batch, self.measured, &self.spans));
        self.measured += self.spans.iter().map(|span| span.rows as usize).sum::<usize>();
        self.spans.clear();
        self.open_bytes = 0;
    }
}
