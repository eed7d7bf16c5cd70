//! Databases and their snapshots.

use std::path::PathBuf;
use std::time::Duration;

use arrow_array::RecordBatch;
use drillcore::{
    AppendOptions, At, BackupResult, Durability, Error, Interrupt, Merge, Moment, OnError, Options,
    ReadOptions, RollupSpec, SourcePosition, TableSpec,
};
use drillcore_sql::{Parameters, QueryOptions, parse_granularity, parse_metric};
use pyo3::prelude::*;
use pyo3_arrow::PySchema;

use crate::arrow_data::{ArrowArray, ArrowData, into_arrays};
use crate::duration::DurationArgument;
use crate::error;
use crate::progress::Progress;
use crate::rows::Scan;
use crate::signals::{self, Signals};
use crate::table::{AppendTuple, Table, TableSnapshot, append_tuple};

/// Time column, granularity, and metrics as name and expression.
type RollupTuple = (Option<String>, String, Vec<(String, String)>, bool);

/// Version, LSN, time of day, name of a snapshot, identity of the database.
type MomentTuple = (u64, u64, Option<u64>, Option<String>, Option<u128>);

/// Where a reader is opened.
#[derive(FromPyObject)]
enum AtArgument {
    Snapshot(String),
    Moment(MomentTuple),
}

impl AtArgument {
    fn into_at(self) -> At {
        match self {
            AtArgument::Snapshot(name) => At::Snapshot(name),
            AtArgument::Moment((version, lsn, clock, snapshot, database)) => {
                let moment = Moment::new(version, lsn.into());
                let moment = clock.into_iter().fold(moment, Moment::at_clock);
                let moment = database.into_iter().fold(moment, Moment::of_database);
                At::Moment(snapshot.into_iter().fold(moment, Moment::of_snapshot))
            }
        }
    }
}

/// LSN, files, bytes, new files, bytes linked, bytes copied.
pub type BackupTuple = (u64, u64, u64, u64, u64, u64);

pub fn backup_tuple(stored: BackupResult) -> BackupTuple {
    let BackupResult { lsn, files, bytes, new_files, linked_bytes, copied_bytes, .. } = stored;
    (lsn.into(), files, bytes, new_files, linked_bytes, copied_bytes)
}

/// An open database.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Database {
    inner: drillcore::Database,
    /// The budget of a writer.
    memory_bytes: u64,
}

impl Database {
    /// The database, for the call named `what`, which writes.
    pub fn writer(&self, py: Python<'_>, what: &str) -> PyResult<&drillcore::Database> {
        match self.inner.is_read_only() {
            false => Ok(&self.inner),
            true => Err(error::read_only(py, what)),
        }
    }
}

