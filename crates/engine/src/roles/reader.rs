//! Reader processes: a database that another process may be writing, read without disturbing it.
//!
//! A reader sees the segments of one version of the manifest, held by a lease, and the complete frames of the
//! log above them. It writes nothing but its lease file, and moves on when it is refreshed: then it reads of the log what
//! is new, or all that is needed once the writer has flushed some of what it holds. What its log holds
//! beyond the segments is kept in memory, at most about as much as the writer's `wal_bytes_max`. The same
//! lease holds the segments of that version's named snapshots, so they are opened when they are asked for.
//!
//! A reader at a moment sees the version and the end of the log that another reader saw, and stays there. Each reader has
//! a second lease, on its moment, which keeps the manifest and the log for those who open it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore_format::block;
use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::key::has_more_columns;
use drillcore_format::logged_commit::{Erased, LoggedErasure};
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::lease::{Lease, ManifestVersion};
use drillcore_storage::files::local_directory::LocalDirectory;
use drillcore_storage::files::open_files::OpenFiles;
use drillcore_storage::log::reading::{LogRead, read_log};
use drillcore_storage::manifest::{Manifest, ManifestFound, ManifestState, PinnedSnapshot};
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::orphans::Orphans;
use crate::catalog::tables::Known;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::compacted_run::compacted;
use crate::maintenance::run_compaction::{compacted_run_bytes_max, run_tiering};
use crate::maintenance::tiering::run_candidates;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::run::{Run, UncommittedRun};
use crate::read::fresh_seed::fresh_seed;
use crate::read::snapshot::Snapshot;
use crate::reports::stats::Stats;
use crate::reports::verify::VerifyReport;
use crate::roles::held_moment::{manifest_at, snapshot_of};
use crate::roles::known_segments::{KnownSegments, Opening};
use crate::roles::load_fault::LoadFault;
use crate::roles::opening::database_path::check_path;
use crate::roles::opening::recovery::{
    self, check_log_reaches, erase_logged, logged_commit, logged_rows, open_described,
    open_snapshot, open_tables,
};
use crate::select::read_memory::ReadMemory;
use crate::state::clock::Clock;
use crate::state::expiring::Expiring;
use crate::state::guarded::State;
use crate::state::moment::{At, Moment};
use crate::state::options::{READER_LIST_BYTES, ReadOptions};
use crate::state::positions::Positions;
use crate::state::slots::{Slot, replace};
use crate::state::table_state::TableState;
use crate::state::version::Version;

/// The writer may replace files while they are being listed and opened; so often it is tried again.
const ATTEMPTS: u32 = 50;
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// A database open for reading only. Clones share it.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

struct Shared {
    directory: Arc<dyn Directory>,
    cache: Arc<PageCache>,
    meter: MemoryMeter,
    examined: RowsExamined,
    reads: Arc<ReadMemory>,
    /// By which rows expire.
    clock: Clock,
    segments: KnownSegments,
    current: Mutex<Option<Arc<Current>>>,
    /// Held while manifest and log are read: what a later refresh finds is no older.
    loading: Mutex<()>,
}

/// What is being read, until the next refresh. Holding it holds its files.
struct Current {
    /// With all rows of tables whose stored rows tell when they expire.
    version: Arc<Version>,
    /// The same, as of when it was last asked for.
    shown: Mutex<Shown>,
    named: BTreeMap<String, PinnedSnapshot>,
    postings: BTreeMap<SegmentId, PostingsMeta>,
    log: LogRead,
    /// What commits that may be in the log alone have erased.
    erasures: Vec<(Lsn, LoggedErasure)>,
    positions: Positions,
    /// Of the manifest.
    at: ManifestVersion,
    identity: Option<u128>,
    /// Where it stays, with its time of day: then `shown` is what `version` is.
    fixed: Option<Moment>,
    lease: Arc<Lease>,
    /// On the moment, for others.
    _for_others: Lease,
}

/// A version without what has expired.
struct Shown {
    version: Arc<Version>,
    /// What is known of the pieces of each table, in their order.
    expiring: BTreeMap<TableId, Vec<Option<Expiring>>>,
}

impl Current {
    /// The moment of a commit that it shows.
    fn moment_of(&self, lsn: Lsn) -> Result<Moment> {
        let moment = Moment::of(self.at, lsn)?;
        Ok(self.identity.into_iter().fold(moment, Moment::of_database))
    }
}

