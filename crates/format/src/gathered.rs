//! Values of several parts, gathered into one column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, NullArray, PrimitiveArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use crate::dense_picks::read_in_order;
use crate::key::fixed::{typed, with_fixed_type};
use crate::narrowing::widest;
use crate::pick::{Pick, nulls_at};
use crate::texts_by_code::{bytes_at, picked};

const WORD_BYTES: usize = size_of::<u64>();

/// The values at `picks` of a column's parts, which have one type that rows store, or numbers that were [narrowed] from one type
/// apart: in the type that holds all of them. Of numbers and times that takes few instructions per row, so a processor waits for the
/// memory of many rows at a time. Panics if texts or byte strings take more than 2 GiB.
///
/// [narrowed]: crate::narrowing::narrowed
pub fn gathered(parts: &[&dyn Array], picks: &[Pick]) -> ArrayRef {
    let data_type = widest(parts.iter().map(|part| part.data_type()));
    if parts.iter().any(|part| part.data_type() != data_type) {
        return widened(parts, picks, data_type);
    }
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
            read_in_order(parts.len(), picks, |part| {
                let bytes = parts[part].as_primitive::<T>().values().inner().as_slice();
                (bytes, size_of::<<T as ArrowPrimitiveType>::Native>())
            });
            let values: Vec<_> = picks.iter().map(|pick| values[pick.part()][pick.row()]).collect();
            let array = PrimitiveArray::<T>::new(values.into(), nulls_at(parts, picks));
            typed(array, data_type)
        }, panic!("{data_type} is not a type that rows store")),
    }
}

/// Numbers at `picks` of parts that hold them in several types.
fn widened(parts: &[&dyn Array], picks: &[Pick], data_type: &DataType) -> ArrayRef {
    let nulls = nulls_at(parts, picks);
    let parts: Vec<Words<'_>> = parts.iter().map(|part| Words::of(*part)).collect();
    read_in_order(parts.len(), picks, |part| (&parts[part].bytes, parts[part].step));
    let words = picks.iter().map(|pick| (&parts[pick.part()], pick.row()));
    macro_rules! numbers {
        ($Type:ty, $number:expr) => {{
            let numbers: Vec<<$Type as ArrowPrimitiveType>::Native> = words.map($number).collect();
            Arc::new(PrimitiveArray::<$Type>::new(numbers.into(), nulls))
        }};
    }
    match data_type {
        DataType::Int8 => numbers!(Int8Type, |(part, row)| part.signed(row) as i8),
        DataType::Int16 => numbers!(Int16Type, |(part, row)| part.signed(row) as i16),
        DataType::Int32 => numbers!(Int32Type, |(part, row)| part.signed(row) as i32),
        DataType::Int64 => numbers!(Int64Type, |(part, row)| part.signed(row)),
        DataType::UInt8 => numbers!(UInt8Type, |(part, row)| part.unsigned(row) as u8),
        DataType::UInt16 => numbers!(UInt16Type, |(part, row)| part.unsigned(row) as u16),
        DataType::UInt32 => numbers!(UInt32Type, |(part, row)| part.unsigned(row) as u32),
        DataType::UInt64 => numbers!(UInt64Type, |(part, row)| part.unsigned(row)),
        DataType::Float32 => numbers!(Float32Type, |(part, row)| part.float(row) as f32),
        DataType::Float64 => numbers!(Float64Type, |(part, row)| part.float(row)),
        DataType::Decimal128(..) => {
            let numbers = words.map(|(part, row)| part.decimal(row)).collect::<Vec<i128>>();
            typed(PrimitiveArray::<Decimal128Type>::new(numbers.into(), nulls), data_type)
        }
        data_type => panic!("no numbers are narrowed from {data_type}"),
    }
}

/// Numbers of any width as words of 64 bits. Which width a row's part has is no branch: of rows in random order a processor could not
/// predict it.
struct Words<'a> {
    /// Eight bytes at least.
    bytes: Cow<'a, [u8]>,
    /// Bytes from one number to the next: none where there are no numbers.
    step: usize,
    /// How far to shift the bits of a number from the top of a word to its end.
    shift: u32,
    decimals: Option<&'a [i128]>,
}

