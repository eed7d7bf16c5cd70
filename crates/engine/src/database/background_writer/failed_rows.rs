//! Rows that were added and could not be stored.

use arrow_array::RecordBatch;

use crate::error::Error;

/// Rows that a writer took and could not store: see [`TableWriter::take_failed`](crate::TableWriter::take_failed).
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{ErrorKind, WriterOptions};
///
/// let db = flights.database();
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// let writer = flights.writer(WriterOptions { seconds: 3600.0, ..WriterOptions::default() })?;
/// writer.add(&batch)?;
/// db.close()?;
/// assert_eq!(writer.close().unwrap_err().kind(), ErrorKind::Closed);
/// let failed = writer.take_failed();
/// assert_eq!((failed[0].table.as_str(), failed[0].rows.num_rows()), ("flights", 100));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedRows {
    /// The table that they were meant for.
    pub table: String,
    /// The rows.
    pub rows: RecordBatch,
    /// Why they were not stored.
    pub error: Error,
}
