//! A compaction of runs, which may stop between two batches of rows: it then lies with its table, and any thread goes on with it.

use std::sync::Arc;

use drillcore_format::ids::Lsn;

use crate::merge::compacted_run::RunMerge;
use crate::pieces::run::Run;

/// Runs of a table that become one. They are out of play until they are replaced or given back.
pub struct Compaction {
    pub runs: Vec<Arc<Run>>,
    /// Bytes of memory that are reserved for it.
    pub reserved: u64,
    /// How far it is, once it has begun.
    pub begun: Option<Box<Begun>>,
}

impl Compaction {
    /// Whether a run is among those that become one.
    pub fn has(&self, run: &Arc<Run>) -> bool {
        self.runs.iter().any(|of| Arc::ptr_eq(of, run))
    }
}

/// How far a thread goes with a compaction before it pauses: it merges batches until they take these bytes together, one at least. The
/// last thread also puts them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint(pub u64);

impl Stint {
    /// To the end.
    pub const WHOLE: Stint = Stint(u64::MAX);
}

/// The rows that are merged so far, and the newest erasure that the runs knew of when that began.
pub struct Begun {
    pub merge: RunMerge,
    pub since: Lsn,
}
