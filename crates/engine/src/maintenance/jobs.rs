//! Doing background work: merge the inputs, then swap the result in.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::rows::Layout;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::log::wal::Wal;
use drillcore_storage::manifest::Manifest;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_writer::SegmentWriter;
use drillcore_storage::sync::{MutexGuard, thread};

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::room::{self, Spare};
use crate::maintenance::set_indexing;
use crate::merge::merger::{Direction, Merger};
use crate::merge::piece_source::PieceSource;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::run::{Run, UncommittedRun};
use crate::policy::table_policy::TablePolicy;
use crate::policy::tombstones::without_tombstones;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::put_off::{Done, PutOff};
use crate::state::slots::{Slot, covered, release, replace};

/// Rows a flush or merge moves at once, unless they are long.
const BATCH_ROWS: usize = 4096;
/// Bytes that are written between two looks at what the disk has left.
const LOOK_BYTES: u64 = 1 << 20;

/// A piece of background work with its inputs.
pub enum Job {
    CompactRuns {
        table: TableId,
        runs: Vec<Arc<Run>>,
    },
    /// `is_oldest`: nothing older lies on disk, so tombstones have nothing left to hide.
    Flush {
        table: TableId,
        runs: Vec<Arc<Run>>,
        is_oldest: bool,
    },
    Merge {
        table: TableId,
        segments: Vec<Arc<Segment>>,
        is_oldest: bool,
    },
    /// `rows_done` shows how far it is.
    Index {
        table: TableId,
        segment: Arc<Segment>,
        indexed: IndexedSets,
        rows_done: Arc<AtomicU64>,
    },
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
                state.underway += 1;
                Ok(Picked { core, job: Some(job), is_done: false })
            }
        }
    }

    /// Does the job and installs its result. If it fails or is put off, its inputs come back into play.
    ///
    /// # Errors
    /// `Interrupted` if the interrupt said stop; `Closed` if the database is closing and the job can do without.
    /// Others leave the files in doubt: nothing must be written after them.
    pub fn run(mut self, interrupt: &Interrupt) -> Result<Done> {
        let core = self.core;
        let job = self.job.as_ref().expect("it is there until it is dropped");
        let done = match job {
            Job::CompactRuns { table, runs } => {
                compact_runs(core, *table, runs).map(|()| Done::Installed)
            }
            Job::Flush { table, runs, is_oldest } => {
                flush(core, *table, runs, *is_oldest, interrupt)
            }
            Job::Merge { table, segments, is_oldest } => {
                merge(core, *table, segments, *is_oldest, interrupt)
            }
            Job::Index { table, segment, indexed, rows_done } => {
                set_indexing::index(core, *table, segment, indexed, rows_done)
            }
        };
        self.is_done = matches!(done, Ok(Done::Installed));
        if let Ok(done) = &done {
            note(core, job, done);
        }
        done
    }
}

impl Drop for Picked<'_> {
    fn drop(&mut self) {
        let job = self.job.take().expect("it is dropped once");
        if !self.is_done {
            give_back(self.core, &job);
        }
        // Files that were merged away go with their last user, so it has to be gone before closing goes on.
        drop(job);
        if thread::panicking() {
            self.core.fail(&Error::new(ErrorKind::ReadOnly, "a job of maintenance panicked"));
        }
        self.core.state().underway -= 1;
        self.core.state_changed.notify_all();
    }
}

/// Notes with the table whether its work goes on.
fn note(core: &Core, job: &Job, done: &Done) {
    let mut state = core.state();
    let (table, is_flush) = match job {
        Job::CompactRuns { .. } => return,
        Job::Flush { table, .. } => (table, true),
        Job::Merge { table, .. } | Job::Index { table, .. } => (table, false),
    };
    let Some(entry) = state.tables.get_mut(table) else { return };
    let noted = if is_flush { &mut entry.flush_put_off } else { &mut entry.merge_put_off };
    *noted = match done {
        Done::Installed => None,
        Done::PutOff(why) => Some(PutOff::again(noted.as_ref(), why.clone(), Instant::now())),
    };
}

