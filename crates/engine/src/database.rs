//! The public handles: a database and its tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::TableSchema;
use drillcore_storage::directory::{
    Directory, LocalDirectory, MemoryDirectory, Process, is_unfinished,
};
use drillcore_storage::proven_names::ProvenNames;
use drillcore_storage::segment::Segment;
use drillcore_storage::sync::Mutex;
use drillcore_storage::sync::thread::{self, JoinHandle};

use crate::commit::{self, AppendResult, Target};
use crate::conform::{AppendOptions, OnError};
use crate::core::{Core, Probe};
use crate::database_path::check_path;
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt::Interrupt;
use crate::jobs;
use crate::maintenance::{self, Duty, pick_full_merge};
use crate::named_snapshot;
use crate::options::{Durability, Options};
use crate::recovery;
use crate::sample::fresh_seed;
use crate::schema_difference::difference;
use crate::select::encode_sets;
use crate::set_indexing;
use crate::snapshot::{Snapshot, TableSnapshot, encode_whole_keys};
use crate::state::{State, TableState};
use crate::stats::Stats;
use crate::table_spec::{TableSpec, with_column};
use crate::verify::VerifyReport;
use crate::widening::{Widening, widen};

/// An open database. Clones share it; it closes with the last of them, or by [`Database::close`].
#[derive(Clone)]
pub struct Database {
    open: Arc<Open>,
}

/// A table of an open database.
#[derive(Clone)]
pub struct Table {
    database: Database,
    id: TableId,
    name: Arc<str>,
    schema: Arc<TableSchema>,
}

/// While held, no background work starts; see [`Database::hold_maintenance`].
pub struct MaintenanceHold {
    core: Arc<Core>,
}

struct Open {
    core: Arc<Core>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// The one whose threads the workers are.
    process: Process,
}

