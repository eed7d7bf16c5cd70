//! Values of several parts, gathered into one column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, NullArray, PrimitiveArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use crate::key::fixed::{typed, with_fixed_type};
use crate::pick::{Pick, nulls_at};
use crate::texts_by_code::{bytes_at, picked};

/// The values at `picks` of a column's parts, which have one type that rows store. Of numbers and times that takes few instructions per
/// row, so a processor waits for the memory of many rows at a time. Panics if texts or byte strings take more than 2 GiB.
pub fn gathered(parts: &[&dyn Array], picks: &[Pick]) -> ArrayRef {
    let data_type = parts.first().expect("at least one part").data_type();
    let are_alike = parts.iter().all(|part| part.data_type() == data_type);
    assert!(are_alike, "the parts of a column have one type");
    match data_type {
        DataType::Boolean => {
            let values: Vec<&BooleanBuffer> =
                parts.iter().map(|part| part.as_boolean().values()).collect();
            let value = |at: usize| values[picks[at].part()].value(picks[at].row());
            let values = BooleanBuffer::collect_bool(picks.len(), value);
            Arc::new(BooleanArray::new(values, nulls_at(parts, picks)))
        }
        DataType::Utf8 => picked(parts, picks),
        DataType::Binary => {
            let (offsets, bytes) = bytes_at(parts, picks);
            Arc::new(BinaryArray::new(offsets, bytes, nulls_at(parts, picks)))
        }
        DataType::Null => Arc::new(NullArray::new(picks.len())),
        data_type => with_fixed_type!(data_type, T => {
            let values: Vec<&[<T as ArrowPrimitiveType>::Native]> =
                parts.iter().map(|part| &part.as_primitive::<T>().values()[..]).collect();
            let values: Vec<_> = picks.iter().map(|pick| values[pick.part()][pick.row()]).collect();
            let array = PrimitiveArray::<T>::new(values.into(), nulls_at(parts, picks));
            typed(array, data_type)
        }, panic!("{data_type} is not a type that rows store")),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Decimal128Array, Float64Array, StringArray, TimestampMicrosecondArray, UInt16Array,
        new_null_array,
    };
    use arrow_select::interleave::interleave;

    use super::*;

    /// 100 rows, every fifth of them null.
    fn some<T>(value: impl Fn(i64) -> T) -> impl Iterator<Item = Option<T>> {
        (0..100).map(move |row| (row % 5 != 0).then(|| value(row)))
    }

    #[test]
    fn columns_of_all_stored_types_are_gathered_as_arrow_does() {
        let times = TimestampMicrosecondArray::from_iter(some(|row| row * 1_000_003));
        let decimals = Decimal128Array::from_iter(some(i128::from));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt16Array::from_iter_values(0..100)),
            Arc::new(Float64Array::from_iter(some(|row| row as f64 / 3.0))),
            Arc::new(times.with_timezone("Europe/Oslo")),
            Arc::new(decimals.with_precision_and_scale(12, 3).unwrap()),
            Arc::new(BooleanArray::from_iter(some(|row| row % 3 == 0))),
            Arc::new(StringArray::from_iter(some(|row| "\u{e9}".repeat(row as usize % 7)))),
            Arc::new(BinaryArray::from_iter(some(|row| vec![row as u8; row as usize % 4]))),
            new_null_array(&DataType::Null, 100),
        ];
        // Of parts that begin within a byte of the bits.
        for column in columns {
            let parts = [column.slice(3, 40), column.slice(43, 57), column.slice(0, 0)];
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            let any: Vec<_> = (0..300).map(|at| (at % 2, at * 7 % 40)).collect();
            let with_values: Vec<_> =
                (0..40).filter(|at| (at + 3) % 5 != 0).map(|at| (0, at)).collect();
            for pairs in [any, with_values, Vec::new()] {
                let picks: Vec<Pick> =
                    pairs.iter().map(|&(part, row)| Pick::new(part, row)).collect();
                let found = gathered(&parts, &picks);
                assert_eq!(&found, &interleave(&parts, &pairs).unwrap());
                assert_eq!(found.data_type(), column.data_type());
            }
        }
    }
}
