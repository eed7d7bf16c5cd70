//! The mean of numbers that are known to lie between bounds, where few of them may carry most of it.
//!
//! The bound of Gaffke (2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
//! variable"; Learned-Miller and Thomas 2019, arXiv 1905.06208, as an interval). The shares of a population that lie between
//! the `n` numbers drawn are those of `n + 1` pieces of a stick broken at random, whatever the population. So put one more
//! number at the bound, give all `n + 1` such random weights, and take the upper `alpha` quantile of the weighted mean: the true
//! mean is above it with a chance of `alpha` at most.
//!
//! Of numbers that take two values only, the end is the exact one of Clopper and Pearson (1934) for their share. Where no
//! spread was met it lies `ln(1 / alpha) / n` of the way from the mean to the bound, less than which cannot be had: that many rows
//! at the bound may not have been met. With many numbers it becomes the end of the t interval. That the chance is `alpha` at most
//! is proven for two values and for one draw; for the rest it is Gaffke's conjecture, without a known exception, also in the
//! tests here. Intervals with a proof, such as those from bets (Waudby-Smith and Ramdas 2024), are mostly wider by a fifth to a
//! third: `docs/sampling-evidence.md` has the comparison. Draws without replacement count as if they were with, which makes
//! the interval too wide when much of a population is drawn.
//!
//! The quantile: the weighted mean exceeds `t` if a sum of exponential variables, scaled by the distances from `t`, exceeds 0. Its
//! chance comes from the saddlepoint approximation (Barndorff-Nielsen 1986), and with [`Tilted`] the saddlepoint needs no search
//! of its own. Of numbers that take two values it makes the interval wider than the exact one, by less than 1 %.

use statrs::distribution::{ContinuousCDF, Normal};

/// The least and the greatest value that a number can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

/// Numbers drawn between bounds. The first million is kept, 8 bytes each: of more, these are a sample like any other.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedNumbers {
    bounds: Bounds,
    numbers: Vec<f64>,
    /// As many zeros are among the numbers besides, if they are of one look.
    zeros: f64,
}

const KEPT_MAX: usize = 1_000_000;

/// So far off a saddlepoint is next to the mean: beyond, nothing is left of its digits. In standard errors of the mean.
const OFFSET_MAX: f64 = 20.0;

/// Nearer to 0, no chance that a confidence can leave is small enough.
const OFFSET_MIN: f64 = 1e-30;

/// Steps that find the end to one part in a million of its distance from the mean.
const BISECTIONS: u32 = 20;

impl Bounds {
    /// `None` unless both are finite, and in this order.
    pub fn new(low: f64, high: f64) -> Option<Bounds> {
        (low <= high && (high - low).is_finite()).then_some(Bounds { low, high })
    }
}

impl BoundedNumbers {
    /// No numbers yet, of a column with these bounds.
    pub fn new(bounds: Bounds) -> BoundedNumbers {
        BoundedNumbers { bounds, numbers: Vec::new(), zeros: 0.0 }
    }

    /// The same with `zeros` zeros among them, for one look: in a sequence, it counts when each was drawn. `count` is how many
    /// numbers were pushed, kept or not.
    pub(super) fn zero_filled(&self, count: u64, zeros: u64) -> BoundedNumbers {
        let Bounds { low, high } = self.bounds;
        let kept_share = if count == 0 { 1.0 } else { self.numbers.len() as f64 / count as f64 };
        BoundedNumbers {
            bounds: Bounds { low: low.min(0.0), high: high.max(0.0) },
            numbers: self.numbers.clone(),
            zeros: zeros as f64 * kept_share,
        }
    }

    /// What the numbers lie between.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The numbers in the order in which they came: the first million.
    pub(super) fn kept(&self) -> &[f64] {
        &self.numbers
    }

    /// Takes one more number, which lies between the bounds.
    pub fn push(&mut self, x: f64) {
        debug_assert!((self.bounds.low..=self.bounds.high).contains(&x), "{x}: {:?}", self.bounds);
        if self.numbers.len() < KEPT_MAX {
            self.numbers.push(x);
        }
    }

