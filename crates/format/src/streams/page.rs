//! A stream page: the values of one column of one group of rows.
//!
//! Integers, times and booleans are [words](crate::streams::words), texts are words too: codes into the segment's
//! [dictionary](crate::streams::dictionary). Floats that are short decimals, as most prices and measurements are, are
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
/// Said by one bit a row, set where it has one.
const BITMAP: u8 = 2;
// How the values are written.
const PLAIN: u8 = 1;
const WORDS: u8 = 2;

const PAGE: &str = "stream page";

/// Powers of ten that a float is multiplied by at most. All are exact, so a division by one rounds once.
const POWERS: [f64; 15] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];
/// Integers below it are exact as floats.
const EXACT: f64 = (1u64 << 53) as f64;
/// Floats that a power of ten is chosen by.
const TRIED: usize = 256;
/// Of so many floats one may be an exception.
const EXCEPTION_SHARE: usize = 16;

/// Whether a column of this type can be a stream.
pub fn is_streamable(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Binary | DataType::List(_))
}

/// Some values as words.
struct Worded<N> {
    words: Vec<u64>,
    /// The power of ten that they were multiplied by.
    scale: u8,
    /// The values that have no word.
    exceptions: Vec<(u16, N)>,
}

/// A value of fixed width that may have a word.
trait ToWord: Fixed + Default {
    /// Words for almost all values, if there are; what stands for a null does not matter.
    fn words(values: &[Self], is_valid: impl Fn(usize) -> bool) -> Option<Worded<Self>>;
    fn from_word(word: u64, scale: u8) -> Self;
}

macro_rules! integers_to_words {
    ($($native:ty as $unsigned:ty),*) => {$(
        impl ToWord for $native {
            fn words(values: &[Self], is_valid: impl Fn(usize) -> bool) -> Option<Worded<Self>> {
                // In the order of the integers: `MIN` has exactly the sign bit set, or nothing where there is no sign.
                let word = |value: Self| u64::from(value as $unsigned ^ <$native>::MIN as $unsigned);
                let words = (0..values.len()).map(|at| is_valid(at).then(|| word(values[at])));
                Some(Worded { words: without_gaps(words), scale: 0, exceptions: Vec::new() })
            }
            #[inline]
            fn from_word(word: u64, _: u8) -> Self {
                (word as $unsigned ^ <$native>::MIN as $unsigned) as $native
            }
        }
    )*};
}

integers_to_words!(i8 as u8, i16 as u16, i32 as u32, i64 as u64);
integers_to_words!(u8 as u8, u16 as u16, u32 as u32, u64 as u64);

impl ToWord for i128 {
    /// Only where all fit 64 bits.
    fn words(values: &[Self], is_valid: impl Fn(usize) -> bool) -> Option<Worded<Self>> {
        let narrow: Option<Vec<Option<u64>>> = (0..values.len())
            .map(|at| match is_valid(at) {
                true => i64::try_from(values[at]).ok().map(|value| Some(signed_word(value))),
                false => Some(None),
            })
            .collect();
        let words = without_gaps(narrow?.into_iter());
        Some(Worded { words, scale: 0, exceptions: Vec::new() })
    }
    fn from_word(word: u64, _: u8) -> Self {
        i128::from(signed_of(word))
    }
}

macro_rules! floats_to_words {
    ($($native:ty),*) => {$(
        impl ToWord for $native {
            fn words(values: &[Self], is_valid: impl Fn(usize) -> bool) -> Option<Worded<Self>> {
                let word = |value: Self, scale: u8| {
                    let scaled = (f64::from(value) * POWERS[usize::from(scale)]).round();
                    let word = signed_word(scaled as i64);
                    let is_exact = scaled.abs() < EXACT
                        && Self::from_word(word, scale).to_bits() == value.to_bits();
                    is_exact.then_some(word)
                };
                // Not at even distances: values may repeat at such.
                let apart = values.len().div_ceil(TRIED);
                let tried: Vec<Self> = (0..values.len() / apart)
                    .map(|nth| nth * apart + nth % apart)
                    .filter(|&at| is_valid(at))
                    .map(|at| values[at])
                    .collect();
                let failures = |scale: &u8| {
                    tried.iter().filter(|value| word(**value, *scale).is_none()).count()
                };
                let scale = (0..POWERS.len() as u8).min_by_key(failures)?;
                let mut exceptions = Vec::new();
                let words = without_gaps((0..values.len()).map(|at| {
                    let found = is_valid(at).then(|| word(values[at], scale))?;
                    if found.is_none() {
                        exceptions.push((at as u16, values[at]));
                    }
                    found
                }));
                let is_worth = exceptions.len() <= values.len() / EXCEPTION_SHARE;
                is_worth.then_some(Worded { words, scale, exceptions })
            }
            #[inline]
            fn from_word(word: u64, scale: u8) -> Self {
                (signed_of(word) as f64 / POWERS[usize::from(scale)]) as $native
            }
        }
    )*};
}

floats_to_words!(f32, f64);

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

/// Appends the payload of the page of a column of texts: `codes` are those of its values in the dictionary, in order, without
/// those of nulls.
pub fn put_codes(column: &StringArray, codes: Vec<u64>, out: &mut Vec<u8>) {
    if !put_presence(column, out) {
        return;
    }
    let mut codes = codes.into_iter();
    let words = (0..column.len()).map(|at| column.is_valid(at).then(|| codes.next()).flatten());
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
                    .expect("a bit a row"),
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

fn put_fixed<N: ToWord>(values: &[N], is_valid: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    let start = out.len();
    if let Some(worded) = N::words(values, is_valid) {
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
                if usize::from(scale) >= POWERS.len() {
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

    pub fn rows(&self) -> usize {
        self.rows
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
                words
                    .for_each(from, to, |words| values.extend(words.iter().map(|&word| word != 0)));
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

fn fixed<T: ArrowPrimitiveType<Native: ToWord>>(
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
            words.for_each(from, to, |words| {
                values.extend(words.iter().map(|&word| T::Native::from_word(word, *scale)));
            });
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
    words.for_each(from, to, |codes| {
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
    });
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

#[cold]
fn malformed(detail: impl Into<String>) -> FormatError {
    FormatError::malformed(PAGE, detail)
}
