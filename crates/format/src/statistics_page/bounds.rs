//! The least and the greatest value of a column in each zone, so that they bound its values in every order
//! that a reader may have in mind.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, PrimitiveArray,
    StringArray,
};
use arrow_schema::DataType;

use crate::key::fixed::{Fixed, with_fixed_type};

/// A string's bounds are cut to this many bytes; incrementing the last character can add up to three.
const STRING_BYTES_MAX: usize = 32;
/// Bytes of a string bound as far as they can be foreseen.
const STRING_BYTES_USUAL: usize = 16;

/// About how many bytes a bound of this type takes; `None` if its values have no order here.
pub(super) fn width(data_type: &DataType) -> Option<usize> {
    with_fixed_type!(data_type, T => {
        Some(<T as ArrowPrimitiveType>::Native::WIDTH)
    }, match data_type {
        DataType::Boolean => Some(1),
        DataType::Utf8 => Some(STRING_BYTES_USUAL),
        _ => None,
    })
}

/// The minimum and the maximum of each zone, null where there is none that could be relied on: without a
/// value, with a NaN among them, or where no short string lies above all.
pub(super) fn bounds(column: &ArrayRef, zones: &[Range<usize>]) -> [ArrayRef; 2] {
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean();
            let extremes = zones.iter().map(|zone| {
                extremes(column, zone, |row| values.value(row), |left, right| !left & right)
            });
            let (mins, maxes): (Vec<_>, Vec<_>) = extremes.map(Option::unzip).unzip();
            [mins, maxes].map(|bounds| Arc::new(BooleanArray::from(bounds)) as ArrayRef)
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            let extremes = zones.iter().map(|zone| {
                extremes(column, zone, |row| values.value(row), |left, right| left < right)
            });
            let bounds = extremes.map(|extremes| match extremes {
                Some((least, greatest)) => (Some(prefix(least)), string_above(greatest)),
                None => (None, None),
            });
            let (mins, maxes): (Vec<_>, Vec<_>) = bounds.unzip();
            [Arc::new(StringArray::from(mins)), Arc::new(StringArray::from(maxes))]
        }
        data_type => with_fixed_type!(data_type, T => {
            let values = column.as_primitive::<T>().values();
            let extremes = zones.iter().map(|zone| {
                extremes(column, zone, |row| values[row], |left, right| left.is_lt(right))
            });
            let bounds = extremes.map(|extremes| {
                extremes.and_then(|(least, greatest)| Fixed::bounds(least, greatest)).unzip()
            });
            let (mins, maxes): (Vec<_>, Vec<_>) = bounds.unzip();
            [mins, maxes].map(|bounds| {
                let bounds: PrimitiveArray<T> = bounds.into_iter().collect();
                Arc::new(bounds.with_data_type(data_type.clone())) as ArrayRef
            })
        }, unreachable!("{data_type} has no bounds")),
    }
}

/// The least and the greatest of the values that are there.
fn extremes<V: Copy>(
    column: &ArrayRef,
    zone: &Range<usize>,
    value: impl Fn(usize) -> V,
    is_less: impl Fn(V, V) -> bool,
) -> Option<(V, V)> {
    let nulls = column.nulls();
    let mut rows = zone.clone().filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row)));
    let first = value(rows.next()?);
    Some(rows.map(value).fold((first, first), |(least, greatest), value| {
        let least = if is_less(value, least) { value } else { least };
        (least, if is_less(greatest, value) { value } else { greatest })
    }))
}

/// The longest prefix of whole characters that is short enough.
fn prefix(string: &str) -> &str {
    let ends = (0..=STRING_BYTES_MAX.min(string.len())).rev();
    let end = ends.into_iter().find(|&end| string.is_char_boundary(end));
    &string[..end.expect("0 is a boundary")]
}

/// The string itself if it is short enough; otherwise its prefix with the last character replaced by the next
/// one, or without those that have none. `None` if that leaves nothing.
fn string_above(string: &str) -> Option<String> {
    let mut kept = prefix(string);
    if kept.len() == string.len() {
        return Some(string.to_string());
    }
    while let Some(last) = kept.chars().next_back() {
        kept = &kept[..kept.len() - last.len_utf8()];
        // Code points compare as their UTF-8 does, and a range of characters leaves surrogates out.
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{kept}{next}"));
        }
    }
    None
}
