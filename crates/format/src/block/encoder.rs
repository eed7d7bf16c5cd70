//! Encoders of one column: they take in rows, know the exact length so far, and write it.
//!
//! Every encoding grows with the rows it holds, and the smallest of several does so too. What can
//! shrink is a length's varint, by a byte, when keys come to have less in common.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, GenericByteArray, PrimitiveArray,
};
use arrow_schema::DataType;

use crate::block::byte_list::ListSize;
use crate::block::encoding_byte::{
    ALL_NULL, BITS, COMPRESSED, CONSTANT, DICTIONARY, EXTENTS, NULL_BITMAP, PACKED, PLAIN, SCALED,
    SHARED,
};
use crate::cursor::varint_len;
use crate::extents::Reference;
use crate::key::fixed::{Fixed, Scaling, with_fixed_type};
use crate::packed::{packed_len, put_packed, width_of};

/// Different hashes of strings, as a block's dictionary tells them apart.
const HASHES: usize = 512;

/// If as many strings that come first are all different, a column that is written quickly has no dictionary. In random order, those
/// of 256 different ones are with a chance of 1 in 5,500.
const PATIENCE: usize = 64;

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

/// What of a column's strings is not as its array has it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ApartInColumn<'a> {
    /// The codes of its texts, if they have any.
    pub codes: Option<&'a [u32]>,
    /// Whether the array has compressed strings.
    pub is_compressed: bool,
    /// References to its long values.
    pub extents: Option<&'a [Option<Reference>]>,
}

/// The encoder of a value column, which becomes small, or is written in little time.
pub(super) fn column_encoder<'a>(
    array: &'a ArrayRef,
    apart: ApartInColumn<'a>,
    is_small: bool,
) -> Box<dyn ColumnEncoder + 'a> {
    match array.data_type() {
        DataType::Null => Box::new(NothingEncoder),
        DataType::Boolean => {
            Box::new(BoolEncoder { array: array.as_boolean(), seen: Seen::default(), trues: 0 })
        }
        DataType::Utf8 => Box::new(StringEncoder::new(array.as_string::<i32>(), apart, is_small)),
        DataType::Binary => Box::new(StringEncoder::new(array.as_binary::<i32>(), apart, is_small)),
        data_type => with_fixed_type!(data_type, T => {
            let array = array.as_primitive::<T>();
            Box::new(FixedEncoder { array, seen: Seen::default(), range: None, scaling: Scaling::default() })
        }, panic!("{data_type} is not a column type")),
    }
}

/// Of a value that stores no column any more.
struct NothingEncoder;

impl ColumnEncoder for NothingEncoder {
    fn extend(&mut self, _rows: Range<usize>, record: &mut [usize]) {
        record.iter_mut().for_each(|size| *size += section_size(self.form()));
    }

    fn form(&self) -> (u8, usize) {
        (ALL_NULL, 0)
    }

    fn write(&self, _rows: Range<usize>, _out: &mut Vec<u8>) {}
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

/// Appends one bit per row, the first in the lowest bit.
fn put_bits(rows: Range<usize>, bit: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    for start in rows.clone().step_by(8) {
        let byte = (start..rows.end.min(start + 8))
            .fold(0u8, |byte, row| byte | u8::from(bit(row)) << (row - start));
        out.push(byte);
    }
}

/// Numbers, dates and timestamps: one value, plain values, or distances from the least, multiplied or not.
struct FixedEncoder<'a, T: ArrowPrimitiveType> {
    array: &'a PrimitiveArray<T>,
    seen: Seen,
    /// The least and the greatest value, by `Fixed::precedes`.
    range: Option<(T::Native, T::Native)>,
    /// Of numbers without exact distances.
    scaling: Scaling,
}

