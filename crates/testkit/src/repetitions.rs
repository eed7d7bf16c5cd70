//! How often tests repeat what they do at random.

/// Set to 1, tests that repeat something at random repeat it ten times as often.
pub const LONG_VARIABLE: &str = "DRILLCORE_LONG";

/// How often to repeat what a short run repeats `short` times.
pub fn repetitions(short: u64) -> u64 {
    let is_long = std::env::var(LONG_VARIABLE).is_ok_and(|value| value == "1");
    if is_long { short * 10 } else { short }
}
