//! Encoders of one column: they take in rows, know the exact length so far, and write it.
//!
//! Every encoding grows with the rows it holds, and the smallest of several does so too. What can
//! shrink is a length's varint, by a byte, when keys come to have less in common.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, GenericByteArray,
    PrimitiveArray,
};
use arrow_schema::DataType;
use foldhash::fast::FixedState;

use super::byte_list::ListSize;
use super::{ALL_NULL, BITS, CONSTANT, DICTIONARY, DISTANCE, NULL_BITMAP, PLAIN};
use crate::cursor::{put_bytes, varint_len};
use crate::key::fixed::{Fixed, with_fixed_type};
use crate::key::shared_len;

/// Takes in consecutive rows of one column.
pub(super) trait ColumnEncoder {
    /// Takes in more rows; where `record` is not empty, adds to `record[i]` what the column takes
    /// in a block that ends behind the `i`th of them, header entry included.
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]);

    /// The section's encoding byte and length.
    fn form(&self) -> (u8, usize);

    /// Appends the section of the rows taken in, which are `rows`.
    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>);
}

/// Bytes of a section and of its entry in the header.
pub(super) fn section_size((_, len): (u8, usize)) -> usize {
    1 + varint_len(len as u64) + len
}

/// The encoder of a value column.
pub(super) fn column_encoder(array: &ArrayRef) -> Box<dyn ColumnEncoder + '_> {
    match array.data_type() {
        DataType::Boolean => {
            Box::new(BoolEncoder { array: array.as_boolean(), seen: Seen::default(), trues: 0 })
        }
        DataType::Utf8 => Box::new(StringEncoder::new(array.as_string::<i32>())),
        DataType::Binary => Box::new(StringEncoder::new(array.as_binary::<i32>())),
        data_type => with_fixed_type!(data_type, T => {
            let array = array.as_primitive::<T>();
            Box::new(FixedEncoder { array, seen: Seen::default(), range: None })
        }, panic!("{data_type} is not a column type")),
    }
}

/// Rows taken in, and how many of them are null.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    rows: usize,
    nulls: usize,
}

impl Seen {
    fn push(&mut self, is_null: bool) {
        self.rows += 1;
        self.nulls += usize::from(is_null);
    }

    /// Adds what nulls take to the encoding byte and length of the values.
    fn with_nulls(&self, values: impl FnOnce() -> (u8, usize)) -> (u8, usize) {
        if self.nulls == self.rows {
            return (ALL_NULL, 0);
        }
        let (encoding, len) = values();
        match self.nulls {
            0 => (encoding, len),
            _ => (encoding | NULL_BITMAP, self.rows.div_ceil(8) + len),
        }
    }

    /// Writes the bitmap of present rows, if one is needed; false if there are no values either.
    fn write_nulls(&self, array: &dyn Array, rows: Range<usize>, out: &mut Vec<u8>) -> bool {
        if self.nulls > 0 && self.nulls < self.rows {
            put_bits(rows, |row| array.is_valid(row), out);
        }
        self.nulls < self.rows
    }
}

/// Appends one bit a row, the first in the lowest bit.
fn put_bits(rows: Range<usize>, bit: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    for start in rows.clone().step_by(8) {
        let byte = (start..rows.end.min(start + 8))
            .fold(0u8, |byte, row| byte | u8::from(bit(row)) << (row - start));
        out.push(byte);
    }
}

/// The encoded keys: what all have in common once, then the rest of each.
pub(super) struct KeyEncoder<'a> {
    keys: &'a BinaryArray,
    /// What the keys so far have in common.
    prefix: &'a [u8],
    whole: ListSize,
}

