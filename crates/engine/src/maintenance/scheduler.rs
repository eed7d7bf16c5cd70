//! Background work: compacting runs, flushing them to disk, merging segments, indexing their sets.
//!
//! Work is picked under the state lock, which also takes its input pieces out of play; it is done without
//! any lock, on immutable pieces; and its result is swapped in. Readers never notice, several jobs run
//! at once on disjoint inputs, and any thread may do any job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use drillcore_format::ids::{Lsn, TableId};
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::MutexGuard;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::error::{ErrorKind, Result};
use crate::maintenance::jobs::{self, Job, MergeGroup, Picked};
use crate::maintenance::merge_choice::{bytes_of, full_merge_groups, merge_groups, small_bytes};
use crate::maintenance::room::{self, Spare};
use crate::maintenance::run_compaction::{
    FLUSH_START_SHARE, compacted_run_bytes_max, helping, is_worth_compacting, largest_inline,
    look_for_rest, pick_compaction_at_rest, pick_compaction_for_reads, pick_paused,
    pick_run_compaction, pick_to_help, room_for_reads,
};
use crate::maintenance::spilling::is_too_much_held;
use crate::pieces::run::Run;
use crate::state::compaction::Stint;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::levels::{hides_older, levels};
use crate::state::put_off::PutOff;
use crate::state::slots::{Slot, take};
use crate::state::table_state::{Indexing, TableState};

/// Flushes write this share of the budget at once.
pub const FLUSH_SHARE: u64 = 4;

/// Compacts small runs of tables, to which as many bytes were added, until the tiering of each is satisfied, and goes on with a larger
/// one for a while where there are too many runs.
pub fn compact_small_runs<'a>(
    core: &'a Core,
    mut state: MutexGuard<'a, State>,
    appended: &[(TableId, u64)],
) -> Result<()> {
    let most = compacted_run_bytes_max(core.options.memory_bytes);
    // Dropped once the state is unlocked.
    let _free = state.retired.take_small();
    let mut state = state;
    let mut is_left_to_workers = false;
    for &(table, bytes) in appended {
        // Recovery appends nothing. What it erases is lost to a compaction that it pauses.
        let mut may_help = bytes > 0;
        loop {
            if state.holds > 0 || state.check_writable().is_err() {
                return Ok(());
            }
            let visible = core.visible();
            let largest = largest_inline(bytes, most);
            let mut stint = Stint::Whole;
            let choose = |state: &mut State| {
                let small = pick_run_compaction(core, state, table, visible, largest);
                if small.is_some() || !may_help || is_one_free(core, state, table) {
                    return small;
                }
                may_help = false;
                stint = helping(bytes);
                pick_to_help(core, state, table, visible, most)
            };
            let job = match Picked::choose(core, state, choose) {
                Ok(job) => job,
                Err(unchanged) => {
                    state = unchanged;
                    is_left_to_workers |= is_for_workers(core, &state, table, visible);
                    break;
                }
            };
            match job.run(&Interrupt::never(), &nothing, stint, &Progress::default()) {
                // The rows that were appended are safe, and a database that ends meanwhile needs no compaction.
                Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::ReadOnly) => {
                    return Ok(());
                }
                done => done?.or_error()?,
            }
            state = core.state();
        }
    }
    drop(state);
    if is_left_to_workers {
        core.wake_workers();
    }
    Ok(())
}

/// Whether a commit to a table may have left workers something to do. Small commits mostly do not, and to wake a worker takes
/// longer than to make one.
fn is_for_workers(core: &Core, state: &State, table: TableId, visible: Lsn) -> bool {
    let largest = compacted_run_bytes_max(core.options.memory_bytes);
    let needs_one = |table: &TableState| {
        let room = room_for_reads(core, state);
        table.deleted_much_in_memory()
            || may_compact_more(core, state)
                && table.left_to_writers.until(Instant::now()).is_none()
                && is_worth_compacting(table, visible, largest, largest.min(room))
    };
    state.resting.is_unwatched()
        || is_memory_full(core, state)
        || is_too_much_held(core, state) && state.spilling.is_due(Instant::now())
        || is_log_full(core)
        || state.tables.get(&table).is_some_and(needs_one)
}

