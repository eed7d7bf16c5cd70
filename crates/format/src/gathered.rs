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

/// The values at `picks` of a column's parts, which have one type that rows store. Few instructions a row, so a processor waits for the
/// memory of many rows at a time. Panics if texts take more than 2 GiB.
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
