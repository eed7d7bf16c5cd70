//! Which runs of a table are compacted in memory, and the memory that this takes.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use drillcore_format::ids::{Lsn, TableId};

use crate::maintenance::jobs::Job;
use crate::maintenance::tiering::{Tiering, run_candidates};
use crate::merge::compacted_run::{compaction_bytes, total_bytes};
use crate::pieces::run::Run;
use crate::state::compaction::{Compaction, HELPED_BYTES_MAX, Stint};
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::run_demand::SEARCHES_MIN;
use crate::state::slots::{Slot, take};
use crate::state::table_state::TableState;

/// Neighbouring runs compacted at once. Wide, because each compaction rewrites rows and a search of one more run
/// is cheap.
const RUN_FANOUT: usize = 8;
const RUN_SMALLEST_BYTES: u64 = 4 << 10;
/// Compaction in memory stops at this share of the budget; larger runs come out of flushes only.
const COMPACTED_RUN_SHARE: u64 = 8;
/// ... and here at the latest: the strings of a run's column stay below 2 GiB.
const COMPACTED_RUN_BYTES_MAX: u64 = 1 << 30;
/// Runs up to this size are made by the appending thread itself: a millisecond or two of work ...
const INLINE_BYTES: u64 = 512 << 10;
/// ... and beyond it up to this many times what the thread has just appended, so that lists stay short
/// whatever the size of batches, at a cost in proportion to the append.
const INLINE_FACTOR: u64 = 10;
/// With more runs than this that may still be compacted, workers lag, and each read searches all: the appending thread helps.
const LAGGING_RUNS: usize = 12;
/// It then merges and copies this many times what it has appended, of a larger compaction.
const HELPED_FACTOR: u64 = 12;
/// Flushes start when runs fill this share of the budget.
pub const FLUSH_START_SHARE: u64 = 2;

/// Whether some runs should become one, whatever room memory has: those that tiering names, up to `largest` bytes, or those that
/// reads have searched often, up to `largest_for_reads`.
pub fn is_worth_compacting(
    table: &TableState,
    visible: Lsn,
    largest: u64,
    largest_for_reads: u64,
) -> bool {
    !table.paused.is_empty()
        || window_for_reads(table, visible, largest_for_reads).is_some()
        || table.flush_calls == 0
            && run_tiering(largest).pick(&run_candidates(&table.runs, visible)).is_some()
}

/// When runs are compacted, up to `largest` bytes.
pub fn run_tiering(largest: u64) -> Tiering {
    Tiering { fanout: RUN_FANOUT, smallest: RUN_SMALLEST_BYTES, largest }
}

/// The largest run that compaction in memory makes.
pub fn compacted_run_bytes_max(memory_bytes: u64) -> u64 {
    (memory_bytes / COMPACTED_RUN_SHARE).min(COMPACTED_RUN_BYTES_MAX)
}

/// The largest run that a thread makes itself at once which has appended some bytes to a table, where workers make runs of `most` bytes.
pub fn largest_inline(appended: u64, most: u64) -> u64 {
    INLINE_BYTES.max(INLINE_FACTOR.saturating_mul(appended)).min(most)
}

/// How much of a larger compaction a writer does that has appended some bytes.
pub fn helping(appended: u64) -> Stint {
    Stint::Bytes(HELPED_FACTOR.saturating_mul(appended))
}

/// Whether a table has more than [`LAGGING_RUNS`] that may still be compacted, where workers make runs of `most` bytes. O(runs).
fn lags(table: &TableState, most: u64) -> bool {
    // Those that a worker has count: reads search them until it is done. Larger ones are left to flushes.
    let may_be_joined = |slot: &&Slot<Run>| slot.piece.bytes() <= most / RUN_FANOUT as u64;
    table.runs.iter().filter(may_be_joined).count() > LAGGING_RUNS
}

/// A compaction of a table that was paused, of runs of `largest` bytes together at most, unless these are about to be flushed.
pub fn pick_paused(state: &mut State, id: TableId, largest: u64) -> Option<Job> {
    let table = state.tables.get_mut(&id).filter(|table| table.flush_calls == 0)?;
    let fits = |paused: &Compaction| total_bytes(&paused.runs) <= largest;
    let at = table.paused.iter().position(fits)?;
    Some(Job::CompactRuns { table: id, compaction: table.paused.remove(at) })
}

/// What a writer helps with: a compaction that workers have left to it or, if its table lags, any that was paused, or else a new one, of
/// [`HELPED_BYTES_MAX`] at most.
pub fn pick_to_help(
    core: &Core,
    state: &mut State,
    id: TableId,
    visible: Lsn,
    most: u64,
) -> Option<Job> {
    let table = state.tables.get(&id)?;
    let lags = lags(table, most);
    let is_left = table.left_to_writers.until(Instant::now()).is_some();
    if !lags && !is_left {
        return None;
    }
    let paused = pick_paused(state, id, HELPED_BYTES_MAX);
    if paused.is_some() || !lags {
        return paused;
    }
    pick_run_compaction(core, state, id, visible, most.min(HELPED_BYTES_MAX))
}

/// Runs of one table that should become one run, if memory has room for what that takes.
pub fn pick_run_compaction(
    core: &Core,
    state: &mut State,
    id: TableId,
    visible: Lsn,
    largest: u64,
) -> Option<Job> {
    let table = state.tables.get(&id).filter(|table| table.flush_calls == 0)?;
    let candidates = run_candidates(&table.runs, visible);
    // Also what writers leave for a flush: reads beside a writer that never pauses would find more and more runs.
    let room = core.memory_for_rows().saturating_sub(state.buffered_bytes);
    let pick = |largest| run_tiering(largest).pick(&candidates);
    let (window, reserved) = window_with_room(table, largest, room, pick)?;
    Some(compaction(state, id, window, reserved))
}

