//! Rows that only snapshots hold go to files: full disks, damage, and ends of the process on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore::arrow_array::RecordBatch;
use drillcore::directory::Directory;
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::event_table::{Events, Kind};
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, ReadFault, Unsynced};

const EVENTS: Events = Events { teams: 7, payload_bytes: 20 };
const ROWS: i64 = 3_000;
const DURABILITIES: [Durability; 3] = [Durability::Os, Durability::Fsync, Durability::None];

fn open(directory: &FaultDirectory, durability: Durability) -> Result<Database> {
    let options =
        Options { durability, cache_bytes: 0, memory_bytes: 4 << 20, ..Options::default() };
    Database::open_in(Arc::new(directory.clone()), options)
}

/// All rows, in key order.
fn rows(table: &TableSnapshot) -> Result<Vec<RecordBatch>> {
    table.scan(ScanRequest { threads: Some(1), ..Default::default() })?.collect()
}

fn segments(directory: &dyn Directory) -> Vec<String> {
    let mut names = directory.list().unwrap();
    names.retain(|name| name.starts_with("segment-"));
    names
}

/// A table of some runs, and a snapshot of it whose runs have left the table.
fn flushed_beneath(
    directory: &FaultDirectory,
    durability: Durability,
) -> (Database, Table, TableSnapshot) {
    let db = open(directory, durability).unwrap();
    let hold = db.hold_maintenance();
    let table = db.create_table("events", Events::spec_of(Kind::Upsert)).unwrap();
    for third in 0..3 {
        EVENTS.append(&table, &(0..ROWS).filter(|id| id % 3 == third).collect::<Vec<_>>());
    }
    let snapshot = table.snapshot().unwrap();
    EVENTS.append(&table, &(0..ROWS / 2).collect::<Vec<_>>());
    db.flush().unwrap();
    drop(hold);
    (db, table, snapshot)
}

/// At each write, sync and removal of a spill the process ends: what the table has is there, and of the files nothing is left.
#[test]
fn a_process_that_ends_while_rows_are_spilled_leaves_nothing_of_that() {
    for durability in DURABILITIES {
        let mut rng = Rng::keyed(5, 0);
        for ends_in in 0.. {
            let directory = FaultDirectory::new();
            let (db, table, snapshot) = flushed_beneath(&directory, durability);
            let shown = rows(&table.snapshot().unwrap()).unwrap();
            let held = rows(&snapshot).unwrap();
            let own = segments(&directory).len();
            let before = directory.operations().len() as u64;
            directory.set_fault(Some(Fault::Forever(before + ends_in)));
            let spilled = db.spill_snapshots();
            let is_done = (directory.operations().len() as u64) < before + ends_in;
            assert!(!is_done || segments(&directory).len() > own, "there are files to be left");
            for unsynced in [Unsynced::Kept, Unsynced::Dropped, Unsynced::Pages] {
                let image = FaultDirectory::restarted(&directory.crash_image(unsynced, &mut rng));
                let reopened = open(&image, durability).unwrap();
                // What no log has is lost with what was not synced.
                if durability == Durability::Fsync || unsynced == Unsynced::Kept {
                    let now = reopened.table("events").unwrap().snapshot().unwrap();
                    assert!(rows(&now).unwrap() == shown, "{durability:?} {unsynced:?} {ends_in}");
                }
                assert!(segments(&image).len() <= own, "{durability:?} {ends_in}: files stay");
                assert!(reopened.verify().unwrap().faults.is_empty());
            }
            assert!(rows(&snapshot).unwrap() == held, "{durability:?} {ends_in}");
            if is_done {
                assert!(ends_in > 3, "{ends_in} operations");
                spilled.unwrap();
                break;
            }
        }
    }
}

