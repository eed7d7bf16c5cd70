//! A stream page: the values of one column of one group of rows.
//!
//! Integers, times and booleans are [words](crate::streams::words), texts are words too: codes into the segment's
//! [dictionary](crate::dictionary). Floats that are short decimals, as most prices and measurements are, are
//! words after they were multiplied by a power of ten; those few that are not are listed. After *ALP* (Afroozeh, Kuffo
//! and Boncz, SIGMOD 2023), with one division, which rounds correctly, in place of two multiplications.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::byte_bounds;
use crate::cursor::{Cursor, put_u16, put_u32};
use crate::error::{FormatError, Result};
use crate::key::fixed::{Fixed, with_fixed_type};
use crate::streams::group::GROUP_ROWS_MAX;
use crate::streams::words::{WordsView, put_words};

// Which rows have a value.
const ALL: u8 = 0;
const NONE: u8 = 1;
/// Said by one bit per row, set where it has one.
const BITMAP: u8 = 2;
// How the values are written.
const PLAIN: u8 = 1;
const WORDS: u8 = 2;

const PAGE: &str = "stream page";
/// Codes of nulls that are handed out at once, where a page has nothing else.
const NULLS_TOGETHER: usize = 1024;

/// Floats that a power of ten is chosen by.
const TRIED: usize = 256;
/// One float in sixteen may be an exception.
const EXCEPTION_SHARE: usize = 16;

/// Whether a column of this type can be a stream.
pub fn is_streamable(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Binary | DataType::List(_) | DataType::Null)
}

/// Some values as words.
struct Worded<N> {
    words: Vec<u64>,
    /// The power of ten that they were multiplied by.
    scale: u8,
    /// The values that have no word.
    exceptions: Vec<(u16, N)>,
}

/// Words of almost all values, if they have such. What stands for a null does not matter.
fn words_of<N: Fixed>(values: &[N], is_valid: impl Fn(usize) -> bool) -> Option<Worded<N>> {
    if N::IS_INTEGER {
        let words =
            (0..values.len()).map(|at| is_valid(at).then(|| values[at].distance_from(N::least())));
        return Some(Worded { words: without_gaps(words), scale: 0, exceptions: Vec::new() });
    }
    // Not at even distances: values may repeat at such.
    let apart = values.len().div_ceil(TRIED);
    let tried: Vec<N> = (0..values.len() / apart)
        .map(|nth| nth * apart + nth % apart)
        .filter(|&at| is_valid(at))
        .map(|at| values[at])
        .collect();
    let failures = |scale: &u8| tried.iter().filter(|value| value.scaled(*scale).is_none()).count();
    let scale = (0..N::SCALES).min_by_key(failures)?;
    let mut exceptions = Vec::new();
    let words = without_gaps((0..values.len()).map(|at| {
        let found = is_valid(at).then(|| values[at].scaled(scale))?;
        if found.is_none() {
            exceptions.push((at as u16, values[at]));
        }
        found.map(signed_word)
    }));
    let is_worth = exceptions.len() <= values.len() / EXCEPTION_SHARE;
    is_worth.then_some(Worded { words, scale, exceptions })
}

#[inline]
fn of_word<N: Fixed>(word: u64, scale: u8) -> N {
    if N::IS_INTEGER { N::least().plus(word) } else { N::of_scaled(signed_of(word), scale) }
}

