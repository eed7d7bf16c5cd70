//! How many bytes values have, whatever buffers they share with others.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

/// Bytes of the values of an array: of a slice those of the slice alone. In O(1) for the types that tables have.
pub fn value_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let nulls = if array.nulls().is_some() { rows.div_ceil(8) } else { 0 };
    let values = match array.data_type() {
        DataType::Boolean => rows.div_ceil(8),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            let (first, past_last) = (offsets[0] as usize, offsets[rows] as usize);
            size_of_val(offsets) + value_bytes(&lists.values().slice(first, past_last - first))
        }
        other => match (string_offsets(array), other.primitive_width()) {
            (Some(offsets), _) => size_of_val(offsets) + (offsets[rows] - offsets[0]) as usize,
            (None, Some(width)) => rows * width,
            (None, None) => {
                return array.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
            }
        },
    };
    nulls + values
}

/// [`value_bytes`] of the array without a dictionary: of one with a dictionary of texts, in O(rows), those of each row's text.
pub fn flat_bytes(array: &dyn Array) -> usize {
    let Some(lens) = text_lens(array) else { return value_bytes(array) };
    let texts = lens.into_iter().fold(0, usize::saturating_add);
    texts.saturating_add((array.len() + 1) * size_of::<i32>() + array.len().div_ceil(8))
}

/// An upper bound of [`flat_bytes`], in O(values of the dictionary).
pub fn flat_bytes_max(array: &dyn Array) -> usize {
    match array.as_any_dictionary_opt().map(|by_code| string_offsets(by_code.values())) {
        Some(Some(offsets)) => {
            let row = size_of::<i32>() + 1 + longest(offsets);
            (array.len() + 1).saturating_mul(row)
        }
        _ => value_bytes(array),
    }
}

/// The length of the longest text, by the place where each begins and the end of the last. O(texts).
pub fn longest(offsets: &[i32]) -> usize {
    offsets.windows(2).fold(0, |most, ends| most.max(ends[1] - ends[0])) as usize
}

/// How long each row's text is, of an array with a dictionary of texts; nulls, wherever they lie, have no bytes. `None` for other
/// arrays. O(rows).
pub fn text_lens(array: &dyn Array) -> Option<Vec<usize>> {
    let by_code = array.as_any_dictionary_opt()?;
    let offsets = string_offsets(by_code.values())?;
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let len = |(row, code): (usize, usize)| match &nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => (offsets[code + 1] - offsets[code]) as usize,
    };
    match by_code.values().is_empty() {
        true => Some(vec![0; array.len()]),
        false => Some(by_code.normalized_keys().into_iter().enumerate().map(len).collect()),
    }
}

/// [`value_bytes`] of all columns.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| value_bytes(column)).fold(0, usize::saturating_add)
}

/// Where each string of a column of strings begins, and the end of the last; `None` for other columns.
pub fn string_offsets(array: &dyn Array) -> Option<&[i32]> {
    let texts = array.as_string_opt::<i32>().map(|texts| texts.value_offsets());
    texts.or_else(|| array.as_binary_opt::<i32>().map(|bytes| bytes.value_offsets()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray, StringViewArray};

    #[test]
    fn a_slice_has_the_bytes_of_its_own_values() {
        let strings = StringArray::from(vec!["abc", "de", "f", ""]);
        assert_eq!(value_bytes(&strings.slice(1, 2)), 3 * 4 + 3);
        let numbers = Int64Array::from(vec![Some(1), None, Some(3)]);
        assert_eq!(value_bytes(&numbers.slice(1, 1)), 8 + 1);
        assert_eq!(value_bytes(&BooleanArray::from(vec![true; 9])), 2);
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("abcd")]);
        lists.append_value([Some("ef"), Some("g")]);
        let lists: ArrayRef = Arc::new(lists.finish());
        assert_eq!(value_bytes(&lists.slice(1, 1)), 2 * 4 + 3 * 4 + 3);
        assert!(value_bytes(&StringViewArray::from(vec!["abc"])) >= 16, "of no table");
    }
}