impl<T: ArrowPrimitiveType<Native: Fixed>> FixedEncoder<'_, T> {
    fn values_form(&self) -> (u8, usize) {
        let (least, greatest) = self.range.expect("some row is not null");
        if !least.precedes(greatest) {
            return (CONSTANT, T::Native::WIDTH);
        }
        let plain_len = self.seen.rows * T::Native::WIDTH;
        let (encoding, len) = if T::Native::IS_INTEGER {
            let packed = packed_len(self.seen.rows, width_of(greatest.distance_from(least)));
            (PACKED, T::Native::WIDTH + 1 + packed)
        } else if let Some(width) = self.scaling.width() {
            (SCALED, 1 + size_of::<i64>() + 1 + packed_len(self.seen.rows, width))
        } else {
            return (PLAIN, plain_len);
        };
        if len < plain_len { (encoding, len) } else { (PLAIN, plain_len) }
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
                if !T::Native::IS_INTEGER {
                    self.scaling.push(value);
                }
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
        match self.values_form() {
            (CONSTANT, _) => least.put_le(out),
            (PLAIN, _) => rows.for_each(|row| value(row).put_le(out)),
            (PACKED, _) => {
                let (_, greatest) = self.range.expect("some row is not null");
                let width = width_of(greatest.distance_from(least));
                least.put_le(out);
                out.push(width);
                put_packed(rows.map(|row| value(row).distance_from(least)), width, out);
            }
            _ => {
                let (scale, least, width) = self.scaling.form().expect("it has a width");
                out.push(scale);
                least.put_le(out);
                out.push(width);
                let distance = |row| match self.array.is_null(row) {
                    true => 0,
                    false => {
                        let scaled = self.array.value(row).scaled(scale);
                        scaled.expect("each value has this scale").wrapping_sub(least) as u64
                    }
                };
                put_packed(rows.map(distance), width, out);
            }
        }
    }
}

/// Booleans: one value, or one bit per row.
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

/// Strings, of text or of bytes: one value, codes into a dictionary of at most 256 or into the segment's, or all of them.
struct StringEncoder<'a, T: ByteArrayType<Offset = i32>> {
    array: &'a GenericByteArray<T>,
    seen: Seen,
    /// All strings, a null as an empty one.
    plain: ListSize,
    /// `None` once there are too many different strings, and where they have codes.
    dictionary: Option<Dictionary<'a>>,
    /// Of all rows, into the segment's dictionary.
    codes: Option<&'a [u32]>,
    /// The least and the greatest code taken in.
    code_range: Option<(u32, u32)>,
    /// Of all rows, in place of those that lie apart.
    extents: Option<&'a [Option<Reference>]>,
    /// How many of those taken in lie apart.
    apart: usize,
    is_compressed: bool,
    is_small: bool,
}

/// Different strings in order of appearance, and each row's code.
struct Dictionary<'a> {
    entries: Vec<&'a [u8]>,
    /// For each hash, one more than the number of the last entry that has it; 0 for none.
    last_with_hash: Box<[u16; HASHES]>,
    /// For each entry the one before it with its hash, in the same way.
    before: Vec<u16>,
    size: ListSize,
    codes: Vec<u8>,
    /// The last string looked up and its code.
    previous: Option<(&'a [u8], u8)>,
}

impl Default for Dictionary<'_> {
    fn default() -> Self {
        Dictionary {
            entries: Vec::with_capacity(PATIENCE),
            last_with_hash: Box::new([0; HASHES]),
            before: Vec::with_capacity(PATIENCE),
            size: ListSize::default(),
            codes: Vec::with_capacity(PATIENCE),
            previous: None,
        }
    }
}

impl<'a> Dictionary<'a> {
    /// Whether the first strings are all different.
    fn has_no_repeats(&self) -> bool {
        self.entries.len() == PATIENCE && self.codes.len() == PATIENCE
    }