/// The largest window that `pick` finds, of runs of `largest` bytes or of a half, a quarter and so on, whose compaction has room, and
/// what it takes.
fn window_with_room(
    table: &TableState,
    mut largest: u64,
    room: u64,
    pick: impl Fn(u64) -> Option<Range<usize>>,
) -> Option<(Range<usize>, u64)> {
    loop {
        let window = pick(largest)?;
        let bytes = compaction_bytes_of(table, &window);
        if bytes <= room {
            return Some((window, bytes));
        }
        largest /= 2;
        if largest < RUN_SMALLEST_BYTES {
            return None;
        }
    }
}

/// The memory that the compaction of some runs takes.
fn compaction_bytes_of(table: &TableState, window: &Range<usize>) -> u64 {
    let runs = table.runs[window.clone()].iter().map(|slot| slot.piece.clone());
    compaction_bytes(&table.layout, &runs.collect::<Vec<_>>())
}

/// Runs of a table, of `largest` bytes at most, that reads have searched so often that they should become one run.
fn window_for_reads(table: &TableState, visible: Lsn, largest: u64) -> Option<Range<usize>> {
    let searches = table.searches.load(Ordering::Relaxed);
    if searches < SEARCHES_MIN {
        return None;
    }
    run_tiering(largest).pick_for_reads(&run_candidates(&table.runs, visible), searches)
}

/// The memory that compactions for reads may take: no more than is free until rows have to be flushed.
pub fn room_for_reads(core: &Core, state: &State) -> u64 {
    (core.memory_for_rows() / FLUSH_START_SHARE).saturating_sub(state.buffered_bytes)
}

/// The most bytes of runs of whose copy reads may gain.
fn largest_for_reads(core: &Core, state: &State) -> u64 {
    compacted_run_bytes_max(core.options.memory_bytes).min(room_for_reads(core, state))
}

/// Takes what [`window_for_reads`] says.
pub fn pick_compaction_for_reads(
    core: &Core,
    state: &mut State,
    id: TableId,
    visible: Lsn,
) -> Option<Job> {
    let room = room_for_reads(core, state);
    let table = state.tables.get(&id).filter(|table| table.flush_calls == 0)?;
    let pick = |largest| window_for_reads(table, visible, largest);
    let largest = largest_for_reads(core, state);
    let (window, reserved) = window_with_room(table, largest, room, pick)?;
    table.searches.store(0, Ordering::Relaxed);
    Some(compaction(state, id, window, reserved))
}

/// Looks which tables rest.
pub fn look_for_rest(state: &mut State, now: Instant) {
    let newest = |table: &TableState| table.newest_run().filter(|_| table.runs.len() > 1);
    let State { resting, tables, .. } = state;
    resting.look(now, |id| tables.get(&id).and_then(newest));
}

/// Runs of a table to which no rows come, so that later reads find few.
pub fn pick_compaction_at_rest(
    core: &Core,
    state: &mut State,
    visible: Lsn,
    now: Instant,
) -> Option<Job> {
    while let Some(id) = state.resting.take() {
        // After a flush, tables are watched again.
        let Some(table) = state.tables.get(&id).filter(|table| table.flush_calls == 0) else {
            continue;
        };
        if !table.is_whole_at(visible) {
            // A commit takes long to reach the log.
            state.resting.watch(id);
            continue;
        }
        if !table.paused.is_empty() {
            return pick_paused(state, id, u64::MAX);
        }
        let candidates = run_candidates(&table.runs, visible);
        let pick = |largest| run_tiering(largest).pick_at_rest(&candidates);
        let largest = compacted_run_bytes_max(core.options.memory_bytes);
        if pick(largest).is_none() {
            continue;
        }
        let room = room_at_rest(core, state);
        match window_with_room(table, largest.min(room), room, pick) {
            Some((window, reserved)) => return Some(compaction(state, id, window, reserved)),
            None => state.resting.put_off(id, now),
        }
    }
    None
}

/// The memory that compactions at rest may take: as those for reads, but what snapshots hold counts, too, of which they would make
/// more.
fn room_at_rest(core: &Core, state: &State) -> u64 {
    let held = core.meter.all_row_bytes() + state.reserved_bytes;
    room_for_reads(core, state)
        .min((core.memory_for_rows() / FLUSH_START_SHARE).saturating_sub(held))
}

/// The compaction of some runs, which it takes out of play. Reserves memory for it.
fn compaction(state: &mut State, id: TableId, window: Range<usize>, reserved: u64) -> Job {
    let table = state.tables.get_mut(&id).expect("the window is of its runs");
    let runs = take(&mut table.runs[window]);
    state.reserve(reserved);
    Job::CompactRuns { table: id, compaction: Compaction { runs, reserved, begun: None } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_budget_lets_a_joined_run_hold_more_strings_than_one_array_can() {
        assert_eq!(compacted_run_bytes_max(512 << 20), 64 << 20);
        for memory_bytes in [8 << 30, 64 << 30, u64::MAX] {
            assert!(compacted_run_bytes_max(memory_bytes) <= i32::MAX as u64 / 2 + 1);
        }
    }
}
