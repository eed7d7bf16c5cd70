//! Means at all looks together, where bounds of the numbers are known.
//!
//! Null hypothesis of each simulation: the mean lies in the intervals of *all* looks in at least 95 % of runs. It is rejected if
//! so few runs have a chance below 1e-6 under it, which is the false-alarm rate of each check. Twin: the asymptotic sequence,
//! which must be rejected by the same check.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::means::{bounds_of, delay, lognormal, pareto, population};
use super::*;

/// The chance of each check to reject what is right.
const FALSE_ALARM: f64 = 1e-6;
const RUNS: u64 = 200;
/// The looks of an estimate, and earlier ones: a sequence holds from the first draw on.
const LOOKS: [u64; 8] = [5, 30, 100, 300, 1_000, 1_500, 2_250, 3_375];
const N_OPT: u64 = 10_000;

/// A row of the population: the number that it holds, if it is of the group and not null.
type Row = Option<f64>;

/// Rows of which one in `one_in` is worth 1,000, and others up to 1.
fn rare(one_in: u64) -> impl Fn(&mut Rng) -> f64 {
    move |rng| if rng.below(one_in) == 0 { 1_000.0 } else { rng.unit_f64() }
}

fn rows(numbers: Vec<f64>) -> Vec<Row> {
    numbers.into_iter().map(Some).collect()
}

/// The same with all but one in `one_in` taken away: nulls, rows of other groups, rows that fail a condition.
fn one_row_in(one_in: u64, numbers: Vec<f64>) -> Vec<Row> {
    let mut rng = Rng::keyed(SEED, 0x0dd);
    numbers.into_iter().map(|x| (rng.below(one_in) == 0).then_some(x)).collect()
}

/// How many of the runs hold the mean at all looks: by bounds, and by the asymptotic sequence.
fn runs_held(rows: &[Row], looks: &[u64], runs: u64) -> (u64, u64) {
    let numbers: Vec<f64> = rows.iter().flatten().copied().collect();
    let (bounds, all) = (bounds_of(&numbers), rows.len() as u64);
    let truth = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let (mut bounded_held, mut asymptotic_held) = (0, 0);
    for run in 0..runs {
        let mut rng = Rng::keyed(SEED, run);
        let mut draws = WithoutReplacement::new(all);
        let (mut moments, mut between) = (Moments::new(), BoundedNumbers::new(bounds));
        let mut held = [true; 2];
        for drawn in 1..=looks[looks.len() - 1] {
            let row = draws.draw(&mut rng).expect("fewer are drawn than there are");
            if let Some(x) = rows[row as usize] {
                moments.push(x);
                between.push(x);
            }
            if looks.contains(&drawn) {
                let (design, level) = (without_replacement(all, drawn), confidence(0.95));
                let by_bounds = mean_sequence_bounded(&moments, &between, &design, level, N_OPT);
                assert!(by_bounds.value.is_nan() || by_bounds.contains(by_bounds.value));
                assert!(bounds.low <= by_bounds.low && by_bounds.high <= bounds.high);
                // The mean of equal numbers is off by the rounding of its sum.
                let off = 1e-12 * truth.abs();
                held[0] &= by_bounds.low - off <= truth && truth <= by_bounds.high + off;
                let asymptotic = mean_sequence(&moments, &design, level, N_OPT);
                held[1] &= asymptotic.low - off <= truth && truth <= asymptotic.high + off;
            }
        }
        bounded_held += u64::from(held[0]);
        asymptotic_held += u64::from(held[1]);
    }
    (bounded_held, asymptotic_held)
}

/// Whether so few of the runs would hold with a chance below 1e-6, if each did with 95 %.
fn is_rejected(held: u64, runs: u64) -> bool {
    Binomial::new(0.95, runs).unwrap().cdf(held) < FALSE_ALARM
}