/// Whether one worker more may compact runs. Several would share the processors that writers leave, and each would hold its runs for
/// longer, so one has other things to do, if there are several.
fn may_compact_more(core: &Core, state: &State) -> bool {
    state.workers_compacting < core.options.maintenance_threads.saturating_sub(1).max(1)
}

/// Whether a worker waits that may compact runs of a table.
fn is_one_free(core: &Core, state: &State, table: TableId) -> bool {
    state.workers_waiting > 0
        && may_compact_more(core, state)
        && !is_left_to_writers(state, table, Instant::now())
}

fn is_left_to_writers(state: &State, table: TableId, now: Instant) -> bool {
    state.tables.get(&table).is_some_and(|table| table.left_to_writers.until(now).is_some())
}

/// Whether rows in memory have to be flushed for others to come.
fn is_memory_full(core: &Core, state: &State) -> bool {
    state.waiting_for_memory > 0 || state.row_bytes() > core.memory_for_rows() / FLUSH_START_SHARE
}

/// Whether rows have to be flushed for the log to become shorter.
fn is_log_full(core: &Core) -> bool {
    core.wal
        .get()
        .is_some_and(|wal| wal.bytes() > core.options.wal_bytes_max || wal.has_many_small_files())
}

/// Flushes every run with a commit up to `through`, in the calling thread and beside the workers, and positions. Gives up
/// when the database is being closed. If there is no room for a segment, that is an error, and its rows stay in memory and
/// in the log.
pub fn flush(core: &Core, through: Lsn, interrupt: &Interrupt) -> Result<()> {
    flush_all(core, through, interrupt, State::check_writable)?;
    jobs::note_positions(core)?.or_error()
}

/// [`flush`], as closing itself does it.
pub fn flush_through(core: &Core, through: Lsn, interrupt: &Interrupt) -> Result<()> {
    flush_all(core, through, interrupt, State::check_flushable)
}

fn flush_all(
    core: &Core,
    through: Lsn,
    interrupt: &Interrupt,
    check: fn(&State) -> Result<()>,
) -> Result<()> {
    let tables: Vec<TableId> = core.state().tables.keys().copied().collect();
    flush_tables(core, tables, through, interrupt, check)
}

/// [`flush`] of one table.
pub fn flush_table(core: &Core, table: TableId, through: Lsn, interrupt: &Interrupt) -> Result<()> {
    flush_tables(core, vec![table], through, interrupt, State::check_writable)
}

fn flush_tables(
    core: &Core,
    tables: Vec<TableId>,
    through: Lsn,
    interrupt: &Interrupt,
    check: fn(&State) -> Result<()>,
) -> Result<()> {
    let _called = Called::new(core, tables.clone(), |table| &mut table.flush_calls);
    let mut state = core.state();
    loop {
        check(&state)?;
        state.settle(core.visible());
        let is_behind =
            |table: &TableState| table.needed_from().is_some_and(|first| first <= through);
        let is_asked = |id: &TableId| state.tables.get(id).is_some_and(is_behind);
        let behind: Vec<TableId> = tables.iter().copied().filter(is_asked).collect();
        if behind.is_empty() {
            return Ok(());
        }
        let visible = core.visible();
        let choose = |state: &mut State| {
            behind.iter().find_map(|&id| pick_flush(state, id, visible, u64::MAX))
        };
        state = match Picked::choose(core, state, choose) {
            Err(state) => core.wait_or_stop(state, interrupt)?,
            Ok(job) => {
                let done = job.run(interrupt, &nothing, Stint::Whole, &Progress::default());
                done.inspect_err(|error| core.fail(error))?.or_error()?;
                core.state()
            }
        };
    }
}

