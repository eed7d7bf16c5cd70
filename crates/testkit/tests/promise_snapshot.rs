//! A snapshot copies no rows. Alone in its file, as the allocator counts for the whole binary.

use drillcore::{Database, Options};
use drillcore_testkit::at_rest::wait_for_rest;
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::event_table::Events;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS: i64 = 1_000_000;

#[test]
fn a_snapshot_of_a_million_rows_in_memory_copies_none() {
    let events = Events { teams: 100, payload_bytes: 8 };
    let db = Database::in_memory(Options { memory_bytes: 1 << 30, ..Default::default() }).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    for start in (0..ROWS).step_by(20_000) {
        let ids: Vec<i64> = (start..start + 20_000).collect();
        events.append(&table, &ids);
    }
    // What workers ask for would be counted, too.
    wait_for_rest(&db);
    let hold = db.hold_maintenance();
    let (snapshot, first) = CountingAllocator::measure(|| db.snapshot().unwrap());
    let (again, second) = CountingAllocator::measure(|| db.snapshot().unwrap());
    let (of_table, third) = CountingAllocator::measure(|| table.snapshot().unwrap());
    drop(hold);
    let stats = db.stats().unwrap();
    assert_eq!(stats.writer.unwrap().flushes, 0, "all rows are in memory");
    println!(
        "{} bytes of rows in {} pieces: snapshot {first} bytes, again {second}, of the table {third}",
        stats.row_bytes,
        of_table.pieces(),
    );
    assert_eq!(of_table.rows().unwrap(), ROWS as u64);
    assert_eq!(snapshot.lsn(), again.lsn());
    assert!(first < 64 << 10, "{first} bytes");
    assert!(second < 1 << 10 && third < 1 << 10, "{second} and {third} bytes");
    // Or the counter counts nothing.
    let (_copy, copied) = CountingAllocator::measure(|| events.batch(&[1, 2, 3]));
    assert!(copied > 100, "{copied} bytes");
}
