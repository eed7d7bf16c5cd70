//! A compaction of runs, which may stop between two batches of rows: it then lies with its table, and any thread goes on with it.

use std::sync::Arc;

use drillcore_format::ids::Lsn;

use crate::merge::compacted_run::{RunMerge, total_bytes};
use crate::pieces::run::Run;

/// Runs of a table that become one. They are out of play until they are replaced or given back.
pub struct Compaction {
    pub runs: Vec<Arc<Run>>,
    /// Bytes of memory that are reserved for it.
    pub reserved: u64,
    /// How far it is, once it has begun.
    pub begun: Option<Box<Begun>>,
}

/// What writers help with takes this much at most: the thread that copies the last rows also indexes all, which takes some milliseconds.
pub const HELPED_BYTES_MAX: u64 = 64 << 20;

impl Compaction {
    /// Whether writers may go on with it.
    pub fn may_be_helped(&self) -> bool {
        total_bytes(&self.runs) <= HELPED_BYTES_MAX
    }

    /// Whether a run is among those that become one.
    pub fn has(&self, run: &Arc<Run>) -> bool {
        self.runs.iter().any(|of| Arc::ptr_eq(of, run))
    }
}

/// How far a thread goes with a compaction before it pauses: a batch of rows at least, which it merges or copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stint {
    /// To the end.
    Whole,
    /// Until batches take these bytes together.
    Bytes(u64),
    /// Until it has to wait for a processor, if meanwhile others append to the table, who then go on.
    UntilOthersCan,
}

/// The rows that are merged so far, and the newest erasure that the runs knew of when that began.
pub struct Begun {
    pub merge: RunMerge,
    pub since: Lsn,
}