fn signed_word(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

#[inline]
fn signed_of(word: u64) -> i64 {
    (word ^ 1 << 63) as i64
}

/// Words in which a gap is filled with what stands before it, so that it costs nothing.
fn without_gaps(words: impl Iterator<Item = Option<u64>>) -> Vec<u64> {
    let (mut filled, mut last, mut leading) = (Vec::with_capacity(words.size_hint().0), None, 0);
    for word in words {
        if last.is_none() {
            match word {
                Some(first) => filled.resize(leading, first),
                None => leading += 1,
            }
        }
        last = word.or(last);
        filled.extend(last);
    }
    if last.is_none() {
        filled.resize(leading, 0);
    }
    filled
}

/// Appends the payload of the page of a column that is no text. At most [`GROUP_ROWS_MAX`] values; O(values).
pub fn put_values(column: &dyn Array, out: &mut Vec<u8>) {
    if !put_presence(column, out) {
        return;
    }
    let is_valid = |at: usize| column.is_valid(at);
    if let Some(values) = column.as_boolean_opt() {
        let words = values.iter().map(|value| value.map(u64::from));
        put_worded(
            Worded::<i64> { words: without_gaps(words), scale: 0, exceptions: Vec::new() },
            out,
        );
        return;
    }
    with_fixed_type!(column.data_type(), T => {
        let values = column.as_primitive::<T>().values();
        put_fixed(values, is_valid, out);
    }, panic!("{} is not streamed by its values", column.data_type()));
}

/// Appends the payload of the page of a column of texts, each of which has its code in the dictionary; those of nulls do not
/// matter.
pub fn put_codes(column: &StringArray, codes: &[u32], out: &mut Vec<u8>) {
    if !put_presence(column, out) {
        return;
    }
    let words = (0..column.len()).map(|at| column.is_valid(at).then(|| codes[at].into()));
    put_worded(Worded::<i64> { words: without_gaps(words), scale: 0, exceptions: Vec::new() }, out);
}

/// Appends which rows have a value; says whether any has.
fn put_presence(column: &dyn Array, out: &mut Vec<u8>) -> bool {
    put_u32(out, u32::try_from(column.len()).expect("a group has few rows"));
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => out.push(ALL),
        Some(nulls) if nulls.null_count() == nulls.len() => {
            out.push(NONE);
            return false;
        }
        Some(nulls) => {
            out.push(BITMAP);
            out.extend_from_slice(
                nulls
                    .inner()
                    .sliced()
                    .as_slice()
                    .get(..nulls.len().div_ceil(8))
                    .expect("one bit per row"),
            );
            if !nulls.len().is_multiple_of(8)
                && let Some(last) = out.last_mut()
            {
                *last &= (1 << (nulls.len() % 8)) - 1;
            }
        }
    }
    true
}

fn put_fixed<N: Fixed>(values: &[N], is_valid: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    let start = out.len();
    if let Some(worded) = words_of(values, is_valid) {
        put_worded(worded, out);
        if out.len() - start < 1 + values.len() * N::WIDTH {
            return;
        }
        out.truncate(start);
    }
    out.push(PLAIN);
    values.iter().for_each(|value| value.put_le(out));
}

fn put_worded<N: Fixed>(worded: Worded<N>, out: &mut Vec<u8>) {
    out.push(WORDS);
    out.push(worded.scale);
    put_u16(out, worded.exceptions.len() as u16);
    for (at, value) in worded.exceptions {
        put_u16(out, at);
        value.put_le(out);
    }
    put_words(&worded.words, out);
}

/// A stream page, opened for reading.
#[derive(Debug, Clone)]
pub struct StreamView<'a> {
    rows: usize,
    presence: Presence<'a>,
    values: Values<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Presence<'a> {
    All,
    None,
    Bitmap(&'a [u8]),
}

#[derive(Debug, Clone)]
enum Values<'a> {
    Plain(&'a [u8]),
    Words {
        scale: u8,
        /// Positions and values, each as wide.
        exceptions: &'a [u8],
        words: WordsView<'a>,
    },
}

