//! The encoded values of one column, opened for reading.

use arrow_array::{Array, StringArray};

use crate::block::byte_list::ListView;
use crate::block::encoding_byte::{
    ALL_NULL, BITS, COMPRESSED, CONSTANT, DICTIONARY, EXTENTS, NULL_BITMAP, NULL_MASK, PACKED,
    PLAIN, SCALED, SHARED, malformed,
};
use crate::dictionary::Dictionary;
use crate::error::Result;
use crate::key::fixed::Fixed;
use crate::packed::{packed_at, packed_len, unpack, width_of};

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
    /// One bit per row, the first in the lowest bit.
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

    /// Splits off which rows' strings lie apart, one bit per row, of a section that says that some do.
    pub fn apart(&self, row_count: usize) -> Result<(&'a [u8], Section<'a>)> {
        match self.bytes.split_at_checked(row_count.div_ceil(8)) {
            Some((bits, bytes)) => {
                Ok((bits, Section { encoding: self.encoding & !EXTENTS, bytes }))
            }
            None => Err(malformed("which values lie apart is cut short")),
        }
    }

    /// Splits off whether strings are compressed.
    pub fn compressed(&self) -> Result<(bool, Section<'a>)> {
        let is_compressed = self.encoding & COMPRESSED != 0;
        let encoding = self.encoding & !COMPRESSED;
        if is_compressed && encoding == SHARED {
            return self.unknown();
        }
        Ok((is_compressed, Section { encoding, bytes: self.bytes }))
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
    /// Distances above `least`.
    Packed {
        least: N,
        distances: PackedView<'a>,
    },
    /// Distances above an integer: what they give is to be divided by 10^`scale`.
    Scaled {
        scale: u8,
        least: i64,
        distances: PackedView<'a>,
    },
}

/// Numbers of as many bits each, of checked length.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedView<'a> {
    width: u8,
    bytes: &'a [u8],
}

/// Numbers that are unpacked together.
const TOGETHER: usize = 128;

impl<'a> PackedView<'a> {
    /// Takes the list that `bytes` begin with; gives what follows it.
    pub fn parse(
        width: u8,
        row_count: usize,
        bytes: &'a [u8],
    ) -> Result<(PackedView<'a>, &'a [u8])> {
        if u32::from(width) > u64::BITS {
            return Err(malformed(format!("numbers of {width} bits")));
        }
        // A damaged row count is found where keys are taken apart, which have a byte each.
        match bytes.split_at_checked(packed_len(row_count, width)) {
            Some((bytes, rest)) => Ok((PackedView { width, bytes }, rest)),
            None => Err(malformed("packed numbers are cut short")),
        }
    }

    /// Takes the list that fills `bytes`, behind its width.
    fn parse_all(row_count: usize, bytes: &'a [u8]) -> Result<PackedView<'a>> {
        let Some((width, bytes)) = bytes.split_first() else {
            return Err(malformed("packed numbers without a width"));
        };
        match PackedView::parse(*width, row_count, bytes)? {
            (view, []) => Ok(view),
            _ => Err(malformed("bytes are left over behind packed numbers")),
        }
    }

    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        packed_at(self.bytes, self.width, row)
    }

    /// Calls `each` with the numbers of some rows in a row, which are unpacked together.
    pub fn for_each(&self, from: usize, end: usize, mut each: impl FnMut(u64)) {
        let mut next = from;
        let mut together = [0; TOGETHER];
        while next < end {
            // Eight numbers end with a byte.
            let first = next - next % 8;
            let len = (end - first).min(TOGETHER);
            unpack(
                &self.bytes[first / 8 * usize::from(self.width)..],
                self.width,
                &mut together[..len],
            );
            together[next - first..len].iter().for_each(|&number| each(number));
            next = first + len;
        }
    }
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
            PACKED if N::IS_INTEGER => match section.bytes.split_at_checked(N::WIDTH) {
                Some((least, bytes)) => {
                    let distances = PackedView::parse_all(row_count, bytes)?;
                    Ok(FixedValues::Packed { least: N::read_le(least), distances })
                }
                None => Err(malformed("a column without its least value")),
            },
            SCALED => match section.bytes.split_at_checked(1 + size_of::<i64>()) {
                Some(([scale, least @ ..], bytes)) if *scale < N::SCALES => {
                    let distances = PackedView::parse_all(row_count, bytes)?;
                    let least = i64::read_le(least);
                    Ok(FixedValues::Scaled { scale: *scale, least, distances })
                }
                _ => Err(malformed("a column that cannot be scaled")),
            },
            _ => section.unknown(),
        }
    }
}

