//! [`Extremes`]: the least and the greatest of some numbers, as far as they are known.

use arrow_array::ArrayRef;

use crate::schema::number::{Number, each_number};

/// Starts with no numbers and takes more.
#[derive(Debug, Clone, Copy)]
pub struct Extremes {
    ends: Option<(Number, Number)>,
    /// Whether every number lies between them.
    are_known: bool,
}

impl Default for Extremes {
    fn default() -> Extremes {
        Extremes { ends: None, are_known: true }
    }
}

impl Extremes {
    /// Takes the numbers of an array; nulls are none.
    pub fn add(&mut self, numbers: &ArrayRef) {
        each_number(numbers, |_, number| match number.is_finite() {
            true => self.widen((number, number)),
            false => self.are_known = false,
        });
    }

    /// Takes all numbers that `other` has taken.
    pub fn merge(&mut self, other: &Extremes) {
        if let Some(ends) = other.ends {
            self.widen(ends);
        }
        self.are_known &= other.are_known;
    }

    /// Takes numbers that are not known.
    pub fn add_unknown(&mut self) {
        self.are_known = false;
    }

    /// Whether it is known that there are no numbers.
    pub fn are_of_nothing(&self) -> bool {
        self.are_known && self.ends.is_none()
    }

    /// The least and the greatest number; `None` if some are unknown or not finite, or there are none.
    pub fn ends(&self) -> Option<(Number, Number)> {
        self.ends.filter(|_| self.are_known)
    }

    #[inline]
    fn widen(&mut self, (least, most): (Number, Number)) {
        self.ends = Some(match self.ends {
            None => (least, most),
            Some((low, high)) => (low.least(least), high.most(most)),
        });
    }
}
