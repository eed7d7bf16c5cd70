//! Fairness of the draws. Every statistical test here has a false-alarm rate of 1e-6 per p-value and a twin
//! sampler with a classic mistake that must fail it.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::goodness::{chi_square_p_value, never_drawn_p_value};

const SEED: u64 = 0x5eed_0002;
const FALSE_ALARM: f64 = 1e-6;

fn drawn_one_by_one(population: u64, n: usize, rng: &mut Rng) -> Vec<u64> {
    let mut draws = WithoutReplacement::new(population);
    (0..n).map_while(|_| draws.draw(rng)).collect()
}

/// The p-value of "all of `cells` outcomes equally likely", where `draw` names the outcome of one run.
fn uniformity<K: std::hash::Hash + Eq>(
    cells: usize,
    runs: u64,
    mut draw: impl FnMut() -> K,
) -> f64 {
    let mut tally = HashMap::new();
    for _ in 0..runs {
        *tally.entry(draw()).or_insert(0u64) += 1;
    }
    assert!(tally.len() <= cells, "an outcome that should not exist");
    let mut observed: Vec<u64> = tally.into_values().collect();
    observed.resize(cells, 0);
    chi_square_p_value(&observed, &vec![runs as f64 / cells as f64; cells])
}

/// A shuffle whose partner is any place instead of any place not yet drawn.
fn shuffle_with_any_place(population: u64, rng: &mut Rng) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..population).collect();
    for front in 0..numbers.len() {
        numbers.swap(front, rng.below(population) as usize);
    }
    numbers
}

/// Visits every sequence of offsets that the generator could give for a whole shuffle.
fn for_every_run(draws: &WithoutReplacement, drawn: &mut Vec<u64>, visit: &mut impl FnMut(&[u64])) {
    if draws.remaining() == 0 {
        return visit(drawn);
    }
    for offset in 0..draws.remaining() {
        let mut next = draws.clone();
        drawn.push(next.take(offset));
        for_every_run(&next, drawn, visit);
        drawn.pop();
    }
}

/// No chance involved: the generator gives every sequence of offsets equally often, so it is enough that the
/// sequences and the orders of the population correspond one to one.
#[test]
fn every_order_of_a_small_population_has_exactly_one_run() {
    for population in 1..=7 {
        let mut orders = HashSet::new();
        let mut runs = 0u64;
        let draws = WithoutReplacement::new(population);
        for_every_run(&draws, &mut Vec::new(), &mut |order| {
            runs += 1;
            orders.insert(order.to_vec());
            assert_eq!(HashSet::<&u64>::from_iter(order).len() as u64, population);
        });
        assert_eq!(runs, (1..=population).product::<u64>());
        assert_eq!(orders.len() as u64, runs, "population {population}");
    }
}

/// Null hypothesis: all ordered pairs (first draw, second draw) are equally likely. 60,000 runs for each population
/// up to 6. Twin: the shuffle with any place.
#[test]
fn all_ordered_pairs_are_equally_likely() {
    let runs = 60_000;
    let mut rng = Rng::keyed(SEED, 1);
    for population in 2..=6 {
        let cells = (population * (population - 1)) as usize;
        let p_value = uniformity(cells, runs, || drawn_one_by_one(population, 2, &mut rng));
        assert!(p_value > FALSE_ALARM, "seed {SEED:#x}, population {population}: p = {p_value:e}");
    }
    for population in 3..=6 {
        let cells = (population * (population - 1)) as usize;
        let twin =
            uniformity(cells, runs, || shuffle_with_any_place(population, &mut rng)[..2].to_vec());
        assert!(twin < FALSE_ALARM, "population {population}: p = {twin:e}");
    }
}

