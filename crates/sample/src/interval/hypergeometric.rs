//! The shares under which the number of hits among the draws is not too unlikely: the exact test of Clopper and Pearson
//! (1934), for draws without replacement.
//!
//! A candidate share is refuted from below if it gives as many hits as were met, or more, a chance of at most half its
//! *level*, and from above if as many or fewer. So the true share is refuted with at most the chance of its level, for
//! any population and any number of draws fixed beforehand. The level may depend on the candidate.

use statrs::function::gamma::ln_gamma;

use crate::interval::beta_binomial::{bisect_whole, ln_falling_share};

/// Terms of a tail below this share of its sum no longer matter.
const TAIL_TERM_MIN: f64 = 1e-17;

/// The draws from an urn of `all`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Urn {
    pub hits: u64,
    pub misses: u64,
    pub all: u64,
}

impl Urn {
    /// The least and the greatest number of hits in the urn not refuted; `level` is of the share that they are.
    ///
    /// # Panics
    /// Without draws.
    pub fn hits_not_refuted(&self, level: impl Fn(f64) -> f64) -> (u64, u64) {
        let (least, most) = (self.hits, self.all - self.misses);
        let drawn = self.hits + self.misses;
        assert!(drawn > 0, "nothing was drawn");
        // The most likely number: from here outwards both tails fall.
        let likeliest = u128::from(self.hits) * (u128::from(self.all) + 1) / u128::from(drawn);
        let likeliest = u64::try_from(likeliest).unwrap_or(most).clamp(least, most);
        let half_level = |urn_hits: u64| level(urn_hits as f64 / self.all as f64) / 2.0;
        let as_many = |urn_hits| self.tail_exceeds(urn_hits, true, half_level(urn_hits));
        let as_few = |urn_hits| self.tail_exceeds(urn_hits, false, half_level(urn_hits));
        (bisect_whole(least, likeliest, as_many), bisect_whole(most, likeliest, as_few))
    }

    /// Whether the chance of as many hits or more (or, downwards, as few or fewer) is above `limit`, if the urn has
    /// `urn_hits` of them. Sums terms away from what was met, as far as needed: some standard deviations.
    fn tail_exceeds(&self, urn_hits: u64, upwards: bool, limit: f64) -> bool {
        let (urn_hits, urn_misses) = (urn_hits as f64, (self.all - urn_hits) as f64);
        let (mut hits, mut misses) = (self.hits as f64, self.misses as f64);
        let mut term = self.ln_chance(urn_hits, urn_misses).exp();
        let mut sum = 0.0;
        while term > TAIL_TERM_MIN * sum && sum <= limit {
            sum += term;
            // From the chance of these hits and misses to that of one more hit in place of a miss, or one less.
            let (more, fewer) = if upwards {
                ((urn_hits - hits) * misses, (hits + 1.0) * (urn_misses - misses + 1.0))
            } else {
                ((urn_misses - misses) * hits, (misses + 1.0) * (urn_hits - hits + 1.0))
            };
            term *= more / fewer;
            let step = if upwards { 1.0 } else { -1.0 };
            (hits, misses) = (hits + step, misses - step);
        }
        sum > limit
    }

    /// Logarithm of the chance of exactly these hits, if the urn has `urn_hits` hits and `urn_misses` misses.
    pub fn ln_chance(&self, urn_hits: f64, urn_misses: f64) -> f64 {
        let (hits, misses) = (self.hits as f64, self.misses as f64);
        let all = urn_hits + urn_misses;
        let drawn = hits + misses;
        let ln_times = |count: f64, share: f64| if count == 0.0 { 0.0 } else { count * share.ln() };
        ln_gamma(drawn + 1.0) - ln_gamma(hits + 1.0) - ln_gamma(misses + 1.0)
            + ln_times(hits, urn_hits / all)
            + ln_times(misses, urn_misses / all)
            + ln_falling_share(urn_hits, hits)
            + ln_falling_share(urn_misses, misses)
            - ln_falling_share(all, drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binomial(n: u64, k: u64) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product()
    }

    /// The chance of exactly `hits` of `drawn`, counted.
    fn chance(all: u64, urn_hits: u64, drawn: u64, hits: u64) -> f64 {
        if hits > urn_hits || drawn - hits > all - urn_hits {
            return 0.0;
        }
        binomial(urn_hits, hits) * binomial(all - urn_hits, drawn - hits) / binomial(all, drawn)
    }

    /// By enumeration, no chance involved. Levels: the same for all shares, and in proportion to the share.
    #[test]
    fn no_urn_is_refuted_more_often_than_its_level_and_no_other_urn_is_kept() {
        for level in [|_: f64| 0.1, |share: f64| 0.4 * share] {
            for (all, drawn) in [(1, 1), (7, 3), (30, 12), (30, 30), (45, 2)] {
                for urn_hits in 0..=all {
                    let half = level(urn_hits as f64 / all as f64) / 2.0;
                    let mut refuted = 0.0;
                    for hits in 0..=drawn.min(urn_hits) {
                        if drawn - hits > all - urn_hits {
                            continue;
                        }
                        let urn = Urn { hits, misses: drawn - hits, all };
                        let (least, most) = urn.hits_not_refuted(level);
                        let more: f64 =
                            (hits..=drawn).map(|k| chance(all, urn_hits, drawn, k)).sum();
                        let fewer: f64 = (0..=hits).map(|k| chance(all, urn_hits, drawn, k)).sum();
                        let is_in = (least..=most).contains(&urn_hits);
                        let is_tie = (more - half).abs() < 1e-12 || (fewer - half).abs() < 1e-12;
                        assert!(
                            is_tie || is_in == (more > half && fewer > half),
                            "{urn_hits} of {all}: {hits} of {drawn}, {more}, {fewer}"
                        );
                        refuted += if is_in { 0.0 } else { chance(all, urn_hits, drawn, hits) };
                    }
                    assert!(refuted <= 2.0 * half + 1e-12, "{urn_hits} of {all}: {refuted}");
                }
            }
        }
    }
}
