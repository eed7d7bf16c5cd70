//! The public handles: a database and its tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::{io, mem};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::directory::{
    Directory, LocalDirectory, MemoryDirectory, Process, is_unfinished,
};
use drillcore_storage::files::proven_names::ProvenNames;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::thread::{self, JoinHandle};

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::catalog::named_snapshot;
use crate::catalog::set_switches;
use crate::catalog::tables::{self, Known};
use crate::catalog::widening::add_column;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::closing::{Workers, close};
use crate::maintenance::scheduler::{self, Duty};
use crate::opening::database_path::check_path;
use crate::opening::recovery;
use crate::options::{Durability, Options};
use crate::read::sample::fresh_seed;
use crate::read::snapshot::{Snapshot, TableSnapshot, encode_whole_keys};
use crate::reports::stats::Stats;
use crate::reports::verify::VerifyReport;
use crate::schema::conform::{AppendOptions, OnError};
use crate::schema::table_spec::TableSpec;
use crate::schema::value_limits::{KEY_BYTES_MAX, first_long_key};
use crate::select::selection::encode_sets;
use crate::state::core::{Core, Probe};
use crate::write::commit::{self, AppendResult, TableShape};

/// An open database. Clones share it; it closes with the last of them, or by [`Database::close`].
#[derive(Clone)]
pub struct Database {
    open: Arc<Open>,
    /// Of the calls made through this handle.
    interrupt: Interrupt,
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
#[must_use]
pub struct MaintenanceHold {
    core: Arc<Core>,
}

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

struct Open {
    core: Arc<Core>,
    workers: Arc<Workers>,
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
        let directory = directory.map_err(|error| Error::cannot_open(path, error))?;
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
        Database::open_starting(directory, options, probe, |name, work| {
            thread::Builder::new().name(name).spawn(work)
        })
    }

