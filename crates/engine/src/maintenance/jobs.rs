//! Doing background work: merge the inputs, then swap the result in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::rows::Layout;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::log::wal::{Released, Wal};
use drillcore_storage::processor_waits::ProcessorWaits;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::{MutexGuard, thread};

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::fresh_pieces::FreshPieces;
use crate::maintenance::fresh_segments::{FreshSegments, not_noted, segments_of};
use crate::maintenance::progress::{FlushProgress, MergeProgress};
use crate::maintenance::segment_writing::{
    Input, Written, go_on, within_flush, within_merge, write_segments,
};
use crate::maintenance::set_indexing;
use crate::maintenance::spilling::{spill, worth_bytes};
use crate::maintenance::yield_points::{Urgent, YieldPoints};
use crate::merge::compacted_run::{RunMerge, total_bytes};
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::state::compaction::{Begun, Compaction, Stint};
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::put_off::{Done, PutOff};
use crate::state::slots::{covered, pieces_of, release, replace};
use crate::state::table_state::TableState;

/// A worker that waits this long for a processor, in one batch of a compaction, leaves that to writers. A thread whose processor is
/// taken from it waits for a slice of time, of some milliseconds.
const WAIT_MAX: Duration = Duration::from_micros(1500);

/// A piece of background work with its inputs.
pub enum Job {
    CompactRuns {
        table: TableId,
        compaction: Compaction,
    },
    /// `is_oldest`: nothing older lies on disk, so tombstones have nothing left to hide.
    /// `given_up`: compactions of its runs that were paused.
    Flush {
        table: TableId,
        runs: Vec<Arc<Run>>,
        is_oldest: bool,
        given_up: Vec<Compaction>,
    },
    /// `gives_way`: it ends as soon as a call is about to merge all segments of the table.
    Merge {
        table: TableId,
        groups: Vec<MergeGroup>,
        /// How many levels fewer the table will have.
        levels_less: usize,
        gives_way: bool,
    },
    /// `rows_done` shows how far it is.
    Index {
        table: TableId,
        segment: Arc<Segment>,
        indexed: IndexedSets,
        rows_done: Arc<AtomicU64>,
    },
    /// Rows go to files that only snapshots hold.
    Spill,
}

/// Segments that become one level; no segment between them in their list has keys between theirs.
pub struct MergeGroup {
    pub segments: Vec<Arc<Segment>>,
    /// No older segment has keys between theirs, so tombstones have nothing left to hide.
    pub is_oldest: bool,
}

/// A job whose inputs are out of play until it is installed or dropped. It is under way until then, so closing
/// waits for it; its inputs come back unless it is done, also if something panics.
pub struct Picked<'a> {
    core: &'a Core,
    job: Option<Job>,
    is_done: bool,
}

impl<'a> Picked<'a> {
    /// A job that `choose` takes out of play, or the state again where it finds none.
    pub fn choose(
        core: &'a Core,
        mut state: MutexGuard<'a, State>,
        choose: impl FnOnce(&mut State) -> Option<Job>,
    ) -> std::result::Result<Picked<'a>, MutexGuard<'a, State>> {
        match choose(&mut state) {
            None => Err(state),
            Some(job) => {
                core.underway.go_on();
                Ok(Picked { core, job: Some(job), is_done: false })
            }
        }
    }

    /// Whether runs are compacted.
    pub fn is_compaction(&self) -> bool {
        matches!(self.job, Some(Job::CompactRuns { .. }))
    }

