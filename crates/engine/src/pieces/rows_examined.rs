//! How many rows in memory were looked at: the measure of whether a question costs what its answer
//! costs, or what the buffer holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters that threads share out among themselves.
const COUNTERS: usize = 16;

/// Rows of runs whose keys were compared or whose values were handed on, by reads as well as by the
/// compactions in memory and flushes that rewrite them. Clones share the count; it is added to once a search or a fetch.
///
/// Readers of the same rows add to different cache lines: to one that all share, more of them would read less.
#[derive(Debug, Clone, Default)]
pub struct RowsExamined {
    rows: Arc<[Counter; COUNTERS]>,
}

/// Alone in its cache line, and in the neighbour that processors fetch with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl RowsExamined {
    pub fn add(&self, rows: usize) {
        self.rows[own_counter()].0.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn total(&self) -> u64 {
        self.rows.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }
}

/// The counter of this thread.
fn own_counter() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS;
    }
    OWN.with(|own| *own)
}
