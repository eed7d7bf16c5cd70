//! Weights: what a row counts for in a draw by weight.
//!
//! Integers count as they are. Floats are counted in steps of 2⁻³², so that sums of weights are exact
//! integers and draws are exactly proportional; a weight is off by at most 2⁻³³.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// Steps in a float weight of one.
const STEPS: f64 = (1u64 << 32) as f64;

/// Why a value is no weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWeight {
    Null,
    Negative,
    NotFinite,
    /// A float of 2³² or more.
    TooLarge,
}

/// Whether a column of this type can be a weight.
pub fn is_weight_type(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Each row's weight in units, or the first row that has none. The type is a weight type.
pub fn units(values: &ArrayRef) -> Result<Vec<u64>, (usize, NoWeight)> {
    macro_rules! integers {
        ($type:ty) => {
            units_of(values, values.as_primitive::<$type>().values(), |value| {
                u64::try_from(value).map_err(|_| NoWeight::Negative)
            })
        };
    }
    match values.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>().values();
            units_of(values, floats, |value| float_units(f64::from(value)))
        }
        DataType::Float64 => {
            units_of(values, values.as_primitive::<Float64Type>().values(), float_units)
        }
        other => unreachable!("{other} was refused as a weight when the table was made"),
    }
}

/// Each stored row's weight in units; the tombstones among them, which are null, weigh nothing.
pub fn stored_units(values: &ArrayRef) -> Result<Vec<u64>, (usize, NoWeight)> {
    if values.null_count() == 0 {
        return units(values);
    }
    (0..values.len())
        .map(|row| match values.is_null(row) {
            true => Ok(0),
            false => units(&values.slice(row, 1)).map(|one| one[0]).map_err(|(_, why)| (row, why)),
        })
        .collect()
}

fn units_of<T: Copy>(
    array: &ArrayRef,
    values: &[T],
    unit: impl Fn(T) -> Result<u64, NoWeight>,
) -> Result<Vec<u64>, (usize, NoWeight)> {
    let null = array.nulls().and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row)));
    if let Some(row) = null {
        return Err((row, NoWeight::Null));
    }
    values.iter().enumerate().map(|(row, &value)| unit(value).map_err(|why| (row, why))).collect()
}

fn float_units(value: f64) -> Result<u64, NoWeight> {
    let units = (value * STEPS).round();
    match value {
        value if !value.is_finite() => Err(NoWeight::NotFinite),
        value if value < 0.0 => Err(NoWeight::Negative),
        _ if units >= u64::MAX as f64 => Err(NoWeight::TooLarge),
        _ => Ok(units as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int32Array};
    use std::sync::Arc;

    #[test]
    fn integers_count_as_they_are_and_floats_in_fixed_steps() {
        let integers: ArrayRef = Arc::new(Int32Array::from(vec![0, 7]));
        assert_eq!(units(&integers), Ok(vec![0, 7]));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.5, 1e-12, 4e9]));
        assert_eq!(units(&floats), Ok(vec![0, 1 << 31, 0, 4_000_000_000 << 32]));
    }

    #[test]
    fn what_is_no_weight_is_named_by_row() {
        let refused = |values: Vec<Option<f64>>| {
            units(&(Arc::new(Float64Array::from(values)) as ArrayRef)).unwrap_err()
        };
        assert_eq!(refused(vec![Some(1.0), None]), (1, NoWeight::Null));
        assert_eq!(refused(vec![Some(-0.1)]), (0, NoWeight::Negative));
        assert_eq!(refused(vec![Some(f64::NAN)]), (0, NoWeight::NotFinite));
        assert_eq!(refused(vec![Some(f64::INFINITY)]), (0, NoWeight::NotFinite));
        assert_eq!(refused(vec![Some(4_294_967_296.0)]), (0, NoWeight::TooLarge));
    }
}