    /// Adds a row; false if its string is one too many.
    fn push(&mut self, string: Option<&'a [u8]>) -> bool {
        let Some(string) = string else {
            self.codes.push(0);
            return true;
        };
        let code = match self.previous {
            Some((previous, code)) if previous == string => Some(code),
            _ => self.code_of(string),
        };
        let Some(code) = code else { return false };
        self.previous = Some((string, code));
        self.codes.push(code);
        true
    }

    /// The code of a string, which becomes an entry if it is none; `None` if it is one too many.
    fn code_of(&mut self, string: &'a [u8]) -> Option<u8> {
        let last = &mut self.last_with_hash[hash_of(string)];
        let mut number = *last;
        while let Some(entry) = usize::from(number).checked_sub(1) {
            if self.entries[entry] == string {
                return Some(entry as u8);
            }
            number = self.before[entry];
        }
        let code = u8::try_from(self.entries.len()).ok()?;
        self.entries.push(string);
        self.before.push(*last);
        *last = u16::from(code) + 1;
        self.size.push(string.len());
        Some(code)
    }

    /// The entry count less one, one code per row, the entries.
    fn len(&self) -> usize {
        1 + packed_len(self.codes.len(), self.width()) + self.size.len()
    }

    /// Bits of a code.
    fn width(&self) -> u8 {
        width_of(self.entries.len().saturating_sub(1) as u64)
    }
}

/// A hash of a string's length, ends and middle: 8 bytes of each. A dictionary has 256 entries at most, so strings made to
/// collide cost that many comparisons each, and never a wrong answer.
fn hash_of(string: &[u8]) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(SPREAD).rotate_left(32);
    let len = string.len();
    let word = |from: usize| {
        let bytes = string[from..from + 8].try_into().expect("they are 8");
        u64::from_le_bytes(bytes)
    };
    let mut hash = mix(0, len as u64);
    match len {
        0..8 => {
            let word = string.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            hash = mix(hash, word);
        }
        8.. => {
            for from in [0, (len - 8) / 2, len - 8] {
                hash = mix(hash, word(from));
            }
        }
    }
    hash as usize % HASHES
}

