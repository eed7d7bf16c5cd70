//! Sums and averages of floats in windows that slide: infinities and NaN leave with their rows.
//!
//! DataFusion 55.2 subtracts what leaves from the sum, and infinity less infinity is NaN for all rows behind.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

/// The floats in a window.
#[derive(Debug, Default)]
pub struct SlidingFloats {
    averages: bool,
    count: u64,
    /// The sum of those that are finite, and what rounding left over of it (Neumaier, 1974).
    sum: f64,
    left_over: f64,
    nans: u64,
    infinities: u64,
    negative_infinities: u64,
}

impl SlidingFloats {
    pub fn sum() -> SlidingFloats {
        SlidingFloats::default()
    }

    pub fn average() -> SlidingFloats {
        SlidingFloats { averages: true, ..SlidingFloats::default() }
    }

    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let lost = match self.sum.abs() >= value.abs() {
            true => (self.sum - sum) + value,
            false => (value - sum) + self.sum,
        };
        self.sum = sum;
        self.left_over += if sum.is_finite() { lost } else { 0.0 };
    }

    fn take(&mut self, values: &[ArrayRef], comes: bool) {
        let change = |number: &mut u64| match comes {
            true => *number += 1,
            false => *number -= 1,
        };
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            change(&mut self.count);
            match value {
                _ if value.is_nan() => change(&mut self.nans),
                f64::INFINITY => change(&mut self.infinities),
                f64::NEG_INFINITY => change(&mut self.negative_infinities),
                _ => self.add(if comes { value } else { -value }),
            }
        }
        // Nothing is left over of no rows.
        if self.count == 0 {
            (self.sum, self.left_over) = (0.0, 0.0);
        }
    }

    fn total(&self) -> f64 {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => self.sum + self.left_over,
            (0, _, 0) => f64::INFINITY,
            (0, 0, _) => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

impl Accumulator for SlidingFloats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(values, true);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(values, false);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let shares = if self.averages { self.count as f64 } else { 1.0 };
        Ok(ScalarValue::Float64((self.count > 0).then(|| self.total() / shares)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a window is not put together of parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a window is not put together of parts")
    }
}
