//! Checks that tell a fair sampler from a biased one, by its draws alone.
//!
//! Each check takes the population and a function that draws one sample of a given size with a given
//! seed, and gives the p-value of its null hypothesis. All hypotheses follow from one claim: a sample
//! without replacement is the beginning of a uniformly random order of the population, with replacement
//! a row of independent uniform draws, and samples with different seeds are independent. A check that fails
//! below [`FALSE_ALARM`] rejects a fair sampler once in a million runs with fresh seeds. Which biases a check sees
//! is shown by twins: [`crate::biased_samplers`].

use std::collections::HashMap;

use drillcore_sample::goodness::never_drawn_p_value;
use statrs::function::gamma::{gamma_ur, ln_gamma};

/// The share of fair samplers that one check rejects.
pub const FALSE_ALARM: f64 = 1e-6;

/// A cell of a chi-square test expects at least this many.
const CELL_MIN: f64 = 5.0;

/// The rows that a sampler should draw from.
pub struct DrawableRows {
    ids: Vec<i64>,
    /// All 1 unless rows are drawn by weight.
    weights: Vec<f64>,
    number_of: HashMap<i64, usize>,
}

/// Draws one sample: of a size, with a seed, as ids in draw order.
pub type Draw<'a> = dyn FnMut(u64, u64) -> Vec<i64> + 'a;

/// What a check found.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What was looked at.
    pub check: &'static str,
    /// The chance that a fair sampler looks at least as odd.
    pub p_value: f64,
    /// What was counted, for the reader of a failure.
    pub found: String,
}

/// How much a check draws.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rows of one sample. At most half the population.
    pub size: u64,
    /// How many samples were drawn.
    pub samples: u64,
    /// Seeds count up from here.
    pub first_seed: u64,
}

impl DrawableRows {
    /// # Panics
    /// If an id comes twice, or none comes.
    pub fn new(ids: Vec<i64>) -> DrawableRows {
        assert!(!ids.is_empty(), "nothing can be drawn");
        let number_of: HashMap<i64, usize> = ids.iter().copied().zip(0..).collect();
        assert_eq!(number_of.len(), ids.len(), "an id comes twice");
        DrawableRows { weights: vec![1.0; ids.len()], ids, number_of }
    }

    /// Rows that are drawn by weight; those without any are left out, as none may be drawn.
    pub fn weighted(ids: &[i64], weight: impl Fn(i64) -> f64) -> DrawableRows {
        let ids: Vec<i64> = ids.iter().copied().filter(|id| weight(*id) > 0.0).collect();
        DrawableRows {
            weights: ids.iter().map(|id| weight(*id)).collect(),
            ..DrawableRows::new(ids)
        }
    }

    /// The rows that may be drawn.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Positions of a sample's rows in `ids`.
    fn numbers(&self, sample: &[i64]) -> Result<Vec<usize>, String> {
        let number = |id: &i64| match self.number_of.get(id) {
            Some(number) => Ok(*number),
            None => Err(format!("row {id} was drawn, which is not selected")),
        };
        sample.iter().map(number).collect()
    }
}

impl Verdict {
    fn new(check: &'static str, p_value: f64, found: String) -> Verdict {
        Verdict { check, p_value, found }
    }

    /// For what a fair sampler never does.
    fn impossible(check: &'static str, found: String) -> Verdict {
        Verdict { check, p_value: 0.0, found }
    }

    /// Whether no check found what chance does not explain.
    pub fn is_fair(&self) -> bool {
        self.p_value >= FALSE_ALARM
    }
}

/// # Panics
/// If a check rejects.
pub fn assert_fair(of: &str, seed: u64, verdicts: impl IntoIterator<Item = Verdict>) {
    for verdict in verdicts {
        let Verdict { check, p_value, found } = &verdict;
        assert!(verdict.is_fair(), "{of}, seeds from {seed}: {check}: p = {p_value:e}; {found}");
    }
}

/// # Panics
/// If the check lets the twin pass.
pub fn assert_biased(twin: &str, seed: u64, verdict: &Verdict) {
    let Verdict { check, p_value, found } = verdict;
    assert!(
        !verdict.is_fair(),
        "{twin}, seeds from {seed}, passed {check}: p = {p_value:e}; {found}"
    );
}

