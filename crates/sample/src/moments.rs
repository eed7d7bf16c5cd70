//! [`Moments`]: running mean, variance and skewness of a stream of numbers.
//!
//! Numerically sound where sums of squares are not: a small spread around a large mean keeps its digits.
//! Partial results of several threads join without loss. What the numbers say about a population is left to
//! [`crate::interval`].

/// Count, mean, variance and skewness of the numbers pushed so far; 40 bytes, no allocation.
///
/// Updated by Welford's method (1962) and merged by that of Chan, Golub and LeVeque (1979), continued to third powers by
/// Terriberry (2007).
///
/// Numbers that are not finite are counted and take over: the mean becomes their sum (infinite, or NaN when a NaN
/// or both infinities are among them) and the variance NaN, whatever the order of pushes and merges.
/// Finite numbers further apart than `f64::MAX` overflow, and the moments are then not finite either.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    /// Sum of cubed distances from the mean.
    cubes: f64,
    /// Sum of the numbers that were not finite; 0 while there are none.
    not_finite: f64,
}

impl Moments {
    /// Nothing pushed yet.
    pub fn new() -> Moments {
        Moments::default()
    }

    /// The moments of some numbers. Two passes without a division, so it takes less time than to push them.
    pub fn of_all(numbers: &[f64]) -> Moments {
        let count = numbers.len() as f64;
        let mean = sum_in_lanes(numbers) / count;
        if numbers.is_empty() || !mean.is_finite() {
            let mut moments = Moments::new();
            numbers.iter().for_each(|&x| moments.push(x));
            return moments;
        }
        // What rounding left of the mean is taken off again (Chan, Golub and LeVeque 1983).
        let [off, squares, cubes] = sums_in_lanes(numbers, |x| {
            let from_mean = x - mean;
            let square = from_mean * from_mean;
            [from_mean, square, square * from_mean]
        });
        let off = off / count;
        Moments::of_powers(
            numbers.len() as u64,
            mean + off,
            (squares - count * off * off).max(0.0),
            cubes - 3.0 * off * squares,
        )
    }

    /// Takes one more number. One division.
    #[inline]
    pub fn push(&mut self, x: f64) {
        self.count += 1;
        if !x.is_finite() {
            self.not_finite += x;
            return;
        }
        let from_old_mean = x - self.mean;
        let count = self.count as f64;
        let step = from_old_mean / count;
        self.mean += step;
        let square = from_old_mean * (x - self.mean);
        self.cubes += step * (square * (count - 2.0) - 3.0 * self.squares);
        self.squares += square;
    }

    /// Takes one more number, `times` times.
    pub fn push_repeated(&mut self, x: f64, times: u64) {
        match x.is_finite() {
            true => self.merge(&Moments::of_powers(times, x, 0.0, 0.0)),
            false if times > 0 => {
                self.count += times;
                self.not_finite += x;
            }
            false => {}
        }
    }

    /// Takes all numbers that `other` has taken.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        let all = self.count as f64;
        let (our_share, their_share) = (ours / all, theirs / all);
        self.mean += apart * their_share;
        self.cubes += other.cubes
            + apart.powi(3) * (ours * their_share * (our_share - their_share))
            + 3.0 * apart * (our_share * other.squares - their_share * self.squares);
        self.squares += other.squares + apart * apart * (ours * their_share);
        self.not_finite += other.not_finite;
    }

    /// The same with `zeros` zeros pushed as well.
    pub fn with_zeros(&self, zeros: u64) -> Moments {
        let mut filled = *self;
        filled.merge(&Moments { count: zeros, ..Moments::default() });
        filled
    }

    /// Moments of numbers that were not pushed one by one: how many there are, their mean, and the sums of squared and cubed
    /// distances from it.
    pub(crate) fn of_powers(count: u64, mean: f64, squares: f64, cubes: f64) -> Moments {
        Moments { count, mean, squares, cubes, not_finite: 0.0 }
    }

    /// How many numbers were pushed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; NaN before the first number.
    pub fn mean(&self) -> f64 {
        match self.count {
            0 => f64::NAN,
            _ if self.has_only_finite() => self.mean,
            _ => self.not_finite,
        }
    }

    /// The sample variance, with `count - 1` below the line; NaN for fewer than two numbers.
    pub fn variance(&self) -> f64 {
        if self.count < 2 || !self.has_only_finite() {
            return f64::NAN;
        }
        self.squares / (self.count - 1) as f64
    }

    /// The skewness of the sample: the mean cube of the distances from the mean, in units of their mean square; 0 if all
    /// numbers are equal, NaN before the first.
    pub fn skewness(&self) -> f64 {
        match self.count {
            0 => f64::NAN,
            _ if !self.has_only_finite() => f64::NAN,
            _ if self.squares == 0.0 => 0.0,
            count => (count as f64).sqrt() * self.cubes / self.squares.powf(1.5),
        }
    }

    fn has_only_finite(&self) -> bool {
        self.not_finite == 0.0
    }
}

