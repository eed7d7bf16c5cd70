//! Running sums of one weight column of a run.
//!
//! A sum every [`STRIDE`] rows; between two of them the column itself is added up. So sums of any
//! interval, and the row that holds a given unit, cost a binary search and at most a stride.

use std::hint::black_box;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::DataType;
use arrow_select::take::take;
use drillcore_format::narrowing::narrowed;
use drillcore_format::weight::{NoWeight, load, rows_of_units, running_sums, units_in};

use crate::error::{Error, Result};

/// Rows between two sums: a quarter of a byte per row, and a few cache lines to add up.
const STRIDE: usize = 64;
/// Units that are looked for together, so that the processor waits for what memory has of all of them at once.
const TOGETHER: usize = 64;

/// Running sums of a weight column.
#[derive(Debug)]
pub struct WeightIndex {
    values: ArrayRef,
    /// The sum over the rows before row `number * STRIDE`, then over all rows.
    sums: Vec<u128>,
    /// Bytes of weights that the column does not hold.
    added: usize,
}

impl WeightIndex {
    /// Sums up a column.
    ///
    /// # Errors
    /// `Corrupt` if a value is no weight: appends refuse those.
    pub fn new(values: &ArrayRef) -> Result<WeightIndex> {
        let (values, added) = match values.data_type() {
            // Of tombstones alone, whose weights are null, no numbers are held.
            DataType::Null => {
                let nulls = new_null_array(&DataType::UInt8, values.len());
                let bytes = nulls.get_buffer_memory_size();
                (nulls, bytes)
            }
            _ => (values.clone(), 0),
        };
        let sums = running_sums(&values, STRIDE).map_err(no_weight)?;
        Ok(WeightIndex { values, sums, added })
    }

    /// The same for the rows at some ordinals, whose weights are copied, into as few bytes as hold them.
    pub fn of_rows(&self, ordinals: &[u32]) -> Result<WeightIndex> {
        let values = take(&self.values, &UInt32Array::from(ordinals.to_vec()), None)
            .expect("each ordinal is that of a row");
        WeightIndex::new(&narrowed(&values))
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

    /// The rows that hold some units, counted from 0 over all rows, each with its units. All are among `rows`, and units ascend.
    /// For each a search that begins where it would end if all weights were alike, and at most a stride.
    pub fn rows_of(&self, units: &[u128], rows: Range<u64>) -> Vec<(u64, u128)> {
        let WeightIndex { values, sums, .. } = self;
        let first = rows.start as usize / STRIDE;
        let strides = Strides::new(&sums[first..=(rows.end as usize).div_ceil(STRIDE)]);
        let mut rows = Vec::with_capacity(units.len());
        let mut found = [0; TOGETHER];
        for units in units.chunks(TOGETHER) {
            let found = &mut found[..units.len()];
            found.iter_mut().zip(units).for_each(|(found, &unit)| *found = strides.guess(unit));
            strides.load(found);
            for (found, &unit) in found.iter_mut().zip(units) {
                *found = first + strides.find(unit, *found);
            }
            let rows_of = |stride| stride * STRIDE..values.len().min((stride + 1) * STRIDE);
            load(values, found.iter().map(|&stride| rows_of(stride)));
            let within = |(&unit, &found): (&u128, &usize)| (rows_of(found), unit - sums[found]);
            rows_of_units(values, units.iter().zip(&*found).map(within), |found| {
                rows.push((found.row as u64, u128::from(found.units)));
            });
        }
        rows
    }

    /// Bytes of the sums, and of weights that the column does not hold.
    pub fn allocated_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u128>() + self.added
    }

    /// Bytes of the sums and of the weights.
    pub fn bytes_with_values(&self) -> usize {
        self.allocated_bytes() - self.added + self.values.get_buffer_memory_size()
    }
}

/// The sums before some strides in a row, and behind the last.
struct Strides<'a> {
    sums: &'a [u128],
    /// Strides per unit of weight.
    per_unit: f64,
}