/// Null hypothesis: every row is drawn equally often. Chi-square over rows, or over classes of rows
/// where some were named: each class has its share of the draws, and so has the rest.
///
/// Counts from samples of `k` of `n` rows vary less than those of independent draws, by the factor
/// `(n - k) / (n - 1)`, and the statistic is scaled by its inverse.
pub fn shares(
    population: &DrawableRows,
    classes: Option<&[Vec<i64>]>,
    effort: Effort,
    draw: &mut Draw<'_>,
) -> Verdict {
    let check = "every row is drawn equally often";
    let n = population.len();
    if n == 1 {
        return only_row(check, population, effort, draw);
    }
    let (class_of, sizes) = classes_of_rows(population, classes);
    let mut observed = vec![0u64; sizes.len()];
    for seed in effort.seeds() {
        let numbers = match whole_sample(population, effort.size, seed, draw) {
            Ok(numbers) => numbers,
            Err(found) => return Verdict::impossible(check, found),
        };
        numbers.iter().for_each(|&number| observed[class_of[number]] += 1);
    }
    let draws = (effort.size * effort.samples) as f64;
    let expected: Vec<f64> = sizes.iter().map(|&size| draws * size as f64 / n as f64).collect();
    assert!(expected.iter().all(|&e| e >= CELL_MIN), "too few draws for {check}: {expected:?}");
    let scale = (n - 1) as f64 / (n - effort.size) as f64;
    let p_value = chi_square_p_value(&observed, &expected, scale);
    Verdict::new(check, p_value, summary(&observed, &expected))
}

/// Null hypothesis: as many rows stay undrawn by `n` samples of one row as by `n` independent uniform
/// draws. Sees draws that are too even, or cannot reach some rows.
pub fn never_drawn(population: &DrawableRows, first_seed: u64, draw: &mut Draw<'_>) -> Verdict {
    let check = "as many rows as should stay undrawn";
    let mut hit = vec![false; population.ids.len()];
    for seed in first_seed..first_seed + population.len() {
        match whole_sample(population, 1, seed, draw) {
            Ok(numbers) => hit[numbers[0]] = true,
            Err(found) => return Verdict::impossible(check, found),
        }
    }
    let never = hit.iter().filter(|hit| !**hit).count() as u64;
    let p_value = never_drawn_p_value(never, population.len(), population.len());
    Verdict::new(check, p_value, format!("{never} of {} rows undrawn", population.len()))
}

/// Null hypothesis: two samples with neighbouring seeds are independent, so the number of rows they
/// share is hypergeometric. Chi-square over that number; `effort.samples` is the number of pairs.
pub fn overlaps(population: &DrawableRows, effort: Effort, draw: &mut Draw<'_>) -> Verdict {
    let check = "consecutive samples are independent";
    let (n, k) = (population.len(), effort.size);
    let mut observed = vec![0u64; k as usize + 1];
    for pair in 0..effort.samples {
        let seed = effort.first_seed + 2 * pair;
        let first = whole_sample(population, k, seed, draw);
        let second = whole_sample(population, k, seed + 1, draw);
        let (first, second) = match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(found), _) | (_, Err(found)) => return Verdict::impossible(check, found),
        };
        let shared = first.iter().filter(|number| second.contains(number)).count();
        observed[shared] += 1;
    }
    let pairs = effort.samples as f64;
    let expected: Vec<f64> = (0..=k).map(|i| pairs * hypergeometric(n, k, k, i)).collect();
    let (observed, expected) = pooled(&observed, &expected);
    let p_value = chi_square_p_value(&observed, &expected, 1.0);
    Verdict::new(check, p_value, format!("shared {observed:?}, expected {expected:.1?}"))
}

/// Null hypothesis: draws with replacement are independent, so a sample of `n` rows holds as many
/// different ones as the occupancy problem says. The least of `samples` p-values, times their number.
pub fn distinct(
    population: &DrawableRows,
    samples: u64,
    first_seed: u64,
    draw: &mut Draw<'_>,
) -> Verdict {
    let check = "draws with replacement repeat as often as they should";
    let n = population.len();
    let mut least: (f64, u64) = (1.0, 0);
    for seed in first_seed..first_seed + samples {
        let sample = draw(n, seed);
        let mut numbers = match population.numbers(&sample) {
            Ok(numbers) if numbers.len() as u64 == n => numbers,
            Ok(numbers) => return Verdict::impossible(check, format!("{} rows", numbers.len())),
            Err(found) => return Verdict::impossible(check, found),
        };
        numbers.sort_unstable();
        numbers.dedup();
        let never = n - numbers.len() as u64;
        let p_value = never_drawn_p_value(never, n, n);
        if p_value < least.0 {
            least = (p_value, never);
        }
    }
    let found = format!("{} of {n} rows not in the sample", least.1);
    Verdict::new(check, (least.0 * samples as f64).min(1.0), found)
}

