//! Intervals for the ratio of two sums.
//!
//! The ratio is `r` where the numbers `x - r y` have the mean 0. So the interval holds the candidates for which 0 lies in the
//! interval of that mean (Fieller 1954). With Student's t this is the linearised ratio of Cochran 1977, section 2.11, as long as the
//! lower sum is far from 0; where 0 may be the lower sum, nothing can be said, and the interval says so. Sequences are turned
//! around in the same way: of the true ratio the mean is 0, and its interval leaves 0 out at some look as rarely as it says.

use crate::interval::betting::mean_sequence_bounded;
use crate::interval::bounded::BoundedNumbers;
use crate::interval::confidence::Confidence;
use crate::interval::design::Design;
use crate::interval::error_bars::{Interval, Method};
use crate::interval::mean::{mean_sequence, mean_t, mean_t_or_bounded};
use crate::moments::Moments;
use crate::pair_moments::PairMoments;

/// Doublings that look for a refuted candidate, and bisections between it and the ratio.
const STEPS_MAX: u32 = 200;
const BISECTIONS: u32 = 50;

/// The ratio of the sums of a group, from its rows met among the draws: for a number of draws fixed beforehand. Each row gives a
/// pair; what it lacks is 0. By [`mean_t`](crate::interval::mean_t), with its skewness and finite population correction.
///
/// Unbounded where the lower sum may be 0.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `pairs` counts.
pub fn ratio_t(pairs: &PairMoments, design: &Design, confidence: Confidence) -> Interval {
    turned_around(pairs, design, Method::StudentT, |m| mean_t(m, design, confidence))
}

/// The same, valid at all looks together once the central limit theorem holds, by
/// [`mean_sequence`](crate::interval::mean_sequence).
///
/// # Panics
/// As [`ratio_t`], or if `n_opt` is 0.
pub fn ratio_sequence(
    pairs: &PairMoments,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    let mean = |m: &Moments| mean_sequence(m, design, confidence, n_opt);
    turned_around(pairs, design, Method::AsymptoticSequence, mean)
}

/// [`ratio_t`] for numbers that are known to lie between bounds. Where few rows may carry either sum, as
/// [`mean_t_or_bounded`](crate::interval::mean_t_or_bounded) finds, it is the quotient of the intervals of both means, each with
/// half of the chance to be wrong.
///
/// # Panics
/// As [`ratio_t`].
pub fn ratio_t_or_bounded(
    pairs: &PairMoments,
    x: (&Moments, &BoundedNumbers),
    y: (&Moments, &BoundedNumbers),
    design: &Design,
    confidence: Confidence,
) -> Interval {
    let mean = |(m, numbers): (&Moments, &BoundedNumbers), confidence: Confidence| {
        mean_t_or_bounded(m, numbers, design, confidence)
    };
    let is_heavy = [x, y].iter().any(|&each| mean(each, confidence).method == Method::Bounded);
    if design.is_exhausted() || !pairs.ratio().is_finite() || !is_heavy {
        return ratio_t(pairs, design, confidence);
    }
    let half = confidence.spending(0.5);
    quotient(pairs.ratio(), mean(x, half), mean(y, half), Method::Bounded)
}

/// The ratio of numbers between bounds, valid at all looks together: the quotient of the sequences of both means, each with half
/// of the chance to be wrong. Both have a number for each row of the group that was met.
///
/// # Panics
/// As [`ratio_t`], or if `n_opt` is 0.
pub fn ratio_sequence_bounded(
    x: (&Moments, &BoundedNumbers),
    y: (&Moments, &BoundedNumbers),
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    let half = confidence.spending(0.5);
    let [upper, lower] =
        [x, y].map(|(m, numbers)| mean_sequence_bounded(m, numbers, design, half, n_opt));
    quotient(x.0.mean() / y.0.mean(), upper, lower, Method::BoundedSequence)
}

/// What one number may be of another, where both are in their intervals.
fn quotient(value: f64, upper: Interval, lower: Interval, method: Method) -> Interval {
    if lower.contains(0.0) || !value.is_finite() {
        return Interval::unbounded(if value.is_finite() { value } else { f64::NAN }, method);
    }
    let quotients =
        [upper.low, upper.high].map(|x| [lower.low, lower.high].map(|y| x / y)).concat();
    let least = quotients.iter().copied().fold(value, f64::min);
    let most = quotients.iter().copied().fold(value, f64::max);
    Interval { value, low: least, high: most, method }
}

fn turned_around(
    pairs: &PairMoments,
    design: &Design,
    method: Method,
    mean: impl Fn(&Moments) -> Interval,
) -> Interval {
    let value = pairs.ratio();
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    if !value.is_finite() || mean(&pairs.of_y()).contains(0.0) {
        return Interval::unbounded(value, method);
    }
    let stands = |ratio: f64| mean(&pairs.residual(ratio)).contains(0.0);
    let reach = mean(&pairs.residual(value)).half_width() / pairs.of_y().mean().abs();
    if !reach.is_finite() {
        return Interval::unbounded(value, method);
    }
    let end = |side: f64| {
        if reach == 0.0 {
            return value;
        }
        let (mut standing, mut distance) = (value, reach);
        for _ in 0..STEPS_MAX {
            let candidate = value + side * distance;
            if !stands(candidate) {
                return last_standing(standing, candidate, stands);
            }
            (standing, distance) = (candidate, distance * 2.0);
        }
        side * f64::INFINITY
    };
    Interval { value, low: end(-1.0), high: end(1.0), method }
}

/// The candidate at which those that stand end, rounded outwards.
fn last_standing(mut standing: f64, mut refuted: f64, stands: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = standing.midpoint(refuted);
        if stands(middle) {
            standing = middle;
        } else {
            refuted = middle;
        }
    }
    refuted
}