/// Populations of 100,000 rows, and whether the asymptotic sequence fails there.
fn families() -> Vec<(&'static str, Vec<Row>, bool)> {
    let both_tails = |rng: &mut Rng| if rng.below(2) == 0 { 1.0 } else { -1.0 } * pareto(rng);
    vec![
        ("one in 200", rows(population(101, rare(200))), true),
        ("one in 2,000", rows(population(102, rare(2_000))), true),
        ("one in 20,000", rows(population(103, rare(20_000))), true),
        ("one in 2,000, negative", rows(population(104, |rng| -rare(2_000)(rng))), true),
        ("lognormal, sigma 2", rows(population(105, lognormal(2.0))), false),
        ("Pareto 1.5", rows(population(106, pareto)), false),
        ("Pareto 1.5, both tails", rows(population(107, both_tails)), false),
        ("delays", rows(population(108, delay)), false),
        ("uniform", rows(population(109, Rng::unit_f64)), false),
        ("constant", rows(vec![7.0; 100_000]), false),
        ("two values", rows(population(110, |rng| f64::from(u8::from(rng.below(20) == 0)))), false),
        (
            "two values, one rare",
            rows(population(111, |rng| f64::from(u8::from(rng.below(2_000) == 0)))),
            true,
        ),
        (
            "all equal but one",
            rows((0..100_000).map(|i| f64::from(u8::from(i == 77))).collect()),
            true,
        ),
        ("half null", one_row_in(2, population(112, rare(2_000))), true),
        ("a group of a fifth", one_row_in(5, population(113, rare(2_000))), true),
        ("one row in 20 passes", one_row_in(20, population(114, rare(2_000))), true),
    ]
}

#[test]
fn bounds_hold_the_mean_at_all_looks_where_the_asymptotic_sequence_does_not() {
    for (name, rows, twin_fails) in families() {
        let (held, twin) = runs_held(&rows, &LOOKS, RUNS);
        assert!(!is_rejected(held, RUNS), "seed {SEED:#x}, {name}: {held} of {RUNS}");
        println!("{name}: {held} of {RUNS} runs held, {twin} by the asymptotic sequence");
        assert!(!twin_fails || is_rejected(twin, RUNS), "{name}: asymptotic {twin} of {RUNS}");
    }
}

/// The end of a small population, where the numbers left are few.
#[test]
fn bounds_hold_the_mean_until_all_rows_are_drawn() {
    let looks: Vec<u64> = (1..=300).step_by(7).collect();
    let numbers: Vec<f64> = population(120, exponential).into_iter().take(300).collect();
    let (held, _) = runs_held(&rows(numbers), &looks, RUNS);
    assert!(!is_rejected(held, RUNS), "seed {SEED:#x}: {held} of {RUNS}");
}

/// Calls `look` with each order of the rows.
fn for_each_order(rows: &mut Vec<Row>, fixed: usize, look: &mut impl FnMut(&[Row])) {
    if fixed == rows.len() {
        return look(rows);
    }
    for other in fixed..rows.len() {
        rows.swap(fixed, other);
        for_each_order(rows, fixed + 1, look);
        rows.swap(fixed, other);
    }
}

/// By enumeration, no chance involved but in the choice of the populations: of all orders in which up to seven rows can be
/// drawn, the share in which any look misses the mean. Twin: takes the largest number drawn for the bound.
#[test]
fn no_more_orders_of_the_draws_fail_at_any_look_than_the_level_says() {
    let kinds: [fn(&mut Rng) -> Row; 4] = [
        |rng| Some(rng.below(2) as f64),
        |rng| Some(rng.unit_f64().powi(8)),
        |rng| Some(rng.unit_f64()),
        |rng| (rng.below(3) > 0).then(|| rng.below(2) as f64),
    ];
    let (bounds, mut twin_failed) = (Bounds::new(0.0, 1.0).unwrap(), false);
    for run in 0..24 {
        let mut rng = Rng::keyed(SEED, run);
        let mut rows: Vec<Row> =
            (0..5 + run % 3).map(|_| kinds[run as usize % kinds.len()](&mut rng)).collect();
        let numbers: Vec<f64> = rows.iter().flatten().copied().collect();
        let all = rows.len() as u64;
        let truth = numbers.iter().sum::<f64>() / numbers.len() as f64;
        for level in [0.5, 0.8, 0.95] {
            let (mut orders, mut failed, mut twin) = (0u64, 0u64, 0u64);
            for_each_order(&mut rows, 0, &mut |order| {
                let (mut moments, mut between) = (Moments::new(), BoundedNumbers::new(bounds));
                let (mut most_met, mut is_missed, mut twin_missed) = (0.0f64, false, false);
                for (place, row) in order.iter().enumerate().take(order.len() - 1) {
                    if let Some(x) = *row {
                        moments.push(x);
                        between.push(x);
                        most_met = most_met.max(x);
                    }
                    let design = without_replacement(all, place as u64 + 1);
                    let found =
                        mean_sequence_bounded(&moments, &between, &design, confidence(level), 5);
                    let off = 1e-9;
                    is_missed |= !(found.low - off <= truth && truth <= found.high + off);
                    twin_missed |= found.high.min(most_met) + off < truth;
                }
                orders += 1;
                failed += u64::from(is_missed);
                twin += u64::from(twin_missed);
            });
            let limit = (1.0 - level) * orders as f64 + 1e-6;
            assert!(failed as f64 <= limit, "{rows:?} at {level}: {failed} of {orders}");
            twin_failed |= twin as f64 > limit;
        }
    }
    assert!(twin_failed, "to take what was met for all there is passed");
}

