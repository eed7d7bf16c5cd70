//! Random operations against the reference model. A failure prints its seed and all operations.

use std::time::{Duration, Instant};

use drillcore_testkit::random_ops::RandomOps;

/// Operations of one run.
const STEPS: usize = 120;

/// Runs seeds of one residue for a while, at least two.
fn run_seeds(residue: u64) {
    let long = std::env::var_os("DRILLCORE_LONG").is_some();
    let limit = Duration::from_secs(if long { 600 } else { 12 });
    let started = Instant::now();
    let mut runs = 0;
    while runs < 2 || started.elapsed() < limit {
        let folder = tempfile::tempdir().unwrap();
        RandomOps::new(folder.path().join("db"), residue + 2 * runs).run(STEPS);
        runs += 1;
    }
    println!("{runs} runs of {STEPS} operations, seeds from {residue} in steps of 2");
}

#[test]
fn every_read_agrees_with_the_model_after_random_operations_even_seeds() {
    run_seeds(0);
}

#[test]
fn every_read_agrees_with_the_model_after_random_operations_odd_seeds() {
    run_seeds(1);
}
