//! Running sums of one weight column of a run.
//!
//! A sum every [`STRIDE`] rows; between two of them the column itself is added up. So sums of any
//! interval, and the row that holds a given unit, cost a binary search and at most a stride.

use arrow_array::ArrayRef;
use drillcore_format::weight::{NoWeight, stored_units};

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

    /// The sum over the rows before `ordinal`.
    pub fn before(&self, ordinal: u64) -> u128 {
        let ordinal = ordinal as usize;
        if ordinal == self.values.len() {
            return self.sums[self.sums.len() - 1];
        }
        let number = ordinal / STRIDE;
        let units = stride(&self.values, number * STRIDE);
        self.sums[number]
            + units[..ordinal % STRIDE].iter().map(|&unit| u128::from(unit)).sum::<u128>()
    }

    /// The row that holds the `target`-th unit, counted from 0, and its units. The target must be below
    /// the sum of all rows.
    pub fn row_of(&self, target: u128) -> (u64, u128) {
        // The last sum is that of all rows, which lies above the target.
        let number = self.sums.partition_point(|&before| before <= target) - 1;
        let mut rest = target - self.sums[number];
        for (row, unit) in stride(&self.values, number * STRIDE).into_iter().enumerate() {
            match rest.checked_sub(u128::from(unit)) {
                None => return ((number * STRIDE + row) as u64, u128::from(unit)),
                Some(left) => rest = left,
            }
        }
        unreachable!("a stride holds the units that its sums say")
    }

    pub fn allocated_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u128>()
    }
}

/// The units of a stride.
fn stride(values: &ArrayRef, start: usize) -> Vec<u64> {
    stored_units(&stride_of(values, start)).expect("every value was found to be a weight")
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
            for (row, &weight) in weights.iter().enumerate() {
                assert_eq!(index.before(row as u64), before);
                for unit in 0..weight as u128 {
                    assert_eq!(index.row_of(before + unit), (row as u64, weight as u128));
                }
                before += weight as u128;
            }
            assert_eq!(index.before(rows as u64), before);
        }
    }
}
