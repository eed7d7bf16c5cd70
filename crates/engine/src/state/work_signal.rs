//! What wakes workers.

use std::sync::atomic::{AtomicBool, Ordering};

use drillcore_storage::sync::Condvar;

/// Where workers wait for something to do.
#[derive(Default)]
pub struct WorkSignal {
    pub came: Condvar,
    /// Reads have searched the runs of a table often enough that it is worth a look.
    by_reads: AtomicBool,
}

impl WorkSignal {
    /// Says that reads would gain by work on a table that may not have changed.
    pub fn raise_by_reads(&self) {
        self.by_reads.store(true, Ordering::Release);
        // One that is about to wait may miss it, and hears of the next.
        self.came.notify_all();
    }

    /// Whether that was said since this was last asked.
    pub fn take_by_reads(&self) -> bool {
        self.by_reads.load(Ordering::Acquire) && self.by_reads.swap(false, Ordering::AcqRel)
    }
}
