//! What the codes in some keys stand for: keys without codes out of those with, and the places of keys and bounds among them.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::error::Result;
use crate::key::bound::Bound;
use crate::key::codes::columns::{Column, Found, NUMBER, code_of};
use crate::key::encoding::{NULL, PRESENT, column_len, split_column};
use crate::key::key_writer::KeyWriter;
use crate::key::keys::{Keys, offset};
use crate::pick::Pick;

/// What the codes in the keys of some rows stand for. Such keys hold all columns, nulls at the end too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCodes {
    pub(super) columns: Box<[Column]>,
    /// Bytes of each column's codes, if it has codes.
    pub(super) widths: Box<[Option<usize>]>,
    /// Bytes of the longest values together, of columns with codes.
    longest: usize,
    has_plain: bool,
}

impl KeyCodes {
    pub(super) fn new(columns: Vec<Column>) -> KeyCodes {
        let widths = columns.iter().map(Column::width).collect();
        let longest = columns.iter().map(Column::longest).sum();
        let has_plain = columns.iter().any(Column::is_plain);
        KeyCodes { columns: columns.into(), widths, longest, has_plain }
    }

    /// Keys without codes as if they had some.
    pub(super) fn plain(types: &[DataType]) -> KeyCodes {
        KeyCodes::new(types.iter().map(Column::plain).collect())
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (&Column, Option<usize>)> {
        self.columns.iter().zip(self.widths.iter().copied())
    }

    /// Keys as they are without codes. O(bytes).
    pub fn spelled(&self, keys: &Keys) -> Keys {
        self.spelled_each(keys.len(), keys.iter())
    }

    /// One key as it is without codes.
    pub fn spelled_key(&self, key: &[u8]) -> Vec<u8> {
        self.spelled_each(1, std::iter::once(key)).value(0).to_vec()
    }

    fn spelled_each<'k>(&self, len: usize, keys: impl Iterator<Item = &'k [u8]>) -> Keys {
        written(len, keys, |key, out| self.spell(key, out))
    }

    #[inline]
    fn spell(&self, key: &[u8], out: &mut KeyWriter) {
        out.reserve(self.spelled_len_max(key.len()));
        let mut rest = key;
        let mut end = out.len();
        for (column, width) in self.columns() {
            let held = column.take(width, &mut rest);
            let begin = out.len();
            column.spell(held, out);
            // Nulls at the end of a key are dropped.
            if out.len() > begin + 1 {
                end = out.len();
            }
        }
        out.truncate(end);
    }

    /// The most bytes that a key of `held` bytes has without codes.
    pub(super) fn spelled_len_max(&self, held: usize) -> usize {
        self.longest + if self.has_plain { held } else { 0 }
    }

    /// Bytes that a key has without codes, with nulls at its end. O(columns).
    pub fn spelled_len(&self, key: &[u8]) -> usize {
        let mut rest = key;
        let len = |(column, width): (&Column, Option<usize>)| {
            column.spelled_len(column.take(width, &mut rest))
        };
        self.columns().map(len).sum()
    }

    /// As many bytes as some keys have without codes, or more: as if they all had the longest value that any has.
    pub fn spelled_bytes_max(&self, keys: &Keys, rows: Range<usize>) -> usize {
        rows.len() * self.longest + keys.bytes_in(rows)
    }

    /// Of each row a key of one column alone, without codes: to decode it costs nothing for the others.
    pub fn spelled_column(&self, keys: &Keys, position: usize) -> Keys {
        let Some(column) = self.columns.get(position) else {
            return Keys::even(keys.len(), 0, Vec::new());
        };
        written(keys.len(), keys.iter(), |key, out| column.spell_one(self.held(key, position), out))
    }

