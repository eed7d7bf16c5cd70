//! How much of its rows a flush has yet to write.
//!
//! They stay in memory until the flush ends as a whole. But writers are kept from what it has not written beforehand, and may
//! fill that bit by bit: so they go on at an even pace, and do not wait for its end.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::core::Core;

/// What one flush has yet to write; nothing once this is dropped.
pub struct Unwritten<'a> {
    core: &'a Core,
    /// Of all its rows ...
    rows: u64,
    /// ... and what they take in memory.
    bytes: u64,
    rows_written: AtomicU64,
}

impl<'a> Unwritten<'a> {
    /// A flush of some rows that take `bytes` in memory.
    pub fn new(core: &'a Core, rows: u64, bytes: u64) -> Unwritten<'a> {
        core.state().unwritten_bytes += bytes;
        Unwritten { core, rows: rows.max(1), bytes, rows_written: AtomicU64::new(0) }
    }

    /// Counts rows that were written; any thread does.
    pub fn wrote(&self, rows: u64) {
        let mut state = self.core.state();
        let before = self.rows_written.fetch_add(rows, Ordering::Relaxed);
        state.unwritten_bytes -= self.bytes_of(before + rows) - self.bytes_of(before);
        drop(state);
        self.core.state_changed.notify_all();
    }

    /// Fewer rows than there were may be written, but not more.
    fn bytes_of(&self, rows: u64) -> u64 {
        (u128::from(self.bytes) * u128::from(rows.min(self.rows)) / u128::from(self.rows)) as u64
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        let written = self.bytes_of(self.rows_written.load(Ordering::Relaxed));
        self.core.state().unwritten_bytes -= self.bytes - written;
    }
}
