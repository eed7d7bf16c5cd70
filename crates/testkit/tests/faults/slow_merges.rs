//! Merges that take long: on a slow disk, while more is flushed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::directory::MemoryDirectory;
use drillcore::*;
use drillcore_testkit::gate_directory::GateDirectory;

const LONG_ROWS: i64 = 200_000;
const SHORT_ROWS: i64 = 1_000;
/// Levels that make a merge due.
const LEVELS: i64 = 4;
/// Levels for which writers do not wait, and those from which on they are as slow as they get.
const LEVELS_FREE: u64 = 16;
const LEVELS_SLOWEST: u64 = 56;

/// Rows with keys from everywhere, and with nothing to compress.
pub fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let noise = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(noise)));
    let values = Int64Array::from_iter_values(rows.map(|row| noise(noise(row) ^ row)));
    RecordBatch::try_from_iter([("id", ids), ("value", Arc::new(values))]).unwrap()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn short_merges_go_before_a_long_one_that_is_under_way() {
    let files = GateDirectory::new(Arc::new(MemoryDirectory::new()));
    let options = Options { maintenance_threads: 1, ..Options::default() };
    let db = Database::open_in(Arc::new(files.clone()), options).unwrap();
    let spec = TableSpec::new(batch(0..1).schema(), ["id"]);
    let table = db.create_table("t", spec).unwrap();
    let mut next = 0;
    let mut flush = |rows: i64| {
        for _ in 0..LEVELS {
            table.append(&batch(next..next + rows), OnError::Raise).unwrap();
            next += rows;
            db.flush().unwrap();
        }
    };
    let stats = || db.stats().unwrap().writer.unwrap();

    flush(LONG_ROWS);
    files.slow_down(Duration::from_millis(50));
    flush(SHORT_ROWS);
    let (flushed, short) = (LEVELS * (LONG_ROWS + SHORT_ROWS), LEVELS * SHORT_ROWS);
    wait("nothing was merged", || stats().merges > 0);
    assert_eq!(stats().rows_written as i64, flushed + short, "the long one was first");

    files.slow_down(Duration::ZERO);
    wait("the long merge did not end", || stats().merges > 1);
    assert_eq!(stats().rows_written as i64, 2 * flushed);
    let rows = table.snapshot().unwrap().count(&Selection::default()).unwrap();
    assert_eq!(rows as i64, flushed);
    db.close().unwrap();
}

#[test]
fn writers_wait_while_more_than_16_levels_are_left_to_merge_and_not_once_they_are_merged() {
    let options = Options { memory_bytes: 16 << 20, ..Options::default() };
    let db = Database::open_in(Arc::new(MemoryDirectory::new()), options).unwrap();
    let table = db.create_table("t", TableSpec::new(batch(0..1).schema(), ["id"])).unwrap();
    let levels = || db.stats().unwrap().tables[0].levels;
    let stalled = || db.stats().unwrap().writer.unwrap().merge_stall_seconds;
    let append = |rows| drop(table.append(&batch(rows), OnError::Raise).unwrap());
    let many = || append(1_000_000..1_000_000 + 10 * SHORT_ROWS);

    let hold = db.hold_maintenance();
    for level in 0..LEVELS_FREE as i64 {
        append(level * SHORT_ROWS..(level + 1) * SHORT_ROWS);
        db.flush().unwrap();
    }
    many();
    assert_eq!((levels(), stalled()), (LEVELS_FREE, 0.0));
    for level in LEVELS_FREE..(LEVELS_FREE + LEVELS_SLOWEST) / 2 {
        db.flush().unwrap();
        append(level as i64 * SHORT_ROWS..(level as i64 + 1) * SHORT_ROWS);
    }
    db.flush().unwrap();
    // 160 KB, or more, at half of the levels: a fourth of what a sixteenth of the memory per second is slowed.
    let before = stalled();
    many();
    assert!(before > 0.0 && stalled() > before + 0.03, "{before} s, then {} s", stalled());

    drop(hold);
    wait("too many levels are left", || levels() <= LEVELS_FREE);
    let before = stalled();
    many();
    assert_eq!(stalled(), before, "with {} levels", levels());
}

#[test]
fn a_writer_compacts_larger_runs_itself_while_the_only_worker_is_busy() {
    let files = GateDirectory::new(Arc::new(MemoryDirectory::new()));
    let options = Options { maintenance_threads: 1, ..Options::default() };
    let db = Database::open_in(Arc::new(files.clone()), options).unwrap();
    let create =
        |name| db.create_table(name, TableSpec::new(batch(0..1).schema(), ["id"])).unwrap();
    let (merged, table) = (create("m"), create("t"));
    let hold = db.hold_maintenance();
    for level in 0..LEVELS {
        let rows = batch(level * SHORT_ROWS..(level + 1) * SHORT_ROWS);
        merged.append(&rows, OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    files.shut();
    drop(hold);
    wait("nothing is merged", || files.waiting() == 1);

    let (batches, rows) = (400, 10_000);
    let mut most = 0;
    for number in 0..batches {
        table.append(&batch(number * rows..(number + 1) * rows), OnError::Raise).unwrap();
        most = most.max(table.snapshot().unwrap().pieces());
    }
    let waiting = files.waiting();
    files.open_up();
    assert_eq!(waiting, 1, "the worker had time");
    // One for eight batches each would be more than 50.
    assert!(most <= 30, "{most} runs");
    db.close().unwrap();
}