    /// The value of a column as other keys have it, if it has no codes.
    pub fn plain_value<'k>(&self, key: &'k [u8], position: usize) -> Option<&'k [u8]> {
        match (self.columns.get(position), self.widths.get(position)) {
            (Some(_), Some(None)) => match self.held(key, position) {
                [] => Some(&[NULL]),
                value => Some(value),
            },
            (None, _) => Some(&[NULL]),
            _ => None,
        }
    }

    /// How many values the lists have together that are not those of `other`.
    pub fn values_apart(&self, other: &KeyCodes) -> usize {
        let others = other.columns.iter().map(Some).chain(std::iter::repeat(None));
        let apart = |(column, other): (&Column, Option<&Column>)| match (column, other) {
            (Column::Texts(values), Some(Column::Texts(others))) if Arc::ptr_eq(values, others) => {
                0
            }
            (Column::Texts(values), _) => values.len(),
            _ => 0,
        };
        self.columns.iter().zip(others).map(apart).sum()
    }

    /// A key by code, if rows may have it.
    pub fn key(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (mut rest, mut out) = (key, Vec::new());
        for (column, width) in self.columns() {
            let value = first_value(&mut rest, column)?;
            match width {
                None => out.extend_from_slice(value),
                Some(width) => match column.find(value) {
                    Found::Code(code) => put_code(code, width, &mut out),
                    Found::Between(_) => return None,
                },
            }
        }
        rest.is_empty().then_some(out)
    }

    /// The same place among keys of codes as a bound has among keys without. O(columns · log values).
    pub fn bound(&self, bound: &Bound) -> Bound {
        let (mut rest, is_past) = bound.parts();
        let mut out = Vec::new();
        for (at, (column, width)) in self.columns().enumerate() {
            if rest.is_empty() {
                return Bound::of_parts(out, is_past);
            }
            let Some(value) = whole_value(rest, column) else {
                return self.bound_within(column, width, rest, is_past, out);
            };
            rest = &rest[value.len()..];
            let found = match width {
                None => {
                    out.extend_from_slice(value);
                    None
                }
                Some(width) => Some((column.find(value), width)),
            };
            match found {
                Some((Found::Between(less), width)) => {
                    return before_code(column, less, width, out);
                }
                Some((Found::Code(code), width)) => put_code(code, width, &mut out),
                None => {}
            }
            if value == [NULL] && rest.is_empty() && !is_past {
                // Keys that end before this null lie before the bound: it is the last that they lack.
                return self.past_nulls(at + 1, out);
            }
        }
        // Keys that go on behind these columns go on behind what all rows here have.
        Bound::of_parts(out, is_past || !rest.is_empty())
    }

    /// Behind the keys that go on with nulls alone from column `from` on.
    fn past_nulls(&self, from: usize, mut out: Vec<u8>) -> Bound {
        for (column, width) in self.columns().skip(from) {
            match width {
                None => out.push(NULL),
                Some(width) => match column.find(&[NULL]) {
                    Found::Code(code) => put_code(code, width, &mut out),
                    Found::Between(less) => return before_code(column, less, width, out),
                },
            }
        }
        Bound::of_parts(out, true)
    }

    /// The place of a bound that ends within a value of a column.
    fn bound_within(
        &self,
        column: &Column,
        width: Option<usize>,
        part: &[u8],
        is_past: bool,
        mut out: Vec<u8>,
    ) -> Bound {
        match width {
            None => {
                out.extend_from_slice(part);
                Bound::of_parts(out, is_past)
            }
            // No value has such a tag: all are before it.
            Some(_) if part[0] != PRESENT => Bound::of_parts(out, true),
            Some(width) => before_code(column, column.codes_before(part, is_past), width, out),
        }
    }

    /// What a key holds of a column. O(bytes up to the column's end).
    #[inline]
    pub(super) fn held<'k>(&self, key: &'k [u8], position: usize) -> &'k [u8] {
        let mut rest = key;
        for (column, width) in self.columns().take(position) {
            column.take(width, &mut rest);
        }
        self.columns[position].take(self.widths[position], &mut rest)
    }

    /// The code of a column in each row, if it has codes.
    pub fn codes_of(&self, keys: &Keys, position: usize) -> Option<Vec<u64>> {
        self.widths.get(position).copied().flatten()?;
        Some(keys.iter().map(|key| code_of(self.held(key, position))).collect())
    }

    /// The value of a code of a column as other keys have it.
    pub fn value(&self, position: usize, code: u64) -> Cow<'_, [u8]> {
        self.columns[position].value(code)
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::allocated_bytes).sum();
        columns + size_of_val(&*self.columns) + size_of_val(&*self.widths)
    }
}