impl Database {
    /// Opens the database in a folder, with the rows of its log if it was not closed; makes one if the
    /// folder is missing or empty and `options.create` is set.
    ///
    /// # Errors
    /// `Locked` if another process writes to it, or this one has it open for that already, `InvalidArgument` if
    /// the folder holds something else or the path is a URL (`s3://bucket/x`; `file:///x` is refused, too: give
    /// `/x`), `NotFound` if there is no database and none is to be made, `Corrupt` on damage, `Unsupported` on a
    /// later format, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let path = path.as_ref();
        check_path(path)?;
        let directory = match options.create {
            true => LocalDirectory::create(path),
            false => LocalDirectory::open(path),
        };
        let directory = directory.map_err(|error| Error::cannot_open(path, &error))?;
        check_is_database(&directory, &path.display().to_string(), options.create)?;
        Database::open_in(Arc::new(directory), options, None)
    }

    /// A database that lives in memory and dies with its last handle.
    pub fn in_memory(options: Options) -> Result<Database> {
        let options = Options { durability: Durability::None, ..options };
        Database::open_in(Arc::new(MemoryDirectory::new()), options, None)
    }

    /// Opens the database in any [`Directory`]. `probe` is called by each append between encoding and
    /// committing.
    pub fn open_in(
        directory: Arc<dyn Directory>,
        options: Options,
        probe: Option<Arc<dyn Fn() + Send + Sync>>,
    ) -> Result<Database> {
        if options.memory_bytes < Options::MEMORY_BYTES_MIN {
            let (given, least) = (options.memory_bytes, Options::MEMORY_BYTES_MIN);
            return Err(Error::invalid(format!(
                "memory_bytes is {given}; at least {least} are needed"
            )));
        }
        let directory: Arc<dyn Directory> = Arc::new(ProvenNames::new(directory));
        let nonce = fresh_seed() as u32;
        let core = Arc::new(recovery::open(directory, options, Probe(probe), nonce)?);
        let threads = core.options.maintenance_threads.max(1);
        let workers = (0..threads)
            .map(|number| {
                let core = core.clone();
                let is_first_of_several = number == 0 && threads > 1;
                let duty = if is_first_of_several { Duty::Memory } else { Duty::Everything };
                let name = format!("drillcore-maintenance-{number}");
                thread::Builder::new().name(name).spawn(move || maintenance::work(&core, duty))
            })
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|error| {
                Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
            })?;
        Ok(Database {
            open: Arc::new(Open {
                core,
                workers: Mutex::new(workers),
                process: Process::current(),
            }),
        })
    }

    /// Makes a table.
    ///
    /// # Errors
    /// `AlreadyExists` unless `exist_ok` and of the same shape but for columns added since, `NotFound` for a key or set column that
    /// is not a column, `InvalidArgument` for what cannot be a table.
    pub fn create_table(&self, name: &str, spec: TableSpec) -> Result<Table> {
        let schema = spec.schema(name)?;
        let core = self.core();
        core.check_process()?;
        let mut manifest = core.manifest();
        let id = {
            let state = core.state();
            state.check_writable()?;
            if let Some((id, table)) = find(&state, name) {
                if spec.exist_ok && table.schema.widens(&schema) {
                    return Ok(self.handle(id, table));
                }
                let hint = if spec.exist_ok {
                    let found = TableSpec::of(&table.schema);
                    let differs = difference(&found, &TableSpec::of(&schema));
                    format!(
                        " with another shape: {differs}; ask for the shape it has, or drop it first"
                    )
                } else {
                    "; open it, or create it with exist_ok".to_string()
                };
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    format!("table {name:?} exists already{hint}"),
                ));
            }
            state.next_table
        };
        let create =
            Edit::CreateTable { table: id, name: name.to_string(), schema: schema.clone() };
        manifest
            .commit(&[create, Edit::NextTable(TableId(id.0 + 1))])
            .map_err(|e| self.failed(e.into()))?;
        let mut state = core.state();
        let table = TableState::new(name, schema, Lsn(0));
        let handle = self.handle(id, &table);
        state.tables.insert(id, table);
        state.next_table = TableId(id.0 + 1);
        state.changed();
        Ok(handle)
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Table> {
        let state = self.core().open_state()?;
        match find(&state, name) {
            Some((id, table)) => Ok(self.handle(id, table)),
            None => {
                Err(Error::unknown("table", name, state.tables.values().map(|table| &*table.name)))
            }
        }
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Result<Vec<String>> {
        let state = self.core().open_state()?;
        let mut names: Vec<String> =
            state.tables.values().map(|table| table.name.to_string()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a table and, once no snapshot reads them, its files.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let id = self.table(name)?.id;
        let core = self.core();
        core.check_process()?;
        let mut manifest = core.manifest();
        {
            let state = core.state();
            state.check_writable()?;
            if !state.tables.contains_key(&id) {
                return Err(Error::new(ErrorKind::NotFound, format!("table {name:?} was dropped")));
            }
        }
        manifest.commit(&[Edit::DropTable { table: id }]).map_err(|e| self.failed(e.into()))?;
        let mut state = core.state();
        let table = state.tables.remove(&id).expect("tables are dropped under the manifest's lock");
        // Runs that a job works on are given back by the job.
        let free = table.runs.iter().filter(|slot| !slot.taken);
        state.buffered_bytes -= free.map(|slot| slot.piece.bytes()).sum::<u64>();
        state.changed();
        core.state_changed.notify_all();
        drop(state);
        let segments = table.segments.iter().map(|slot| &slot.piece);
        jobs::remove_unless_pinned(core, segments, manifest.version());
        drop(manifest);
        // Dropping the last handle of a segment removes its file, which takes long.
        drop(table);
        Ok(())
    }

    /// Appends to several tables in one commit: all batches become visible together, or none.
    ///
    /// # Errors
    /// As [`Table::append`], of the first batch that does not fit.
    pub fn append(&self, batches: &[(&str, &RecordBatch)]) -> Result<AppendResult> {
        self.append_batches(batches, false)
    }

    /// As [`Database::append`], with nulls in the columns that batches lack; see
    /// [`AppendOptions::fill_nulls`].
    pub fn append_with_nulls(&self, batches: &[(&str, &RecordBatch)]) -> Result<AppendResult> {
        self.append_batches(batches, true)
    }

    fn append_batches(
        &self,
        batches: &[(&str, &RecordBatch)],
        fill_nulls: bool,
    ) -> Result<AppendResult> {
        let mut targets: Vec<(Target, &RecordBatch)> = Vec::with_capacity(batches.len());
        for (name, batch) in batches {
            let table = self.table(name)?;
            if targets.iter().any(|(target, _)| target.table == table.id) {
                return Err(Error::invalid(format!("table {name:?} is named twice in one append")));
            }
            targets.push((table.target()?, batch));
        }
        let options = AppendOptions { on_error: OnError::Raise, fill_nulls };
        commit::append(self.core(), &targets, options)
    }

    /// All tables as of the newest visible commit. Copies no rows.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.core().version()?))
    }

    /// All tables as of now, kept under a name: the same call opens the same snapshot again, after restarts
    /// and merges too, and the same seed draws the same sample from it. Rows in memory are written out for
    /// it, and its segments stay until [`Database::drop_snapshot`].
    pub fn named_snapshot(&self, name: &str) -> Result<Snapshot> {
        Ok(Snapshot::new(named_snapshot::open_or_pin(self.core(), name)?))
    }

    /// The names of all named snapshots, in order, with the commits they show.
    pub fn snapshots(&self) -> Result<Vec<(String, u64)>> {
        named_snapshot::list(self.core())
    }

    /// Forgets a named snapshot, and removes the files that only it needed.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        named_snapshot::unpin(self.core(), name)
    }

    /// Writes all rows that are visible now to segments. Works while maintenance is held, too.
    pub fn flush(&self) -> Result<()> {
        maintenance::flush(self.core(), self.core().visible())
    }

    /// Flushes, then merges the segments of each table into one.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        let core = self.core();
        let tables: Vec<TableId> = core.state().tables.keys().copied().collect();
        for id in tables {
            let mut state = core.state();
            let job = loop {
                state.check_writable()?;
                let Some(table) = state.tables.get(&id) else { break None };
                if table.segments.iter().any(|slot| slot.taken) {
                    state = core.wait(state);
                    continue;
                }
                break pick_full_merge(&mut state, id);
            };
            drop(state);
            if let Some(job) = job {
                jobs::run(core, job).map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    /// Reads every segment and checks every checksum, order, count, filter and posting against the rows.
    /// Reports all damaged segments; fails only on the interrupt.
    pub fn verify(&self, interrupt: &Interrupt) -> Result<VerifyReport> {
        let segments: Vec<_> = {
            let state = self.core().open_state()?;
            let of_tables = state.tables.values().flat_map(|table| &table.segments);
            let of_tables = of_tables.map(|slot| &slot.piece);
            let pinned = state.named.values().flat_map(|version| version.segments());
            let by_id: BTreeMap<SegmentId, Arc<Segment>> =
                of_tables.chain(pinned).map(|segment| (segment.id(), segment.clone())).collect();
            by_id.into_values().collect()
        };
        let segments = segments.into_iter().map(Ok);
        VerifyReport::of(self.core().directory.as_ref(), segments, interrupt)
    }

    /// Sizes, counts and rates of all that the database holds and does.
    pub fn stats(&self) -> Result<Stats> {
        Stats::read(self.core())
    }

    /// Closes the database: background work ends, and with durability `none` all rows are written out.
    /// Calls under way in other threads end, too, or fail as `Closed`; nothing is written after this
    /// returns. Snapshots stay readable. A second call does nothing.
    ///
    /// # Errors
    /// With durability `none`, why rows could not be written out, now or by a write that failed earlier; with `os`,
    /// why the log could not be synced. The database is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.open.close()
    }

    /// Keeps background work (joins, spills, merges) from starting while the hold lives. Appends go on up
    /// to the memory limit, then wait.
    pub fn hold_maintenance(&self) -> MaintenanceHold {
        self.core().state().holds += 1;
        MaintenanceHold { core: self.core().clone() }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.open.core
    }

    fn handle(&self, id: TableId, table: &TableState) -> Table {
        Table { database: self.clone(), id, name: table.name.clone(), schema: table.schema.clone() }
    }

    /// A write that failed half-way leaves the files in doubt, so nothing more is written.
    fn failed(&self, error: Error) -> Error {
        self.core().fail(&error);
        error
    }
}