/// Merges the segments of each table into one level, beside the workers: into one segment, unless that would be long. `progress`
/// is in rows of these segments.
///
/// # Errors
/// `StorageFull` if those of a table do not fit once more: it is as it was, others are merged.
pub fn compact(core: &Core, interrupt: &Interrupt, progress: &Progress) -> Result<()> {
    let small = small_bytes(core);
    let rows_to_merge = |table: &TableState| {
        let groups = full_merge_groups(table, small).concat();
        groups.into_iter().map(|number| table.segments[number].piece.rows()).sum::<u64>()
    };
    let tables: Vec<(TableId, u64)> = {
        let state = core.state();
        state.tables.iter().map(|(id, table)| (*id, rows_to_merge(table))).collect()
    };
    let mut rows_to_come: u64 = tables.iter().map(|(_, rows)| rows).sum();
    let mut rows_merged = 0;
    progress.expect(rows_to_come);
    let mut without_room = Ok(());
    for (id, rows_expected) in tables {
        rows_to_come -= rows_expected;
        let called = Called::new(core, vec![id], |table| &mut table.compact_calls);
        let mut state = core.state();
        loop {
            state.check_writable()?;
            let Some(table) = state.tables.get(&id) else { break };
            if is_one_taken(table, &full_merge_groups(table, small)) {
                state = core.wait_or_stop(state, interrupt)?;
                continue;
            }
            let mut done = Ok(());
            let mut rows = 0;
            let choose = |state: &mut State| {
                let job = pick_full_merge(core, state, id).unwrap_or_else(|why| {
                    done = Err(why);
                    None
                });
                if let Some(Job::Merge { groups, .. }) = &job {
                    rows = jobs::rows_of(groups);
                }
                job
            };
            if let Ok(job) = Picked::choose(core, state, choose) {
                // Workers may go on with what is newer.
                drop(called);
                progress.expect(rows_merged + rows + rows_to_come);
                let done_now = job.run(interrupt, &nothing, Stint::Whole, progress);
                done = done_now.inspect_err(|error| core.fail(error))?.or_error();
                rows_merged += rows;
                progress.reach(rows_merged);
            }
            without_room = without_room.and(done);
            break;
        }
    }
    progress.expect(rows_merged);
    without_room
}

/// A call that does itself, at once, what workers do bit by bit. Until it is dropped they leave that alone: what they made
/// would be made again, and the call would wait for it.
struct Called<'a> {
    core: &'a Core,
    tables: Vec<TableId>,
    calls: fn(&mut TableState) -> &mut u32,
}

impl<'a> Called<'a> {
    fn new(
        core: &'a Core,
        tables: Vec<TableId>,
        calls: fn(&mut TableState) -> &mut u32,
    ) -> Called<'a> {
        let mut state = core.state();
        for id in &tables {
            if let Some(table) = state.tables.get_mut(id) {
                *calls(table) += 1;
            }
        }
        drop(state);
        Called { core, tables, calls }
    }
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state();
        for id in &self.tables {
            if let Some(table) = state.tables.get_mut(id) {
                *(self.calls)(table) -= 1;
                state.worklist.add(*id);
                state.resting.watch(*id);
            }
        }
        drop(state);
        self.core.wake_all();
    }
}

/// Which jobs a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Compaction in memory and flushes only: memory must not wait behind a long merge.
    Memory,
    /// That, and merges of fewer bytes than half of these.
    Before(u64),
    Everything,
}

impl Duty {
    /// The most bytes that a merge may take.
    fn largest_merge(self) -> u64 {
        match self {
            Duty::Memory => 0,
            Duty::Before(bytes) => bytes / 2,
            Duty::Everything => u64::MAX,
        }
    }
}

/// What a worker thread does until the database is closed. `now_and_then` is called between jobs.
pub fn work(core: &Arc<Core>, duty: Duty, now_and_then: impl Fn(&Arc<Core>)) {
    let mut state = core.state();
    while !state.closed {
        let is_upkeep_due = duty == Duty::Everything && state.is_expiry_due(Instant::now());
        if is_upkeep_due {
            drop(state);
            now_and_then(core);
            state = core.state();
            continue;
        }
        if state.retired.has_free() {
            drop(state);
            free_retired(core);
            state = core.state();
            continue;
        }
        let is_idle = state.holds > 0 || state.failure.is_some();
        let now = Instant::now();
        let choose = |state: &mut State| if is_idle { None } else { pick(core, state, duty, now) };
        state = match Picked::choose(core, state, choose) {
            Err(mut state) => {
                let expires = duty == Duty::Everything && state.expires();
                let expiry = (expires && !state.closing).then_some(state.next_expiry);
                let next_try = state.next_try(now).into_iter().chain(expiry).min();
                let next_try =
                    next_try.filter(|_| !is_idle).into_iter().chain(state.retired.until());
                state.workers_waiting += 1;
                let mut state = core.wait_for_work(state, next_try.min());
                state.workers_waiting -= 1;
                state
            }
            Ok(job) => {
                finish(core, job);
                core.state()
            }
        };
    }
}