/// What the sequence costs, at any number of draws: under 2 times the width of t where numbers are harmless, and where no spread
/// was met no more than a share of 6 / n that may not have been met.
#[test]
fn a_bounded_sequence_is_less_than_twice_as_wide_as_t() {
    let cases: [(&str, Draw, Bounds); 2] = [
        ("uniform", Rng::unit_f64, Bounds::new(0.0, 1.0).unwrap()),
        ("normal", normal, Bounds::new(-9.0, 9.0).unwrap()),
    ];
    for (name, draw, bounds) in cases {
        for n in [1_000, 10_000, 100_000] {
            let (mut moments, mut between) = (Moments::new(), BoundedNumbers::new(bounds));
            let mut rng = Rng::keyed(SEED, n);
            for _ in 0..n {
                let x = draw(&mut rng);
                moments.push(x);
                between.push(x);
            }
            let level = confidence(0.95);
            let found = mean_sequence_bounded(&moments, &between, &unlimited(n), level, N_OPT);
            let t = mean_t(&moments, &unlimited(n), level);
            let wide = (found.high - found.low) / (t.high - t.low);
            assert!((1.5..2.0).contains(&wide), "{name}, {n}: {wide}");
        }
    }
    for n in [10u64, 1_000, 100_000] {
        let (mut moments, mut between) =
            (Moments::new(), BoundedNumbers::new(Bounds::new(0.0, 1.0).unwrap()));
        (0..n).for_each(|_| {
            moments.push(0.0);
            between.push(0.0);
        });
        let level = confidence(0.95);
        let found = mean_sequence_bounded(&moments, &between, &unlimited(n), level, N_OPT);
        let reach = found.high * n as f64;
        assert_eq!(found.low, 0.0);
        assert!((3.0..6.0).contains(&reach), "{n}: {reach}");
    }
}

#[test]
fn without_numbers_the_bounds_are_the_interval_and_equal_ones_are_exact() {
    let bounds = Bounds::new(-2.0, 50.0).unwrap();
    let (mut moments, mut between) = (Moments::new(), BoundedNumbers::new(bounds));
    let level = confidence(0.95);
    let none = mean_sequence_bounded(&moments, &between, &unlimited(5), level, N_OPT);
    assert!(none.value.is_nan());
    assert_eq!((none.low, none.high, none.method), (-2.0, 50.0, Method::BoundedSequence));
    moments.push(1.0);
    between.push(1.0);
    let one = mean_sequence_bounded(&moments, &between, &unlimited(5), level, N_OPT);
    assert!(one.low < -1.9 && one.high > 49.0, "{one:?}");
    // One more row is left, and no more than a half of the mean.
    let almost =
        mean_sequence_bounded(&moments, &between, &without_replacement(2, 1), level, N_OPT);
    assert!(-0.5 <= almost.low && almost.high <= 25.5, "{almost:?}");
    let seven = Bounds::new(7.0, 7.0).unwrap();
    let (mut moments, mut between) = (Moments::new(), BoundedNumbers::new(seven));
    moments.push(7.0);
    between.push(7.0);
    let equal = mean_sequence_bounded(&moments, &between, &unlimited(5), level, N_OPT);
    assert_eq!(equal, Interval::exact(7.0));
}

