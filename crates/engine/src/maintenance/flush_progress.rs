//! How much of its rows a flush has written.
//!
//! They stay in memory until the flush ends as a whole. But room for the rows of one flush is kept free, which writers may
//! fill as the flush goes on: so they go on at an even pace, and do not wait for its end.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::core::Core;

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
        self.core.state_changed.notify_all();
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
