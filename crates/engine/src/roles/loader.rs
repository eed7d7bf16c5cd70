//! What a reader process reads, loaded from the manifest and the log while another process may be writing them.
//!
//! Leases hold what is loaded. The writer may move on meanwhile: what cannot be read then is loaded anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore_format::block;
use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::key::has_more_columns;
use drillcore_format::logged_commit::{Erased, LoggedErasure};
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::rows::{Layout, Rows};
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::lease::{Lease, ManifestVersion};
use drillcore_storage::log::reading::{LogRead, read_log};
use drillcore_storage::manifest::{Manifest, ManifestFound, ManifestState, PinnedSnapshot};
use drillcore_storage::pages::page_cache::PageCache;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::catalog::orphans::Orphans;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::run_compaction::{compacted_run_bytes_max, run_tiering};
use crate::maintenance::tiering::run_candidates;
use crate::merge::compacted_run::compacted;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::run::{Run, UncommittedRun};
use crate::read::fresh_seed::fresh_seed;
use crate::roles::held_moment::{manifest_at, snapshot_of};
use crate::roles::known_segments::{KnownSegments, Opening};
use crate::roles::load_fault::LoadFault;
use crate::roles::opening::recovery::{
    check_log_reaches, erase_logged, logged_commit, logged_rows, open_snapshot, open_tables,
};
use crate::select::read_memory::ReadMemory;
use crate::state::clock::Clock;
use crate::state::expiring::Expiring;
use crate::state::guarded::State;
use crate::state::moment::{At, Moment};
use crate::state::positions::Positions;
use crate::state::slots::{Slot, replace};
use crate::state::table_state::TableState;
use crate::state::version::Version;

/// The writer may replace files while they are being listed and opened; so often it is tried again.
const ATTEMPTS: u32 = 50;
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Loads what is in a directory, now or at a moment.
pub struct Loader {
    pub directory: Arc<dyn Directory>,
    pub cache: Arc<PageCache>,
    pub meter: MemoryMeter,
    pub examined: RowsExamined,
    pub reads: Arc<ReadMemory>,
    /// By which rows expire.
    pub clock: Clock,
    pub segments: KnownSegments,
}

/// What is being read, until the next refresh. Holding it holds its files.
pub struct Current {
    /// With all rows of tables whose stored rows tell when they expire.
    pub version: Arc<Version>,
    /// The same, as of when it was last asked for.
    pub shown: Mutex<Shown>,
    pub named: BTreeMap<String, PinnedSnapshot>,
    pub postings: BTreeMap<SegmentId, PostingsMeta>,
    pub log: LogRead,
    /// What commits that may be in the log alone have erased.
    erasures: Vec<(Lsn, LoggedErasure)>,
    pub positions: Positions,
    /// Of the manifest.
    at: ManifestVersion,
    /// The newest commit that another reader finds there.
    newest: Lsn,
    identity: Option<u128>,
    /// Where it stays, with its time of day: then `shown` is what `version` is.
    pub fixed: Option<Moment>,
    pub lease: Arc<Lease>,
    /// On the moment, for others.
    _for_others: Lease,
}

/// A version without what has expired.
pub struct Shown {
    pub version: Arc<Version>,
    /// What is known of the pieces of each table, in their order.
    pub expiring: BTreeMap<TableId, Vec<Option<Expiring>>>,
}

/// A version of the manifest that is being loaded.
struct Leased<'a> {
    found: ManifestFound,
    lease: Arc<Lease>,
    /// On everything until it is known what is needed.
    wide: Lease,
    /// Where the reader is to stay.
    fixed: Option<&'a Moment>,
}

/// What was loaded of the log.
struct OfLog {
    log: LogRead,
    /// What commits that may be in the log alone have erased.
    erasures: Vec<(Lsn, LoggedErasure)>,
    /// The newest commit, in the log or in segments.
    newest: Lsn,
    /// The newest commit that is shown: one that was known before may be in a dropped table only, and in no log.
    lsn: Lsn,
}

