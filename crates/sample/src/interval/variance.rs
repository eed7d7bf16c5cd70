//! Intervals for variances, with one less than the number of values below the line.
//!
//! The variance is the mean of the squared distances from the mean. So the squares are estimated like any other numbers: Student's t
//! with the skewness of the squares, which is large, and bounds where few rows may carry most of it. Distances from the mean of the
//! sample instead of the true one change the estimate by the square of the distance of the two means, which is smaller than the
//! interval by the root of the number of draws; but not where the squares are all alike, as those of zeros and ones in equal parts.
//! So that square counts as one more error, beside that of the squares.
//!
//! From few numbers the upper end of that is too low: where the large squares were not met, the mean of the squares and their spread
//! are small at once. A variance is nearer to a chi-square with the degrees of freedom that its kurtosis leaves it (Box 1953). So the
//! upper end is no lower than that of such a chi-square, with Bonett's kurtosis (2006), which is about a trimmed mean and less biased.

use crate::interval::bounded::{BoundedNumbers, Bounds};
use crate::interval::confidence::Confidence;
use crate::interval::design::Design;
use crate::interval::error_bars::{Interval, Method};
use crate::interval::mean::{mean_sequence, mean_t, mean_t_or_bounded};
use crate::interval::quantile::normal_quantile;
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
        let t = match of_square {
            None => mean_t(squares, design, confidence),
            Some(bounds) => {
                let mut numbers = BoundedNumbers::new(bounds);
                for square in kept.iter().map(|x| (x - centre).powi(2)) {
                    numbers.push(square.min(bounds.high));
                }
                mean_t_or_bounded(squares, &numbers, design, confidence)
            }
        };
        if t.method != Method::StudentT || !t.high.is_finite() {
            return t;
        }
        // No numbers between bounds vary more than if each were at one of them.
        let most = bounds.map_or(f64::INFINITY, |b| (b.high - b.low).powi(2) / 4.0);
        let high = chi_square_end(squares.mean(), kept, design, confidence).min(most);
        // The squared standard error of the mean, and how far the mean of the sample may lie from the true one, squared.
        let of_mean = squares.mean() / kept.len() as f64 * design.share_left();
        let between_means = normal_quantile(confidence).powi(2) * of_mean;
        // That the sum of squares is divided by one less than their number counts downwards, too.
        let reach_down = (t.value - t.low).hypot(between_means + of_mean);
        let reach_up = (t.high - t.value).hypot(between_means);
        let low = t.value - reach_down;
        Interval { low, high: (t.value + reach_up).min(most).max(high), ..t }
    })
}

/// The upper end of a mean square, if it is like a chi-square with as many degrees of freedom as make its standard error.
fn chi_square_end(value: f64, kept: &[f64], design: &Design, confidence: Confidence) -> f64 {
    let count = kept.len() as f64;
    if count < CHI_SQUARE_COUNT_MIN || value == 0.0 {
        return value;
    }
    let kurtosis = bonett_kurtosis(value, kept);
    // The squared standard error over the squared estimate.
    let relative = (kurtosis - (count - 3.0) / (count - 1.0)) / count * design.share_left();
    if relative.is_nan() || relative <= 0.0 {
        return value;
    }
    let freedom = 2.0 / relative;
    // Wilson and Hilferty (1931): the cube root of a chi-square is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let root = 1.0 - spread - normal_quantile(confidence) * spread.sqrt();
    value / root.max(ROOT_MIN).powi(3)
}

/// The kurtosis, 3 for normal numbers, of numbers with a mean square: about a mean without the outermost ones, a share of
/// `1 / 2 sqrt(n - 4)` on each side.
fn bonett_kurtosis(mean_square: f64, kept: &[f64]) -> f64 {
    let count = kept.len() as f64;
    let mut numbers = kept.to_vec();
    let trimmed = (count / (2.0 * (count - 4.0).sqrt())) as usize;
    let last = numbers.len() - 1;
    // The outermost on each side go to the ends; what is between them keeps its order, which does not matter.
    if trimmed > 0 {
        numbers.select_nth_unstable_by(trimmed, f64::total_cmp);
        numbers[trimmed..].select_nth_unstable_by(last - 2 * trimmed, f64::total_cmp);
    }
    let inner = &numbers[trimmed..=last - trimmed];
    let centre = inner.iter().sum::<f64>() / inner.len() as f64;
    let fourth = kept.iter().map(|x| (x - centre).powi(4)).sum::<f64>() / count;
    fourth / (mean_square * mean_square)
}

/// Of fewer numbers nothing is known of their kurtosis.
const CHI_SQUARE_COUNT_MIN: f64 = 5.0;

/// The least cube root of a chi-square over its degrees of freedom that is believed: 30 times the estimate.
const ROOT_MIN: f64 = 0.322;

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