#[pymethods]
impl Database {
    /// Opens the directory `path`, or a database in memory when it is `None`.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the options of Python, which have names there")]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        durability: &str,
        memory_bytes: Option<u64>,
        cache_bytes: Option<u64>,
        threads: Option<usize>,
        direct_io: bool,
        io_uring: bool,
    ) -> PyResult<Database> {
        let mut options =
            Options { durability: parse_durability(py, durability)?, ..Options::default() };
        options.memory_bytes = memory_bytes.unwrap_or(options.memory_bytes);
        options.cache_bytes = cache_bytes.unwrap_or(options.cache_bytes);
        options.maintenance_threads = threads.unwrap_or(options.maintenance_threads);
        (options.direct_io, options.io_uring) = (direct_io, io_uring);
        let memory_bytes = options.memory_bytes;
        let inner = signals::call(py, |interrupt| {
            let options = Options { interrupt, ..options };
            match path {
                Some(path) => drillcore::Database::open(path, options),
                None => drillcore::Database::in_memory(options),
            }
        })?;
        // Each call has an interrupt of its own.
        let inner = inner.interrupted_by(Interrupt::never());
        Ok(Database { inner, memory_bytes })
    }

    /// Opens the directory `path` for reading, beside a writer or without one.
    #[staticmethod]
    fn open_reader(
        py: Python<'_>,
        path: PathBuf,
        at: Option<AtArgument>,
        cache_bytes: Option<u64>,
        direct_io: bool,
        io_uring: bool,
    ) -> PyResult<Database> {
        let cache_bytes = cache_bytes.unwrap_or(ReadOptions::default().cache_bytes);
        let at = at.map_or(At::Newest, AtArgument::into_at);
        let inner = signals::call(py, |interrupt| {
            let options = ReadOptions { at, cache_bytes, direct_io, io_uring, interrupt };
            drillcore::Database::open_read_only(path, options)
        })?;
        Ok(Database { inner: inner.interrupted_by(Interrupt::never()), memory_bytes: 0 })
    }

    /// Runs a text that begins with `delete`, and returns the number of rows; `None` of another text.
    fn delete_in_sql(
        &self,
        py: Python<'_>,
        text: &str,
        parameters: Option<ParametersArgument>,
    ) -> PyResult<Option<u64>> {
        let writer = self.writer(py, "sql")?;
        let parameters = parameters.map_or(Parameters::None, ParametersArgument::into_parameters);
        let delete = |interrupt| drillcore_sql::delete(writer, text, &parameters, &interrupt);
        Ok(signals::call(py, delete)?.map(|deleted| deleted.rows))
    }

    #[getter]
    fn read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    /// What a reader shows, and a snapshot that shows it.
    fn snapshot_with_moment(&self, py: Python<'_>) -> PyResult<(MomentTuple, Snapshot)> {
        let (moment, inner) = signals::run(py, || self.inner.snapshot_with_moment())?;
        let snapshot = moment.snapshot().map(str::to_string);
        let (clock, database) = (moment.clock(), moment.database());
        let moment = (moment.version(), moment.lsn().into(), clock, snapshot, database);
        Ok((moment, Snapshot::new(inner)))
    }

    /// Moves a reader on, at least to `at_least`; waits for that at most `timeout` seconds.
    fn refresh(&self, py: Python<'_>, at_least: u64, timeout: f64) -> PyResult<u64> {
        if !self.inner.is_read_only() {
            let message = "refresh: a database open for writing always reads its newest commit; \
                           use refresh only with read_only=True";
            return Err(error::unsupported(py, message));
        }
        // Python lets only numbers from 0 on through; what no clock can count is for ever.
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
        let refresh =
            |interrupt| self.inner.interrupted_by(interrupt).refresh_to(at_least.into(), timeout);
        Ok(signals::call(py, refresh)?.into())
    }

    #[allow(clippy::too_many_arguments)] // one argument an option, as in the specification
    fn create_table(
        &self,
        py: Python<'_>,
        name: &str,
        schema: PySchema,
        key: Vec<String>,
        set: Option<String>,
        set_index: bool,
        weights: Vec<String>,
        merge: &str,
        rollup: Option<RollupTuple>,
        streams: Option<Vec<String>>,
        ttl: Option<(String, DurationArgument)>,
        exist_ok: bool,
    ) -> PyResult<Table> {
        let writer = self.writer(py, "create_table")?;
        let columns = schema.into_inner();
        let merge = match (merge, rollup) {
            ("append", None) => Merge::Append,
            ("upsert", None) => Merge::Upsert,
            ("rollup", Some((time, granularity, metrics, discover))) => {
                let rollup = || {
                    let metric =
                        |(name, text): &(String, String)| Ok((name.clone(), parse_metric(text)?));
                    let metrics = metrics.iter().map(metric).collect::<Result<_, Error>>()?;
                    let granularity = parse_granularity(&granularity)?;
                    Ok(RollupSpec { time, granularity, metrics, discover })
                };
                Merge::Rollup(signals::run(py, rollup)?)
            }
            _ => {
                return Err(error::invalid(
                    py,
                    "merge and rollup contradict each other; give rollup only with merge=\"rollup\"",
                ));
            }
        };
        let ttl = signals::run(py, || {
            let ttl = ttl.map(|(column, duration)| Ok((column, duration.parsed()?)));
            ttl.transpose()
        })?;
        let spec = TableSpec {
            set,
            set_index,
            streams,
            ttl,
            exist_ok,
            ..TableSpec::new(columns, key).weights(weights).merge(merge)
        };
        let table = signals::call(py, |interrupt| {
            writer.interrupted_by(interrupt).create_table(name, spec)
        })?;
        Ok(Table::new(table, self.memory_bytes))
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        Ok(Table::new(signals::run(py, || self.inner.table(name))?, self.memory_bytes))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        signals::run(py, || self.inner.tables())
    }

    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let writer = self.writer(py, "drop_table")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).drop_table(name))
    }

    fn rename_table(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        let writer = self.writer(py, "rename_table")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).rename_table(old, new))?;
        Ok(())
    }

    fn copy_table(&self, py: Python<'_>, source: &str, target: &str) -> PyResult<Table> {
        let writer = self.writer(py, "copy_table")?;
        let copy = |interrupt| writer.interrupted_by(interrupt).copy_table(source, target);
        Ok(Table::new(signals::call(py, copy)?, self.memory_bytes))
    }

    fn append(
        &self,
        py: Python<'_>,
        parts: Vec<(String, ArrowData)>,
        fill_nulls: bool,
        positions: Vec<(String, Vec<u8>)>,
    ) -> PyResult<AppendTuple> {
        let writer = self.writer(py, "append")?;
        let positions = positions.into_iter();
        let positions: Vec<SourcePosition> =
            positions.map(|(source, position)| SourcePosition { source, position }).collect();
        let mut batches: Vec<(String, RecordBatch)> = Vec::with_capacity(parts.len());
        for (table, data) in parts {
            batches.push((table, data.read_all(py)?));
        }
        let borrowed: Vec<(&str, &RecordBatch)> =
            batches.iter().map(|(table, batch)| (table.as_str(), batch)).collect();
        let append = |interrupt| {
            let writer = writer.interrupted_by(interrupt);
            let options = AppendOptions { on_error: OnError::Raise, fill_nulls };
            writer.prepare(&borrowed, options)?.commit(&positions)
        };
        Ok(append_tuple(signals::call(py, append)?))
    }

    /// How far sources have been read, by name.
    fn positions(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<u8>)>> {
        Ok(signals::run(py, || self.inner.positions())?.into_iter().collect())
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let snapshot = |interrupt| self.inner.interrupted_by(interrupt).snapshot();
        Ok(Snapshot::new(signals::call(py, snapshot)?))
    }

    /// The snapshot of that name, which a writer pins now if there is none.
    fn named_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<Snapshot> {
        let open = |interrupt| self.inner.interrupted_by(interrupt).named_snapshot(name);
        Ok(Snapshot::new(signals::call(py, open)?))
    }

    /// Names in order, with LSNs.
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let snapshots = signals::run(py, || self.inner.snapshots())?;
        Ok(snapshots.into_iter().map(|(name, lsn)| (name, lsn.into())).collect())
    }

    fn drop_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let writer = self.writer(py, "drop_snapshot")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).drop_snapshot(name))
    }

    fn backup(&self, py: Python<'_>, path: PathBuf, copy: bool) -> PyResult<BackupTuple> {
        let backup = |interrupt| self.inner.interrupted_by(interrupt).backup(&path, copy);
        Ok(backup_tuple(signals::call(py, backup)?))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer(py, "flush")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).flush())
    }

    fn compact(&self, py: Python<'_>, progress: &Progress) -> PyResult<()> {
        let writer = self.writer(py, "compact")?;
        let compact = |interrupt| writer.interrupted_by(interrupt).compact_with(progress.counts());
        signals::call(py, compact)
    }

    /// Segments, rows and bytes read, and a message for each damaged segment.
    fn verify(
        &self,
        py: Python<'_>,
        progress: &Progress,
    ) -> PyResult<(u64, u64, u64, Vec<String>)> {
        let verify =
            |interrupt| self.inner.interrupted_by(interrupt).verify_with(progress.counts());
        let report = signals::call(py, verify)?;
        Ok((report.segments, report.rows, report.bytes, report.faults))
    }

    /// The statistics as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        Ok(signals::run(py, || self.inner.stats())?.to_json())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        signals::call(py, |interrupt| self.inner.interrupted_by(interrupt).close())
    }
}

