//! Waiting until background work has nothing left to do.

use std::time::{Duration, Instant};

use drillcore::Database;

use crate::deadline::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);
/// Several times as long as a table must have no commits before its runs are compacted.
const QUIET: Duration = Duration::from_millis(800);

/// Waits until no runs in memory are being compacted and none have been for a while.
///
/// # Panics
/// If that does not come.
pub fn wait_for_rest(db: &Database) {
    let (mut last, mut since) = (0, Instant::now());
    wait_until(PATIENCE, "no runs are compacted any more", || {
        let stats = db.stats().unwrap();
        let of_runs: u64 = stats.tables.iter().map(|table| table.run_bytes).sum();
        let compactions = stats.writer.unwrap().memory_compactions;
        if stats.buffered_bytes > of_runs || compactions != last {
            (last, since) = (compactions, Instant::now());
        }
        since.elapsed() > QUIET
    });
}