impl Reader {
    /// See [`Database::open_read_only`](crate::Database::open_read_only).
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Reader> {
        check_path(path)?;
        let directory = LocalDirectory::open_for(path, options.read_mode())
            .map_err(|error| Error::cannot_open(path, error))?;
        let folder = path.display().to_string();
        if !recovery::holds_database(&directory, &folder)? {
            let message = format!("there is no database in {folder}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Reader::open_in(Arc::new(directory), options)
    }

    /// [`Reader::open`] in any [`Directory`] that holds a database.
    pub fn open_in(directory: Arc<dyn Directory>, options: &ReadOptions) -> Result<Reader> {
        let directory: Arc<dyn Directory> = Arc::new(OpenFiles::new(directory));
        let reads = ReadMemory::new(READER_LIST_BYTES, options.direct_io);
        let reader = Reader {
            shared: Arc::new(Shared {
                cache: Arc::new(PageCache::new(directory.clone(), options.cache_bytes)),
                directory,
                meter: reads.meter.clone(),
                examined: RowsExamined::default(),
                reads,
                clock: Clock::default(),
                segments: KnownSegments::default(),
                current: Mutex::new(None),
                loading: Mutex::new(()),
            }),
        };
        let current = reader.load(&options.at, None, &options.interrupt)?;
        *reader.shared.current.lock() = Some(Arc::new(current));
        Ok(reader)
    }

    /// A table by name, as of the last refresh.
    pub fn table(&self, name: &str) -> Result<Known> {
        let snapshot = self.snapshot(&Interrupt::never())?.table(name)?;
        let table = snapshot.table();
        Ok(Known { id: table.id, name: table.name.clone(), schema: table.schema.clone() })
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.snapshot(&Interrupt::never())?.tables())
    }

    /// The shape of a table, unless it was dropped.
    pub fn schema(&self, table: TableId) -> Option<Arc<TableSchema>> {
        let current = self.current().ok()?;
        let found = current.version.tables.get(&table)?;
        Some(found.schema.clone())
    }

    /// The directory that is read, unless the reader was closed.
    pub fn directory(&self) -> Result<Arc<dyn Directory>> {
        let _is_open = self.current()?;
        Ok(self.shared.directory.clone())
    }

    /// All tables as of the last refresh.
    pub fn snapshot(&self, interrupt: &Interrupt) -> Result<Snapshot> {
        Ok(Snapshot::new(self.shown(&*self.current()?, interrupt)?))
    }

    /// What is read, without what has expired.
    fn shown(&self, current: &Current, interrupt: &Interrupt) -> Result<Arc<Version>> {
        let clock = self.shared.clock.now();
        if current.fixed.is_some() || !current.version.expires {
            return Ok(current.version.clone());
        }
        let mut shown = current.shown.lock();
        if shown.version.clock < clock {
            let Shown { version, expiring } = &mut *shown;
            let later = version.at_clock(clock, expiring, &self.shared.meter, interrupt);
            // What was taken of it before an error is not in the version.
            let later = later.inspect_err(|_| expiring.clear())?;
            *version = Arc::new(later);
        }
        Ok(shown.version.clone())
    }

    /// What is read, for others that open it too, and as a snapshot.
    pub fn moment(&self, interrupt: &Interrupt) -> Result<(Moment, Snapshot)> {
        let current = self.current()?;
        let shown = self.shown(&current, interrupt)?;
        let moment = match &current.fixed {
            Some(fixed) => fixed.clone(),
            None => {
                let moment = current.moment_of(shown.lsn())?;
                if shown.expires { moment.at_clock(shown.clock) } else { moment }
            }
        };
        Ok((moment, Snapshot::new(shown)))
    }

    /// The named snapshot as it was pinned by the writer, also one that was dropped since the last refresh.
    pub fn named_snapshot(&self, name: &str, interrupt: &Interrupt) -> Result<Snapshot> {
        let current = self.current()?;
        let Some(pinned) = current.named.get(name) else {
            return Err(Error::unknown("snapshot", name, current.named.keys().map(String::as_str)));
        };
        let segments = pinned.segments();
        let mut opening = self.opening(&current.postings, &current.lease, segments);
        let open = |id, layout: &Layout| {
            interrupt.check()?;
            opening.segment(id, layout)
        };
        let version = open_snapshot(pinned, &self.shared.reads, open)?;
        opening.finish(interrupt)?;
        Ok(Snapshot::new(Arc::new(version)))
    }

    /// The names of all named snapshots as of the last refresh, in order, with the commits they show.
    pub fn snapshots(&self) -> Result<Vec<(String, Lsn)>> {
        let current = self.current()?;
        Ok(current.named.iter().map(|(name, pinned)| (name.clone(), pinned.lsn)).collect())
    }

    /// How far sources have been read as of the last refresh.
    pub fn positions(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let current = self.current()?;
        if current.fixed.as_ref().is_some_and(|moment| moment.snapshot().is_some()) {
            let message =
                "a named snapshot has no positions of sources; ask a reader of the newest commit";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(current.positions.at(current.version.lsn()))
    }

    /// Checks every segment of the last refresh, those of named snapshots too. The writer's merges remove nothing of
    /// it meanwhile.
    pub fn verify(&self, interrupt: &Interrupt, progress: &Progress) -> Result<VerifyReport> {
        let current = self.current()?;
        let of_tables =
            current.version.segments().into_iter().map(|segment| (segment.id(), Ok(segment)));
        let mut segments: BTreeMap<SegmentId, Result<Arc<Segment>>> = of_tables.collect();
        let of_named = current.named.values().flat_map(PinnedSnapshot::segments);
        let mut opening = self.opening(&current.postings, &current.lease, of_named);
        for table in current.named.values().flat_map(|pinned| &pinned.tables) {
            let layout = Layout::new(&table.schema);
            for meta in &table.segments {
                segments.entry(meta.id).or_insert_with(|| {
                    let mut open = |id, layout: &Layout| opening.segment(id, layout);
                    open_described(table.table, meta, &layout, &mut open)
                });
            }
        }
        opening.finish(interrupt)?;
        let segments = segments.into_values().collect();
        VerifyReport::of(&self.shared.directory, segments, interrupt, progress)
    }

    /// Sizes and counts of what this reader holds and has read. What the writer does is not in them.
    pub fn stats(&self) -> Result<Stats> {
        let current = self.current()?;
        let Shared { cache, meter, examined, .. } = &*self.shared;
        Ok(Stats::of_reader(&current.version, &current.log, cache, meter, examined))
    }

    /// Takes what is there now for what is read, and returns its newest commit. Snapshots taken before stay as they
    /// are.
    pub fn refresh(&self, interrupt: &Interrupt) -> Result<Lsn> {
        let _loading = self.shared.loading.lock();
        let before = self.current()?;
        if let Some(moment) = &before.fixed {
            let message = format!(
                "this reader was opened at {moment} and cannot refresh; open another reader for newer rows"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let fresh = self.load(&At::Newest, Some(&before), interrupt)?;
        let lsn = fresh.version.lsn();
        // Who closed it meanwhile wants no more of it.
        if let Some(current) =
            self.shared.current.lock().as_mut().filter(|_| before.version.lsn() <= lsn)
        {
            *current = Arc::new(fresh);
        }
        Ok(lsn)
    }

    /// Lets go of what is read. Snapshots stay readable, and hold the lease as long as they need its files.
    pub fn close(&self) {
        self.shared.current.lock().take();
        self.shared.reads.threads.end();
    }

    fn current(&self) -> Result<Arc<Current>> {
        let current = self.shared.current.lock().clone();
        current
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the database is closed; open it again"))
    }

    /// Prepares to open segments in about that order.
    fn opening<'r>(
        &'r self,
        postings: &'r BTreeMap<SegmentId, PostingsMeta>,
        lease: &'r Arc<Lease>,
        segments: impl Iterator<Item = SegmentId>,
    ) -> Opening<'r> {
        let Shared { directory, cache, segments: known, .. } = &*self.shared;
        known.opening(directory.as_ref(), cache, postings, lease, segments)
    }

    /// Reads manifest and log, trying again where the writer replaced a file under it. What was read before
    /// need not be read again.
    fn load(&self, at: &At, before: Option<&Current>, interrupt: &Interrupt) -> Result<Current> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_load(at, before, interrupt) {
                Err(fault) if attempt < ATTEMPTS && fault.may_pass => thread::sleep(RETRY_AFTER),
                done => return done.map_err(|fault| fault.error),
            }
        }
    }