/// Null hypothesis: the row at each position of a sample is uniform, so that every prefix is a sample.
/// Chi-square over up to sixteen equal partitions of the population for each position; the least
/// p-value, times the number of positions.
pub fn positions(population: &DrawableRows, effort: Effort, draw: &mut Draw<'_>) -> Verdict {
    let check = "every position of a sample is uniform";
    let n = population.ids.len();
    if n == 1 {
        return only_row(check, population, effort, draw);
    }
    let partitions = n.min(16);
    let partition_of = |number: usize| number * partitions / n;
    let mut observed = vec![vec![0u64; partitions]; effort.size as usize];
    for seed in effort.seeds() {
        let numbers = match whole_sample(population, effort.size, seed, draw) {
            Ok(numbers) => numbers,
            Err(found) => return Verdict::impossible(check, found),
        };
        for (position, &number) in numbers.iter().enumerate() {
            observed[position][partition_of(number)] += 1;
        }
    }
    let mut expected = vec![0.0; partitions];
    (0..n).for_each(|number| expected[partition_of(number)] += effort.samples as f64 / n as f64);
    assert!(expected.iter().all(|&e| e >= CELL_MIN), "too few draws for {check}");
    let p_values = observed.iter().map(|row| chi_square_p_value(row, &expected, 1.0));
    let (position, least) =
        p_values.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("a sample has positions");
    let found = format!("position {position}: {:?} of {expected:.1?}", observed[position]);
    Verdict::new(check, (least * effort.size as f64).min(1.0), found)
}

/// Null hypothesis: draws with replacement come in proportion to the weights. Chi-square over rows; rows that
/// would hardly be drawn are counted together with their neighbours.
pub fn weighted_shares(population: &DrawableRows, effort: Effort, draw: &mut Draw<'_>) -> Verdict {
    let check = "every row is drawn in proportion to its weight";
    let mut observed = vec![0u64; population.ids.len()];
    for seed in effort.seeds() {
        let sample = draw(effort.size, seed);
        match population.numbers(&sample) {
            Ok(numbers) if numbers.len() as u64 == effort.size => {
                numbers.iter().for_each(|&number| observed[number] += 1);
            }
            Ok(numbers) => return Verdict::impossible(check, format!("{} rows", numbers.len())),
            Err(found) => return Verdict::impossible(check, found),
        }
    }
    let draws = (effort.size * effort.samples) as f64;
    let total: f64 = population.weights.iter().sum();
    let expected: Vec<f64> = population.weights.iter().map(|w| draws * w / total).collect();
    let (observed, expected) = pooled(&observed, &expected);
    let p_value = chi_square_p_value(&observed, &expected, 1.0);
    Verdict::new(check, p_value, summary(&observed, &expected))
}

/// Null hypothesis: draws without replacement are successive draws by weight, so the first row of a sample comes
/// in proportion to its weight, and row `j` comes second with the sum over all other rows `i` of the chances
/// `w_i / W * w_j / (W - w_i)`. Chi-square over rows as for [`weighted_shares`]; twice the lesser p-value.
pub fn first_and_second(population: &DrawableRows, effort: Effort, draw: &mut Draw<'_>) -> Verdict {
    let check = "the first two rows are successive draws by weight";
    let weights = &population.weights;
    let total: f64 = weights.iter().sum();
    let first: Vec<f64> = weights.iter().map(|w| w / total).collect();
    let ahead = |w: f64| w / total / (total - w);
    let all_ahead: f64 = weights.iter().map(|w| ahead(*w)).sum();
    let second: Vec<f64> = weights.iter().map(|w| w * (all_ahead - ahead(*w))).collect();
    let mut observed = [vec![0u64; weights.len()], vec![0u64; weights.len()]];
    for seed in effort.seeds() {
        match whole_sample(population, 2, seed, draw) {
            Ok(numbers) => (0..2).for_each(|position| observed[position][numbers[position]] += 1),
            Err(found) => return Verdict::impossible(check, found),
        }
    }
    let verdicts = [first, second].into_iter().zip(&observed).map(|(chances, observed)| {
        let expected: Vec<f64> = chances.iter().map(|c| c * effort.samples as f64).collect();
        let (observed, expected) = pooled(observed, &expected);
        let p_value = (2.0 * chi_square_p_value(&observed, &expected, 1.0)).min(1.0);
        Verdict::new(check, p_value, summary(&observed, &expected))
    });
    verdicts.min_by(|a, b| a.p_value.total_cmp(&b.p_value)).expect("there are two")
}

