//! Values of megabytes: whatever collects rows stops by their bytes, not by their number alone.
//!
//! The bounds are small in this process, so that strings of some hundred bytes are as long for it as values of
//! megabytes are for others: random operations take every path on which rows are collected. What would build an
//! array of strings beyond the bound fails.

use drillcore_format::byte_bounds;
use drillcore_testkit::random_ops::RandomOps;
use drillcore_testkit::repetitions::repetitions;

/// Operations of one run.
const STEPS: usize = 120;

/// Instead of 2 GiB, 16 MiB, 4 MiB and 16 KiB. A commit is a quarter of the least memory, 256 KiB, at most.
const ARRAY_BYTES: usize = 512 << 10;
const BATCH_BYTES: usize = 8 << 10;
const CHUNK_BYTES: usize = 2 << 10;
const TRAINING_BYTES: usize = 256;

#[test]
fn every_read_agrees_with_the_model_where_a_few_rows_are_as_much_as_is_read_at_once() {
    byte_bounds::set(ARRAY_BYTES, BATCH_BYTES, CHUNK_BYTES, TRAINING_BYTES);
    for seed in 0..repetitions(4) {
        let folder = tempfile::tempdir().unwrap();
        RandomOps::new(folder.path().join("db"), 1_000 + seed).run(STEPS);
    }
}
