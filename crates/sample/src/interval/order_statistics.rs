//! Intervals for quantiles: between two of the numbers drawn, whose ranks are chosen before any is looked at.
//!
//! Let `X` be the population's number of rank `j`. The `a`-th smallest number drawn lies above `X` only if fewer than `a` draws are
//! among the `j` smallest of the population. How many are is hypergeometric, whatever the numbers: continuous, with ties, or with
//! a few values only. So the ranks hold with a chance that is known, at any number of draws; where they would lie beyond the
//! smallest or the largest number drawn, there is no end on that side but a bound of the numbers. (David and Nagaraja 2003,
//! section 7.1.)
//!
//! At all looks together, the ranks come from the sequence of a share: of the rows among the `j` smallest. (Howard and Ramdas
//! 2022 give one for all quantiles at once, which is wider.)
//!
//! A quantile lies between two neighbours, as in SQL's `percentile_cont`: its `j` is the rank of the lower one, and the upper
//! one's is one more.

use crate::interval::beta_binomial::Candidates;
use crate::interval::bounded::Bounds;
use crate::interval::confidence::Confidence;
use crate::interval::design::{Design, ENDLESS_POPULATION};
use crate::interval::error_bars::{Interval, Method};
use crate::interval::hypergeometric::Urn;
use crate::interval::share::share_exact;
use crate::interval::tuning::{tightest_y, useful_n_opt};

/// The share of the error probability that goes to how many numbers there may be.
const SIZE_ALPHA: f64 = 0.1;
/// Chances below this share of the largest add nothing.
const CHANCE_MIN: f64 = 1e-18;

/// Ranks of two of the numbers drawn, from 1; `None` where none is low or high enough.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranks {
    low: Option<u64>,
    high: Option<u64>,
}

/// The quantile of numbers in order: between neighbours in proportion, as `percentile_cont`. NaN without numbers.
pub fn quantile_of(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    // Neighbours may be infinite alike.
    if below == above { below } else { below + (above - below) * (place - place.floor()) }
}

/// [`quantile_of`] numbers in any order, which it changes. Takes time in proportion to their count.
pub fn quantile_of_unsorted(numbers: &mut [f64], share: f64) -> f64 {
    if numbers.is_empty() {
        return f64::NAN;
    }
    let place = share * (numbers.len() - 1) as f64;
    let (_, below, rest) = numbers.select_nth_unstable_by(place.floor() as usize, f64::total_cmp);
    let below = *below;
    let above = rest.iter().copied().min_by(f64::total_cmp).unwrap_or(below);
    quantile_of(&[below, above], place - place.floor())
}

/// [`quantile_of`] numbers that are repeated: each as often as its entry in `times` says.
pub fn quantile_of_repeated(numbers: &[f64], times: &[u64], share: f64) -> f64 {
    let mut order: Vec<usize> = (0..numbers.len()).filter(|&at| times[at] > 0).collect();
    order.sort_unstable_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let all: u64 = times.iter().sum();
    if all == 0 {
        return f64::NAN;
    }
    let place = share * (all - 1) as f64;
    let mut end = 0;
    let ends: Vec<u64> = order
        .iter()
        .map(|&at| {
            end += times[at];
            end
        })
        .collect();
    let number = |place: f64| {
        let at = ends.partition_point(|&end| end as f64 <= place);
        numbers[order[at.min(order.len() - 1)]]
    };
    quantile_of(&[number(place.floor()), number(place.ceil())], place - place.floor())
}

/// The quantile of the numbers of a group, for a number of draws fixed beforehand: exact. `sorted` are the numbers met among the
/// draws, in order. With `is_every` each row of the population has a number. Else how many there are is not known, and the ranks hold
/// for any number in an interval that fails with a tenth of `alpha` at most; of a group that is `one_of_many`, whose intervals
/// hold together given which rows are of which, for any number that there may be.
///
/// # Panics
/// If `design` draws more rows than there are, or fewer than there are numbers, or if `share` lies outside of 0 to 1.
pub fn quantile_ranked(
    sorted: &[f64],
    share: f64,
    bounds: Option<Bounds>,
    is_every: bool,
    is_one_of_many: bool,
    design: &Design,
    confidence: Confidence,
) -> Interval {
    let count = check(sorted, share, design);
    if design.is_exhausted() {
        return Interval::exact(quantile_of(sorted, share));
    }
    let ranks = if count == 0 {
        Ranks { low: None, high: None }
    } else if is_every {
        let all = design.population.unwrap_or(ENDLESS_POPULATION);
        fixed_ranks(count, rank(all, share), all, confidence.alpha())
    } else if is_one_of_many {
        ranks_of(count, (count, largest(count, design)), share, confidence)
    } else {
        let of_size = share_exact(count, design, confidence.spending(SIZE_ALPHA));
        let rows = design.population.unwrap_or(ENDLESS_POPULATION) as f64;
        let size =
            |of_rows: f64| ((of_rows * rows).round() as u64).clamp(count, largest(count, design));
        let sizes = (size(of_size.low), size(of_size.high));
        ranks_of(count, sizes, share, confidence.spending(1.0 - SIZE_ALPHA))
    };
    between(sorted, share, ranks, bounds, Method::OrderStatistics)
}