impl Table {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's shape now; of a dropped table, when this handle was made.
    pub fn schema(&self) -> Arc<TableSchema> {
        let Ok(state) = self.database.core().state_unless_lost() else {
            return self.schema.clone();
        };
        state.tables.get(&self.id).map_or(&self.schema, |table| &table.schema).clone()
    }

    /// Adds a nullable column behind the others; in a rollup table it is a dimension, the last of the key. Rows
    /// appended before, and batches without the column, hold null there; snapshots taken before do not show
    /// it. Writes nothing but one edit of the manifest, however many rows there are, while others append and
    /// read; when the call returns, the column outlasts a power cut.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a column of that name, `InvalidArgument` for a type that is not stored (or in
    /// a rollup table cannot be in a key) and for what a metric reads, `NotFound` if the table was dropped,
    /// `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn add_column(&self, name: &str, data_type: &DataType) -> Result<()> {
        let core = self.database.core();
        core.check_process()?;
        loop {
            core.state().check_writable()?;
            let Target { table, schema: from, .. } = self.target()?;
            let (to, column) = with_column(&self.name, &from, name, data_type)?;
            if widen(core, &[Widening { table, from, to, columns: vec![column] }])? {
                return Ok(());
            }
        }
    }

    /// Indexes some sets, given as values of the set column's type; null is the rows without a value. Rows
    /// appended from now on are indexed as they are written, also those of sets that come up later; older
    /// ones, that is segments, by maintenance, in the background. Nothing but where a set's rows are looked
    /// up changes: until a segment's list is whole, they are found by a pass over its set column. When the
    /// call returns, the change outlasts a power cut and a restart goes on with the work.
    ///
    /// # Errors
    /// `InvalidArgument` if the table has no set column or a value is of another type, `NotFound` if it was
    /// dropped, `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn index_sets(&self, sets: &ArrayRef) -> Result<()> {
        let sets = encode_sets(&self.target()?.schema, sets)?;
        set_indexing::change(self.database.core(), self.id, |indexed| indexed.with(sets))
    }

    /// Indexes all sets, also those that come up later; see [`Table::index_sets`].
    pub fn index_all_sets(&self) -> Result<()> {
        set_indexing::change(self.database.core(), self.id, |_| IndexedSets::all())
    }

    /// Indexes some sets no more: appends, spills and merges do without from now on. Lists of segments that
    /// are there are used until a merge.
    ///
    /// # Errors
    /// As [`Table::index_sets`].
    pub fn unindex_sets(&self, sets: &ArrayRef) -> Result<()> {
        let sets = encode_sets(&self.target()?.schema, sets)?;
        set_indexing::change(self.database.core(), self.id, |indexed| indexed.without(sets))
    }

    /// Indexes no set any more; see [`Table::unindex_sets`].
    pub fn unindex_all_sets(&self) -> Result<()> {
        set_indexing::change(self.database.core(), self.id, |_| IndexedSets::none())
    }

    /// Returns once every segment lists the rows of all sets that are to be indexed. `progress` hears now and
    /// then how many rows are left.
    ///
    /// # Errors
    /// As [`Table::index_sets`], and what kept maintenance from going on.
    pub fn wait_for_set_index(
        &self,
        interrupt: &Interrupt,
        progress: impl FnMut(u64),
    ) -> Result<()> {
        set_indexing::wait(self.database.core(), self.id, interrupt, progress)
    }

    /// Appends a batch as one commit, which is visible to every later snapshot and logged at the
    /// database's durability when the call returns. Columns are matched by name; a nullable column that
    /// the batch lacks reads as null, but for what [`AppendOptions::fill_nulls`] says of upsert tables.
    ///
    /// # Errors
    /// `InvalidArgument` and `NotFound` for a batch that does not fit, `ReadOnly`, `Closed`, `Io`. A
    /// failed call changes nothing.
    pub fn append(
        &self,
        batch: &RecordBatch,
        options: impl Into<AppendOptions>,
    ) -> Result<AppendResult> {
        commit::append(self.database.core(), &[(self.target()?, batch)], options.into())
    }

    /// Deletes the rows with the given keys, one array a key column, as one commit. A key without a row
    /// is no error. For upsert tables only.
    ///
    /// # Errors
    /// `InvalidArgument` for another kind of table or keys that do not fit, and as [`Table::append`].
    pub fn delete(&self, keys: &[ArrayRef]) -> Result<u64> {
        let target = self.target()?;
        if !target.layout.has_tombstones() {
            return Err(Error::invalid(format!(
                "table {:?} keeps what was appended; only tables made with merge=\"upsert\" delete",
                self.name
            )));
        }
        let keys = encode_whole_keys(&target.schema, keys)?;
        Ok(commit::delete(self.database.core(), &target, keys)?.0)
    }

    /// The table as of the newest visible commit. Copies no rows.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        match self.database.snapshot()?.table(&self.name) {
            // The name may have passed to another table.
            Ok(table) if table.table().id == self.id => Ok(table),
            _ => Err(self.dropped()),
        }
    }

    fn target(&self) -> Result<Target> {
        Target::of(self.database.core(), self.id).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.dropped(),
            _ => error,
        })
    }

    fn dropped(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("table {:?} was dropped", self.name))
    }
}

