//! Opening: manifest, segments, then the log's commits that are in no segment yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;

use drillcore_format::block::{BlockView, RowsBuilder};
use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::logged_commit::{Erased, LoggedCommit, LoggedErasure, decode_commit};
use drillcore_format::manifest_edit::{Edit, PostingsMeta, SegmentMeta};
use drillcore_format::rows::{Layout, Rows};
use drillcore_storage::error::StorageError;
use drillcore_storage::files::directory::{Directory, Lock};
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::files::open_files::OpenFiles;
use drillcore_storage::files::whole_file::is_unfinished;
use drillcore_storage::log::log_files::is_log_file;
use drillcore_storage::log::reading::read_log;
use drillcore_storage::log::recovery::recover_log;
use drillcore_storage::log::wal::LogOptions;
use drillcore_storage::manifest::{self, Manifest, ManifestState, PinnedSnapshot};
use drillcore_storage::pages::files_ahead::FilesAhead;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::pages::paged_file::file_of;
use drillcore_storage::segments::segment::Segment;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::orphans::Orphans;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::jobs::{self, Picked};
use crate::maintenance::scheduler::{compact_small_runs, flush, pick_flush};
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::piece::Piece;
use crate::pieces::run::UncommittedRun;
use crate::select::key_range::KeyRange;
use crate::select::read_memory::ReadMemory;
use crate::select::selection::Question;
use crate::state::compaction::Stint;
use crate::state::core::Core;
use crate::state::erasing::erased_by;
use crate::state::guarded::State;
use crate::state::options::{Durability, Options};
use crate::state::positions::Positions;
use crate::state::slots::Slot;
use crate::state::table_state::TableState;
use crate::state::version::{TableVersion, Version};

/// The file whose lock the writer holds.
pub const LOCK_FILE: &str = "LOCK";

/// Brings a database into memory as it was after its last acknowledged commit, or a later one. `fresh` is a random
/// number, and not 0: the identity of a database that has none yet.
pub fn open(directory: Arc<dyn Directory>, options: Options, fresh: u128) -> Result<Core> {
    let directory: Arc<dyn Directory> = Arc::new(OpenFiles::new(directory));
    let lock = take_lock(directory.as_ref())?;
    holds_database(directory.as_ref(), "the directory")?;
    // Whatever refuses the opening does so before anything is changed.
    let found = Manifest::read(directory.as_ref())?.state;
    let cache = Arc::new(PageCache::new(directory.clone(), options.cache_bytes));
    let reads = ReadMemory::new(options.list_bytes(), options.direct_io);
    let orphans = Orphans::listed(directory.as_ref())?.of(&found);
    let needed_from = found.next_lsn;
    let next_segment = found.next_segment;
    // A later backup that was not finished leaves whole segments.
    let is_backup = found.backup.is_some_and(|mark| !mark.was_opened);
    let (snapshots, postings) = (found.snapshots.clone(), found.postings.clone());
    let mut opened: Vec<Arc<Segment>> = Vec::new();
    let mut numbers: HashMap<SegmentId, usize> = HashMap::new();
    let mut files = files_ahead(directory.as_ref(), found.segments(), &found.postings);
    let mut open_segment = |id: SegmentId, layout: &Layout| {
        options.interrupt.check()?;
        if let Some(number) = numbers.get(&id) {
            return Ok(opened[*number].clone());
        }
        let segment = Segment::open_next(&mut files, id, layout, cache.clone())?;
        if let Some(postings) = postings.get(&id) {
            segment.attach_postings(segment.open_postings(&mut files, *postings)?);
        }
        let segment = Arc::new(segment);
        numbers.insert(id, opened.len());
        opened.push(segment.clone());
        Ok(segment)
    };
    let mut state = open_tables(found, &reads, &mut open_segment)?;
    for (name, pinned) in snapshots {
        let pinned_version = open_snapshot(&pinned, &reads, &mut open_segment)?;
        state.named.insert(name, Arc::new(pinned_version));
        // The commits it shows may be in no table any more.
        state.next_lsn = state.next_lsn.max(Lsn(pinned.lsn.0 + 1));
    }
    hold_indexes(&opened, &options.interrupt)?;
    let logged =
        read_log(directory.as_ref(), needed_from, Lsn(u64::MAX), None, |_, _| Ok::<(), Error>(()))?
            .last;
    check_log_reaches(logged, needed_from, state.next_lsn)?;
    let last = logged.unwrap_or_default().max(Lsn(state.next_lsn.0 - 1));
    if !is_backup {
        orphans.check_no_edit_is_lost(directory.as_ref(), next_segment, last)?;
    }
    // An orphan that a reader still needs keeps its name.
    // A number that no database reaches was made up, and is ignored.
    let numbers = orphans.names().iter().filter_map(|name| Some(file_of(name)?.1.0));
    let taken = numbers.filter(|number| *number < u64::from(u32::MAX)).max();
    let unused = taken.map_or(next_segment, |taken| next_segment.max(SegmentId(taken + 1)));
    let (manifest, _, replaced) = Manifest::open(directory.clone(), fresh, unused)?;
    remove_unfinished(directory.as_ref())?;
    let version = manifest.version();
    let core = Core::new(directory, lock, options, cache, manifest, unused, state);
    opened.iter().for_each(|segment| core.note_segment(segment));
    let orphans = orphans.names().iter().map(|name| (name.clone(), version));
    // A reader at a moment of one of them reads it up to there.
    let replaced = replaced.into_iter();
    let replaced = replaced.map(|(file, name)| (name, ManifestVersion::before_file(file + 1)));
    for (name, removed_at) in orphans.chain(replaced) {
        let bytes = core.directory.open(&name).and_then(|file| file.byte_len()).unwrap_or(0);
        core.removals.defer(name, bytes, removed_at);
    }
    core.removals.sweep();
    replay(&core, needed_from, fresh as u32)?;
    Ok(core)
}