impl<N: Fixed> FixedValues<'_, N> {
    /// Calls `each` with the values of the rows `from..to`.
    pub fn for_each(&self, from: usize, to: usize, mut each: impl FnMut(N)) {
        match *self {
            FixedValues::Constant(value) => (from..to).for_each(|_| each(value)),
            FixedValues::Plain(bytes) => {
                let values = bytes[from * N::WIDTH..to * N::WIDTH].chunks_exact(N::WIDTH);
                values.for_each(|value| each(N::read_le(value)));
            }
            FixedValues::Packed { least, distances } => {
                distances.for_each(from, to, |distance| each(least.plus(distance)));
            }
            FixedValues::Scaled { scale, least, distances } => {
                distances.for_each(from, to, |distance| {
                    // Only bytes that break the promise of the format can overflow; those read as some value.
                    let integer = least.wrapping_add(distance as i64);
                    each(N::of_scaled(integer, scale));
                });
            }
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

/// Strings, compressed or not, in one of their encodings, of checked length; not yet checked to be UTF-8.
#[derive(Debug, Clone, Copy)]
pub(super) enum StringValues<'a> {
    Constant(&'a [u8]),
    Dictionary {
        codes: PackedView<'a>,
        entry_count: usize,
        entries: ListView<'a>,
    },
    /// Codes into the segment's dictionary.
    Shared(PackedView<'a>),
    Plain(ListView<'a>),
}

impl<'a> StringValues<'a> {
    pub fn parse(section: Section<'a>, row_count: usize) -> Result<StringValues<'a>> {
        let Section { encoding, bytes } = section;
        if encoding == CONSTANT {
            return Ok(StringValues::Constant(bytes));
        }
        if encoding == SHARED {
            return Ok(StringValues::Shared(PackedView::parse_all(row_count, bytes)?));
        }
        if encoding & DICTIONARY == 0 {
            return Ok(StringValues::Plain(ListView::parse(encoding, row_count, bytes)?));
        }
        let Some((count_less_one, bytes)) = bytes.split_first() else {
            return Err(malformed("a dictionary is cut short"));
        };
        let entry_count = usize::from(*count_less_one) + 1;
        let width = width_of(u64::from(*count_less_one));
        let (codes, entries) = PackedView::parse(width, row_count, bytes)?;
        let entries = ListView::parse(encoding & !DICTIONARY, entry_count, entries)?;
        Ok(StringValues::Dictionary { codes, entry_count, entries })
    }
}

impl<'a> StringValues<'a> {
    /// The string of a row that has one; codes are looked up in the segment's dictionary.
    pub fn get<'s>(&self, row: usize, dictionary: Option<&'s Dictionary>) -> Result<&'s [u8]>
    where
        'a: 's,
    {
        match self {
            StringValues::Shared(codes) => {
                let entries = texts_of(dictionary)?;
                Ok(entries.value(check_code(codes.get(row), entries.len())?).as_bytes())
            }
            StringValues::Constant(value) => Ok(value),
            StringValues::Dictionary { codes, entry_count, entries } => {
                entries.get(check_code(codes.get(row), *entry_count)?)
            }
            StringValues::Plain(list) => list.get(row),
        }
    }
}

/// The texts that codes stand for.
pub(super) fn texts_of(dictionary: Option<&Dictionary>) -> Result<&StringArray> {
    Ok(dictionary.ok_or_else(|| malformed("codes without a dictionary"))?.texts())
}

/// The dictionary entry that a row's code stands for.
#[inline]
pub(super) fn check_code(code: u64, entry_count: usize) -> Result<usize> {
    if code < entry_count as u64 {
        return Ok(code as usize);
    }
    Err(malformed(format!("code {code} in a dictionary of {entry_count}")))
}