impl<'a> Words<'a> {
    fn of(part: &'a dyn Array) -> Words<'a> {
        let nothing = || Cow::Owned(vec![0; WORD_BYTES]);
        let words = Words { bytes: nothing(), step: 0, shift: 0, decimals: None };
        match part.data_type() {
            DataType::Null => words,
            DataType::Decimal128(..) => {
                Words { decimals: Some(part.as_primitive::<Decimal128Type>().values()), ..words }
            }
            data_type => with_fixed_type!(data_type, T => {
                let bytes = part.as_primitive::<T>().values().inner().as_slice();
                let step = size_of::<<T as ArrowPrimitiveType>::Native>();
                let padded = |bytes: &[u8]| [bytes, &[0; WORD_BYTES]].concat();
                let is_short = bytes.len() < WORD_BYTES;
                let bytes = if is_short { padded(bytes).into() } else { bytes.into() };
                Words { bytes, step, shift: (8 * (WORD_BYTES - step)) as u32, ..words }
            }, panic!("no numbers are narrowed to {data_type}")),
        }
    }

    /// The bits of a number at the top of a word, above any others.
    #[inline]
    fn top(&self, row: usize) -> u64 {
        let at = row * self.step;
        let start = at.min(self.bytes.len() - WORD_BYTES);
        let word = self.bytes[start..start + WORD_BYTES].try_into().expect("it has eight bytes");
        u64::from_le_bytes(word) >> (8 * (at - start)) << self.shift
    }

    #[inline]
    fn signed(&self, row: usize) -> i64 {
        self.top(row) as i64 >> self.shift
    }

    #[inline]
    fn unsigned(&self, row: usize) -> u64 {
        self.top(row) >> self.shift
    }

    #[inline]
    fn float(&self, row: usize) -> f64 {
        let bits = self.unsigned(row);
        let narrow = f64::from(f32::from_bits(bits as u32));
        if self.step == size_of::<f32>() { narrow } else { f64::from_bits(bits) }
    }

    fn decimal(&self, row: usize) -> i128 {
        self.decimals.map_or_else(|| self.signed(row).into(), |decimals| decimals[row])
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Decimal128Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
        UInt16Array, UInt64Array, new_null_array,
    };
    use arrow_select::interleave::interleave;

    use crate::narrowing::{narrowed, restored};

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
            let any: Vec<_> = (0..700).map(|at| (at % 2, at * 7 % 40)).collect();
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

    /// What is gathered of parts that were narrowed apart, as it is restored, and the type it is gathered in.
    fn check_narrowed(parts: &[ArrayRef]) -> DataType {
        let data_type = parts[0].data_type().clone();
        let narrow: Vec<ArrayRef> = parts.iter().map(narrowed).collect();
        let picks: Vec<(usize, usize)> = (0..900)
            .map(|at| (at * 7 % parts.len(), at * 31))
            .filter(|(part, _)| !parts[*part].is_empty())
            .map(|(part, row)| (part, row % parts[part].len()))
            .collect();
        let of = |parts: &[ArrayRef]| -> Vec<Box<dyn Array>> {
            parts.iter().map(|part| Box::new(part.clone()) as Box<dyn Array>).collect()
        };
        let (narrow, wide) = (of(&narrow), of(parts));
        let narrow: Vec<&dyn Array> = narrow.iter().map(|part| &**part).collect();
        let wide: Vec<&dyn Array> = wide.iter().map(|part| &**part).collect();
        let numbers: Vec<Pick> = picks.iter().map(|&(part, row)| Pick::new(part, row)).collect();
        let found = gathered(&narrow, &numbers);
        let expected = interleave(&wide, &picks).unwrap();
        assert_eq!(restored(&found, &data_type).as_ref(), expected.as_ref());
        found.data_type().clone()
    }

    #[test]
    fn numbers_that_were_narrowed_apart_are_gathered_in_the_type_that_holds_all() {
        let integers = |parts: &[&[i64]]| -> Vec<ArrayRef> {
            parts.iter().map(|part| Arc::new(Int64Array::from(part.to_vec())) as _).collect()
        };
        let wide = i64::MIN;
        let cases: [(&[&[i64]], DataType); 6] = [
            (&[&[1, -2, 3], &[-4]], DataType::Int8),
            (&[&[1, -2, 127], &[-300, 5]], DataType::Int16),
            (&[&[-1], &[300, -5], &[70_000, -70_000, 0, 1, 2, 3, 4, 5, 6]], DataType::Int32),
            (&[&[-1], &[wide, i64::MAX, 7], &[-129, 128]], DataType::Int64),
            (&[&[-1], &[1 << 40, 7]], DataType::Int64),
            (&[&[], &[-1, 5], &[300]], DataType::Int16),
        ];
        for (parts, expected) in cases {
            let parts = integers(parts);
            assert_eq!(check_narrowed(&parts), expected);
            let nulls = new_null_array(&DataType::Int64, 9);
            assert_eq!(check_narrowed(&[parts.clone(), vec![nulls]].concat()), expected);
            let some: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-1), None, Some(5)]));
            check_narrowed(&[parts.clone(), vec![some.slice(1, 3)]].concat());
            let wide = DataType::Decimal128(38, 2);
            let decimals: Vec<ArrayRef> = parts.iter().map(|part| restored(part, &wide)).collect();
            assert_eq!(check_narrowed(&decimals), expected);
            let sum = Decimal128Array::from(vec![None, Some(-1), Some(1 << 90)]);
            let sum: ArrayRef = Arc::new(sum.with_precision_and_scale(38, 2).unwrap());
            assert_eq!(check_narrowed(&[decimals, vec![sum]].concat()), wide);
        }
        let unsigned = [vec![u64::MAX, 1 << 63], vec![255], vec![65_535, 7], vec![1 << 31]];
        let unsigned = unsigned.map(|part| Arc::new(UInt64Array::from(part)) as ArrayRef);
        assert_eq!(check_narrowed(&unsigned), DataType::UInt64);
        assert_eq!(check_narrowed(&unsigned[1..3]), DataType::UInt16);
        assert_eq!(check_narrowed(&unsigned[1..]), DataType::UInt32);
        let floats = [vec![0.1, -0.0, f64::MAX], vec![0.5], vec![f64::INFINITY, -1.5]];
        let floats = floats.map(|part| Arc::new(Float64Array::from(part)) as ArrayRef);
        assert_eq!(check_narrowed(&floats), DataType::Float64);
        assert_eq!(check_narrowed(&floats[1..]), DataType::Float32);
        let nulls = new_null_array(&DataType::Float64, 3);
        assert_eq!(check_narrowed(&[nulls.clone(), floats[2].clone()]), DataType::Float32);
        assert_eq!(check_narrowed(&[nulls.clone(), nulls]), DataType::Null);
    }
}