/// Takes the writer's lock.
fn take_lock(directory: &dyn Directory) -> Result<Box<dyn Lock>> {
    let lock = directory.lock(LOCK_FILE).map_err(|error| {
        Error::io(format_args!("cannot lock the database with {LOCK_FILE}"), error)
    })?;
    Ok(lock.ok_or_else(|| match directory.is_locked_here(LOCK_FILE) {
        true => StorageError::LockedHere,
        false => StorageError::Locked,
    })?)
}

/// Whether a directory, called `folder` in errors, holds a database.
///
/// # Errors
/// `Corrupt` if it holds files of a database and no manifest, which is a database's first file. A new one would
/// call the segments that are there orphans, and remove them.
pub fn holds_database(directory: &dyn Directory, folder: &str) -> Result<bool> {
    if manifest::exists(directory)? {
        return Ok(true);
    }
    let io = |error| Error::io(format_args!("cannot list {folder}"), error);
    let mut names = directory.list().map_err(io)?;
    names.retain(|name| file_of(name).is_some() || is_log_file(name));
    match names.iter().min() {
        None => Ok(false),
        Some(name) => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{folder} has {name}, but no manifest: the database is damaged. Nothing was changed. Restore \
                 its manifest-*.log from a copy, or move the files away to start with an empty database"
            ),
        )),
    }
}

/// Removes log files that were being begun when the process died. Nothing reads them, and one that stays is
/// replaced by the next of its name.
fn remove_unfinished(directory: &dyn Directory) -> Result<()> {
    let io = |error| Error::io("cannot list the database directory", error);
    let names = directory.list().map_err(io)?;
    let is_log = |name: &str| name.starts_with("manifest-") || name.starts_with("wal-");
    for name in names.iter().filter(|name| is_log(name) && is_unfinished(name)) {
        let _ = directory.remove(name);
    }
    Ok(())
}

/// The files of segments that will be opened in that order, with those of their postings.
pub fn files_ahead<'d>(
    directory: &'d dyn Directory,
    segments: impl Iterator<Item = SegmentId>,
    postings: &BTreeMap<SegmentId, PostingsMeta>,
) -> FilesAhead<'d> {
    // Named snapshots share segments with tables.
    let mut seen = HashSet::new();
    let segments = segments.filter(|id| seen.insert(*id));
    FilesAhead::of_segments(directory, segments.map(|id| (id, postings.get(&id).copied())))
}

