//! The public handles: a database and its tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch};
use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::directory::Directory;

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::named_snapshot;
use crate::catalog::tables::{self, Known};
use crate::error::{Error, ErrorKind, Result};
use crate::read::snapshot::{Snapshot, TableSnapshot};
use crate::reports::stats::Stats;
use crate::reports::verify::VerifyReport;
use crate::roles::deleting::{DeleteResult, check_selects, delete_keys, delete_selected};
use crate::roles::reader::Reader;
use crate::roles::updating::{Missing, UpdateResult, update, update_selected};
use crate::roles::writer::Writer;
use crate::schema::conform::AppendOptions;
use crate::schema::table_spec::TableSpec;
use crate::select::selection::Selection;
use crate::state::core::Core;
use crate::state::moment::Moment;
use crate::state::options::{Options, ReadOptions};
use crate::write::commit::{self, AppendResult, TableShape};

/// How often a wait for the writer looks.
const POLL: Duration = Duration::from_millis(10);

/// An open database: of the one process that writes it, or of one of those that read it beside. Both read alike; a
/// reader refuses calls that write, with an error of kind [`ErrorKind::ReadOnly`], and sees what the writer has done
/// since when it is [refreshed](Database::refresh).
///
/// Clones share it; it closes with the last of them, or by [`Database::close`].
///
/// ```
/// use drillcore::{Database, Options, ReadOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("flights.drill");
/// let db = Database::open(&path, Options::default())?;
/// let reader = Database::open_read_only(&path, ReadOptions::default())?; // mostly in another process
/// assert!(db.tables()?.is_empty() && reader.tables()?.is_empty());
/// assert_eq!(reader.refresh()?, db.snapshot()?.lsn());
/// reader.close()?;
/// db.close()?;
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) opened: Opened,
    /// Of the calls made through this handle.
    pub(crate) interrupt: Interrupt,
}

/// What a database was opened for.
#[derive(Clone)]
pub(crate) enum Opened {
    Writing(Arc<Writer>),
    Reading(Reader),
}

/// A table of an open database.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::arrow_schema::DataType;
///
/// flights.add_column("seats", &DataType::Int32)?; // older rows have null there
/// flights.unindex_all_sets()?;
/// flights.index_all_sets()?; // in the background ...
/// flights.wait_for_set_index()?;
/// assert_eq!(flights.schema().columns.fields().len(), 4);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Table {
    database: Database,
    id: TableId,
    name: Arc<str>,
    schema: Arc<TableSchema>,
}

/// While held, no background work starts; see [`Database::hold_maintenance`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let db = flights.database();
/// let hold = db.hold_maintenance();
/// db.flush()?; // what is asked for is done all the same
/// assert_eq!(db.stats()?.tables[0].segments, 1);
/// drop(hold);
/// # drillcore::Result::Ok(())
/// ```
// For tests and benches.
#[doc(hidden)]
#[must_use]
pub struct MaintenanceHold {
    /// None of a reader, which has no background work.
    core: Option<Arc<Core>>,
}