    /// Does the job and installs its result. If it fails or is put off, its inputs come back into play. A long one lets
    /// `urgent` be done meanwhile. A compaction of runs pauses after its `stint`. `progress` hears how many rows a merge has written.
    ///
    /// # Errors
    /// `Interrupted` if the interrupt said stop; `Closed` if the database is closing and the job can do without.
    /// Others leave the files in doubt: nothing must be written after them.
    pub fn run(
        mut self,
        interrupt: &Interrupt,
        urgent: Urgent<'_>,
        stint: Stint,
        progress: &Progress,
    ) -> Result<Done> {
        let core = self.core;
        let job = self.job.as_mut().expect("it is there until it is paused or dropped");
        let done = match job {
            Job::CompactRuns { table, compaction } => compact_runs(core, *table, compaction, stint),
            Job::Flush { table, runs, is_oldest, given_up } => {
                given_up.clear();
                flush(core, *table, runs, *is_oldest, interrupt)
            }
            Job::Merge { table, groups, levels_less, gives_way } => {
                let yield_points =
                    YieldPoints::new(urgent, all_segments(groups).map(Segment::disk_bytes).sum());
                let go_on = || {
                    yield_points.between_batches();
                    go_on(core, interrupt)?;
                    if *gives_way { check_not_called_for(core, *table) } else { Ok(()) }
                };
                merge(core, *table, groups, *levels_less, &go_on, progress)
            }
            Job::Index { table, segment, indexed, rows_done } => {
                let yield_points = YieldPoints::new(urgent, segment.disk_bytes());
                let rows_done = |rows| {
                    // Rows of sets that are left out after all are done with later.
                    rows_done.fetch_max(rows, Ordering::Relaxed);
                    yield_points.between_batches();
                };
                set_indexing::index(core, *table, segment, indexed, &rows_done)
            }
            Job::Spill => spill(core),
        };
        self.is_done = matches!(done, Ok(Done::Installed));
        if let Ok(done) = &done {
            note(core, job, done);
        }
        if matches!(done, Ok(Done::Paused)) {
            self.pause();
        }
        done
    }

    /// Leaves a compaction with its table.
    fn pause(&mut self) {
        let Some(Job::CompactRuns { table, compaction }) = self.job.take() else { return };
        let mut state = self.core.state();
        match state.tables.get_mut(&table) {
            Some(entry) => {
                entry.paused.push(compaction);
                state.worklist.add(table);
                state.resting.watch(table);
            }
            None => give_back_dropped(&mut state, &compaction),
        }
    }
}

impl Drop for Picked<'_> {
    fn drop(&mut self) {
        let job = self.job.take();
        if let Some(job) = job.as_ref().filter(|_| !self.is_done) {
            give_back(self.core, job);
        }
        // Who compacts runs in memory, or some rows of them, looks for more to do, or says that there is: that is every few commits.
        let is_paused = job.is_none();
        let is_small = is_paused || matches!(job, Some(Job::CompactRuns { .. })) && self.is_done;
        // Files that were merged away go with their last user, so it has to be gone before closing goes on.
        self.core.removals.in_one_sweep(|| drop(job));
        if thread::panicking() {
            self.core.fail(&Error::new(ErrorKind::ReadOnly, "a job of maintenance panicked"));
        }
        self.core.end_underway();
        self.core.wake_calls();
        if !is_small {
            self.core.wake_workers();
        }
    }
}

/// Notes with the table whether its work goes on.
fn note(core: &Core, job: &Job, done: &Done) {
    let mut state = core.state();
    let (table, is_flush) = match job {
        Job::CompactRuns { .. } | Job::Spill => return,
        Job::Flush { table, .. } => (table, true),
        Job::Merge { table, .. } | Job::Index { table, .. } => (table, false),
    };
    let Some(entry) = state.tables.get_mut(table) else { return };
    let now = Instant::now();
    let inputs: Vec<&Segment> = match job {
        Job::Merge { groups, .. } => all_segments(groups).collect(),
        Job::Index { segment, .. } => vec![segment],
        _ => Vec::new(),
    };
    match done {
        Done::PutOff(why) if why.is_of_input() && !is_flush => {
            entry.note_unreadable(&inputs, why, now);
        }
        Done::PutOff(why) => {
            let noted = entry.put_off(is_flush);
            *noted = Some(PutOff::again(noted.as_ref(), why.clone(), now));
        }
        Done::Installed => {
            *entry.put_off(is_flush) = None;
            let is_input = |id: SegmentId| inputs.iter().any(|segment| segment.id() == id);
            let slots = entry.segments.iter_mut().filter(|slot| slot.unreadable.is_some());
            slots.filter(|slot| is_input(slot.piece.id())).for_each(|slot| slot.unreadable = None);
        }
        Done::GaveWay | Done::Paused => {}
    }
    if matches!(done, Done::PutOff(_)) {
        state.worklist.add(*table);
    }
}

/// Pieces that were taken for a job, and the newest erasure that they know of. None if the table was dropped.
fn inputs<T>(
    core: &Core,
    table: TableId,
    pieces: impl FnOnce(&TableState) -> T,
) -> Option<(T, Lsn)> {
    let mut state = core.state();
    let entry = state.tables.get_mut(&table)?;
    entry.settle(core.visible());
    Some((pieces(entry), entry.erasures.settled()))
}