/// Null hypothesis: the numbers of a prefix are each of the C(8, k) sets equally often. 50,000 runs for each k.
/// Twin: draws with replacement, sorted and patched to be distinct by moving to the next number.
#[test]
fn every_prefix_is_a_uniform_sample() {
    let runs = 50_000;
    let mut rng = Rng::keyed(SEED, 2);
    let sets = [8, 28, 56, 70, 56, 28, 8];
    for (k, &cells) in (1..).zip(&sets) {
        let p_value = uniformity(cells, runs, || {
            let mut prefix = drawn_one_by_one(8, 8, &mut rng);
            prefix.truncate(k);
            prefix.sort_unstable();
            prefix
        });
        assert!(p_value > FALSE_ALARM, "seed {SEED:#x}, prefix {k}: p = {p_value:e}");
    }
    let twin = uniformity(28, runs, || {
        let first = rng.below(8);
        let mut second = rng.below(8);
        if second == first {
            second = (second + 1) % 8;
        }
        [first.min(second), first.max(second)]
    });
    assert!(twin < FALSE_ALARM, "patched draws passed: p = {twin:e}");
}

/// Null hypothesis: the k-th draw is uniform over a population of 200, for k on both sides of each change of form
/// (in place, hash table, array). 40,000 runs.
/// Twin: the same draws sorted, as a sampler that gathers in storage order would give them.
#[test]
fn the_draws_around_each_change_of_form_are_uniform() {
    let (population, runs) = (200, 40_000);
    let positions = [0, 15, 16, 17, 48, 49, 50, 51, 120, 199];
    let samples = |stream, sorted: bool| {
        let mut rng = Rng::keyed(SEED, stream);
        let mut tallies = vec![vec![0u64; population as usize]; positions.len()];
        for _ in 0..runs {
            let mut order = drawn_one_by_one(population, population as usize, &mut rng);
            if sorted {
                order.sort_unstable();
            }
            for (tally, &position) in tallies.iter_mut().zip(&positions) {
                tally[order[position] as usize] += 1;
            }
        }
        tallies
    };
    let expected = vec![runs as f64 / population as f64; population as usize];
    for (tally, position) in samples(3, false).iter().zip(positions) {
        let p_value = chi_square_p_value(tally, &expected);
        assert!(p_value > FALSE_ALARM, "seed {SEED:#x}, draw {position}: p = {p_value:e}");
    }
    for tally in samples(3, true) {
        assert!(chi_square_p_value(&tally, &expected) < FALSE_ALARM);
    }
}

/// Null hypothesis: a sample of 30 from 1,000 holds the first ordinal, and the last, with chance 0.03.
/// 100,000 runs. Twin: a sampler that can never reach the last ordinal.
#[test]
fn the_first_and_the_last_ordinal_are_drawn_as_often_as_others() {
    let (population, n, runs) = (1_000u64, 30, 100_000u64);
    let p_values = |reach: u64, stream| {
        let mut rng = Rng::keyed(SEED, stream);
        let (mut first, mut last) = (0, 0);
        let mut sample = Vec::new();
        for _ in 0..runs {
            sample.clear();
            WithoutReplacement::new(reach).draw_into(&mut rng, n, &mut sample);
            first += u64::from(sample.contains(&0));
            last += u64::from(sample.contains(&(population - 1)));
        }
        let share = n as f64 / population as f64;
        let expected = [runs as f64 * share, runs as f64 * (1.0 - share)];
        [first, last].map(|hits| chi_square_p_value(&[hits, runs - hits], &expected))
    };
    let [first, last] = p_values(population, 4);
    assert!(first > FALSE_ALARM, "seed {SEED:#x}: p = {first:e}");
    assert!(last > FALSE_ALARM, "seed {SEED:#x}: p = {last:e}");
    let [_, twin] = p_values(population - 1, 4);
    assert!(twin < FALSE_ALARM, "unreachable end passed: p = {twin:e}");
}

