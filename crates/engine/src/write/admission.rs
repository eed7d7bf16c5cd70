//! How fast writers may fill memory: at once while there is plenty, slower the less is left.
//!
//! Writers also wait for merges: where these lag, levels pile up on disk, and each of them makes reads slower. Of the levels
//! that a merge will do away with, fewer and fewer count as it goes on, so that writers are not held up until it ends.
//!
//! Two things hold rows in memory. What waits to be written out is bounded by `memory_bytes`: near it writers are
//! slowed, and at it they wait. A flush gives memory back at its end only, but room for the rows of one is kept free, and
//! that may be filled as they are written: so writers go on at an even pace. What was written out goes once no snapshot reads it, and nothing but its holder can
//! let go of a snapshot, so for these rows writers are slowed only, and never stopped: the one who holds the snapshot
//! may be the one who writes.

use std::time::{Duration, Instant};

use drillcore_format::ids::TableId;
use drillcore_storage::sync::thread;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::maintenance::scheduler::FLUSH_SHARE;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::table_state::TableState;

/// Above this share of `memory_bytes`, in percent, writers are slowed, the more the nearer the limit.
const SLOW_FROM_PERCENT: u64 = 75;
/// The longest a writer is slowed before the limit.
const SLOW_MAX: Duration = Duration::from_millis(5);
/// All rows in memory may take this many times `memory_bytes` before writers are slowed for the sake of rows that
/// only snapshots hold, until these are spilled ...
const SNAPSHOTS_SLOW_FROM: u64 = 1;
/// ... and at this many times, they are as slow as they get ...
const SNAPSHOTS_SLOWEST_FROM: u64 = 2;
/// ... which is: this share of `memory_bytes` a second.
const SNAPSHOTS_SLOWEST_SHARE: f64 = 64.0;
/// A table may have this many levels left to merge before its writers are slowed for their sake. Without lag it has three
/// of each size, and those being merged ...
const LEVELS_SLOW_FROM: u64 = 16;
/// ... and at this many, they are as slow as they get ...
const LEVELS_SLOWEST_FROM: u64 = 56;
/// ... which is: this share of `memory_bytes` a second.
const LEVELS_SLOWEST_SHARE: f64 = 16.0;
/// One commit is never slowed for longer, by either.
const COMMIT_SLOW_MAX: Duration = Duration::from_secs(2);

/// Whether `bytes` of rows for some tables need not be slowed, nor wait for memory.
pub fn has_plenty(core: &Core, state: &State, tables: &[(TableId, u64)], bytes: u64) -> bool {
    let (memory_bytes, for_rows) = (core.options.memory_bytes, for_rows(core, bytes));
    used(state, for_rows) + bytes <= slow_from(for_rows)
        && snapshots_delay(for_rows, rows_and_held(core, state, for_rows), bytes).is_zero()
        && merges_delay(memory_bytes, levels(state, tables), bytes).is_zero()
}

/// Memory that is reserved for rows about to be published. It is given back unless it is [kept](Admitted::keep).
pub struct Admitted<'a> {
    core: &'a Core,
    bytes: u64,
}

impl<'a> Admitted<'a> {
    /// Reserves memory for `bytes` of rows, whatever there is: for a commit that others wait for.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`.
    pub fn at_once(core: &'a Core, bytes: u64) -> Result<Admitted<'a>> {
        let mut state = core.state();
        state.check_writable()?;
        state.buffered_bytes += bytes;
        Ok(Admitted { core, bytes })
    }

    /// Reserves memory for `bytes` of rows of `tables`: at the limit not before a flush has made room.
    ///
    /// # Errors
    /// Why flushes cannot be done for some time, if memory is full of what they would write out; `Interrupted`, if the caller
    /// wants no more room, and nothing is reserved; `ReadOnly`, `Closed`.
    pub fn wait(
        core: &'a Core,
        tables: &[(TableId, u64)],
        bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<Admitted<'a>> {
        wait_for_memory(core, tables, bytes, interrupt)?;
        Ok(Admitted { core, bytes })
    }

    /// The rows are published: from now on the memory is theirs.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.core.state().buffered_bytes -= self.bytes;
        self.core.wake_all();
    }
}

fn wait_for_memory(
    core: &Core,
    tables: &[(TableId, u64)],
    bytes: u64,
    interrupt: &Interrupt,
) -> Result<()> {
    let started = Instant::now();
    let memory_bytes = core.options.memory_bytes;
    let mut is_stalled = slow_down(core, interrupt, || {
        let for_rows = for_rows(core, bytes);
        if core.meter.row_bytes() <= for_rows {
            return Duration::ZERO;
        }
        let row_bytes = rows_and_held(core, &core.state(), for_rows);
        snapshots_delay(for_rows, row_bytes, bytes)
    })?;
    let merge_started = Instant::now();
    if slow_down(core, interrupt, || {
        merges_delay(memory_bytes, levels(&core.state(), tables), bytes)
    })? {
        is_stalled = true;
        core.state().merge_stall += merge_started.elapsed();
    }
    let mut state = core.state();
    let mut has_called = false;
    loop {
        state.check_writable()?;
        let for_rows = for_rows(core, bytes);
        if used(&state, for_rows) + bytes <= for_rows || state.buffered_bytes == 0 {
            break;
        }
        if !has_called {
            state.hurry_flushes(Instant::now());
        }
        state.check_flushes_go_on()?;
        is_stalled = true;
        if !has_called {
            // Once: writers that wait would wake each other for ever.
            core.wake_all();
            has_called = true;
        }
        // Until then flushes are due, also if readers give memory back meanwhile, which wakes no thread.
        state.waiting_for_memory += 1;
        let waited = core.wait_or_stop(state, interrupt);
        if waited.is_err() {
            core.state().waiting_for_memory -= 1;
        }
        state = waited?;
        state.waiting_for_memory -= 1;
    }
    state.buffered_bytes += bytes;
    let for_rows = for_rows(core, bytes);
    let slow_from = slow_from(for_rows);
    let used = used(&state, for_rows);
    drop(state);
    let excess = used.saturating_sub(slow_from) as f64 / (for_rows - slow_from) as f64;
    if excess > 0.0 {
        is_stalled = true;
        thread::sleep(SLOW_MAX.mul_f64((excess * excess).min(1.0)));
    }
    if is_stalled {
        core.state().stall += started.elapsed();
    }
    Ok(())
}

