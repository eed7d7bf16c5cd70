//! How fast writers may fill memory: at once while there is plenty, slower the less is left.
//!
//! Two things hold rows in memory. What waits to be written out is bounded by `memory_bytes`: near it writers are
//! slowed, and at it they wait. What was written out goes once no snapshot reads it, and nothing but its holder can
//! let go of a snapshot, so for these rows writers are slowed only, and never stopped: the one who holds the snapshot
//! may be the one who writes.

use std::time::{Duration, Instant};

use drillcore_storage::sync::thread;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::state::core::Core;

/// Above this share of `memory_bytes`, in percent, writers are slowed, the more the nearer the limit.
const SLOW_FROM_PERCENT: u64 = 75;
/// The longest a writer is slowed before the limit.
const SLOW_MAX: Duration = Duration::from_millis(5);
/// All rows in memory may take this many times `memory_bytes` before writers are slowed for the sake of rows that
/// only snapshots hold ...
const SNAPSHOTS_SLOW_FROM: u64 = 2;
/// ... and at this many times, they are as slow as they get ...
const SNAPSHOTS_SLOWEST_FROM: u64 = 4;
/// ... which is: this share of `memory_bytes` a second, but never longer for one commit than ...
const SLOWEST_SHARE: u64 = 64;
/// ... this.
const SNAPSHOTS_SLOW_MAX: Duration = Duration::from_secs(2);

/// Reserves memory for `bytes` of rows about to be published: at the limit not before a flush has made room.
///
/// # Errors
/// Why flushes cannot be done for some time, if memory is full of what they would write out; `Interrupted`, if the caller wants no more room, and nothing is reserved; `ReadOnly`, `Closed`.
pub fn admit(core: &Core, bytes: u64, interrupt: &Interrupt) -> Result<()> {
    let started = Instant::now();
    let mut is_stalled = wait_for_snapshots(core, bytes, interrupt)?;
    let limit = core.options.memory_bytes;
    let mut state = core.state();
    loop {
        state.check_writable()?;
        if state.buffered_bytes + bytes <= limit || state.buffered_bytes == 0 {
            break;
        }
        state.check_flushes_go_on()?;
        is_stalled = true;
        core.state_changed.notify_all();
        state = core.wait_or_stop(state, interrupt)?;
    }
    state.buffered_bytes += bytes;
    let slow_from = limit / 100 * SLOW_FROM_PERCENT;
    let excess = state.buffered_bytes.saturating_sub(slow_from) as f64 / (limit - slow_from) as f64;
    drop(state);
    if excess > 0.0 {
        is_stalled = true;
        thread::sleep(SLOW_MAX.mul_f64((excess * excess).min(1.0)));
    }
    if is_stalled {
        core.state().stall += started.elapsed();
    }
    Ok(())
}

/// Slows a commit of `bytes` for the rows that only snapshots hold, and returns whether it had to. Ends early once the
/// snapshots are dropped.
fn wait_for_snapshots(core: &Core, bytes: u64, interrupt: &Interrupt) -> Result<bool> {
    let started = Instant::now();
    let mut is_slowed = false;
    loop {
        let delay = snapshots_delay(core.options.memory_bytes, core.meter.bytes(), bytes);
        let left = delay.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(is_slowed);
        }
        is_slowed = true;
        interrupt.check()?;
        core.state().check_writable()?;
        thread::sleep(left.min(Interrupt::POLL));
    }
}

/// How long a commit is slowed while all rows in memory take `row_bytes`.
fn snapshots_delay(memory_bytes: u64, row_bytes: u64, bytes: u64) -> Duration {
    let multiples = row_bytes as f64 / memory_bytes as f64;
    let (from, slowest) = (SNAPSHOTS_SLOW_FROM as f64, SNAPSHOTS_SLOWEST_FROM as f64);
    let excess = ((multiples - from) / (slowest - from)).clamp(0.0, 1.0);
    let at_slowest = bytes as f64 * SLOWEST_SHARE as f64 / memory_bytes as f64;
    Duration::from_secs_f64(at_slowest * excess * excess).min(SNAPSHOTS_SLOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_slow_writers_from_twice_the_budget_on_and_most_at_four_times() {
        const MEMORY: u64 = 64 << 20;
        let delay = |row_bytes, bytes| snapshots_delay(MEMORY, row_bytes, bytes).as_secs_f64();
        let megabyte = 1 << 20;
        assert_eq!(delay(2 * MEMORY, megabyte), 0.0);
        assert_eq!(delay(3 * MEMORY, megabyte), 0.25);
        assert_eq!(delay(4 * MEMORY, megabyte), 1.0);
        assert_eq!(delay(9 * MEMORY, megabyte / 2), 0.5, "no slower");
        assert_eq!(delay(4 * MEMORY, MEMORY / 4), 2.0, "never longer for one commit");
    }
}
