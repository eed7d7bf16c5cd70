//! Numbers in the narrowest type that holds all of an array, and back.
//!
//! Counts and sums are stored in types that hold every one there can be, and whole numbers come in 64 bits from whom it does not
//! matter to. Most are far from that, so an array at rest takes what its own numbers need. Nothing is lost: what is restored is
//! what was narrowed, bit by bit.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, NullArray, PrimitiveArray, new_null_array};
use arrow_schema::DataType;

use crate::texts_by_code::plain;
use crate::widening::{is_wider, widen};

/// Numbers after which it is asked whether a narrower type is out of the question: few, as that is mostly known at once.
const LOOKED_AT: usize = 1024;

/// The same numbers in the narrowest type for all of them; of nulls alone, an array without buffers. Arrays of other types are
/// themselves. O(rows), and less where the first numbers need all bits of their type.
pub fn narrowed(array: &ArrayRef) -> ArrayRef {
    let is_number = narrows(array.data_type());
    if is_number && array.null_count() == array.len() {
        return Arc::new(NullArray::new(array.len()));
    }
    let narrow = match array.data_type() {
        DataType::Int16 => signed::<Int16Type>(array, i64::from),
        DataType::Int32 => signed::<Int32Type>(array, i64::from),
        DataType::Int64 => signed::<Int64Type>(array, |number| number),
        DataType::Decimal128(..) => decimals(array.as_primitive()),
        DataType::UInt16 => unsigned::<UInt16Type>(array, u64::from),
        DataType::UInt32 => unsigned::<UInt32Type>(array, u64::from),
        DataType::UInt64 => unsigned::<UInt64Type>(array, |number| number),
        DataType::Float64 => {
            let is_kept = |number: f64| f64::from(number as f32).to_bits() == number.to_bits();
            let numbers = array.as_primitive::<Float64Type>();
            all(numbers, is_kept).then(|| mapped::<_, Float32Type>(numbers, |number| number as f32))
        }
        _ => None,
    };
    narrow.unwrap_or_else(|| array.clone())
}

/// Whether arrays of a type may be [`narrowed`].
pub fn narrows(data_type: &DataType) -> bool {
    let has_narrower = [DataType::Int8, DataType::UInt8, DataType::Float32];
    has_narrower.iter().any(|narrow| is_wider(narrow, data_type))
        || matches!(data_type, DataType::Decimal128(..))
}

/// Whether an array of the one type may be what an array of the other was [`narrowed`] to.
pub fn may_be_restored(held: &DataType, data_type: &DataType) -> bool {
    match (held, data_type) {
        (DataType::Null, _) => narrows(data_type),
        (_, DataType::Decimal128(..)) => {
            *held == DataType::Int64 || is_wider(held, &DataType::Int64)
        }
        _ => is_wider(held, data_type),
    }
}

/// The numbers that were [`narrowed`] from an array of a type, or texts that are by code; an array of that type is itself. O(rows).
///
/// Panics if no array of that type is narrowed to this one.
pub fn restored(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    if array.data_type() == data_type {
        return array.clone();
    }
    match (array.data_type(), data_type) {
        (from, to) if is_wider(from, to) => widen(array, to),
        (DataType::Null, _) => new_null_array(data_type, array.len()),
        (DataType::Dictionary(..), DataType::Utf8) => plain(array),
        (DataType::Int64, DataType::Decimal128(..)) => {
            let numbers = array.as_primitive::<Int64Type>();
            let wide: PrimitiveArray<Decimal128Type> = numbers.unary(i128::from);
            Arc::new(wide.with_data_type(data_type.clone()))
        }
        (from, DataType::Decimal128(..)) if is_wider(from, &DataType::Int64) => {
            restored(&restored(array, &DataType::Int64), data_type)
        }
        (from, to) => panic!("{from} is not narrowed from {to}"),
    }
}

/// The type that holds all numbers of arrays that were [`narrowed`] from one type apart. Panics if there is none of them.
pub fn widest<'a>(types: impl IntoIterator<Item = &'a DataType>) -> &'a DataType {
    let types = types.into_iter();
    let wider = |most: &'a DataType, of: &'a DataType| {
        let holds_more = *most == DataType::Null || may_be_restored(most, of);
        if holds_more { of } else { most }
    };
    types.reduce(wider).expect("at least one type")
}

