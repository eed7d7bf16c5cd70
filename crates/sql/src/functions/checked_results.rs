//! Functions that give a wrong value, or none, where the right one cannot be computed or does not fit.
//!
//! In DataFusion 55.2, `date_bin` gives null for times out of the range of nanoseconds; `round` and `trunc` multiply a float by
//! a power of ten, which may be infinite, or zero; `to_timestamp` takes a float beyond its range for the last time in it; and
//! `array_resize` calls a negative size an internal error.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Float64Array};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;

/// Whether results of a function are looked at.
pub fn is_checked(name: &str) -> bool {
    matches!(name, "date_bin" | "round" | "trunc" | "to_timestamp" | "array_resize")
}

/// Refuses arguments of which something else would be computed.
pub fn check_arguments(name: &str, arguments: &[ColumnarValue]) -> Result<()> {
    match (name, arguments) {
        ("to_timestamp", [seconds, ..]) if seconds.data_type().is_floating() => {
            check_seconds(seconds)
        }
        ("array_resize", [_, size, ..]) => check_size(size),
        _ => Ok(()),
    }
}

/// The result of a function for some arguments, if it is right, or as it should be.
pub fn checked(
    name: &str,
    arguments: &[ColumnarValue],
    rows: usize,
    result: ColumnarValue,
) -> Result<ColumnarValue> {
    match (name, arguments) {
        ("date_bin", [stride, times, ..]) => {
            let loses_times = nulls(&result) > nulls(times) && nulls(stride) == 0;
            match loses_times {
                true => Err(beyond_nanoseconds(name)),
                false => Ok(result),
            }
        }
        ("round" | "trunc", [values, places]) if result.data_type().is_floating() => {
            rounded(values, places, rows, result)
        }
        _ => Ok(result),
    }
}

fn nulls(value: &ColumnarValue) -> usize {
    match value {
        ColumnarValue::Scalar(scalar) => usize::from(scalar.is_null()),
        ColumnarValue::Array(array) => array.null_count(),
    }
}

fn beyond_nanoseconds(function: &str) -> DataFusionError {
    let message = format!(
        "{function} computes in nanoseconds, which reach from 1677-09-21 to 2262-04-11, and here a time is beyond; keep \
         such values from it, as in case when ... then {function}(...) end"
    );
    to_datafusion(Error::new(ErrorKind::OutOfRange, message))
}

fn check_seconds(seconds: &ColumnarValue) -> Result<()> {
    const NANOSECONDS: f64 = 1e9;
    let seconds = cast(&seconds.to_array(1)?, &DataType::Float64)?;
    let fits = |seconds: f64| (seconds * NANOSECONDS).abs() < i64::MAX as f64;
    match seconds.as_primitive::<Float64Type>().iter().flatten().all(fits) {
        true => Ok(()),
        false => Err(beyond_nanoseconds("to_timestamp")),
    }
}

fn check_size(size: &ColumnarValue) -> Result<()> {
    let sizes = cast(&size.to_array(1)?, &DataType::Int64)?;
    match sizes.as_primitive::<Int64Type>().iter().flatten().find(|&size| size < 0) {
        None => Ok(()),
        Some(size) => {
            let message = format!("array_resize needs a size of at least 0, got {size}");
            Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)))
        }
    }
}

/// Floats rounded to a number of places behind the point, or before it if that is negative.
fn rounded(
    values: &ColumnarValue,
    places: &ColumnarValue,
    rows: usize,
    result: ColumnarValue,
) -> Result<ColumnarValue> {
    let floats = |value: &ColumnarValue| {
        cast(&value.to_array(rows)?, &DataType::Float64).map_err(DataFusionError::from)
    };
    let (given, found) = (floats(values)?, floats(&result)?);
    let (given, found) = (given.as_primitive::<Float64Type>(), found.as_primitive::<Float64Type>());
    if found.values().iter().all(|float| float.is_finite()) {
        return Ok(result);
    }
    let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
    let places = places.as_primitive::<Int64Type>();
    let right = |row: usize| -> Option<f64> {
        let (float, place) = (given.value(row), places.value(row));
        (!found.is_null(row)).then(|| match found.value(row) {
            found if found.is_finite() => found,
            _ if !float.is_finite() => float,
            // None has digits where the power of ten is infinite with it, but for the smallest.
            _ if place >= 0 => float,
            // None has digits as far before the point.
            found if found.is_nan() => 0.0,
            found => found,
        })
    };
    let right: Float64Array = (0..found.len()).map(right).collect();
    let right = cast(&right, &result.data_type())?;
    Ok(match result {
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&right, 0)?),
        ColumnarValue::Array(_) => ColumnarValue::Array(right),
    })
}