    /// Opens it with threads of maintenance that `start` starts.
    fn open_starting(
        directory: Arc<dyn Directory>,
        options: Options,
        probe: Option<Arc<dyn Fn() + Send + Sync>>,
        start: impl FnMut(String, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<Database> {
        if options.memory_bytes < Options::MEMORY_BYTES_MIN {
            let (given, least) = (options.memory_bytes, Options::MEMORY_BYTES_MIN);
            return Err(Error::invalid(format!(
                "memory_bytes is {given}; at least {least} are needed"
            )));
        }
        let directory: Arc<dyn Directory> = Arc::new(ProvenNames::new(directory));
        let nonce = fresh_seed() as u32;
        let interrupt = options.interrupt.clone();
        let core = aside(&interrupt, move |interrupt| {
            let options = Options { interrupt: interrupt.clone(), ..options };
            let core = recovery::open(directory, options, Probe(probe), nonce)
                .map_err(|error| error.if_lacking().unwrap_or_else(|error| error))?;
            Ok(Arc::new(core))
        })?;
        let workers = Workers::default();
        let open = Open { core, workers: Arc::new(workers), process: Process::current() };
        // Where a thread cannot be started, dropping `open` ends those that were, and frees the lock.
        open.start_workers(start)?;
        Ok(Database { open: Arc::new(open), interrupt })
    }

    /// The same database, through a handle whose calls end early once `interrupt` says stop, with an error of
    /// kind [`ErrorKind::Interrupted`]; so do those of tables that it hands out. The interrupt is asked by the
    /// thread that makes the call, also while that waits: for memory, for background work, for a disk.
    ///
    /// A call that ends early has lost nothing, and the database is as usable as before. What it was busy with
    /// ends in the background: at its next step, or once the disk is done with the last one. So an append at
    /// durability `fsync`, a new table or a column may be there all the same; an append that waited for memory
    /// is not. A close goes on in the background to its end; a second call waits for that.
    ///
    /// Reads of snapshots have interrupts of their own, with their requests.
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> Database {
        Database { open: self.open.clone(), interrupt }
    }

    /// Makes a table.
    ///
    /// # Errors
    /// `AlreadyExists` unless `exist_ok` and of the same shape but for columns added since, `NotFound` for a key or set column that
    /// is not a column, `InvalidArgument` for what cannot be a table.
    pub fn create_table(&self, name: &str, spec: TableSpec) -> Result<Table> {
        let (core, name) = (self.core().clone(), name.to_string());
        let known = aside(&self.interrupt, move |_| tables::create(&core, &name, &spec))?;
        Ok(self.handle(known))
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Table> {
        let state = self.core().open_state()?;
        match tables::find(&state, name) {
            Some(known) => Ok(self.handle(known)),
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
        let (core, name) = (self.core().clone(), name.to_string());
        aside(&self.interrupt, move |_| tables::drop_table(&core, id, &name))
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
        let mut shaped: Vec<(TableShape, RecordBatch)> = Vec::with_capacity(batches.len());
        for (name, batch) in batches {
            let table = self.table(name)?;
            if shaped.iter().any(|(shape, _)| shape.table == table.id) {
                return Err(Error::invalid(format!("table {name:?} is named twice in one append")));
            }
            shaped.push((table.shape()?, (*batch).clone()));
        }
        let options = AppendOptions { on_error: OnError::Raise, fill_nulls };
        commit::append(self.core(), shaped, options, &self.interrupt)
    }

    /// All tables as of the newest visible commit. Copies no rows.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.core().version()?))
    }

    /// All tables as of now, kept under a name: the same call opens the same snapshot again, after restarts
    /// and merges too, and the same seed draws the same sample from it. Rows in memory are written out for
    /// it, and its segments stay until [`Database::drop_snapshot`].
    pub fn named_snapshot(&self, name: &str) -> Result<Snapshot> {
        if let Some(known) = named_snapshot::find(self.core(), name)? {
            return Ok(Snapshot::new(known));
        }
        let (core, name) = (self.core().clone(), name.to_string());
        let pin = move |interrupt: &Interrupt| named_snapshot::open_or_pin(&core, &name, interrupt);
        Ok(Snapshot::new(aside(&self.interrupt, pin)?))
    }

    /// The names of all named snapshots, in order, with the commits they show.
    pub fn snapshots(&self) -> Result<Vec<(String, Lsn)>> {
        named_snapshot::list(self.core())
    }

    /// Forgets a named snapshot, and removes the files that only it needed.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        let (core, name) = (self.core().clone(), name.to_string());
        aside(&self.interrupt, move |_| named_snapshot::unpin(&core, &name))
    }

    /// Writes all rows that are visible now to segments. Works while maintenance is held, too.
    ///
    /// # Errors
    /// `StorageFull` if there is too little room on the disk: the rows stay in memory and in the log. `Io`,
    /// `ReadOnly`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        let core = self.core().clone();
        aside(&self.interrupt, move |interrupt| {
            let _underway = core.begin()?;
            scheduler::flush(&core, core.visible(), interrupt)
        })
    }

    /// Flushes, then merges the segments of each table into one. Needs as much room on the disk as the largest
    /// table's segments take, until they are merged.
    ///
    /// # Errors
    /// `StorageFull` if the segments of a table do not fit once more: that table is as it was, others
    /// are compacted. `Io`, `ReadOnly`, `Closed`.
    pub fn compact(&self) -> Result<()> {
        let core = self.core().clone();
        aside(&self.interrupt, move |interrupt| {
            let _underway = core.begin()?;
            scheduler::flush(&core, core.visible(), interrupt)?;
            scheduler::compact(&core, interrupt)
        })
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
    /// returns. Snapshots stay readable. A second call waits for the first, and does nothing.
    ///
    /// # Errors
    /// With durability `none`, why rows could not be written out, now or by a write that failed earlier; with `os`,
    /// why the log could not be synced. The database is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.open.close(&self.interrupt)
    }

    /// Keeps background work (compactions in memory, flushes, merges) from starting while the hold lives. Appends go on up
    /// to the memory limit, then wait.
    pub fn hold_maintenance(&self) -> MaintenanceHold {
        self.core().state().holds += 1;
        MaintenanceHold { core: self.core().clone() }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.open.core
    }

    fn handle(&self, Known { id, name, schema }: Known) -> Table {
        Table { database: self.clone(), id, name, schema }
    }
}

impl Table {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same table, through a handle whose calls can be stopped: see [`Database::interrupted_by`].
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> Table {
        Table { database: self.database.interrupted_by(interrupt), ..self.clone() }
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
        let (core, id, table) = (self.database.core().clone(), self.id, self.name.clone());
        let (name, data_type) = (name.to_string(), data_type.clone());
        let add = move |_: &Interrupt| add_column(&core, id, &table, &name, &data_type);
        aside(&self.database.interrupt, add)
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
        let sets = encode_sets(&self.shape()?.schema, sets)?;
        self.change_indexed(|indexed| indexed.with(sets))
    }