/// All tables as they were at one LSN.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Snapshot {
    inner: drillcore::Snapshot,
}

impl Snapshot {
    /// Without the interrupt of the call that took it: each call has its own.
    fn new(taken: drillcore::Snapshot) -> Snapshot {
        Snapshot { inner: taken.interrupted_by(Interrupt::never()) }
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    fn lsn(&self) -> u64 {
        self.inner.lsn().into()
    }

    fn tables(&self) -> Vec<String> {
        self.inner.tables()
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<TableSnapshot> {
        Ok(TableSnapshot::new(signals::run(py, || self.inner.table(name))?))
    }

    /// The result of a query, streamed.
    fn sql(
        &self,
        py: Python<'_>,
        text: &str,
        parameters: Option<ParametersArgument>,
        threads: Option<usize>,
        memory_bytes: Option<u64>,
    ) -> PyResult<Scan> {
        let signals = Signals::new();
        let parameters = parameters.map_or(Parameters::None, ParametersArgument::into_parameters);
        let options = QueryOptions { threads, memory_bytes, parameters, ..Default::default() };
        let snapshot = self.inner.interrupted_by(signals.interrupt());
        let query = signals.run(py, || drillcore_sql::query(&snapshot, text, &options))?;
        Ok(Scan::new(query.schema(), query, signals))
    }
}

/// The parameters of a query, each an array of one value.
#[derive(FromPyObject)]
enum ParametersArgument {
    Listed(Vec<ArrowArray>),
    Named(Vec<(String, ArrowArray)>),
}

impl ParametersArgument {
    fn into_parameters(self) -> Parameters {
        match self {
            ParametersArgument::Listed(values) => Parameters::Listed(into_arrays(values)),
            ParametersArgument::Named(values) => {
                let value = |(name, value): (String, ArrowArray)| (name, value.into_inner());
                Parameters::Named(values.into_iter().map(value).collect())
            }
        }
    }
}

fn parse_durability(py: Python<'_>, name: &str) -> PyResult<Durability> {
    match name {
        "none" => Ok(Durability::None),
        "os" => Ok(Durability::Os),
        "fsync" => Ok(Durability::Fsync),
        other => Err(error::invalid(
            py,
            &format!("durability={other:?}: expected \"none\", \"os\" or \"fsync\""),
        )),
    }
}