/// Segments whose index pages are read together, between two looks at the interrupt.
const INDEXES_AT_ONCE: usize = 256;

/// Has the index pages of segments that were just opened read together, those of the first ones while all are few.
pub fn hold_indexes(opened: &[Arc<Segment>], interrupt: &Interrupt) -> Result<()> {
    for some in opened.chunks(INDEXES_AT_ONCE) {
        interrupt.check()?;
        Segment::hold_indexes_early(&some.iter().map(|segment| &**segment).collect::<Vec<_>>());
    }
    Ok(())
}

/// The tables of a manifest, with their segments as `open` finds them.
pub fn open_tables(
    found: ManifestState,
    reads: &Arc<ReadMemory>,
    mut open: impl FnMut(SegmentId, &Layout) -> Result<Arc<Segment>>,
) -> Result<State> {
    let mut last = found.next_lsn.0 - 1;
    let mut state = State::new(Lsn(1), reads.clone());
    state.next_table = found.next_table;
    state.positions = Positions::noted(found.positions, found.next_lsn);
    for (id, entry) in found.tables {
        let mut table = TableState::new(&entry.name, entry.schema, entry.flushed);
        for meta in entry.segments {
            let segment = open_described(id, &meta, &table.layout, &mut open)?;
            last = last.max(meta.lsns.last.0);
            let erased = entry.erased.get(&meta.id).cloned().and_then(ErasedRows::new);
            table.segments.push(Slot::new(segment, erased));
        }
        table.segments_changed();
        last = last.max(entry.flushed.0);
        state.tables.insert(id, table);
    }
    state.next_lsn = Lsn(last + 1);
    Ok(state)
}

/// A named snapshot as the manifest describes it, with its segments as `open` finds them.
pub fn open_snapshot(
    pinned: &PinnedSnapshot,
    reads: &Arc<ReadMemory>,
    mut open: impl FnMut(SegmentId, &Layout) -> Result<Arc<Segment>>,
) -> Result<Version> {
    let (lsn, clock) = (pinned.lsn, pinned.clock);
    let tables = pinned.tables.iter().map(|table| {
        let layout = Layout::new(&table.schema);
        let name: Arc<str> = Arc::from(table.name.as_str());
        let segments = table.segments.iter();
        let pieces = segments
            .map(|meta| {
                let segment = open_described(table.table, meta, &layout, &mut open)?;
                let mut erased = table.erased.iter().filter(|(id, _)| *id == meta.id);
                let erased = erased.next().and_then(|(_, rows)| ErasedRows::new(rows.clone()));
                Ok(Piece { erased, ..segment.into() })
            })
            .collect::<Result<_>>()?;
        Ok(TableVersion::new(table.table, name, layout, lsn, clock, pieces, reads.clone()))
    });
    Ok(Version::of(lsn, clock, tables.collect::<Result<Vec<_>>>()?))
}

/// A segment of a table as `open` finds it, if its file is the one that the manifest describes.
pub fn open_described(
    table: TableId,
    meta: &SegmentMeta,
    layout: &Layout,
    open: &mut impl FnMut(SegmentId, &Layout) -> Result<Arc<Segment>>,
) -> Result<Arc<Segment>> {
    let segment = open(meta.id, layout)?;
    if segment.meta() != *meta || segment.table() != table {
        let name = Segment::file_name(meta.id);
        let found = format!("{name} is not the file that the manifest describes");
        return Err(Error::damaged(found));
    }
    Ok(segment)
}