    /// The upper end of an interval for the mean that fails with a chance of `alpha` at most, at this one look. Some 25
    /// passes over the numbers kept.
    pub(super) fn mean_at_most(&self, alpha: f64) -> f64 {
        let range = self.bounds.high - self.bounds.low;
        let below = self.numbers.iter().map(|x| (self.bounds.high - x) / range);
        if range == 0.0 {
            self.bounds.high
        } else {
            let zeros = (self.bounds.high / range, self.zeros);
            self.bounds.high - range * least_mean(below, zeros, alpha)
        }
    }

    /// The lower end of one.
    pub(super) fn mean_at_least(&self, alpha: f64) -> f64 {
        let range = self.bounds.high - self.bounds.low;
        let above = self.numbers.iter().map(|x| (x - self.bounds.low) / range);
        if range == 0.0 {
            self.bounds.low
        } else {
            let zeros = (-self.bounds.low / range, self.zeros);
            self.bounds.low + range * least_mean(above, zeros, alpha)
        }
    }
}

/// The lower end for the mean of numbers of which no more is known than that they are not negative. One number may come
/// several times, `repeated`.
fn least_mean(numbers: impl Iterator<Item = f64> + Clone, repeated: (f64, f64), alpha: f64) -> f64 {
    let (number, times) = repeated;
    let start = (1.0 + times, times * number, times * number * number);
    let (count, sum, squares) = numbers
        .clone()
        .fold(start, |(count, sum, squares), x| (count + 1.0, sum + x, squares + x * x));
    // Of the sum, with a number at 0 added.
    let deviation: f64 = (squares - sum * (sum / count)).max(0.0).sqrt();
    if deviation == 0.0 {
        return 0.0;
    }
    let wanted = -Normal::standard().inverse_cdf(alpha);
    let tilted = |offset: f64| Tilted::new(numbers.clone(), repeated, offset * deviation);
    let is_too_far = |offset: f64| tilted(offset).deviations > wanted;
    // The larger the offset, the nearer to the mean. Of normal numbers this would be the one.
    let mut near = 1.0 / wanted.max(1.0 / OFFSET_MAX);
    while near < OFFSET_MAX && is_too_far(near) {
        near *= 2.0;
    }
    let mut far = near / 2.0;
    while far > OFFSET_MIN && !is_too_far(far) {
        (near, far) = (far, far / 2.0);
    }
    for _ in 0..BISECTIONS {
        let middle = (far * near).sqrt();
        if is_too_far(middle) {
            far = middle;
        } else {
            near = middle;
        }
    }
    tilted(far).mean
}

/// A candidate for the mean, and how unlikely it is that randomly weighted numbers, with one more at 0, have a smaller one.
///
/// The saddlepoint of that chance belongs to weights `1 / (offset + x)`. Each offset is the saddlepoint of one candidate, the
/// mean under these weights: the harmonic mean of `offset + x`, less the offset. With `v` the weights,
/// the signed root of the likelihood is `sqrt(2 m (ln(mean v) - mean ln v))` for `m` weights, and the standardised
/// saddlepoint `sqrt(m)` times their coefficient of variation.
struct Tilted {
    mean: f64,
    /// The chance, as standard errors of a normal variable.
    deviations: f64,
}

