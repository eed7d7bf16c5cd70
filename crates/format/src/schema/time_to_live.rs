//! How long rows of a table are kept.

use arrow_schema::DataType;

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;

/// Rows expire some time after the one that a column has; rows without one never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive {
    /// Index of a timestamp or a date among the table's columns.
    pub column: usize,
    /// How long after it, at least 1.
    pub seconds: u64,
}

/// Whether columns of a type say when rows expire.
pub fn is_time_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32)
}

impl TimeToLive {
    /// The longest: it fits a number of nanoseconds.
    pub const SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

    /// Appends the encoding drawn in `docs/format.md`, section "Table schema".
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.column as u64);
        put_varint(out, self.seconds);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<TimeToLive> {
        let end = usize::MAX as u64;
        let column = cursor.varint_below("column with a time to live", end)? as usize;
        let seconds = cursor.varint_below("time to live", TimeToLive::SECONDS_MAX + 1)?;
        Ok(TimeToLive { column, seconds })
    }
}