/// Several runs become one, in memory.
fn compact_runs(core: &Core, table: TableId, runs: &[Arc<Run>]) -> Result<()> {
    let Some(layout) = layout(core, table) else {
        core.state().buffered_bytes -= 2 * total_bytes(runs);
        return Ok(());
    };
    let compacted = Arc::new(compacted(&layout, runs, &core.meter, &core.rows_examined)?);

    let mut state = core.state();
    state.counts.memory_compactions += 1;
    state.buffered_bytes -= 2 * total_bytes(runs);
    if state.tables.contains_key(&table) {
        state.buffered_bytes += compacted.bytes();
        let entry = state.tables.get_mut(&table).expect("looked up above");
        replace(&mut entry.runs, runs, Some(compacted));
    }
    state.changed();
    Ok(())
}

/// One run with the rows of several neighbours.
pub fn compacted(
    layout: &Layout,
    runs: &[Arc<Run>],
    meter: &MemoryMeter,
    examined: &RowsExamined,
) -> Result<Run> {
    let pieces: Vec<Piece> = runs.iter().map(|run| Piece::Run(run.clone())).collect();
    // What is compacted is less than an array can hold.
    let mut merger = merger(pieces, layout)?.in_one_batch();
    let rows = merger.next_rows()?.expect("runs have rows");
    assert!(merger.next_rows()?.is_none(), "a compacted run is one batch");
    let lsns = covered(runs.iter().map(|run| run.lsns()));
    Ok(UncommittedRun::new(layout, rows, meter, examined)?.commit(lsns))
}

/// The oldest runs of a table become one segment, and their commits leave the log.
fn flush(
    core: &Core,
    table: TableId,
    runs: &[Arc<Run>],
    is_oldest: bool,
    interrupt: &Interrupt,
) -> Result<Done> {
    let pieces = runs.iter().map(|run| Piece::Run(run.clone())).collect();
    let lsns = covered(runs.iter().map(|run| run.lsns()));
    let Some(layout) = layout(core, table) else {
        core.state().buffered_bytes -= total_bytes(runs);
        return Ok(Done::Installed);
    };
    let go_on = || {
        interrupt.check()?;
        match core.wal.get() {
            // The log has the rows.
            Some(_) => core.state().check_not_closing(),
            None => Ok(()),
        }
    };
    let within = Within { spare: Spare::Commits, go_on: &go_on };
    let segment = match write_segment(core, table, &layout, pieces, lsns, is_oldest, within)? {
        Written::Segment(segment) => Some(segment),
        Written::NoRows => None,
        Written::Nothing(why) => return Ok(Done::PutOff(why)),
    };
    let mut manifest = core.manifest();
    let needed_from = {
        let mut state = core.state();
        if !state.tables.contains_key(&table) {
            state.buffered_bytes -= total_bytes(runs);
            segment.inspect(|segment| never_was(core, segment));
            return Ok(Done::Installed);
        }
        state.needed_from(table, runs.len())
    };
    let added = segment.iter().map(|new| Edit::AddSegment { table, segment: new.meta() });
    let flushed = Edit::Flushed { table, lsn: lsns.last };
    let edits: Vec<Edit> = added.chain([flushed, Edit::NextLsn(needed_from)]).collect();
    if let Some(why) = not_noted(core, &mut manifest, &edits, segment.as_deref())? {
        return Ok(Done::PutOff(why));
    }
    let mut state = core.state();
    state.counts.flushes += 1;
    state.counts.rows_written += segment.as_ref().map_or(0, |segment| segment.rows());
    state.buffered_bytes -= total_bytes(runs);
    let entry = state.tables.get_mut(&table).expect("tables are dropped under the manifest's lock");
    replace(&mut entry.runs, runs, None);
    entry.segments.extend(segment.map(|piece| Slot { piece, taken: false }));
    entry.is_indexed = false;
    entry.flushed = lsns.last;
    state.changed();
    drop(state);
    drop(manifest);
    if let Some(wal) = core.wal.get() {
        remove_log_before(core, wal, needed_from);
    }
    Ok(Done::Installed)
}

/// Removes log files that are not needed any more, once no reader may be about to read them.
pub fn remove_log_before(core: &Core, wal: &Wal, needed_from: Lsn) {
    for (name, bytes) in wal.release_before(needed_from) {
        core.removals.defer(name, bytes, ManifestVersion::ANY);
    }
    core.removals.sweep();
}