#[test]
fn what_does_not_fit_the_disk_stays_in_memory_until_it_does() {
    let directory = FaultDirectory::new();
    let (db, table, snapshot) = flushed_beneath(&directory, Durability::Os);
    let before = rows(&snapshot).unwrap();
    let held = || db.stats().unwrap().writer.unwrap().snapshot_row_bytes;
    let in_memory = held();
    assert!(in_memory > 0);
    directory.set_capacity(Some(0));
    let error = db.spill_snapshots().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    assert_eq!(held(), in_memory);
    assert!(rows(&snapshot).unwrap() == before);
    directory.set_capacity(None);
    db.spill_snapshots().unwrap();
    assert_eq!(held(), 0);
    assert!(rows(&snapshot).unwrap() == before);
    EVENTS.append(&table, &[1]);
    assert_eq!(db.stats().unwrap().writer.unwrap().failure, None);
}

/// By itself: memory is full of what a snapshot holds, the disk is full, and then has room.
#[test]
fn spilling_is_tried_again_once_there_is_room() {
    let directory = FaultDirectory::new();
    let db = open(&directory, Durability::Os).unwrap();
    let table = db.create_table("events", Events::spec_of(Kind::Append)).unwrap();
    let hold = db.hold_maintenance();
    let mut snapshots = Vec::new();
    let row_bytes = || db.stats().unwrap().row_bytes;
    let budget = db.stats().unwrap().writer.unwrap().memory_bytes_limit;
    let mut next = 0;
    while row_bytes() < budget {
        EVENTS.append(&table, &(next..next + ROWS).collect::<Vec<_>>());
        next += ROWS;
        snapshots.push(table.snapshot().unwrap());
        db.flush().unwrap();
    }
    directory.set_capacity(Some(0));
    drop(hold);
    std::thread::sleep(Duration::from_millis(300));
    assert!(row_bytes() >= budget, "there was no room");
    assert_eq!(db.stats().unwrap().writer.unwrap().failure, None);
    directory.set_capacity(None);
    let started = Instant::now();
    while row_bytes() > budget / 8 * 7 {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited in vain for rows to be spilled"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    for (number, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.rows().unwrap(), ROWS as u64 * (number as u64 + 1));
    }
}

/// Each read of a spill, of the scan that it finds under way, and of the snapshot after it fails once.
#[test]
fn a_file_of_a_snapshot_that_cannot_be_read_is_an_error_of_that_snapshot() {
    let (mut failed, mut whole) = (0, 0);
    for fails_at in 0.. {
        let directory = FaultDirectory::new();
        let (db, table, snapshot) = flushed_beneath(&directory, Durability::Os);
        let before = rows(&snapshot).unwrap();
        let request = ScanRequest { threads: Some(1), batch_rows: Some(100), ..Default::default() };
        let mut scan = snapshot.scan(request).unwrap();
        let first = scan.next().unwrap().unwrap();
        let read = directory.reads();
        directory.set_read_fault(Some(ReadFault::Device(read + fails_at)));
        let spilled = db.spill_snapshots();
        // What it could not go on with it has in memory.
        let half: Vec<RecordBatch> = scan
            .by_ref()
            .take(10)
            .map(|rows| {
                rows.unwrap_or_else(|error| {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    first.slice(0, 0)
                })
            })
            .collect();
        let now = rows(&snapshot);
        let is_past = directory.reads() <= read + fails_at;
        directory.set_read_fault(None);
        match (&spilled, &now) {
            (Err(error), _) | (_, Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                failed += 1;
            }
            (Ok(()), Ok(now)) => {
                assert!(*now == before, "read {fails_at}");
                whole += 1;
            }
        }
        drop((half, first));
        assert!(rows(&snapshot).unwrap() == before, "read {fails_at}: it was no damage");
        assert_eq!(table.snapshot().unwrap().rows().unwrap(), ROWS as u64);
        assert_eq!(db.stats().unwrap().writer.unwrap().failure, None, "read {fails_at}");
        if is_past {
            break;
        }
    }
    assert!(failed > 3 && whole > 0, "{failed} failed, {whole} did not");
}