impl<'a> Strides<'a> {
    fn new(sums: &'a [u128]) -> Strides<'a> {
        let last = sums.len() - 1;
        Strides { sums, per_unit: last as f64 / (sums[last] - sums[0]) as f64 }
    }

    /// The stride that would hold a unit if all weights were alike.
    fn guess(&self, unit: u128) -> usize {
        let within = unit - self.sums[0];
        // A guess need not be exact, and 64 bits become a float in less time.
        let within = if within >> 64 == 0 { within as u64 as f64 } else { within as f64 };
        ((within * self.per_unit) as usize).min(self.sums.len() - 2)
    }

    /// Brings the sums of some strides into the cache. No load waits for another, nor for a branch that was predicted wrongly, as
    /// the searches have.
    fn load(&self, strides: &[usize]) {
        black_box(strides.iter().fold(0, |all, &stride| all ^ self.sums[stride]));
    }

    /// The stride that holds a unit. Steps from a guess that double in length, and a binary search between the last two: O(log of
    /// how far the guess is off).
    fn find(&self, unit: u128, guess: usize) -> usize {
        let Strides { sums, .. } = self;
        let last = sums.len() - 1;
        let (mut low, mut high, mut step) = (guess, guess, 1);
        if sums[guess] <= unit {
            high += 1;
            while sums[high] <= unit {
                (low, high) = (high, last.min(high + step));
                step *= 2;
            }
        } else {
            // The first sum lies at the unit or below.
            low -= 1;
            while sums[low] > unit {
                (low, high) = (low.saturating_sub(step), low);
                step *= 2;
            }
        }
        low + sums[low..high].partition_point(|&before| before <= unit) - 1
    }
}

/// The error of a stored row that has no weight.
pub fn no_weight((row, why): (usize, NoWeight)) -> Error {
    Error::damaged(format_args!("the weight of row {row} is damaged: {why:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use std::sync::Arc;

    fn index_of(weights: &[i64]) -> WeightIndex {
        WeightIndex::new(&(Arc::new(Int64Array::from(weights.to_vec())) as ArrayRef)).unwrap()
    }

    #[test]
    fn every_unit_belongs_to_the_row_that_a_linear_search_finds() {
        for rows in [1usize, 63, 64, 65, 200] {
            let weights: Vec<i64> = (0..rows as i64).map(|row| row * 7 % 5).collect();
            let index = index_of(&weights);
            let mut found: Vec<(u64, u128)> = Vec::new();
            for (row, &weight) in weights.iter().enumerate() {
                assert_eq!(index.before(row as u64), found.len() as u128);
                for _ in 0..weight {
                    let expected = (row as u64, weight as u128);
                    let alone = row as u64..row as u64 + 1;
                    assert_eq!(index.rows_of(&[found.len() as u128], alone), [expected]);
                    found.push(expected);
                }
            }
            let units: Vec<u128> = (0..found.len() as u128).collect();
            for step in [1, 2, 50] {
                let some =
                    |of: &[(u64, u128)]| of.iter().copied().step_by(step).collect::<Vec<_>>();
                let asked: Vec<u128> = units.iter().copied().step_by(step).collect();
                assert_eq!(index.rows_of(&asked, 0..rows as u64), some(&found));
            }
        }
    }

    /// Where weights are anything but alike, guesses are far off, and may come out of few bits.
    #[test]
    fn guesses_that_are_far_off_find_the_same_rows() {
        let rows = 40 * STRIDE;
        let heavy = |at: usize, others: i64, weight: i64| {
            let mut weights = vec![others; rows];
            weights[at] = weight;
            weights
        };
        let doubling = (0..rows).map(|row| 1i64 << (row / STRIDE)).collect();
        let mut shapes = vec![doubling, vec![i64::MAX; rows], vec![1; rows]];
        for at in [0, STRIDE, rows / 2, rows - 1] {
            shapes.extend([(0, 5), (1, 1 << 40), (1, i64::MAX)].map(|(o, w)| heavy(at, o, w)));
        }
        for weights in shapes {
            let index = index_of(&weights);
            let (mut units, mut found, mut before) = (Vec::new(), Vec::new(), 0u128);
            for (row, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
                let last = before + weight as u128 - 1;
                units.extend([before, last]);
                found.extend([(row as u64, weight as u128); 2]);
                before = last + 1;
            }
            assert_eq!(index.rows_of(&units, 0..rows as u64), found);
            for (unit, found) in units.into_iter().zip(found).step_by(7) {
                let around = found.0.saturating_sub(200)..(found.0 + 300).min(rows as u64);
                assert_eq!(index.rows_of(&[unit], around), [found]);
            }
        }
    }
}
