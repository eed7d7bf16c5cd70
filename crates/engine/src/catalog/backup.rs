//! What a backup holds: all tables at one commit, and the named snapshots.
//!
//! The process that writes takes it from memory: it flushes, and writes the rows that came meanwhile to segments of
//! the backup's own, as a named snapshot does. Any other process takes it from the directory, as a reader does, with the
//! commits of the log that are in no segment. Neither holds writers, flushes or merges up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore_format::ids::Lsn;
use drillcore_format::manifest_edit::{BackupMark, Edit, PinnedTable};
use drillcore_storage::error::StorageError;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::lease::{Lease, ManifestVersion};
use drillcore_storage::log::reading::read_log;
use drillcore_storage::manifest::{self, Manifest, ManifestState, ManifestTable, PinnedSnapshot};
use drillcore_storage::postings::set_postings::SetPostings;
use drillcore_storage::segments::segment::Segment;

use crate::calls::interrupt::Interrupt;
use crate::catalog::backup_target::{BackupResult, BackupTarget, Contents};
use crate::catalog::named_snapshot::{discard, on_disk};
use crate::catalog::orphans::Orphans;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::scheduler;
use crate::pieces::piece::Piece;
use crate::state::core::Core;
use crate::state::version::{TableVersion, Version};

/// The writer may replace files while they are being listed and opened; so often it is tried again.
const ATTEMPTS: u32 = 50;
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Backs up a database that is open for writing.
pub fn back_up(
    core: &Core,
    target: BackupTarget,
    copy: bool,
    interrupt: &Interrupt,
) -> Result<BackupResult> {
    let _underway = core.begin()?;
    let database = core.manifest().identity().expect("a database has one once it is open");
    check_same_database(&target, database)?;
    let mark = |lsn| BackupMark { database, lsn, was_opened: false };
    // Into segments that later backups have, too.
    scheduler::flush(core, core.visible(), interrupt)?;
    // Those pinned after this may show later commits than the backup.
    let named = core.open_state()?.named.clone();
    let (shown, positions) = loop {
        let shown = core.version()?;
        // A flush may just have noted later ones.
        if let Some(positions) = core.open_state()?.positions.as_of(shown.lsn()) {
            break (shown, positions);
        }
    };
    let version = on_disk(core, &shown, interrupt)?;
    drop(shown);
    let state =
        ManifestState { backup: Some(mark(version.lsn())), positions, ..ManifestState::empty() };
    let stored = store_version(core, &version, &named, state, target, copy, interrupt);
    discard(core, &version);
    stored
}

fn store_version(
    core: &Core,
    version: &Version,
    named: &BTreeMap<String, Arc<Version>>,
    mut state: ManifestState,
    target: BackupTarget,
    copy: bool,
    interrupt: &Interrupt,
) -> Result<BackupResult> {
    if let Some(wal) = core.wal.get() {
        // The backup must not show commits that a power cut takes from the log.
        wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error))?;
    }
    {
        let mut manifest = core.manifest();
        state.next_table = {
            let state = core.state();
            state.check_writable()?;
            state.next_table
        };
        state.next_segment = core.next_segment();
        // No later segment gets the number of one in the backup.
        manifest
            .commit(&[Edit::NextSegment(state.next_segment)])
            .map_err(Error::from)
            .inspect_err(|error| core.fail(error))?;
    }
    state.next_lsn = Lsn(version.lsn().0 + 1);
    for table in version.tables.values() {
        state.tables.insert(table.id, described(table, version.lsn()));
    }
    for (name, version) in named {
        let tables = version.tables.values().map(|table| pinned(table)).collect();
        state.snapshots.insert(
            name.clone(),
            PinnedSnapshot { lsn: version.lsn(), clock: version.clock, tables },
        );
    }
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    // Held until they are stored: then their files stay.
    let mut held: Vec<Arc<SetPostings>> = Vec::new();
    let of_named = named.values().flat_map(|version| version.segments());
    for segment in version.segments().into_iter().chain(of_named) {
        files.insert(Segment::file_name(segment.id()), segment.bytes());
        if let Some((postings, meta)) = segment.postings_beside() {
            files.insert(SetPostings::file_name(meta.file), meta.bytes);
            state.postings.insert(segment.id(), meta);
            held.push(postings);
        }
    }
    let (source, files) = (core.directory.as_ref(), files.into_iter().collect());
    let contents = Contents { source, state, files, log: Vec::new(), lsn: version.lsn() };
    target.fill(&contents, copy, interrupt)
}

fn described(table: &TableVersion, flushed: Lsn) -> ManifestTable {
    ManifestTable {
        name: table.name.to_string(),
        schema: (*table.schema).clone(),
        flushed,
        segments: table.pieces.now().iter().filter_map(Piece::segment).map(|s| s.meta()).collect(),
        erased: table.pieces.now().iter().filter_map(Piece::erased_of_segment).collect(),
    }
}

/// What the manifest says of a table of a named snapshot, whose rows are all in segments.
pub fn pinned(table: &TableVersion) -> PinnedTable {
    PinnedTable {
        table: table.id,
        name: table.name.to_string(),
        schema: (*table.schema).clone(),
        segments: table.pieces.now().iter().filter_map(Piece::segment).map(|s| s.meta()).collect(),
        erased: table.pieces.now().iter().filter_map(Piece::erased_of_segment).collect(),
    }
}

fn check_same_database(target: &BackupTarget, database: u128) -> Result<()> {
    match target.backup_of() {
        None => Ok(()),
        Some(0) => Err(Error::invalid(
            "the backup does not record its database, because a reader made it before the writer made its first \
             backup; give a new path",
        )),
        Some(of) if of == database => Ok(()),
        Some(_) => Err(Error::invalid("it is a backup of another database; give a new path")),
    }
}

