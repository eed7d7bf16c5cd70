//! The shares that draws of hits and misses have not refuted at any look so far.
//!
//! Each candidate share `p` is tested by a bet against it: the draws' likelihood under a mixture of other shares,
//! `Beta(r p, r (1 - p))`, over that under `p`. If `p` is true this ratio is a martingale that begins at 1, so by
//! Ville's inequality it ever reaches `1 / alpha` with chance at most `alpha`: the candidates that have not reached it
//! hold the truth at all looks together. Exact for any number of draws and any share, however rare, unlike the
//! normal mixture. (Robbins 1970; the mixture around `p` is that of Howard, Ramdas, McAuliffe and Sekhon 2021.)
//!
//! Without replacement the likelihood under `p` is that of drawing from an urn with `p` times the population in hits. The
//! mixture keeps its form: drawn from an urn whose hits are beta-binomial, a sequence follows Polya's law whatever the
//! size of the urn. (Waudby-Smith and Ramdas 2020, arXiv 2006.04347, with the prior moved to each candidate.)

use statrs::function::gamma::ln_gamma;

/// Bisections of `[0, 1]`: the ends are found to 2^-60, finer than the statistics can tell.
const BISECTIONS: u32 = 60;

/// From here on Stirling's series with one term gives `ln x!` to 3e-9.
const STIRLING_MIN: f64 = 100.0;

/// The draws so far, and how sure a bet must be to refute a share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidates {
    pub hits: u64,
    pub misses: u64,
    /// `r`: how many draws the mixture around a candidate is worth. The intervals are tightest at about 8 times as many.
    pub mixture_draws: f64,
    /// `ln(1 / alpha)`.
    pub log_wealth_max: f64,
    /// Whether a share may be refuted with a chance of `alpha` times itself, not `alpha`: of groups whose shares add up to
    /// 1 at most, none is then refuted with a chance of more than `alpha`.
    pub is_one_of_many: bool,
}

impl Candidates {
    /// The least and the greatest share not refuted, for draws with replacement.
    pub fn shares(&self) -> (f64, f64) {
        if self.hits + self.misses == 0 {
            return (0.0, 1.0);
        }
        let found = self.hits as f64 / (self.hits + self.misses) as f64;
        let stands = |share: f64| self.log_wealth(share) < self.log_wealth_max(share);
        (bisect(0.0, found, stands), bisect(1.0, found, stands))
    }

    /// The least and the greatest number of hits in a population of `all` not refuted, for draws without replacement.
    pub fn hits_of(&self, all: u64) -> (u64, u64) {
        let drawn = self.hits + self.misses;
        let (least, most) = (self.hits, all - self.misses);
        if drawn == 0 {
            return (least, most);
        }
        // The most likely number; no mixture is likelier, so no bet against it has gained.
        let likeliest = u128::from(self.hits) * (u128::from(all) + 1) / u128::from(drawn);
        let likeliest = u64::try_from(likeliest).unwrap_or(most).clamp(least, most);
        let stands = |hits: u64| self.stands_in_urn(hits, all);
        (bisect_whole(least, likeliest, stands), bisect_whole(most, likeliest, stands))
    }

    /// Whether an urn of `all` with `hits` hits is not refuted.
    pub fn stands_in_urn(&self, hits: u64, all: u64) -> bool {
        self.log_wealth_in_urn(hits, all) < self.log_wealth_max(hits as f64 / all as f64)
    }

    /// What a bet against `share` must reach to refute it.
    fn log_wealth_max(&self, share: f64) -> f64 {
        self.log_wealth_max - if self.is_one_of_many { share.ln() } else { 0.0 }
    }

    /// Logarithm of what the bet against `share` has made of 1, draws with replacement.
    fn log_wealth(&self, share: f64) -> f64 {
        let (hits, misses) = (self.hits as f64, self.misses as f64);
        if share <= 0.0 || share >= 1.0 {
            // All mass of the mixture is on the candidate: nothing gained, unless the draws rule it out.
            let is_possible = if share <= 0.0 { hits } else { misses } == 0.0;
            return if is_possible { 0.0 } else { f64::INFINITY };
        }
        let r = self.mixture_draws;
        let mixture = ln_rising(r * share, hits) + ln_rising(r * (1.0 - share), misses)
            - ln_rising(r, hits + misses);
        mixture - hits * share.ln() - misses * (-share).ln_1p()
    }

    /// The same for an urn of `all` with `hits` hits, draws without replacement.
    fn log_wealth_in_urn(&self, hits: u64, all: u64) -> f64 {
        let (whole, holders) = (all as f64, hits as f64);
        let (met, missed) = (self.hits as f64, self.misses as f64);
        self.log_wealth(holders / whole)
            - ln_falling_share(holders, met)
            - ln_falling_share((all - hits) as f64, missed)
            + ln_falling_share(whole, met + missed)
    }
}

/// `ln(a (a + 1) .. (a + k - 1))` for `a > 0`.
fn ln_rising(a: f64, k: f64) -> f64 {
    if k == 0.0 {
        return 0.0;
    }
    // The first factor apart: the gamma function has its pole where a mixture on a rare share begins.
    a.ln() + ln_gamma(a + k) - ln_gamma(a + 1.0)
}