/// Neighbouring segments become one; the old files go with their last reader.
fn merge(
    core: &Core,
    table: TableId,
    segments: &[Arc<Segment>],
    is_oldest: bool,
    interrupt: &Interrupt,
) -> Result<Done> {
    let pieces = segments.iter().map(|segment| Piece::Segment(segment.clone())).collect();
    let lsns = covered(segments.iter().map(|segment| segment.lsns()));
    let Some(layout) = layout(core, table) else { return Ok(Done::Installed) };
    let within = Within { spare: Spare::Flushes, go_on: &|| go_on(core, interrupt) };
    let merged = match write_segment(core, table, &layout, pieces, lsns, is_oldest, within)? {
        Written::Segment(segment) => Some(segment),
        Written::NoRows => None,
        Written::Nothing(why) => return Ok(Done::PutOff(why)),
    };
    let mut manifest = core.manifest();
    if !core.state().tables.contains_key(&table) {
        merged.inspect(|segment| never_was(core, segment));
        return Ok(Done::Installed);
    }
    let removed =
        segments.iter().map(|segment| Edit::RemoveSegment { table, segment: segment.id() });
    let added = merged.iter().map(|new| Edit::AddSegment { table, segment: new.meta() });
    let edits: Vec<Edit> = removed.chain(added).collect();
    if let Some(why) = not_noted(core, &mut manifest, &edits, merged.as_deref())? {
        return Ok(Done::PutOff(why));
    }
    let mut state = core.state();
    state.counts.merges += 1;
    state.counts.rows_written += merged.as_ref().map_or(0, |segment| segment.rows());
    let entry = state.tables.get_mut(&table).expect("tables are dropped under the manifest's lock");
    replace(&mut entry.segments, segments, merged);
    entry.is_indexed = false;
    state.changed();
    drop(state);
    remove_unless_pinned(core, segments.iter(), manifest.version());
    drop(manifest);
    Ok(Done::Installed)
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

/// Notes in the manifest what became of some pieces. Where there is no room for the edits, nothing was changed, the new
/// segment is removed, and that is why.
///
/// # Errors
/// On any other failure the file stays: the edit may have reached the disk. The next opening knows.
fn not_noted(
    core: &Core,
    manifest: &mut Manifest,
    edits: &[Edit],
    fresh: Option<&Segment>,
) -> Result<Option<Error>> {
    let Err(error) = manifest.commit(edits) else { return Ok(None) };
    let why = Error::from(error).if_lacking()?;
    fresh.inspect(|segment| never_was(core, segment));
    Ok(Some(why))
}

/// Removes a segment that never got into the manifest.
fn never_was(core: &Core, segment: &Segment) {
    segment.remove_when_unused(&core.removals, ManifestVersion::EVERYTHING);
}

/// Whether to go on with what need not be finished.
pub fn go_on(core: &Core, interrupt: &Interrupt) -> Result<()> {
    interrupt.check()?;
    core.state().check_not_closing()
}

/// What came of writing pieces out.
pub enum Written {
    Segment(Arc<Segment>),
    /// Tombstones were all there was, and nothing is left for them to hide.
    NoRows,
    /// Room or file descriptors were lacking; what was written was removed.
    Nothing(Error),
}

/// What bounds the writing of a segment.
pub struct Within<'a> {
    /// The room that it must leave on the disk.
    pub spare: Spare,
    /// Asked before each batch of rows; its error ends the writing, and nothing stays.
    pub go_on: &'a dyn Fn() -> Result<()>,
}

