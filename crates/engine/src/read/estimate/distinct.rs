//! [`Distinct`]: different values of a column.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use drillcore_format::key::encode_value;
use foldhash::fast::FixedState;

use crate::read::estimate::recent::{RECENT, recent_place};

/// Values that were met, each once: integers and times by their bits, others encoded.
#[derive(Debug, Clone, Default)]
pub struct Distinct {
    /// How many values were met, each time they were.
    pub count: u64,
    /// Of `bits` the value that was met last: many rows of a group have the same.
    last: Option<u64>,
    bits: HashSet<u64, FixedState>,
    encoded: HashSet<Box<[u8]>, FixedState>,
}

impl Distinct {
    /// How many different values were met.
    pub fn len(&self) -> usize {
        self.bits.len() + self.encoded.len()
    }

    /// Takes all values that `other` has taken.
    pub fn merge(&mut self, mut other: Distinct) {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        self.count += other.count;
        self.bits.extend(other.bits);
        self.encoded.extend(other.encoded);
    }

    fn add_encoded(&mut self, value: &[u8]) {
        if !self.encoded.contains(value) {
            self.encoded.insert(value.into());
        }
    }
}

/// Adds the values of a column that are not null, each to that of the targets whose number `target_of` gives for its row, if
/// this takes any. Without `keeps` they are only counted. `times` is how often the value of each row counts, if not once.
pub fn add_values<T>(
    column: &ArrayRef,
    keeps: bool,
    targets: &mut [T],
    target_of: impl Fn(usize) -> usize,
    times: Option<&[u64]>,
    pick: impl Fn(&mut T) -> Option<&mut Distinct>,
) {
    let times_of = |row: usize| times.map_or(1, |times| times[row]);
    if !keeps {
        for row in (0..column.len()).filter(|&row| column.is_valid(row)) {
            if let Some(distinct) = pick(&mut targets[target_of(row)]) {
                distinct.count += times_of(row);
            }
        }
        return;
    }
    // Values that targets have taken.
    let mut recent = [(usize::MAX, 0); RECENT];
    macro_rules! bits {
        ($type:ty) => {
            each_bits::<$type>(column, |row, bits| {
                let target = target_of(row);
                let Some(distinct) = pick(&mut targets[target]) else { return };
                distinct.count += times_of(row);
                if distinct.last == Some(bits) {
                    return;
                }
                distinct.last = Some(bits);
                let recent = &mut recent[recent_place(bits ^ (target as u64).rotate_left(32))];
                if *recent != (target, bits) {
                    *recent = (target, bits);
                    distinct.bits.insert(bits);
                }
            })
        };
    }
    match column.data_type() {
        DataType::Int8 => bits!(Int8Type),
        DataType::Int16 => bits!(Int16Type),
        DataType::Int32 => bits!(Int32Type),
        DataType::Int64 => bits!(Int64Type),
        DataType::UInt8 => bits!(UInt8Type),
        DataType::UInt16 => bits!(UInt16Type),
        DataType::UInt32 => bits!(UInt32Type),
        DataType::UInt64 => bits!(UInt64Type),
        DataType::Date32 => bits!(Date32Type),
        DataType::Timestamp(TimeUnit::Second, _) => bits!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => bits!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => bits!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => bits!(TimestampNanosecondType),
        // Floats have one zero and one NaN once they are encoded.
        _ => {
            let mut value = Vec::new();
            for row in (0..column.len()).filter(|&row| column.is_valid(row)) {
                if let Some(distinct) = pick(&mut targets[target_of(row)]) {
                    distinct.count += times_of(row);
                    value.clear();
                    encode_value(column, row, &mut value);
                    distinct.add_encoded(&value);
                }
            }
        }
    }
}

fn each_bits<T: ArrowPrimitiveType>(column: &ArrayRef, mut each: impl FnMut(usize, u64))
where
    i128: From<T::Native>,
{
    let numbers = column.as_primitive::<T>();
    for row in (0..numbers.len()).filter(|&row| numbers.is_valid(row)) {
        each(row, i128::from(numbers.value(row)) as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_are_counted_once_and_nulls_never() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(3), Some(-1)]));
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.5]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
        for (column, expected) in [(numbers, 2), (floats, 3), (texts, 2)] {
            let mut both = [Distinct::default(), Distinct::default()];
            add_values(&column, true, &mut both, |row| row % 2, None, |distinct| Some(distinct));
            let [mut one, other] = both;
            one.merge(other);
            assert_eq!(one.count as usize, column.len() - column.null_count());
            assert_eq!(one.len(), expected, "{column:?}");
        }
    }
}