    /// Indexes all sets, also those that come up later; see [`Table::index_sets`].
    pub fn index_all_sets(&self) -> Result<()> {
        self.change_indexed(|_| IndexedSets::all())
    }

    /// Indexes some sets no more: appends, flushes and merges do without from now on. Lists of segments that
    /// are there are used until a merge.
    ///
    /// # Errors
    /// As [`Table::index_sets`].
    pub fn unindex_sets(&self, sets: &ArrayRef) -> Result<()> {
        let sets = encode_sets(&self.shape()?.schema, sets)?;
        self.change_indexed(|indexed| indexed.without(sets))
    }

    /// Indexes no set any more; see [`Table::unindex_sets`].
    pub fn unindex_all_sets(&self) -> Result<()> {
        self.change_indexed(|_| IndexedSets::none())
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
        set_switches::wait(self.database.core(), self.id, interrupt, progress)
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
        let Database { open, interrupt } = &self.database;
        commit::append(&open.core, vec![(self.shape()?, batch.clone())], options.into(), interrupt)
    }

    /// Deletes the rows with the given keys, one array a key column, as one commit, and returns that. A key
    /// without a row is no error. For upsert tables only.
    ///
    /// # Errors
    /// `InvalidArgument` for another kind of table or keys that do not fit, and as [`Table::append`].
    pub fn delete(&self, keys: &[ArrayRef]) -> Result<Lsn> {
        let shape = self.shape()?;
        if !shape.layout.has_tombstones() {
            return Err(Error::invalid(format!(
                "table {:?} is no upsert table; only upsert tables delete rows",
                self.name
            )));
        }
        if let Some((row, bytes)) = first_long_key(keys) {
            return Err(Error::invalid(format!(
                "key {row} has {bytes} bytes of strings, but no key has more than {KEY_BYTES_MAX}"
            )));
        }
        let keys = encode_whole_keys(&shape.schema, keys)?;
        let Database { open, interrupt } = &self.database;
        commit::delete(&open.core, shape, keys, interrupt)
    }

    /// The table as of the newest visible commit. Copies no rows.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        match self.database.snapshot()?.table(&self.name) {
            // The name may have passed to another table.
            Ok(table) if table.table().id == self.id => Ok(table),
            _ => Err(self.dropped()),
        }
    }

    fn change_indexed(
        &self,
        change: impl FnOnce(&IndexedSets) -> IndexedSets + Send + 'static,
    ) -> Result<()> {
        let (core, id) = (self.database.core().clone(), self.id);
        aside(&self.database.interrupt, move |_| set_switches::change(&core, id, change))
    }

    fn shape(&self) -> Result<TableShape> {
        TableShape::of(self.database.core(), self.id).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.dropped(),
            _ => error,
        })
    }

    fn dropped(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("table {:?} was dropped", self.name))
    }
}