/// Writes the pieces, merged, as a segment that is durable but not yet in the manifest.
pub fn write_segment(
    core: &Core,
    table: TableId,
    layout: &Layout,
    pieces: Vec<Piece>,
    lsns: LsnRange,
    is_oldest: bool,
    within: Within<'_>,
) -> Result<Written> {
    (within.go_on)()?;
    let id = core.new_segment_id();
    match core.wal.get() {
        // Of what is in the segment, and of what is older, nothing may be lost that the segment outlives. So a
        // whole segment that no edit names has its commits in the log, too, or its edit was lost.
        Some(wal) => wal.make_durable()?,
        // Without a log this edit tells a segment whose own edit a crash kept from being written.
        None => {
            if let Err(error) = core.manifest().commit(&[Edit::NextSegment(SegmentId(id.0 + 1))]) {
                return Ok(Written::Nothing(Error::from(error).if_lacking()?));
            }
        }
    }
    let total: u64 = pieces.iter().map(stored_bytes).sum();
    let written = (|| -> Result<bool> {
        let mut writer = SegmentWriter::create(core.directory.clone(), id, table, layout, lsns)?;
        let mut merger = merger(pieces, layout)?;
        let mut looked_for = 0;
        while let Some(rows) = merger.next_rows()? {
            (within.go_on)()?;
            let rows = if is_oldest { without_tombstones(layout, rows) } else { rows };
            let here = rows.string_bytes() as u64;
            if writer.bytes() + here >= looked_for {
                looked_for = writer.bytes() + here + LOOK_BYTES;
                let rest = total.saturating_sub(writer.bytes());
                let ahead = (here + LOOK_BYTES).min(rest.max(here));
                room::check(core, within.spare, "the next part of a segment", ahead)?;
            }
            writer.append(&rows)?;
        }
        let has_rows = writer.rows() > 0;
        if has_rows {
            writer.finish()?;
        }
        Ok(has_rows)
    })();
    if !matches!(written, Ok(true)) {
        core.removals.defer(Segment::file_name(id), 0, ManifestVersion::EVERYTHING);
        core.removals.sweep();
    }
    let opened = written.and_then(|has_rows| match has_rows {
        false => Ok(Written::NoRows),
        true => {
            let segment = Segment::open(core.directory.as_ref(), id, layout, core.cache.clone())?;
            let segment = Arc::new(segment);
            core.note_segment(&segment);
            Ok(Written::Segment(segment))
        }
    });
    opened.or_else(|error| {
        let why = error.if_lacking()?;
        // At once: what it takes is lacking.
        let _ = core.directory.remove(&Segment::file_name(id));
        Ok(Written::Nothing(why))
    })
}

/// What a piece takes on disk, or would at most about.
fn stored_bytes(piece: &Piece) -> u64 {
    match piece {
        Piece::Run(run) => run.bytes(),
        Piece::Segment(segment) => segment.disk_bytes(),
    }
}

fn merger(pieces: Vec<Piece>, layout: &Layout) -> Result<Merger<PieceSource>> {
    let all = layout.all();
    let sources = pieces
        .into_iter()
        .map(|piece| PieceSource::whole(piece, all.clone(), Direction::Forward).in_checked_order())
        .collect();
    Merger::new(sources, Direction::Forward, TablePolicy::of(layout).fold(), BATCH_ROWS)
}

fn layout(core: &Core, table: TableId) -> Option<Layout> {
    core.state().tables.get(&table).map(|entry| entry.layout.clone())
}

fn total_bytes(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.bytes()).sum()
}

/// Puts the inputs of a failed job back into play. Those of a dropped table are gone for good.
fn give_back(core: &Core, job: &Job) {
    if let Job::Index { table, segment, .. } = job {
        return set_indexing::give_back(core, *table, segment);
    }
    let mut state = core.state();
    match job {
        Job::Index { .. } => unreachable!("handled above"),
        Job::CompactRuns { table, runs } => {
            state.buffered_bytes = state.buffered_bytes.saturating_sub(total_bytes(runs));
            give_back_runs(&mut state, *table, runs);
        }
        Job::Flush { table, runs, .. } => give_back_runs(&mut state, *table, runs),
        Job::Merge { table, segments, .. } => {
            if let Some(entry) = state.tables.get_mut(table) {
                release(&mut entry.segments, segments);
            }
        }
    }
}

fn give_back_runs(state: &mut State, table: TableId, runs: &[Arc<Run>]) {
    match state.tables.get_mut(&table) {
        Some(entry) => release(&mut entry.runs, runs),
        None => state.buffered_bytes = state.buffered_bytes.saturating_sub(total_bytes(runs)),
    }
}
