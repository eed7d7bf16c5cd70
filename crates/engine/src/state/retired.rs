//! Runs that have left their table, for a moment.
//!
//! Snapshots that are about to end may hold them still. The last one to let go of a run frees its memory, which takes as long as a few
//! small reads. So that this is no read, such runs stay here until nothing else holds them, and threads that write or maintain let go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pieces::run::Run;

/// Longer runs are not freed by commits.
const FREED_BY_COMMITS: u64 = 1 << 20;
/// How long runs stay that snapshots go on holding: they take memory.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs that are in no table any more.
#[derive(Debug, Default)]
pub struct Retired {
    runs: Vec<Arc<Run>>,
    /// When all of them are let go of.
    until: Option<Instant>,
}

impl Retired {
    /// Adds some.
    pub fn add(&mut self, runs: &[Arc<Run>]) {
        if self.runs.is_empty() {
            self.until = None;
        }
        self.runs.extend(runs.iter().cloned());
    }

    /// Takes out those that nothing else holds, of which a commit may free some, to be dropped without the lock.
    #[must_use = "they are dropped once the state is unlocked"]
    pub fn take_small(&mut self) -> Vec<Arc<Run>> {
        // With a run that was spilled goes its file.
        let is_small = |run: &Arc<Run>| run.bytes() <= FREED_BY_COMMITS && run.spilled().is_none();
        self.runs.extract_if(.., |run| is_small(run) && is_free(run)).collect()
    }

    /// Whether there are some that nothing else holds, or that were held for a while. To be asked again at [`Retired::until`].
    pub fn has_free(&mut self) -> bool {
        if self.runs.is_empty() {
            return false;
        }
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + PAUSE);
        until <= now || self.runs.iter().any(is_free)
    }

    /// Takes them out, to be dropped without the lock.
    #[must_use = "they are dropped once the state is unlocked"]
    pub fn take_free(&mut self) -> Vec<Arc<Run>> {
        if !self.has_free() {
            return Vec::new();
        }
        if self.until.is_some_and(|until| until <= Instant::now()) {
            return self.take_all();
        }
        self.runs.extract_if(.., |run| is_free(run)).collect()
    }

    /// Takes out all.
    #[must_use = "they are dropped once the state is unlocked"]
    pub fn take_all(&mut self) -> Vec<Arc<Run>> {
        self.until = None;
        std::mem::take(&mut self.runs)
    }

    /// The bytes of those that nothing else holds.
    pub fn free_bytes(&self) -> u64 {
        self.runs.iter().filter(|run| is_free(run)).map(|run| run.bytes()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// When all are let go of, if some are held and it was [asked](Retired::has_free).
    pub fn until(&self) -> Option<Instant> {
        self.until.filter(|_| !self.is_empty())
    }
}

/// Whether nothing else holds a run.
fn is_free(run: &Arc<Run>) -> bool {
    Arc::strong_count(run) == 1
}