/// Null hypothesis: draws with replacement are uniform, and leave as many cells empty as independent draws do.
/// 100,000 draws over 1,000 and over 20,000 cells. Twins: draws that never reach the last tenth, and draws
/// without replacement (perfectly even, yet not independent).
#[test]
fn draws_with_replacement_are_uniform_and_independent() {
    let n = 100_000;
    let tally = |numbers: &[u64], cells: usize| {
        let mut tally = vec![0u64; cells];
        numbers.iter().for_each(|&x| tally[x as usize] += 1);
        tally
    };
    let empty = |tally: &[u64]| tally.iter().filter(|&&hits| hits == 0).count() as u64;
    let mut rng = Rng::keyed(SEED, 5);
    let mut draw = |population| {
        let mut out = Vec::new();
        WithReplacement::new(population).draw_into(&mut rng, n, &mut out);
        out
    };

    let expected = vec![n as f64 / 1_000.0; 1_000];
    let uniform = chi_square_p_value(&tally(&draw(1_000), 1_000), &expected);
    assert!(uniform > FALSE_ALARM, "seed {SEED:#x}: p = {uniform:e}");
    assert!(chi_square_p_value(&tally(&draw(900), 1_000), &expected) < FALSE_ALARM);

    let never = empty(&tally(&draw(20_000), 20_000));
    let independent = never_drawn_p_value(never, 20_000, n as u64);
    assert!(independent > FALSE_ALARM, "seed {SEED:#x}: {never} never drawn, p = {independent:e}");
    let mut evenly = Vec::new();
    for _ in 0..5 {
        WithoutReplacement::new(20_000).draw_into(&mut rng, 20_000, &mut evenly);
    }
    assert!(never_drawn_p_value(empty(&tally(&evenly, 20_000)), 20_000, n as u64) < FALSE_ALARM);
}

#[test]
fn an_exhausted_population_was_drawn_exactly_once_each() {
    for population in [0, 1, 2, 15, 16, 17, 33, 34, 64, 65, 66, 100, 1_000, 5_000] {
        let mut rng = Rng::keyed(SEED, population);
        let mut draws = WithoutReplacement::new(population);
        let mut order: Vec<u64> = std::iter::from_fn(|| draws.draw(&mut rng)).collect();
        assert_eq!((draws.remaining(), draws.draw(&mut rng)), (0, None));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..population), "population {population}");
    }
}

#[test]
fn a_run_does_not_depend_on_how_its_draws_were_split_over_calls() {
    let population = 2_000;
    let mut rng = Rng::keyed(SEED, 6);
    let expected = drawn_one_by_one(population, population as usize, &mut rng);
    for steps in [vec![2_000], vec![1, 15, 1, 5_000], vec![17, 482, 1, 1, 100], vec![7; 300]] {
        let mut rng = Rng::keyed(SEED, 6);
        let mut draws = WithoutReplacement::new(population);
        let mut order = Vec::new();
        for &n in &steps {
            let before = order.len();
            let drawn = draws.draw_into(&mut rng, n, &mut order);
            assert_eq!(drawn, n.min(population as usize - before));
            assert_eq!(order.len(), before + drawn);
        }
        assert_eq!(order, expected[..order.len()], "steps {steps:?}");
        assert_eq!(draws.remaining(), population - order.len() as u64);
    }
}

#[test]
fn the_form_follows_the_share_drawn_and_few_draws_stay_off_the_heap() {
    let mut rng = Rng::keyed(SEED, 7);
    let mut draws = WithoutReplacement::new(10_000);
    let mut out = Vec::new();
    draws.draw_into(&mut rng, 1, &mut out);
    for _ in 1..16 {
        draws.draw(&mut rng);
    }
    assert!(matches!(draws.displaced, Displaced::Few { .. }));
    draws.draw_into(&mut rng, 2_000, &mut out);
    let Displaced::Sparse(table) = &draws.displaced else {
        panic!("a fifth of the population in {:?}", draws.displaced);
    };
    assert!(table.len() <= 2_016 && table.capacity() < 8_192);
    while draws.remaining() >= 7_500 {
        draws.draw(&mut rng);
    }
    assert!(matches!(draws.displaced, Displaced::Dense { .. }));
}

#[test]
fn a_population_of_all_64_bit_numbers_costs_no_more_than_its_draws() {
    let mut rng = Rng::keyed(SEED, 8);
    let mut draws = WithoutReplacement::new(u64::MAX);
    let mut out = Vec::new();
    assert_eq!(draws.draw_into(&mut rng, 1_000, &mut out), 1_000);
    assert_eq!(HashSet::<u64>::from_iter(out).len(), 1_000);
    assert_eq!(draws.remaining(), u64::MAX - 1_000);
}

#[test]
#[should_panic(expected = "nothing to draw from")]
fn drawing_with_replacement_from_nothing_is_a_broken_caller() {
    WithReplacement::new(0);
}
