//! [`Number`]: a value of a column that can be computed with.
//!
//! Integers and floats are numbers, and so are dates and timestamps: how many of their unit they lie after the beginning of
//! 1970. Of integers and times nothing is lost, which a float would lose beyond 2^53. A decimal is the nearest float.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Float64Array, Int64Array, PrimitiveArray, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};

/// The numbers of one column are of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Number {
    /// The nearest float.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Signed(number) => number as f64,
            Number::Unsigned(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    pub fn is_finite(self) -> bool {
        match self {
            Number::Float(number) => number.is_finite(),
            _ => true,
        }
    }

    /// The smaller of two numbers; NaN is above all numbers, as in SQL.
    #[inline]
    pub fn least(self, other: Number) -> Number {
        if other.is_below(self) { other } else { self }
    }

    /// The larger of two numbers; NaN is above all numbers, as in SQL.
    #[inline]
    pub fn most(self, other: Number) -> Number {
        if self.is_below(other) { other } else { self }
    }

    #[inline]
    fn is_below(self, other: Number) -> bool {
        match (self, other) {
            (Number::Signed(ours), Number::Signed(theirs)) => ours < theirs,
            (Number::Unsigned(ours), Number::Unsigned(theirs)) => ours < theirs,
            // An expression may give the values of a column as another type.
            _ => {
                let (ours, theirs) = (self.as_f64(), other.as_f64());
                ours < theirs || theirs.is_nan() && !ours.is_nan()
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Signed(number) => number.fmt(f),
            Number::Unsigned(number) => number.fmt(f),
            Number::Float(number) => number.fmt(f),
        }
    }
}

/// The type of the numbers that values are, if they are integers, floats or decimals.
pub fn number_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Decimal128(..) => Some(DataType::Float64),
        _ if data_type.is_integer() || data_type.is_floating() => Some(data_type.clone()),
        _ => None,
    }
}

/// Whether values are dates or timestamps, which have an order and distances, but no sum.
pub fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
}

/// Calls `each` with the row and the number of each value that is not null, of a column of numbers or times.
pub fn each_number(column: &ArrayRef, each: impl FnMut(usize, Number)) {
    match column.data_type() {
        DataType::Int8 => signed::<Int8Type>(column, each),
        DataType::Int16 => signed::<Int16Type>(column, each),
        DataType::Int32 => signed::<Int32Type>(column, each),
        DataType::Int64 => signed::<Int64Type>(column, each),
        DataType::Date32 => signed::<Date32Type>(column, each),
        DataType::Timestamp(TimeUnit::Second, _) => signed::<TimestampSecondType>(column, each),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            signed::<TimestampMillisecondType>(column, each);
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            signed::<TimestampMicrosecondType>(column, each);
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            signed::<TimestampNanosecondType>(column, each);
        }
        DataType::UInt8 => unsigned::<UInt8Type>(column, each),
        DataType::UInt16 => unsigned::<UInt16Type>(column, each),
        DataType::UInt32 => unsigned::<UInt32Type>(column, each),
        DataType::UInt64 => unsigned::<UInt64Type>(column, each),
        _ => {
            let floats =
                arrow_cast::cast(column, &DataType::Float64).expect("the column has numbers");
            let mut each = each;
            let each = |row, number| each(row, Number::Float(number));
            each_valid(floats.as_primitive::<Float64Type>(), each);
        }
    }
}

/// Numbers of a column as values of its type again.
pub fn values_of(numbers: &[Option<Number>], data_type: &DataType) -> ArrayRef {
    let numbers = || numbers.iter();
    let values: ArrayRef = match data_type {
        _ if data_type.is_floating() => {
            Arc::new(numbers().map(|number| number.map(Number::as_f64)).collect::<Float64Array>())
        }
        _ if data_type.is_unsigned_integer() => {
            let unsigned = |number: &Option<Number>| match number {
                Some(Number::Unsigned(number)) => Some(*number),
                _ => None,
            };
            Arc::new(numbers().map(unsigned).collect::<UInt64Array>())
        }
        _ => {
            let signed = |number: &Option<Number>| match number {
                Some(Number::Signed(number)) => Some(*number),
                _ => None,
            };
            Arc::new(numbers().map(signed).collect::<Int64Array>())
        }
    };
    arrow_cast::cast(&values, data_type).expect("they were values of the type")
}

fn signed<T: ArrowPrimitiveType>(column: &ArrayRef, mut each: impl FnMut(usize, Number))
where
    i64: From<T::Native>,
{
    let each = |row, number| each(row, Number::Signed(i64::from(number)));
    each_valid(column.as_primitive::<T>(), each);
}

fn unsigned<T: ArrowPrimitiveType>(column: &ArrayRef, mut each: impl FnMut(usize, Number))
where
    u64: From<T::Native>,
{
    let each = |row, number| each(row, Number::Unsigned(u64::from(number)));
    each_valid(column.as_primitive::<T>(), each);
}

/// Calls `each` with the row and the value of each that is not null.
pub fn each_valid<T: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    mut each: impl FnMut(usize, T::Native),
) {
    match numbers.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => numbers.values().iter().enumerate().for_each(|(row, &x)| each(row, x)),
        Some(nulls) => nulls.valid_indices().for_each(|row| each(row, numbers.value(row))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of each type, of which a float would lose the last digits.
    #[test]
    fn numbers_become_the_values_that_they_were() {
        let whole: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]));
        let days: ArrayRef =
            Arc::new(arrow_array::Int32Array::from(vec![Some(-1), None, Some(i32::MAX)]));
        let zone = Some("America/New_York".into());
        let columns = [
            arrow_cast::cast(&whole, &DataType::Timestamp(TimeUnit::Nanosecond, zone)).unwrap(),
            arrow_cast::cast(&whole, &DataType::Timestamp(TimeUnit::Second, None)).unwrap(),
            arrow_cast::cast(&days, &DataType::Date32).unwrap(),
            arrow_cast::cast(&days, &DataType::Float32).unwrap(),
            Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)])),
            days,
            whole,
        ];
        for column in columns {
            let mut numbers = vec![None; column.len()];
            each_number(&column, |row, number| numbers[row] = Some(number));
            assert_eq!(&values_of(&numbers, column.data_type()), &column);
        }
    }

    #[test]
    fn nan_is_above_all_numbers() {
        let (one, nan) = (Number::Float(1.0), Number::Float(f64::NAN));
        for (a, b) in [(one, nan), (nan, one)] {
            assert_eq!(a.least(b), one);
            assert!(a.most(b).as_f64().is_nan());
        }
        assert!(nan.least(nan).as_f64().is_nan());
        let infinite = Number::Float(f64::INFINITY);
        assert!(infinite.most(nan).as_f64().is_nan() && infinite.most(one) == infinite);
    }
}
