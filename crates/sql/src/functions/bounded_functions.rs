//! Functions whose results can be far larger than their arguments.
//!
//! `repeat(s, 2000000)` over one batch is more than a column of text can hold, and more than a machine has.
//! DataFusion finds out while it makes the result, or not at all. So the bytes of the result are worked out from the
//! arguments first, and a result over the limit is an error of kind `OutOfMemory` before anything is allocated.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int64Type, IntervalMonthDayNanoType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;

/// A column of text or of lists holds no more, as its offsets are 32 bits.
const COLUMN_BYTES_MAX: u64 = i32::MAX as u64;

/// At least the bytes of a result over some rows, from the arguments as columns of as many rows.
type ResultBytes = fn(&[ArrayRef]) -> u64;

fn result_bytes_of(name: &str) -> Option<ResultBytes> {
    Some(match name {
        "repeat" => repeated_bytes,
        "lpad" | "rpad" => padded_bytes,
        "replace" => replaced_bytes,
        "concat" => joined_bytes,
        "concat_ws" => separated_bytes,
        "array_repeat" => |arguments| listed_bytes(arguments, 0),
        "array_resize" => |arguments| listed_bytes(arguments, 2),
        "range" | "generate_series" => series_bytes,
        _ => return None,
    })
}

/// Whether the results of a function can outgrow its arguments.
pub fn is_bounded(name: &str) -> bool {
    result_bytes_of(name).is_some()
}

/// Refuses arguments whose result would take more than `limit_bytes`.
pub fn check_bytes(name: &str, arguments: &ScalarFunctionArgs, limit_bytes: u64) -> Result<()> {
    let Some(result_bytes) = result_bytes_of(name) else { return Ok(()) };
    let limit_bytes = limit_bytes.min(COLUMN_BYTES_MAX);
    // Of arguments that are all constant there is one result, however many rows.
    let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { arguments.number_rows };
    let columns: Vec<ArrayRef> =
        arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<_>>()?;
    let bytes = result_bytes(&columns);
    if bytes <= limit_bytes {
        return Ok(());
    }
    let message = format!(
        "{name} over {rows} rows needs {bytes} bytes; the limit per column of a batch is {limit_bytes}. Select shorter \
         values or fewer rows"
    );
    Err(to_datafusion(Error::new(ErrorKind::OutOfMemory, message)))
}

/// The bytes of each text; nulls and other types have none.
fn text_lens(column: &ArrayRef) -> Vec<u64> {
    fn lens<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Vec<u64> {
        texts.map(|text| text.map_or(0, |text| text.len() as u64)).collect()
    }
    match column.data_type() {
        DataType::Utf8 => lens(column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => lens(column.as_string::<i64>().iter()),
        DataType::Utf8View => lens(column.as_string_view().iter()),
        _ => vec![0; column.len()],
    }
}

/// The counts of a column of whole numbers; nulls and negative ones are 0.
fn counts(column: &ArrayRef) -> Vec<u64> {
    match column.as_primitive_opt::<Int64Type>() {
        Some(counts) => counts
            .iter()
            .map(|count| count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
            .collect(),
        None => vec![0; column.len()],
    }
}

fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

fn repeated_bytes(arguments: &[ArrayRef]) -> u64 {
    let [text, times] = arguments else { return 0 };
    sum(text_lens(text).into_iter().zip(counts(times)).map(|(len, n)| len.saturating_mul(n)))
}

/// Padding counts characters, of up to four bytes.
fn padded_bytes(arguments: &[ArrayRef]) -> u64 {
    let (text, chars) = (&arguments[0], &arguments[1]);
    let is_ascii = arguments.get(2).is_none_or(|fill| match fill.data_type() {
        DataType::Utf8 => fill.as_string::<i32>().is_ascii(),
        DataType::LargeUtf8 => fill.as_string::<i64>().is_ascii(),
        DataType::Utf8View => fill.as_string_view().is_ascii(),
        _ => true,
    });
    let char_bytes = if is_ascii { 1 } else { 4 };
    let padded = |(len, chars): (u64, u64)| len.saturating_add(chars.saturating_mul(char_bytes));
    sum(text_lens(text).into_iter().zip(counts(chars)).map(padded))
}

/// Texts are searched only where what is put in is longer than what it replaces.
fn replaced_bytes(arguments: &[ArrayRef]) -> u64 {
    let [text, from, to] = arguments else { return 0 };
    let lens = text_lens(text).into_iter().zip(text_lens(from)).zip(text_lens(to));
    sum(lens.enumerate().map(|(row, ((text_len, from_len), to_len))| {
        if to_len <= from_len {
            return text_len;
        }
        let found = match (text_at(text, row), text_at(from, row)) {
            (Some(text), Some(from)) => text.matches(from).count() as u64,
            _ => 0,
        };
        text_len.saturating_add(found.saturating_mul(to_len))
    }))
}

fn text_at(column: &ArrayRef, row: usize) -> Option<&str> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        _ => None,
    }
}