impl Current {
    /// The moment at which others see what it shows.
    pub fn moment(&self) -> Result<Moment> {
        let moment = Moment::of(self.at, self.newest)?;
        Ok(self.identity.into_iter().fold(moment, Moment::of_database))
    }
}

impl Loader {
    /// Prepares to open segments in about that order.
    pub fn opening<'r>(
        &'r self,
        postings: &'r BTreeMap<SegmentId, PostingsMeta>,
        lease: &'r Arc<Lease>,
        segments: impl Iterator<Item = SegmentId>,
    ) -> Opening<'r> {
        let Loader { directory, cache, segments: known, .. } = self;
        known.opening(directory.as_ref(), cache, postings, lease, segments)
    }

    /// Reads manifest and log, trying again where the writer replaced a file under it. What was read before
    /// need not be read again.
    pub fn load(
        &self,
        at: &At,
        before: Option<&Current>,
        interrupt: &Interrupt,
    ) -> Result<Current> {
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
        let directory = &self.directory;
        let wide = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, fresh_seed())?;
        // What a refresh goes on from was checked when the reader was opened.
        let is_first = before.is_none() && matches!(at, At::Newest);
        let listed = is_first.then(|| Orphans::listed(directory.as_ref())).transpose()?;
        let (found, fixed) = match at {
            At::Moment(moment) => (manifest_at(directory.as_ref(), moment)?, Some(moment)),
            At::Newest | At::Snapshot(_) => (Manifest::read(directory.as_ref())?, None),
        };
        let lease = Arc::new(Lease::take(directory.clone(), found.version, fresh_seed())?);
        let of_snapshot = match at {
            At::Newest => None,
            At::Snapshot(name) => Some(name.clone()),
            At::Moment(moment) => snapshot_of(moment, &found.state)?,
        };
        let leased = Leased { found, lease, wide, fixed };
        match of_snapshot {
            Some(name) => self.load_pinned(&name, leased, interrupt),
            None => self.load_tables(leased, listed, before, interrupt),
        }
    }

    /// All tables, with the log. `listed` are the files of the directory, if it is to be checked that none of them is lost.
    fn load_tables(
        &self,
        leased: Leased<'_>,
        listed: Option<Orphans>,
        before: Option<&Current>,
        interrupt: &Interrupt,
    ) -> std::result::Result<Current, LoadFault> {
        let Leased { found, lease, wide, fixed } = leased;
        let ManifestFound { state: mut found, version, bytes } = found;
        // A later backup that was not finished leaves whole segments in a backup.
        let is_backup = found.backup.is_some_and(|mark| !mark.was_opened);
        let orphans = listed.filter(|_| !is_backup).map(|listed| listed.of(&found));
        let next_segment = found.next_segment;
        let named = std::mem::take(&mut found.snapshots);
        let (needed_from, identity) = (found.next_lsn, found.identity);
        let postings = std::mem::take(&mut found.postings);
        let mut state = self.open_segments(found, &postings, &lease, interrupt)?;
        let to = fixed.map_or(Lsn(u64::MAX), Moment::lsn);
        let OfLog { log, erasures, newest, lsn } =
            self.load_log(&mut state, version, needed_from, to, before, interrupt)?;
        if let Some(moment) = fixed {
            // The reader that gave it has checked that its commits have its columns.
            if lsn < moment.lsn() {
                return Err(moment.gone(format_args!("the log ends at commit {lsn}")).into());
            }
        } else {
            self.check_columns(version, bytes, &state)?;
            let of_named = named.values().map(|pinned| Lsn(pinned.lsn.0 + 1)).max();
            let expected = state.next_lsn.max(of_named.unwrap_or_default());
            check_log_reaches(log.last, needed_from, expected)?;
            let last = lsn.max(Lsn(expected.0 - 1));
            if let Some(orphans) = orphans {
                orphans.check_no_edit_is_lost(self.directory.as_ref(), next_segment, last)?;
            }
        }
        let for_others = Lease::take_moment(self.directory.clone(), version, newest, fresh_seed())?;
        drop(wide);
        let identified =
            |moment: &Moment| identity.into_iter().fold(moment.clone(), Moment::of_database);
        let (shown, fixed) = self.show(&mut state, lsn, fixed.map(identified), interrupt)?;
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
            newest,
            identity,
            fixed,
            lease,
            _for_others: for_others,
        })
    }

    /// The tables with their segments, without what is in the log alone.
    fn open_segments(
        &self,
        found: ManifestState,
        postings: &BTreeMap<SegmentId, PostingsMeta>,
        lease: &Arc<Lease>,
        interrupt: &Interrupt,
    ) -> Result<State> {
        let of_tables: Vec<SegmentId> = found.segments().collect();
        let mut opening = self.opening(postings, lease, of_tables.into_iter());
        let open = |id, layout: &Layout| {
            interrupt.check()?;
            opening.segment(id, layout)
        };
        let state = open_tables(found, &self.reads, open)?;
        opening.finish(interrupt)?;
        Ok(state)
    }

    /// Adds to the tables of a version what the log has `to` a commit, of which a part may be known from before.
    fn load_log(
        &self,
        state: &mut State,
        version: ManifestVersion,
        needed_from: Lsn,
        to: Lsn,
        before: Option<&Current>,
        interrupt: &Interrupt,
    ) -> std::result::Result<OfLog, LoadFault> {
        let before = before.filter(|before| take_over(state, &before.version));
        let known = before.map_or(Lsn(0), |before| before.version.lsn());
        let mut erasures = match before {
            None => Vec::new(),
            Some(before) => known_of_the_log(before, needed_from, state)?,
        };
        let (directory, read_before) = (self.directory.as_ref(), before.map(|before| &before.log));
        let log = read_log(directory, needed_from, to, read_before, |lsn, payload| {
            interrupt.check()?;
            match lsn {
                lsn if lsn <= known => Ok(()),
                lsn => self.apply(state, version, lsn, payload, &mut erasures),
            }
        })?;
        let of_segments = Lsn(state.next_lsn.0 - 1);
        let newest = log.last.unwrap_or_default().max(of_segments);
        Ok(OfLog { log, erasures, newest, lsn: newest.max(known) })
    }

    /// What is shown at a commit; and the moment at which that stays, with its time of day, if it stays at one.
    fn show(
        &self,
        state: &mut State,
        lsn: Lsn,
        mut fixed: Option<Moment>,
        interrupt: &Interrupt,
    ) -> Result<(Arc<Version>, Option<Moment>)> {
        let (mut shown, _) = state.version(lsn);
        if let Some(moment) = fixed.as_mut().filter(|_| shown.expires) {
            let clock = moment.clock().unwrap_or_else(|| self.clock.now());
            *moment = moment.clone().at_clock(clock);
            let (expiring, meter) = (&mut BTreeMap::new(), &self.meter);
            shown = Arc::new(shown.at_clock(clock, expiring, meter, interrupt)?);
        }
        Ok((shown, fixed))
    }

    /// A named snapshot, as a reader's only state.
    fn load_pinned(
        &self,
        name: &str,
        leased: Leased<'_>,
        interrupt: &Interrupt,
    ) -> std::result::Result<Current, LoadFault> {
        let Leased { found, lease, wide, fixed: asked } = leased;
        let ManifestFound { state: mut found, version, .. } = found;
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
        let open = |id, layout: &Layout| {
            interrupt.check()?;
            opening.segment(id, layout)
        };
        let shown = Arc::new(open_snapshot(pinned, &self.reads, open)?);
        opening.finish(interrupt)?;
        let directory = self.directory.clone();
        let for_others = Lease::take_moment(directory, version, moment.lsn(), fresh_seed())?;
        drop(wide);
        Ok(Current {
            version: shown.clone(),
            shown: Mutex::new(Shown { version: shown, expiring: BTreeMap::new() }),
            named: found.snapshots,
            postings,
            log: LogRead::default(),
            erasures: Vec::new(),
            positions: Positions::default(),
            at: version,
            newest: moment.lsn(),
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
        let directory = self.directory.as_ref();
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
            let Loader { meter, examined, .. } = self;
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
        let Loader { meter, examined, .. } = self;
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
