//! Numbers in the narrowest type that holds all of an array, and back.
//!
//! Counts, sums and extremes are stored in types that hold every one there can be, and most are far from that. An array
//! at rest takes what its own numbers need. Nothing is lost: what is restored is what was narrowed, bit by bit.

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

/// The same numbers in the narrowest type for all of them; of nulls alone, an array without buffers. Arrays of other
/// types than the widest ones are themselves. O(rows).
pub fn narrowed(array: &ArrayRef) -> ArrayRef {
    let is_wide = matches!(
        array.data_type(),
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(..)
    );
    if is_wide && array.null_count() == array.len() {
        return Arc::new(NullArray::new(array.len()));
    }
    match array.data_type() {
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>();
            let (least, greatest) = extremes(numbers);
            match i32::try_from(least).and(i32::try_from(greatest)) {
                Ok(_) => signed(numbers, (least, greatest), |number| number),
                Err(_) => array.clone(),
            }
        }
        DataType::Decimal128(..) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            let (least, greatest) = extremes(numbers);
            match (i64::try_from(least), i64::try_from(greatest)) {
                (Ok(least), Ok(greatest)) => {
                    signed(numbers, (least, greatest), |number| number as i64)
                }
                _ => array.clone(),
            }
        }
        DataType::UInt64 => unsigned(array.as_primitive()),
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            let is_kept = |number: f64| f64::from(number as f32).to_bits() == number.to_bits();
            let are_kept = match numbers.null_count() {
                0 => numbers.values().iter().all(|&number| is_kept(number)),
                _ => numbers.iter().flatten().all(is_kept),
            };
            if are_kept {
                mapped::<_, Float32Type>(numbers, |number| number as f32)
            } else {
                array.clone()
            }
        }
        _ => array.clone(),
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
        (DataType::Null, _) => new_null_array(data_type, array.len()),
        (DataType::Dictionary(..), DataType::Utf8) => plain(array),
        (DataType::Int64, DataType::Decimal128(..)) => {
            let numbers = array.as_primitive::<Int64Type>();
            let wide: PrimitiveArray<Decimal128Type> = numbers.unary(i128::from);
            Arc::new(wide.with_data_type(data_type.clone()))
        }
        (from, DataType::Decimal128(..)) if is_wider(from, &DataType::Int64) => {
            restored(&widen(array, &DataType::Int64), data_type)
        }
        _ => widen(array, data_type),
    }
}

/// Numbers of one array that were [`narrowed`] piece by piece, in the narrowest type for all of them. O(rows).
pub fn alike(pieces: &mut [ArrayRef]) {
    let holds_more = |a: &DataType, b: &DataType| {
        // A decimal was left as it is where its numbers are more than the others can be.
        a != b && (*b == DataType::Null || matches!(a, DataType::Decimal128(..)) || is_wider(b, a))
    };
    let types = pieces.iter().map(|piece| piece.data_type());
    let widest = types.reduce(|most, of| if holds_more(of, most) { of } else { most });
    let Some(widest) = widest.cloned() else { return };
    pieces.iter_mut().for_each(|piece| *piece = restored(piece, &widest));
}

/// The least number that is not null, and the greatest. There is one.
fn extremes<T: ArrowPrimitiveType<Native: Ord>>(
    numbers: &PrimitiveArray<T>,
) -> (T::Native, T::Native) {
    let first = numbers.iter().flatten().next().expect("not all are null");
    let widen = |(least, greatest): (T::Native, T::Native), number: T::Native| {
        (least.min(number), greatest.max(number))
    };
    match numbers.null_count() {
        0 => numbers.values().iter().copied().fold((first, first), widen),
        _ => numbers.iter().flatten().fold((first, first), widen),
    }
}

fn signed<T: ArrowPrimitiveType>(
    numbers: &PrimitiveArray<T>,
    (least, greatest): (i64, i64),
    number: impl Fn(T::Native) -> i64,
) -> ArrayRef {
    if i8::try_from(least).and(i8::try_from(greatest)).is_ok() {
        mapped::<_, Int8Type>(numbers, |value| number(value) as i8)
    } else if i16::try_from(least).and(i16::try_from(greatest)).is_ok() {
        mapped::<_, Int16Type>(numbers, |value| number(value) as i16)
    } else if i32::try_from(least).and(i32::try_from(greatest)).is_ok() {
        mapped::<_, Int32Type>(numbers, |value| number(value) as i32)
    } else {
        mapped::<_, Int64Type>(numbers, number)
    }
}

fn unsigned(numbers: &PrimitiveArray<UInt64Type>) -> ArrayRef {
    match extremes(numbers).1 {
        0..0x100 => mapped::<_, UInt8Type>(numbers, |number| number as u8),
        0x100..0x1_0000 => mapped::<_, UInt16Type>(numbers, |number| number as u16),
        0x1_0000..0x1_0000_0000 => mapped::<_, UInt32Type>(numbers, |number| number as u32),
        _ => Arc::new(numbers.clone()),
    }
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
        BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
        UInt64Array,
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
    fn pieces_of_an_array_take_the_type_that_all_of_it_would() {
        let wide = Decimal128Array::from(vec![Some(1 << 70), None]);
        let wide: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 0).unwrap());
        let cases: Vec<(Vec<Option<i128>>, DataType)> = vec![
            (vec![None, None, Some(3), Some(-4), None, Some(9)], DataType::Int8),
            (vec![Some(3), Some(300), None, None, Some(1), Some(2)], DataType::Int16),
            (vec![Some(1 << 40), None, Some(70_000), Some(5), None, None], DataType::Int64),
            (vec![None, Some(3), Some(1 << 70), None, Some(2), Some(2)], wide.data_type().clone()),
            (vec![None; 6], DataType::Null),
        ];
        for (numbers, expected) in cases {
            let whole = Decimal128Array::from(numbers.clone());
            let whole: ArrayRef = Arc::new(whole.with_precision_and_scale(38, 0).unwrap());
            let mut pieces: Vec<ArrayRef> =
                (0..3).map(|at| narrowed(&whole.slice(2 * at, 2))).collect();
            alike(&mut pieces);
            for (at, piece) in pieces.iter().enumerate() {
                assert_eq!(*piece.data_type(), expected, "{numbers:?}");
                let back = restored(piece, whole.data_type());
                assert_eq!(back.as_ref(), whole.slice(2 * at, 2).as_ref(), "{numbers:?}");
            }
        }
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
        let others: [ArrayRef; 3] = [
            Arc::new(Int32Array::from(vec![1])),
            Arc::new(StringArray::from(vec!["a"])),
            Arc::new(BooleanArray::from(vec![true])),
        ];
        for other in others {
            assert_eq!(&there_and_back(other.clone()), other.data_type());
        }
    }
}