fn joined_bytes(arguments: &[ArrayRef]) -> u64 {
    sum(arguments.iter().flat_map(text_lens))
}

/// The first argument stands between any two others.
fn separated_bytes(arguments: &[ArrayRef]) -> u64 {
    let Some((separator, texts)) = arguments.split_first() else { return 0 };
    let separators = sum(text_lens(separator).into_iter()).saturating_mul(texts.len() as u64);
    joined_bytes(texts).saturating_add(separators)
}

/// Lists of as many elements as the second argument says.
fn listed_bytes(arguments: &[ArrayRef], element: usize) -> u64 {
    let element_bytes = arguments.get(element).map_or(0, |column| {
        let rows = column.len().max(1) as u64;
        (column.get_array_memory_size() as u64).div_ceil(rows)
    });
    sum(counts(&arguments[1]).into_iter()).saturating_mul(element_bytes.max(8))
}

/// Lists of numbers, days or times in steps.
fn series_bytes(arguments: &[ArrayRef]) -> u64 {
    const NANOSECONDS_OF_DAY: i128 = 86_400_000_000_000;
    let rows = arguments[0].len();
    // `None` stands for a null, of which comes nothing.
    let values = |column: &ArrayRef| -> Vec<Option<i128>> {
        match column.data_type() {
            DataType::Int64 => {
                column.as_primitive::<Int64Type>().iter().map(|v| v.map(i128::from)).collect()
            }
            DataType::Date32 => {
                let days = column.as_primitive::<Date32Type>();
                days.iter().map(|v| v.map(|v| i128::from(v) * NANOSECONDS_OF_DAY)).collect()
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let times = column.as_primitive::<TimestampNanosecondType>();
                times.iter().map(|v| v.map(i128::from)).collect()
            }
            DataType::Interval(_) => {
                let steps = column.as_primitive_opt::<IntervalMonthDayNanoType>();
                let shortest = |step: arrow_array::types::IntervalMonthDayNano| {
                    let days = i128::from(step.months) * 28 + i128::from(step.days);
                    days * NANOSECONDS_OF_DAY + i128::from(step.nanoseconds)
                };
                match steps {
                    Some(steps) => steps.iter().map(|v| v.map(shortest)).collect(),
                    None => vec![None; column.len()],
                }
            }
            _ => vec![None; column.len()],
        }
    };
    let (starts, stops) = match arguments {
        [stop] => (vec![Some(0); rows], values(stop)),
        [start, stop, ..] => (values(start), values(stop)),
        [] => return 0,
    };
    let steps = arguments.get(2).map_or(vec![Some(1); rows], values);
    let steps_between = |((start, stop), step): ((Option<i128>, Option<i128>), Option<i128>)| {
        let (Some(start), Some(stop), Some(step)) = (start, stop, step) else { return 0 };
        let is_empty = step == 0 || (stop > start) != (step > 0);
        if is_empty { 1 } else { u64::try_from((stop - start) / step + 1).unwrap_or(u64::MAX) }
    };
    sum(starts.into_iter().zip(stops).zip(steps).map(steps_between)).saturating_mul(8)
}
