//! The bytes that the page cache counts are those that it holds. Alone in its file, as the allocator counts for the whole binary.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array};
use drillcore::directory::MemoryDirectory;
use drillcore::{Database, Options, SampleRequest, ScanRequest, Stats};
use drillcore_testkit::at_rest::wait_for_rest;
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::event_table::{Events, Kind, ids};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS: i64 = 300_000;
/// The count may be off by one part of this many.
const TOLERANCE: u64 = 20;

fn open(files: &MemoryDirectory, cache_bytes: u64) -> Database {
    let options = Options { cache_bytes, maintenance_threads: 1, ..Default::default() };
    Database::open_in(Arc::new(files.clone()), options).unwrap()
}

/// Asks for rows by key, rows of sets, draws by weight, and a column: so for pages of every kind.
fn read(db: &Database, events: Events) {
    let table = db.table("events").unwrap().snapshot().unwrap();
    for first in 0..20 {
        let keys = (first..ROWS).step_by(400).map(|id| id * 7919 % ROWS);
        let keys: [ArrayRef; 1] = [Arc::new(Int64Array::from_iter_values(keys))];
        table.get(&keys, None).unwrap();
    }
    for team in 0..300 {
        let (selection, weight) = (events.of_team(team), Some("weight".to_string()));
        let request =
            SampleRequest { n: 40, at_most: true, selection, weight, ..Default::default() };
        assert!(ids(&table.sample(&request).unwrap()).iter().all(|id| id % events.teams == team));
    }
    let columns = Some(vec!["team".to_string(), "value".to_string()]);
    let scan = table.scan(ScanRequest { columns, threads: Some(1), ..Default::default() }).unwrap();
    assert_eq!(scan.map(|batch| batch.unwrap().num_rows() as i64).sum::<i64>(), ROWS);
}

/// Bytes that a database takes which was opened and read, by the allocator's count, and what it says of itself.
fn held(files: &MemoryDirectory, events: Events, cache_bytes: u64) -> (u64, Stats) {
    let before = CountingAllocator::held_bytes();
    let db = open(files, cache_bytes);
    (0..3).for_each(|_| read(&db, events));
    wait_for_rest(&db);
    (CountingAllocator::held_bytes() - before, db.stats().unwrap())
}

/// A table of such rows is read with room for all pages, and with too little.
fn check(events: Events, budgets: [u64; 2]) {
    let files = MemoryDirectory::new();
    {
        let db = open(&files, 0);
        let table = db.create_table("events", Events::spec_of(Kind::Append)).unwrap();
        for first in (0..ROWS).step_by(10_000) {
            events.append(&table, &(first..first + 10_000).collect::<Vec<_>>());
        }
        db.compact().unwrap();
        db.close().unwrap();
    }
    // What threads keep for their next reads is there from now on.
    held(&files, events, 0);
    let (without, stats) = held(&files, events, 0);
    assert_eq!(stats.cache_bytes, 0);
    for cache_bytes in budgets {
        let (with, stats) = held(&files, events, cache_bytes);
        let (held, counted) = (with - without, stats.cache_bytes);
        println!(
            "{events:?}, room for {cache_bytes}: counted {counted}, held {held}; read {} index pages, {} of sets, {} blocks, {} of columns",
            stats.index_pages_read,
            stats.set_pages_read,
            stats.blocks_read,
            stats.stream_pages_read
        );
        assert!(counted <= cache_bytes && counted > 2 << 20, "{counted}");
        assert!(counted.abs_diff(held) <= held / TOLERANCE, "{counted}, {held}");
    }
}

#[test]
fn a_cache_holds_what_it_counts_within_five_percent() {
    // Mostly blocks, and then a dictionary that is a tenth of all.
    check(Events { teams: 300, payload_bytes: 40 }, [256 << 20, 4 << 20]);
    check(Events { teams: 40_000, payload_bytes: 0 }, [256 << 20, 4 << 20]);
}
