//! One tuple of key columns as one byte string, and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use smallvec::SmallVec;

use crate::dense_picks::read_in_order;
use crate::error::{FormatError, Result};
use crate::key::fixed::{Fixed, typed, with_fixed_type};
use crate::key::keys::Keys;
use crate::pick::Pick;

/// A null, or with nothing behind it the end of a shorter key.
pub(super) const NULL: u8 = 0x00;
/// A value follows.
pub(super) const PRESENT: u8 = 0x01;
/// Ends a string.
pub(super) const END: u8 = 0x00;
/// Stands before the substitute of a byte that is `END` or `ESCAPE` itself.
const ESCAPE: u8 = 0x01;
/// What follows `ESCAPE`, for the string bytes 0x00 and 0x01. Neither is `END`, so the end of a
/// string is the first `END` in sight.
const ESCAPED: [u8; 2] = [0x01, 0x02];

/// Bytes of a value behind its tag, or `None` for strings.
pub(super) fn payload_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::Utf8 | DataType::Dictionary(..) => None,
        data_type => with_fixed_type!(data_type, T => {
            Some(<T as ArrowPrimitiveType>::Native::WIDTH)
        }, panic!("{data_type} is not a key type")),
    }
}

pub(super) fn needs_escape(byte: u8) -> bool {
    byte <= ESCAPE
}

pub(super) fn string_len(string: &[u8]) -> usize {
    string.len() + string.iter().filter(|byte| needs_escape(**byte)).count() + 1
}

pub(super) fn put_string(string: &[u8], out: &mut [u8]) -> usize {
    let mut at = string.len();
    if string.iter().any(|byte| needs_escape(*byte)) {
        at = 0;
        for &byte in string {
            if needs_escape(byte) {
                out[at..at + 2].copy_from_slice(&[ESCAPE, ESCAPED[usize::from(byte)]]);
                at += 2;
            } else {
                out[at] = byte;
                at += 1;
            }
        }
    } else {
        out[..at].copy_from_slice(string);
    }
    out[at] = END;
    at + 1
}

/// Appends one value of a column: its tag and, unless null, its payload.
pub fn encode_value(column: &dyn Array, row: usize, out: &mut Vec<u8>) {
    if column.is_null(row) {
        out.push(NULL);
        return;
    }
    out.push(PRESENT);
    let start = out.len();
    match column.data_type() {
        DataType::Boolean => out.push(u8::from(column.as_boolean().value(row))),
        DataType::Utf8 => {
            let string = column.as_string::<i32>().value(row).as_bytes();
            out.resize(start + string_len(string), 0);
            put_string(string, &mut out[start..]);
        }
        data_type => with_fixed_type!(data_type, T => {
            let value = column.as_primitive::<T>().value(row);
            out.resize(start + payload_width(data_type).expect("a fixed type has a width"), 0);
            value.put_ordered(&mut out[start..]);
        }, panic!("{data_type} is not a key type")),
    }
}

/// The encoded bytes, tag and payload, of the key column at `position`.
///
/// `types` are those of all key columns. A null that was dropped from the key's end reads as a
/// written one. O(bytes up to the column's end).
pub fn split_column<'a>(key: &'a [u8], types: &[DataType], position: usize) -> Result<&'a [u8]> {
    let mut rest = key;
    for data_type in &types[..position] {
        rest = &rest[column_len(rest, payload_width(data_type))?..];
    }
    first_column(rest, payload_width(&types[position]))
}

/// The column that `rest` begins with, of this [`payload_width`].
#[inline]
fn first_column(rest: &[u8], width: Option<usize>) -> Result<&[u8]> {
    match column_len(rest, width)? {
        0 => Ok(&[NULL]),
        len => Ok(&rest[..len]),
    }
}

/// Whether a key has a column behind those of `types`. O(bytes).
pub fn has_more_columns(key: &[u8], types: &[DataType]) -> Result<bool> {
    let mut rest = key;
    for data_type in types {
        rest = &rest[column_len(rest, payload_width(data_type))?..];
    }
    Ok(!rest.is_empty())
}