    fn try_load(
        &self,
        at: &At,
        before: Option<&Current>,
        interrupt: &Interrupt,
    ) -> std::result::Result<Current, LoadFault> {
        let directory = &self.shared.directory;
        // On everything until it is known what is needed.
        let wide = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, fresh_seed())?;
        // What a refresh goes on from was checked when the reader was opened.
        let is_first = before.is_none() && matches!(at, At::Newest);
        let listed = is_first.then(|| Orphans::listed(directory.as_ref())).transpose()?;
        let ManifestFound { state: mut found, version, bytes } = match at {
            At::Moment(moment) => manifest_at(directory.as_ref(), moment)?,
            At::Newest | At::Snapshot(_) => Manifest::read(directory.as_ref())?,
        };
        let lease = Arc::new(Lease::take(directory.clone(), version, fresh_seed())?);
        let fixed = match at {
            At::Moment(moment) => Some(moment),
            At::Newest | At::Snapshot(_) => None,
        };
        let of_snapshot = match at {
            At::Newest => None,
            At::Snapshot(name) => Some(name.clone()),
            At::Moment(moment) => snapshot_of(moment, &found)?,
        };
        if let Some(name) = of_snapshot {
            let pinned = self.load_pinned(&name, fixed, found, version, lease)?;
            drop(wide);
            return Ok(pinned);
        }
        // A later backup that was not finished leaves whole segments in a backup.
        let is_backup = found.backup.is_some_and(|mark| !mark.was_opened);
        let orphans = listed.filter(|_| !is_backup).map(|listed| listed.of(&found));
        let next_segment = found.next_segment;
        let named = std::mem::take(&mut found.snapshots);
        let (needed_from, identity) = (found.next_lsn, found.identity);
        let postings = std::mem::take(&mut found.postings);
        let of_tables: Vec<SegmentId> = found.segments().collect();
        let mut opening = self.opening(&postings, &lease, of_tables.into_iter());
        let open = |id, layout: &Layout| {
            interrupt.check()?;
            opening.segment(id, layout)
        };
        let mut state = open_tables(found, &self.shared.reads, open)?;
        opening.finish(interrupt)?;
        let before = before.filter(|before| take_over(&mut state, &before.version));
        let known = before.map_or(Lsn(0), |before| before.version.lsn());
        let mut erasures = match before {
            None => Vec::new(),
            Some(before) => known_of_the_log(before, needed_from, &mut state)?,
        };
        let to = fixed.map_or(Lsn(u64::MAX), Moment::lsn);
        let read_before = before.map(|before| &before.log);
        let log = read_log(directory.as_ref(), needed_from, to, read_before, |lsn, payload| {
            interrupt.check()?;
            match lsn {
                lsn if lsn <= known => Ok(()),
                lsn => self.apply(&mut state, version, lsn, payload, &mut erasures),
            }
        })?;
        let of_segments = state.next_lsn;
        let lsn = log.last.unwrap_or_default().max(Lsn(of_segments.0 - 1)).max(known);
        if let Some(moment) = fixed {
            // The reader that gave it has checked that its commits have its columns.
            if lsn < moment.lsn() {
                return Err(moment.gone(format_args!("the log ends at commit {lsn}")).into());
            }
        } else {
            self.check_columns(version, bytes, &state)?;
            let of_named = named.values().map(|pinned| Lsn(pinned.lsn.0 + 1)).max();
            let expected = of_segments.max(of_named.unwrap_or_default());
            check_log_reaches(log.last, needed_from, expected)?;
            let last = lsn.max(Lsn(expected.0 - 1));
            if let Some(orphans) = orphans {
                orphans.check_no_edit_is_lost(directory.as_ref(), next_segment, last)?;
            }
        }
        let for_others = Lease::take_moment(directory.clone(), version, lsn, fresh_seed())?;
        drop(wide);
        let (mut shown, _) = state.version(lsn);
        let identified =
            |moment: &Moment| identity.into_iter().fold(moment.clone(), Moment::of_database);
        let mut fixed = fixed.map(identified);
        if let Some(moment) = fixed.as_mut().filter(|_| shown.expires) {
            let clock = moment.clock().unwrap_or_else(|| self.shared.clock.now());
            *moment = moment.clone().at_clock(clock);
            let (expiring, meter) = (&mut BTreeMap::new(), &self.shared.meter);
            shown = Arc::new(shown.at_clock(clock, expiring, meter, interrupt)?);
        }
        let positions = std::mem::take(&mut state.positions);
        Ok(Current {
            version: shown.clone(),
            shown: Mutex::new(Shown { version: shown, expiring: BTreeMap::new() }),
            named,
            postings,
            log,
            erasures,
            positions,
            at: version,
            identity,
            fixed,
            lease,
            _for_others: for_others,
        })
    }

    /// A named snapshot, as a reader's only state.
    fn load_pinned(
        &self,
        name: &str,
        asked: Option<&Moment>,
        mut found: ManifestState,
        version: ManifestVersion,
        lease: Arc<Lease>,
    ) -> std::result::Result<Current, LoadFault> {
        let Some(pinned) = found.snapshots.get(name) else {
            let names = found.snapshots.keys().map(String::as_str);
            return Err(Error::unknown("snapshot", name, names).into());
        };
        let moment = Moment::of(version, pinned.lsn)?.at_clock(pinned.clock).of_snapshot(name);
        let moment = found.identity.into_iter().fold(moment, Moment::of_database);
        if asked.is_some_and(|asked| asked.lsn() != moment.lsn()) {
            let lsn = moment.lsn();
            let message = format!(
                "snapshot {name:?} shows commit {lsn}, not the commit of the moment; open the snapshot without a moment, \
                 or use a moment with commit {lsn}"
            );
            return Err(Error::invalid(message).into());
        }
        let postings = std::mem::take(&mut found.postings);
        let mut opening = self.opening(&postings, &lease, pinned.segments());
        let open = |id, layout: &Layout| opening.segment(id, layout);
        let shown = Arc::new(open_snapshot(pinned, &self.shared.reads, open)?);
        opening.finish(&Interrupt::never())?;
        let directory = self.shared.directory.clone();
        let for_others = Lease::take_moment(directory, version, moment.lsn(), fresh_seed())?;
        Ok(Current {
            version: shown.clone(),
            shown: Mutex::new(Shown { version: shown, expiring: BTreeMap::new() }),
            named: found.snapshots,
            postings,
            log: LogRead::default(),
            erasures: Vec::new(),
            positions: Positions::default(),
            at: version,
            identity: found.identity,
            fixed: Some(moment),
            lease,
            _for_others: for_others,
        })
    }

    /// Starts over where columns were dropped or widened since the manifest was read, which then had some bytes: one that
    /// was dropped is null in the newest commits.
    fn check_columns(
        &self,
        version: ManifestVersion,
        bytes: u64,
        state: &State,
    ) -> std::result::Result<(), LoadFault> {
        let directory = self.shared.directory.as_ref();
        if Manifest::byte_len(directory, version)? == bytes {
            return Ok(());
        }
        let now = Manifest::read(directory)?.state;
        let is_changed = now.tables.iter().any(|(id, table)| {
            state.tables.get(id).is_some_and(|of| of.schema.stored != table.schema.stored)
        });
        if is_changed { Err(LoadFault::of_changed_columns()) } else { Ok(()) }
    }

    /// Adds the rows of one commit that are in no segment.
    fn apply(
        &self,
        state: &mut State,
        manifest: ManifestVersion,
        lsn: Lsn,
        payload: &[u8],
        erasures: &mut Vec<(Lsn, LoggedErasure)>,
    ) -> std::result::Result<(), LoadFault> {
        let commit = logged_commit(lsn, payload)?;
        for (id, bytes) in commit.batches {
            if id >= state.next_table {
                // Made since the manifest was read: what was read does not hold the whole commit.
                let message = format!("commit {lsn} is of a table made meanwhile");
                return Err(LoadFault {
                    error: Error::new(ErrorKind::Io, message),
                    may_pass: true,
                });
            }
            // A table that is gone was dropped; its rows went with it.
            let Some(table) = state.tables.get_mut(&id) else { continue };
            if lsn <= table.flushed {
                continue;
            }
            let values = block::value_count(bytes).map_err(Error::from)?;
            if values > table.layout.value_types().len() as u64 {
                return Err(LoadFault::of_added_column(lsn, &table.name));
            }
            let rows = logged_rows(lsn, &table.layout, bytes)?;
            if has_more_dimensions(&table.layout, &rows)? {
                return Err(LoadFault::of_added_column(lsn, &table.name));
            }
            let Shared { meter, examined, .. } = &*self.shared;
            let run = UncommittedRun::new(&table.layout, rows, meter, examined)?;
            let run = run.commit(LsnRange { first: lsn, last: lsn });
            table.runs.push(Slot::new(run, None));
            self.compact_runs(table)?;
        }
        for erasure in commit.erasures {
            if let Erased::Listed { manifest: (file, edit), .. } = erasure.rows
                && manifest < (ManifestVersion { file, edit })
            {
                return Err(LoadFault::of_newer_segments(lsn));
            }
            erase_logged(state, lsn, erasure.clone())?;
            erasures.push((lsn, erasure));
        }
        state.positions.add(lsn, commit.positions);
        Ok(())
    }

    fn compact_runs(&self, table: &mut TableState) -> Result<()> {
        let Shared { meter, examined, .. } = &*self.shared;
        while let Some(window) = run_tiering(compacted_run_bytes_max(u64::MAX))
            .pick(&run_candidates(&table.runs, Lsn(u64::MAX)))
        {
            let window = &table.runs[window];
            let pieces: Vec<Piece> = window.iter().map(Piece::from).collect();
            let runs: Vec<_> = window.iter().map(|slot| slot.piece.clone()).collect();
            let compacted = compacted(&table.layout, &pieces, meter, examined)?;
            let compacted = compacted.as_ref().and_then(Slot::of_run);
            replace(&mut table.runs, &runs, compacted.into_iter().collect());
        }
        Ok(())
    }
}

