//! How a rollup table folds events into rows.

use arrow_schema::{DataType, Field, SchemaRef};

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;
use crate::schema::columns::{put_columns, read_columns};

/// How events are folded into rows: by time and dimensions, which are the key, into metrics, which are
/// the columns behind the key's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// The columns of an appended batch.
    pub events: SchemaRef,
    /// Position in the key of the column that is truncated.
    pub time: Option<usize>,
    /// The step of the time column.
    pub granularity: StoredGranularity,
    /// One per column that is not in the key, in their order.
    pub metrics: Vec<StoredMetric>,
    /// How many of the key's columns every batch must have. Those behind were added to the table, or found
    /// in batches, and are null where a batch lacks them.
    pub declared: usize,
    /// Whether a column that the events lack becomes a dimension.
    pub discovers: bool,
}

/// What a metric is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredMetric {
    /// How the events' values are folded.
    pub kind: MetricKind,
    /// Index among the columns of the events; a count has none.
    pub input: Option<usize>,
}

/// How the values of many events become one. All but the count leave nulls out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// How many events there were, whatever their values.
    Count,
    /// Their sum, exact for integers.
    Sum,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
    /// Their mean. Stored are sum and count, so that rows can be folded further.
    Avg,
}

/// The steps to which time is truncated, counted from 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredGranularity {
    /// Times stay as they are.
    None,
    /// Times are truncated to a multiple of this number of seconds.
    Seconds(u32),
}

impl MetricKind {
    /// The type in which a metric of a column is shown, and whether it may be null; `None` if there is no such
    /// metric of that column, or of none.
    pub fn shown(self, input: Option<&Field>) -> Option<(DataType, bool)> {
        let Some(input) = input else {
            return (self == MetricKind::Count).then_some((DataType::Int64, false));
        };
        let shown = match input.data_type() {
            _ if self == MetricKind::Count => return None,
            DataType::UInt64 => return None,
            integer if integer.is_integer() && self != MetricKind::Avg => DataType::Int64,
            number if number.is_integer() || number.is_floating() => DataType::Float64,
            _ => return None,
        };
        Some((shown, input.is_nullable()))
    }
}

impl StoredMetric {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        put_varint(out, self.input.map_or(0, |column| column as u64 + 1));
    }

    /// Reads what [`StoredMetric::encode`] wrote. Fails on an input beyond the `columns` columns of the events.
    pub(super) fn decode(cursor: &mut Cursor<'_>, columns: usize) -> Result<StoredMetric> {
        let kind = match cursor.u8()? {
            0 => MetricKind::Count,
            1 => MetricKind::Sum,
            2 => MetricKind::Min,
            3 => MetricKind::Max,
            4 => MetricKind::Avg,
            other => return Err(cursor.error(format!("unknown metric {other}"))),
        };
        let input = cursor.varint()?.checked_sub(1).map(|column| column as usize);
        if input.is_some_and(|column| column >= columns) {
            return Err(cursor.error("a metric of a column that is none"));
        }
        if input.is_none() && kind != MetricKind::Count {
            return Err(cursor.error("a metric that needs a column has none"));
        }
        Ok(StoredMetric { kind, input })
    }
}

impl Rollup {
    /// Whether a metric is made of a column of the events.
    pub fn is_input(&self, column: usize) -> bool {
        self.metrics.iter().any(|metric| metric.input == Some(column))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_columns(&self.events, out);
        put_varint(out, self.time.map_or(0, |position| position as u64 + 1));
        put_varint(
            out,
            match self.granularity {
                StoredGranularity::None => 0,
                StoredGranularity::Seconds(seconds) => u64::from(seconds),
            },
        );
        put_varint(out, self.metrics.len() as u64);
        self.metrics.iter().for_each(|metric| metric.encode(out));
        put_varint(out, self.declared as u64);
        out.push(u8::from(self.discovers));
    }

    /// Reads what [`Rollup::encode`] wrote. `key_columns` is the number of columns in the key of the table.
    pub(super) fn decode(cursor: &mut Cursor<'_>, key_columns: usize) -> Result<Rollup> {
        let events = read_columns(cursor)?;
        let position = |number: u64| number.checked_sub(1).map(|position| position as usize);
        let time = position(cursor.varint()?);
        let granularity = match cursor.varint()? {
            0 => StoredGranularity::None,
            seconds => StoredGranularity::Seconds(
                u32::try_from(seconds).map_err(|_| cursor.error("a granularity is too long"))?,
            ),
        };
        let mut metrics = Vec::new();
        for _ in 0..cursor.varint()? {
            metrics.push(StoredMetric::decode(cursor, events.fields().len())?);
        }
        let declared = match usize::try_from(cursor.varint()?) {
            Ok(declared) if declared <= key_columns => declared,
            _ => return Err(cursor.error("more columns are declared than the key has")),
        };
        let discovers = cursor.u8()? != 0;
        Ok(Rollup { events, time, granularity, metrics, declared, discovers })
    }
}