/// Bytes of the column that `rest` begins with; 0 at the end of a key.
#[inline]
pub(super) fn column_len(rest: &[u8], width: Option<usize>) -> Result<usize> {
    let len = match (rest.split_first(), width) {
        (None, _) => 0,
        (Some((&NULL, _)), _) => 1,
        (Some((&PRESENT, _)), Some(width)) => 1 + width,
        (Some((&PRESENT, payload)), None) => match payload.iter().position(|byte| *byte == END) {
            Some(end) => 1 + end + 1,
            None => return Err(malformed("a string has no end")),
        },
        (Some((tag, _)), _) => return Err(malformed(format!("unknown tag {tag:#04x}"))),
    };
    if len > rest.len() {
        return Err(malformed(format!("{len} bytes expected, {} left", rest.len())));
    }
    Ok(len)
}

/// Decodes the key column at `position` of every key; `types` are those of all key columns.
///
/// O(bytes up to the column's end). Fails on bytes that no key has.
pub fn decode_column(keys: &Keys, types: &[DataType], position: usize) -> Result<ArrayRef> {
    let (width, data_type) = (payload_width(&types[position]), &types[position]);
    if let Some(column) = decode_even(keys, types, position) {
        return Ok(column);
    }
    match position {
        0 => decode_each(keys.len(), |row| first_column(keys.value(row), width), data_type),
        _ => {
            decode_each(keys.len(), |row| split_column(keys.value(row), types, position), data_type)
        }
    }
}

/// [`decode_column`] of numbers and times, where all keys have them and those before them at the same places. Decides
/// nothing of other keys.
fn decode_even(keys: &Keys, types: &[DataType], position: usize) -> Option<ArrayRef> {
    let (width, bytes) = keys.even_bytes()?;
    let field = Field::of(types, position, width)?;
    with_fixed_type!(&types[position], T => {
        let values = field.values(bytes.chunks_exact(width))?;
        Some(typed(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None), &types[position]))
    }, None)
}

/// The same of some keys of several parts, which are not copied: fewer passes over them. Only of keys as long as those of one and of
/// two whole numbers or times are, where a key takes as few instructions as it does to copy it.
pub fn decode_picked(
    parts: &[&Keys],
    picks: &[Pick],
    types: &[DataType],
    position: usize,
) -> Option<ArrayRef> {
    let width = parts.first()?.width()?;
    let even = parts.iter().map(|keys| keys.even_bytes().filter(|(of, _)| *of == width));
    let bytes: Vec<&[u8]> = even.map(|even| Some(even?.1)).collect::<Option<_>>()?;
    let field = Field::of(types, position, width)?;
    with_fixed_type!(&types[position], T => {
        let values = match width {
            5 => field.picked::<_, 5>(&bytes, picks),
            9 => field.picked::<_, 9>(&bytes, picks),
            10 => field.picked::<_, 10>(&bytes, picks),
            14 => field.picked::<_, 14>(&bytes, picks),
            18 => field.picked::<_, 18>(&bytes, picks),
            _ => None,
        };
        Some(typed(PrimitiveArray::<T>::new(ScalarBuffer::from(values?), None), &types[position]))
    }, None)
}

/// Where a number or a time lies in keys that have it and those before it.
struct Field {
    /// Where the columns before it begin.
    before: SmallVec<[usize; 8]>,
    begin: usize,
}

impl Field {
    /// `None` if keys of `width` bytes do not all have it at one place.
    fn of(types: &[DataType], position: usize, width: usize) -> Option<Field> {
        let mut before = SmallVec::new();
        let mut begin = 0;
        for data_type in &types[..position] {
            before.push(begin);
            begin += 1 + payload_width(data_type)?;
        }
        let end = begin + 1 + payload_width(&types[position])?;
        let is_fixed = types[position] != DataType::Boolean && end <= width;
        is_fixed.then_some(Field { before, begin })
    }

    /// Its values; `None` if a key lacks it, or one before it. In one pass, as most keys have no null.
    #[inline]
    fn values<'k, N: Fixed>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<Vec<N>> {
        let (before, begin) = (&self.before[..], self.begin);
        // What the tags have that is not that of a value: no branch waits for a key to come from memory.
        let mut others = 0;
        let value = |key: &[u8]| {
            before.iter().for_each(|&tag| others |= key[tag] ^ PRESENT);
            let field = &key[begin..][..1 + N::WIDTH];
            others |= field[0] ^ PRESENT;
            N::from_ordered(&field[1..])
        };
        let values = keys.map(value).collect();
        (others == 0).then_some(values)
    }

    fn picked<N: Fixed, const WIDTH: usize>(
        &self,
        parts: &[&[u8]],
        picks: &[Pick],
    ) -> Option<Vec<N>> {
        read_in_order(parts.len(), picks, |part| (parts[part], WIDTH));
        let parts: Vec<&[[u8; WIDTH]]> = parts.iter().map(|part| part.as_chunks().0).collect();
        self.values(picks.iter().map(|pick| &parts[pick.part()][pick.row()][..]))
    }
}