/// Brings into `state` what a reader has read of a part of the log that is not read again: positions, and erasures by
/// commits of `needed_from` on, which segments that came since may not know of. Returns these.
fn known_of_the_log(
    before: &Current,
    needed_from: Lsn,
    state: &mut State,
) -> Result<Vec<(Lsn, LoggedErasure)>> {
    state.positions.add_later(&before.positions);
    let of_log = before.erasures.iter().filter(|(lsn, _)| *lsn >= needed_from);
    let erasures: Vec<(Lsn, LoggedErasure)> = of_log.cloned().collect();
    for (lsn, erasure) in &erasures {
        erase_logged(state, *lsn, erasure.clone())?;
    }
    Ok(erasures)
}

/// Takes the runs of an earlier version over into tables that have only their segments yet. Says no, and takes
/// none, if a run holds commits both in and beyond the segments.
fn take_over(state: &mut State, before: &Version) -> bool {
    let mut taken: Vec<(TableId, Vec<Slot<Run>>, Vec<Piece>)> = Vec::new();
    for earlier in before.tables.values() {
        let Some(table) = state.tables.get(&earlier.id) else { continue };
        let pieces = earlier.pieces.now();
        let runs = pieces.iter().filter_map(Slot::of_run);
        let beyond = runs.filter(|slot| slot.piece.lsns().last > table.flushed);
        let beyond: Vec<Slot<Run>> = beyond.collect();
        if beyond.iter().any(|slot| slot.piece.lsns().first <= table.flushed) {
            return false;
        }
        let has_erased = |piece: &&Piece| piece.segment().is_some() && piece.erased.is_some();
        taken.push((earlier.id, beyond, pieces.iter().filter(has_erased).cloned().collect()));
    }
    for (id, runs, segments) in taken {
        let table = state.tables.get_mut(&id).expect("looked up above");
        table.runs = runs;
        // The log may be all that says so, and what was read of it is not read again.
        let erased = segments.into_iter().filter_map(|piece| {
            let ordinals = piece.erased.as_ref()?.ordinals().clone();
            Some((piece.array, ordinals))
        });
        table.erase(&erased.collect::<Vec<_>>(), before.lsn());
    }
    true
}

/// Whether rows of a rollup table have a dimension that the table lacks.
fn has_more_dimensions(layout: &Layout, rows: &Rows) -> Result<bool> {
    if !layout.schema().widens_key() {
        return Ok(false);
    }
    for key in rows.keys().iter() {
        if has_more_columns(key, layout.key_types())? {
            return Ok(true);
        }
    }
    Ok(false)
}
