//! How the values of one key column are held in keys by code, and back.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::key::codes::values::{Values, code_width};
use crate::key::encoding::{NULL, PRESENT, column_len, number_of, payload_width};
use crate::key::key_writer::KeyWriter;

/// Bytes of the longest numbers that get codes, and of a code at most.
pub(super) const NUMBER: usize = size_of::<u64>();

/// How keys hold one of their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// As it is encoded in other keys, with nulls also at the end of a key. The bytes of a value behind its tag, unless it is a text.
    Plain(Option<usize>),
    Numbers(Numbers),
    Texts(Arc<Values>),
}

/// Numbers by their distance from the least; null is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Bytes of a number behind its tag.
    pub payload: usize,
    /// The least and the greatest, if not all are null.
    pub ends: Option<(u64, u64)>,
    pub has_nulls: bool,
}

/// A code of a column, or where it would be.
pub(super) enum Found {
    Code(u64),
    /// No code; this many are less.
    Between(u64),
}

impl Numbers {
    /// Numbers that are given; `None` is null. `None` if there are more than codes.
    pub fn of(payload: usize, numbers: impl Iterator<Item = Option<u64>>) -> Option<Numbers> {
        let mut found = Numbers { payload, ends: None, has_nulls: false };
        for number in numbers {
            match number {
                None => found.has_nulls = true,
                Some(number) => {
                    let (least, greatest) = found.ends.unwrap_or((number, number));
                    found.ends = Some((least.min(number), greatest.max(number)));
                }
            }
        }
        found.count().map(|_| found.in_frame())
    }

    /// All numbers that have the same first bytes, if codes take no more bytes then. Parts of rows that come one after the other, as times
    /// do, are mostly held alike so.
    fn in_frame(self) -> Numbers {
        let Some((least, greatest)) = self.ends.filter(|_| !self.has_nulls) else { return self };
        let Some(width) = self.count().map(code_width) else { return self };
        let frame = u64::MAX.unbounded_shr(u64::BITS - u8::BITS * width as u32);
        match least | frame == greatest | frame && width < self.payload {
            true => Numbers { ends: Some((least & !frame, least | frame)), ..self },
            false => self,
        }
    }

    /// Those of both. `None` if there are more than codes.
    pub fn or(self, other: Numbers) -> Option<Numbers> {
        let ends = match (self.ends, other.ends) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        let both = Numbers { ends, has_nulls: self.has_nulls || other.has_nulls, ..self };
        both.count().map(|_| both.in_frame())
    }

    /// Bytes of a code.
    pub fn width(self) -> usize {
        code_width(self.count().expect("checked when it was made"))
    }

    /// The number of codes, unless it exceeds 64 bits.
    fn count(self) -> Option<u64> {
        let numbers =
            self.ends.map_or(Some(0), |(least, greatest)| (greatest - least).checked_add(1));
        numbers?.checked_add(u64::from(self.has_nulls))
    }

    #[inline]
    pub fn code(self, number: Option<u64>) -> u64 {
        let least = self.ends.map_or(0, |(least, _)| least);
        number.map_or(0, |number| number - least + u64::from(self.has_nulls))
    }

    /// The number with a code; `None` is null.
    #[inline]
    pub fn number(self, code: u64) -> Option<u64> {
        let above = code.checked_sub(u64::from(self.has_nulls))?;
        self.ends.map(|(least, _)| least + above)
    }

    /// How many codes are those of numbers less than one, or of null.
    fn codes_below(self, number: u64) -> u64 {
        let below = self.ends.map_or(0, |(least, greatest)| match number {
            _ if number <= least => 0,
            _ if number > greatest => greatest - least + 1,
            _ => number - least,
        });
        u64::from(self.has_nulls) + below
    }
}

impl Column {
    /// A column of a type, of rows that were written before it was there.
    pub fn of_nulls(data_type: &DataType) -> Column {
        match payload_width(data_type) {
            None => Column::Texts(Arc::new(Values::of_nulls())),
            Some(payload @ ..=NUMBER) => {
                Column::Numbers(Numbers { payload, ends: None, has_nulls: true })
            }
            payload => Column::Plain(payload),
        }
    }

    pub fn plain(data_type: &DataType) -> Column {
        Column::Plain(payload_width(data_type))
    }

    pub fn is_plain(&self) -> bool {
        matches!(self, Column::Plain(_))
    }

    /// The values of texts that have codes.
    pub fn texts(&self) -> Option<&Values> {
        match self {
            Column::Texts(values) => Some(values),
            Column::Plain(_) | Column::Numbers(_) => None,
        }
    }

    /// Whether the values of both have the same codes.
    pub fn is_like(&self, other: &Column) -> bool {
        match (self, other) {
            (Column::Texts(values), Column::Texts(others)) => {
                Arc::ptr_eq(values, others) || values == others
            }
            _ => self == other,
        }
    }

    /// The number of codes. Panics of a column without.
    fn count(&self) -> u64 {
        match self {
            Column::Plain(_) => unreachable!("asked of columns with codes"),
            Column::Numbers(numbers) => numbers.count().expect("checked when it was made"),
            Column::Texts(values) => values.len() as u64,
        }
    }

