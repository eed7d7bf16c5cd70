//! Goodness of fit: do tallies of draws look like what they should?
//!
//! Each function gives a p-value: the chance, if the null hypothesis holds, of tallies at least as odd as
//! those seen. A test that fails below `p` raises a false alarm in a share `p` of fair runs. These are plain
//! statistics for batteries that check samplers; which sampler and how many draws is left to those.

use statrs::function::erf::erfc;
use statrs::function::gamma::{gamma_lr, gamma_ur};

/// Below this mean, counts of rare events are judged by the Poisson distribution instead of the normal one.
const RARE_MEAN_MAX: f64 = 50.0;

/// Pearson's chi-square test: are the `observed` counts draws from cells in proportion to `expected`?
///
/// Upper tail with one degree of freedom fewer than cells. The approximation wants each cell to expect
/// about five or more.
///
/// # Panics
/// If the slices differ in length or have fewer than two cells, a cell expects nothing, or the sums differ.
pub fn chi_square_p_value(observed: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(observed.len(), expected.len(), "cells differ");
    assert!(observed.len() >= 2, "one cell can only hold everything");
    assert!(expected.iter().all(|&e| e > 0.0), "a cell expects nothing");
    let drawn = observed.iter().map(|&o| o as f64).sum::<f64>();
    let foreseen = expected.iter().sum::<f64>();
    assert!((drawn - foreseen).abs() <= 1e-6 * foreseen, "{drawn} observed, {foreseen} expected");
    let statistic: f64 =
        observed.iter().zip(expected).map(|(&o, &e)| (o as f64 - e).powi(2) / e).sum();
    if statistic == 0.0 {
        return 1.0;
    }
    let freedom = (observed.len() - 1) as f64;
    gamma_ur(freedom / 2.0, statistic / 2.0)
}

/// Two-sided test of the count of cells that `draws` independent uniform draws never hit, of `cells` in all.
///
/// Sees what a chi-square over a large population cannot: few draws a cell, but too even (draws without
/// replacement pass for independent ones) or too clustered (a share of the cells cannot be reached).
///
/// Mean and variance are the exact ones of the classical occupancy problem. The tail is normal where
/// empty cells and repeated hits are both common, else Poisson in the rarer of the two (which is a little wide, so
/// the test then raises fewer false alarms than it says).
///
/// # Panics
/// If `cells` is 0 or `never` exceeds it.
pub fn never_drawn_p_value(never: u64, cells: u64, draws: u64) -> f64 {
    assert!(cells > 0 && never <= cells, "{never} of {cells} cells");
    let certain = if draws == 0 {
        Some(cells)
    } else if cells == 1 {
        Some(0)
    } else {
        None
    };
    if let Some(certain) = certain {
        return if never == certain { 1.0 } else { 0.0 };
    }
    // Each repeated hit leaves one more cell empty than distinct draws would.
    let repeats = i128::from(never) + i128::from(draws) - i128::from(cells);
    if repeats < 0 || never == cells {
        return 0.0;
    }

    let (c, d) = (cells as f64, draws as f64);
    // Chance that one cell stays empty, (1 - 1/c)^d, and how far that of two differs from its square.
    let log_empty = d * (-1.0 / c).ln_1p();
    let mean = c * log_empty.exp();
    let repeats_mean = c * log_empty.exp_m1() + d;
    if mean <= RARE_MEAN_MAX {
        return poisson_two_sided(never as f64, mean);
    }
    if repeats_mean <= RARE_MEAN_MAX {
        return poisson_two_sided(repeats as f64, repeats_mean);
    }
    let log_pair = (-1.0 / c).ln_1p() + d * (-1.0 / ((c - 1.0) * (c - 1.0))).ln_1p();
    let variance = mean + mean * mean * log_pair.exp_m1();
    // The count is whole: half a step of continuity correction.
    let distance = ((never as f64 - mean).abs() - 0.5).max(0.0);
    erfc(distance / (2.0 * variance).sqrt())
}