/// Backs up the database in a directory, beside a process that writes to it, as of its newest complete commit. To a new directory
/// only.
pub fn back_up_beside(
    source: &Arc<dyn Directory>,
    target: BackupTarget,
    copy: bool,
    nonce: u64,
    interrupt: &Interrupt,
) -> Result<BackupResult> {
    if target.backup_of().is_some() {
        let message = "a reader cannot update an existing backup; give a new path, or make the backup in the process that \
                       has the database open for writing";
        return Err(Error::new(ErrorKind::ReadOnly, message));
    }
    if !manifest::exists(source.as_ref())? {
        let message = "the directory no longer contains a database; check the path";
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let mark = |state: &mut ManifestState, lsn| {
        let database = state.identity.take().unwrap_or(0);
        state.backup = Some(BackupMark { database, lsn, was_opened: false });
        Ok(())
    };
    store_folder(source, target, copy, nonce, interrupt, mark)
}

/// Makes a database of a backup, which is at `path`.
pub fn restore(
    backup: &Arc<dyn Directory>,
    path: &Path,
    target: BackupTarget,
    copy: bool,
    nonce: u64,
    interrupt: &Interrupt,
) -> Result<BackupResult> {
    if !manifest::exists(backup.as_ref())? {
        let message = format!("there is no backup in {path:?}; check the path");
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let unmark = |state: &mut ManifestState, _| {
        let what = match state.backup.take() {
            Some(mark) if !mark.was_opened => return Ok(()),
            Some(_) => "was opened for writing, and is a database of its own now; open it instead",
            None => "is a database, not a backup; run backup on it first",
        };
        Err(Error::invalid(format!("{path:?} {what}")))
    };
    store_folder(backup, target, copy, nonce, interrupt, unmark)
}

/// Stores what a directory holds, after a change to what its manifest says, which is given the newest commit.
fn store_folder(
    source: &Arc<dyn Directory>,
    target: BackupTarget,
    copy: bool,
    nonce: u64,
    interrupt: &Interrupt,
    change: impl Fn(&mut ManifestState, Lsn) -> Result<()>,
) -> Result<BackupResult> {
    let mut attempt = 0;
    let (contents, lease) = loop {
        attempt += 1;
        match read_folder(source, nonce + u64::from(attempt), interrupt) {
            Err(error) if attempt < ATTEMPTS && may_pass(&error) => thread::sleep(RETRY_AFTER),
            done => break done?,
        }
    };
    let mut contents = contents;
    let lsn = contents.lsn;
    change(&mut contents.state, lsn)?;
    let result = target.fill(&contents, copy, interrupt);
    drop(lease);
    result
}

/// What a directory holds now, and what keeps the writer from removing it.
fn read_folder<'a>(
    source: &'a Arc<dyn Directory>,
    nonce: u64,
    interrupt: &Interrupt,
) -> Result<(Contents<'a>, Option<Lease>)> {
    let lease = |version| match Lease::take(source.clone(), version, nonce) {
        // Who may not leave one reads a folder that no other process writes to either, such as one on a read-only disk.
        Err(StorageError::LeaseDenied { .. }) => Ok(None),
        lease => lease.map(Some),
    };
    let wide = lease(ManifestVersion::EVERYTHING)?;
    let go_on = |_: Lsn, _: &[u8]| interrupt.check();
    // The edits that commits need are in the manifest before they are in the log. So a manifest that is read
    // after the end of the log was found has those of all commits up to there.
    let orphans = Orphans::listed(source.as_ref())?;
    let needed_from = Manifest::read(source.as_ref())?.state.next_lsn;
    let end = read_log(source.as_ref(), needed_from, Lsn(u64::MAX), None, go_on)?.last;
    let found = Manifest::read(source.as_ref())?;
    let lease = lease(found.version)?;
    let state = found.state;
    let flushed = state.tables.values().map(|table| table.flushed);
    let pinned = state.snapshots.values().map(|snapshot| snapshot.lsn);
    let lsn = flushed.chain(pinned).chain(end).chain([Lsn(state.next_lsn.0 - 1)]).max();
    let lsn = lsn.unwrap_or_default();
    // A later backup that was not finished leaves whole segments in a backup.
    if state.backup.is_none_or(|mark| mark.was_opened) {
        let orphans = orphans.of(&state);
        orphans.check_no_edit_is_lost(source.as_ref(), state.next_segment, lsn)?;
    }
    let mut log: Vec<(Lsn, Vec<u8>)> = Vec::new();
    read_log(source.as_ref(), state.next_lsn, lsn, None, |at, payload| {
        interrupt.check()?;
        if at >= state.next_lsn {
            log.push((at, payload.to_vec()));
        }
        Ok::<(), Error>(())
    })?;
    drop(wide);
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    let of_tables = state.tables.values().flat_map(|table| &table.segments);
    let of_named = state.snapshots.values().flat_map(|snapshot| &snapshot.tables);
    for segment in of_tables.chain(of_named.flat_map(|table| &table.segments)) {
        files.insert(Segment::file_name(segment.id), segment.bytes);
    }
    for postings in state.postings.values() {
        files.insert(SetPostings::file_name(postings.file), postings.bytes);
    }
    let files = files.into_iter().collect();
    Ok((Contents { source: source.as_ref(), state, files, log, lsn }, lease))
}

/// Whether the writer may have caused it by moving on.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Locked | ErrorKind::Corrupt)
}
