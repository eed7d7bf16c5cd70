//! Reader processes: a database that another process may be writing, read without disturbing it.
//!
//! A reader sees the segments of one version of the manifest, held by a lease, and the complete frames of the
//! log above them. It writes nothing but its lease file, and moves on when told to. What its log holds
//! beyond the segments is kept in memory, at most about as much as the writer's `wal_bytes_max`.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use drillcore_format::block;
use drillcore_format::frame::decode_commit;
use drillcore_format::ids::{Lsn, LsnRange, SegmentId};
use drillcore_format::key::has_more_columns;
use drillcore_format::rows::{Layout, Rows};
use drillcore_storage::directory::{Directory, LocalDirectory};
use drillcore_storage::error::StorageError;
use drillcore_storage::lease::{Lease, ManifestVersion};
use drillcore_storage::manifest::{self, Manifest};
use drillcore_storage::page_cache::PageCache;
use drillcore_storage::segment::Segment;
use drillcore_storage::wal::Wal;

use crate::error::{Error, ErrorKind, Result};
use crate::interrupt::Interrupt;
use crate::jobs;
use crate::maintenance::{join_bytes_max, run_ladder};
use crate::memory_meter::MemoryMeter;
use crate::recovery::{logged_rows, open_tables};
use crate::rows_examined::RowsExamined;
use crate::run::UncommittedRun;
use crate::sample::fresh_seed;
use crate::snapshot::Snapshot;
use crate::state::{Slot, State, TableState, Version, replace};

/// The writer may replace files while they are being listed and opened; so often it is tried again.
const ATTEMPTS: u32 = 50;
const RETRY_AFTER: Duration = Duration::from_millis(5);
/// How often a wait for the writer looks.
const POLL: Duration = Duration::from_millis(10);

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
    current: Mutex<Option<Current>>,
}

/// What is being read, until the next refresh.
struct Current {
    version: Arc<Version>,
    segments: HashMap<SegmentId, Weak<Segment>>,
    _lease: Lease,
}

