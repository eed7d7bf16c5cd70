//! Flushes and merges by several threads: each is at work on a file of its own at the same time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use drillcore::directory::MemoryDirectory;
use drillcore::*;
use drillcore_testkit::deadline::wait_until;
use drillcore_testkit::gate_directory::GateDirectory;

use crate::slow_merges::batch;

const PATIENCE: Duration = Duration::from_secs(30);

fn database(memory_bytes: u64) -> (GateDirectory, Database) {
    let files = GateDirectory::new(Arc::new(MemoryDirectory::new()));
    let options = Options { memory_bytes, maintenance_threads: 3, ..Options::default() };
    let db = Database::open_in(Arc::new(files.clone()), options).unwrap();
    (files, db)
}

fn table(db: &Database, name: &str) -> Table {
    db.create_table(name, TableSpec::new(batch(0..1).schema(), ["id"])).unwrap()
}

fn append(table: &Table, rows: std::ops::Range<i64>) {
    table.append(&batch(rows), OnError::Raise).unwrap();
}

fn count(table: &Table) -> u64 {
    table.snapshot().unwrap().count(&Selection::default()).unwrap()
}

/// Has `work` done while nothing passes the gate, until a number of threads wait there together.
fn meet(files: &GateDirectory, number: usize, what: &str, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        files.shut();
        let work = scope.spawn(work);
        let met = catch_unwind(AssertUnwindSafe(|| {
            wait_until(PATIENCE, what, || files.waiting() >= number);
        }));
        // Else the work would never end.
        let waiting = files.waiting();
        files.open_up();
        work.join().unwrap();
        if let Err(panic) = met {
            resume_unwind(panic);
        }
        assert_eq!(waiting, number, "{what}");
    });
}

#[test]
fn the_key_partitions_of_a_large_flush_are_written_at_the_same_time() {
    const ROWS: i64 = 300_000;
    // A thread writes a thirty-second of that at least.
    let (files, db) = database(32 << 20);
    let _hold = db.hold_maintenance();
    let table = table(&db, "t");
    append(&table, 0..ROWS);
    meet(&files, 3, "each thread writes a partition", || db.flush().unwrap());
    let of_table = db.stats().unwrap().tables.remove(0);
    assert_eq!((of_table.segments, of_table.levels), (3, 1));
    assert_eq!(count(&table), ROWS as u64);
}

#[test]
fn two_tables_are_flushed_at_the_same_time() {
    const BATCHES: i64 = 5;
    const BATCH_ROWS: i64 = 16_000;
    // A fourth of the memory is flushed at once, by one thread; and only once half of it is full.
    let (files, db) = database(4 << 20);
    let tables = ["a", "b"].map(|name| table(&db, name));
    let hold = db.hold_maintenance();
    for number in 0..BATCHES {
        for table in &tables {
            append(table, number * BATCH_ROWS..(number + 1) * BATCH_ROWS);
        }
    }
    meet(&files, 2, "each of two tables is being flushed", || drop(hold));
    let is_flushed = || db.stats().unwrap().tables.iter().all(|table| table.segments > 0);
    wait_until(PATIENCE, "each table has a segment", is_flushed);
    assert_eq!(tables.each_ref().map(count), [(BATCHES * BATCH_ROWS) as u64; 2]);
}

#[test]
fn two_merges_of_a_table_are_made_at_the_same_time() {
    const SHORT_ROWS: i64 = 100;
    // A level of another size class parts the short ones.
    const LONG_ROWS: i64 = 300_000;
    let (files, db) = database(64 << 20);
    let table = table(&db, "t");
    let hold = db.hold_maintenance();
    let (mut rows, sizes) =
        (0, [[SHORT_ROWS; 4].as_slice(), &[LONG_ROWS], &[SHORT_ROWS; 4]].concat());
    for size in sizes {
        append(&table, rows..rows + size);
        rows += size;
        db.flush().unwrap();
    }
    assert_eq!(db.stats().unwrap().tables[0].levels, 9);
    meet(&files, 2, "two merges are under way", || drop(hold));
    wait_until(PATIENCE, "both have ended", || db.stats().unwrap().tables[0].levels == 3);
    assert_eq!(db.stats().unwrap().writer.unwrap().merges, 2);
    assert_eq!(count(&table), rows as u64);
}