/// The upper end for what lies in groups not met, of 4,000 groups of very different sizes. Null
/// hypothesis as above, at seven looks. Twin: the estimate of Good and Turing, taken for an upper end.
#[test]
fn the_share_of_groups_not_met_stays_below_its_end_at_all_looks() {
    let sizes: Vec<u64> = (1..=4_000).map(|rank| (20_000 / rank).max(10)).collect();
    let group_of: Vec<usize> =
        sizes.iter().enumerate().flat_map(|(group, &rows)| vec![group; rows as usize]).collect();
    let all = group_of.len() as u64;
    let (mut held, mut twin_held, mut last_ends) = (0, 0, Vec::new());
    for run in 0..RUNS {
        let mut rng = Rng::keyed(SEED, run);
        let mut draws = WithoutReplacement::new(all);
        let mut met = vec![0u64; sizes.len()];
        let mut found = NewGroups::default();
        let (mut is_held, mut twin_is_held) = (true, true);
        for round in [1_000, 500, 750, 1_125, 1_687, 2_531, 3_796] {
            let mut new = 0;
            for _ in 0..round {
                let group = group_of[draws.draw(&mut rng).unwrap() as usize];
                new += u64::from(met[group] == 0);
                met[group] += 1;
            }
            found.push(round, new);
            let unmet = sizes.iter().zip(&met).filter(|(_, met)| **met == 0).map(|(rows, _)| rows);
            let truth = unmet.sum::<u64>() as f64 / all as f64;
            let end = found.unmet_share_max(confidence(0.95));
            let alone = met.iter().filter(|met| **met == 1).count() as f64;
            is_held &= truth <= end;
            twin_is_held &= truth <= alone / met.iter().sum::<u64>() as f64;
            if round == 3_796 {
                last_ends.push(end - truth);
            }
        }
        held += u64::from(is_held);
        twin_held += u64::from(twin_is_held);
    }
    last_ends.sort_by(f64::total_cmp);
    let beyond = last_ends[last_ends.len() / 2];
    println!("groups not met: {held} of {RUNS} held, Good and Turing {twin_held}, {beyond} beyond");
    assert!(!is_rejected(held, RUNS), "seed {SEED:#x}: {held}");
    assert!(is_rejected(twin_held, RUNS), "an estimate passed for an upper end: {twin_held}");
    // It says something after 11,389 draws.
    assert!((0.0..0.08).contains(&beyond), "{beyond}");
}

#[test]
fn groups_not_met_may_hold_everything_before_a_group_came_again() {
    let mut groups = NewGroups::default();
    assert_eq!(groups.unmet_share_max(confidence(0.95)), 1.0);
    groups.push(500, 500);
    assert_eq!(groups.unmet_share_max(confidence(0.95)), 1.0);
    groups.push(10_000, 0);
    let end = groups.unmet_share_max(confidence(0.95));
    assert!((3.0..9.0).contains(&(end * 1e4)), "{end}");
    groups.push(u64::from(u32::MAX), 0);
    assert!(groups.unmet_share_max(confidence(0.95)) < 1e-8);
}

/// How often the intervals hold at all looks, and how wide the last one is in even t intervals: the table of
/// `docs/sampling-evidence.md`.
/// `cargo test --workspace --lib table_of_sequences -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute; cases of it run in the tests above"]
fn the_table_of_sequences_for_means() {
    for (name, rows, _) in families() {
        let runs = 1_000;
        let (held, asymptotic) = runs_held(&rows, &LOOKS, runs);
        let share = |held: u64| 100.0 * held as f64 / runs as f64;
        println!(
            "{name:24}: bounded {:5.1} %, asymptotic {:5.1} %",
            share(held),
            share(asymptotic)
        );
        assert!(!is_rejected(held, runs), "{name}: {held}");
    }
}
