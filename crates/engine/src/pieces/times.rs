//! Times that say when rows expire, as numbers.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use drillcore_format::key::{Keys, decode_column};
use drillcore_format::rows::Layout;

use crate::error::Result;

/// The times of an array of timestamps or dates, in its unit; null where there is none.
pub fn times(values: &ArrayRef) -> Int64Array {
    let plain = arrow_cast::cast(values, &DataType::Int64).expect("times are integers");
    plain.as_primitive::<Int64Type>().clone()
}

/// The time that a key begins with; `None` if that is null.
pub fn first_time(layout: &Layout, key: &[u8]) -> Result<Option<i64>> {
    let key = Keys::from_iter([key]);
    let times = times(&decode_column(&key, layout.key_types(), 0)?);
    Ok(times.is_valid(0).then(|| times.value(0)))
}