impl Tilted {
    fn new(numbers: impl Iterator<Item = f64>, repeated: (f64, f64), offset: f64) -> Tilted {
        // Weights times the offset: 1 for the number at 0. Logarithms are taken of products, as few as possible.
        let (number, times) = repeated;
        let weight = offset / (offset + number);
        let mut count = 1.0 + times;
        let mut sum = 1.0 + times * weight;
        let mut squares = 1.0 + times * weight * weight;
        let mut missing = times * (number / (offset + number));
        let mut logarithms = if times > 0.0 { times * weight.ln() } else { 0.0 };
        let mut product = 1.0f64;
        for x in numbers {
            let weight = offset / (offset + x);
            count += 1.0;
            sum += weight;
            squares += weight * weight;
            missing += x / (offset + x);
            product *= weight;
            if product < 1e-100 {
                logarithms += product.ln();
                product = 1.0;
            }
        }
        logarithms += product.ln();
        let mean_weight: f64 = sum / count;
        let root = (2.0 * (count * mean_weight.ln() - logarithms)).max(0.0).sqrt();
        let saddlepoint = (squares / (mean_weight * mean_weight) - count).max(0.0).sqrt();
        Tilted {
            mean: offset * (missing / sum),
            deviations: root + (saddlepoint / root).ln() / root,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn numbers(bounds: Bounds, drawn: impl IntoIterator<Item = f64>) -> BoundedNumbers {
        let mut numbers = BoundedNumbers::new(bounds);
        drawn.into_iter().for_each(|x| numbers.push(x));
        numbers
    }

    /// Populations of some numbers from 0 to 100: two values, a few values, a heavy tail, evenly spread.
    fn population(rng: &mut Rng, kind: u64) -> Vec<f64> {
        let size = 4 + rng.below(6);
        let number = |rng: &mut Rng| match kind {
            0 => 100.0 * rng.below(2) as f64,
            1 => [0.0, 1.0, 10.0, 100.0][rng.below(4) as usize],
            2 => 100.0 * rng.unit_f64().powi(8),
            _ => 100.0 * rng.unit_f64(),
        };
        (0..size).map(|_| number(rng)).collect()
    }

    /// How often an end fails, by enumeration of all samples of a size without replacement.
    fn share_failing(population: &[f64], size: u32, fails: impl Fn(&[f64]) -> bool) -> f64 {
        let subsets = (0u32..1 << population.len()).filter(|subset| subset.count_ones() == size);
        let (mut all, mut failed) = (0.0, 0.0);
        for subset in subsets {
            let members = population.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1);
            let drawn: Vec<f64> = members.map(|(_, &x)| x).collect();
            all += 1.0;
            failed += f64::from(u8::from(fails(&drawn)));
        }
        failed / all
    }

    /// By enumeration, no chance involved but in the choice of the 200 populations. Twin: without the number at the bound,
    /// as the Bayesian bootstrap has it, the largest of the numbers drawn in its place.
    #[test]
    fn each_end_fails_with_its_chance_at_most_whatever_the_numbers() {
        let bounds = Bounds { low: 0.0, high: 100.0 };
        let mut twin_failed = false;
        for run in 0..200 {
            let population = population(&mut Rng::keyed(0x5eed_0005, run), run % 4);
            let mean = population.iter().sum::<f64>() / population.len() as f64;
            for size in 1..population.len() as u32 {
                for alpha in [0.005, 0.025, 0.1, 0.2] {
                    let of = |drawn: &[f64]| numbers(bounds, drawn.iter().copied());
                    let share =
                        |fails: &dyn Fn(&[f64]) -> bool| share_failing(&population, size, fails);
                    let high = share(&|drawn| of(drawn).mean_at_most(alpha) < mean - 1e-9);
                    let low = share(&|drawn| of(drawn).mean_at_least(alpha) > mean + 1e-9);
                    assert!(high <= alpha && low <= alpha, "{population:?}, {size}: {high}, {low}");
                    let met = |drawn: &[f64]| drawn.iter().fold(0.0f64, |most, &x| most.max(x));
                    let narrow = |drawn: &[f64]| Bounds { low: 0.0, high: met(drawn) };
                    let twin = |drawn: &[f64]| numbers(narrow(drawn), drawn.iter().copied());
                    twin_failed |= share(&|drawn| twin(drawn).mean_at_most(alpha) < mean) > alpha;
                }
            }
        }
        assert!(twin_failed, "to take what was met for all there is passed");
    }

    /// The ends of Clopper and Pearson: the share at which so few hits have a chance of `alpha`.
    #[test]
    fn of_two_values_the_ends_are_the_exact_ones_of_a_share() {
        let bounds = Bounds { low: 0.0, high: 1.0 };
        for drawn in [1u64, 2, 3, 10, 100, 1_000] {
            for hits in [0, drawn / 3, drawn / 2, drawn - 1] {
                for alpha in [0.25, 0.025, 1e-6] {
                    let values = (0..drawn).map(|i| f64::from(u8::from(i < hits)));
                    let most = numbers(bounds, values).mean_at_most(alpha);
                    let binomial = statrs::distribution::Binomial::new(most, drawn).unwrap();
                    let chance = statrs::distribution::DiscreteCDF::cdf(&binomial, hits);
                    assert!(
                        (0.9..1.001).contains(&(chance / alpha)),
                        "{hits} of {drawn}: {chance}"
                    );
                    let mirrored = (0..drawn).map(|i| f64::from(u8::from(i >= hits)));
                    let least = numbers(bounds, mirrored).mean_at_least(alpha);
                    assert!((most + least - 1.0).abs() < 1e-9, "{most}, {least}");
                }
            }
        }
    }

    #[test]
    fn without_spread_the_ends_are_the_share_that_may_not_have_been_met_away() {
        let bounds = Bounds { low: 0.0, high: 1_000.0 };
        let zeros = numbers(bounds, [0.0; 500]);
        let unmet = 1_000.0 * (1.0f64 / 0.025).ln() / 500.0;
        let high = zeros.mean_at_most(0.025);
        assert!((0.99 * unmet..1.01 * unmet).contains(&high), "{high}, {unmet}");
        assert_eq!(zeros.mean_at_least(0.025), 0.0);
    }

    /// At a scale of the largest numbers, of the smallest, and far from 0.
    #[test]
    fn the_ends_move_with_the_numbers_at_any_scale() {
        let shares: Vec<f64> = (0..200).map(|i| f64::from(i * i % 83) / 82.0).collect();
        let end = |low: f64, high: f64| {
            let drawn = shares.iter().map(|share| low + share * (high - low));
            (numbers(Bounds { low, high }, drawn).mean_at_most(0.025) - low) / (high - low)
        };
        let plain = end(0.0, 1.0);
        assert!((0.45..0.6).contains(&plain), "{plain}");
        for (low, high) in [(0.0, 1e307), (0.0, 1e-300), (1e9, 1e9 + 1.0), (-7.0, -3.0)] {
            assert!((end(low, high) - plain).abs() < 1e-6, "{low} to {high}");
        }
        assert_eq!(numbers(Bounds { low: 4.0, high: 4.0 }, [4.0, 4.0]).mean_at_most(0.1), 4.0);
    }

    proptest! {
        /// However the numbers lie, and however sure the interval must be.
        #[test]
        fn the_ends_lie_around_the_mean_and_within_the_bounds(
            drawn in prop::collection::vec(
                prop_oneof![Just(0.0), Just(1.0), Just(1e-300), Just(1.0 - 1e-16), 0.0..1.0f64],
                1..100,
            ),
            power in 0.3..16.0f64,
        ) {
            let (alpha, count) = (10f64.powf(-power), drawn.len() as f64);
            let mean = drawn.iter().sum::<f64>() / count;
            let numbers = numbers(Bounds { low: 0.0, high: 1.0 }, drawn);
            let (least, most) = (numbers.mean_at_least(alpha), numbers.mean_at_most(alpha));
            prop_assert!(0.0 <= least && least <= mean + 1e-12, "{least}, {mean}");
            prop_assert!(mean - 1e-12 <= most && most <= 1.0, "{most}, {mean}");
        }
    }

    #[test]
    fn beyond_a_million_numbers_the_first_ones_speak() {
        let bounds = Bounds { low: 0.0, high: 1.0 };
        let many = numbers(bounds, (0..KEPT_MAX + 1_000).map(|i| f64::from(u8::from(i % 2 == 0))));
        assert_eq!(many.numbers.len(), KEPT_MAX);
        let half_width = many.mean_at_most(0.025) - 0.5;
        assert!((half_width - 1.96 * 0.5 / 1_000.0).abs() < 1e-5, "{half_width}");
    }

    #[test]
    fn zeros_filled_in_count_like_numbers() {
        let bounds = Bounds { low: 2.0, high: 50.0 };
        let some = numbers(bounds, (0..40).map(|i| f64::from(2 + i)));
        let wide = Bounds { low: 0.0, high: 50.0 };
        let zeros = std::iter::repeat_n(0.0, 60);
        let all = numbers(wide, (0..40).map(|i| f64::from(2 + i)).chain(zeros));
        let filled = some.zero_filled(40, 60);
        assert!((filled.mean_at_most(0.025) - all.mean_at_most(0.025)).abs() < 1e-9);
        assert!((filled.mean_at_least(0.025) - all.mean_at_least(0.025)).abs() < 1e-9);
    }

    #[test]
    fn bounds_are_finite_and_ordered() {
        assert_eq!(Bounds::new(1.0, 2.0), Some(Bounds { low: 1.0, high: 2.0 }));
        let infinity = f64::INFINITY;
        for (low, high) in [(2.0, 1.0), (f64::NAN, 1.0), (0.0, infinity), (-f64::MAX, f64::MAX)] {
            assert_eq!(Bounds::new(low, high), None);
        }
    }
}