/// Several runs become one, in memory, unless that is paused.
fn compact_runs(
    core: &Core,
    table: TableId,
    compaction: &mut Compaction,
    stint: Stint,
) -> Result<Done> {
    let runs = &compaction.runs;
    if compaction.begun.is_none() {
        let taken = |entry: &TableState| (entry.layout.clone(), pieces_of(&entry.runs, runs));
        let Some(((layout, pieces), since)) = inputs(core, table, taken) else {
            give_back_dropped(&mut core.state(), compaction);
            return Ok(Done::Installed);
        };
        let merge = RunMerge::begin(&layout, &pieces);
        compaction.begun = Some(Box::new(Begun { merge, since }));
    }
    let stint = match stint {
        Stint::UntilOthersCan if !compaction.may_be_helped() => Stint::Whole,
        stint => stint,
    };
    let begun = compaction.begun.as_mut().expect("it has begun");
    let mut ending = Ending::new(core, table, stint);
    while let Some(bytes) = begun.merge.go_on()? {
        if ending.is_reached(bytes) {
            return Ok(Done::Paused);
        }
    }
    let Begun { merge, since } = *compaction.begun.take().expect("it has begun");
    let compacted = merge.finish(&core.meter, &core.rows_examined)?;
    let mut fresh = FreshPieces::new(core, table, since, compacted.into_iter().collect());
    let mut state = fresh.catch_up()?;
    state.counts.memory_compactions += 1;
    if !state.tables.contains_key(&table) {
        give_back_dropped(&mut state, compaction);
        return Ok(Done::Installed);
    }
    state.buffered_bytes -= total_bytes(runs);
    state.give_back_reserved(compaction.reserved);
    let compacted = fresh.pieces.first().and_then(Piece::run);
    state.buffered_bytes += compacted.map_or(0, |run| run.bytes());
    let entry = state.tables.get_mut(&table).expect("looked up above");
    let slot = compacted.map(|run| fresh.slot(0, run, entry));
    replace(&mut entry.runs, runs, slot.into_iter().collect());
    note_left(core, &mut state, table, runs);
    let replaced = state.changed(table);
    drop(state);
    drop(replaced);
    Ok(Done::Installed)
}

/// Finds the end of a stint.
enum Ending<'a> {
    Never,
    /// These bytes are left.
    Bytes(u64),
    Waits {
        core: &'a Core,
        table: TableId,
        waits: ProcessorWaits,
        /// The newest commit to the table when it last had to wait, or began.
        newest: Option<Lsn>,
    },
}

impl Ending<'_> {
    fn new(core: &Core, table: TableId, stint: Stint) -> Ending<'_> {
        match stint {
            Stint::Whole => Ending::Never,
            Stint::Bytes(bytes) => Ending::Bytes(bytes),
            Stint::UntilOthersCan => {
                let newest = core.state().tables.get(&table).and_then(TableState::newest_run);
                Ending::Waits { core, table, waits: ProcessorWaits::begin(), newest }
            }
        }
    }

    /// Whether the stint ends after a batch that takes some bytes.
    fn is_reached(&mut self, batch: u64) -> bool {
        match self {
            Ending::Never => false,
            Ending::Bytes(left) => {
                *left = left.saturating_sub(batch);
                *left == 0
            }
            Ending::Waits { core, table, waits, newest } => {
                if waits.lap() < WAIT_MAX {
                    return false;
                }
                let is_left = leave_to_writers(core, *table, newest);
                // A wait for the lock is none for a processor.
                waits.lap();
                is_left
            }
        }
    }
}

/// Leaves the compactions of a table to its writers for a while, if commits came to it, and says whether it does: `newest` is the newest one before, and becomes
/// that of now.
pub fn leave_to_writers(core: &Core, table: TableId, newest: &mut Option<Lsn>) -> bool {
    let mut state = core.state();
    let Some(entry) = state.tables.get_mut(&table) else { return false };
    let before = std::mem::replace(newest, entry.newest_run());
    if before == *newest {
        return false;
    }
    entry.left_to_writers.begin(Instant::now());
    true
}

/// Gives back the memory of runs whose table was dropped, and of their compaction.
fn give_back_dropped(state: &mut State, compaction: &Compaction) {
    state.buffered_bytes -= total_bytes(&compaction.runs);
    state.give_back_reserved(compaction.reserved);
}

