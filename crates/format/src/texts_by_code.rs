//! Columns of texts by code, as runs hold them: the distinct texts once, sorted, and of each row the number of its text.
//!
//! They are Arrow dictionaries with unsigned codes of one, two or four bytes. A row without a text has no code; texts are never null.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, StringArray, UInt8Array, UInt16Array, UInt32Array,
    new_null_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use arrow_select::take::take;

use crate::pick::{Pick, nulls_at};

/// Whether a column is one of texts by code.
pub fn is_by_code(array: &dyn Array) -> bool {
    matches!(array.data_type(), DataType::Dictionary(..))
}

/// The type of the codes of a list with `texts` texts.
fn code_type(texts: usize) -> DataType {
    match texts {
        ..=0x100 => DataType::UInt8,
        0x101..=0x1_0000 => DataType::UInt16,
        _ => DataType::UInt32,
    }
}

/// Bytes of a code of a list with `texts` texts.
pub fn code_bytes(texts: usize) -> usize {
    code_type(texts).primitive_width().expect("codes are numbers")
}

/// A column by code, of the code of each row; those of rows without a text are any. Panics if a code is past the last text.
pub fn of_codes(
    codes: impl Iterator<Item = u32>,
    nulls: Option<NullBuffer>,
    texts: &ArrayRef,
) -> ArrayRef {
    let codes: ArrayRef = match code_type(texts.len()) {
        DataType::UInt8 => {
            let codes: Vec<u8> = codes.map(|code| code as u8).collect();
            Arc::new(UInt8Array::new(codes.into(), nulls))
        }
        DataType::UInt16 => {
            let codes: Vec<u16> = codes.map(|code| code as u16).collect();
            Arc::new(UInt16Array::new(codes.into(), nulls))
        }
        _ => Arc::new(UInt32Array::new(codes.collect::<Vec<u32>>().into(), nulls)),
    };
    with_codes(&codes, texts)
}

/// The codes of a column by code. Panics on others.
pub(crate) fn codes_of(column: &ArrayRef) -> ArrayRef {
    column.as_any_dictionary().keys().slice(0, column.len())
}

/// A column of some codes, which are not past the last text.
pub(crate) fn with_codes(codes: &dyn Array, texts: &ArrayRef) -> ArrayRef {
    match codes.data_type() {
        DataType::UInt8 => with_codes_of::<UInt8Type>(codes, texts),
        DataType::UInt16 => with_codes_of::<UInt16Type>(codes, texts),
        _ => with_codes_of::<UInt32Type>(codes, texts),
    }
}

fn with_codes_of<T: ArrowDictionaryKeyType>(codes: &dyn Array, texts: &ArrayRef) -> ArrayRef {
    let codes = codes.as_primitive::<T>().clone();
    Arc::new(DictionaryArray::try_new(codes, texts.clone()).expect("codes are those of texts"))
}

/// A column of texts without codes; itself if it has none. O(bytes of the rows' texts).
pub fn plain(column: &ArrayRef) -> ArrayRef {
    let Some(by_code) = column.as_any_dictionary_opt() else { return column.clone() };
    if by_code.values().is_empty() || by_code.keys().null_count() == column.len() {
        return new_null_array(by_code.values().data_type(), column.len());
    }
    take(by_code.values(), by_code.keys(), None).expect("texts of some rows stay below 2 GiB")
}

/// The list of texts of a column by code.
pub fn texts_of(array: &dyn Array) -> Option<&ArrayRef> {
    array.as_any_dictionary_opt().map(|by_code| by_code.values())
}

/// Whether two lists of texts are one.
pub fn are_one(list: &ArrayRef, other: &ArrayRef) -> bool {
    Arc::as_ptr(list).addr() == Arc::as_ptr(other).addr()
}

/// The strings of a column, however it holds them, by row.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    /// Where each string begins, or each text of the list, and the end of the last.
    offsets: &'a [i32],
    bytes: &'a [u8],
    nulls: Option<&'a NullBuffer>,
    codes: Option<Codes<'a>>,
}