/// Twice the smaller tail, both including `count` itself.
fn poisson_two_sided(count: f64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return if count == 0.0 { 1.0 } else { 0.0 };
    }
    let at_most = gamma_ur(count + 1.0, mean);
    let at_least = if count == 0.0 { 1.0 } else { gamma_lr(count, mean) };
    (2.0 * at_most.min(at_least)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const SEED: u64 = 0x5eed_0003;

    #[test]
    fn chi_square_matches_the_printed_tables() {
        // Upper 5 % and 0.1 % points for 1, 10 and 100 degrees of freedom.
        for (freedom, point, p_value) in [
            (1, 3.841, 0.05),
            (1, 10.828, 0.001),
            (10, 18.307, 0.05),
            (10, 29.588, 0.001),
            (100, 124.342, 0.05),
        ] {
            // All of the statistic in two cells: (e + a, e - a) gives 2 a^2 / e, with counts large enough to round.
            let cells = freedom + 1;
            let expected = 1e12;
            let apart = (point * expected / 2.0f64).sqrt().round() as u64;
            let mut observed = vec![1_000_000_000_000; cells];
            observed[0] += apart;
            observed[1] -= apart;
            let found = chi_square_p_value(&observed, &vec![expected; cells]);
            assert!((found - p_value).abs() < 1e-3 * p_value, "{freedom} degrees: {found}");
        }
    }

    #[test]
    fn perfect_fit_has_p_value_one_and_gross_misfit_zero() {
        assert_eq!(chi_square_p_value(&[50, 50], &[50.0, 50.0]), 1.0);
        assert!(chi_square_p_value(&[100_000, 0], &[50_000.0, 50_000.0]) < 1e-300);
    }

    /// The share of fair runs that a level of 5 % rejects, over 4,000 runs: the empirical false-alarm rate.
    fn alarms(cells: u64, draws: u64, reach: u64) -> f64 {
        let mut rng = Rng::keyed(SEED, cells ^ (draws << 32));
        let runs = 4_000;
        let mut alarms = 0;
        let mut hit = vec![0u32; cells as usize];
        for run in 1..=runs {
            for _ in 0..draws {
                hit[rng.below(reach) as usize] = run;
            }
            let never = hit.iter().filter(|&&last| last != run).count() as u64;
            alarms += u32::from(never_drawn_p_value(never, cells, draws) < 0.05);
        }
        f64::from(alarms) / f64::from(runs)
    }

    /// Null hypothesis: at most 5 % of fair runs alarm (a run of 4,000 stays within 6.5 % but for 1 in 10,000), in
    /// the normal case, with few empty cells, and with few repeats. In the normal case also not under 3.5 %.
    /// Twin: draws that miss the last tenth of the cells alarm nearly always.
    #[test]
    fn never_drawn_keeps_its_false_alarm_rate() {
        for (cells, draws) in [(1_000, 1_000), (1_000, 4_000), (5_000, 300), (100, 100)] {
            let rate = alarms(cells, draws, cells);
            assert!(rate < 0.065, "seed {SEED:#x}, {cells} cells, {draws} draws: {rate}");
        }
        let normal = alarms(1_000, 1_000, 1_000);
        assert!(normal > 0.035, "seed {SEED:#x}: {normal}");
        assert!(alarms(1_000, 4_000, 900) > 0.99);
        assert!(alarms(5_000, 5_000, 4_500) > 0.99);
    }

    #[test]
    fn impossible_counts_have_p_value_zero() {
        assert_eq!(never_drawn_p_value(10, 10, 0), 1.0);
        assert_eq!(never_drawn_p_value(9, 10, 0), 0.0);
        assert_eq!(never_drawn_p_value(0, 1, 5), 1.0);
        // Three draws cannot hit four of ten cells, nor none.
        assert_eq!(never_drawn_p_value(6, 10, 3), 0.0);
        assert_eq!(never_drawn_p_value(10, 10, 3), 0.0);
    }

    #[test]
    fn a_huge_population_expects_no_repeats() {
        let cells = 1 << 40;
        assert!(never_drawn_p_value(cells - 1_000, cells, 1_000) > 0.9);
        assert!(never_drawn_p_value(cells - 900, cells, 1_000) < 1e-100);
    }

    #[test]
    #[should_panic(expected = "a cell expects nothing")]
    fn a_cell_that_expects_nothing_is_refused() {
        chi_square_p_value(&[1, 0], &[1.0, 0.0]);
    }
}