impl<'a> KeyEncoder<'a> {
    pub fn new(keys: &'a BinaryArray) -> KeyEncoder<'a> {
        KeyEncoder { keys, prefix: &[], whole: ListSize::default() }
    }

    fn rest(&self) -> ListSize {
        self.whole.without_prefix(self.prefix.len())
    }
}

impl ColumnEncoder for KeyEncoder<'_> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        for (nth, row) in rows.enumerate() {
            let key = self.keys.value(row);
            self.prefix = match self.whole.count {
                0 => key,
                _ => &self.prefix[..shared_len(self.prefix, key)],
            };
            self.whole.push(key.len());
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        let prefix_len = varint_len(self.prefix.len() as u64) + self.prefix.len();
        (self.rest().form(), prefix_len + self.rest().len())
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        put_bytes(out, self.prefix);
        self.rest().write(rows.map(|row| &self.keys.value(row)[self.prefix.len()..]), out);
    }
}

/// Numbers, dates and timestamps: one value, plain values, or distances from the least.
struct FixedEncoder<'a, T: ArrowPrimitiveType> {
    array: &'a PrimitiveArray<T>,
    seen: Seen,
    /// The least and the greatest value, by `Fixed::precedes`.
    range: Option<(T::Native, T::Native)>,
}

impl<T: ArrowPrimitiveType<Native: Fixed>> FixedEncoder<'_, T> {
    fn values_form(&self) -> (u8, usize) {
        let (least, greatest) = self.range.expect("some row is not null");
        if !least.precedes(greatest) {
            return (CONSTANT, T::Native::WIDTH);
        }
        let plain_len = self.seen.rows * T::Native::WIDTH;
        if T::Native::IS_INTEGER {
            let width = distance_width(greatest.distance_from(least));
            let len = T::Native::WIDTH + self.seen.rows * width;
            if width < T::Native::WIDTH && len < plain_len {
                return (DISTANCE + width as u8, len);
            }
        }
        (PLAIN, plain_len)
    }
}

fn distance_width(greatest: u64) -> usize {
    match greatest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

impl<T: ArrowPrimitiveType<Native: Fixed>> ColumnEncoder for FixedEncoder<'_, T> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        let has_nulls = self.array.null_count() > 0;
        for (nth, row) in rows.enumerate() {
            let is_null = has_nulls && self.array.is_null(row);
            self.seen.push(is_null);
            if !is_null {
                let value = self.array.value(row);
                self.range = Some(match self.range {
                    None => (value, value),
                    Some((least, greatest)) => (
                        if value.precedes(least) { value } else { least },
                        if greatest.precedes(value) { value } else { greatest },
                    ),
                });
            }
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        self.seen.with_nulls(|| self.values_form())
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        if !self.seen.write_nulls(self.array, rows.clone(), out) {
            return;
        }
        let (least, _) = self.range.expect("some row is not null");
        // A null takes the place of a value; which one it is does not matter, but is fixed.
        let value = |row| if self.array.is_null(row) { least } else { self.array.value(row) };
        let distance = |row| value(row).distance_from(least);
        match self.values_form() {
            (CONSTANT, _) => least.put_le(out),
            (PLAIN, _) => rows.for_each(|row| value(row).put_le(out)),
            (encoding, _) => {
                least.put_le(out);
                match encoding - DISTANCE {
                    1 => rows.for_each(|row| out.push(distance(row) as u8)),
                    2 => rows.for_each(|row| (distance(row) as u16).put_le(out)),
                    _ => rows.for_each(|row| (distance(row) as u32).put_le(out)),
                }
            }
        }
    }
}

/// Booleans: one value, or one bit a row.
struct BoolEncoder<'a> {
    array: &'a BooleanArray,
    seen: Seen,
    trues: usize,
}

impl BoolEncoder<'_> {
    fn values_form(&self) -> (u8, usize) {
        if self.trues == 0 || self.trues == self.seen.rows - self.seen.nulls {
            return (CONSTANT, 1);
        }
        (BITS, self.seen.rows.div_ceil(8))
    }
}

