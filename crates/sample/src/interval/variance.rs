//! Intervals for variances, with one less than the number of values below the line.
//!
//! The variance is the mean of the squared distances from the mean. Those from the mean of the sample differ from it by a term that
//! is smaller than the interval by the root of the number of draws. So the squares are estimated like any other numbers: Student's t
//! with the skewness of the squares, which is large, and bounds where few rows may carry most of it.

use crate::interval::bounded::{BoundedNumbers, Bounds};
use crate::interval::confidence::Confidence;
use crate::interval::design::Design;
use crate::interval::error_bars::{Interval, Method};
use crate::interval::mean::{mean_sequence, mean_t, mean_t_or_bounded};
use crate::moments::Moments;

/// The variance of the numbers of a group, for a number of draws fixed beforehand. `kept` are those that `m` counts, or the first
/// of them; `bounds` are theirs.
///
/// From 0 to infinity with fewer than two numbers, or with one that is not finite.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `m` counts.
pub fn variance_t(
    m: &Moments,
    kept: &[f64],
    bounds: Option<Bounds>,
    design: &Design,
    confidence: Confidence,
) -> Interval {
    of_squares(m, kept, design, Method::StudentT, |squares, centre| {
        let of_square = bounds.and_then(|Bounds { low, high }| {
            Bounds::new(0.0, (high - centre).max(centre - low).powi(2))
        });
        match of_square {
            None => mean_t(squares, design, confidence),
            Some(bounds) => {
                let mut numbers = BoundedNumbers::new(bounds);
                for square in kept.iter().map(|x| (x - centre).powi(2)) {
                    numbers.push(square.min(bounds.high));
                }
                mean_t_or_bounded(squares, &numbers, design, confidence)
            }
        }
    })
}

/// The same, valid at all looks together once the central limit theorem holds: the asymptotic sequence for the mean of the
/// squares.
///
/// # Panics
/// As [`variance_t`], or if `n_opt` is 0.
pub fn variance_sequence(
    m: &Moments,
    kept: &[f64],
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    of_squares(m, kept, design, Method::AsymptoticSequence, |squares, _| {
        mean_sequence(squares, design, confidence, n_opt)
    })
}

fn of_squares(
    m: &Moments,
    kept: &[f64],
    design: &Design,
    method: Method,
    mean: impl Fn(&Moments, f64) -> Interval,
) -> Interval {
    let value = m.variance();
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    if !value.is_finite() {
        return Interval { value, low: 0.0, high: f64::INFINITY, method };
    }
    let count = kept.len() as f64;
    let centre = kept.iter().sum::<f64>() / count;
    let mut squares = Moments::new();
    kept.iter().for_each(|x| squares.push((x - centre).powi(2)));
    let interval = mean(&squares, centre).times(count / (count - 1.0));
    // Of more numbers than are kept, the estimate may lie elsewhere.
    Interval {
        value,
        low: interval.low.max(0.0).min(value),
        high: interval.high.max(value),
        method: interval.method,
    }
}
