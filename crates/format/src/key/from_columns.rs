//! Keys out of columns of values.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use smallvec::SmallVec;

use crate::key::encoding::{
    END, NULL, PRESENT, needs_escape, number_of, payload_width, put_string, string_len,
};
use crate::key::fixed::{Fixed, with_fixed_type};
use crate::key::key_writer::KeyWriter;
use crate::key::keys::{Keys, offset};
use crate::key::text::Text;

/// Encodes one key per row from key columns of equal length, most significant first.
///
/// O(bytes). Texts may come as dictionaries. Panics if the keys exceed 2 GiB.
pub fn encode_keys(columns: &[ArrayRef]) -> Keys {
    let row_count = columns.first().map_or(0, |column| column.len());
    assert!(columns.iter().all(|column| column.len() == row_count), "key columns differ in length");
    if let Some(widths) = even_widths(columns) {
        return encode_even(columns, &widths, row_count);
    }
    put_plain(&columns.iter().map(Payloads::of).collect::<Vec<_>>(), row_count)
}

/// [`encode_keys`] of columns that are not all of one length.
pub(super) fn put_plain(payloads: &[Payloads<'_>], row_count: usize) -> Keys {
    let bytes_max = payloads.iter().map(|column| column.bytes_max(row_count)).sum();
    let mut out = KeyWriter::new(bytes_max);
    let mut offsets = Vec::with_capacity(row_count + 1);
    offsets.push(0);
    for row in 0..row_count {
        // Nulls at the end of a key are dropped.
        let kept = payloads.iter().rposition(|column| !column.is_null(row)).map_or(0, |at| at + 1);
        payloads[..kept].iter().for_each(|column| column.put(row, &mut out));
        offsets.push(offset(out.len()));
    }
    Keys::new(offsets, out.finish())
}

/// The length of each column's values, tags included, where no value is a string or null.
pub(super) fn even_widths(columns: &[ArrayRef]) -> Option<SmallVec<[usize; 8]>> {
    let width = |column: &ArrayRef| match column.null_count() {
        0 => payload_width(column.data_type()).map(|width| 1 + width),
        _ => None,
    };
    columns.iter().map(width).collect()
}

/// [`encode_keys`] of columns with values of these lengths: no key needs its place looked up.
fn encode_even(columns: &[ArrayRef], widths: &[usize], row_count: usize) -> Keys {
    let width: usize = widths.iter().sum();
    assert!(i32::try_from(row_count * width).is_ok(), "the keys of one batch exceed 2 GiB");
    let mut bytes = vec![PRESENT; row_count * width];
    let mut begin = 0;
    for (column, column_width) in columns.iter().zip(widths) {
        // Behind the tag.
        let payload = begin + 1..begin + column_width;
        let payloads = bytes.chunks_exact_mut(width).map(|key| &mut key[payload.clone()]);
        match column.data_type() {
            DataType::Boolean => {
                let values = column.as_boolean().values();
                payloads.zip(values).for_each(|(payload, value)| payload[0] = u8::from(value));
            }
            data_type => with_fixed_type!(data_type, T => {
                let values = column.as_primitive::<T>().values();
                payloads.zip(values).for_each(|(payload, value)| value.put_ordered(payload));
            }, panic!("{data_type} is not a key type of one length")),
        }
        begin += column_width;
    }
    Keys::even(row_count, width, bytes)
}

/// The payloads of one column's values, which they write behind their tags, found by row.
pub(crate) struct Payloads<'c> {
    /// Of texts without their ends.
    bytes: Cow<'c, [u8]>,
    places: Places<'c>,
    /// By row, if some are null.
    nulls: Option<NullBuffer>,
    are_texts: bool,
}