/// The most numbers that a group has of which `count` were drawn: none of the rows drawn besides has another one.
fn largest(count: u64, design: &Design) -> u64 {
    design.population.unwrap_or(ENDLESS_POPULATION) - (design.drawn - count)
}

/// Ranks for a population of which the smallest and the largest size is known. Of a smaller one, fewer draws are as far off.
fn ranks_of(count: u64, (fewest, all): (u64, u64), share: f64, confidence: Confidence) -> Ranks {
    let (least, most) = rank_between(all, fewest, share);
    let ranks = |rank: u64| fixed_ranks(count, rank, all, confidence.alpha());
    Ranks { low: ranks(least).low, high: ranks(most).high }
}

/// Where the rank of a quantile lies among `all` numbers, if it is known as a share only: there are `fewest` numbers or more.
fn rank_between(all: u64, fewest: u64, share: f64) -> (u64, u64) {
    let off = 1.0 / fewest.max(1) as f64;
    let of_share = |share: f64| (share * all as f64) as u64;
    let least = of_share(share - share * off).max(1);
    (least, of_share(share + (1.0 - share) * off).min(all - 1) + 1)
}

/// The same, valid at all looks together, from the first draw on: exact.
///
/// # Panics
/// As [`quantile_ranked`], or if `n_opt` is 0.
pub fn quantile_sequence(
    sorted: &[f64],
    share: f64,
    bounds: Option<Bounds>,
    is_every: bool,
    design: &Design,
    confidence: Confidence,
    n_opt: u64,
) -> Interval {
    let count = check(sorted, share, design);
    if design.is_exhausted() {
        return Interval::exact(quantile_of(sorted, share));
    }
    // A smaller population refutes more, so the largest there may be is taken.
    let all = largest(count, design);
    let (least, most) = match is_every {
        true => (rank(all, share), rank(all, share)),
        false => rank_between(all, count, share),
    };
    let log_alpha = confidence.alpha().ln();
    let n_opt = useful_n_opt(n_opt, Some(all));
    let stands = |hits: u64, urn_hits: u64| {
        let is_possible = hits <= urn_hits && count - hits <= all - urn_hits;
        let candidates = Candidates {
            hits,
            misses: count - hits,
            mixture_draws: n_opt as f64 / tightest_y(2.0 * log_alpha),
            log_wealth_max: -log_alpha,
            is_one_of_many: false,
        };
        is_possible && candidates.stands_in_urn(urn_hits, all)
    };
    // Fewer hits than this are refuted, and more than this.
    let expected = |urn_hits: u64| {
        let hits = count as f64 * (urn_hits as f64 / all as f64);
        (hits.round() as u64).clamp((count + urn_hits).saturating_sub(all), count.min(urn_hits))
    };
    let fewest = first_standing(expected(least), |hits| stands(hits, least), true, count);
    let most_hits = first_standing(expected(most), |hits| stands(hits, most), false, count);
    let ranks = Ranks {
        // The true number of hits is `fewest` at least.
        low: (fewest >= 1).then_some(fewest),
        high: (most_hits < count).then_some(most_hits + 1),
    };
    between(sorted, share, ranks, bounds, Method::ConfidenceSequence)
}

/// The outermost number of hits that stands, downwards or upwards from one that does.
fn first_standing(
    inside: u64,
    stands: impl Fn(u64) -> bool,
    is_downwards: bool,
    count: u64,
) -> u64 {
    let end = if is_downwards { 0 } else { count };
    if stands(end) {
        return end;
    }
    let (mut standing, mut refuted) = (inside, end);
    while standing.abs_diff(refuted) > 1 {
        let middle = standing.midpoint(refuted);
        if stands(middle) {
            standing = middle;
        } else {
            refuted = middle;
        }
    }
    standing
}

