//! The mean of numbers that are known to lie between bounds, where few of them may carry most of it.
//!
//! A bet against each candidate mean `m` that is too small to be true: of what is held, every draw `x` multiplies it by
//! `(far - x) / (far - m)`, for a fixed `far` beyond the upper bound. If `m` is the mean, what is held after all draws is 1 on
//! average with replacement, and 1 at most without: by Maclaurin's inequality the mean product of different members of
//! non-negative numbers is largest for one at a time. So by Markov's inequality it reaches `1 / alpha` with a chance of
//! `alpha` at most, and the candidates that it has not reached end at
//!
//! ```text
//! far - (geometric mean of far - x) * alpha^(1 / n)
//! ```
//!
//! That is the constant stake of Waudby-Smith and Ramdas (2023, "Estimating means of bounded random variables by betting"),
//! solved. No central limit theorem: it holds for any numbers and any count of draws. Where the spread of the draws is next
//! to nothing it ends `ln(1 / alpha) / n` of the way from the mean to the bound, or half again as much for the chosen `far`; less
//! cannot be had, because that many rows at the bound may not have been met. The range term of an empirical Bernstein interval
//! (Maurer and Pontil 2009), `7 ln(4 / alpha) / 3 (n - 1)` of the distance between the bounds for an interval of two ends, is
//! about twice that.

/// The least and the greatest value that a number can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

/// How far beyond a bound the stake is placed, in distances between the bounds. At 0 a draw at the bound would leave the
/// bet nothing; more makes the interval wider.
const BEYOND: f64 = 0.5;

/// What a bet needs to know of the numbers drawn: their distances from places beyond both bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedNumbers {
    bounds: Bounds,
    count: u64,
    /// Sums of logarithms.
    below_high: f64,
    above_low: f64,
}

impl Bounds {
    /// `None` unless both are finite, and in this order.
    pub fn new(low: f64, high: f64) -> Option<Bounds> {
        (low <= high && (high - low).is_finite()).then_some(Bounds { low, high })
    }

    fn beyond(&self) -> f64 {
        BEYOND * (self.high - self.low)
    }
}

impl BoundedNumbers {
    pub fn new(bounds: Bounds) -> BoundedNumbers {
        BoundedNumbers { bounds, count: 0, below_high: 0.0, above_low: 0.0 }
    }

    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Takes one more number, which lies between the bounds. Two logarithms.
    pub fn push(&mut self, x: f64) {
        debug_assert!((self.bounds.low..=self.bounds.high).contains(&x), "{x}: {:?}", self.bounds);
        self.count += 1;
        self.below_high += (self.bounds.high + self.bounds.beyond() - x).ln();
        self.above_low += (x - (self.bounds.low - self.bounds.beyond())).ln();
    }

    /// The upper end of an interval for the mean that fails with a chance of `alpha` at most, at this one look.
    pub(super) fn mean_at_most(&self, alpha: f64) -> f64 {
        let far = self.bounds.high + self.bounds.beyond();
        (far - self.shrunk(self.below_high, alpha)).min(self.bounds.high)
    }

    /// The lower end of one.
    pub(super) fn mean_at_least(&self, alpha: f64) -> f64 {
        let far = self.bounds.low - self.bounds.beyond();
        (far + self.shrunk(self.above_low, alpha)).max(self.bounds.low)
    }

    fn shrunk(&self, sum_of_logarithms: f64, alpha: f64) -> f64 {
        ((sum_of_logarithms + alpha.ln()) / self.count as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bounds: Bounds, drawn: &[f64]) -> BoundedNumbers {
        let mut numbers = BoundedNumbers::new(bounds);
        drawn.iter().for_each(|&x| numbers.push(x));
        numbers
    }

    /// By enumeration of all samples of ten numbers without replacement, no chance involved. Twin: a bet that forgets to
    /// pay for what it may lose, which is the geometric mean itself.
    #[test]
    fn each_end_fails_with_its_chance_at_most_whatever_the_numbers() {
        let bounds = Bounds { low: 0.0, high: 100.0 };
        let populations: [[f64; 10]; 4] = [
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 100.0],
            [0.0, 1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 90.0, 100.0],
            [0.0, 100.0, 0.0, 100.0, 0.0, 100.0, 0.0, 100.0, 0.0, 100.0],
            [50.0, 51.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0],
        ];
        let mut twin_failed = false;
        for population in populations {
            let mean = population.iter().sum::<f64>() / 10.0;
            for alpha in [0.025, 0.2, 0.5] {
                for size in 1..10u32 {
                    let subsets: Vec<u32> =
                        (0..1 << 10).filter(|s: &u32| s.count_ones() == size).collect();
                    let drawn = |subset: u32| -> Vec<f64> {
                        (0..10).filter(|i| subset >> i & 1 == 1).map(|i| population[i]).collect()
                    };
                    let share = |fails: &dyn Fn(BoundedNumbers) -> bool| {
                        let failed = subsets.iter().filter(|s| fails(numbers(bounds, &drawn(**s))));
                        failed.count() as f64 / subsets.len() as f64
                    };
                    assert!(share(&|numbers| numbers.mean_at_most(alpha) < mean) <= alpha);
                    assert!(share(&|numbers| numbers.mean_at_least(alpha) > mean) <= alpha);
                    twin_failed |= share(&|numbers| numbers.mean_at_most(1.0) < mean) > alpha;
                }
            }
        }
        assert!(twin_failed, "a bet without its price passed");
    }

    #[test]
    fn without_spread_the_ends_are_the_share_that_may_not_have_been_met_away() {
        let bounds = Bounds { low: 0.0, high: 1_000.0 };
        let zeros = numbers(bounds, &[0.0; 500]);
        let unmet = 1_000.0 * (1.0f64 / 0.025).ln() / 500.0;
        let high = zeros.mean_at_most(0.025);
        assert!((unmet..1.51 * unmet).contains(&high), "{high}, {unmet}");
        assert_eq!(zeros.mean_at_least(0.025), 0.0);
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
