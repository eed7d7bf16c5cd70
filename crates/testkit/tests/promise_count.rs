//! The bytes that the engine counts for rows in memory are those that it holds. Alone in its file, as the allocator counts for
//! the whole binary.

use drillcore::{Database, Durability, Options, SampleRequest};
use drillcore_testkit::at_rest::wait_for_rest;
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::event_table::{Events, Kind};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS: i64 = 400_000;
const BATCH_ROWS: i64 = 4_000;
/// The count may be off by one part of this many.
const TOLERANCE: u64 = 50;

/// Bytes that a table of these rows takes, by the engine's count and by the allocator's, once nothing is left to do.
fn counted_and_held(kind: Kind, events: Events) -> (u64, u64) {
    let options =
        Options { durability: Durability::None, memory_bytes: 8 << 30, ..Default::default() };
    let db = Database::in_memory(options).unwrap();
    let table = db.create_table("events", Events::spec_of(kind)).unwrap();
    let counted = || {
        let stats = db.stats().unwrap();
        stats.row_bytes + stats.list_bytes
    };
    let (counted_before, held_before) = (counted(), CountingAllocator::held_bytes());
    for batch in 0..ROWS / BATCH_ROWS {
        // A permutation: the factor has no divisor in common with the number of rows.
        let rows = batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS;
        let ids: Vec<i64> = rows.map(|row| row * 2_654_435_761 % ROWS).collect();
        events.append(&table, &ids);
    }
    wait_for_rest(&db);
    if kind != Kind::Rollup {
        // The weights of the members of sets are kept then, which is a twentieth of all where there are few columns.
        let snapshot = table.snapshot().unwrap();
        for team in 0..events.teams {
            let (selection, weight) = (events.of_team(team), Some("weight".to_string()));
            let request =
                SampleRequest { n: 10, at_most: true, selection, weight, ..Default::default() };
            snapshot.sample(&request).unwrap();
        }
    }
    wait_for_rest(&db);
    let held = CountingAllocator::held_bytes() - held_before;
    (counted() - counted_before, held)
}

#[test]
fn rows_in_memory_are_counted_within_two_percent_of_what_they_take() {
    for (teams, payload_bytes) in [(4, 0), (200, 0), (2_000, 60)] {
        for kind in Kind::ALL {
            let (counted, held) = counted_and_held(kind, Events { teams, payload_bytes });
            let rows = ROWS as f64;
            println!(
                "{kind:?}, {teams} teams, texts of {payload_bytes}: counted {:.2} bytes a row, held {:.2}",
                counted as f64 / rows,
                held as f64 / rows
            );
            assert!(counted.abs_diff(held) <= held / TOLERANCE, "{kind:?}: {counted}, {held}");
        }
    }
}