/// Keys of several parts, by code or not, as they are without codes. O(bytes).
pub fn picked_keys(parts: &[(&Keys, Option<&KeyCodes>)], picks: &[Pick]) -> Keys {
    written(picks.len(), picks, |pick, out| {
        let (keys, codes) = parts[pick.part()];
        let key = keys.value(pick.row());
        match codes {
            Some(codes) => codes.spell(key, out),
            None => put(key, out),
        }
    })
}

/// The same, of each row a key of one column alone. Fails on keys that do not decode.
pub fn picked_column(
    parts: &[(&Keys, Option<&KeyCodes>)],
    picks: &[Pick],
    types: &[DataType],
    position: usize,
) -> Result<Keys> {
    try_written(picks.len(), picks, |pick, out| {
        let (keys, codes) = parts[pick.part()];
        let key = keys.value(pick.row());
        match codes {
            None => put(split_column(key, types, position)?, out),
            // A key that was written before the column was added has nothing of it.
            Some(codes) => {
                if let Some(column) = codes.columns.get(position) {
                    column.spell_one(codes.held(key, position), out);
                }
            }
        }
        Ok(())
    })
}

fn put(bytes: &[u8], out: &mut KeyWriter) {
    out.reserve(bytes.len());
    out.copy(bytes, 0, bytes.len());
}

/// `len` keys, each as `put` writes it.
fn written<T>(
    len: usize,
    items: impl IntoIterator<Item = T>,
    put: impl Fn(T, &mut KeyWriter),
) -> Keys {
    let Ok(keys) = try_written::<_, Infallible>(len, items, |item, out| {
        put(item, out);
        Ok(())
    });
    keys
}

fn try_written<T, E>(
    len: usize,
    items: impl IntoIterator<Item = T>,
    put: impl Fn(T, &mut KeyWriter) -> std::result::Result<(), E>,
) -> std::result::Result<Keys, E> {
    let mut out = KeyWriter::new(0);
    let mut offsets = Vec::with_capacity(len + 1);
    offsets.push(0);
    for item in items {
        put(item, &mut out)?;
        offsets.push(offset(out.len()));
    }
    Ok(Keys::new(offsets, out.finish()))
}

/// The first value of what is left of a key, which is whole; `None` if it is not one of the column. A null that was dropped is one.
fn first_value<'k>(rest: &mut &'k [u8], column: &Column) -> Option<&'k [u8]> {
    if rest.is_empty() {
        return Some(&[NULL]);
    }
    let value = whole_value(rest, column)?;
    *rest = &rest[value.len()..];
    Some(value)
}

/// The value that some bytes begin with, unless they end within it.
fn whole_value<'k>(rest: &'k [u8], column: &Column) -> Option<&'k [u8]> {
    let payload = match column {
        Column::Plain(payload) => *payload,
        Column::Numbers(numbers) => Some(numbers.payload),
        Column::Texts(_) => None,
    };
    let len = column_len(rest, payload).ok()?;
    Some(&rest[..len])
}

fn put_code(code: u64, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&code.to_be_bytes()[NUMBER - width..]);
}

/// Before the keys that go on with a code or a greater one.
fn before_code(column: &Column, code: u64, width: usize, mut out: Vec<u8>) -> Bound {
    if column.is_past_all(code) {
        return Bound::of_parts(out, true);
    }
    put_code(code, width, &mut out);
    Bound::of_parts(out, false)
}
