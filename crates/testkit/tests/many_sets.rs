//! Segments of more sets than there is room for at once: they are written without lists of them, and maintenance lists them later, in
//! several passes, unless something else is more urgent. Alone in its file, as the bound of lists holds for the whole process.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drillcore::directory::{Directory, LocalDirectory, MemoryDirectory, read_file};
use drillcore::{Database, Options, Progress, ReadOptions, Table, TableSnapshot};
use drillcore_format::byte_bounds;
use drillcore_testkit::deadline::within;
use drillcore_testkit::event_table::{Events, Kind, scan_ids};
use drillcore_testkit::fault_directory::FaultDirectory;
use drillcore_testkit::gate_directory::GateDirectory;

/// Instead of 64 MiB.
const LISTS_BYTES: usize = 64 << 10;
const MEMORY_BYTES: u64 = 16 << 20;
const ROWS: i64 = 20_000;
const EVENTS: Events = Events { teams: 15_000, payload_bytes: 10 };
/// Longer than a listing job goes on before it looks for what is more urgent.
const SOME_TIME: Duration = Duration::from_millis(300);

fn options() -> Options {
    byte_bounds::set_lists(LISTS_BYTES);
    Options { memory_bytes: MEMORY_BYTES, maintenance_threads: 1, ..Default::default() }
}

/// Adds rows of many sets that lie between the others, and writes them out.
fn flush(db: &Database, table: &Table, (number, of): (i64, i64)) {
    let ids: Vec<i64> = (number..ROWS).step_by(of as usize).collect();
    EVENTS.append(table, &ids);
    db.flush().unwrap();
}

fn rows_to_index(db: &Database) -> u64 {
    let stats = db.stats().unwrap();
    stats.tables[0].indexed_sets.as_ref().unwrap().rows_to_index
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn check(table: &TableSnapshot) {
    assert_eq!(table.sets().unwrap().rows.len() as i64, EVENTS.teams);
    for team in [0, 1, 4_999, 5_000, 14_999] {
        let expected: Vec<i64> = (team..ROWS).step_by(EVENTS.teams as usize).collect();
        assert_eq!(scan_ids(table, &EVENTS.of_team(team)), expected, "team {team}");
    }
}

fn files_of_postings(directory: &dyn Directory) -> usize {
    directory.list().unwrap().iter().filter(|name| name.starts_with("postings-")).count()
}

#[test]
fn sets_are_found_before_they_are_listed_and_listed_without_a_call() {
    for kind in Kind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let files = LocalDirectory::create(folder.path()).unwrap();
        let db = Database::open(folder.path(), options()).unwrap();
        let table = db.create_table("events", Events::spec_of(kind)).unwrap();
        let hold = db.hold_maintenance();
        flush(&db, &table, (0, 2));
        flush(&db, &table, (1, 2));
        db.compact().unwrap();
        assert_eq!(rows_to_index(&db), ROWS as u64, "{kind:?}");
        check(&table.snapshot().unwrap());
        drop(db.named_snapshot("before").unwrap());
        db.close().unwrap();
        drop((hold, table, db));
        assert_eq!(files_of_postings(&files), 0);

        let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
        check(&reader.table("events").unwrap().snapshot().unwrap());
        let db = Database::open(folder.path(), options()).unwrap();
        wait("the sets were not listed", || rows_to_index(&db) == 0);
        assert_eq!(files_of_postings(&files), 1);
        check(&db.table("events").unwrap().snapshot().unwrap());
        check(&db.named_snapshot("before").unwrap().table("events").unwrap());
        assert!(db.verify().unwrap().faults.is_empty());
        check(&reader.table("events").unwrap().snapshot().unwrap());
    }
}

/// A database of which a job is about to write lists of the only segment, which has a part of the rows.
fn about_to_list(part: (i64, i64)) -> (GateDirectory, Database, Table) {
    about_to_list_in(Arc::new(MemoryDirectory::new()), part)
}

fn about_to_list_in(
    directory: Arc<dyn Directory>,
    part: (i64, i64),
) -> (GateDirectory, Database, Table) {
    let files = GateDirectory::of_postings(directory);
    let db = Database::open_in(Arc::new(files.clone()), options()).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    files.shut();
    flush(&db, &table, part);
    wait("nothing is listed", || files.waiting() == 1);
    (files, db, table)
}

