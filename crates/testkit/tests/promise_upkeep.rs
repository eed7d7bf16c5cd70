//! Writing out, merging, verifying, listing sets and scanning hold no more than their budgets, however long rows are. Alone in its file, as the allocator
//! counts for the whole binary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::{Database, OnError, Options, ScanRequest, TableSpec};
use drillcore_format::byte_bounds;
use drillcore_testkit::counting_allocator::CountingAllocator;
use drillcore_testkit::event_table::{Events, Kind, scan_ids};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SEGMENTS: i64 = 16;
const TEAMS: i64 = 1_000;
/// Of rows that one thread reads ahead: one chunk per segment, and the one before it, whose last rows are not written yet.
const CHUNKS_BYTES: u64 = 2 * (16 << 20);
/// Of blocks that are read ahead where the system does not do so, beside a read of each segment.
const BLOCKS_BYTES: u64 = 4 << 20;
/// Of pages that are kept, blocks that are written next, sets, and rows of one batch.
const REST_BYTES: u64 = 24 << 20;
/// One chunk, decoded a second time to compare it, and pages.
const VERIFIED_BYTES: u64 = 24 << 20;
/// Of rows that are read to list their sets.
const LISTED_BYTES: u64 = 4 << 20;
/// Of lists of many sets, instead of 64 MiB or of an eighth of the memory.
const LISTS_BYTES: u64 = 4 << 20;

/// Of texts of a scan: a chunk per segment and the one before it, and a batch twice, while it grows.
const SCANNED_BYTES: u64 = 4 * 2 * (4 << 20) + 2 * (16 << 20);

/// The most bytes that some work held beside what was held before.
fn most_held(work: impl FnOnce()) -> u64 {
    let before = CountingAllocator::held_bytes();
    CountingAllocator::forget_peak();
    work();
    CountingAllocator::peak_bytes() - before
}

/// Writes overlapping segments out, verifies them, and merges them.
fn check(rows: i64, payload_bytes: usize, direct_io: bool) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        direct_io,
        memory_bytes: 256 << 20,
        cache_bytes: 1 << 20,
        maintenance_threads: 1,
        ..Default::default()
    };
    let db = Database::open(folder.path().join("db"), options).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    let _hold = db.hold_maintenance();
    let events = Events { teams: TEAMS, payload_bytes };
    let mut written_out = 0;
    for segment in 0..SEGMENTS {
        let ids: Vec<i64> = (0..rows).map(|row| row * SEGMENTS + segment).collect();
        let batch_rows = ((32 << 20) / (payload_bytes + 64)).clamp(1, 10_000);
        ids.chunks(batch_rows).for_each(|ids| drop(events.append(&table, ids)));
        written_out = written_out.max(most_held(|| db.flush().unwrap()));
    }
    let segments = || db.stats().unwrap().tables[0].segments;
    assert_eq!(segments(), SEGMENTS as u64);
    let verified = most_held(|| assert!(db.verify().unwrap().faults.is_empty()));
    let merged = most_held(|| db.compact().unwrap());
    assert_eq!(segments(), 1);
    println!(
        "{rows} rows with {payload_bytes} bytes: {} KiB to write one segment, {} to verify {SEGMENTS}, {} to merge them",
        written_out >> 10,
        verified >> 10,
        merged >> 10,
    );
    // Each source may go beyond by a row, of which it has the stored form, too.
    let beyond = 2 * payload_bytes as u64;
    assert!(written_out <= REST_BYTES + 4 * beyond, "{written_out} bytes to write a segment");
    assert!(verified <= VERIFIED_BYTES + 4 * beyond, "{verified} bytes to verify");
    let blocks = if direct_io { BLOCKS_BYTES + SEGMENTS as u64 * (256 << 10) } else { 0 };
    let limit = CHUNKS_BYTES + REST_BYTES + blocks + SEGMENTS as u64 * beyond;
    assert!(merged <= limit, "{merged} bytes to merge, instead of {limit}");
}

/// Lists the sets of a segment that was written without.
fn check_listing(rows: i64, payload_bytes: usize, teams: i64) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes: 1 << 20, maintenance_threads: 1, ..Default::default() };
    let db = Database::open(folder.path().join("db"), options).unwrap();
    let table = db.create_table("events", Events::spec().without_set_index()).unwrap();
    let events = Events { teams, payload_bytes };
    let batch_rows = ((32 << 20) / (payload_bytes + 64)).clamp(1, 10_000);
    let ids: Vec<i64> = (0..rows).collect();
    ids.chunks(batch_rows).for_each(|ids| drop(events.append(&table, ids)));
    db.compact().unwrap();
    let listed = most_held(|| {
        table.index_all_sets().unwrap();
        table.wait_for_set_index().unwrap();
    });
    assert_eq!(db.stats().unwrap().writer.unwrap().segments_indexed, 1);
    println!(
        "{rows} rows with {payload_bytes} bytes: {} KiB to list their {teams} sets",
        listed >> 10
    );
    let limit = LISTED_BYTES + 2 * rows as u64 + 100 * teams as u64 + 2 * payload_bytes as u64;
    assert!(listed <= limit, "{listed} bytes to list sets, instead of {limit}");
}

