//! A block, opened for reading.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::block::encoding_byte::EXTENTS;
use crate::block::numbered_keys::{KeyRests, KeyRoom};
use crate::block::picked::Picked;
use crate::block::section::{Section, StringValues, bit};
use crate::cursor::Cursor;
use crate::dictionary::{Dictionaries, Dictionary};
use crate::error::Result;
use crate::extents::{ExtentPlace, place_of};
use crate::key::{Bound, compare_parts};
use crate::rows::{Layout, Projection};

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
    pub(super) row_count: usize,
    pub(super) key_prefix: &'a [u8],
    pub(super) key_rests: KeyRests<'a>,
    pub(super) sections: Sections<'a>,
    dictionaries: &'a Dictionaries,
    /// The values that lie apart, in the order of [`BlockView::extents`].
    pub(super) extents: &'a [Arc<[u8]>],
}

/// The sections of a block's values, in order. Taken apart as they are asked for: a header may be longer
/// than what is read of its block.
#[derive(Debug, Clone)]
pub(super) struct Sections<'a> {
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
        let key_rests = KeyRests::parse(key_form, row_count, keys.rest())?;
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
            let (_, values) = values.compressed()?;
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
    pub(super) fn dictionary(&self, value: usize) -> Option<&'a Dictionary> {
        let found = self.dictionaries.iter().find(|(of, _)| *of == value);
        found.map(|(_, dictionary)| dictionary.as_ref())
    }

    /// Rows in the block.
    pub fn rows(&self) -> usize {
        self.row_count
    }

    /// Compares the key of row `row` with `other`.
    pub fn compare_key(&self, row: usize, other: &[u8]) -> Result<Ordering> {
        let mut room = KeyRoom::new();
        Ok(compare_parts(self.key_prefix, self.key_rests.get(row, &mut room)?, other))
    }

    /// Appends the key of row `row`.
    pub fn key_into(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut room = KeyRoom::new();
        let rest = self.key_rests.get(row, &mut room)?;
        out.extend_from_slice(self.key_prefix);
        out.extend_from_slice(rest);
        Ok(())
    }

    /// The first row behind `bound`, or the row count if there is none. The rows are sorted by key.
    pub fn rank(&self, bound: &Bound) -> Result<usize> {
        let bound = bound.within(self.key_prefix);
        let (mut low, mut high) = (0, self.row_count);
        let mut room = KeyRoom::new();
        while low < high {
            let middle = low + (high - low) / 2;
            if bound.lies_before(self.key_rests.get(middle, &mut room)?) {
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