/// Notes runs that have left their table, and has them spilled soon, if they are worth it and take too much.
fn note_left(core: &Core, state: &mut State, table: TableId, runs: &[Arc<Run>]) {
    state.note_left(table, runs);
    if runs.iter().any(|run| run.bytes() >= worth_bytes(core)) {
        state.spilling.look_again();
    }
}

/// The oldest runs of a table become a level on disk, and their commits leave the log. Without runs, only what was erased
/// of its segments is noted.
fn flush(
    core: &Core,
    table: TableId,
    runs: &[Arc<Run>],
    is_oldest: bool,
    interrupt: &Interrupt,
) -> Result<Done> {
    let taken = inputs(core, table, |entry| pieces_of(&entry.runs, runs));
    let (Some(layout), Some((pieces, since))) = (layout(core, table), taken) else {
        core.state().buffered_bytes -= total_bytes(runs);
        return Ok(Done::Installed);
    };
    let lsns = runs.iter().map(|run| run.lsns()).reduce(LsnRange::join);
    let rows = runs.iter().map(|run| run.rows()).sum();
    let progress = FlushProgress::new(core, rows, total_bytes(runs));
    let inputs = lsns.map(|lsns| Input { pieces, lsns, is_oldest });
    let fresh = match write_runs(core, table, &layout, inputs, &progress, interrupt)? {
        Written::Segments(pieces) => pieces.concat(),
        Written::Nothing(why) => return Ok(Done::PutOff(why)),
    };
    let mut fresh = FreshSegments::new(core, table, since, fresh);
    if let Err(why) = fresh.caught_up()? {
        return Ok(Done::PutOff(why));
    }
    let mut manifest = core.manifest();
    let (needed_from, unnoted, mut log_start) = {
        let mut state = match fresh.caught_up()? {
            Ok(state) => state,
            Err(why) => return Ok(Done::PutOff(why)),
        };
        let Some(entry) = state.tables.get_mut(&table) else {
            state.buffered_bytes -= total_bytes(runs);
            fresh.remove();
            return Ok(Done::Installed);
        };
        let unnoted = entry.take_unnoted();
        let needed_from = state.needed_from(table, runs.len());
        (needed_from, unnoted, state.positions.edits_before(needed_from))
    };
    let added = fresh.segments.iter().map(|new| Edit::AddSegment { table, segment: new.meta() });
    let flushed = lsns.map(|lsns| Edit::Flushed { table, lsn: lsns.last });
    let edits = added.chain(flushed).collect();
    log_start.push(Edit::NextLsn(needed_from));
    let noted = match fresh.note(&mut manifest, unnoted, edits, log_start)? {
        Ok(noted) => noted,
        Err(why) => return Ok(Done::PutOff(why)),
    };
    drop(progress);
    install_flushed(fresh, runs, lsns, noted, needed_from)?;
    let version = manifest.version();
    drop(manifest);
    if let Some(wal) = core.wal.get() {
        remove_log_before(core, wal, needed_from, version);
    }
    Ok(Done::Installed)
}

/// Writes runs as segments. Closing ends that only where the log has the rows.
fn write_runs(
    core: &Core,
    table: TableId,
    layout: &Layout,
    inputs: Option<Input>,
    progress: &FlushProgress<'_>,
    interrupt: &Interrupt,
) -> Result<Written> {
    let go_on = || {
        interrupt.check()?;
        match core.wal.get() {
            // The log has the rows.
            Some(_) => core.state().check_not_closing(),
            None => Ok(()),
        }
    };
    let written = |rows| progress.wrote(rows);
    let within = within_flush(core, &go_on, &written);
    write_segments(core, table, layout, inputs.into_iter().collect(), within)
}

/// Replaces runs in their table by what the manifest names, with erasures by commits up to `noted`. The log is needed from
/// a commit on.
fn install_flushed(
    fresh: FreshSegments<'_>,
    runs: &[Arc<Run>],
    lsns: Option<LsnRange>,
    noted: Lsn,
    needed_from: Lsn,
) -> Result<()> {
    let rows = fresh.rows();
    let FreshSegments { core, table, pieces: mut fresh, .. } = fresh;
    let mut state = fresh.catch_up()?;
    state.positions.note_before(needed_from);
    state.counts.flushes += 1;
    state.counts.rows_written += rows;
    state.buffered_bytes -= total_bytes(runs);
    note_left(core, &mut state, table, runs);
    let entry = state.tables.get_mut(&table).expect("tables are dropped under the manifest's lock");
    if let Some(lsns) = lsns {
        replace(&mut entry.runs, runs, Vec::new());
        entry.flushed = lsns.last;
    }
    entry.unnoted_is_noted();
    let fresh = fresh.into_slots(entry, noted);
    entry.segments.extend(fresh);
    entry.segments_changed();
    let replaced = state.changed(table);
    drop(state);
    drop(replaced);
    Ok(())
}

