//! Sums over the weights of a block's rows, taken only as far as they are needed.

use arrow_array::ArrowPrimitiveType;
use arrow_schema::DataType;

use crate::block::encoding_byte::malformed;
use crate::block::section::{FixedValues, Presence, Section};
use crate::block::view::BlockView;
use crate::error::Result;
use crate::key::fixed::Fixed;
use crate::rows::Projection;
use crate::weight::{Weight, sum_of, with_weight_type};

/// Rows whose weights are taken together.
const TOGETHER: usize = 64;

impl BlockView<'_> {
    /// The sum over the first `rows` rows of a weight, which is the projection's only value. O(rows), without allocating.
    pub fn weight_before(&self, projection: &Projection, rows: usize) -> Result<u128> {
        let mut sum = 0;
        self.for_each_weights(projection, rows, |_, weights| {
            sum += sum_of(weights);
            true
        })?;
        Ok(sum)
    }

    /// The row that has a unit of a weight, counted from 0 over the block's rows, and what it weighs; `None` if all weigh
    /// no more than that. The weight is the projection's only value. O(rows up to that one), without allocating.
    pub fn row_of_unit(&self, projection: &Projection, unit: u128) -> Result<Option<(usize, u64)>> {
        let (mut rest, mut found) = (unit, None);
        self.for_each_weights(projection, self.row_count, |first, weights| {
            let sum = sum_of(weights);
            if sum <= rest {
                rest -= sum;
                return true;
            }
            for (row, &weight) in weights.iter().enumerate() {
                match rest.checked_sub(u128::from(weight)) {
                    Some(left) => rest = left,
                    None => {
                        found = Some((first + row, weight));
                        break;
                    }
                }
            }
            false
        })?;
        Ok(found)
    }

    /// Calls `each` with the weights of the first `rows` rows, some at a time, and with the number of the first of these,
    /// until it says no. Rows without a value are tombstones, and weigh nothing.
    fn for_each_weights(
        &self,
        projection: &Projection,
        rows: usize,
        each: impl FnMut(usize, &[u64]) -> bool,
    ) -> Result<()> {
        assert_eq!(projection.values.len(), 1, "of one weight at a time");
        let (mut at, mut data_type) = (projection.values[0], &projection.types[0]);
        let count = self.sections.clone().count();
        if at >= count {
            // Where an older segment has it, with a narrower type; else the block was written before the column was added.
            let earlier = projection.earlier(at).find(|(at, _)| *at < count);
            let Some(earlier) = earlier else { return Ok(()) };
            (at, data_type) = earlier;
        }
        let section = self.sections.clone().nth(at).expect("its number is below their count");
        self.for_each_weights_of(section, data_type, rows, each)
    }

    fn for_each_weights_of(
        &self,
        section: Section<'_>,
        data_type: &DataType,
        rows: usize,
        mut each: impl FnMut(usize, &[u64]) -> bool,
    ) -> Result<()> {
        let (presence, section) = section.presence(self.row_count)?;
        if matches!(presence, Presence::None) {
            return Ok(());
        }
        with_weight_type!(data_type, T => {
            let values = FixedValues::<<T as ArrowPrimitiveType>::Native>::parse(section, self.row_count)?;
            let mut weights = [0; TOGETHER];
            for first in (0..rows).step_by(TOGETHER) {
                let weights = &mut weights[..TOGETHER.min(rows - first)];
                weigh(&values, presence, first, weights)?;
                if !each(first, weights) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// The weights of the rows from `first` on.
fn weigh<N: Fixed + Weight>(
    values: &FixedValues<'_, N>,
    presence: Presence<'_>,
    first: usize,
    weights: &mut [u64],
) -> Result<()> {
    let mut row = first;
    let all = matches!(presence, Presence::All);
    let mut failure = None;
    values.for_each(first, first + weights.len(), |value| {
        weights[row - first] = match value.units() {
            _ if !all && !presence.holds(row) => 0,
            Ok(units) => units,
            Err(why) => {
                failure.get_or_insert((row, why));
                0
            }
        };
        row += 1;
    });
    match failure {
        Some((row, why)) => Err(malformed(format!("the weight of row {row} is {why:?}"))),
        None => Ok(()),
    }
}