/// The codes of a column by code.
#[derive(Clone, Copy)]
pub(crate) enum Codes<'a> {
    Bytes1(&'a [u8]),
    Bytes2(&'a [u16]),
    Bytes4(&'a [u32]),
}

impl<'a> Codes<'a> {
    /// `None` of other columns.
    pub fn of(array: &'a dyn Array) -> Option<Codes<'a>> {
        let codes = array.as_any_dictionary_opt()?.keys();
        Some(match codes.data_type() {
            DataType::UInt8 => Codes::Bytes1(codes.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Codes::Bytes2(codes.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Codes::Bytes4(codes.as_primitive::<UInt32Type>().values()),
            _ => return None,
        })
    }

    /// The code of a row. It is any where the row has no text.
    #[inline]
    pub fn at(self, row: usize) -> usize {
        match self {
            Codes::Bytes1(codes) => usize::from(codes[row]),
            Codes::Bytes2(codes) => usize::from(codes[row]),
            Codes::Bytes4(codes) => codes[row] as usize,
        }
    }
}

impl<'a> Strings<'a> {
    /// `None` of columns of other types.
    pub fn of(array: &'a dyn Array) -> Option<Strings<'a>> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(strings) = array.as_binary_opt::<i32>() {
            let (offsets, bytes) = (strings.value_offsets(), strings.value_data());
            return Some(Strings { offsets, bytes, nulls, codes: None });
        }
        let (texts, codes) = match texts_of(array) {
            Some(list) => (list.as_string_opt::<i32>()?, Some(Codes::of(array)?)),
            None => (array.as_string_opt::<i32>()?, None),
        };
        Some(Strings { offsets: texts.value_offsets(), bytes: texts.value_data(), nulls, codes })
    }

    /// Which of the offsets the string of a row begins at; `None` is null.
    #[inline]
    fn place(&self, row: usize) -> Option<usize> {
        match self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            true => None,
            false => Some(self.codes.map_or(row, |codes| codes.at(row))),
        }
    }

    /// The string of a row; `None` is null. O(1).
    #[inline]
    pub fn at(&self, row: usize) -> Option<&'a [u8]> {
        let at = self.place(row)?;
        Some(&self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize])
    }

    /// Bytes of the string of a row. O(1).
    #[inline]
    pub fn byte_len(&self, row: usize) -> usize {
        self.place(row).map_or(0, |at| (self.offsets[at + 1] - self.offsets[at]) as usize)
    }

    /// Bytes of the strings of some rows: O(1), of texts by code O(rows).
    pub fn bytes_in(&self, rows: Range<usize>) -> usize {
        match self.codes {
            None => (self.offsets[rows.end] - self.offsets[rows.start]) as usize,
            Some(_) => rows.map(|row| self.byte_len(row)).sum(),
        }
    }
}

/// Texts of several columns, some of which are by code: by code if all have one list, else plain. `None` if
/// no column is by code. Panics if they take more than 2 GiB.
pub fn interleaved(
    columns: &[&dyn Array],
    picks: &[Pick],
    interleave: impl Fn(&[&dyn Array]) -> ArrayRef,
) -> Option<ArrayRef> {
    let mut list: Option<&ArrayRef> = None;
    let mut is_one = true;
    for column in columns {
        match texts_of(*column) {
            Some(_) if column.null_count() == column.len() => {}
            Some(texts) => is_one &= are_one(list.get_or_insert(texts), texts),
            None => is_one = false,
        }
        is_one &= column.data_type() == columns[0].data_type();
    }
    if !columns.iter().any(|column| is_by_code(*column)) {
        return None;
    }
    match list {
        Some(list) if is_one => {
            let codes: Vec<&dyn Array> =
                columns.iter().map(|column| column.as_any_dictionary().keys() as _).collect();
            Some(with_codes(&interleave(&codes), list))
        }
        _ => Some(picked(columns, picks)),
    }
}

/// Texts of several columns, by code or not. Panics if they take more than 2 GiB.
pub fn picked(columns: &[&dyn Array], picks: &[Pick]) -> ArrayRef {
    let (offsets, bytes) = bytes_at(columns, picks);
    let texts = StringArray::try_new(offsets, bytes, nulls_at(columns, picks));
    Arc::new(texts.expect("texts are whole"))
}

/// The strings at `picks`, one behind the other, and where each begins and the last ends. Panics if they take more than 2 GiB.
pub(crate) fn bytes_at(columns: &[&dyn Array], picks: &[Pick]) -> (OffsetBuffer<i32>, Buffer) {
    let strings: Vec<Strings<'_>> =
        columns.iter().map(|column| Strings::of(*column).expect("columns of strings")).collect();
    // Of plain columns without nulls, as most are, there is less to look at per row.
    if strings.iter().all(|strings| strings.nulls.is_none() && strings.codes.is_none()) {
        let of_row = |strings: &Strings<'_>, row: usize| {
            strings.offsets[row] as usize..strings.offsets[row + 1] as usize
        };
        return joined(picks.iter().map(|pick| {
            let strings = &strings[pick.part()];
            &strings.bytes[of_row(strings, pick.row())]
        }));
    }
    joined(picks.iter().map(|pick| strings[pick.part()].at(pick.row()).unwrap_or_default()))
}

fn joined<'s>(
    strings: impl ExactSizeIterator<Item = &'s [u8]> + Clone,
) -> (OffsetBuffer<i32>, Buffer) {
    let mut end = 0;
    let ends = strings.clone().map(|string| {
        end += string.len();
        end as i32
    });
    let offsets: Vec<i32> = iter::once(0).chain(ends).collect();
    assert!(i32::try_from(end).is_ok(), "strings of some rows stay below 2 GiB");
    let mut bytes = Vec::with_capacity(end);
    strings.for_each(|string| bytes.extend_from_slice(string));
    (OffsetBuffer::new(offsets.into()), Buffer::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, BooleanArray};
    use arrow_select::interleave::interleave;

    use super::*;

    fn list(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    fn column(codes: &[Option<u32>], texts: &ArrayRef) -> ArrayRef {
        let nulls = NullBuffer::from_iter(codes.iter().map(Option::is_some));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        of_codes(codes.iter().map(|code| code.unwrap_or(0)), nulls, texts)
    }

    #[test]
    fn codes_have_as_few_bytes_as_their_list_needs() {
        for (texts, bytes) in [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)] {
            let all: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..texts).map(|at| format!("{at:06}"))));
            let codes = (0..texts as u32).map(Some).chain([None]).collect::<Vec<_>>();
            let held = column(&codes, &all);
            let width = held.as_any_dictionary().keys().data_type().primitive_width();
            assert_eq!((width, code_bytes(texts)), (Some(bytes), bytes));
            let back = plain(&held);
            assert_eq!(back.as_string::<i32>().value(texts - 1), format!("{:06}", texts - 1));
            assert!(back.is_null(texts));
            assert_eq!(back.slice(0, texts).as_ref(), all.as_ref());
        }
    }

    #[test]
    fn strings_are_the_same_by_code_and_plain() {
        let held = column(&[Some(1), None, Some(0), Some(2)], &list(&["", "a", "long one"]));
        let flat = plain(&held);
        let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
            Some(b"a".as_slice()),
            None,
            Some(b""),
            Some(b"long one"),
        ]));
        let all = [Strings::of(&held), Strings::of(&flat), Strings::of(&bytes)];
        for strings in all.map(Option::unwrap) {
            let rows: Vec<_> = (0..4).map(|row| strings.at(row)).collect();
            assert_eq!(rows, [Some(&b"a"[..]), None, Some(b""), Some(b"long one")]);
            assert_eq!((0..4).map(|row| strings.byte_len(row)).collect::<Vec<_>>(), [1, 0, 0, 8]);
            assert_eq!((strings.bytes_in(0..4), strings.bytes_in(1..3)), (9, 0));
        }
        assert!(Strings::of(&BooleanArray::from(vec![true])).is_none());
    }

    #[test]
    fn rows_of_one_list_stay_by_code_and_others_become_plain() {
        let (first, other) = (list(&["a", "b"]), list(&["b", "c"]));
        let one = column(&[Some(0), Some(1)], &first);
        let same = column(&[None, Some(0)], &first);
        let apart = column(&[Some(1), Some(0)], &other);
        let flat = list(&["d", "e"]);
        let nulls = new_null_array(one.data_type(), 2);
        let pairs = [(1, 1), (0, 1), (1, 0), (0, 0)];
        let picks = pairs.map(|(part, row)| Pick::new(part, row));
        let of = |columns: [&ArrayRef; 2]| {
            let columns: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
            let mixed = |arrays: &[&dyn Array]| interleave(arrays, &pairs).unwrap();
            let rows = interleaved(&columns, &picks, mixed)?;
            let by_code = is_by_code(&rows);
            let texts = plain(&rows);
            let texts = texts.as_string::<i32>().iter().map(|text| text.unwrap_or("-"));
            Some((by_code, texts.collect::<Vec<_>>().join(" ")))
        };
        assert_eq!(of([&one, &same]), Some((true, "a b - a".into())));
        assert_eq!(of([&one, &nulls]), Some((true, "- b - a".into())));
        assert_eq!(of([&one, &apart]), Some((false, "b b c a".into())));
        assert_eq!(of([&one, &flat]), Some((false, "e b d a".into())));
        assert_eq!(of([&nulls, &nulls]), Some((false, "- - - -".into())));
        assert_eq!(of([&flat, &flat]), None);
    }
}