/// Once a listing has ended early: one segment is left, and its lists are the only ones that were ever made.
fn check_listed_once(files: &GateDirectory, db: &Database, table: &Table) {
    table.wait_for_set_index().unwrap();
    let stats = db.stats().unwrap();
    assert_eq!(stats.tables[0].segments, 1);
    assert_eq!(stats.writer.unwrap().segments_indexed, 1);
    assert_eq!(files_of_postings(files), 1);
    check(&table.snapshot().unwrap());
}

#[test]
fn listing_ends_when_the_table_is_compacted() {
    let (files, db, table) = about_to_list((0, 2));
    flush(&db, &table, (1, 2));
    thread::scope(|scope| {
        let progress = Progress::default();
        let compacting = scope.spawn({
            let (db, progress) = (&db, progress.clone());
            move || db.compact_with(&progress).unwrap()
        });
        wait("nothing is compacted", || progress.total() > 0);
        thread::sleep(SOME_TIME);
        files.open_up();
        compacting.join().unwrap();
    });
    check_listed_once(&files, &db, &table);
}

#[test]
fn listing_ends_when_the_segment_is_to_be_merged() {
    let (files, db, table) = about_to_list((0, 4));
    // A level is missing for a merge without the segment that is in play.
    (1..4).for_each(|number| flush(&db, &table, (number, 4)));
    thread::sleep(SOME_TIME);
    assert_eq!(db.stats().unwrap().writer.unwrap().merges, 0);
    files.open_up();
    check_listed_once(&files, &db, &table);
    assert_eq!(db.stats().unwrap().writer.unwrap().merges, 1);
}

#[test]
fn compacting_does_not_wait_for_listing_where_it_has_nothing_to_merge() {
    let (files, db, table) = about_to_list((0, 1));
    let compacted = db.clone();
    within(Duration::from_secs(60), "compacting", move || compacted.compact().unwrap());
    assert_eq!(files.waiting(), 1);
    files.open_up();
    check_listed_once(&files, &db, &table);
}

#[test]
fn lists_of_a_table_that_is_dropped_meanwhile_are_removed() {
    let (files, db, table) = about_to_list((0, 1));
    let snapshot = table.snapshot().unwrap();
    db.drop_table("events").unwrap();
    files.open_up();
    check(&snapshot);
    db.close().unwrap();
    assert_eq!((files.begun(), files_of_postings(&files)), (1, 0));
}

#[test]
fn listing_does_not_give_way_to_a_merge_that_has_no_room() {
    let disk = FaultDirectory::new();
    let (files, db, table) = about_to_list_in(Arc::new(disk.clone()), (0, 4));
    (1..4).for_each(|number| flush(&db, &table, (number, 4)));
    // What merges leave for others, and more than lists take, but not the segments once more.
    let used: u64 = db.stats().unwrap().tables[0].segment_bytes;
    let log =
        disk.list().unwrap().into_iter().map(|name| read_file(&disk, &name).unwrap().len() as u64);
    let free = (2 << 20) + MEMORY_BYTES / 4 + used * 3 / 4;
    disk.set_capacity(Some(log.sum::<u64>() + free));
    thread::sleep(SOME_TIME);
    files.open_up();
    wait("the sets were not listed", || rows_to_index(&db) == 0);
    assert_eq!(db.stats().unwrap().writer.unwrap().merges, 0);
    assert_eq!(files.begun(), 4, "each was listed once");
    disk.set_capacity(None);
    wait("nothing was merged", || db.stats().unwrap().writer.unwrap().merges == 1);
    table.wait_for_set_index().unwrap();
    check(&table.snapshot().unwrap());
}

/// A file of it would list no sets, and rows would be drawn from it in another way.
#[test]
fn a_run_of_more_sets_than_have_room_stays_in_memory_for_a_snapshot() {
    let directory = FaultDirectory::new();
    let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("events", Events::spec_of(Kind::Append)).unwrap();
    EVENTS.append(&table, &(0..ROWS).collect::<Vec<_>>());
    let snapshot = table.snapshot().unwrap();
    db.flush().unwrap();
    let held = || db.stats().unwrap().writer.unwrap().snapshot_row_bytes;
    let in_memory = held();
    assert!(in_memory > 0);
    db.spill_snapshots().unwrap();
    assert_eq!(held(), in_memory);
    check(&snapshot);
    let written = directory.operations().len();
    db.spill_snapshots().unwrap();
    assert_eq!(directory.operations().len(), written, "it is not tried again");
}