impl<'a> StreamView<'a> {
    /// Opens a page of a column of this type. O(frames); fails if its parts do not fill it.
    pub fn parse(payload: &'a [u8], data_type: &DataType) -> Result<StreamView<'a>> {
        let mut cursor = Cursor::new(payload, PAGE);
        let rows = cursor.u32()?;
        if u64::from(rows) > GROUP_ROWS_MAX {
            return Err(cursor.error(format!("{rows} rows")));
        }
        let rows = rows as usize;
        let presence = match cursor.u8()? {
            ALL => Presence::All,
            NONE => {
                cursor.finish()?;
                return Ok(StreamView {
                    rows,
                    presence: Presence::None,
                    values: Values::Plain(&[]),
                });
            }
            BITMAP => Presence::Bitmap(cursor.take(rows.div_ceil(8))?),
            other => return Err(cursor.error(format!("presence {other}"))),
        };
        let width = width(data_type);
        let values = match cursor.u8()? {
            PLAIN if width.is_some_and(|width| cursor.rest().len() == rows * width) => {
                Values::Plain(cursor.rest())
            }
            WORDS => {
                let scale = cursor.u8()?;
                if scale > 0 && scale >= scales(data_type) {
                    return Err(cursor.error(format!("scale {scale}")));
                }
                let count = usize::from(cursor.u16()?);
                let exceptions = match (count, width) {
                    (0, _) => &[][..],
                    (_, Some(width)) => cursor.take(count * (2 + width))?,
                    (_, None) => return Err(cursor.error("exceptions without a width")),
                };
                let words = WordsView::parse(cursor.rest(), rows)?;
                Values::Words { scale, exceptions, words }
            }
            other => return Err(cursor.error(format!("encoding {other}"))),
        };
        Ok(StreamView { rows, presence, values })
    }

    /// The rows of the group, nulls included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Calls `each` with the codes of the texts `from..to`, some at a time, and the row of the first: any code for a null. Fails if the
    /// column is none of texts.
    pub fn for_each_code(
        &self,
        from: usize,
        to: usize,
        mut each: impl FnMut(usize, &[u64]),
    ) -> Result<()> {
        assert!(from <= to && to <= self.rows, "rows {from}..{to} of {}", self.rows);
        match (self.presence, &self.values) {
            (Presence::None, _) => {
                let codes = [0; NULLS_TOGETHER];
                for row in (from..to).step_by(NULLS_TOGETHER) {
                    each(row, &codes[..NULLS_TOGETHER.min(to - row)]);
                }
                Ok(())
            }
            (_, Values::Words { words, .. }) => words.for_each(from, to, each),
            (_, Values::Plain(_)) => Err(malformed("a column without codes")),
        }
    }

    /// Calls `each` with the rows from `from` to `to` that have a code. Fails if the column is none of texts.
    pub fn find_code(
        &self,
        from: usize,
        to: usize,
        code: u64,
        mut each: impl FnMut(usize),
    ) -> Result<()> {
        assert!(from <= to && to <= self.rows, "rows {from}..{to} of {}", self.rows);
        match (self.presence, &self.values) {
            (Presence::None, _) => Ok(()),
            (_, Values::Words { words, .. }) => words.find(from, to, code, |row| {
                // A null has any code.
                if !self.is_null(row) {
                    each(row);
                }
            }),
            (_, Values::Plain(_)) => Err(malformed("a column without codes")),
        }
    }

    /// Whether a row has no value.
    pub fn is_null(&self, row: usize) -> bool {
        match self.presence {
            Presence::All => false,
            Presence::None => true,
            Presence::Bitmap(bits) => bits[row / 8] >> (row % 8) & 1 == 0,
        }
    }

    /// Whether any row has no value.
    pub fn has_nulls(&self) -> bool {
        !matches!(self.presence, Presence::All)
    }

    /// The values `from..to`. Texts are looked up in `dictionary`. O(values) in typed loops; fails on a code that it does
    /// not have.
    pub fn decode(
        &self,
        from: usize,
        to: usize,
        data_type: &DataType,
        dictionary: Option<&StringArray>,
    ) -> Result<ArrayRef> {
        assert!(from <= to && to <= self.rows, "rows {from}..{to} of {}", self.rows);
        let nulls = match self.presence {
            Presence::All => None,
            Presence::None => return Ok(new_null_array(data_type, to - from)),
            Presence::Bitmap(bits) => {
                let bytes = Buffer::from(&bits[from / 8..to.div_ceil(8)]);
                Some(NullBuffer::new(BooleanBuffer::new(bytes, from % 8, to - from)))
            }
        };
        match (data_type, &self.values) {
            (DataType::Boolean, Values::Words { words, .. }) => {
                let mut values = Vec::with_capacity(to - from);
                words.for_each(from, to, |_, words| {
                    values.extend(words.iter().map(|&word| word != 0));
                })?;
                let values = BooleanBuffer::collect_bool(values.len(), |at| values[at]);
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            (DataType::Utf8, Values::Words { words, .. }) => {
                let entries = dictionary.ok_or_else(|| malformed("codes without a dictionary"))?;
                Ok(Arc::new(texts(words, from, to, entries, nulls)?))
            }
            (DataType::Boolean | DataType::Utf8 | DataType::Binary, _) => {
                Err(malformed("plain values of a type without a width"))
            }
            (data_type, values) => with_fixed_type!(data_type, T => {
                let values = fixed::<T>(values, from, to)?;
                let array = PrimitiveArray::<T>::new(values.into(), nulls);
                Ok(Arc::new(array.with_data_type(data_type.clone())))
            }, Err(malformed(format!("a stream of type {data_type}")))),
        }
    }
}

fn fixed<T: ArrowPrimitiveType<Native: Fixed>>(
    values: &Values<'_>,
    from: usize,
    to: usize,
) -> Result<Vec<T::Native>> {
    let width = T::Native::WIDTH;
    match values {
        Values::Plain(bytes) => Ok(bytes[from * width..to * width]
            .chunks_exact(width)
            .map(T::Native::read_le)
            .collect()),
        Values::Words { scale, exceptions, words } => {
            let mut values = Vec::with_capacity(to - from);
            words.for_each(from, to, |_, words| {
                values.extend(words.iter().map(|&word| of_word::<T::Native>(word, *scale)));
            })?;
            for exception in exceptions.chunks_exact(2 + width) {
                let (at, value) = exception.split_at(2);
                let at = usize::from(u16::from_le_bytes(at.try_into().expect("two bytes")));
                if (from..to).contains(&at) {
                    values[at - from] = T::Native::read_le(value);
                }
            }
            Ok(values)
        }
    }
}

/// The entries that the codes `from..to` stand for.
fn texts(
    words: &WordsView<'_>,
    from: usize,
    to: usize,
    entries: &StringArray,
    nulls: Option<NullBuffer>,
) -> Result<StringArray> {
    let (ends, bytes) = (entries.value_offsets(), entries.value_data());
    let mut offsets = Vec::with_capacity(to - from + 1);
    offsets.push(0i32);
    let mean = bytes.len() / entries.len().max(1) + 1;
    let mut copied: Vec<u8> = Vec::with_capacity((to - from) * mean);
    let (mut unknown, mut too_long) = (None, false);
    words.for_each(from, to, |_, codes| {
        for &code in codes {
            if too_long {
                return;
            }
            let Some(&[start, end]) =
                usize::try_from(code).ok().and_then(|code| ends.get(code..)?.first_chunk::<2>())
            else {
                unknown = Some(code);
                return;
            };
            copied.extend_from_slice(&bytes[start as usize..end as usize]);
            too_long = copied.len() > byte_bounds::array();
            offsets.push(copied.len() as i32);
        }
    })?;
    if let Some(code) = unknown {
        return Err(malformed(format!("code {code} in a dictionary of {}", entries.len())));
    }
    if too_long {
        return Err(malformed("its strings do not fit an array"));
    }
    // Each string is an entry, which is checked already; Arrow checks again, which costs a pass over the bytes.
    StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from(copied), nulls)
        .map_err(|_| malformed("a string is not UTF-8"))
}

/// Bytes of a value written by itself, of a type of fixed width.
fn width(data_type: &DataType) -> Option<usize> {
    with_fixed_type!(data_type, T => Some(<T as ArrowPrimitiveType>::Native::WIDTH), None)
}

/// How many powers of ten values of a type may be multiplied by.
fn scales(data_type: &DataType) -> u8 {
    with_fixed_type!(data_type, T => <T as ArrowPrimitiveType>::Native::SCALES, 0)
}

#[cold]
fn malformed(detail: impl Into<String>) -> FormatError {
    FormatError::malformed(PAGE, detail)
}