impl<'a, T: ByteArrayType<Offset = i32>> StringEncoder<'a, T> {
    fn new(
        array: &'a GenericByteArray<T>,
        ApartInColumn { codes, is_compressed, extents }: ApartInColumn<'a>,
        is_small: bool,
    ) -> StringEncoder<'a, T> {
        StringEncoder {
            array,
            seen: Seen::default(),
            plain: ListSize::default(),
            dictionary: codes.is_none().then(Dictionary::default),
            codes,
            code_range: None,
            extents,
            apart: 0,
            is_compressed,
            is_small,
        }
    }

    /// Where the strings of some rows begin and end, if all there is of the array is written as it lies there.
    fn consecutive(&self, rows: &Range<usize>) -> Option<&'a [i32]> {
        let is_plain = self.codes.is_none() && self.extents.is_none();
        let is_such = is_plain && self.array.null_count() == 0 && !rows.is_empty();
        is_such.then(|| &self.array.value_offsets()[rows.start..=rows.end])
    }

    /// Looks the string of a row up in the dictionary, as long as there is one.
    fn look_up(&mut self, string: Option<&'a [u8]>) {
        let Some(dictionary) = &mut self.dictionary else { return };
        if !dictionary.push(string) || !self.is_small && dictionary.has_no_repeats() {
            self.dictionary = None;
        }
    }

    /// What stands in the block for the string of a row.
    fn string(&self, row: usize) -> Option<&'a [u8]> {
        match self.reference(row) {
            Some(reference) => Some(reference),
            None => self.array.is_valid(row).then(|| self.array.value(row).as_ref()),
        }
    }

    fn reference(&self, row: usize) -> Option<&'a Reference> {
        self.extents.and_then(|extents| extents[row].as_ref())
    }

    fn values_form(&self) -> (u8, usize) {
        let plain_len = self.plain.len();
        if let Some((least, greatest)) = self.code_range {
            let len = 1 + packed_len(self.seen.rows, width_of(greatest.into()));
            let len_of_one = self.plain.total / (self.seen.rows - self.seen.nulls);
            return match least == greatest {
                true if len_of_one < len => (CONSTANT, len_of_one),
                _ if len < plain_len => (SHARED, len),
                _ => (self.plain.form(), plain_len),
            };
        }
        match &self.dictionary {
            Some(dictionary) if dictionary.entries.len() == 1 => (CONSTANT, dictionary.size.total),
            Some(dictionary) if dictionary.len() < plain_len => {
                (DICTIONARY | dictionary.size.form(), dictionary.len())
            }
            _ => (self.plain.form(), plain_len),
        }
    }

    /// The values with which of them lie apart, if any does, and whether they are compressed.
    fn form_with_extents(&self) -> (u8, usize) {
        let (encoding, len) = self.values_form();
        let encoding = if self.is_compressed { encoding | COMPRESSED } else { encoding };
        match self.apart {
            0 => (encoding, len),
            _ => (encoding | EXTENTS, self.seen.rows.div_ceil(8) + len),
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> ColumnEncoder for StringEncoder<'_, T> {
    fn extend(&mut self, rows: Range<usize>, record: &mut [usize]) {
        if let (Some(offsets), true) = (self.consecutive(&rows), record.is_empty()) {
            self.seen.rows += rows.len();
            self.plain.push_consecutive(offsets);
            for row in rows {
                if self.dictionary.is_none() {
                    return;
                }
                self.look_up(self.string(row));
            }
            return;
        }
        for (nth, row) in rows.enumerate() {
            let string = self.string(row);
            self.seen.push(string.is_none());
            self.apart += usize::from(self.reference(row).is_some());
            self.plain.push(string.map_or(0, <[u8]>::len));
            self.look_up(string);
            if let (Some(codes), Some(_)) = (self.codes, string) {
                let code = codes[row];
                let (least, greatest) = self.code_range.unwrap_or((code, code));
                self.code_range = Some((least.min(code), greatest.max(code)));
            }
            if let Some(size) = record.get_mut(nth) {
                *size += section_size(self.form());
            }
        }
    }

    fn form(&self) -> (u8, usize) {
        self.seen.with_nulls(|| self.form_with_extents())
    }

    fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        if !self.seen.write_nulls(self.array, rows.clone(), out) {
            return;
        }
        if self.apart > 0 {
            put_bits(rows.clone(), |row| self.reference(row).is_some(), out);
        }
        let (encoding, _) = self.values_form();
        match &self.dictionary {
            None if encoding == CONSTANT => {
                out.extend_from_slice(
                    rows.into_iter().find_map(|row| self.string(row)).unwrap_or_default(),
                );
            }
            None if encoding == SHARED => {
                let (_, greatest) = self.code_range.expect("some row is not null");
                let width = width_of(greatest.into());
                out.push(width);
                let code = |row: usize| match (self.array.is_valid(row), self.codes) {
                    (true, Some(codes)) => u64::from(codes[row]),
                    _ => 0,
                };
                put_packed(rows.map(code), width, out);
            }
            Some(dictionary) if encoding == CONSTANT => {
                out.extend_from_slice(dictionary.entries[0]);
            }
            Some(dictionary) if encoding & DICTIONARY != 0 => {
                out.push((dictionary.entries.len() - 1) as u8);
                put_packed(
                    dictionary.codes.iter().map(|&code| code.into()),
                    dictionary.width(),
                    out,
                );
                dictionary.size.write(dictionary.entries.iter().copied(), out);
            }
            _ => match self.consecutive(&rows) {
                Some(offsets) => {
                    self.plain.write_consecutive(offsets, self.array.value_data(), out)
                }
                None => self.plain.write(rows.map(|row| self.string(row).unwrap_or_default()), out),
            },
        }
    }
}
