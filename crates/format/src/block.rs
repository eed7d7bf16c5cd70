//! A block: some consecutive rows, all columns, in bytes that stand for themselves.
//!
//! One form serves the data blocks of a segment and the bodies of log frames, so a block may have
//! any size. Every encoding's length is known before it is written ([`BlockSizer`]), and every
//! value can be read without touching the rows before it, so fetching a row costs O(columns). The
//! bytes are drawn in `docs/format.md`, section "Row blocks".
//!
//! Reading checks everything it relies on: damaged bytes are an error, never a panic, and a block
//! never claims more rows than it has bytes. Checksums, and which layout a block was written with,
//! are left to whoever stores it; a block with fewer values than the layout has was written before
//! columns were added, and reads as null there.

mod builder;
mod byte_list;
mod encoder;
mod section;
#[cfg(test)]
mod tests;
mod weights;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::StringArray;
use arrow_schema::DataType;

use crate::cursor::{Cursor, put_u32, put_varint, varint_len};
use crate::dictionary::{Dictionaries, TextCodes};
use crate::error::{FormatError, Result};
use crate::extents::{ExtentPlace, Extents, place_of};
use crate::key::{Bound, compare_parts};
use crate::rows::{Layout, Projection, Rows};
pub use builder::{Picked, RowsBuilder};
use byte_list::ListView;
use encoder::{ColumnEncoder, KeyEncoder, column_encoder, section_size};
use section::{Section, StringValues, bit};

// Encoding bytes. The upper two bits say where nulls are, the lower six how values are stored.
const NULL_MASK: u8 = 0xc0;
/// All rows are null, and the section is empty.
const ALL_NULL: u8 = 0x40;
/// The section begins with one bit a row, set where the row has a value.
const NULL_BITMAP: u8 = 0x80;
/// One value for all rows.
const CONSTANT: u8 = 0;
/// Numbers, each in its own width.
const PLAIN: u8 = 1;
/// Booleans, one bit each.
const BITS: u8 = 1;
/// Integers: the least in its own width, the bits of a distance, then each one's distance from the least.
const PACKED: u8 = 2;
/// Numbers that are integers once they are multiplied by a power of ten: that power, then these as in [`PACKED`].
const SCALED: u8 = 3;
/// Texts: the bits of a code, then one code a row into the segment's dictionary of the column.
const SHARED: u8 = 16;
/// Some strings lie apart: one bit a row, set where that is so, then the others as without this bit, with a reference in
/// place of each that does.
const EXTENTS: u8 = 32;
/// One code a row into a list of different strings; plus that list's form. A string column without
/// this bit is a list itself.
const DICTIONARY: u8 = 8;

/// Rows whose size is worked out at a time ...
const SIZING_STEP: usize = 32;
/// ... unless their keys and strings are longer: one that is too many is looked at for nothing.
const SIZING_STEP_BYTES: usize = 64 << 10;

/// What of some rows' values is not in their blocks, but named there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Apart<'a> {
    /// Of texts that a dictionary has.
    pub codes: &'a TextCodes,
    /// Of long values.
    pub extents: &'a Extents,
}

/// The exact encoded length of a block that grows row by row.
///
/// Costs O(columns) a row, in one typed loop a column and call.
pub struct BlockSizer<'a> {
    from: usize,
    to: usize,
    row_count: usize,
    /// The keys, then the values.
    columns: Vec<Box<dyn ColumnEncoder + 'a>>,
}

