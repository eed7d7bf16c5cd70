//! How much reads would have saved, had a table fewer runs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::work_signal::WorkSignal;

/// Searches that a thread counts for itself before it adds them to those of the others.
const SEARCHES_TOGETHER: u64 = 64;
/// Workers are woken after this number of searches, and then each time it has doubled.
pub const SEARCHES_MIN: u64 = 1 << 10;

/// Searches of all runs of a table since reads had some of them compacted last. Clones share the count.
#[derive(Clone)]
pub struct RunDemand {
    searches: Arc<AtomicU64>,
    /// Where workers wait.
    work: Arc<WorkSignal>,
}

impl RunDemand {
    pub fn new(searches: Arc<AtomicU64>, work: Arc<WorkSignal>) -> RunDemand {
        RunDemand { searches, work }
    }

    /// Counts searches of all runs. Mostly that is an addition of the thread's own: what it has counted together counts for the
    /// table that it searches then.
    pub fn note(&self, searches: u64) {
        thread_local! {
            static COUNTED: Cell<u64> = const { Cell::new(0) };
        }
        let counted = COUNTED.get().saturating_add(searches);
        if counted < SEARCHES_TOGETHER {
            COUNTED.set(counted);
            return;
        }
        COUNTED.set(0);
        let before = self.searches.fetch_add(counted, Ordering::Relaxed);
        let after = before.saturating_add(counted);
        if after >= SEARCHES_MIN && (before.max(1).ilog2() < after.ilog2()) {
            self.work.raise_by_reads();
        }
    }
}
