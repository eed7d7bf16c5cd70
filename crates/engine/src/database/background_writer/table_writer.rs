//! Writing rows to one table in the background.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use drillcore_format::ids::Lsn;

use crate::calls::interrupt::Interrupt;
use crate::database::background_writer::add::{Add, Part};
use crate::database::background_writer::failed_rows::FailedRows;
use crate::database::background_writer::row_queue::{AddStats, RowQueue};
use crate::database::background_writer::writer_options::{Limits, WriterOptions};
use crate::database::handles::Table;
use crate::error::Result;
use crate::schema::conform::{AppendOptions, OnError, Rejected};
use crate::write::commit;

/// Gathers rows, however few come at once, and commits them in larger batches in the background. Any number of threads
/// may add; clones share the writer.
///
/// Rows are committed once enough are there or the oldest has waited long enough, as [`WriterOptions`] say. Dropping the
/// last clone commits what was added, but reports no error: close the writer instead.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::WriterOptions;
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
///
/// let writer = flights.writer(WriterOptions::default())?;
/// for row in 0..100 {
///     writer.add(&batch.slice(row, 1))?;
/// }
/// let lsn = writer.flush()?; // or writer.close()
/// assert!(flights.snapshot()?.lsn() >= lsn);
/// assert_eq!(flights.snapshot()?.rows()?, 200);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct TableWriter {
    table: Table,
    queue: Arc<RowQueue>,
    interrupt: Interrupt,
}

impl Table {
    /// A writer that gathers rows and commits them in the background.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit of 0, `ReadOnly`, `Closed`, `NotFound` if the table was dropped, `Io` if no thread can
    /// be started.
    pub fn writer(&self, options: WriterOptions) -> Result<TableWriter> {
        let core = self.database().core()?;
        core.check_process()?;
        let limits = Limits::new(&options, &core.options)?;
        self.shape()?;
        let queue = Arc::new(RowQueue::start(self.database(), limits, false)?);
        // The thread that commits has no caller to interrupt it.
        let table = self.interrupted_by(Interrupt::never());
        Ok(TableWriter { table, queue, interrupt: Interrupt::never() })
    }
}

impl TableWriter {
    /// The same writer, through a handle whose calls end early once `interrupt` says stop: see
    /// [`Database::interrupted_by`](crate::Database::interrupted_by). A call that ended early has added no row; a close
    /// goes on in the background.
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> TableWriter {
        TableWriter { interrupt, ..self.clone() }
    }

    /// Adds the rows of a batch, which become visible in one commit, with others. Waits while two batches are full: the one
    /// that is being committed and the next. With [`OnError::Skip`], returns the rows that do not fit and
    /// takes the others. What rows of a table that discovers columns hold is looked at when they are committed.
    ///
    /// # Errors
    /// `InvalidArgument` and `NotFound` for a batch that does not fit, as [`Table::append`]. The error of an earlier
    /// commit, once: [`TableWriter::take_failed`] has its rows. `Closed`, `ReadOnly`. No row of this call is taken.
    pub fn add(&self, batch: &RecordBatch) -> Result<Vec<Rejected>> {
        self.add_with(batch, self.queue.limits().on_error, Duration::ZERO)
    }

    /// [`TableWriter::add`] with another [`OnError`], for rows of which the oldest has waited for some time already.
    ///
    /// # Errors
    /// As [`TableWriter::add`].
    pub fn add_with(
        &self,
        batch: &RecordBatch,
        on_error: OnError,
        waited: Duration,
    ) -> Result<Vec<Rejected>> {
        let options = AppendOptions { on_error, fill_nulls: self.queue.limits().fill_nulls };
        let fitted = commit::fitted(&self.table.shape()?, batch, options)?;
        if fitted.batch.num_rows() > 0 {
            let part = Part { table: self.table.clone(), batch: fitted.batch };
            self.queue.add(
                Add { parts: vec![part], is_gathered: false },
                waited,
                &self.interrupt,
            )?;
        }
        self.queue.note_rejected(fitted.rejected.len());
        Ok(fitted.rejected)
    }

    /// Waits until all rows added before are committed, and returns the newest commit of this writer (without one, the newest
    /// visible one).
    ///
    /// # Errors
    /// Why rows added before could not be stored, unless another call reported that; `ReadOnly` in a fork.
    pub fn flush(&self) -> Result<Lsn> {
        self.queue.flush(&self.interrupt)
    }

    /// Commits all rows added before and ends the writer. A second call does nothing.
    ///
    /// # Errors
    /// As [`TableWriter::flush`]. The writer is closed all the same.
    pub fn close(&self) -> Result<Lsn> {
        self.queue.close(&self.interrupt)
    }

    /// What the writer has done so far.
    pub fn stats(&self) -> AddStats {
        self.queue.stats()
    }

    /// The rows that could not be stored, in the order that they were added. The writer forgets them. It keeps up to twice as
    /// many as a commit has, and those of one more failure; further ones are only counted.
    pub fn take_failed(&self) -> Vec<FailedRows> {
        self.queue.take_failed()
    }
}
