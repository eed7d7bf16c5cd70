//! Running sums of one weight column of a run.
//!
//! A sum every [`STRIDE`] rows; between two of them the column itself is added up. So sums of any
//! interval, and the row that holds a given unit, cost a binary search and at most a stride.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_select::take::take;
use drillcore_format::narrowing::narrowed;
use drillcore_format::weight::{NoWeight, row_of_unit, stored_units, units_in};

use crate::error::{Error, ErrorKind, Result};

/// Rows between two sums: a quarter of a byte a row, and a few cache lines to add up.
const STRIDE: usize = 64;

/// Running sums of a weight column.
#[derive(Debug)]
pub struct WeightIndex {
    values: ArrayRef,
    /// The sum over the rows before row `number * STRIDE`, then over all rows.
    sums: Vec<u128>,
}

impl WeightIndex {
    /// Sums up a column.
    ///
    /// # Errors
    /// `Corrupt` if a value is no weight: appends refuse those.
    pub fn new(values: &ArrayRef) -> Result<WeightIndex> {
        let mut sums = Vec::with_capacity(values.len() / STRIDE + 2);
        let mut sum = 0u128;
        for start in (0..values.len()).step_by(STRIDE) {
            sums.push(sum);
            let units = stored_units(&stride_of(values, start)).map_err(no_weight)?;
            sum += units.iter().map(|&unit| u128::from(unit)).sum::<u128>();
        }
        sums.push(sum);
        Ok(WeightIndex { values: values.clone(), sums })
    }

    /// The same for the rows at some ordinals, whose weights are copied, into as few bytes as hold them.
    pub fn of_rows(&self, ordinals: &[u32]) -> Result<WeightIndex> {
        let values = take(&self.values, &UInt32Array::from(ordinals.to_vec()), None)
            .expect("each ordinal is that of a row");
        // Of nulls alone, which are the weights of tombstones, no numbers would be left.
        WeightIndex::new(&if values.null_count() < values.len() {
            narrowed(&values)
        } else {
            values
        })
    }

    /// The sum over the rows before `ordinal`.
    pub fn before(&self, ordinal: u64) -> u128 {
        let ordinal = ordinal as usize;
        if ordinal == self.values.len() {
            return self.sums[self.sums.len() - 1];
        }
        let number = ordinal / STRIDE;
        self.sums[number] + units_in(&self.values, number * STRIDE..ordinal)
    }

    /// Finds the rows that hold some units. All are among `rows`.
    pub fn units_among(&self, rows: Range<u64>) -> AscendingUnits<'_> {
        let first = rows.start as usize / STRIDE;
        let last = (rows.end as usize).div_ceil(STRIDE);
        AscendingUnits {
            index: self,
            stride: first,
            strides: last,
            row: first * STRIDE,
            before: self.sums[first],
        }
    }

    /// Bytes of the sums.
    pub fn allocated_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u128>()
    }

    /// Bytes of the sums and of the weights.
    pub fn bytes_with_values(&self) -> usize {
        self.allocated_bytes() + self.values.get_buffer_memory_size()
    }
}

/// Finds rows by their units, one after the other: what was added up for one is not for the next.
pub struct AscendingUnits<'a> {
    index: &'a WeightIndex,
    /// Where the last unit was found, ...
    stride: usize,
    row: usize,
    /// ... and the sum over the rows before that row.
    before: u128,
    /// The strides up to the last row that may be asked for.
    strides: usize,
}

impl AscendingUnits<'_> {
    /// The row that holds the `target`-th unit, counted from 0 over all rows, and its units. Targets do not descend. A binary
    /// search, unless the row lies in the same stride as the last one, and at most a stride.
    pub fn next(&mut self, target: u128) -> (u64, u128) {
        let WeightIndex { values, sums } = self.index;
        if sums[self.stride + 1] <= target {
            // The last sum lies above the target.
            let later = &sums[self.stride + 1..=self.strides];
            self.stride += later.partition_point(|&before| before <= target);
            (self.row, self.before) = (self.stride * STRIDE, sums[self.stride]);
        }
        let end = values.len().min((self.stride + 1) * STRIDE);
        let found = row_of_unit(values, self.row..end, target - self.before);
        (self.row, self.before) = (found.row, target - found.within);
        (found.row as u64, u128::from(found.units))
    }
}

fn stride_of(values: &ArrayRef, start: usize) -> ArrayRef {
    values.slice(start, STRIDE.min(values.len() - start))
}

/// The error of a stored row that has no weight.
pub fn no_weight((row, why): (usize, NoWeight)) -> Error {
    let message = format!("the weight of row {row} is damaged: {why:?}");
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use std::sync::Arc;

    #[test]
    fn every_unit_belongs_to_the_row_that_a_linear_search_finds() {
        for rows in [1usize, 63, 64, 65, 200] {
            let weights: Vec<i64> = (0..rows as i64).map(|row| row * 7 % 5).collect();
            let index =
                WeightIndex::new(&(Arc::new(Int64Array::from(weights.clone())) as ArrayRef))
                    .unwrap();
            let mut before = 0u128;
            let mut all = index.units_among(0..rows as u64);
            for (row, &weight) in weights.iter().enumerate() {
                assert_eq!(index.before(row as u64), before);
                for unit in 0..weight as u128 {
                    let found = (row as u64, weight as u128);
                    assert_eq!(all.next(before + unit), found);
                    let mut alone = index.units_among(row as u64..row as u64 + 1);
                    assert_eq!(alone.next(before + unit), found);
                    // The first of all, and then this one.
                    let mut leaps = index.units_among(0..rows as u64);
                    leaps.next(0);
                    assert_eq!(leaps.next(before + unit), found);
                }
                before += weight as u128;
            }
            assert_eq!(index.before(rows as u64), before);
        }
    }
}