impl<'a> BlockSizer<'a> {
    /// A block that begins with row `from` of `rows` and is empty so far. `apart` is that of all rows, or nothing.
    pub fn new(rows: &'a Rows, from: usize, apart: Apart<'a>) -> BlockSizer<'a> {
        let keys: Box<dyn ColumnEncoder + 'a> = Box::new(KeyEncoder::new(rows.keys()));
        let codes = |value: usize| apart.codes.get(value).and_then(|codes| codes.as_deref());
        let extents =
            |value: usize| apart.extents.get(value).and_then(|extents| extents.as_deref());
        let values = rows.values().iter().enumerate();
        let values =
            values.map(|(value, array)| column_encoder(array, codes(value), extents(value)));
        let columns = std::iter::once(keys).chain(values).collect();
        BlockSizer { from, to: from, row_count: rows.len(), columns }
    }

    /// Lets the block end before row `to`, which must not lie before its present end.
    pub fn extend_to(&mut self, to: usize) {
        self.extend(to, &mut []);
    }

    fn extend(&mut self, to: usize, record: &mut [usize]) {
        assert!(self.to <= to && to <= self.row_count, "rows end at {}", self.row_count);
        for column in &mut self.columns {
            column.extend(self.to..to, record);
        }
        self.to = to;
    }

    /// Bytes that the block takes.
    pub fn encoded_len(&self) -> usize {
        let sections = self.columns.iter().map(|column| section_size(column.form()));
        self.preamble_len() + sections.sum::<usize>()
    }

    fn preamble_len(&self) -> usize {
        4 + varint_len(self.value_count())
    }

    fn value_count(&self) -> u64 {
        self.columns.len() as u64 - 1
    }

    /// Appends the block.
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let encoded_len = self.encoded_len();
        out.reserve(encoded_len);
        put_u32(out, u32::try_from(self.to - self.from).expect("a block's rows fit 32 bits"));
        put_varint(out, self.value_count());
        for column in &self.columns {
            let (encoding, len) = column.form();
            out.push(encoding);
            put_varint(out, len as u64);
        }
        for column in &self.columns {
            column.write(self.from..self.to, out);
        }
        assert_eq!(out.len() - start, encoded_len, "a section has another length than foreseen");
    }
}

/// How many rows from `from` on fit in a block of `budget` bytes; at least one, which may be
/// larger than the budget.
///
/// O(rows taken * columns).
pub fn rows_that_fit(rows: &Rows, from: usize, apart: Apart<'_>, budget: usize) -> usize {
    assert!(from < rows.len(), "row {from} of {}", rows.len());
    let mut sizer = BlockSizer::new(rows, from, apart);
    let mut start = from;
    while start < rows.len() {
        let mut end = rows.len().min(start + SIZING_STEP);
        while end - start > 1 && rows.string_bytes_in(start..end) > SIZING_STEP_BYTES {
            end = start + (end - start).div_ceil(2);
        }
        let mut sizes = [sizer.preamble_len(); SIZING_STEP];
        sizer.extend(end, &mut sizes);
        // The first size that is too large ends the block: sizes rise, but for a byte at times.
        if let Some(over) = sizes[..end - start].iter().position(|size| *size > budget) {
            return (start + over - from).max(1);
        }
        start = end;
    }
    rows.len() - from
}

/// Appends the block of the rows `from..to`, which hold all columns. `apart` is that of all rows, or nothing.
pub fn encode(rows: &Rows, from: usize, to: usize, apart: Apart<'_>, out: &mut Vec<u8>) {
    let mut sizer = BlockSizer::new(rows, from, apart);
    sizer.extend_to(to);
    sizer.write(out);
}

/// Bytes that [`encode`] appends where nothing lies apart.
pub fn encoded_len(rows: &Rows, from: usize, to: usize) -> usize {
    let mut sizer = BlockSizer::new(rows, from, Apart::default());
    sizer.extend_to(to);
    sizer.encoded_len()
}

/// How many values the rows of a block have: at most as many as their table's layout, once all columns are
/// known that were added before the block was written.
pub fn value_count(bytes: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(bytes, "block");
    cursor.u32()?;
    cursor.varint()
}

/// A block whose header has been read.
#[derive(Debug, Clone)]
pub struct BlockView<'a> {
    row_count: usize,
    key_prefix: &'a [u8],
    key_rests: ListView<'a>,
    sections: Sections<'a>,
    dictionaries: &'a Dictionaries,
    /// The values that lie apart, in the order of [`BlockView::extents`].
    extents: &'a [Arc<[u8]>],
}

/// The sections of a block's values, in order. Taken apart as they are asked for: a header may be longer
/// than what is read of its block.
#[derive(Debug, Clone)]
struct Sections<'a> {
    /// Encoding and length of each, checked.
    header: Cursor<'a>,
    bytes: &'a [u8],
}

