//! How much of its rows a flush or a merge has written, so that writers feel it at once and go on at an even pace.
//!
//! The rows of a flush stay in memory until it ends as a whole. But room for those of one flush is kept free, which writers
//! may fill as it goes on. A merge's levels stay until it ends, too; but of those that it will do away with, fewer and fewer
//! count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drillcore_format::ids::TableId;

use crate::state::core::Core;
use crate::state::table_state::Merging;

/// What one flush has written and not given back yet; nothing once this is dropped.
pub struct FlushProgress<'a> {
    core: &'a Core,
    /// Of all its rows ...
    rows: u64,
    /// ... and what they take in memory.
    bytes: u64,
    rows_written: AtomicU64,
}

impl<'a> FlushProgress<'a> {
    /// A flush of some rows that take `bytes` in memory, of which it has written none.
    pub fn new(core: &'a Core, rows: u64, bytes: u64) -> FlushProgress<'a> {
        FlushProgress { core, rows: rows.max(1), bytes, rows_written: AtomicU64::new(0) }
    }

    /// Counts rows that were written; any thread does.
    pub fn wrote(&self, rows: u64) {
        let mut state = self.core.state();
        let before = self.rows_written.fetch_add(rows, Ordering::Relaxed);
        state.flushed_bytes += self.bytes_of(before + rows) - self.bytes_of(before);
        drop(state);
        self.core.wake_all();
    }

    /// Fewer rows than there were may be written, but not more.
    fn bytes_of(&self, rows: u64) -> u64 {
        (u128::from(self.bytes) * u128::from(rows.min(self.rows)) / u128::from(self.rows)) as u64
    }
}

impl Drop for FlushProgress<'_> {
    fn drop(&mut self) {
        let written = self.bytes_of(self.rows_written.load(Ordering::Relaxed));
        self.core.state().flushed_bytes -= written;
    }
}

/// A merge under way, known to its table until this is dropped.
pub struct MergeProgress<'a> {
    core: &'a Core,
    table: TableId,
    merging: Arc<Merging>,
}

impl<'a> MergeProgress<'a> {
    /// Starts to count a merge of `rows` rows that removes `levels_less` levels.
    pub fn new(core: &'a Core, table: TableId, rows: u64, levels_less: usize) -> MergeProgress<'a> {
        let rows_written = AtomicU64::new(0);
        let merging = Arc::new(Merging { levels_less, rows: rows.max(1), rows_written });
        if let Some(entry) = core.state().tables.get_mut(&table) {
            entry.merging.push(merging.clone());
        }
        MergeProgress { core, table, merging }
    }

    /// Counts rows that were written; any thread does.
    pub fn wrote(&self, rows: u64) {
        self.merging.rows_written.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Drop for MergeProgress<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.core.state().tables.get_mut(&self.table) {
            entry.merging.retain(|merging| !Arc::ptr_eq(merging, &self.merging));
        }
    }
}
