//! Numbers in a wider type, which holds every value of the narrower one.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, new_null_array};
use arrow_schema::DataType;

/// Whether one type holds every value of another one, and is a wider one of the same kind.
pub fn is_wider(from: &DataType, to: &DataType) -> bool {
    let rank = |of: &DataType| match of {
        DataType::Int8 => Some((0, 1)),
        DataType::Int16 => Some((0, 2)),
        DataType::Int32 => Some((0, 4)),
        DataType::Int64 => Some((0, 8)),
        DataType::UInt8 => Some((1, 1)),
        DataType::UInt16 => Some((1, 2)),
        DataType::UInt32 => Some((1, 4)),
        DataType::UInt64 => Some((1, 8)),
        DataType::Float32 => Some((2, 4)),
        DataType::Float64 => Some((2, 8)),
        _ => None,
    };
    match (rank(from), rank(to)) {
        (Some((kind, from)), Some((other, to))) => kind == other && from < to,
        _ => false,
    }
}

/// An array in a wider type; itself in its own. Panics on types that are not [wider](is_wider).
pub fn widen(array: &ArrayRef, to: &DataType) -> ArrayRef {
    if array.data_type() == to {
        return array.clone();
    }
    if array.data_type() == &DataType::Null {
        return new_null_array(to, array.len());
    }
    assert!(is_wider(array.data_type(), to), "{} is not wider than {}", to, array.data_type());
    match array.data_type() {
        DataType::Int8 => signed::<Int8Type>(array, to),
        DataType::Int16 => signed::<Int16Type>(array, to),
        DataType::Int32 => signed::<Int32Type>(array, to),
        DataType::UInt8 => unsigned::<UInt8Type>(array, to),
        DataType::UInt16 => unsigned::<UInt16Type>(array, to),
        DataType::UInt32 => unsigned::<UInt32Type>(array, to),
        _ => mapped::<Float32Type, Float64Type>(array, f64::from),
    }
}

fn signed<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, to: &DataType) -> ArrayRef {
    match to {
        DataType::Int16 => mapped::<T, Int16Type>(array, |value| value.into() as i16),
        DataType::Int32 => mapped::<T, Int32Type>(array, |value| value.into() as i32),
        _ => mapped::<T, Int64Type>(array, Into::into),
    }
}

fn unsigned<T: ArrowPrimitiveType<Native: Into<u64>>>(array: &ArrayRef, to: &DataType) -> ArrayRef {
    match to {
        DataType::UInt16 => mapped::<T, UInt16Type>(array, |value| value.into() as u16),
        DataType::UInt32 => mapped::<T, UInt32Type>(array, |value| value.into() as u32),
        _ => mapped::<T, UInt64Type>(array, Into::into),
    }
}

fn mapped<T: ArrowPrimitiveType, U: ArrowPrimitiveType>(
    array: &ArrayRef,
    value: impl Fn(T::Native) -> U::Native,
) -> ArrayRef {
    let wide: PrimitiveArray<U> = array.as_primitive::<T>().unary(value);
    Arc::new(wide)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Float64Array, Int8Array, Int32Array, Int64Array};

    use super::*;

    #[test]
    fn every_value_stays_what_it_is_and_nulls_stay_null() {
        let bytes: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]));
        let wide = widen(&widen(&bytes, &DataType::Int32), &DataType::Int64);
        assert_eq!(*wide, Int64Array::from(vec![Some(-128), None, Some(127)]));
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX]));
        let wide = widen(&ints, &DataType::Int64);
        assert_eq!(*wide, Int64Array::from(vec![i64::from(i32::MIN), i64::from(i32::MAX)]));
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.1, f32::MAX, -0.0]));
        let wide = widen(&floats, &DataType::Float64);
        assert_eq!(*wide, Float64Array::from(vec![f64::from(0.1f32), f64::from(f32::MAX), -0.0]));
        for (from, to) in [
            (DataType::Int64, DataType::Int32),
            (DataType::Int32, DataType::Float64),
            (DataType::UInt8, DataType::Int16),
            (DataType::Utf8, DataType::Int64),
            (DataType::Int64, DataType::Int64),
        ] {
            assert!(!is_wider(&from, &to), "{from} to {to}");
        }
    }
}