/// `ln(x (x - 1) .. (x - k + 1) / x^k)` for `k <= x`.
pub(super) fn ln_falling_share(x: f64, k: f64) -> f64 {
    let left = x - k;
    if k == 0.0 {
        0.0
    } else if left >= STIRLING_MIN {
        // Differences of Stirling's series, so that a large population does not cancel the digits of few draws.
        -(left + 0.5) * (-k / x).ln_1p() - k + (1.0 / x - 1.0 / left) / 12.0
    } else {
        ln_gamma(x + 1.0) - ln_gamma(left + 1.0) - k * x.ln()
    }
}

/// The last place on the way from `inside` to `end` before `stands` fails; rounded outwards.
fn bisect(end: f64, inside: f64, stands: impl Fn(f64) -> bool) -> f64 {
    if stands(end) {
        return end;
    }
    let (mut refuted, mut standing) = (end, inside);
    for _ in 0..BISECTIONS {
        let middle = refuted.midpoint(standing);
        if stands(middle) {
            standing = middle;
        } else {
            refuted = middle;
        }
    }
    refuted
}

/// The last whole number on the way from `inside` to `end` before `stands` fails.
pub(super) fn bisect_whole(end: u64, inside: u64, stands: impl Fn(u64) -> bool) -> u64 {
    if stands(end) {
        return end;
    }
    let (mut refuted, mut standing) = (end, inside);
    while refuted.abs_diff(standing) > 1 {
        let middle = refuted.midpoint(standing);
        if stands(middle) {
            standing = middle;
        } else {
            refuted = middle;
        }
    }
    standing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(hits: u64, misses: u64) -> Candidates {
        let log_wealth_max = 20f64.ln();
        Candidates { hits, misses, mixture_draws: 12.5, log_wealth_max, is_one_of_many: false }
    }

    /// The bet's stake multiplied draw by draw, the hits first, against an urn of `all`.
    fn wealth_draw_by_draw(bets: &Candidates, urn_hits: u64, all: u64) -> f64 {
        let share = urn_hits as f64 / all as f64;
        let (mut mixture_hits, mut mixture_all) = (bets.mixture_draws * share, bets.mixture_draws);
        let (mut hits, mut rows) = (urn_hits as f64, all as f64);
        let mut wealth = 1.0;
        for draw in 0..bets.hits + bets.misses {
            if draw < bets.hits {
                wealth *= (mixture_hits / mixture_all) / (hits / rows);
                mixture_hits += 1.0;
                hits -= 1.0;
            } else {
                wealth *= (1.0 - mixture_hits / mixture_all) / (1.0 - hits / rows);
            }
            mixture_all += 1.0;
            rows -= 1.0;
        }
        wealth
    }

    #[test]
    fn the_closed_form_is_the_product_over_the_draws() {
        for all in [20, 350, 1_000_000] {
            for (hits, misses) in [(0, 6), (1, 0), (4, 9), (7, 2), (3, 15)] {
                for urn_hits in
                    [hits.max(1), hits + 1, hits + 2, (all - misses) / 2, all - misses - 1]
                {
                    if hits > urn_hits || misses > all - urn_hits || urn_hits == all {
                        continue;
                    }
                    let bets = candidates(hits, misses);
                    let expected = wealth_draw_by_draw(&bets, urn_hits, all).ln();
                    let found = bets.log_wealth_in_urn(urn_hits, all);
                    assert!(
                        (found - expected).abs() < 1e-7 * expected.abs().max(1.0),
                        "{hits} + {misses} of {urn_hits} in {all}: {found}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_ends_found_by_bisection_hold_all_numbers_that_stand_and_no_others() {
        for (all, is_one_of_many) in
            [1, 5, 40, 90].into_iter().flat_map(|all| [(all, false), (all, true)])
        {
            for drawn in 1..=all {
                for hits in 0..=drawn {
                    let bets = Candidates { is_one_of_many, ..candidates(hits, drawn - hits) };
                    let (least, most) = bets.hits_of(all);
                    for urn_hits in hits..=all - (drawn - hits) {
                        assert_eq!(
                            bets.stands_in_urn(urn_hits, all),
                            (least..=most).contains(&urn_hits),
                            "{hits} of {drawn} drawn, {urn_hits} of {all}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_large_urn_is_as_good_as_replacement() {
        for (hits, misses) in [(0, 50), (3, 1_000), (300, 700), (100_000, 0)] {
            let bets = candidates(hits, misses);
            let (low, high) = bets.shares();
            for all in [1u64 << 50, 1 << 62] {
                let (least, most) = bets.hits_of(all);
                assert!((least as f64 / all as f64 - low).abs() < 1e-9);
                assert!((most as f64 / all as f64 - high).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn no_draws_refute_nothing() {
        assert_eq!(candidates(0, 0).shares(), (0.0, 1.0));
        assert_eq!(candidates(0, 0).hits_of(9), (0, 9));
    }
}