/// Does a worker's job, and what is more urgent before it goes on.
fn finish(core: &Core, job: Picked<'_>) {
    let urgent = |bytes| go_before(core, bytes);
    let is_compaction = job.is_compaction();
    let done = job.run(&Interrupt::never(), &urgent, Stint::UntilOthersCan, &Progress::default());
    if is_compaction {
        core.state().workers_compacting -= 1;
        // One that may compact now may wait.
        core.wake_workers();
    }
    match done {
        // Readers may have moved on.
        Ok(_) => core.removals.sweep(),
        Err(error) => core.fail(&error),
    }
}

/// Does what should not wait for a job over `bytes`, until there is no more of it.
fn go_before(core: &Core, bytes: u64) {
    free_retired(core);
    loop {
        let state = core.state();
        if state.closed || state.holds > 0 || state.failure.is_some() {
            return;
        }
        let now = Instant::now();
        let choose = |state: &mut State| pick(core, state, Duty::Before(bytes), now);
        match Picked::choose(core, state, choose) {
            Ok(job) => finish(core, job),
            Err(_nothing_to_do) => return,
        }
    }
}

/// Frees runs that have left their tables.
fn free_retired(core: &Core) {
    let free = core.state().retired.take_free();
    // With a run that was spilled goes its file.
    core.removals.in_one_sweep(|| drop(free));
}

/// For calls whose threads do nothing else.
fn nothing(_bytes: u64) {}

/// The most urgent job: memory first, then the length of lists. While the database is being closed, only what
/// closing itself would have to do.
fn pick(core: &Core, state: &mut State, duty: Duty, now: Instant) -> Option<Job> {
    let visible = core.visible();
    // What was erased since may be worth a merge.
    state.settle(visible);
    let may_flush = |table: &TableState| is_due(&table.flush_put_off, now);
    if state.closing {
        let is_needed = core.is_kept_by_closing();
        let tables = state.tables.iter().filter(|(_, table)| is_needed && may_flush(table));
        let tables: Vec<TableId> = tables.map(|(id, _)| *id).collect();
        return tables.iter().find_map(|&table| pick_flush(state, table, visible, u64::MAX));
    }
    if is_memory_full(core, state) {
        let chunk_bytes = core.memory_for_rows() / FLUSH_SHARE;
        let tables = state.tables.iter().filter(|(_, table)| may_flush(table));
        let mut by_size: Vec<_> = tables.map(|(id, table)| (table.run_bytes(), *id)).collect();
        by_size.sort_unstable_by(|a, b| b.cmp(a));
        let enough = by_size.first().map_or(0, |(bytes, _)| *bytes / FLUSH_SHARE);
        // Beside a flush of the largest, which holds its runs, another table may be flushed.
        let mut worth = by_size.into_iter().filter(|(bytes, _)| *bytes > enough);
        let job = worth.find_map(|(_, table)| pick_flush(state, table, visible, chunk_bytes));
        if job.is_some() {
            return job;
        }
    }
    if is_too_much_held(core, state) && state.spilling.begin(now) {
        return Some(Job::Spill);
    }
    if is_log_full(core) {
        let behind = state.tables.iter().filter(|(_, table)| may_flush(table));
        let behind = behind.filter_map(|(id, table)| Some((table.needed_from()?, *id)));
        let oldest = behind.min().map(|(_, id)| id);
        if let Some(job) = oldest.and_then(|table| pick_flush(state, table, visible, u64::MAX)) {
            return Some(job);
        }
    }
    if core.work.take_by_reads() {
        state.worklist.add_all();
    }
    let tables = state.tables_to_look_at();
    let is_much = |table: &TableState| table.deleted_much_in_memory() && may_flush(table);
    let much_deleted = tables.iter().copied().find(|id| is_much(&state.tables[id]));
    if let Some(job) = much_deleted.and_then(|id| pick_flush(state, id, visible, u64::MAX)) {
        return Some(job);
    }
    look_for_rest(state, now);
    if may_compact_more(core, state)
        && let Some(job) = pick_compaction(core, state, &tables, visible, now)
    {
        state.workers_compacting += 1;
        return Some(job);
    }
    let largest = duty.largest_merge();
    if largest == 0 {
        return None;
    }
    let due = |&&table: &&TableId| is_due(&state.tables[&table].merge_put_off, now);
    let due: Vec<TableId> = tables.iter().filter(due).copied().collect();
    let merge = due.iter().find_map(|&table| pick_merge(core, state, table, largest, now));
    if duty != Duty::Everything {
        return merge;
    }
    // Last, so that what is about to be merged away is not indexed.
    let job = merge.or_else(|| due.iter().find_map(|&table| pick_index(state, table, now)));
    if job.is_none() {
        leave_alone(core, state, tables, visible, now);
    }
    job
}