/// Reads the log; rows that a segment already holds are passed over. Keeps to the memory budget by
/// flushing on the way.
fn replay(core: &Core, needed_from: Lsn, nonce: u32) -> Result<()> {
    let sync = core.options.durability == Durability::Fsync;
    let directory = core.directory.clone();
    let (wal, last) =
        recover_log(directory, LogOptions::new(sync, nonce), needed_from, |lsn, payload| {
            let commit = logged_commit(lsn, payload)?;
            for (table, block) in commit.batches {
                replay_batch(core, table, lsn, block)?;
            }
            let mut state = core.state();
            for erasure in commit.erasures {
                erase_logged(&mut state, lsn, erasure)?;
            }
            state.positions.add(lsn, commit.positions);
            state.next_lsn = state.next_lsn.max(Lsn(lsn.0 + 1));
            drop(state);
            core.show(lsn);
            core.options.interrupt.check()?;
            make_room(core)
        })?;
    let expected = core.state().next_lsn;
    check_log_reaches(last, needed_from, expected)?;
    if core.options.durability == Durability::None {
        // Without a log, what an earlier opening logged must be in segments before it is forgotten.
        flush(core, core.visible(), &core.options.interrupt)?;
        start_log_at(core, expected)?;
        let version = core.manifest().version();
        jobs::remove_log_before(core, &wal, expected, version);
        let io = |error| Error::io("cannot sync the database directory", error);
        core.directory.sync().map_err(io)?;
    } else {
        if last.is_none_or(|last| last < needed_from) && expected > needed_from {
            // An earlier opening without a log, or with one that a power cut took, left commits in
            // segments only.
            start_log_at(core, expected)?;
        }
        // What only readers need counts as their own from here on.
        jobs::remove_log_before(core, &wal, needed_from, core.manifest().version());
        core.wal.set(wal).map_err(|_| ()).expect("the log is opened once");
        release_small_files(core, expected)?;
    }
    Ok(())
}

/// Flushes all where openings before this one left many log files: who opens, appends a little and closes leaves no time for
/// that in the background. `expected` is the next commit.
fn release_small_files(core: &Core, expected: Lsn) -> Result<()> {
    let Some(wal) = core.wal.get().filter(|wal| wal.has_many_small_files()) else { return Ok(()) };
    match flush(core, core.visible(), &core.options.interrupt).map_err(Error::if_postponed) {
        Ok(()) => {}
        // Without room for segments the log stays as it is.
        Err(Ok(_)) => return Ok(()),
        Err(Err(error)) => return Err(error),
    }
    // Commits of positions alone leave nothing to flush.
    start_log_at(core, expected)?;
    jobs::remove_log_before(core, wal, expected, core.manifest().version());
    Ok(())
}

/// Refuses a log that ends before `expected`, the first commit that no segment holds.
pub fn check_log_reaches(last: Option<Lsn>, needed_from: Lsn, expected: Lsn) -> Result<()> {
    // A log that is not needed any more may end earlier: its files' removal was lost in a power cut, or a reader needs them.
    match last.filter(|last| *last >= needed_from) {
        Some(last) if last.0 + 1 < expected.0 && needed_from < expected => {
            let held = expected.0 - 1;
            let message = format!(
                "the log ends at commit {last}, but segments have commits up to {held}; restore the log from a copy"
            );
            Err(Error::new(ErrorKind::Corrupt, message))
        }
        _ => Ok(()),
    }
}

/// Notes that commits below `lsn` are not looked for in the log.
fn start_log_at(core: &Core, lsn: Lsn) -> Result<()> {
    let mut edits = core.state().positions.edits_before(lsn);
    edits.push(Edit::NextLsn(lsn));
    core.manifest().commit(&edits)?;
    core.state().positions.note_before(lsn);
    Ok(())
}

fn replay_batch(core: &Core, id: TableId, lsn: Lsn, block: &[u8]) -> Result<()> {
    let layout = {
        let state = core.state();
        // A table that is gone was dropped; its rows went with it.
        let Some(table) = state.tables.get(&id) else { return Ok(()) };
        if lsn <= table.flushed {
            return Ok(());
        }
        table.layout.clone()
    };
    let rows = logged_rows(lsn, &layout, block)?;
    let run = UncommittedRun::new(&layout, rows, &core.meter, &core.rows_examined)?;
    let run = run.commit(LsnRange { first: lsn, last: lsn });
    let mut state = core.state();
    state.buffered_bytes += run.bytes();
    let table = state.tables.get_mut(&id).expect("recovery drops no tables");
    table.runs.push(Slot::new(run, None));
    let replaced = state.changed(id);
    drop(state);
    drop(replaced);
    Ok(())
}

