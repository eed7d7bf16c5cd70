//! Intervals for sums: over a whole selection, or over those of its rows that belong to a group and hold a number.
//!
//! A row outside the group, or without a number, adds 0. So a sum is the number of rows times the mean of numbers filled up with
//! zeros, of which every row has one; this mean is estimated like any other, with the finite population correction of the
//! whole design.

use crate::interval::betting::mean_sequence_bounded;
use crate::interval::bounded::BoundedNumbers;
use crate::interval::confidence::Confidence;
use crate::interval::design::Design;
use crate::interval::error_bars::{Interval, Method};
use crate::interval::mean::{SEQUENCE_COUNT_MIN, mean_sequence, mean_t, mean_t_or_bounded};
use crate::interval::share::share_sequence;
use crate::moments::Moments;

/// The sum over the population of the numbers of which `m` were met; for a number of draws fixed beforehand.
///
/// [`mean_t`](crate::interval::mean_t) of the numbers filled up with zeros, or where few rows may carry the sum the interval from
/// `numbers`, which are those that `m` counts between their bounds. With `is_every` each row of the population has a number, and
/// no zero is possible that the bounds leave out. Without bounds and fewer than two numbers, unbounded.
///
/// # Panics
/// If `design` has no population, or draws more rows than there are, or fewer than `m` counts.
pub fn sum_t(
    m: &Moments,
    numbers: Option<&BoundedNumbers>,
    is_every: bool,
    design: &Design,
    confidence: Confidence,
) -> Interval {
    let (filled, rows) = (filled(m, design), population(design));
    let mean = match numbers {
        Some(numbers) if is_every => mean_t_or_bounded(&filled, numbers, design, confidence),
        Some(numbers) => {
            let numbers = numbers.zero_filled(m.count(), design.drawn - m.count());
            mean_t_or_bounded(&filled, &numbers, design, confidence)
        }
        None if m.count() < 2 && !design.is_exhausted() => {
            Interval::unbounded(filled.mean(), Method::StudentT)
        }
        None => mean_t(&filled, design, confidence),
    };
    mean.times(rows)
}

/// The sum of numbers between bounds, valid at all looks together: how many there are times their mean, each from its own
/// sequence with half of the chance to be wrong. With `is_every` every row of the population has a number, so how many there are
/// is known, and the mean has all of the chance.
///
/// # Panics
/// As [`sum_t`], or if `n_opt` is 0.
pub fn sum_sequence_bounded(
    m: &Moments,
    numbers: &BoundedNumbers,
    is_every: bool,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    let rows = population(design);
    if is_every {
        return mean_sequence_bounded(m, numbers, design, confidence, n_opt).times(rows);
    }
    let half = confidence.spending(0.5);
    let count = share_sequence(m.count(), design, half, n_opt).times(rows);
    let mean = mean_sequence_bounded(m, numbers, design, half, n_opt);
    let products = [count.low, count.high]
        .map(|count| [mean.low, mean.high].map(|mean| count * mean))
        .concat();
    let value = filled(m, design).mean() * rows;
    let least = products.iter().copied().fold(f64::INFINITY, f64::min);
    let most = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Without draws the value is not a number, and the other of the two is taken.
    Interval { value, low: least.min(value), high: most.max(value), method: mean.method }
}

/// The sum, valid at all looks together once the central limit theorem holds: the asymptotic sequence of
/// [`mean_sequence`](crate::interval::mean_sequence) for the numbers filled up with zeros. Unbounded below
/// [`SEQUENCE_COUNT_MIN`] numbers.
///
/// # Panics
/// As [`sum_t`], or if `n_opt` is 0.
pub fn sum_sequence(m: &Moments, design: &Design, confidence: Confidence, n_opt: u64) -> Interval {
    let (filled, rows) = (filled(m, design), population(design));
    if m.count() < SEQUENCE_COUNT_MIN && !design.is_exhausted() {
        return Interval::unbounded(filled.mean() * rows, Method::AsymptoticSequence);
    }
    mean_sequence(&filled, design, confidence, n_opt).times(rows)
}

/// The numbers of all rows drawn.
fn filled(m: &Moments, design: &Design) -> Moments {
    design.check(m.count());
    m.with_zeros(design.drawn - m.count())
}

fn population(design: &Design) -> f64 {
    design.population.expect("a sum is of a known number of rows") as f64
}