impl<'a> BlockView<'a> {
    /// Reads the header: O(columns), without allocating. Fails if it contradicts the length of `bytes` or
    /// has more values than the layout.
    pub fn parse(bytes: &'a [u8], layout: &Layout) -> Result<BlockView<'a>> {
        let mut cursor = Cursor::new(bytes, "block");
        let row_count = cursor.u32()? as usize;
        let value_count = cursor.varint()?;
        if value_count > layout.value_types().len() as u64 {
            let known = layout.value_types().len();
            return Err(cursor.error(format!("{value_count} values, the table has {known}")));
        }
        let (key_form, keys_len) = header_entry(&mut cursor)?;
        let header = cursor.clone();
        let mut values_len = 0usize;
        for _ in 0..value_count {
            let (_, len) = header_entry(&mut cursor)?;
            let sum = values_len.checked_add(len);
            values_len = sum.ok_or_else(|| cursor.error("a length exceeds memory"))?;
        }
        let header = header.up_to(&cursor);
        let mut keys = Cursor::new(cursor.take(keys_len)?, "block");
        let key_prefix = keys.bytes()?;
        // Every row takes at least a byte here, so a damaged row count is found before it is used.
        let key_rests = ListView::parse(key_form, row_count, keys.rest())?;
        let sections = Sections { header, bytes: cursor.take(values_len)? };
        cursor.finish()?;
        Ok(BlockView {
            row_count,
            key_prefix,
            key_rests,
            sections,
            dictionaries: &[],
            extents: &[],
        })
    }

    /// The same block, whose texts are looked up in dictionaries: those that are asked for and not in it.
    pub fn with_dictionaries(self, dictionaries: &'a Dictionaries) -> BlockView<'a> {
        BlockView { dictionaries, ..self }
    }

    /// The same block with the values that lie apart: those of the rows that will be taken from it, in the order in which
    /// [`BlockView::extents`] names them.
    pub fn with_extents(self, extents: &'a [Arc<[u8]>]) -> BlockView<'a> {
        BlockView { extents, ..self }
    }

    /// Where the projected values of some rows lie that lie apart: column by column, row by row. O(rows · columns of strings).
    pub fn extents(&self, projection: &Projection, rows: Picked<'_>) -> Result<Vec<ExtentPlace>> {
        let (mut places, mut sections, mut passed) = (Vec::new(), self.sections.clone(), 0);
        for (&index, data_type) in projection.values.iter().zip(&projection.types) {
            let Some(section) = sections.nth(index - passed) else { break };
            passed = index + 1;
            // What stores no column any more is not read.
            if section.encoding & EXTENTS == 0 || *data_type == DataType::Null {
                continue;
            }
            let (presence, values) = section.presence(self.row_count)?;
            let (apart, values) = values.apart(self.row_count)?;
            let values = StringValues::parse(values, self.row_count)?;
            rows.try_for_each(|row| {
                if presence.holds(row) && bit(apart, row) {
                    places.push(place_of(values.get(row, None)?)?);
                }
                Ok(())
            })?;
        }
        Ok(places)
    }

    /// The dictionary of a value.
    fn dictionary(&self, value: usize) -> Option<&'a StringArray> {
        let found = self.dictionaries.iter().find(|(of, _)| *of == value);
        found.map(|(_, dictionary)| dictionary.as_ref())
    }

    /// Rows in the block.
    pub fn rows(&self) -> usize {
        self.row_count
    }

    /// Compares the key of row `row` with `other`.
    pub fn compare_key(&self, row: usize, other: &[u8]) -> Result<Ordering> {
        Ok(compare_parts(self.key_prefix, self.key_rests.get(row)?, other))
    }

    /// Appends the key of row `row`.
    pub fn key_into(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let rest = self.key_rests.get(row)?;
        out.extend_from_slice(self.key_prefix);
        out.extend_from_slice(rest);
        Ok(())
    }

    /// The first row behind `bound`, or the row count if there is none. The rows are sorted by key.
    pub fn rank(&self, bound: &Bound) -> Result<usize> {
        let bound = bound.within(self.key_prefix);
        let (mut low, mut high) = (0, self.row_count);
        while low < high {
            let middle = low + (high - low) / 2;
            if bound.lies_before(self.key_rests.get(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Section<'a>;

    fn next(&mut self) -> Option<Section<'a>> {
        if self.header.is_empty() {
            return None;
        }
        let (encoding, len) = header_entry(&mut self.header).expect("`parse` read the header");
        let (bytes, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Some(Section { encoding, bytes })
    }
}

/// The encoding and the length of a column's section.
fn header_entry(cursor: &mut Cursor<'_>) -> Result<(u8, usize)> {
    let (encoding, len) = (cursor.u8()?, cursor.varint()?);
    let len = usize::try_from(len).map_err(|_| cursor.error("a length exceeds memory"))?;
    Ok((encoding, len))
}

#[cold]
fn malformed(detail: impl Into<String>) -> FormatError {
    FormatError::malformed("block", detail)
}