impl Open {
    fn close(&self) -> Result<()> {
        let core = &self.core;
        if self.process.check().is_err() {
            // In a fork of that process there are no workers, and nothing that is its own to close. A lock may
            // have been held when it was forked, so none is taken.
            return Ok(());
        }
        let flushed = {
            let mut state = core.state();
            if state.closing {
                return Ok(());
            }
            state.closing = true;
            let is_needed = core.options.durability == Durability::None;
            if is_needed {
                // Without a log, published is as good as logged: appends at this point count as done.
                core.show(Lsn(state.next_lsn.0 - 1));
            }
            drop(state);
            // Appends that wait at the memory limit give up.
            core.state_changed.notify_all();
            if is_needed { self.write_out() } else { Ok(()) }
        };
        core.state().closed = true;
        core.state_changed.notify_all();
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // A worker that panicked has failed its job; its inputs are still in the log.
            let _ = worker.join();
        }
        // Others may open the files once the lock is free, so whatever other threads write is over by then.
        let mut state = core.state();
        while state.jobs_running > 0 {
            state = core.wait(state);
        }
        drop(state);
        core.manifest().close();
        let ended = core.wal.get().map_or(Ok(()), |wal| Ok(wal.close()?));
        core.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        flushed.and(ended)
    }

    /// What a log would otherwise keep: all rows, and how far commits have counted. The count is in no
    /// segment where the last commits were to tables since dropped.
    fn write_out(&self) -> Result<()> {
        let core = &self.core;
        maintenance::flush(core, core.visible())?;
        let mut manifest = core.manifest();
        let next_lsn = core.state().next_lsn;
        Ok(manifest.commit(&[Edit::NextLsn(next_lsn)])?)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
            workers.drain(..).for_each(std::mem::forget);
            return;
        }
        // Nobody is left to tell; what was acknowledged is in the log.
        let _ = self.close();
    }
}

impl Drop for MaintenanceHold {
    fn drop(&mut self) {
        if self.core.check_process().is_err() {
            // A fork has no maintenance.
            return;
        }
        self.core.state().holds -= 1;
        self.core.state_changed.notify_all();
    }
}

fn find<'a>(state: &'a State, name: &str) -> Option<(TableId, &'a TableState)> {
    state.tables.iter().find(|(_, table)| &*table.name == name).map(|(id, table)| (*id, table))
}

/// A folder with files but without a manifest is something else.
fn check_is_database(directory: &dyn Directory, path: &str, create: bool) -> Result<()> {
    if recovery::holds_database(directory, path)? {
        return Ok(());
    }
    let names = directory
        .list()
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot list {path}: {error}")))?;
    // A first manifest that was being begun has no name yet.
    if names.iter().any(|name| name != recovery::LOCK_FILE && !is_unfinished(name)) {
        return Err(Error::invalid(format!("{path} is not a Drillcore database, and not empty")));
    }
    if !create {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no database in {path}")));
    }
    Ok(())
}