/// Sums that a processor adds several of at once, and whose rounding is less than that of one after the other.
pub fn sum_in_lanes(numbers: &[f64]) -> f64 {
    let [sum] = sums_in_lanes(numbers, |x| [x]);
    sum
}

/// [`sum_in_lanes`] of several figures of each number.
fn sums_in_lanes<const FIGURES: usize>(
    numbers: &[f64],
    of: impl Fn(f64) -> [f64; FIGURES],
) -> [f64; FIGURES] {
    const LANES: usize = 8;
    let mut lanes = [[0.0; LANES]; FIGURES];
    let mut add = |lane: usize, x: f64| {
        for (lanes, figure) in lanes.iter_mut().zip(of(x)) {
            lanes[lane] += figure;
        }
    };
    let chunks = numbers.chunks_exact(LANES);
    chunks.remainder().iter().enumerate().for_each(|(lane, &x)| add(lane, x));
    for chunk in chunks {
        chunk.iter().enumerate().for_each(|(lane, &x)| add(lane, x));
    }
    lanes.map(|lanes| lanes.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moments_of(numbers: &[f64]) -> Moments {
        let mut moments = Moments::new();
        numbers.iter().for_each(|&x| moments.push(x));
        moments
    }

    #[test]
    fn a_number_pushed_several_times_at_once_is_pushed_as_often() {
        let (mut at_once, mut one_by_one) = (Moments::new(), Moments::new());
        for (x, times) in [(3.0, 4), (-1.5, 1), (7.25, 0), (0.5, 9), (f64::INFINITY, 0)] {
            at_once.push_repeated(x, times);
            (0..times).for_each(|_| one_by_one.push(x));
        }
        assert_eq!(at_once.count(), one_by_one.count());
        for figure in [Moments::mean, Moments::variance, Moments::skewness] {
            let (found, expected) = (figure(&at_once), figure(&one_by_one));
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
        at_once.push_repeated(f64::INFINITY, 2);
        assert_eq!((at_once.count(), at_once.mean()), (16, f64::INFINITY));
        assert!(at_once.variance().is_nan());
    }

    /// Mean and variance in two passes: slow and plainly right.
    fn in_two_passes(numbers: &[f64]) -> (f64, f64) {
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
        (mean, squares / (n - 1.0))
    }

    fn close(a: f64, b: f64, scale: f64) -> bool {
        (a - b).abs() <= 1e-9 * scale.max(1.0)
    }

    proptest! {
        #[test]
        fn pushing_and_merging_agree_with_two_passes(
            numbers in prop::collection::vec(-1e6..1e6f64, 2..200),
            middle in any::<prop::sample::Index>(),
        ) {
            let (left, right) = numbers.split_at(middle.index(numbers.len()));
            let mut merged = moments_of(left);
            merged.merge(&moments_of(right));
            let (mean, variance) = in_two_passes(&numbers);
            for moments in [merged, moments_of(&numbers)] {
                prop_assert_eq!(moments.count(), numbers.len() as u64);
                prop_assert!(close(moments.mean(), mean, 1e6));
                prop_assert!(close(moments.variance(), variance, variance));
                let n = numbers.len() as f64;
                let cubes: f64 = numbers.iter().map(|x| (x - mean).powi(3)).sum();
                let deviation = (variance * (n - 1.0) / n).sqrt();
                let skewness = cubes / n / deviation.powi(3);
                prop_assert!(close(moments.skewness(), skewness, skewness), "{skewness}");
            }
        }
    }

    #[test]
    fn a_small_spread_around_a_large_mean_keeps_its_digits() {
        let numbers: Vec<f64> = (0..30_000).map(|i| 1e9 + f64::from(i % 3)).collect();
        let moments = moments_of(&numbers);
        let variance = 2.0 / 3.0 * 30_000.0 / 29_999.0;
        assert!((moments.variance() - variance).abs() < 1e-6);
        // The textbook formula that this avoids is off by more than the variance itself.
        let n = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        let sum_of_squares: f64 = numbers.iter().map(|x| x * x).sum();
        let textbook = (sum_of_squares - sum * sum / n) / (n - 1.0);
        assert!((textbook - variance).abs() > variance);
    }

    #[test]
    fn many_numbers_at_once_have_the_moments_of_each_pushed() {
        let infinity = f64::INFINITY;
        let spread: Vec<f64> = (0..1_003).map(|i| 1e6 + f64::from(i * i % 97)).collect();
        for numbers in [&spread[..], &spread[..5], &[2.5], &[]] {
            let (found, pushed) = (Moments::of_all(numbers), moments_of(numbers));
            assert_eq!(found.count(), pushed.count());
            let close =
                |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a / b - 1.0).abs() < 1e-9;
            assert!(close(found.mean(), pushed.mean()));
            assert!(close(found.variance(), pushed.variance()));
            assert!((found.skewness() - pushed.skewness()).abs() < 1e-7 || numbers.is_empty());
        }
        assert_eq!(Moments::of_all(&[1.0, infinity]).mean(), infinity);
        assert!(Moments::of_all(&[1.0, f64::NAN]).mean().is_nan());
    }

    #[test]
    fn zeros_count_like_any_number() {
        let some = moments_of(&[3.0, -1.0, 7.5]);
        let filled = moments_of(&[3.0, 0.0, -1.0, 0.0, 7.5]);
        let zeros = some.with_zeros(2);
        assert_eq!(zeros.count(), 5);
        assert!((zeros.mean() - filled.mean()).abs() < 1e-12);
        assert!((zeros.variance() - filled.variance()).abs() < 1e-12);
        assert!((zeros.skewness() - filled.skewness()).abs() < 1e-12);
        assert_eq!(some.with_zeros(0), some);
        assert_eq!(Moments::new().with_zeros(4).mean(), 0.0);
    }

    #[test]
    fn too_few_numbers_have_no_mean_or_variance() {
        assert!(Moments::new().mean().is_nan());
        let one = moments_of(&[4.0]);
        assert_eq!(one.mean(), 4.0);
        assert!(one.variance().is_nan());
        let mut merged = Moments::new();
        merged.merge(&Moments::new());
        merged.merge(&one);
        assert_eq!(merged, one);
    }

    #[test]
    fn numbers_that_are_not_finite_take_over_in_any_order() {
        let infinity = f64::INFINITY;
        for numbers in [[1.0, infinity, 2.0], [infinity, 1.0, 2.0], [1.0, 2.0, infinity]] {
            let mut merged = moments_of(&numbers[..1]);
            merged.merge(&moments_of(&numbers[1..]));
            for moments in [merged, moments_of(&numbers)] {
                assert_eq!(moments.mean(), infinity);
                assert!(moments.variance().is_nan());
                assert_eq!(moments.count(), 3);
            }
        }
        assert!(moments_of(&[infinity, 1.0, -infinity]).mean().is_nan());
        assert!(moments_of(&[f64::NAN, 1.0]).mean().is_nan());
    }
}
