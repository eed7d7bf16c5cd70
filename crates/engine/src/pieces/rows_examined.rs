//! How many rows in memory were looked at: the measure of whether a question costs what its answer
//! costs, or what the buffer holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of runs whose keys were compared or whose values were handed on, by reads as well as by the
/// compactions in memory and flushes that rewrite them. Clones share the count; it is added to once a search or a fetch.
#[derive(Debug, Clone, Default)]
pub struct RowsExamined {
    rows: Arc<AtomicU64>,
}

impl RowsExamined {
    pub fn add(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn total(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}