/// The rank, from 1, of the lower neighbour of a quantile among all numbers.
fn rank(all: u64, share: f64) -> u64 {
    (share * (all - 1) as f64).floor() as u64 + 1
}

/// Ranks of the numbers drawn, `count` of `all`, around the number of rank `urn_hits`; together they fail with a chance of
/// `alpha` at most.
fn fixed_ranks(count: u64, urn_hits: u64, all: u64, alpha: f64) -> Ranks {
    let (first, chances) = chances(count, urn_hits, all);
    // The lower end fails with fewer than `low` hits, the upper one with `high` hits or more.
    let (mut low, mut below) = (0, 0.0);
    while low < chances.len() && below + chances[low] <= alpha / 2.0 {
        below += chances[low];
        low += 1;
    }
    let (mut high, mut above) = (chances.len(), 0.0);
    while high > low && above + chances[high - 1] <= alpha / 2.0 {
        high -= 1;
        above += chances[high];
    }
    // What both leave of the chance may be enough for one more step of one of them.
    let rest = alpha - below - above;
    let has_both_ends = first + low as u64 >= 1 && first + high as u64 <= count;
    if has_both_ends && low < high && chances[low] <= rest {
        low += 1;
    } else if has_both_ends && low < high && chances[high - 1] <= rest {
        high -= 1;
    }
    let (low, high) = (first + low as u64, first + high as u64);
    Ranks { low: (low >= 1).then_some(low), high: (high <= count).then_some(high) }
}

/// The chances of numbers of hits among `count` draws from an urn of `all`, from the first number that matters on.
fn chances(count: u64, urn_hits: u64, all: u64) -> (u64, Vec<f64>) {
    let fewest = (count + urn_hits).saturating_sub(all);
    let most = count.min(urn_hits);
    let likeliest = (count as f64 + 1.0) * ((urn_hits as f64 + 1.0) / (all as f64 + 2.0));
    let likeliest = (likeliest as u64).clamp(fewest, most);
    let urn_misses = (all - urn_hits) as f64;
    let urn = Urn { hits: likeliest, misses: count - likeliest, all };
    let peak = urn.ln_chance(urn_hits as f64, urn_misses).exp();
    let (hits, count) = (urn_hits as f64, count as f64);
    // From the chance of `k` hits to that of `k + 1`.
    let step = |k: f64| (hits - k) * (count - k) / ((k + 1.0) * (urn_misses - (count - k) + 1.0));
    let (mut downwards, mut chance) = (Vec::new(), peak);
    for k in (fewest..likeliest).rev() {
        chance /= step(k as f64);
        if chance < CHANCE_MIN * peak {
            break;
        }
        downwards.push(chance);
    }
    let first = likeliest - downwards.len() as u64;
    let mut chances: Vec<f64> = downwards.into_iter().rev().collect();
    chances.push(peak);
    chance = peak;
    for k in likeliest..most {
        chance *= step(k as f64);
        if chance < CHANCE_MIN * peak {
            break;
        }
        chances.push(chance);
    }
    let sum: f64 = chances.iter().sum();
    chances.iter_mut().for_each(|chance| *chance /= sum);
    (first, chances)
}

fn between(
    sorted: &[f64],
    share: f64,
    ranks: Ranks,
    bounds: Option<Bounds>,
    method: Method,
) -> Interval {
    let value = quantile_of(sorted, share);
    let at = |rank: u64| sorted[rank as usize - 1];
    let least = bounds.map_or(f64::NEG_INFINITY, |bounds| bounds.low);
    let most = bounds.map_or(f64::INFINITY, |bounds| bounds.high);
    let (low, high) = (ranks.low.map_or(least, at), ranks.high.map_or(most, at));
    // The estimate need not be between the ranks of few draws.
    Interval { value, low: low.min(value), high: high.max(value), method }
}

