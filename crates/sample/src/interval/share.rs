//! Intervals for shares of a population.

use crate::interval::beta_binomial::Candidates;
use crate::interval::confidence::Confidence;
use crate::interval::design::{Design, ENDLESS_POPULATION};
use crate::interval::error_bars::{Interval, Method};
use crate::interval::hypergeometric::Urn;
use crate::interval::tuning::{tightest_y, useful_n_opt};

/// The share of the population with a property that `hits` of the draws have, for a number of draws fixed beforehand. Exact:
/// the test of Clopper and Pearson (1934) for draws without replacement.
///
/// It holds any share, however rare the property and whatever the number of draws, with at least the chance of its level. Wilson's
/// score interval (1927), which is a few percent narrower, holds a share that one hit in expectation stands for in 85 % of
/// samples at 95 %, and in 88 % at 99 %. Never outside `[0, 1]`, nor outside what the rows already drawn allow in a finite
/// population; always holds `hits / drawn`. Without draws, all of `[0, 1]` around a NaN.
///
/// Some terms of the hypergeometric distribution for each of some 80 steps of a bisection.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`.
pub fn share_exact(hits: u64, design: &Design, confidence: Confidence) -> Interval {
    share_not_refuted(hits, design, |_| confidence.alpha())
}

/// The share of the population with a property, valid at all looks together: the shares against which no
/// beta-binomial mixture has won (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021).
///
/// Unlike [`mean_sequence`](crate::interval::mean_sequence) it is exact, not asymptotic: valid from the first draw, for rare properties, and until a
/// finite population is exhausted. About as wide as the asymptotic sequence where that may be used, and tightest at
/// about `n_opt` draws; half of a finite population is the most that `n_opt` counts for. Never outside `[0, 1]`,
/// always holds `hits / drawn`. Some hundred evaluations of the gamma function.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`, or if `n_opt` is 0.
pub fn share_sequence(hits: u64, design: &Design, confidence: Confidence, n_opt: u64) -> Interval {
    sequence_of_share(hits, design, confidence, n_opt, false)
}

/// The share of one of many groups, the intervals of all of them valid together, at all looks: as [`share_sequence`],
/// but a candidate share is refuted with a chance of `alpha` times itself, see [`group_share`].
///
/// # Panics
/// As [`share_sequence`].
pub fn group_share_sequence(
    hits: u64,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    sequence_of_share(hits, design, confidence, n_opt, true)
}

/// The share of one of many groups, of which those met are looked at; the intervals of all of them hold together.
/// For a number of draws fixed beforehand; exact.
///
/// To divide `alpha` by the number of groups met would not do: a group is looked at *because* it was met, so the share of
/// a rare one is overestimated whenever it is. Instead each candidate share `p` is tested at the level `alpha p`. The true
/// share of a group, met or not, is then refuted with a chance of at most `alpha` times that share; and the shares of
/// all groups add up to 1 at most, so any is refuted with a chance of at most `alpha`. Of `k` groups of equal size this is
/// Bonferroni's division by `k`, without knowing `k`. One hit refutes no small share at all.
///
/// The test is that of [`share_exact`], which says what it costs. Without draws, all of `[0, 1]` around a NaN.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than `hits`.
pub fn group_share(hits: u64, design: &Design, confidence: Confidence) -> Interval {
    share_not_refuted(hits, design, |share| confidence.alpha() * share)
}

/// The shares that the draws do not refute at a level, which may depend on the share.
fn share_not_refuted(hits: u64, design: &Design, level: impl Fn(f64) -> f64) -> Interval {
    design.check(hits);
    let value = hits as f64 / design.drawn as f64;
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    if design.drawn == 0 {
        return share_between(0.0, 1.0, value, Method::Hypergeometric);
    }
    let all = design.population.unwrap_or(ENDLESS_POPULATION);
    let urn = Urn { hits, misses: design.drawn - hits, all };
    let (least, most) = urn.hits_not_refuted(level);
    share_between(
        least as f64 / all as f64,
        most as f64 / all as f64,
        value,
        Method::Hypergeometric,
    )
}

fn sequence_of_share(
    hits: u64,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
    is_one_of_many: bool,
) -> Interval {
    design.check(hits);
    let value = hits as f64 / design.drawn as f64;
    if design.is_exhausted() {
        return Interval::exact(value);
    }
    let log_alpha = confidence.alpha().ln();
    let n_opt = useful_n_opt(n_opt, design.population);
    let candidates = Candidates {
        hits,
        misses: design.drawn - hits,
        // Against a normal mixture worth r draws, n draws have y = n / r.
        mixture_draws: n_opt as f64 / tightest_y(2.0 * log_alpha),
        log_wealth_max: -log_alpha,
        is_one_of_many,
    };
    let (low, high) = match design.population {
        None => candidates.shares(),
        Some(all) => {
            let (least, most) = candidates.hits_of(all);
            (least as f64 / all as f64, most as f64 / all as f64)
        }
    };
    share_between(low, high, value, Method::ConfidenceSequence)
}

/// The interval with these ends; rounding may not push them past 0, 1 or the estimate.
fn share_between(low: f64, high: f64, value: f64, method: Method) -> Interval {
    // The minimum of a number and NaN, which is the estimate without draws, is the number.
    let low = if value == 0.0 { 0.0 } else { low.max(0.0) };
    let high = if value == 1.0 { 1.0 } else { high.min(1.0) };
    Interval { value, low: low.min(value), high: high.max(value), method }
}