impl Open {
    /// Starts the threads of maintenance, each under a name.
    fn start_workers(
        &self,
        mut start: impl FnMut(String, Work) -> io::Result<JoinHandle<()>>,
    ) -> Result<()> {
        let threads = self.core.options.maintenance_threads.max(1);
        for number in 0..threads {
            let core = self.core.clone();
            let is_first_of_several = number == 0 && threads > 1;
            let duty = if is_first_of_several { Duty::Memory } else { Duty::Everything };
            let work = Box::new(move || scheduler::work(&core, duty));
            let worker = start(format!("drillcore-maintenance-{number}"), work)
                .map_err(|error| Error::io("cannot start a thread for maintenance", error))?;
            self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
        Ok(())
    }

    fn close(&self, interrupt: &Interrupt) -> Result<()> {
        if self.process.check().is_err() {
            // In a fork of that process there are no workers, and nothing that is its own to close. A lock may
            // have been held when it was forked, so none is taken.
            return Ok(());
        }
        let (core, workers) = (self.core.clone(), self.workers.clone());
        aside(interrupt, move |_| close(&core, &workers, fresh_seed()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.process.check().is_err() {
            if let Some(workers) = Arc::get_mut(&mut self.workers) {
                let workers = workers.get_mut().unwrap_or_else(PoisonError::into_inner);
                workers.drain(..).for_each(mem::forget);
            }
            return;
        }
        // Nobody is left to tell; what was acknowledged is in the log.
        let _ = self.close(&Interrupt::never());
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

/// A folder with files but without a manifest is something else.
fn check_is_database(directory: &dyn Directory, path: &str, create: bool) -> Result<()> {
    if recovery::holds_database(directory, path)? {
        return Ok(());
    }
    let names =
        directory.list().map_err(|error| Error::io(format_args!("cannot list {path}"), error))?;
    // A first manifest that was being begun has no name yet.
    if names.iter().any(|name| name != recovery::LOCK_FILE && !is_unfinished(name)) {
        return Err(Error::invalid(format!("{path} is not a Drillcore database, and not empty")));
    }
    if !create {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no database in {path}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::jobs::Picked;
    use crate::maintenance::scheduler::pick_flush;
    use arrow_array::Int64Array;
    use arrow_schema::{Field, Schema};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn with_row(db: &Database) {
        let spec = TableSpec::new(
            Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])),
            ["id"],
        );
        let table = db.create_table("t", spec).unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }

    /// Takes the only row there is out of play.
    fn pick(core: &Core) -> Picked<'_> {
        let visible = core.visible();
        let flush = |state: &mut crate::state::guarded::State| {
            let table = *state.tables.keys().next().expect("there is one");
            pick_flush(state, table, visible, u64::MAX)
        };
        Picked::choose(core, core.state(), flush).ok().expect("there is a run")
    }

    #[test]
    fn a_job_that_is_picked_and_never_run_gives_its_rows_back_and_closing_goes_on() {
        let db = Database::in_memory(Options::default()).unwrap();
        with_row(&db);
        drop(pick(db.core()));
        db.flush().unwrap();
        assert_eq!(db.stats().unwrap().tables[0].segments, 1);
        db.close().unwrap();
    }

    /// A call that waits for the rows, or for the job, fails with the reason.
    #[test]
    fn a_panic_between_picking_a_job_and_running_it_hangs_nobody() {
        let db = Database::in_memory(Options::default()).unwrap();
        with_row(&db);
        let panics = || {
            let _picked = pick(db.core());
            panic!("broken on purpose");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(db.core().state().underway, 0);
        let is_taken = |db: &Database| db.core().state().tables[&TableId(1)].runs[0].taken;
        assert!(!is_taken(&db), "the row is in play");
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::ReadOnly);
    }

    #[test]
    fn a_thread_of_maintenance_that_cannot_be_started_fails_the_opening_and_frees_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let threads = 3;
        for nth in 0..threads {
            let options = Options { maintenance_threads: threads, ..Options::default() };
            let directory = || Arc::new(LocalDirectory::open(folder.path()).unwrap());
            let mut started = 0;
            let start = |name, work| {
                if started == nth {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                started += 1;
                thread::Builder::new().name(name).spawn(work)
            };
            let refused = Database::open_starting(directory(), options.clone(), None, start);
            let error = refused.err().expect("a thread is missing");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.to_string().contains("cannot start a thread"), "{error}");
            Database::open_in(directory(), options, None).unwrap().close().unwrap();
        }
    }
}
