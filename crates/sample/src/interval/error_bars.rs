//! An estimate with its ends, and the way these were found.

use std::fmt;

/// An estimate with its error bars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate itself; NaN if nothing was drawn that could give one.
    pub value: f64,
    /// Lower end; minus infinity where nothing can be said.
    pub low: f64,
    /// Upper end; infinity where nothing can be said.
    pub high: f64,
    /// The way the ends were found.
    pub method: Method,
}

impl Interval {
    /// A number known without error.
    pub fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value, method: Method::Exact }
    }

    /// The larger distance from the estimate to an end: what a target for the error is compared with.
    pub fn half_width(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// Whether `truth` lies between the ends, both included.
    pub fn contains(&self, truth: f64) -> bool {
        self.low <= truth && truth <= self.high
    }

    /// The interval of a number that is this one times a known factor, which is not negative.
    pub fn times(self, factor: f64) -> Interval {
        let Interval { value, low, high, method } = self;
        // An end that is not known stays so, whatever it is multiplied with.
        let end = |end: f64| if end.is_infinite() { end } else { end * factor };
        Interval { value: value * factor, low: end(low), high: end(high), method }
    }

    /// The interval of the square root. What has one is not negative.
    pub fn square_root(self) -> Interval {
        let Interval { value, low, high, method } = self;
        Interval { value: value.sqrt(), low: low.max(0.0).sqrt(), high: high.sqrt(), method }
    }

    pub(super) fn unbounded(value: f64, method: Method) -> Interval {
        Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY, method }
    }
}

/// How an interval was found, which also says what it is valid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Every row of the population was looked at, or an index knows the number.
    Exact,
    /// Student's t, further out on the side of a longer tail; for a number of draws fixed beforehand.
    StudentT,
    /// From the bounds of the numbers, where few rows may carry most of the mean; for a number of draws fixed beforehand.
    Bounded,
    /// The exact test of a share; for a number of draws fixed beforehand.
    Hypergeometric,
    /// Two of the numbers drawn, whose ranks leave the quantile outside rarely enough, whatever the numbers; for a number of
    /// draws fixed beforehand.
    OrderStatistics,
    /// What was met: there are at least as many different values, and nothing is said of how many more.
    LowerBound,
    /// The exact sequence of a share: valid at all looks together, however the drawing is stopped.
    ConfidenceSequence,
    /// The sequence of a mean from the bounds of its numbers: valid at all looks together, whatever the numbers.
    BoundedSequence,
    /// The sequence of a mean without bounds: valid at all looks together where the central limit theorem has set in.
    AsymptoticSequence,
}

impl Method {
    /// The name shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::StudentT => "t",
            Method::Bounded => "bounded",
            Method::Hypergeometric => "hypergeometric",
            Method::OrderStatistics => "order statistics",
            Method::LowerBound => "lower bound",
            Method::ConfidenceSequence => "confidence sequence",
            Method::BoundedSequence => "bounded confidence sequence",
            Method::AsymptoticSequence => "asymptotic confidence sequence",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
