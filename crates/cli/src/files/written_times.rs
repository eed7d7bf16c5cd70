//! Times on their way into text, so that the text says just them.
//!
//! The calendar of Arrow ends before 64-bit numbers do: for a time beyond it, its writers put the message of an error where the
//! value belongs. And text has offsets from UTC in whole minutes, while clocks in named zones were off by seconds, too, before
//! standard time came: the last in 1972.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, Schema, TimeUnit};

/// 262,142 years before and after the year 0, in seconds since 1970: a little less than what the calendar has.
const SECONDS: std::ops::RangeInclusive<i64> = -8_334_500_000_000..=8_210_200_000_000;
const SECONDS_OF_DAY: i64 = 86_400;
/// From here on every clock is off by whole minutes: behind 7 January 1972.
const WHOLE_MINUTES_FROM: i64 = 64_000_000;

/// The batch with those columns in UTC whose times would be others if they were read back from text with offsets.
///
/// # Errors
/// A time that has no text, with its column.
pub fn written_times(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema_ref();
    let mut in_utc = Vec::new();
    for (number, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
        if let Some(time) = beyond_the_calendar(column) {
            return Err(ArrowError::InvalidArgumentError(format!(
                "column {:?} has the time {time} ({}), which lies beyond the years that text can have; leave the row out, or \
                 export to Parquet or Arrow",
                field.name(),
                field.data_type(),
            )));
        }
        if let Some(column) = if_shifted(column)? {
            in_utc.push((number, column));
        }
    }
    if in_utc.is_empty() {
        return Ok(batch);
    }
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    for (number, column) in in_utc {
        let field = fields[number].as_ref().clone().with_data_type(column.data_type().clone());
        (fields[number], columns[number]) = (Arc::new(field), column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn beyond_the_calendar(column: &ArrayRef) -> Option<i64> {
    match column.data_type() {
        DataType::Date32 => {
            let days: &PrimitiveArray<Date32Type> = column.as_primitive();
            let is_beyond = |&day: &i32| !SECONDS.contains(&(i64::from(day) * SECONDS_OF_DAY));
            days.iter().flatten().find(is_beyond).map(i64::from)
        }
        DataType::Timestamp(unit, _) => {
            let per_second = per_second(*unit);
            first(column, *unit, |time| !SECONDS.contains(&(time / per_second)))
        }
        DataType::List(_) => beyond_the_calendar(column.as_list::<i32>().values()),
        _ => None,
    }
}

/// The column in UTC, if text with offsets in whole minutes has other times.
fn if_shifted(column: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let DataType::Timestamp(unit, Some(_)) = column.data_type() else { return Ok(None) };
    let until = WHOLE_MINUTES_FROM * per_second(*unit);
    if first(column, *unit, |time| time < until).is_none() {
        return Ok(None);
    }
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    let text = cast_with_options(column, &DataType::Utf8, &exactly)?;
    // A text that cannot be read is another time, too.
    let again = cast(&text, column.data_type())?;
    if again.to_data() == column.to_data() {
        return Ok(None);
    }
    cast(column, &DataType::Timestamp(*unit, Some("+00:00".into()))).map(Some)
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The first time of a column that is not null and for which something holds.
fn first(column: &ArrayRef, unit: TimeUnit, holds: impl Fn(i64) -> bool) -> Option<i64> {
    fn of<T: ArrowPrimitiveType<Native = i64>>(
        column: &ArrayRef,
        holds: impl Fn(i64) -> bool,
    ) -> Option<i64> {
        let times: &PrimitiveArray<T> = column.as_primitive();
        // Quickly, where it holds for none.
        let any = times.values().iter().any(|&time| holds(time));
        any.then(|| times.iter().flatten().find(|&time| holds(time)))?
    }
    match unit {
        TimeUnit::Second => of::<TimestampSecondType>(column, holds),
        TimeUnit::Millisecond => of::<TimestampMillisecondType>(column, holds),
        TimeUnit::Microsecond => of::<TimestampMicrosecondType>(column, holds),
        TimeUnit::Nanosecond => of::<TimestampNanosecondType>(column, holds),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Date32Array, TimestampMicrosecondArray, TimestampSecondArray};

    use super::*;

    fn batch(column: impl Array + 'static) -> RecordBatch {
        RecordBatch::try_from_iter([("at", Arc::new(column) as ArrayRef)]).unwrap()
    }

    #[test]
    fn times_beyond_the_calendar_are_an_error_that_names_the_column() {
        let far = batch(TimestampMicrosecondArray::from(vec![Some(0), None, Some(i64::MAX)]));
        let error = written_times(far).unwrap_err().to_string();
        assert!(error.contains("column \"at\" has the time 9223372036854775807"), "{error}");
        assert!(written_times(batch(Date32Array::from(vec![i32::MIN]))).is_err());
        for edge in [*SECONDS.start(), *SECONDS.end()] {
            let edge: ArrayRef = Arc::new(TimestampSecondArray::from(vec![edge]));
            assert!(cast(&edge, &DataType::Utf8).unwrap().is_valid(0), "{edge:?} has a text");
        }
    }

    #[test]
    fn times_whose_clock_was_off_by_seconds_are_written_in_utc() {
        let of = |time: i64, zone: &str| {
            batch(TimestampSecondArray::from(vec![Some(time), None]).with_timezone(zone))
        };
        for (time, zone) in [(13_046_400, "Africa/Monrovia"), (-3_142_627_200, "America/New_York")]
        {
            let written = written_times(of(time, zone)).unwrap();
            let text = cast(written.column(0), &DataType::Utf8).unwrap();
            let again = cast(&text, &DataType::Timestamp(TimeUnit::Second, Some("UTC".into())));
            assert_eq!(again.unwrap().as_primitive::<TimestampSecondType>().value(0), time);
        }
        for (time, zone) in [(-86_400, "America/New_York"), (13_046_400, "UTC"), (0, "+05:30")] {
            assert_eq!(written_times(of(time, zone)).unwrap(), of(time, zone));
        }
    }
}
