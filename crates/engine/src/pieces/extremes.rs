//! [`Extremes`]: the least and the greatest of some numbers, as far as they are known.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::DataType;
use drillcore_sample::interval::Bounds;

/// Starts with no numbers and takes more.
#[derive(Debug, Clone, Copy)]
pub struct Extremes {
    low: f64,
    high: f64,
    /// Whether every number lies between them.
    are_known: bool,
}

impl Default for Extremes {
    fn default() -> Extremes {
        Extremes { low: f64::INFINITY, high: f64::NEG_INFINITY, are_known: true }
    }
}

impl Extremes {
    /// Takes the numbers of an array; nulls are none.
    pub fn add(&mut self, numbers: &ArrayRef) {
        let numbers =
            arrow_cast::cast(numbers, &DataType::Float64).expect("numbers are cast to one");
        for number in numbers.as_primitive::<Float64Type>().iter().flatten() {
            self.low = self.low.min(number);
            self.high = self.high.max(number);
            // The lesser of a number and NaN is the number.
            self.are_known &= number.is_finite();
        }
    }

    /// Takes all numbers that `other` has taken.
    pub fn merge(&mut self, other: &Extremes) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.are_known &= other.are_known;
    }

    /// Takes numbers that nobody knows.
    pub fn add_unknown(&mut self) {
        self.are_known = false;
    }

    /// Whether it is known that there are no numbers.
    pub fn are_of_nothing(&self) -> bool {
        self.are_known && self.low > self.high
    }

    /// What bounds the numbers; `None` if some are unknown or not finite, or there are none.
    pub fn bounds(&self) -> Option<Bounds> {
        self.are_known.then(|| Bounds::new(self.low, self.high)).flatten()
    }
}