/// Null hypothesis: each ordered sample of a small population has its chance: all the same, or by weight that of
/// successive draws. Chi-square over each of them by itself, so nothing about the joint distribution escapes.
pub fn ordered_samples(
    population: &DrawableRows,
    replace: bool,
    effort: Effort,
    draw: &mut Draw<'_>,
) -> Verdict {
    let check = "all ordered samples have their chances";
    let outcomes = ordered_outcomes(&population.weights, effort.size as usize, replace);
    let mut observed: HashMap<&[usize], u64> =
        outcomes.iter().map(|(outcome, _)| (outcome.as_slice(), 0)).collect();
    for seed in effort.seeds() {
        let sample = draw(effort.size, seed);
        let numbers = match population.numbers(&sample) {
            Ok(numbers) => numbers,
            Err(found) => return Verdict::impossible(check, found),
        };
        match observed.get_mut(numbers.as_slice()) {
            Some(count) => *count += 1,
            None => return Verdict::impossible(check, format!("{sample:?} cannot be drawn")),
        }
    }
    if outcomes.len() == 1 {
        return Verdict::new(check, 1.0, String::new());
    }
    let expected: Vec<f64> =
        outcomes.iter().map(|(_, chance)| chance * effort.samples as f64).collect();
    assert!(expected.iter().all(|&e| e >= CELL_MIN), "too few draws for {check}: {expected:?}");
    let counts: Vec<u64> = outcomes.iter().map(|(outcome, _)| observed[&outcome[..]]).collect();
    let found = format!("{counts:?} of {outcomes:?}");
    Verdict::new(check, chi_square_p_value(&counts, &expected, 1.0), found)
}

impl Effort {
    fn seeds(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed + self.samples
    }
}

/// Draws a sample that must hold `size` different rows of the population.
fn whole_sample(
    population: &DrawableRows,
    size: u64,
    seed: u64,
    draw: &mut Draw<'_>,
) -> Result<Vec<usize>, String> {
    let numbers = population.numbers(&draw(size, seed))?;
    if numbers.len() as u64 != size {
        return Err(format!("{} rows were drawn instead of {size}", numbers.len()));
    }
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != numbers.len() {
        return Err(format!("a row was drawn twice: {numbers:?}"));
    }
    Ok(numbers)
}

/// A population of one row leaves no choice.
fn only_row(
    check: &'static str,
    population: &DrawableRows,
    effort: Effort,
    draw: &mut Draw<'_>,
) -> Verdict {
    let wrong = effort.seeds().find_map(|seed| whole_sample(population, 1, seed, draw).err());
    match wrong {
        Some(found) => Verdict::impossible(check, found),
        None => Verdict::new(check, 1.0, String::new()),
    }
}

/// The class of each row, and the sizes of the classes; unnamed rows share the last one.
fn classes_of_rows(
    population: &DrawableRows,
    classes: Option<&[Vec<i64>]>,
) -> (Vec<usize>, Vec<u64>) {
    let n = population.ids.len();
    let Some(classes) = classes else { return ((0..n).collect(), vec![1; n]) };
    let mut class_of = vec![classes.len(); n];
    for (class, ids) in classes.iter().enumerate() {
        ids.iter().for_each(|id| class_of[population.number_of[id]] = class);
    }
    let mut sizes = vec![0; classes.len() + 1];
    class_of.iter().for_each(|&class| sizes[class] += 1);
    (class_of, sizes)
}

