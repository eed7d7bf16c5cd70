//! Weights: what a row counts for in a draw by weight.
//!
//! Integers count as they are. Floats are counted in steps of 2⁻³², so that sums of weights are exact
//! integers and draws are exactly proportional; a weight is off by at most 2⁻³³.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// Units in a float weight of one.
pub const FLOAT_STEPS: f64 = (1u64 << 32) as f64;

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

/// A number that can be a weight.
pub(crate) trait Weight: Copy {
    /// How many units it is.
    fn units(self) -> Result<u64, NoWeight>;
}

macro_rules! integer_weights {
    ($($native:ty),*) => {$(
        impl Weight for $native {
            #[inline]
            fn units(self) -> Result<u64, NoWeight> {
                u64::try_from(self).map_err(|_| NoWeight::Negative)
            }
        }
    )*};
}

integer_weights!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Weight for f32 {
    #[inline]
    fn units(self) -> Result<u64, NoWeight> {
        f64::from(self).units()
    }
}

impl Weight for f64 {
    #[inline]
    fn units(self) -> Result<u64, NoWeight> {
        if !self.is_finite() {
            return Err(NoWeight::NotFinite);
        }
        if self < 0.0 {
            return Err(NoWeight::Negative);
        }
        // Exact: the factor is a power of two. What follows rounds halves up without a call of a library.
        let steps = self * FLOAT_STEPS;
        let whole = steps as u64;
        let units = whole.saturating_add(u64::from(steps - whole as f64 >= 0.5));
        if steps >= u64::MAX as f64 { Err(NoWeight::TooLarge) } else { Ok(units) }
    }
}

/// Evaluates an expression with a name for the Arrow type of a weight column.
macro_rules! with_weight_type {
    ($data_type:expr, $Type:ident => $body:expr) => {{
        use arrow_array::types as t;
        use arrow_schema::DataType as D;
        macro_rules! with_type {
            ($type:ty) => {{
                type $Type = $type;
                $body
            }};
        }
        match $data_type {
            D::Int8 => with_type!(t::Int8Type),
            D::Int16 => with_type!(t::Int16Type),
            D::Int32 => with_type!(t::Int32Type),
            D::Int64 => with_type!(t::Int64Type),
            D::UInt8 => with_type!(t::UInt8Type),
            D::UInt16 => with_type!(t::UInt16Type),
            D::UInt32 => with_type!(t::UInt32Type),
            D::UInt64 => with_type!(t::UInt64Type),
            D::Float32 => with_type!(t::Float32Type),
            D::Float64 => with_type!(t::Float64Type),
            other => unreachable!("{other} was refused as a weight when the table was made"),
        }
    }};
}
pub(crate) use with_weight_type;

/// Each row's weight in units, or the first row that has none. The type is a weight type.
pub fn units(values: &ArrayRef) -> Result<Vec<u64>, (usize, NoWeight)> {
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        let row = (0..nulls.len()).find(|&row| nulls.is_null(row));
        return Err((row.expect("some are null"), NoWeight::Null));
    }
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>().values().iter().enumerate();
        values.map(|(row, value)| value.units().map_err(|why| (row, why))).collect()
    })
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
        // Halves of a step, and those next to one, are rounded as by the library.
        let steps = [0.5, 0.499_999_999_999_999_94, 1.5, 2.5, 4503599627370495.5, 9.3e18];
        let rounded = steps.iter().map(|steps: &f64| steps.round() as u64).collect();
        let floats: ArrayRef =
            Arc::new(Float64Array::from_iter_values(steps.map(|s| s / FLOAT_STEPS)));
        assert_eq!(units(&floats), Ok(rounded));
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