/// What rows may take for a commit to come in: at least four times as much as it has, so that it fits once flushes are not due any more.
fn for_rows(core: &Core, bytes: u64) -> u64 {
    core.memory_for_rows().max(bytes.saturating_mul(FLUSH_SHARE))
}

/// The bytes of rows that tables have, for which there is memory, and of those that only snapshots hold.
fn rows_and_held(core: &Core, state: &State, for_rows: u64) -> u64 {
    state.row_bytes().min(for_rows) + core.held_row_bytes(state)
}

/// From how much of its memory on writers are slowed.
fn slow_from(for_rows: u64) -> u64 {
    for_rows / 100 * SLOW_FROM_PERCENT
}

/// The bytes of rows in memory, and the room kept for what a flush takes at once, less what flushes under way have written.
/// While no flush may begin, none is kept: writers would wait for it in vain.
fn used(state: &State, for_rows: u64) -> u64 {
    let of_flush = for_rows / FLUSH_SHARE;
    let kept = if state.holds > 0 { 0 } else { of_flush.saturating_sub(state.flushed_bytes) };
    state.buffered_bytes + kept
}

/// The levels left to merge of the one of some tables that has most of them. One whose merges were put off does not count: to
/// wait for those would be in vain.
fn levels(state: &State, tables: &[(TableId, u64)]) -> f64 {
    let tables = tables.iter().filter_map(|(id, _)| state.tables.get(id));
    let merging = tables.filter(|table| table.why_not_merged().is_none());
    merging.map(TableState::levels_left).fold(0.0, f64::max)
}

/// Slows a commit for as long as `delay` says, and returns whether it had to. Ends early once that is less.
fn slow_down(core: &Core, interrupt: &Interrupt, delay: impl Fn() -> Duration) -> Result<bool> {
    let started = Instant::now();
    let mut is_slowed = false;
    loop {
        let left = delay().saturating_sub(started.elapsed());
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
    let excess = excess(multiples, SNAPSHOTS_SLOW_FROM, SNAPSHOTS_SLOWEST_FROM);
    commit_delay(memory_bytes, bytes, excess, SNAPSHOTS_SLOWEST_SHARE)
}

/// How long a commit is slowed while its table with the most levels to merge has `levels` of them.
fn merges_delay(memory_bytes: u64, levels: f64, bytes: u64) -> Duration {
    let excess = excess(levels, LEVELS_SLOW_FROM, LEVELS_SLOWEST_FROM);
    commit_delay(memory_bytes, bytes, excess, LEVELS_SLOWEST_SHARE)
}

/// 0 up to `from`, 1 from `slowest` on.
fn excess(value: f64, from: u64, slowest: u64) -> f64 {
    ((value - from as f64) / (slowest - from) as f64).clamp(0.0, 1.0)
}

/// Slow at first, and at an excess of 1 a share of `memory_bytes` a second.
fn commit_delay(memory_bytes: u64, bytes: u64, excess: f64, slowest_share: f64) -> Duration {
    let at_slowest = bytes as f64 * slowest_share / memory_bytes as f64;
    Duration::from_secs_f64(at_slowest * excess * excess).min(COMMIT_SLOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_slow_writers_from_the_budget_on_and_most_at_twice_of_it() {
        const MEMORY: u64 = 64 << 20;
        let delay = |row_bytes, bytes| snapshots_delay(MEMORY, row_bytes, bytes).as_secs_f64();
        let megabyte = 1 << 20;
        assert_eq!(delay(MEMORY, megabyte), 0.0);
        assert_eq!(delay(MEMORY / 2 * 3, megabyte), 0.25);
        assert_eq!(delay(2 * MEMORY, megabyte), 1.0);
        assert_eq!(delay(9 * MEMORY, megabyte / 2), 0.5, "no slower");
        assert_eq!(delay(2 * MEMORY, MEMORY / 4), 2.0, "never longer for one commit");
    }

    #[test]
    fn levels_slow_writers_smoothly() {
        const MEMORY: u64 = 64 << 20;
        let delay = |levels| merges_delay(MEMORY, f64::from(levels), 1 << 20).as_secs_f64();
        assert_eq!(delay(16), 0.0);
        assert_eq!((delay(36), delay(56)), (0.0625, 0.25));
        assert_eq!(delay(1_000), 0.25, "no slower");
        assert!((16..56).all(|levels| delay(levels + 1) - delay(levels) < 0.02));
    }
}