/// Erases what a logged commit erased of its table. A table that is gone was dropped, and segments that are gone were merged
/// without these rows.
pub fn erase_logged(state: &mut State, lsn: Lsn, erasure: LoggedErasure) -> Result<()> {
    let LoggedErasure { table: id, rows } = erasure;
    let Some(table) = state.tables.get_mut(&id) else { return Ok(()) };
    let older = table.segments.iter().map(Piece::from).chain(table.runs.iter().map(Piece::from));
    // Newer ones hold rows of later commits, and were written without those that this one erased.
    let older: Vec<Piece> = older.filter(|piece| piece.lsns().last < lsn).collect();
    let hidden = match rows {
        Erased::Range { low, high } => {
            let question = Question::of_range(KeyRange { low, high });
            let hidden = older.into_iter().map(|piece| {
                let erased = erased_by(&question, &table.layout, &piece, &Interrupt::never())?;
                Ok((piece.array, erased))
            });
            hidden.collect::<Result<Vec<_>>>()?
        }
        Erased::Listed { segments, .. } => {
            let mut hidden = Vec::new();
            for piece in older {
                let Some(segment) = piece.segment() else { continue };
                let listed = segments.iter().find(|(id, _)| *id == segment.id());
                let Some((id, ordinals)) = listed else { continue };
                if u64::from(ordinals.end()) > segment.rows() {
                    let detail = format!("it erases rows that segment {id} does not have");
                    return Err(damaged_commit(lsn, &detail));
                }
                hidden.push((piece.array, ordinals.clone()));
            }
            hidden
        }
    };
    table.erase(&hidden, lsn);
    // During recovery, no other thread waits for the state.
    drop(state.changed(id));
    Ok(())
}

/// What a logged commit did, once per table.
pub fn logged_commit(lsn: Lsn, payload: &[u8]) -> Result<LoggedCommit<'_>> {
    let commit =
        decode_commit(payload).map_err(|error| damaged_commit(lsn, &error).with_source(error))?;
    let mut tables = HashSet::new();
    if commit.batches.iter().all(|(table, _)| tables.insert(*table)) {
        return Ok(commit);
    }
    Err(damaged_commit(lsn, &"a table has two batches"))
}

/// Decodes the rows that a commit holds for one table: some, sorted by key, and where keys fold each key once.
pub fn logged_rows(lsn: Lsn, layout: &Layout, block: &[u8]) -> Result<Rows> {
    let decode = || {
        let view = BlockView::parse(block, layout)?;
        let mut builder = RowsBuilder::new(&layout.all(), view.rows());
        builder.append_range(&view, 0, view.rows())?;
        builder.finish()
    };
    let rows = decode().map_err(|error| damaged_commit(lsn, &error).with_source(error))?;
    match rows.first_out_of_order(!layout.schema().repeats_keys()) {
        None if rows.is_empty() => Err(damaged_commit(lsn, &"a batch has no rows")),
        None => Ok(rows),
        Some(row) => {
            let detail = format!("row {row} of a batch is not in key order");
            Err(damaged_commit(lsn, &detail))
        }
    }
}

fn damaged_commit(lsn: Lsn, detail: &dyn Display) -> Error {
    Error::damaged(format_args!("commit {lsn} in the log is damaged: {detail}"))
}

fn make_room(core: &Core) -> Result<()> {
    let tables: Vec<TableId> = core.state().tables.keys().copied().collect();
    for table in tables {
        compact_small_runs(core, core.state(), &[(table, 0)])?;
    }
    while core.state().buffered_bytes > core.options.memory_bytes / 2 {
        let visible = core.visible();
        let of_largest = |state: &mut State| {
            let tables = state.tables.iter();
            let largest = tables.max_by_key(|(_, table)| table.run_bytes()).map(|(id, _)| *id);
            pick_flush(state, largest?, visible, core.options.memory_bytes / 4)
        };
        match Picked::choose(core, core.state(), of_largest) {
            Ok(job) => job
                .run(&core.options.interrupt, &|_| (), Stint::Whole, &Progress::default())?
                .or_error()?,
            Err(_nothing_to_flush) => break,
        }
    }
    // No worker does yet.
    let retired = core.state().retired.take_all();
    drop(retired);
    Ok(())
}