/// Writes a segment whose lists of sets are too large for their share of `memory_bytes`, or for a bound of bytes, lists the sets, and
/// verifies them.
fn check_many_sets(rows: i64, teams: i64, memory_bytes: u64, lists_bytes: u64) {
    byte_bounds::set_lists(lists_bytes as usize);
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        memory_bytes,
        cache_bytes: 1 << 20,
        maintenance_threads: 1,
        ..Default::default()
    };
    let db = Database::open(folder.path().join("db"), options).unwrap();
    let table = db.create_table("events", Events::spec_of(Kind::Append)).unwrap();
    let hold = db.hold_maintenance();
    let events = Events { teams, payload_bytes: 10 };
    let ids: Vec<i64> = (0..rows).collect();
    ids.chunks(10_000).for_each(|ids| drop(events.append(&table, ids)));
    let written = most_held(|| db.flush().unwrap());
    assert_eq!(db.stats().unwrap().writer.unwrap().segments_indexed, 0);
    let counted = || db.stats().unwrap().writer.unwrap().set_list_bytes;
    assert_eq!(counted(), 0);
    let (is_watching, is_listed) = (Barrier::new(2), AtomicBool::new(false));
    let (listed, most_counted) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            is_watching.wait();
            let mut most = 0;
            while !is_listed.load(Ordering::Relaxed) {
                most = most.max(counted());
                thread::yield_now();
            }
            most
        });
        is_watching.wait();
        drop(hold);
        let listed = most_held(|| table.wait_for_set_index().unwrap());
        is_listed.store(true, Ordering::Relaxed);
        (listed, watch.join().unwrap())
    });
    assert_eq!(db.stats().unwrap().writer.unwrap().segments_indexed, 1);
    // A chunk goes beyond before others are left out.
    let counted_max = LISTS_BYTES * 3 / 2;
    println!("{} KiB of lists were counted at most", most_counted >> 10);
    assert!((1..=counted_max).contains(&most_counted), "{most_counted} bytes were counted");
    assert_eq!(counted(), 0);
    let verified = most_held(|| assert!(db.verify().unwrap().faults.is_empty()));
    println!(
        "{rows} rows of {teams} sets: {} KiB to write them, {} to list the sets, {} to verify them",
        written >> 10,
        listed >> 10,
        verified >> 10,
    );
    // While the largest part of the lists grows, it is there twice: less than half, as names are short.
    let lists = LISTS_BYTES * 3 / 2;
    assert!(written <= REST_BYTES + lists, "{written} bytes to write a segment");
    assert!(listed <= LISTED_BYTES + lists, "{listed} bytes to list sets");
    // Its lists have the bound of bytes alone.
    let lists = lists_bytes.min(100 * teams as u64) * 3 / 2;
    assert!(verified <= VERIFIED_BYTES + lists, "{verified} bytes to verify");
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.sets().unwrap().rows.len() as i64, teams);
    for team in [0, 1, teams / 3, teams - 1] {
        let expected: Vec<i64> = (team..rows).step_by(teams as usize).collect();
        assert_eq!(scan_ids(&snapshot, &events.of_team(team)), expected);
    }
}

/// Scans segments whose texts are eight times as long as they are stored.
fn check_scans() {
    const SEGMENTS: i64 = 4;
    const ROWS: i64 = 6_000;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes: 1 << 20, maintenance_threads: 1, ..Default::default() };
    let db = Database::open(folder.path().join("db"), options).unwrap();
    let columns = Events::columns().project(&[0, 4]).unwrap();
    let table =
        db.create_table("texts", TableSpec::new(Arc::new(columns.clone()), ["id"])).unwrap();
    let _hold = db.hold_maintenance();
    for segment in 0..SEGMENTS {
        for rows in (0..ROWS).collect::<Vec<_>>().chunks(2_000) {
            let ids: Vec<i64> = rows.iter().map(|row| row * SEGMENTS + segment).collect();
            let text = |id: &i64| format!("{id}{}", "the same words again and again, ".repeat(180));
            let texts = StringArray::from_iter_values(ids.iter().map(text));
            let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids)), Arc::new(texts)];
            let batch = RecordBatch::try_new(Arc::new(columns.clone()), values).unwrap();
            table.append(&batch, OnError::Raise).unwrap();
        }
        db.flush().unwrap();
    }
    for reverse in [false, true] {
        let scanned = most_held(|| {
            let request = ScanRequest { reverse, threads: Some(1), ..Default::default() };
            let scan = table.snapshot().unwrap().scan(request).unwrap();
            let rows: usize = scan.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows as i64, SEGMENTS * ROWS);
        });
        println!("{} KiB to scan, against the key order: {reverse}", scanned >> 10);
        assert!(
            scanned <= SCANNED_BYTES,
            "{scanned} bytes to scan, against the key order: {reverse}"
        );
    }
}

#[test]
fn upkeep_and_scans_hold_no_more_than_their_budgets_however_long_rows_are() {
    for direct_io in [false, true] {
        check(20_000, 100, direct_io);
        check(200, 50_000, direct_io);
        check(3, 4_000_000, direct_io);
    }
    check_listing(300_000, 100, TEAMS);
    check_listing(300_000, 10, 300_000);
    check_listing(2_000, 50_000, TEAMS);
    check_many_sets(400_000, 300_000, 512 << 20, LISTS_BYTES);
    check_many_sets(200_000, 180_000, 8 * LISTS_BYTES, 64 << 20);
    check_scans();
}