fn check(sorted: &[f64], share: f64, design: &Design) -> u64 {
    assert!((0.0..=1.0).contains(&share), "{share} is no share");
    let count = sorted.len() as u64;
    design.check(count);
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::WithoutReplacement;
    use crate::rng::Rng;

    #[test]
    fn a_quantile_of_repeated_numbers_is_that_of_all_of_them() {
        let mut rng = Rng::keyed(7, 0);
        for _ in 0..500 {
            let len = 1 + rng.below(8) as usize;
            let numbers: Vec<f64> = (0..len).map(|_| rng.below(5) as f64).collect();
            let times: Vec<u64> = (0..len).map(|_| rng.below(4)).collect();
            let repeat = |at: usize| std::iter::repeat_n(numbers[at], times[at] as usize);
            let mut all: Vec<f64> = (0..len).flat_map(repeat).collect();
            all.sort_unstable_by(f64::total_cmp);
            for share in [0.0, 0.1, 0.25, 0.5, 0.9, 1.0] {
                let found = quantile_of_repeated(&numbers, &times, share);
                let expected = quantile_of(&all, share);
                assert!(found == expected || found.is_nan() && expected.is_nan(), "{numbers:?}");
            }
        }
    }

    /// By enumeration of all samples, no chance involved: with ties and without. Twin: the ranks of a level three times as large.
    #[test]
    fn no_more_samples_fail_than_the_level_says() {
        let mut twin_failed = 0;
        for (kind, size) in [(0u64, 9u32), (1, 9), (2, 7)] {
            let numbers: Vec<f64> =
                (0..size).map(|i| [f64::from(i), f64::from(i / 3), 1.0][kind as usize]).collect();
            for share in [0.0, 0.1, 0.25, 0.5, 0.9, 1.0] {
                let truth = quantile_of(&numbers, share);
                for drawn in 1..size {
                    for level in [0.5, 0.8, 0.95] {
                        let failing = |level: f64| {
                            let confidence = Confidence::new(level).unwrap();
                            let design =
                                Design { population: Some(size.into()), drawn: drawn.into() };
                            let samples = (0u32..1 << size).filter(|s| s.count_ones() == drawn);
                            let (mut all, mut failed) = (0.0, 0.0);
                            for sample in samples {
                                let members = (0..size).filter(|i| sample >> i & 1 == 1);
                                let sorted: Vec<f64> =
                                    members.map(|i| numbers[i as usize]).collect();
                                let interval = quantile_ranked(
                                    &sorted, share, None, true, false, &design, confidence,
                                );
                                all += 1.0;
                                failed += f64::from(u8::from(!interval.contains(truth)));
                            }
                            failed / all
                        };
                        let found = failing(level);
                        assert!(found <= 1.0 - level + 1e-12, "{share} of {numbers:?}: {found}");
                        let wrong = 1.0 - 3.0 * (1.0 - level);
                        if wrong > 0.0 {
                            twin_failed += u32::from(failing(wrong) > 1.0 - level + 1e-12);
                        }
                    }
                }
            }
        }
        assert!(twin_failed > 0, "a level three times as large passed");
    }

    /// By enumeration of all samples of a population, of which the rows of a group are few or many, and not known. Twin: as if the
    /// group had as many rows as its share of the draws says.
    #[test]
    fn quantiles_of_a_group_of_unknown_size_fail_no_more_often_than_the_level_says() {
        let all = 10u32;
        let mut twin_failed = 0;
        for of_group in 1..=all {
            let numbers: Vec<f64> = (0..of_group).map(f64::from).collect();
            for share in [0.0, 0.25, 0.5, 0.9, 1.0] {
                let truth = quantile_of(&numbers, share);
                for (drawn, level) in (1..all).flat_map(|n| [(n, 0.5), (n, 0.8), (n, 0.95)]) {
                    let confidence = Confidence::new(level).unwrap();
                    let design = Design { population: Some(all.into()), drawn: drawn.into() };
                    let samples = (0u32..1 << all).filter(|s| s.count_ones() == drawn);
                    let (mut samples_all, mut failed, mut twin) = (0u32, [0u32; 2], 0u32);
                    for sample in samples {
                        let met = (0..of_group).filter(|i| sample >> i & 1 == 1);
                        let sorted: Vec<f64> = met.map(|i| numbers[i as usize]).collect();
                        samples_all += 1;
                        for (is_one_of_many, failed) in [false, true].into_iter().zip(&mut failed) {
                            let interval = quantile_ranked(
                                &sorted,
                                share,
                                None,
                                false,
                                is_one_of_many,
                                &design,
                                confidence,
                            );
                            *failed += u32::from(!interval.contains(truth));
                        }
                        let count = sorted.len() as u64;
                        if count > 0 {
                            let size = (count * u64::from(all)).div_ceil(drawn.into()).max(count);
                            let ranks =
                                fixed_ranks(count, rank(size, share), size, confidence.alpha());
                            let interval =
                                between(&sorted, share, ranks, None, Method::OrderStatistics);
                            twin += u32::from(!interval.contains(truth));
                        }
                    }
                    let most = (1.0 - level) * f64::from(samples_all) + 1e-9;
                    for failed in failed {
                        assert!(
                            f64::from(failed) <= most,
                            "{share} of {of_group} among {all}, {drawn} drawn, at {level}: {failed} of {samples_all}"
                        );
                    }
                    twin_failed += u32::from(f64::from(twin) > most);
                }
            }
        }
        assert!(twin_failed > 0, "a group as large as it seems passed");
    }

    #[test]
    fn ranks_are_those_of_the_binomial_distribution_where_the_population_is_endless() {
        // Of the median of 20 numbers at 95 %, the ranks 6 and 15 are printed in many tables.
        let ranks = fixed_ranks(20, ENDLESS_POPULATION / 2, ENDLESS_POPULATION, 0.05);
        assert_eq!(ranks, Ranks { low: Some(6), high: Some(15) });
        // Of five numbers none is sure enough.
        let ranks = fixed_ranks(5, ENDLESS_POPULATION / 2, ENDLESS_POPULATION, 0.05);
        assert_eq!(ranks, Ranks { low: None, high: None });
    }

    #[test]
    fn a_quantile_needs_no_order() {
        let mut rng = Rng::keyed(0x5eed_0024, 0);
        for count in [1, 2, 3, 10, 101] {
            let mut numbers: Vec<f64> = (0..count).map(|_| rng.below(50) as f64).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            for share in [0.0, 0.05, 0.25, 0.5, 0.99, 1.0] {
                let found = quantile_of_unsorted(&mut numbers, share);
                assert!((found - quantile_of(&sorted, share)).abs() < 1e-9, "{count}, {share}");
            }
        }
    }

    #[test]
    fn where_no_number_is_far_enough_out_the_bounds_are_the_ends() {
        let sorted: Vec<f64> = (0..50).map(f64::from).collect();
        let design = Design { population: Some(1_000_000), drawn: 50 };
        let confidence = Confidence::new(0.95).unwrap();
        let of = |bounds| quantile_ranked(&sorted, 0.99, bounds, true, false, &design, confidence);
        assert_eq!(of(None).high, f64::INFINITY);
        assert_eq!(of(Bounds::new(-5.0, 70.0)).high, 70.0);
        assert!(of(None).low > 40.0);
        let nothing = Design { drawn: 0, ..design };
        let empty = quantile_ranked(&[], 0.5, None, false, false, &nothing, confidence);
        assert!(empty.value.is_nan() && empty.low == f64::NEG_INFINITY);
    }

    /// Null hypothesis: at all looks together the sequence holds the quantile in at least 95 % of runs, of 400 (a chance below
    /// 1e-6 if fewer than 357 do). Twin: the fixed ranks at each look.
    #[test]
    fn a_sequence_for_a_quantile_holds_at_all_looks_where_fixed_ranks_do_not() {
        let confidence = Confidence::new(0.95).unwrap();
        let (all, runs) = (5_000u64, 400);
        for (share, is_every) in [(0.5, true), (0.5, false), (0.95, true), (0.02, false)] {
            // Without `is_every` a third of the rows have no number.
            let number = |row: u64| {
                (is_every || !row.is_multiple_of(3)).then_some((row * 7_919 % all / 7) as f64)
            };
            let mut sorted: Vec<f64> = (0..all).filter_map(number).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let truth = quantile_of(&sorted, share);
            let (mut held, mut twin_held) = (0, 0);
            for run in 0..runs {
                let mut rng = Rng::keyed(0x5eed_0022, run);
                let mut order = Vec::new();
                WithoutReplacement::new(all).draw_into(&mut rng, 4_900, &mut order);
                let (mut holds, mut twin_holds) = (true, true);
                for look in 1..=30 {
                    let drawn = (20.0 * 1.2f64.powi(look)) as usize;
                    let mut met: Vec<f64> =
                        order[..drawn].iter().filter_map(|&row| number(row)).collect();
                    met.sort_unstable_by(f64::total_cmp);
                    let design = Design { population: Some(all), drawn: drawn as u64 };
                    holds &=
                        quantile_sequence(&met, share, None, is_every, &design, confidence, 1_000)
                            .contains(truth);
                    let fixed = |confidence| {
                        quantile_ranked(&met, share, None, is_every, false, &design, confidence)
                    };
                    twin_holds &= fixed(confidence).contains(truth);
                }
                held += u32::from(holds);
                twin_held += u32::from(twin_holds);
            }
            assert!(held >= 357, "{share}, {is_every}: {held} of {runs}");
            assert!(twin_held < 357, "fixed ranks passed at {share}: {twin_held}");
        }
    }
}