/// A compaction of runs, of tables that are not left to their writers: one that was paused, else what keeps lists short, then what reads
/// ask for. Then what has time, of any table.
fn pick_compaction(
    core: &Core,
    state: &mut State,
    tables: &BTreeSet<TableId>,
    visible: Lsn,
    now: Instant,
) -> Option<Job> {
    let most = compacted_run_bytes_max(core.options.memory_bytes);
    let not_left = |table: &&TableId| !is_left_to_writers(state, **table, now);
    let tables: Vec<TableId> = tables.iter().filter(not_left).copied().collect();
    if let Some(job) = tables.iter().find_map(|&table| pick_paused(state, table, u64::MAX)) {
        return Some(job);
    }
    let mut of_tables = tables.iter();
    if let Some(job) =
        of_tables.find_map(|&table| pick_run_compaction(core, state, table, visible, most))
    {
        return Some(job);
    }
    let mut of_tables = tables.iter();
    if let Some(job) =
        of_tables.find_map(|&table| pick_compaction_for_reads(core, state, table, visible))
    {
        return Some(job);
    }
    pick_compaction_at_rest(core, state, visible, now)
}

/// Has workers look at tables for which there is nothing to do no more, until they change; but for those of which something is put
/// off, not visible yet, or waits for room in memory.
fn leave_alone(
    core: &Core,
    state: &mut State,
    tables: BTreeSet<TableId>,
    visible: Lsn,
    now: Instant,
) {
    let largest = compacted_run_bytes_max(core.options.memory_bytes);
    let mut left = BTreeSet::new();
    for id in tables {
        let table = state.tables.get_mut(&id).expect("it is one of them");
        let has_unreadable = table.unreadable().next().is_some();
        table.has_unreadable = has_unreadable;
        if is_due(&table.merge_put_off, now) && !table.segments.iter().any(|slot| slot.taken) {
            // What was put off, is due, and could be done, is not wanted any more.
            table.merge_put_off = None;
        }
        // Or for its writers, which leave it again.
        let waits_for_room = is_worth_compacting(table, visible, largest, largest);
        let is_put_off = table.why_not_merged().is_some() || table.flush_put_off.is_some();
        if is_put_off || !table.is_whole_at(visible) || waits_for_room {
            left.insert(id);
        }
    }
    state.worklist.leave(left);
}

fn is_due(put_off: &Option<PutOff>, now: Instant) -> bool {
    put_off.as_ref().is_none_or(|put_off| put_off.is_due(now))
}

/// The oldest visible runs of one table, up to about `chunk_bytes`; none while others work on them, since
/// runs reach the disk in commit order. Without runs, what was erased and the manifest does not say.
pub fn pick_flush(state: &mut State, id: TableId, visible: Lsn, chunk_bytes: u64) -> Option<Job> {
    let table = state.tables.get_mut(&id)?;
    let is_paused = |run: &Arc<Run>| table.paused.iter().any(|paused| paused.has(run));
    let mut bytes = 0;
    let wanted = table.runs.iter().take_while(|slot| {
        let is_free = !slot.taken || is_paused(&slot.piece);
        let fits = is_free && slot.piece.lsns().last <= visible && bytes < chunk_bytes;
        bytes += slot.piece.bytes();
        fits
    });
    let wanted: Vec<Arc<Run>> = wanted.map(|slot| slot.piece.clone()).collect();
    let is_oldest = table.segments.is_empty();
    if wanted.is_empty() && table.unnoted.since().is_none() {
        return None;
    }
    // What would be made of these runs is not worth the wait.
    let given_up = state.give_up_paused(id, |paused| wanted.iter().any(|run| paused.has(run)));
    let table = state.tables.get_mut(&id).expect("it was there above");
    let runs = take(&mut table.runs[..wanted.len()]);
    Some(Job::Flush { table: id, runs, is_oldest, given_up })
}

