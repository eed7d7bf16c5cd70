//! Compaction in memory takes no more than it reserves. Alone in its file, as the allocator counts for the whole binary.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Database, Merge, Metric, OnError, Options, RollupSpec, TableSpec};
use drillcore_testkit::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// As many as are compacted at once, as soon as the last of them is appended.
const RUNS: i64 = 8;
const ROWS_PER_RUN: i64 = 60_000;
/// What a merge notes of each row.
const PICK_BYTES: u64 = 8;

struct Taken {
    /// The most that an append and the compaction of all runs took together, beside the runs that were there.
    most_bytes: u64,
    /// What all runs take.
    runs_bytes: u64,
}

impl Taken {
    /// Appends runs of rows with the keys that `key` gives for the run and the number of a row in it.
    fn of(merge: Merge, key: impl Fn(i64, i64) -> i64) -> Taken {
        let fields = ["id", "value"].map(|name| Field::new(name, DataType::Int64, false));
        let columns = Arc::new(Schema::new(fields.to_vec()));
        let options = Options { memory_bytes: 1 << 30, ..Options::default() };
        let db = Database::in_memory(options).unwrap();
        let table = db.create_table("rows", TableSpec::new(columns.clone(), ["id"]).merge(merge));
        let table = table.unwrap();
        let batch = |run: i64| {
            let ids = (0..ROWS_PER_RUN).map(|row| key(run, row));
            // One run has numbers of eight bytes, others of one: so has what is made of them.
            let values = (0..ROWS_PER_RUN).map(|row| (row % 100) << if run == 0 { 50 } else { 0 });
            let arrays: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids)),
                Arc::new(Int64Array::from_iter_values(values)),
            ];
            RecordBatch::try_new(columns.clone(), arrays).unwrap()
        };
        let compactions = || db.stats().unwrap().writer.unwrap().memory_compactions;
        let empty = CountingAllocator::held_bytes();
        let hold = db.hold_maintenance();
        (0..RUNS - 1).for_each(|run| drop(table.append(&batch(run), OnError::Raise).unwrap()));
        let last = batch(RUNS - 1);
        assert_eq!(compactions(), 0);
        let before = CountingAllocator::held_bytes();
        drop(hold);
        CountingAllocator::forget_peak();
        table.append(&last, OnError::Raise).unwrap();
        let most_bytes = CountingAllocator::peak_bytes() - before;
        assert_eq!(compactions(), 1);
        drop(last);
        Taken { most_bytes, runs_bytes: CountingAllocator::held_bytes() - empty }
    }

    /// Fails if it took more than the last run, copies of all, and some bytes per row.
    fn check(&self, what: &str, copies: u64, bytes_per_row: u64) {
        let Taken { most_bytes, runs_bytes } = self;
        let rows = (RUNS * ROWS_PER_RUN) as u64;
        let reserved = copies * runs_bytes + bytes_per_row * rows;
        let slack = runs_bytes / RUNS as u64 + (2 << 20);
        assert!(
            *most_bytes <= reserved + slack,
            "{what}: took {most_bytes} bytes beside {runs_bytes} of runs, reserved {reserved}"
        );
    }
}

/// Runs whose keys lie one behind the other were compared row by row; of each row its place was noted, and where the group of its
/// key ends. Sums were compacted in types of sixteen bytes.
#[test]
fn compaction_in_memory_takes_what_it_reserves() {
    let behind = |run, row| run * ROWS_PER_RUN + row;
    let between = |run, row| row * RUNS + run;
    Taken::of(Merge::Append, behind).check("runs one behind the other", 1, 0);
    Taken::of(Merge::Upsert, behind).check("upserted runs one behind the other", 1, 0);
    Taken::of(Merge::Append, between).check("runs that overlap", 1, PICK_BYTES);
    Taken::of(Merge::Upsert, between).check("upserted runs that overlap", 1, PICK_BYTES);
    let rollup = || {
        let metrics = [("sum", Metric::sum("value")), ("least", Metric::min("value"))];
        let rollup = metrics
            .into_iter()
            .fold(RollupSpec::default(), |rollup, (name, metric)| rollup.metric(name, metric));
        Merge::Rollup(rollup)
    };
    Taken::of(rollup(), between).check("partial rows", 2, 0);
}