/// Removes log files that are not needed any more as of a version, once no reader holds an earlier moment that needs them.
pub fn remove_log_before(core: &Core, wal: &Wal, needed_from: Lsn, version: ManifestVersion) {
    for Released { name, first, bytes } in wal.release_before(needed_from) {
        core.removals.defer_log(name, bytes, version, first);
    }
    core.removals.sweep();
}

/// Segments become one level; the old files go with their last reader.
fn merge(
    core: &Core,
    table: TableId,
    groups: &[MergeGroup],
    levels_less: usize,
    go_on: &(dyn Fn() -> Result<()> + Sync),
    progress: &Progress,
) -> Result<Done> {
    let Some(layout) = layout(core, table) else { return Ok(Done::Installed) };
    let of_groups = |entry: &TableState| {
        let pieces = |group: &MergeGroup| pieces_of(&entry.segments, &group.segments);
        groups.iter().flat_map(pieces).collect::<Vec<_>>()
    };
    let Some((pieces, since)) = inputs(core, table, of_groups) else { return Ok(Done::Installed) };
    let mut pieces = pieces.into_iter();
    let inputs = groups.iter().map(|MergeGroup { segments, is_oldest }| Input {
        pieces: pieces.by_ref().take(segments.len()).collect(),
        lsns: covered(segments.iter().map(|segment| segment.lsns())),
        is_oldest: *is_oldest,
    });
    let merging = MergeProgress::new(core, table, rows_of(groups), levels_less);
    let written = |rows| {
        merging.wrote(rows);
        progress.add(rows);
    };
    let within = within_merge(core, go_on, &written);
    let merged = match write_segments(core, table, &layout, inputs.collect(), within)? {
        Written::Segments(merged) => merged,
        Written::Nothing(why) => return Ok(Done::PutOff(why)),
    };
    let mut fresh = FreshSegments::new(core, table, since, merged.concat());
    let merged: Vec<Vec<Arc<Segment>>> = merged.iter().map(|of| segments_of(of)).collect();
    if let Err(why) = fresh.caught_up()? {
        return Ok(Done::PutOff(why));
    }
    let mut manifest = core.manifest();
    let unnoted = {
        let mut state = match fresh.caught_up()? {
            Ok(state) => state,
            Err(why) => return Ok(Done::PutOff(why)),
        };
        let Some(entry) = state.tables.get_mut(&table) else {
            fresh.remove();
            return Ok(Done::Installed);
        };
        // What leaves rows out that were erased must not be there before all says so that they were.
        entry.unnoted.forget(all_segments(groups).map(Segment::id));
        entry.take_unnoted()
    };
    let edit = |(group, merged): (&MergeGroup, &Vec<Arc<Segment>>)| Edit::ReplaceSegments {
        table,
        removed: group.segments.iter().map(|segment| segment.id()).collect(),
        added: merged.iter().map(|segment| segment.meta()).collect(),
    };
    let edits = groups.iter().zip(&merged).map(edit).collect();
    let noted = match fresh.note(&mut manifest, unnoted, edits, Vec::new())? {
        Ok(noted) => noted,
        Err(why) => return Ok(Done::PutOff(why)),
    };
    install_merged(fresh, groups, merged, noted)?;
    let removed = groups.iter().flat_map(|group| &group.segments);
    remove_unless_pinned(core, removed, manifest.version());
    drop(manifest);
    Ok(Done::Installed)
}

