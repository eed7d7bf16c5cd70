//! [`PairMoments`]: running means, variances and joint moments of a stream of pairs of numbers.
//!
//! They give the [`Moments`] of `x - r y` for any `r`, without another pass over the pairs.

use crate::moments::Moments;

/// Count, means, and joint moments up to the third order of the pairs pushed so far; no allocation.
///
/// Pairs with a number that is not finite are counted and take over: means and moments are NaN then.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairMoments {
    count: u64,
    has_not_finite: bool,
    x: f64,
    y: f64,
    /// Sums of products of distances from the means.
    xx: f64,
    xy: f64,
    yy: f64,
    xxx: f64,
    xxy: f64,
    xyy: f64,
    yyy: f64,
}

impl PairMoments {
    /// Nothing pushed yet.
    pub fn new() -> PairMoments {
        PairMoments::default()
    }

    /// Takes one more pair. One division.
    #[inline]
    pub fn push(&mut self, x: f64, y: f64) {
        self.count += 1;
        if !x.is_finite() || !y.is_finite() {
            self.has_not_finite = true;
            return;
        }
        let (dx, dy) = (x - self.x, y - self.y);
        let count = self.count as f64;
        let one = 1.0 / count;
        self.x += dx * one;
        self.y += dy * one;
        // As Welford's method, continued to products of three (Terriberry 2007).
        let (square, cube) = ((count - 1.0) * one, (count - 1.0) * (count - 2.0) * one * one);
        self.xxx += dx * dx * dx * cube - 3.0 * one * dx * self.xx;
        self.xxy += dx * dx * dy * cube - one * (2.0 * dx * self.xy + dy * self.xx);
        self.xyy += dx * dy * dy * cube - one * (2.0 * dy * self.xy + dx * self.yy);
        self.yyy += dy * dy * dy * cube - 3.0 * one * dy * self.yy;
        self.xx += dx * dx * square;
        self.xy += dx * dy * square;
        self.yy += dy * dy * square;
    }

    /// How many pairs were pushed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The ratio of the sums; NaN where there are no pairs or the lower sum is 0.
    pub fn ratio(&self) -> f64 {
        if self.has_not_finite || self.y == 0.0 { f64::NAN } else { self.x / self.y }
    }

    /// The moments of the second numbers.
    pub fn of_y(&self) -> Moments {
        self.moments(self.y, self.yy, self.yyy)
    }

    /// The moments of `x - ratio * y`.
    pub fn residual(&self, ratio: f64) -> Moments {
        let squares = self.xx + ratio * (ratio * self.yy - 2.0 * self.xy);
        let cubes =
            self.xxx + ratio * (ratio * (3.0 * self.xyy - ratio * self.yyy) - 3.0 * self.xxy);
        self.moments(self.x - ratio * self.y, squares.max(0.0), cubes)
    }

    fn moments(&self, mean: f64, squares: f64, cubes: f64) -> Moments {
        let mean = if self.has_not_finite { f64::NAN } else { mean };
        Moments::of_powers(self.count, mean, squares, cubes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn residuals_have_the_moments_of_their_numbers() {
        let mut rng = Rng::keyed(0x5eed_0021, 1);
        let pairs: Vec<(f64, f64)> = (0..500)
            .map(|_| (100.0 + 9.0 * rng.unit_f64().powi(3), 5.0 + 2.0 * rng.unit_f64()))
            .collect();
        let mut moments = PairMoments::new();
        pairs.iter().for_each(|&(x, y)| moments.push(x, y));
        for ratio in [0.0, -3.0, moments.ratio(), 40.0] {
            let mut expected = Moments::new();
            pairs.iter().for_each(|&(x, y)| expected.push(x - ratio * y));
            let found = moments.residual(ratio);
            assert_eq!(found.count(), expected.count());
            assert!((found.mean() - expected.mean()).abs() < 1e-9);
            assert!((found.variance() / expected.variance() - 1.0).abs() < 1e-9, "{ratio}");
            assert!((found.skewness() - expected.skewness()).abs() < 1e-7, "{ratio}");
        }
        let mut expected = Moments::new();
        pairs.iter().for_each(|&(_, y)| expected.push(y));
        assert!((moments.of_y().skewness() - expected.skewness()).abs() < 1e-9);
    }

    #[test]
    fn numbers_that_are_not_finite_take_over() {
        let mut moments = PairMoments::new();
        assert!(moments.ratio().is_nan());
        moments.push(1.0, 2.0);
        assert_eq!(moments.ratio(), 0.5);
        moments.push(f64::INFINITY, 2.0);
        assert!(moments.ratio().is_nan() && moments.residual(1.0).mean().is_nan());
    }
}
