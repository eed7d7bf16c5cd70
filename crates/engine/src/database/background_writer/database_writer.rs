//! Writing rows to several tables in the background, such that they stay in step.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use drillcore_format::ids::Lsn;

use crate::calls::interrupt::Interrupt;
use crate::database::background_writer::add::{Add, Part};
use crate::database::background_writer::failed_rows::FailedRows;
use crate::database::background_writer::row_queue::{AddStats, RowQueue};
use crate::database::background_writer::writer_options::{Limits, WriterOptions};
use crate::database::handles::Database;
use crate::error::{Error, Result};
use crate::schema::conform::{AppendOptions, OnError, Rejected};
use crate::write::commit;

/// A [`TableWriter`](crate::TableWriter) for several tables: the rows of one `add` are in one commit, or none of them is
/// stored.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{TableSpec, WriterOptions};
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
///
/// let db = flights.database();
/// db.create_table("copy", TableSpec::new(batch.schema(), ["id"]))?;
/// let writer = db.writer(WriterOptions::default())?;
/// for row in 0..100 {
///     let row = batch.slice(row, 1);
///     writer.add(&[("flights", &row), ("copy", &row)])?;
/// }
/// writer.close()?;
/// assert_eq!(db.table("copy")?.snapshot()?.rows()?, 100);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct DatabaseWriter {
    database: Database,
    queue: Arc<RowQueue>,
    interrupt: Interrupt,
}

impl Database {
    /// A writer that gathers rows of several tables and commits them in the background.
    ///
    /// # Errors
    /// As [`Table::writer`](crate::Table::writer).
    pub fn writer(&self, options: WriterOptions) -> Result<DatabaseWriter> {
        let core = self.core()?;
        core.check_process()?;
        let limits = Limits::new(&options, &core.options)?;
        self.tables()?;
        let queue = Arc::new(RowQueue::start(self, limits, true)?);
        let database = self.interrupted_by(Interrupt::never());
        Ok(DatabaseWriter { database, queue, interrupt: Interrupt::never() })
    }
}

impl DatabaseWriter {
    /// See [`TableWriter::interrupted_by`](crate::TableWriter::interrupted_by).
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> DatabaseWriter {
        DatabaseWriter { interrupt, ..self.clone() }
    }

    /// Adds rows to tables, all in one commit, with others. If rows do not fit, none is taken; with
    /// [`OnError::Skip`], returns these with the position of their table in `batches`.
    ///
    /// # Errors
    /// As [`TableWriter::add`](crate::TableWriter::add).
    pub fn add(&self, batches: &[(&str, &RecordBatch)]) -> Result<Vec<(usize, Rejected)>> {
        self.add_with(batches, self.queue.limits().on_error, Duration::ZERO)
    }

    /// [`DatabaseWriter::add`] with another [`OnError`], for rows of which the oldest has waited for some time already.
    ///
    /// # Errors
    /// As [`DatabaseWriter::add`].
    pub fn add_with(
        &self,
        batches: &[(&str, &RecordBatch)],
        on_error: OnError,
        waited: Duration,
    ) -> Result<Vec<(usize, Rejected)>> {
        let options = AppendOptions { on_error, fill_nulls: self.queue.limits().fill_nulls };
        let mut parts: Vec<Part> = Vec::with_capacity(batches.len());
        let mut rejected = Vec::new();
        for (position, (name, batch)) in batches.iter().enumerate() {
            let table = self.database.table(name)?;
            if parts.iter().any(|part| part.table.id() == table.id()) {
                return Err(Error::invalid(format!(
                    "table {name:?} is listed twice in one add; give each table one batch"
                )));
            }
            let fitted = commit::fitted(&table.shape()?, batch, options)?;
            rejected.extend(fitted.rejected.into_iter().map(|one| (position, one)));
            parts.push(Part { table, batch: fitted.batch });
        }
        if !rejected.is_empty() {
            let rows: usize = batches.iter().map(|(_, batch)| batch.num_rows()).sum();
            self.queue.note_rejected(rows);
            return Ok(rejected);
        }
        parts.retain(|part| part.batch.num_rows() > 0);
        if !parts.is_empty() {
            self.queue.add(Add { parts, is_gathered: false }, waited, &self.interrupt)?;
        }
        Ok(rejected)
    }

    /// See [`TableWriter::flush`](crate::TableWriter::flush).
    ///
    /// # Errors
    /// See there.
    pub fn flush(&self) -> Result<Lsn> {
        self.queue.flush(&self.interrupt)
    }

    /// See [`TableWriter::close`](crate::TableWriter::close).
    ///
    /// # Errors
    /// See there.
    pub fn close(&self) -> Result<Lsn> {
        self.queue.close(&self.interrupt)
    }

    /// What the writer has done so far.
    pub fn stats(&self) -> AddStats {
        self.queue.stats()
    }

    /// See [`TableWriter::take_failed`](crate::TableWriter::take_failed).
    pub fn take_failed(&self) -> Vec<FailedRows> {
        self.queue.take_failed()
    }
}
