//! A row from the cache costs its own bytes. Alone in its file, as the allocator counts for the whole binary.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::{Database, Options};
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::event_table::Events;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS: i64 = 20_000;

/// Bytes allocated by one `get` of a row that was asked for before, in blocks of rows of `teams` teams.
fn bytes_of_a_cached_get(teams: i64) -> u64 {
    let events = Events { teams, payload_bytes: 8 };
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    events.append(&table, &(0..ROWS).collect::<Vec<_>>());
    db.compact().unwrap();
    let snapshot = table.snapshot().unwrap();
    let key: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![ROWS / 2]))];
    snapshot.get(&key, None).unwrap();
    let before = db.stats().unwrap();
    let (found, bytes) = CountingAllocator::measure(|| snapshot.get(&key, None).unwrap());
    let after = db.stats().unwrap();
    assert_eq!(found.rows, events.batch(&[ROWS / 2]));
    let pages = |stats: &drillcore::Stats| stats.index_pages_read + stats.blocks_read;
    assert_eq!(pages(&before), pages(&after), "the row is cached");
    println!("{teams} teams: {bytes} bytes");
    bytes
}

#[test]
fn a_cached_row_costs_its_own_bytes_whatever_shares_its_block() {
    let (alone, among_many) = (bytes_of_a_cached_get(1), bytes_of_a_cached_get(100));
    assert!(alone < 4 << 10, "{alone} bytes");
    assert!(among_many <= alone + 64, "{among_many} bytes, {alone} in a block of one team");
}