/// Segments of one table, of `largest` bytes at most, that should be merged, and fit on the disk once more. If they do not,
/// fewer or smaller ones; and that those are put off is noted.
fn pick_merge(
    core: &Core,
    state: &mut State,
    id: TableId,
    largest: u64,
    now: Instant,
) -> Option<Job> {
    let small = small_bytes(core);
    let table = state.tables.get_mut(&id).filter(|table| table.compact_calls == 0)?;
    let is_out = |slot: &Slot<Segment>| slot.is_out(now);
    let mut groups = merge_groups(table, small, largest, &is_out)?;
    if let Err(why) = room::check(core, Spare::Flushes, "a merge", bytes_of(table, &groups)) {
        table.merge_put_off = Some(PutOff::again(table.merge_put_off.as_ref(), why, now));
        let left = room::left(core, Spare::Flushes)?.min(largest);
        groups = merge_groups(table, small, left, &is_out)?;
    }
    Some(take_groups(id, table, groups, true))
}

fn take_groups(
    id: TableId,
    table: &mut TableState,
    groups: Vec<Vec<usize>>,
    gives_way: bool,
) -> Job {
    let mut numbers = groups.concat();
    numbers.sort_unstable();
    let inputs = numbers.iter().map(|&number| &*table.segments[number].piece);
    let levels_less = levels(inputs).len().saturating_sub(1);
    let take_group = |group: Vec<usize>| {
        let is_oldest = !hides_older(&table.segments, &group);
        let of_group = |(number, _): &(usize, _)| group.binary_search(number).is_ok();
        let slots = table.segments.iter_mut().enumerate().filter(of_group).map(|(_, slot)| slot);
        MergeGroup { segments: take(slots), is_oldest }
    };
    let groups = groups.into_iter().map(take_group).collect();
    Job::Merge { table: id, groups, levels_less, gives_way }
}

/// The oldest segment of a table that lacks postings, unless a job works on it.
fn pick_index(state: &mut State, id: TableId, now: Instant) -> Option<Job> {
    let table = state.tables.get_mut(&id)?;
    let indexed = table.schema.set.as_ref()?.indexed.clone();
    if table.is_indexed || table.index_fault.is_some() || table.compact_calls > 0 {
        return None;
    }
    let lacks = |slot: &Slot<Segment>| !slot.piece.indexed().cover(&indexed);
    let Some(at) = table.segments.iter().position(|slot| !slot.is_out(now) && lacks(slot)) else {
        table.is_indexed = !table.segments.iter().any(|slot| slot.is_out(now));
        return None;
    };
    let segment = take([&mut table.segments[at]]).pop().expect("one was taken");
    let done = Arc::new(AtomicU64::new(0));
    table.indexing.push(Indexing { segment: segment.clone(), rows_done: done.clone() });
    Some(Job::Index { table: id, segment, indexed, rows_done: done })
}

/// What makes the segments of one table one level, as one job, once none of them is taken; `None` if they are one.
///
/// # Errors
/// They do not fit on the disk once more.
fn pick_full_merge(core: &Core, state: &mut State, id: TableId) -> Result<Option<Job>> {
    let Some(table) = state.tables.get_mut(&id) else { return Ok(None) };
    let groups = full_merge_groups(table, small_bytes(core));
    if groups.is_empty() || is_one_taken(table, &groups) {
        return Ok(None);
    }
    let (what, bytes) = (format!("compacting table {:?}", table.name), bytes_of(table, &groups));
    room::check(core, Spare::Flushes, &what, bytes)?;
    Ok(Some(take_groups(id, table, groups, false)))
}

/// Whether a job works on a segment of some groups.
fn is_one_taken(table: &TableState, groups: &[Vec<usize>]) -> bool {
    groups.iter().flatten().any(|&number| table.segments[number].taken)
}
