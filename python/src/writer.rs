//! Writers that commit in the background.

use std::collections::HashMap;
use std::time::Duration;

use arrow_array::RecordBatch;
use drillcore::{AddStats, FailedRows, Interrupt, Lsn, OnError, Rejected, WriterOptions};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;

use crate::arrow_data::ArrowData;
use crate::database::Database;
use crate::error::to_python;
use crate::signals;
use crate::table::Table;

/// Rows and commits stored, rows failed, rows waiting, and how often and how many seconds `add` waited.
type StatsTuple = (u64, u64, u64, u64, u64, f64);
/// The table, the rows, and why they were not stored, as an exception.
type FailedTuple = (String, PyRecordBatch, Py<PyAny>);

/// A writer of a table or of a database. It leaves out what does not fit, and says what that is: what becomes of it is decided in
/// Python.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Writer {
    inner: Inner,
    taken: Mutex<Taken>,
}

/// The number of a chunk, and how often it was tried before to add it, with other rows of it left out.
type Attempt = (u64, u64);

/// What came of the attempts at the chunk that was added last: the rows that do not fit.
#[derive(Default)]
struct Taken {
    chunk: Option<u64>,
    attempts: HashMap<u64, Vec<(usize, Rejected)>>,
}

enum Inner {
    Table(drillcore::TableWriter),
    Database(drillcore::DatabaseWriter),
}

impl Writer {
    fn new(inner: Inner) -> Writer {
        Writer { inner, taken: Mutex::default() }
    }
}

#[pymethods]
impl Writer {
    #[staticmethod]
    fn of_table(
        py: Python<'_>,
        table: &Table,
        rows: usize,
        seconds: f64,
        bytes: Option<u64>,
        fill_nulls: bool,
    ) -> PyResult<Writer> {
        let table = table.writer(py, "writer")?;
        let options = WriterOptions { rows, seconds, bytes, on_error: OnError::Skip, fill_nulls };
        Ok(Writer::new(Inner::Table(signals::run(py, || table.writer(options))?)))
    }

    #[staticmethod]
    fn of_database(
        py: Python<'_>,
        database: &Database,
        rows: usize,
        seconds: f64,
        bytes: Option<u64>,
        fill_nulls: bool,
    ) -> PyResult<Writer> {
        let database = database.writer(py, "writer")?;
        let options = WriterOptions { rows, seconds, bytes, on_error: OnError::Skip, fill_nulls };
        Ok(Writer::new(Inner::Database(signals::run(py, || database.writer(options))?)))
    }

    /// Adds rows, one part for each table, and returns those that do not fit: the part, the row and the reason. Of a table's
    /// writer the others are taken, of a database's none. Without `skip` they are an error.
    ///
    /// What was taken as an attempt is not taken again as the same one: a signal handler may raise once the rows are taken, so that
    /// the caller does not hear of it.
    fn add(
        &self,
        py: Python<'_>,
        parts: Vec<(String, ArrowData)>,
        skip: bool,
        waited: f64,
        attempt: Option<Attempt>,
    ) -> PyResult<Vec<(usize, u64, String)>> {
        let mut batches: Vec<(String, RecordBatch)> = Vec::with_capacity(parts.len());
        for (table, data) in parts {
            batches.push((table, data.read_all(py)?));
        }
        let on_error = if skip { OnError::Skip } else { OnError::Raise };
        let waited = Duration::try_from_secs_f64(waited).unwrap_or_default();
        let add_now = |interrupt| match &self.inner {
            Inner::Table(writer) => {
                let writer = writer.interrupted_by(interrupt);
                let mut rejected = Vec::new();
                for (position, (_, batch)) in batches.iter().enumerate() {
                    let of_part = writer.add_with(batch, on_error, waited)?;
                    rejected.extend(of_part.into_iter().map(|one| (position, one)));
                }
                Ok(rejected)
            }
            Inner::Database(writer) => {
                let borrowed: Vec<(&str, &RecordBatch)> =
                    batches.iter().map(|(table, batch)| (table.as_str(), batch)).collect();
                writer.interrupted_by(interrupt).add_with(&borrowed, on_error, waited)
            }
        };
        let add = |interrupt| {
            let Some(attempt) = attempt else { return add_now(interrupt) };
            let (chunk, attempt) = attempt;
            {
                let mut taken = self.taken.lock();
                if taken.chunk != Some(chunk) {
                    *taken = Taken { chunk: Some(chunk), attempts: HashMap::new() };
                }
                if let Some(rejected) = taken.attempts.get(&attempt) {
                    return Ok(rejected.clone());
                }
            }
            let rejected = add_now(interrupt)?;
            self.taken.lock().attempts.insert(attempt, rejected.clone());
            Ok(rejected)
        };
        let rejected = signals::call(py, add)?;
        Ok(rejected.into_iter().map(|(part, one)| (part, one.row, one.reason)).collect())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        let flush = |interrupt: Interrupt| -> drillcore::Result<Lsn> {
            match &self.inner {
                Inner::Table(writer) => writer.interrupted_by(interrupt).flush(),
                Inner::Database(writer) => writer.interrupted_by(interrupt).flush(),
            }
        };
        Ok(signals::call(py, flush)?.into())
    }

    fn close(&self, py: Python<'_>) -> PyResult<u64> {
        let close = |interrupt: Interrupt| -> drillcore::Result<Lsn> {
            match &self.inner {
                Inner::Table(writer) => writer.interrupted_by(interrupt).close(),
                Inner::Database(writer) => writer.interrupted_by(interrupt).close(),
            }
        };
        Ok(signals::call(py, close)?.into())
    }

    fn stats(&self) -> StatsTuple {
        let stats: AddStats = match &self.inner {
            Inner::Table(writer) => writer.stats(),
            Inner::Database(writer) => writer.stats(),
        };
        let AddStats { rows, commits, failed_rows, waiting_rows, waits, wait, .. } = stats;
        (rows, commits, failed_rows, waiting_rows, waits, wait.as_secs_f64())
    }

    fn take_failed(&self, py: Python<'_>) -> Vec<FailedTuple> {
        let failed = match &self.inner {
            Inner::Table(writer) => writer.take_failed(),
            Inner::Database(writer) => writer.take_failed(),
        };
        let tuple = |FailedRows { table, rows, error, .. }: FailedRows| {
            (table, PyRecordBatch::new(rows), to_python(py, &error).into_value(py).into_any())
        };
        failed.into_iter().map(tuple).collect()
    }
}
