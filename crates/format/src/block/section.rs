//! The encoded values of one column, opened for reading.

use super::byte_list::ListView;
use super::{
    ALL_NULL, BITS, CONSTANT, DICTIONARY, DISTANCE, NULL_BITMAP, NULL_MASK, PLAIN, malformed,
};
use crate::error::Result;
use crate::key::fixed::Fixed;

/// A code is a byte.
pub(super) const DICTIONARY_ENTRIES_MAX: usize = 256;

/// A column's part of a block, as found by the header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section<'a> {
    pub encoding: u8,
    pub bytes: &'a [u8],
}

/// Which rows have a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Presence<'a> {
    All,
    None,
    /// One bit a row, the first in the lowest bit.
    Bitmap(&'a [u8]),
}

impl Presence<'_> {
    pub fn holds(&self, row: usize) -> bool {
        match self {
            Presence::All => true,
            Presence::None => false,
            Presence::Bitmap(bits) => bit(bits, row),
        }
    }
}

/// The bit of `row`.
pub(super) fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

impl<'a> Section<'a> {
    /// Splits off what is known about nulls; the rest are the encoding and bytes of the values.
    pub fn presence(&self, row_count: usize) -> Result<(Presence<'a>, Section<'a>)> {
        let encoding = self.encoding & !NULL_MASK;
        let whole = Section { encoding, bytes: self.bytes };
        match self.encoding & NULL_MASK {
            0 => Ok((Presence::All, whole)),
            ALL_NULL if encoding == 0 && self.bytes.is_empty() => Ok((Presence::None, whole)),
            NULL_BITMAP => match self.bytes.split_at_checked(row_count.div_ceil(8)) {
                Some((bits, bytes)) => Ok((Presence::Bitmap(bits), Section { encoding, bytes })),
                None => Err(malformed("a null bitmap is cut short")),
            },
            _ => Err(malformed(format!("unknown encoding {:#04x}", self.encoding))),
        }
    }

    fn expect_len(&self, len: Option<usize>) -> Result<()> {
        if len == Some(self.bytes.len()) {
            return Ok(());
        }
        Err(malformed(format!("values fill {} bytes, not {len:?}", self.bytes.len())))
    }

    fn unknown<T>(&self) -> Result<T> {
        Err(malformed(format!("unknown encoding {:#04x}", self.encoding)))
    }
}

/// Numbers in one of their encodings, of checked length.
#[derive(Debug, Clone, Copy)]
pub(super) enum FixedValues<'a, N> {
    Constant(N),
    Plain(&'a [u8]),
    /// Distances of `width` bytes above `least`.
    Distance {
        least: N,
        width: usize,
        bytes: &'a [u8],
    },
}

impl<'a, N: Fixed> FixedValues<'a, N> {
    pub fn parse(section: Section<'a>, row_count: usize) -> Result<FixedValues<'a, N>> {
        match section.encoding {
            CONSTANT => {
                section.expect_len(Some(N::WIDTH))?;
                Ok(FixedValues::Constant(N::read_le(section.bytes)))
            }
            PLAIN => {
                section.expect_len(row_count.checked_mul(N::WIDTH))?;
                Ok(FixedValues::Plain(section.bytes))
            }
            encoding if N::IS_INTEGER => {
                let width = match encoding.checked_sub(DISTANCE) {
                    Some(width @ (1 | 2 | 4)) => usize::from(width),
                    _ => return section.unknown(),
                };
                let len = row_count.checked_mul(width);
                section.expect_len(len.and_then(|len| len.checked_add(N::WIDTH)))?;
                let (least, bytes) = section.bytes.split_at(N::WIDTH);
                Ok(FixedValues::Distance { least: N::read_le(least), width, bytes })
            }
            _ => section.unknown(),
        }
    }
}

/// Booleans in one of their encodings, of checked length.
#[derive(Debug, Clone, Copy)]
pub(super) enum BoolValues<'a> {
    Constant(bool),
    Bits(&'a [u8]),
}

impl<'a> BoolValues<'a> {
    pub fn parse(section: Section<'a>, row_count: usize) -> Result<BoolValues<'a>> {
        match (section.encoding, section.bytes) {
            (CONSTANT, [0]) => Ok(BoolValues::Constant(false)),
            (CONSTANT, [1]) => Ok(BoolValues::Constant(true)),
            (BITS, bits) => {
                section.expect_len(Some(row_count.div_ceil(8)))?;
                Ok(BoolValues::Bits(bits))
            }
            _ => section.unknown(),
        }
    }
}

/// Strings in one of their encodings, of checked length; not yet checked to be UTF-8.
#[derive(Debug, Clone, Copy)]
pub(super) enum StringValues<'a> {
    Constant(&'a [u8]),
    Dictionary { codes: &'a [u8], entry_count: usize, entries: ListView<'a> },
    Plain(ListView<'a>),
}

impl<'a> StringValues<'a> {
    pub fn parse(section: Section<'a>, row_count: usize) -> Result<StringValues<'a>> {
        let Section { encoding, bytes } = section;
        if encoding == CONSTANT {
            return Ok(StringValues::Constant(bytes));
        }
        if encoding & DICTIONARY == 0 {
            return Ok(StringValues::Plain(ListView::parse(encoding, row_count, bytes)?));
        }
        let Some((codes, [count_less_one, entries @ ..])) = bytes.split_at_checked(row_count)
        else {
            return Err(malformed("a dictionary is cut short"));
        };
        let entry_count = usize::from(*count_less_one) + 1;
        let entries = ListView::parse(encoding & !DICTIONARY, entry_count, entries)?;
        Ok(StringValues::Dictionary { codes, entry_count, entries })
    }
}

/// The dictionary entry that a row's code stands for.
#[inline]
pub(super) fn check_code(code: u8, entry_count: usize) -> Result<usize> {
    let code = usize::from(code);
    if code < entry_count {
        return Ok(code);
    }
    Err(malformed(format!("code {code} in a dictionary of {entry_count}")))
}
