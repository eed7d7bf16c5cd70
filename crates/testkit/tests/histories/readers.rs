//! Readers beside a busy writer of tables of all kinds: what they show is always a state that there was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use drillcore::*;
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches};
use drillcore_testkit::repetitions::repetitions;
use drillcore_testkit::writing_calls::{WRITING_CALLS, prepare};

const WRITER: i32 = 1;
const READERS: u64 = 2;

fn options() -> Options {
    Options { memory_bytes: Options::MEMORY_BYTES_MIN, wal_bytes_max: 40_000, ..Default::default() }
}

fn last_batch(snapshot: &Snapshot) -> u64 {
    last_batches(snapshot).get(&WRITER).copied().unwrap_or(0)
}

/// Refreshes until the writer is done: each snapshot shows whole batches in all tables alike, at least those
/// acknowledged before the refresh, and goes on showing them; each named snapshot shows the batch that it is
/// named after, dropped meanwhile or not; and nothing is damaged. Returns the number of looks.
fn look(folder: &std::path::Path, acknowledged: &AtomicU64, is_done: &AtomicBool) -> u64 {
    let reader = Database::open_read_only(
        folder,
        ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
    )
    .unwrap();
    let mut looks = 0;
    let mut before = (0, reader.snapshot().unwrap());
    before.0 = last_batch(&before.1);
    while !is_done.load(Ordering::Acquire) {
        let at_least = acknowledged.load(Ordering::Acquire);
        let lsn = reader.refresh().unwrap();
        let snapshot = reader.snapshot().unwrap();
        assert_eq!(snapshot.lsn(), lsn);
        let found = last_batch(&snapshot);
        assert!(found >= at_least.max(before.0), "{found} of {at_least}, {} before", before.0);
        assert_eq!(last_batch(&before.1), before.0, "an older snapshot stays as it is");
        for (name, lsn) in reader.snapshots().unwrap() {
            let pinned = reader.named_snapshot(&name).unwrap();
            assert_eq!((format!("at {}", last_batch(&pinned)), pinned.lsn()), (name, lsn));
        }
        if looks % 4 == 0 {
            let report = reader.verify().unwrap();
            assert_eq!(report.faults, Vec::<String>::new());
        }
        before = (found, snapshot);
        looks += 1;
    }
    looks
}

/// The writer flushes for the log's sake, compacts, pins and drops named snapshots, and reopens.
#[test]
fn each_refresh_shows_a_prefix_of_whole_batches_in_tables_of_all_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    create_tables(&Database::open(&path, options()).unwrap()).unwrap();
    let (acknowledged, is_done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (path, acknowledged, is_done) =
                (path.clone(), acknowledged.clone(), is_done.clone());
            std::thread::spawn(move || look(&path, &acknowledged, &is_done))
        })
        .collect();
    let mut number = 0;
    for round in 0..repetitions(6) {
        let database = Database::open(&path, options()).unwrap();
        for step in 0..60 {
            number += 1;
            append(&database, WRITER, number).unwrap();
            acknowledged.store(number, Ordering::Release);
            match step {
                20 => drop(database.named_snapshot(&format!("at {number}")).unwrap()),
                40 => database.compact().unwrap(),
                _ => {}
            }
        }
        let pinned = database.snapshots().unwrap();
        for (name, _) in &pinned {
            let found = last_batch(&database.named_snapshot(name).unwrap());
            assert_eq!(format!("at {found}"), *name);
        }
        if round % 2 == 1 {
            database.drop_snapshot(&pinned[0].0).unwrap();
        }
        database.close().unwrap();
    }
    is_done.store(true, Ordering::Release);
    let looks: Vec<u64> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    println!("{looks:?} looks at {number} batches");
    assert!(looks.iter().all(|&looks| looks >= 5), "{looks:?}");
}

#[test]
fn a_reader_answers_as_the_writer_does_and_refuses_every_call_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Database::open(folder.path(), Options::default()).unwrap();
    prepare(&writer).unwrap();
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    assert!(reader.is_read_only() && !writer.is_read_only());
    let answers = |db: &Database| {
        let of_table = |name: String| {
            let table = db.table(&name).unwrap();
            let rows = table.snapshot().unwrap().rows().unwrap();
            (name, rows, table.schema())
        };
        let tables: Vec<_> = db.tables().unwrap().into_iter().map(of_table).collect();
        let verified = db.verify().unwrap();
        let newest = db.refresh().unwrap();
        assert_eq!(db.snapshot().unwrap().lsn(), newest);
        (tables, db.snapshots().unwrap(), verified.segments, newest, db.stats().unwrap().lsn)
    };
    assert_eq!(answers(&reader), answers(&writer));
    let before = answers(&writer);
    for (name, call) in WRITING_CALLS {
        let error = call(&reader).expect_err(name);
        let expected = match name {
            "named_snapshot" => ErrorKind::NotFound,
            _ => ErrorKind::ReadOnly,
        };
        assert_eq!(error.kind(), expected, "{name}: {error}");
    }
    drop(reader.hold_maintenance());
    assert_eq!(answers(&writer), before);
    reader.close().unwrap();
    assert_eq!(reader.tables().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(reader.refresh().unwrap_err().kind(), ErrorKind::Closed);
}
