//! Which values of some rows lie apart from their blocks, and where.
//!
//! Their places are known before they are written: one behind the other, from where the file ends now. So a block can be
//! encoded, and its length judged, first.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use drillcore_format::extents::{INLINE_BYTES_MAX, Reference, reference};
use drillcore_format::page::{PageKind, page_len};
use drillcore_format::rows::Rows;

use crate::pages::page_writer::PageWriter;

/// The long values of the rows of a batch, from one of them on.
#[derive(Default)]
pub struct LongValues {
    /// For each value of the table, for each row of the batch.
    pub references: Vec<Option<Vec<Option<Reference>>>>,
    /// Row, value, and the bytes of its page, in the order in which they are written.
    values: Vec<(usize, usize, u64)>,
}

impl LongValues {
    /// Those of the rows from `from` on, if they are written from `position` of the file on. O(rows · columns of strings).
    pub fn of(rows: &Rows, from: usize, position: u64) -> LongValues {
        let mut values: Vec<(usize, usize, u64)> = Vec::new();
        for (value, array) in rows.values().iter().enumerate() {
            let offsets = match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value_offsets(),
                DataType::Binary => array.as_binary::<i32>().value_offsets(),
                _ => continue,
            };
            let long = (from..rows.len()).filter_map(|row| {
                let len = (offsets[row + 1] - offsets[row]) as usize;
                let is_long = len > INLINE_BYTES_MAX && array.is_valid(row);
                is_long.then(|| (row, value, page_len(0, len, false) as u64))
            });
            values.extend(long);
        }
        let mut long = LongValues::default();
        if values.is_empty() {
            return long;
        }
        values.sort_unstable();
        long.references.resize(rows.values().len(), None);
        let mut offset = position;
        for &(row, value, bytes) in &values {
            let of_column = long.references[value].get_or_insert_with(|| vec![None; rows.len()]);
            of_column[row] = Some(reference((offset, bytes as u32)));
            offset += bytes;
        }
        long.values = values;
        long
    }

    /// How many rows from `from` on have no more than `bytes_max` of them; one at least, of `most`.
    pub fn rows_within(&self, from: usize, most: usize, bytes_max: u64) -> usize {
        let mut bytes = 0;
        let past = self.of_rows(from, from + most).iter().find(|(_, _, of_one)| {
            bytes += of_one;
            bytes > bytes_max
        });
        past.map_or(most, |(row, _, _)| (row - from).max(1))
    }

    /// The bytes of the pages of some rows.
    pub fn bytes(&self, from: usize, to: usize) -> u64 {
        self.of_rows(from, to).iter().map(|(_, _, bytes)| bytes).sum()
    }

    /// Adds those of the rows `from..to` to the file, where they should lie.
    pub fn write(&self, rows: &Rows, from: usize, to: usize, file: &mut PageWriter) {
        for &(row, value, _) in self.of_rows(from, to) {
            let array = rows.value(value);
            let bytes = match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
                _ => array.as_binary::<i32>().value(row),
            };
            let place = file.put_page(PageKind::Extent, bytes, false);
            let foreseen = self.references[value].as_ref().and_then(|column| column[row]);
            assert_eq!(foreseen, Some(reference(place)), "a long value lies elsewhere");
        }
    }

    fn of_rows(&self, from: usize, to: usize) -> &[(usize, usize, u64)] {
        let start = self.values.partition_point(|(row, _, _)| *row < from);
        let end = self.values.partition_point(|(row, _, _)| *row < to);
        &self.values[start..end]
    }
}