/// Whether all numbers that are not null pass a test, which is given up soon after one does not.
fn all<T: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    mut passes: impl FnMut(T::Native) -> bool,
) -> bool {
    match numbers.null_count() {
        0 => numbers.values().iter().all(|&number| passes(number)),
        _ => numbers.iter().flatten().all(passes),
    }
}

/// All bits that some numbers need, or some more where they need as many as `bits_max`: what is wanted of each is put together.
fn bits_of<T: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    bits_max: u64,
    bits: impl Fn(T::Native) -> u64,
) -> u64 {
    let mut all = 0;
    let of_some = |some: u64, number: T::Native| some | bits(number);
    match numbers.null_count() {
        0 => {
            for some in numbers.values().chunks(LOOKED_AT) {
                all |= some.iter().copied().fold(0, of_some);
                if all >= bits_max {
                    break;
                }
            }
        }
        _ => all = numbers.iter().flatten().fold(0, of_some),
    }
    all
}

fn signed<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    number: impl Fn(T::Native) -> i64 + Copy,
) -> Option<ArrayRef> {
    let numbers = array.as_primitive::<T>();
    // Of a number below zero its complement needs as many bits.
    let magnitude = |value: T::Native| (number(value) ^ (number(value) >> 63)) as u64;
    let bits_max = 1 << (4 * size_of::<T::Native>() - 1);
    match bits_of(numbers, bits_max, magnitude) {
        bits if bits >= bits_max => None,
        0..0x80 => Some(mapped::<_, Int8Type>(numbers, |value| number(value) as i8)),
        0x80..0x8000 => Some(mapped::<_, Int16Type>(numbers, |value| number(value) as i16)),
        _ => Some(mapped::<_, Int32Type>(numbers, |value| number(value) as i32)),
    }
}

fn unsigned<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    number: impl Fn(T::Native) -> u64 + Copy,
) -> Option<ArrayRef> {
    let numbers = array.as_primitive::<T>();
    let bits_max = 1 << (4 * size_of::<T::Native>());
    match bits_of(numbers, bits_max, number) {
        bits if bits >= bits_max => None,
        0..0x100 => Some(mapped::<_, UInt8Type>(numbers, |value| number(value) as u8)),
        0x100..0x1_0000 => Some(mapped::<_, UInt16Type>(numbers, |value| number(value) as u16)),
        _ => Some(mapped::<_, UInt32Type>(numbers, |value| number(value) as u32)),
    }
}

fn decimals(numbers: &PrimitiveArray<Decimal128Type>) -> Option<ArrayRef> {
    all(numbers, |number| i64::try_from(number).is_ok())
        .then(|| narrowed(&mapped::<_, Int64Type>(numbers, |number| number as i64)))
}