/// Upper tail of Pearson's statistic times `scale`.
fn chi_square_p_value(observed: &[u64], expected: &[f64], scale: f64) -> f64 {
    assert_eq!(observed.len(), expected.len(), "cells differ");
    if observed.len() < 2 {
        return 1.0;
    }
    let terms = observed.iter().zip(expected).map(|(&o, &e)| (o as f64 - e).powi(2) / e);
    let statistic = scale * terms.sum::<f64>();
    if statistic == 0.0 {
        return 1.0;
    }
    gamma_ur((observed.len() - 1) as f64 / 2.0, statistic / 2.0)
}

/// Joins neighbouring cells until each expects enough.
fn pooled(observed: &[u64], expected: &[f64]) -> (Vec<u64>, Vec<f64>) {
    let mut cells: Vec<(u64, f64)> = Vec::new();
    let mut open = (0, 0.0);
    for (&o, &e) in observed.iter().zip(expected) {
        open = (open.0 + o, open.1 + e);
        if open.1 >= CELL_MIN {
            cells.push(std::mem::take(&mut open));
        }
    }
    if let Some(last) = cells.last_mut() {
        *last = (last.0 + open.0, last.1 + open.1);
    }
    assert!(cells.len() >= 2, "too few pairs to see anything");
    cells.into_iter().unzip()
}

/// The chance that `drawn` of `n` rows hold `i` of the `marked`.
fn hypergeometric(n: u64, marked: u64, drawn: u64, i: u64) -> f64 {
    if i > marked || i > drawn || drawn - i > n - marked {
        return 0.0;
    }
    let ln_choose = |n: u64, k: u64| {
        let ln_factorial = |x: u64| ln_gamma(x as f64 + 1.0);
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    };
    (ln_choose(marked, i) + ln_choose(n - marked, drawn - i) - ln_choose(n, drawn)).exp()
}

/// Every ordered sample of `k` rows with its chance.
fn ordered_outcomes(weights: &[f64], k: usize, replace: bool) -> Vec<(Vec<usize>, f64)> {
    let mut outcomes = vec![(vec![], 1.0)];
    for _ in 0..k {
        let longer = outcomes.iter().flat_map(|(outcome, chance): &(Vec<usize>, f64)| {
            let is_free = |number: &usize| replace || !outcome.contains(number);
            let free: Vec<usize> = (0..weights.len()).filter(is_free).collect();
            let total: f64 = free.iter().map(|&number| weights[number]).sum();
            let longer = move |number: usize| {
                let outcome = [outcome.as_slice(), &[number]].concat();
                (outcome, chance * weights[number] / total)
            };
            free.into_iter().map(longer)
        });
        outcomes = longer.collect();
    }
    outcomes
}

/// The cells furthest from what they should hold.
fn summary(observed: &[u64], expected: &[f64]) -> String {
    let mut cells: Vec<usize> = (0..observed.len()).collect();
    let odd =
        |cell: &usize| (observed[*cell] as f64 - expected[*cell]).abs() / expected[*cell].sqrt();
    cells.sort_by(|a, b| odd(b).total_cmp(&odd(a)));
    let shown = cells
        .iter()
        .take(5)
        .map(|&cell| format!("cell {cell}: {} of {:.1}", observed[cell], expected[cell]));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypergeometric_chances_sum_to_one_and_match_a_hand_count() {
        let sum: f64 = (0..=5).map(|i| hypergeometric(20, 5, 5, i)).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        // Two of four, twice: one of the six pairs is the same, four share one row.
        assert!((hypergeometric(4, 2, 2, 2) - 1.0 / 6.0).abs() < 1e-12);
        assert!((hypergeometric(4, 2, 2, 1) - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn ordered_outcomes_are_counted_as_they_should() {
        assert_eq!(ordered_outcomes(&[1.0; 5], 2, false).len(), 20);
        assert_eq!(ordered_outcomes(&[1.0; 5], 2, true).len(), 25);
        assert_eq!(ordered_outcomes(&[3.0], 1, false), [(vec![0], 1.0)]);
        let by_weight = ordered_outcomes(&[1.0, 3.0], 2, false);
        assert_eq!(by_weight, [(vec![0, 1], 0.25), (vec![1, 0], 0.75)]);
    }

    #[test]
    fn cells_are_pooled_until_each_expects_enough() {
        let (observed, expected) = pooled(&[1, 2, 3, 4], &[2.0, 4.0, 9.0, 1.0]);
        assert_eq!(observed, [3, 7]);
        assert_eq!(expected, [6.0, 10.0]);
    }
}