/// Replaces groups of segments in their table by what the manifest names, with erasures by commits up to `noted`.
fn install_merged(
    fresh: FreshSegments<'_>,
    groups: &[MergeGroup],
    merged: Vec<Vec<Arc<Segment>>>,
    noted: Lsn,
) -> Result<()> {
    let rows = fresh.rows();
    let FreshSegments { table, pieces: mut fresh, .. } = fresh;
    let mut state = fresh.catch_up()?;
    state.counts.merges += 1;
    state.counts.rows_written += rows;
    let entry = state.tables.get_mut(&table).expect("tables are dropped under the manifest's lock");
    entry.unnoted_is_noted();
    entry.unnoted.forget(all_segments(groups).map(Segment::id));
    let mut fresh = fresh.into_slots(entry, noted).into_iter();
    for (group, merged) in groups.iter().zip(merged) {
        let merged = fresh.by_ref().take(merged.len()).collect();
        replace(&mut entry.segments, &group.segments, merged);
    }
    entry.segments_changed();
    let replaced = state.changed(table);
    drop(state);
    drop(replaced);
    Ok(())
}

/// Has the files of segments that left their table removed, but those of named snapshots. To be called under
/// the manifest's lock, so that none is being pinned meanwhile.
pub fn remove_unless_pinned<'a>(
    core: &Core,
    segments: impl IntoIterator<Item = &'a Arc<Segment>>,
    removed_at: ManifestVersion,
) {
    let state = core.state();
    for segment in segments {
        if !state.is_pinned(segment.id()) {
            segment.remove_when_unused(&core.removals, removed_at);
        }
    }
}

/// Notes positions that no flush of rows has noted: those of the newest commits, where these have no rows.
pub fn note_positions(core: &Core) -> Result<Done> {
    let mut manifest = core.manifest();
    let (needed_from, mut edits) = {
        let state = core.state();
        state.check_writable()?;
        let needed_from = state.needed_now();
        (needed_from, state.positions.edits_before(needed_from))
    };
    if edits.is_empty() {
        return Ok(Done::Installed);
    }
    edits.push(Edit::NextLsn(needed_from));
    let noted =
        not_noted(core, &mut manifest, &edits, &[]).inspect_err(|error| core.fail(error))?;
    if let Some(why) = noted {
        return Ok(Done::PutOff(why));
    }
    core.state().positions.note_before(needed_from);
    Ok(Done::Installed)
}

/// Ends a merge that a call is about to do together with all others.
fn check_not_called_for(core: &Core, table: TableId) -> Result<()> {
    match core.state().tables.get(&table) {
        Some(table) if table.compact_calls > 0 => {
            Err(Error::new(ErrorKind::Interrupted, "the table is about to be compacted"))
        }
        _ => Ok(()),
    }
}

fn layout(core: &Core, table: TableId) -> Option<Layout> {
    core.state().tables.get(&table).map(|entry| entry.layout.clone())
}

/// Rows of the segments of some groups.
pub fn rows_of(groups: &[MergeGroup]) -> u64 {
    all_segments(groups).map(Segment::rows).sum()
}

fn all_segments(groups: &[MergeGroup]) -> impl Iterator<Item = &Segment> {
    groups.iter().flat_map(|group| &group.segments).map(|segment| &**segment)
}

/// Puts the inputs of a failed job back into play. Those of a dropped table are gone for good.
fn give_back(core: &Core, job: &Job) {
    match job {
        Job::CompactRuns { table, compaction } => {
            let mut state = looked_at_again(core, *table);
            state.give_back_reserved(compaction.reserved);
            give_back_runs(&mut state, *table, &compaction.runs);
        }
        Job::Flush { table, runs, .. } => {
            give_back_runs(&mut looked_at_again(core, *table), *table, runs);
        }
        Job::Merge { table, groups, .. } => {
            if let Some(entry) = looked_at_again(core, *table).tables.get_mut(table) {
                groups.iter().for_each(|group| release(&mut entry.segments, &group.segments));
            }
        }
        Job::Index { table, segment, .. } => set_indexing::give_back(core, *table, segment),
        // It took nothing, and says by itself when it is tried again.
        Job::Spill => {}
    }
}

/// The state, in which workers will look at a table.
fn looked_at_again(core: &Core, table: TableId) -> MutexGuard<'_, State> {
    let mut state = core.state();
    state.worklist.add(table);
    state.resting.watch(table);
    state
}

fn give_back_runs(state: &mut State, table: TableId, runs: &[Arc<Run>]) {
    match state.tables.get_mut(&table) {
        Some(entry) => release(&mut entry.runs, runs),
        None => state.buffered_bytes = state.buffered_bytes.saturating_sub(total_bytes(runs)),
    }
}