/// Decodes single values written by [`encode_value`].
pub fn decode_values(encoded: &[&[u8]], data_type: &DataType) -> Result<ArrayRef> {
    let whole = |row: usize| {
        let value: &[u8] = encoded[row];
        if value.is_empty() || column_len(value, payload_width(data_type))? != value.len() {
            return Err(malformed("a value has the wrong length"));
        }
        Ok(value)
    };
    decode_each(encoded.len(), whole, data_type)
}

/// Decodes `count` values, each exactly one tag and its payload.
fn decode_each<'a>(
    count: usize,
    encoded: impl Fn(usize) -> Result<&'a [u8]>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let payload = |row: usize| {
        let (tag, payload) = encoded(row)?.split_first().expect("a value has a tag");
        Ok((*tag == PRESENT).then_some(payload))
    };
    let mut nulls = NullBufferBuilder::new(count);
    match data_type {
        DataType::Boolean => {
            let mut values = BooleanBufferBuilder::new(count);
            for row in 0..count {
                let payload = payload(row)?;
                nulls.append(payload.is_some());
                values.append(match payload {
                    None | Some([0]) => false,
                    Some([1]) => true,
                    Some(other) => return Err(malformed(format!("{other:?} is not a boolean"))),
                });
            }
            Ok(Arc::new(BooleanArray::new(values.finish(), nulls.finish())))
        }
        DataType::Utf8 => {
            let mut bytes = Vec::new();
            let mut offsets = Vec::with_capacity(count + 1);
            offsets.push(0i32);
            for row in 0..count {
                let payload = payload(row)?;
                nulls.append(payload.is_some());
                if let Some(payload) = payload {
                    take_string(payload, &mut bytes)?;
                }
                let end = i32::try_from(bytes.len());
                offsets.push(end.map_err(|_| malformed("strings exceed 2 GiB"))?);
            }
            let offsets = OffsetBuffer::new(offsets.into());
            let array = StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls.finish());
            Ok(Arc::new(array.map_err(|_| malformed("a string is not UTF-8"))?))
        }
        data_type => with_fixed_type!(data_type, T => {
            type Native = <T as ArrowPrimitiveType>::Native;
            let mut values: Vec<Native> = Vec::with_capacity(count);
            for row in 0..count {
                let payload = payload(row)?;
                nulls.append(payload.is_some());
                values.push(payload.map_or(Native::default(), Native::from_ordered));
            }
            let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls.finish());
            Ok(typed(array, data_type))
        }, panic!("{data_type} is not a key type")),
    }
}

/// Appends the string that `payload` encodes; its last byte is the end mark.
fn take_string(payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let encoded = &payload[..payload.len() - 1];
    if !encoded.contains(&ESCAPE) {
        out.extend_from_slice(encoded);
        return Ok(());
    }
    let mut rest = encoded.iter();
    while let Some(&byte) = rest.next() {
        if byte != ESCAPE {
            out.push(byte);
            continue;
        }
        let substitute =
            rest.next().and_then(|byte| ESCAPED.iter().position(|known| known == byte));
        out.push(substitute.ok_or_else(|| malformed("a string has an unknown escape"))? as u8);
    }
    Ok(())
}

/// The shortest prefix `s` of `first` with `previous_last < s <= first`, or `first` itself where
/// the two keys are equal.
pub fn separator<'a>(previous_last: &[u8], first: &'a [u8]) -> &'a [u8] {
    assert!(previous_last <= first, "a separator lies between keys in order");
    let shared = shared_len(previous_last, first);
    &first[..first.len().min(shared + 1)]
}

/// The number that bytes are, the most significant first: eight at most.
#[inline]
pub(super) fn number_of(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().fold(0, |number, byte| number << u8::BITS | u64::from(*byte)),
    }
}

/// Bytes that two byte strings have in common at their beginning.
pub(crate) fn shared_len(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

fn malformed(detail: impl Into<String>) -> FormatError {
    FormatError::malformed("key", detail)
}
