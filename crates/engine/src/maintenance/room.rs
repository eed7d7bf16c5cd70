//! Room on the disk: what work that can wait leaves of it, so that commits and edits of the manifest go on.
//!
//! Nothing is known to be free for long: others write to the disk, too. So this is no promise, but it keeps this
//! database from filling the disk itself, and from finding it full half-way through a write that cannot be taken
//! back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use drillcore_storage::error::Lack;

use crate::error::{Error, Result};
use crate::state::core::Core;
use crate::state::plenty::NEEDED_BYTES_MAX;

/// Commits leave so much for edits of the manifest.
const EDITS_BYTES: u64 = 1 << 20;
/// Flushes leave so much, for commits beside them.
const COMMITS_BYTES: u64 = 2 << 20;
/// Merges leave that and this share of `memory_bytes`: rows leave memory, and the log goes on, also while they run.
const FLUSHES_SHARE: u64 = 4;

/// For what else writing leaves room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spare {
    Edits,
    /// Commits as well: rows have to leave memory, or a caller wants them in a segment.
    Commits,
    /// Flushes as well: it can wait.
    Flushes,
}

impl Spare {
    fn bytes(self, core: &Core) -> u64 {
        match self {
            Spare::Edits => EDITS_BYTES,
            Spare::Commits => COMMITS_BYTES,
            Spare::Flushes => COMMITS_BYTES + core.options.memory_bytes / FLUSHES_SHARE,
        }
    }
}

/// How many bytes may be written now; `None` where the directory does not tell.
pub fn left(core: &Core, spare: Spare) -> Option<u64> {
    let free = core.directory.free_bytes().ok()??;
    Some(free.saturating_sub(spare.bytes(core)))
}

/// Refuses to write `needed` bytes, those that `what` takes, where they would not leave enough free.
pub fn check(core: &Core, spare: Spare, what: &str, needed: u64) -> Result<()> {
    let Ok(Some(free)) = core.directory.free_bytes() else { return Ok(()) };
    check_fits(free, spare.bytes(core), what, needed)
}

fn check_fits(free: u64, spared: u64, what: &str, needed: u64) -> Result<()> {
    if free.saturating_sub(spared) >= needed {
        return Ok(());
    }
    Err(Error::lacking(
        Lack::Room,
        format!(
            "{what} needs {needed} bytes of disk space, and {spared} must stay free; only {free} are free"
        ),
    ))
}

/// Bytes that a commit is about to log. Others count them as used until they are written.
pub struct LogBytes {
    core: Arc<Core>,
    bytes: u64,
}

impl LogBytes {
    /// Refuses a commit that does not fit, before anything of it is done. Where plenty of room was left a moment ago, the system
    /// is not asked again.
    ///
    /// # Errors
    /// `StorageFull`.
    pub fn reserve(core: &Arc<Core>, bytes: u64) -> Result<LogBytes> {
        let reserved = LogBytes { core: core.clone(), bytes };
        let needed = core.unlogged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let now = Instant::now();
        if needed <= NEEDED_BYTES_MAX && core.plenty.is_free(now) {
            return Ok(reserved);
        }
        let Ok(Some(free)) = core.directory.free_bytes() else { return Ok(reserved) };
        core.plenty.note(free, now);
        let what = "the commit, with those before it in the queue,";
        check_fits(free, Spare::Edits.bytes(core), what, needed)?;
        Ok(reserved)
    }
}

impl Drop for LogBytes {
    fn drop(&mut self) {
        self.core.unlogged_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