/// Where payloads lie.
enum Places<'c> {
    /// One behind the other, each of this length in bytes.
    Even(usize),
    /// Of texts: where each begins, and the end of the last.
    Texts(Cow<'c, [i32]>),
    /// Of texts that occur several times: the number of each row's text, and where texts begin.
    Codes(Vec<usize>, Cow<'c, [i32]>),
}

impl<'c> Payloads<'c> {
    /// O(bytes of the values), of texts O(bytes / 16) or so, unless some must be escaped.
    pub fn of(column: &'c ArrayRef) -> Payloads<'c> {
        Payloads::with_texts(column, texts)
    }

    /// Of texts as they are, which stand in no key. O(1), of a dictionary O(rows).
    pub fn of_texts(column: &'c ArrayRef) -> Payloads<'c> {
        Payloads::with_texts(column, |array| {
            let texts = array.as_string::<i32>();
            (texts.value_data().into(), texts.value_offsets().into())
        })
    }

    fn with_texts(
        column: &'c ArrayRef,
        texts: impl Fn(&'c dyn Array) -> (Cow<'c, [u8]>, Cow<'c, [i32]>),
    ) -> Payloads<'c> {
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let (bytes, places) = match column.data_type() {
            DataType::Utf8 => {
                let (bytes, offsets) = texts(column);
                (bytes, Places::Texts(offsets))
            }
            DataType::Dictionary(..)
                if nulls.as_ref().is_some_and(|nulls| nulls.null_count() == nulls.len()) =>
            {
                (Cow::Borrowed(&[][..]), Places::Even(0))
            }
            DataType::Dictionary(..) => {
                let column = column.as_any_dictionary();
                let (bytes, offsets) = texts(column.values());
                (bytes, Places::Codes(column.normalized_keys(), offsets))
            }
            DataType::Boolean => {
                let values = column.as_boolean().values();
                (Cow::Owned(values.iter().map(u8::from).collect()), Places::Even(1))
            }
            data_type => with_fixed_type!(data_type, T => {
                let width = <T as ArrowPrimitiveType>::Native::WIDTH;
                let values = column.as_primitive::<T>().values();
                let mut bytes = vec![0; values.len() * width];
                let payloads = bytes.chunks_exact_mut(width);
                payloads.zip(values).for_each(|(payload, value)| value.put_ordered(payload));
                (Cow::Owned(bytes), Places::Even(width))
            }, panic!("{data_type} is not a key type")),
        };
        let are_texts = payload_width(column.data_type()).is_none();
        Payloads { bytes, places, nulls, are_texts }
    }

    pub fn are_texts(&self) -> bool {
        self.are_texts
    }

    /// The number of each row's text, of texts that come as a dictionary.
    pub fn entries(&self) -> Option<&[usize]> {
        match &self.places {
            Places::Codes(codes, _) => Some(codes),
            Places::Even(_) | Places::Texts(_) => None,
        }
    }

    /// The text with a number, without its end. Panics unless the values are texts.
    #[inline]
    pub fn entry(&self, number: usize) -> Text<'_> {
        let (Places::Texts(offsets) | Places::Codes(_, offsets)) = &self.places else {
            unreachable!("asked of texts")
        };
        let (begin, end) = (offsets[number] as usize, offsets[number + 1] as usize);
        Text::within(&self.bytes, begin, end - begin)
    }

    /// The text of a row, without its end; `None` is null.
    #[inline]
    pub fn text(&self, row: usize) -> Option<Text<'_>> {
        (!self.is_null(row)).then(|| match &self.places {
            Places::Codes(codes, _) => self.entry(codes[row]),
            Places::Texts(_) | Places::Even(_) => self.entry(row),
        })
    }

    /// The payloads of all rows as numbers that have the same order; `None` is null. They have eight bytes or fewer.
    pub fn numbers(&self, rows: usize) -> impl Iterator<Item = Option<u64>> {
        let Places::Even(width) = self.places else { unreachable!("asked of numbers") };
        let payloads = self.bytes.chunks_exact(width).take(rows);
        payloads.enumerate().map(|(row, payload)| (!self.is_null(row)).then(|| number_of(payload)))
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// An upper bound of the bytes that the values take in keys. O(rows) where texts occur several times.
    pub fn bytes_max(&self, rows: usize) -> usize {
        rows + match &self.places {
            Places::Even(width) => rows * width,
            Places::Texts(offsets) => rows + (offsets[rows] - offsets[0]) as usize,
            Places::Codes(codes, offsets) => {
                let len = |row: usize| (offsets[codes[row] + 1] - offsets[codes[row]]) as usize;
                let present = (0..rows).filter(|&row| !self.is_null(row));
                rows + present.map(len).sum::<usize>()
            }
        }
    }

    /// Writes the tag and the payload of a row.
    #[inline]
    pub(super) fn put(&self, row: usize, out: &mut KeyWriter) {
        if self.is_null(row) {
            out.push(NULL);
            return;
        }
        out.push(PRESENT);
        let mut put_text = |text: usize, offsets: &[i32]| {
            let (begin, end) = (offsets[text] as usize, offsets[text + 1] as usize);
            out.copy(&self.bytes, begin, end - begin);
            out.push(END);
        };
        match &self.places {
            Places::Even(width) => out.copy(&self.bytes, row * width, *width),
            Places::Texts(offsets) => put_text(row, offsets),
            Places::Codes(codes, offsets) => put_text(codes[row], offsets),
        }
    }
}

/// The bytes of texts as keys have them, and where they begin in them: those of the array itself, unless some are escaped.
fn texts(array: &dyn Array) -> (Cow<'_, [u8]>, Cow<'_, [i32]>) {
    let texts = array.as_string::<i32>();
    let offsets = texts.value_offsets();
    let bytes = texts.value_data();
    let used = &bytes[offsets[0] as usize..offsets[texts.len()] as usize];
    // Without an early end, so that many bytes are looked at in one instruction.
    let least = used.iter().fold(u8::MAX, |least, byte| least.min(*byte));
    if !needs_escape(least) {
        return (bytes.into(), offsets.into());
    }
    let mut escaped = Vec::with_capacity(used.len() + used.len() / 8);
    let mut begins = Vec::with_capacity(offsets.len());
    begins.push(0);
    for ends in offsets.windows(2) {
        let text = &bytes[ends[0] as usize..ends[1] as usize];
        let begin = escaped.len();
        escaped.resize(begin + string_len(text), 0);
        put_string(text, &mut escaped[begin..]);
        // The end is put behind each text that is used.
        escaped.pop();
        begins.push(offset(escaped.len()));
    }
    (escaped.into(), begins.into())
}