fn mapped<T: ArrowPrimitiveType, U: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    value: impl Fn(T::Native) -> U::Native,
) -> ArrayRef {
    let narrow: PrimitiveArray<U> = numbers.unary(value);
    Arc::new(narrow)
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
        Int32Array, Int64Array, StringArray, UInt16Array, UInt32Array, UInt64Array,
    };

    use super::*;

    /// Narrows and restores, and gives the type between.
    fn there_and_back(array: ArrayRef) -> DataType {
        let narrow = narrowed(&array);
        let back = restored(&narrow, array.data_type());
        assert_eq!(back.as_ref(), array.as_ref());
        assert_eq!(back.data_type(), array.data_type());
        narrow.data_type().clone()
    }

    #[test]
    fn integers_take_the_type_of_their_extremes_and_come_back() {
        for (least, greatest, expected) in [
            (-128, 127, DataType::Int8),
            (-129, 0, DataType::Int16),
            (0, 128, DataType::Int16),
            (-32_769, 5, DataType::Int32),
            (0, 1 << 31, DataType::Int64),
            (i64::MIN, i64::MAX, DataType::Int64),
        ] {
            let numbers = vec![Some(least), None, Some(greatest)];
            assert_eq!(there_and_back(Arc::new(Int64Array::from(numbers.clone()))), expected);
            let sums = numbers.into_iter().map(|sum| sum.map(i128::from));
            let sums: Decimal128Array = sums.collect();
            let sums = sums.with_data_type(DataType::Decimal128(38, 0));
            assert_eq!(there_and_back(Arc::new(sums)), expected);
        }
        for (greatest, expected) in [
            (255, DataType::UInt8),
            (256, DataType::UInt16),
            (1 << 16, DataType::UInt32),
            (1 << 32, DataType::UInt64),
            (u64::MAX, DataType::UInt64),
        ] {
            assert_eq!(there_and_back(Arc::new(UInt64Array::from(vec![0, greatest]))), expected);
        }
    }

    #[test]
    fn integers_of_fewer_bits_are_narrowed_too() {
        let cases: [(ArrayRef, DataType); 8] = [
            (Arc::new(Int32Array::from(vec![-32_768, 32_767])), DataType::Int16),
            (Arc::new(Int32Array::from(vec![-128, 0])), DataType::Int8),
            (Arc::new(Int32Array::from(vec![32_768])), DataType::Int32),
            (Arc::new(Int16Array::from(vec![-128, 127])), DataType::Int8),
            (Arc::new(Int16Array::from(vec![-129])), DataType::Int16),
            (Arc::new(UInt32Array::from(vec![65_535])), DataType::UInt16),
            (Arc::new(UInt32Array::from(vec![65_536])), DataType::UInt32),
            (Arc::new(UInt16Array::from(vec![Some(255), None])), DataType::UInt8),
        ];
        for (array, expected) in cases {
            assert_eq!(there_and_back(array), expected);
        }
    }

    #[test]
    fn one_number_of_many_decides_wherever_it_stands() {
        for at in [0, 1, LOOKED_AT - 1, LOOKED_AT, 3 * LOOKED_AT] {
            for (number, expected) in [
                (1i64 << 31, DataType::Int64),
                (-(1 << 31) - 1, DataType::Int64),
                (-(1 << 31), DataType::Int32),
                (40_000, DataType::Int32),
                (-129, DataType::Int16),
            ] {
                let mut numbers = vec![0; 3 * LOOKED_AT + 1];
                numbers[at] = number;
                assert_eq!(there_and_back(Arc::new(Int64Array::from(numbers))), expected);
            }
        }
    }

    #[test]
    fn sums_past_64_bits_stay_as_they_are() {
        let sums: Decimal128Array = [Some(i128::from(i64::MAX) + 1), None].into_iter().collect();
        let sums = sums.with_data_type(DataType::Decimal128(38, 0));
        assert_eq!(there_and_back(Arc::new(sums)), DataType::Decimal128(38, 0));
    }

    #[test]
    fn floats_are_halved_only_if_every_bit_comes_back() {
        let narrow =
            there_and_back(Arc::new(Float64Array::from(vec![Some(0.5), None, Some(-0.0)])));
        assert_eq!(narrow, DataType::Float32);
        let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let array: ArrayRef = Arc::new(Float64Array::from(special.to_vec()));
        let back = restored(&narrowed(&array), &DataType::Float64);
        let bits = |number: &f64| number.to_bits();
        assert!(
            back.as_primitive::<Float64Type>()
                .values()
                .iter()
                .map(bits)
                .eq(special.iter().map(bits))
        );
        for wide in [0.1, f64::MAX, 1e-300, 16_777_217.0] {
            let narrow = there_and_back(Arc::new(Float64Array::from(vec![1.0, wide])));
            assert_eq!(narrow, DataType::Float64, "{wide}");
        }
    }

    #[test]
    fn nulls_alone_take_no_bytes_and_other_types_are_themselves() {
        let nulls: ArrayRef = Arc::new(Float64Array::from(vec![None, None]));
        assert_eq!(narrowed(&nulls).get_buffer_memory_size(), 0);
        assert_eq!(there_and_back(nulls), DataType::Null);
        there_and_back(Arc::new(Int64Array::from(Vec::<i64>::new())));
        let others: [ArrayRef; 4] = [
            Arc::new(Int8Array::from(vec![1])),
            Arc::new(Float32Array::from(vec![0.5])),
            Arc::new(StringArray::from(vec!["a"])),
            Arc::new(BooleanArray::from(vec![true])),
        ];
        for other in others {
            assert_eq!(&there_and_back(other.clone()), other.data_type());
        }
    }
}
