//! A key range costs what it holds, not what the buffer holds.

use drillcore::{Database, Options, SampleRequest, Selection, Table};
use drillcore_testkit::at_rest::wait_for_rest;
use drillcore_testkit::event_table::{Events, id_range, sample_ids, scan_ids};

const EVENTS: Events = Events { teams: 50, payload_bytes: 20 };

/// The rows in memory that a read examined, and its result.
fn examined<T>(db: &Database, read: impl FnOnce() -> T) -> (T, u64) {
    let before = db.stats().unwrap().rows_examined;
    let result = read();
    (result, db.stats().unwrap().rows_examined - before)
}

/// 200,000 rows, shuffled over all batches.
fn full_buffer(db: &Database, batch_rows: i64) -> Table {
    const ROWS: i64 = 200_000;
    let table = db.create_table("events", Events::spec()).unwrap();
    for start in (0..ROWS).step_by(batch_rows as usize) {
        EVENTS.append(
            &table,
            &(start..start + batch_rows).map(|i| i * 77_773 % ROWS).collect::<Vec<_>>(),
        );
    }
    table
}

fn check_ten_row_range(db: &Database, table: &Table, how: &str) {
    let snapshot = table.snapshot().unwrap();
    assert!(
        db.stats().unwrap().writer.unwrap().flushes == 0 && snapshot.rows().unwrap() == 200_000
    );
    let range = id_range(123_450, 123_459);
    let (found, scanned) = examined(db, || scan_ids(&snapshot, &range));
    assert_eq!(found, (123_450..123_460).collect::<Vec<_>>());
    let (count, counted) = examined(db, || snapshot.count(&range).unwrap());
    assert_eq!(count, 10);
    let (_, sampled) = examined(db, || sample_ids(&snapshot, &range, false, 5, 1));
    println!(
        "{how}, {} runs: scan {scanned}, count {counted}, sample {sampled}",
        snapshot.pieces()
    );
    assert!(scanned >= 10, "a counter that counts");
    assert!(scanned.max(counted).max(sampled) < 1_000, "{how}: {scanned}, {counted}, {sampled}");
    let request =
        SampleRequest { selection: range, n: 1_000, replace: true, ..SampleRequest::default() };
    let (_, report) = snapshot.sample_with_report(&request).unwrap();
    assert_eq!(report.attempts, 1_000, "{how}: each number drawn is a row");
    let (all, whole) = examined(db, || scan_ids(&snapshot, &Selection::default()).len() as u64);
    assert!(whole >= all, "a scan of everything examines everything: {whole}");
}

#[test]
fn a_ten_row_range_beside_a_full_buffer_examines_few_rows() {
    let options = Options { memory_bytes: 512 << 20, ..Default::default() };
    {
        let db = Database::in_memory(options.clone()).unwrap();
        let _hold = db.hold_maintenance();
        let table = full_buffer(&db, 10_000);
        check_ten_row_range(&db, &table, "maintenance held");
    }
    let db = Database::in_memory(options).unwrap();
    let table = full_buffer(&db, 100);
    // The workers' compactions are counted, too, so they have to be over.
    wait_for_rest(&db);
    check_ten_row_range(&db, &table, "after 2,000 batches");
}