impl Reader {
    /// Opens the database in a folder as of its newest complete commit. Any number of readers may, beside one
    /// writer or none.
    ///
    /// # Errors
    /// `NotFound` if there is no database, `Corrupt`, `Unsupported`, `Io`.
    pub fn open(path: impl AsRef<Path>, cache_bytes: u64) -> Result<Reader> {
        let path = path.as_ref();
        let directory =
            LocalDirectory::open(path).map_err(|error| Error::cannot_open(path, &error))?;
        if !manifest::exists(&directory)? {
            let message = format!("there is no database in {}", path.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let reader = Reader {
            shared: Arc::new(Shared {
                directory: Arc::new(directory),
                cache: Arc::new(PageCache::new(cache_bytes)),
                meter: MemoryMeter::default(),
                examined: RowsExamined::default(),
                current: Mutex::new(None),
            }),
        };
        let current = reader.load(&HashMap::new())?;
        *reader.current() = Some(current);
        Ok(reader)
    }

    /// All tables as of the last refresh.
    pub fn snapshot(&self) -> Result<Snapshot> {
        match &*self.current() {
            Some(current) => Ok(Snapshot::new(current.version.clone())),
            None => Err(Error::new(ErrorKind::Closed, "the database is closed")),
        }
    }

    /// Moves on to the newest complete commit, at least to `at_least`, and returns it. Snapshots taken before
    /// stay as they are.
    ///
    /// # Errors
    /// `Behind` if the writer has not written that far within `timeout`.
    pub fn refresh(&self, at_least: u64, timeout: Duration, interrupt: &Interrupt) -> Result<u64> {
        let started = Instant::now();
        loop {
            interrupt.check()?;
            let known = match &*self.current() {
                Some(current) => current.segments.clone(),
                None => return Err(Error::new(ErrorKind::Closed, "the database is closed")),
            };
            let fresh = self.load(&known)?;
            let lsn = fresh.version.lsn.0;
            let mut current = self.current();
            if let Some(current) = current.as_mut().filter(|current| current.version.lsn.0 <= lsn) {
                *current = fresh;
            }
            drop(current);
            if lsn >= at_least {
                return Ok(lsn);
            }
            if started.elapsed() >= timeout {
                let message = format!("commit {at_least} is not there; the newest is {lsn}");
                return Err(Error::new(ErrorKind::Behind, message));
            }
            thread::sleep(POLL);
        }
    }

    /// Lets go of the lease. Snapshots stay readable.
    pub fn close(&self) {
        self.current().take();
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.shared.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads manifest and log, trying again where the writer replaced a file under it.
    fn load(&self, known: &HashMap<SegmentId, Weak<Segment>>) -> Result<Current> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_load(known) {
                Err(fault) if attempt < ATTEMPTS && fault.may_pass => thread::sleep(RETRY_AFTER),
                done => return done.map_err(|fault| fault.error),
            }
        }
    }

    fn try_load(
        &self,
        known: &HashMap<SegmentId, Weak<Segment>>,
    ) -> std::result::Result<Current, LoadFault> {
        let Shared { directory, cache, .. } = &*self.shared;
        // On everything until it is known what is needed.
        let wide = Lease::take(directory.clone(), ManifestVersion::EVERYTHING, fresh_seed())?;
        let (found, version) = Manifest::read(directory.as_ref())?;
        let needed_from = found.next_lsn;
        let mut segments = HashMap::new();
        let mut state = open_tables(found, |id, layout| {
            let segment = match known.get(&id).and_then(Weak::upgrade) {
                Some(segment) => segment,
                None => Arc::new(Segment::open(directory.as_ref(), id, layout, cache.clone())?),
            };
            segments.insert(id, Arc::downgrade(&segment));
            Ok(segment)
        })?;
        let last = Wal::read(directory.as_ref(), needed_from, |lsn, payload| {
            self.apply(&mut state, lsn, payload)
        })?;
        let lsn = last.unwrap_or_default().max(Lsn(state.next_lsn.0 - 1));
        let lease = Lease::take(directory.clone(), version, fresh_seed())?;
        drop(wide);
        Ok(Current { version: state.version(lsn), segments, _lease: lease })
    }

    /// Adds the rows of one commit that are in no segment.
    fn apply(
        &self,
        state: &mut State,
        lsn: Lsn,
        payload: &[u8],
    ) -> std::result::Result<(), LoadFault> {
        for (id, bytes) in decode_commit(payload).map_err(Error::from)? {
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
            let rows = logged_rows(&table.layout, bytes)?;
            if has_more_dimensions(&table.layout, &rows)? {
                return Err(LoadFault::of_added_column(lsn, &table.name));
            }
            let Shared { meter, examined, .. } = &*self.shared;
            let run = UncommittedRun::new(&table.layout, rows, meter, examined)?;
            let run = Arc::new(run.commit(LsnRange { first: lsn, last: lsn }));
            table.runs.push(Slot { piece: run, taken: false });
            self.join_runs(table)?;
        }
        Ok(())
    }

    fn join_runs(&self, table: &mut TableState) -> Result<()> {
        let Shared { meter, examined, .. } = &*self.shared;
        while let Some(window) =
            run_ladder(join_bytes_max(u64::MAX)).pick(&table.run_rungs(Lsn(u64::MAX)))
        {
            let runs: Vec<_> = table.runs[window].iter().map(|slot| slot.piece.clone()).collect();
            let joined = jobs::joined(&table.layout, &runs, meter, examined)?;
            replace(&mut table.runs, &runs, Some(Arc::new(joined)));
        }
        Ok(())
    }
}

/// Whether rows of a rollup table have a dimension that the table lacks.
fn has_more_dimensions(layout: &Layout, rows: &Rows) -> Result<bool> {
    if layout.rollup().is_none() {
        return Ok(false);
    }
    for key in rows.keys().iter().flatten() {
        if has_more_columns(key, layout.key_types())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An error of loading, and whether the writer may have caused it by moving on.
struct LoadFault {
    error: Error,
    may_pass: bool,
}

impl LoadFault {
    fn of_added_column(lsn: Lsn, table: &str) -> LoadFault {
        let message = format!("commit {lsn} has a column added to {table:?} meanwhile");
        LoadFault { error: Error::new(ErrorKind::Io, message), may_pass: true }
    }
}

impl From<StorageError> for LoadFault {
    fn from(error: StorageError) -> LoadFault {
        let may_pass = match &error {
            StorageError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            StorageError::Inconsistent { .. } | StorageError::Locked => true,
            _ => false,
        };
        LoadFault { error: error.into(), may_pass }
    }
}

impl From<Error> for LoadFault {
    fn from(error: Error) -> LoadFault {
        // Opening a segment reports a missing file as an error of the operating system.
        let may_pass = error.kind() == ErrorKind::Io;
        LoadFault { error, may_pass }
    }
}
