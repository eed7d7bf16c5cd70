//! At which look a sequence is tightest.

/// The number of draws to tune to: past half the population the clock of effective draws races, and a sequence tuned to
/// that time is wide at every earlier look.
pub(super) fn useful_n_opt(n_opt: u64, population: Option<u64>) -> u64 {
    assert!(n_opt > 0, "a sequence cannot be tightest at no draws");
    population.map_or(n_opt, |all| n_opt.min(all.div_ceil(2)))
}

/// The `y` that minimises `(y + 1) / y (ln(y + 1) - ln(alpha^2))`: where the logarithm's factor equals `y`.
///
/// Found by iterating that equation, which contracts by `1 / (1 + y)` a step; the paper gives the same root by
/// Lambert's W. Any `y` gives a valid sequence: stopping early, at a confidence near 0, costs some width at most.
pub(super) fn tightest_y(log_alpha_squared: f64) -> f64 {
    let mut y = 1.0 - log_alpha_squared;
    for _ in 0..200 {
        let next = y.ln_1p() - log_alpha_squared;
        if (next - y).abs() <= 1e-12 * y {
            return next;
        }
        y = next;
    }
    y
}