impl ColumnEncoder for BoolEncoder<'_> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        for (nth, row) in rows.enumerate() {
            let is_null = self.array.is_null(row);
            self.seen.push(is_null);
            self.trues += usize::from(!is_null && self.array.value(row));
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        self.seen.with_nulls(|| self.values_form())
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        if !self.seen.write_nulls(self.array, rows.clone(), out) {
            return;
        }
        match self.values_form() {
            (CONSTANT, _) => out.push(u8::from(self.trues > 0)),
            _ => put_bits(rows, |row| self.array.is_valid(row) && self.array.value(row), out),
        }
    }
}

/// Strings, of text or of bytes: one value, codes into a dictionary of at most 256, or all of them.
struct StringEncoder<'a, T: ByteArrayType<Offset = i32>> {
    array: &'a GenericByteArray<T>,
    seen: Seen,
    /// All strings, a null as an empty one.
    plain: ListSize,
    /// `None` once there are too many different strings.
    dictionary: Option<Dictionary<'a>>,
}

/// Different strings in order of appearance, and each row's code.
#[derive(Default)]
struct Dictionary<'a> {
    /// The hash has no seed, so the same input takes the same time in every run; values chosen to collide cost
    /// time, never a wrong answer.
    known: HashMap<&'a [u8], u8, FixedState>,
    entries: Vec<&'a [u8]>,
    size: ListSize,
    codes: Vec<u8>,
    /// The last string looked up and its code.
    previous: Option<(&'a [u8], u8)>,
}

impl<'a> Dictionary<'a> {
    /// Adds a row; false if its string is one too many.
    fn push(&mut self, string: Option<&'a [u8]>) -> bool {
        let Some(string) = string else {
            self.codes.push(0);
            return true;
        };
        let code = match self.previous {
            Some((previous, code)) if previous == string => code,
            _ => match self.known.entry(string) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    let Ok(code) = u8::try_from(self.entries.len()) else { return false };
                    self.entries.push(string);
                    self.size.push(string.len());
                    *entry.insert(code)
                }
            },
        };
        self.previous = Some((string, code));
        self.codes.push(code);
        true
    }

    /// One code a row, the entry count less one, the entries.
    fn len(&self) -> usize {
        self.codes.len() + 1 + self.size.len()
    }
}

impl<'a, T: ByteArrayType<Offset = i32>> StringEncoder<'a, T> {
    fn new(array: &'a GenericByteArray<T>) -> StringEncoder<'a, T> {
        StringEncoder {
            array,
            seen: Seen::default(),
            plain: ListSize::default(),
            dictionary: Some(Dictionary::default()),
        }
    }

    fn string(&self, row: usize) -> Option<&'a [u8]> {
        self.array.is_valid(row).then(|| self.array.value(row).as_ref())
    }

    fn values_form(&self) -> (u8, usize) {
        let plain_len = self.plain.len();
        match &self.dictionary {
            Some(dictionary) if dictionary.entries.len() == 1 => (CONSTANT, dictionary.size.total),
            Some(dictionary) if dictionary.len() < plain_len => {
                (DICTIONARY | dictionary.size.form(), dictionary.len())
            }
            _ => (self.plain.form(), plain_len),
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> ColumnEncoder for StringEncoder<'_, T> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        for (nth, row) in rows.enumerate() {
            let string = self.string(row);
            self.seen.push(string.is_none());
            self.plain.push(string.map_or(0, <[u8]>::len));
            if self.dictionary.as_mut().is_some_and(|dictionary| !dictionary.push(string)) {
                self.dictionary = None;
            }
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        self.seen.with_nulls(|| self.values_form())
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        if !self.seen.write_nulls(self.array, rows.clone(), out) {
            return;
        }
        let (encoding, _) = self.values_form();
        match &self.dictionary {
            Some(dictionary) if encoding == CONSTANT => {
                out.extend_from_slice(dictionary.entries[0]);
            }
            Some(dictionary) if encoding & DICTIONARY != 0 => {
                out.extend_from_slice(&dictionary.codes);
                out.push((dictionary.entries.len() - 1) as u8);
                dictionary.size.write(dictionary.entries.iter().copied(), out);
            }
            _ => self.plain.write(rows.map(|row| self.string(row).unwrap_or_default()), out),
        }
    }
}
