//! Arguments that a function of DataFusion 55.2 panics at though it has a result for them, changed to others of the
//! same result.
//!
//! `lpad` and `rpad` reserve the bytes of a negative length, and `date_trunc` computes with what stands in the place of
//! a null, which is the lowest time of all in the maximum of no times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

/// Whether arguments of a function are looked at.
pub fn is_with_plain_arguments(name: &str) -> bool {
    matches!(name, "lpad" | "rpad" | "date_trunc")
}

/// Changes such arguments.
pub fn with_plain_arguments(name: &str, arguments: &mut [ColumnarValue]) -> Result<()> {
    let [_, ColumnarValue::Array(second), ..] = arguments else { return Ok(()) };
    match (name, second.data_type()) {
        // A text of negative length is empty.
        ("lpad" | "rpad", DataType::Int64) => {
            let lengths = second.as_primitive::<Int64Type>();
            *second = Arc::new(lengths.unary::<_, Int64Type>(|length| length.max(0)));
        }
        ("date_trunc", DataType::Timestamp(..)) if second.null_count() > 0 => {
            *second = with_zero_nulls(second)?;
        }
        _ => {}
    }
    Ok(())
}

/// The same times, where what stands in the place of a null is zero.
fn with_zero_nulls(times: &ArrayRef) -> Result<ArrayRef> {
    let ticks = cast(times, &DataType::Int64)?;
    let ticks: Int64Array = ticks.as_primitive::<Int64Type>().iter().collect();
    Ok(cast(&ticks, times.data_type())?)
}