    /// Bytes of a code, if there are codes.
    pub fn width(&self) -> Option<usize> {
        (!self.is_plain()).then(|| code_width(self.count()))
    }

    /// Takes the bytes of the column, whose [`Column::width`] is given, off what is left of a key.
    #[inline]
    pub fn take<'k>(&self, width: Option<usize>, rest: &mut &'k [u8]) -> &'k [u8] {
        let len = match (width, self) {
            (Some(width), _) => width,
            (None, Column::Plain(payload)) => {
                column_len(rest, *payload).expect("a key was encoded")
            }
            (None, _) => unreachable!("codes have a width"),
        };
        let (held, behind) = rest.split_at(len);
        *rest = behind;
        held
    }

    /// Writes a value as other keys have it.
    #[inline]
    pub fn spell(&self, held: &[u8], out: &mut KeyWriter) {
        match self {
            Column::Plain(_) if held.is_empty() => out.push(NULL),
            Column::Plain(_) => out.copy(held, 0, held.len()),
            Column::Texts(values) => {
                let (bytes, begin, len) = values.place(code_of(held) as usize);
                out.copy(bytes, begin, len);
            }
            Column::Numbers(numbers) => match numbers.number(code_of(held)) {
                None => out.push(NULL),
                Some(number) => {
                    out.push(PRESENT);
                    out.put_number(number, numbers.payload);
                }
            },
        }
    }

    /// [`Column::spell`], with room for it.
    #[inline]
    pub fn spell_one(&self, held: &[u8], out: &mut KeyWriter) {
        out.reserve(self.longest() + held.len());
        self.spell(held, out);
    }

    /// Bytes of a value as other keys have it.
    pub fn spelled_len(&self, held: &[u8]) -> usize {
        match self {
            Column::Plain(_) => held.len().max(1),
            Column::Texts(values) => values.get(code_of(held) as usize).len(),
            Column::Numbers(numbers) => match numbers.number(code_of(held)) {
                None => 1,
                Some(_) => 1 + numbers.payload,
            },
        }
    }

    /// Bytes of the longest value as other keys have it; of a column without codes those of a null. O(1).
    pub fn longest(&self) -> usize {
        match self {
            Column::Plain(_) => 1,
            Column::Texts(values) => values.longest(),
            Column::Numbers(numbers) => 1 + numbers.payload,
        }
    }

    /// The code of a value as other keys have it, which is whole. Panics of a column without.
    pub fn find(&self, value: &[u8]) -> Found {
        match self {
            Column::Plain(_) => unreachable!("asked of columns with codes"),
            Column::Texts(values) => match values.code(value) {
                Ok(code) => Found::Code(code as u64),
                Err(less) => Found::Between(less as u64),
            },
            Column::Numbers(numbers) => {
                let number = (value != [NULL]).then(|| number_of(&value[1..]));
                match (number, numbers.ends) {
                    (None, _) if numbers.has_nulls => Found::Code(0),
                    (None, _) => Found::Between(0),
                    (Some(number), Some((least, greatest)))
                        if (least..=greatest).contains(&number) =>
                    {
                        Found::Code(numbers.code(Some(number)))
                    }
                    (Some(number), _) => Found::Between(numbers.codes_below(number)),
                }
            }
        }
    }

    /// How many codes are those of values before `part`, the beginning of a value; if `or_begin`, also those that begin with it. Panics of
    /// a column without codes.
    pub fn codes_before(&self, part: &[u8], or_begin: bool) -> u64 {
        match self {
            Column::Plain(_) => unreachable!("asked of columns with codes"),
            Column::Texts(values) => {
                let is_behind =
                    |value: &[u8]| value >= part && !(or_begin && value.starts_with(part));
                values.count_before(is_behind) as u64
            }
            Column::Numbers(numbers) => {
                let payload = &part[1..];
                // The first number that begins so.
                let missing = u8::BITS * (numbers.payload - payload.len()) as u32;
                let first = number_of(payload).unbounded_shl(missing);
                match or_begin {
                    false => numbers.codes_below(first),
                    true => match first.checked_add(1u64.unbounded_shl(missing)) {
                        Some(end) if missing < u64::BITS => numbers.codes_below(end),
                        _ => self.count(),
                    },
                }
            }
        }
    }

    /// Whether no code is so great.
    pub fn is_past_all(&self, code: u64) -> bool {
        code >= self.count()
    }

    pub fn allocated_bytes(&self) -> usize {
        match self {
            Column::Texts(values) => values.allocated_bytes(),
            Column::Plain(_) | Column::Numbers(_) => 0,
        }
    }

    /// The value with a code as other keys have it.
    pub fn value(&self, code: u64) -> Cow<'_, [u8]> {
        match self {
            Column::Plain(_) => unreachable!("asked of columns with codes"),
            Column::Texts(values) => values.get(code as usize).into(),
            Column::Numbers(numbers) => match numbers.number(code) {
                None => vec![NULL].into(),
                Some(number) => {
                    let bytes = &number.to_be_bytes()[NUMBER - numbers.payload..];
                    [&[PRESENT], bytes].concat().into()
                }
            },
        }
    }
}

/// The code that a key holds.
#[inline]
pub(super) fn code_of(held: &[u8]) -> u64 {
    match *held {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_be_bytes([0, a, b, c])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        _ => number_of(held),
    }
}