impl Database {
    /// Opens the database in a directory for writing, and replays its log. Creates one if the directory is missing or
    /// empty, if `options.create` is set.
    ///
    /// # Errors
    /// `Locked` if another process writes to it, or this one has it open for that already, `InvalidArgument` if
    /// the directory holds something else or the path is a URL (`s3://bucket/x`; `file:///x` is refused, too: give
    /// `/x`), `NotFound` if there is no database and none is to be made, `Corrupt` on damage, `Unsupported` on a
    /// later format, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let interrupt = options.interrupt.clone();
        Ok(Database::of_writer(Writer::open(path.as_ref(), options)?, interrupt))
    }

    /// Opens the database in a directory for reading, as of its newest complete commit. Any number of processes may,
    /// beside one that writes or none. Nothing is written but a lease, which keeps the files that are read.
    ///
    /// # Errors
    /// `NotFound` if there is no database or no named snapshot that [`ReadOptions::at`] names, `MomentGone` if no reader
    /// holds the moment that it gives, `InvalidArgument` if that is none of this database or the path is a URL, `Corrupt`,
    /// `Unsupported`, `Io`, also where no lease may be left in the directory.
    pub fn open_read_only(path: impl AsRef<Path>, options: ReadOptions) -> Result<Database> {
        Ok(Database::of_reader(Reader::open(path.as_ref(), &options)?, options))
    }

    /// A database that lives in memory and ends with its last handle.
    ///
    /// # Errors
    /// `InvalidArgument` if `options.memory_bytes` is too small, `Io` if a thread cannot be started.
    pub fn in_memory(options: Options) -> Result<Database> {
        let interrupt = options.interrupt.clone();
        Ok(Database::of_writer(Writer::in_memory(options)?, interrupt))
    }

    /// [`Database::open`] in any [`Directory`]; makes a database where there is none.
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Database> {
        let interrupt = options.interrupt.clone();
        Ok(Database::of_writer(Writer::open_in(directory, options)?, interrupt))
    }

    /// [`Database::open_read_only`] in any [`Directory`] that holds a database.
    pub fn open_read_only_in(
        directory: Arc<dyn Directory>,
        options: ReadOptions,
    ) -> Result<Database> {
        Ok(Database::of_reader(Reader::open_in(directory, &options)?, options))
    }

    fn of_writer(writer: Writer, interrupt: Interrupt) -> Database {
        Database { opened: Opened::Writing(Arc::new(writer)), interrupt }
    }

    fn of_reader(reader: Reader, options: ReadOptions) -> Database {
        Database { opened: Opened::Reading(reader), interrupt: options.interrupt }
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        matches!(self.opened, Opened::Reading(_))
    }

    /// The same database, through a handle whose calls end early once `interrupt` says stop, with an error of
    /// kind [`ErrorKind::Interrupted`]; so do those of tables and snapshots that it hands out. The interrupt is asked by the
    /// thread that makes the call, also while that waits: for memory, for background work, for a disk.
    ///
    /// A call that ends early has lost nothing, and the database is as usable as before. Its current
    /// work finishes in the background: at its next step, or once the disk is done with the last one. So an append at
    /// durability `fsync`, a new table or a column may be there all the same; an append that waited for memory
    /// is not. A close goes on in the background to its end; a second call waits for that.
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> Database {
        Database { opened: self.opened.clone(), interrupt }
    }

    /// Makes a table.
    ///
    /// # Errors
    /// `AlreadyExists` unless `exist_ok` and of the same shape but for columns added since, `NotFound` for a key or set column that
    /// is not a column, `InvalidArgument` for what cannot be a table, `ReadOnly`, `Closed`, `Io`.
    pub fn create_table(&self, name: &str, spec: TableSpec) -> Result<Table> {
        let (core, name) = (self.core()?.clone(), name.to_string());
        let known = aside(&self.interrupt, move |_| tables::create(&core, &name, &spec))?;
        Ok(self.handle(known))
    }

    /// A table by name.
    ///
    /// # Errors
    /// `NotFound` with the nearest name, `Closed`.
    pub fn table(&self, name: &str) -> Result<Table> {
        Ok(self.handle(match &self.opened {
            Opened::Writing(writer) => writer.table(name)?,
            Opened::Reading(reader) => reader.table(name)?,
        }))
    }

    /// The names of all tables, in order.
    ///
    /// # Errors
    /// `Closed`; of a reader also as [`Database::snapshot`].
    pub fn tables(&self) -> Result<Vec<String>> {
        match &self.opened {
            Opened::Writing(writer) => writer.tables(),
            Opened::Reading(reader) => reader.tables(),
        }
    }

    /// Removes a table and, once no snapshot reads them, its files.
    ///
    /// # Errors
    /// `NotFound`, `StorageFull`, `ReadOnly`, `Closed`, `Io`.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let core = self.core()?.clone();
        let (id, name) = (self.table(name)?.id, name.to_string());
        aside(&self.interrupt, move |_| tables::drop_table(&core, id, &name))
    }

    /// How far sources of rows have been read, by name, as commits of a [`PreparedAppend`](crate::PreparedAppend) say that
    /// snapshots show; of a reader, as of the last refresh.
    ///
    /// # Errors
    /// `Unsupported` of a reader at a named snapshot, which has none, `Closed`.
    pub fn positions(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        match &self.opened {
            Opened::Writing(writer) => writer.positions(),
            Opened::Reading(reader) => reader.positions(),
        }
    }

    /// The interrupt of calls through this handle.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// All tables as of the newest visible commit; of a reader, as of the last refresh. Copies no rows.
    ///
    /// # Errors
    /// `Closed`. Where rows expire, the call may have to read which have, and then also fails with `Corrupt`, `Io` or
    /// `Interrupted`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = match &self.opened {
            Opened::Writing(writer) => writer.snapshot(&self.interrupt)?,
            Opened::Reading(reader) => reader.snapshot(&self.interrupt)?,
        };
        Ok(snapshot.interrupted_by(self.interrupt.clone()))
    }

    /// All tables as of now, kept under a name: the same call opens the same snapshot again, after restarts
    /// and merges too, and the same seed draws the same sample from it. Rows in memory are written out for
    /// it, and its segments stay until [`Database::drop_snapshot`].
    ///
    /// A reader makes none. It opens those that there were at the last refresh, also one that the writer has
    /// dropped since.
    ///
    /// # Errors
    /// `NotFound` if a reader knows none of that name, `InvalidArgument` for what is no name, `StorageFull`, `Io`,
    /// `ReadOnly`, `Closed`.
    pub fn named_snapshot(&self, name: &str) -> Result<Snapshot> {
        let snapshot = match &self.opened {
            Opened::Writing(writer) => writer.named_snapshot(name, &self.interrupt)?,
            Opened::Reading(reader) => reader.named_snapshot(name, &self.interrupt)?,
        };
        Ok(snapshot.interrupted_by(self.interrupt.clone()))
    }

    /// The names of all named snapshots, in order, with the commits they show.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshots(&self) -> Result<Vec<(String, Lsn)>> {
        match &self.opened {
            Opened::Writing(writer) => writer.snapshots(),
            Opened::Reading(reader) => reader.snapshots(),
        }
    }

    /// Forgets a named snapshot, and removes the files that only it needed.
    ///
    /// # Errors
    /// `NotFound`, `StorageFull`, `ReadOnly`, `Closed`, `Io`.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        let (core, name) = (self.core()?.clone(), name.to_string());
        aside(&self.interrupt, move |_| named_snapshot::unpin(&core, &name))
    }

    /// Writes all rows that are visible now to segments. Works while maintenance is held, too.
    ///
    /// # Errors
    /// `StorageFull` if there is too little room on the disk: the rows stay in memory and in the log. `Io`,
    /// `ReadOnly`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.opened_to_write()?.flush(&self.interrupt)
    }

    /// Flushes, then merges the segments of each table into one. Needs as much room on the disk as the largest
    /// table's segments take, until they are merged.
    ///
    /// # Errors
    /// `StorageFull` if the segments of a table do not fit once more: that table is as it was, others
    /// are compacted. `Io`, `ReadOnly`, `Closed`.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&Progress::default())
    }

    /// [`Database::compact`], with `progress` in rows of the segments to merge. Their number is known after the flush. Rows of equal
    /// keys that become one count once they all are merged.
    pub fn compact_with(&self, progress: &Progress) -> Result<()> {
        self.opened_to_write()?.compact(&self.interrupt, progress)
    }

    /// Reads every segment and checks every checksum, order, count, filter and posting against the rows.
    /// Damage is no error: the report lists all damaged segments.
    ///
    /// # Errors
    /// `Interrupted`, `Closed`.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&Progress::default())
    }

    /// [`Database::verify`], with `progress` in bytes of segments.
    pub fn verify_with(&self, progress: &Progress) -> Result<VerifyReport> {
        match &self.opened {
            Opened::Writing(writer) => writer.verify(&self.interrupt, progress),
            Opened::Reading(reader) => reader.verify(&self.interrupt, progress),
        }
    }

    /// Sizes, counts and rates of all that the database holds and does. Of a reader they are as of the last
    /// refresh, without what only the writer knows.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<Stats> {
        match &self.opened {
            Opened::Writing(writer) => writer.stats(),
            Opened::Reading(reader) => reader.stats(),
        }
    }

    /// Moves a reader on to the newest complete commit, and returns it. Named snapshots are those of now; snapshots
    /// taken before stay as they are. Reads what is new in the log, or all that is needed of it once the writer has
    /// flushed. The writer always sees its newest commit, and only returns it.
    ///
    /// # Errors
    /// `Unsupported` of a reader at a moment or a named snapshot, which stays there, `Closed`, `Corrupt`, `Io`.
    pub fn refresh(&self) -> Result<Lsn> {
        match &self.opened {
            Opened::Writing(writer) => writer.visible(),
            Opened::Reading(reader) => reader.refresh(&self.interrupt),
        }
    }

    /// What a reader shows, for others that open the database [there](crate::At::Moment). They can for as long as a reader
    /// is open at this moment, which this one is until it is refreshed, closed or dropped.
    ///
    /// # Errors
    /// `Unsupported` of a writer, `Closed`.
    pub fn moment(&self) -> Result<Moment> {
        Ok(self.snapshot_with_moment()?.0)
    }

    /// [`Database::moment`] with the snapshot that shows it.
    pub fn snapshot_with_moment(&self) -> Result<(Moment, Snapshot)> {
        match &self.opened {
            Opened::Reading(reader) => {
                let (moment, snapshot) = reader.moment(&self.interrupt)?;
                Ok((moment, snapshot.interrupted_by(self.interrupt.clone())))
            }
            Opened::Writing(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "only readers have moments; open the database read-only, in this process or another one, and ask that reader",
            )),
        }
    }

    /// [`Database::refresh`] until at least one commit is there, such as that of an [`AppendResult`].
    ///
    /// # Errors
    /// `Behind` if it is not there within `timeout`; the database has moved on all the same.
    pub fn refresh_to(&self, at_least: Lsn, timeout: Duration) -> Result<Lsn> {
        let started = Instant::now();
        loop {
            self.interrupt.check()?;
            let newest = self.refresh()?;
            if newest >= at_least {
                return Ok(newest);
            }
            if started.elapsed() >= timeout {
                let message = format!(
                    "commit {at_least} has not arrived; the newest is {newest}. Refresh again"
                );
                return Err(Error::new(ErrorKind::Behind, message));
            }
            thread::sleep(POLL);
        }
    }

    /// Closes the database: background work ends, and with durability `none` all rows are written out.
    /// Calls under way in other threads end, too, or fail as `Closed`; nothing is written after this
    /// returns. Snapshots stay readable. A second call waits for the first, and does nothing.
    ///
    /// # Errors
    /// With durability `none`, `StorageFull` if the disk has no room for the rows in memory: the database stays open
    /// then. Also with `none`, why rows could not be written out, now or by a write that failed earlier; with `os`,
    /// why the log could not be synced. The database is closed all the same then.
    pub fn close(&self) -> Result<()> {
        match &self.opened {
            Opened::Writing(writer) => writer.close(&self.interrupt),
            Opened::Reading(reader) => {
                reader.close();
                Ok(())
            }
        }
    }

    /// Keeps background work (compactions in memory, flushes, merges) from starting while the hold lives. Appends go on up
    /// to the memory limit, then wait.
    // For tests and benches.
    #[doc(hidden)]
    pub fn hold_maintenance(&self) -> MaintenanceHold {
        let core = self.core().ok().cloned();
        if let Some(core) = &core {
            core.state().holds += 1;
        }
        MaintenanceHold { core }
    }

    /// Writes the rows in memory that only snapshots hold to files, and has the snapshots go on with these.
    // For tests.
    #[doc(hidden)]
    pub fn spill_snapshots(&self) -> Result<()> {
        self.opened_to_write()?.spill_snapshots()
    }

    /// What writes.
    ///
    /// # Errors
    /// `ReadOnly` of a reader.
    pub(crate) fn core(&self) -> Result<&Arc<Core>> {
        Ok(self.opened_to_write()?.core())
    }

    fn opened_to_write(&self) -> Result<&Writer> {
        match &self.opened {
            Opened::Writing(writer) => Ok(writer),
            Opened::Reading(_) => Err(Error::new(
                ErrorKind::ReadOnly,
                "the database is open for reading only; write to it in the process that has it open for writing",
            )),
        }
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

    /// A number that no other table of the database has or will have, whatever names they get.
    pub fn number(&self) -> u32 {
        self.id.0
    }

    /// What it is known by, whatever other table gets its name.
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// The database that it is in.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The same table, through a handle whose calls can be stopped: see [`Database::interrupted_by`].
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> Table {
        Table { database: self.database.interrupted_by(interrupt), ..self.clone() }
    }

    /// The table's shape now; of a dropped table, when this handle was made.
    pub fn schema(&self) -> Arc<TableSchema> {
        let now = match &self.database.opened {
            Opened::Writing(writer) => writer.schema(self.id),
            Opened::Reading(reader) => reader.schema(self.id),
        };
        now.unwrap_or_else(|| self.schema.clone())
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
        let batches = vec![(self.shape()?, batch.clone())];
        let options = options.into();
        commit::append(self.database.core()?, batches, options, &self.database.interrupt)
    }

    /// Deletes the rows with the given keys, one array per key column, as one commit. Keys without a row are passed over. For
    /// upsert tables only. Other writers of the table wait while the keys are looked up.
    ///
    /// # Errors
    /// `InvalidArgument` for another kind of table or keys that do not fit, and as [`Table::append`].
    pub fn delete(&self, keys: &[ArrayRef]) -> Result<DeleteResult> {
        let (core, shape) = (self.database.core()?, self.shape()?);
        delete_keys(core, &self.name, &shape, keys, &self.database.interrupt)
    }

    /// Changes some columns of rows of an upsert table, in one commit. Each batch has the key columns and the columns to
    /// change; of rows with one key, later ones are applied after earlier ones. Other writers of the table wait while the
    /// rows are read, so no change is lost.
    ///
    /// # Errors
    /// `InvalidArgument` for another kind of table, a batch without a key column, or values that do not fit; `NotFound`
    /// with [`Missing::Error`], if a key has no row; and as [`Table::append`]. Nothing is changed.
    pub fn update(&self, batches: &[RecordBatch], missing: Missing) -> Result<UpdateResult> {
        let (core, shape) = (self.database.core()?, self.shape()?);
        update(core, &self.name, &shape, batches, missing, &self.database.interrupt)
    }

    /// Gives the selected rows of an upsert table the values of a batch of one row, in one commit. It takes rows as they are
    /// when no other writer may change them any more.
    ///
    /// # Errors
    /// `InvalidArgument` for another kind of table, key columns among the values, or values that do not fit; and as
    /// [`Table::append`].
    pub fn update_selected(
        &self,
        selection: &Selection,
        values: &RecordBatch,
    ) -> Result<UpdateResult> {
        let (core, shape) = (self.database.core()?, self.shape()?);
        update_selected(core, &self.name, &shape, selection, values, &self.database.interrupt)
    }

    /// Deletes the selected rows in one commit, of tables of every kind. It takes what is committed before it; snapshots
    /// taken before still show the rows, and later rows with the same keys are new. A condition that is unknown of a row
    /// does not delete it.
    ///
    /// A key range costs the finding of its ends in every piece; in an upsert or rollup table the rows in it are counted,
    /// too. Another selection costs the reading of its columns; in an append or rollup table what is in memory is flushed
    /// before. Files shrink as segments are merged: [`TableStats::erased_rows`](crate::TableStats::erased_rows) says how
    /// many rows are left to reclaim.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing is selected by ([`Table::truncate`] deletes all rows), if a condition on a rollup table
    /// names a metric, or if the keys to delete from an upsert table are too many for one commit; and as
    /// [`Table::append`].
    pub fn delete_selected(&self, selection: &Selection) -> Result<DeleteResult> {
        check_selects(selection)?;
        self.delete_all_of(selection.clone())
    }

    /// Deletes all rows in one commit, as [`Table::delete_selected`] does, and with its errors.
    pub fn truncate(&self) -> Result<DeleteResult> {
        self.delete_all_of(Selection::default())
    }

    fn delete_all_of(&self, selection: Selection) -> Result<DeleteResult> {
        let (core, shape) = (self.database.core()?.clone(), self.shape()?);
        let delete =
            move |interrupt: &Interrupt| delete_selected(&core, &shape, &selection, interrupt);
        aside(&self.database.interrupt, delete)
    }

    /// The table as of the newest visible commit; of a reader, as of the last refresh. Copies no rows.
    ///
    /// # Errors
    /// `NotFound` if it was dropped, `Closed`.
    pub fn snapshot(&self) -> Result<TableSnapshot> {
        let snapshot = self.database.snapshot()?;
        snapshot.table_of(self.id).ok_or_else(|| match snapshot.table(&self.name) {
            Err(_) => self.dropped(),
            Ok(_) => {
                let name = &self.name;
                let message = format!(
                    "table {name:?} was dropped and a new table has its name; open the new table"
                );
                Error::new(ErrorKind::NotFound, message)
            }
        })
    }

    /// The table as it is now, for a commit.
    pub(crate) fn shape(&self) -> Result<TableShape> {
        TableShape::of(self.database.core()?, self.id).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.dropped(),
            _ => error,
        })
    }

    fn dropped(&self) -> Error {
        Error::dropped(&format!("table {:?}", self.name))
    }
}

impl Drop for MaintenanceHold {
    fn drop(&mut self) {
        // A fork has no maintenance.
        if let Some(core) = self.core.as_ref().filter(|core| core.check_process().is_ok()) {
            core.state().holds -= 1;
            core.wake_all();
        }
    }
}

#[cfg(test)]
mod pausing;
#[cfg(test)]
mod tests;
