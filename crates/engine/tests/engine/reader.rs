//! Readers beside a writer: they see complete commits in order, move on when refreshed, and never lose a file
//! that they read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::values_spec;

const CACHE_BYTES: u64 = 1 << 20;

fn batch(commit: i64, rows: i64) -> RecordBatch {
    let ids: Int64Array =
        (0..rows).map(|row| Some((commit * rows + row) * 7919 % 100_003)).collect();
    let commits = Int64Array::from(vec![commit; rows as usize]);
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(commits)];
    RecordBatch::try_new(values_spec(Merge::Append).columns, columns).unwrap()
}

/// How many rows of each commit a snapshot shows.
fn commits(snapshot: &TableSnapshot) -> Vec<u64> {
    let mut rows = Vec::new();
    for batch in snapshot.scan(ScanRequest::default()).unwrap() {
        for &commit in batch.unwrap().column(1).as_primitive::<Int64Type>().values() {
            rows.resize(rows.len().max(commit as usize + 1), 0);
            rows[commit as usize] += 1;
        }
    }
    rows
}

#[test]
fn a_refresh_reads_what_is_new_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    for commit in 0..300 {
        table.append(&batch(commit, 100), OnError::Raise).unwrap();
    }
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let refreshed = || {
        reader.refresh().unwrap();
        let found = commits(&reader.snapshot().unwrap().table("t").unwrap());
        assert!(found.iter().all(|rows| *rows == 100));
        (found.len(), reader.stats().unwrap().refresh_bytes.unwrap())
    };
    let whole = reader.stats().unwrap().refresh_bytes.unwrap();
    assert!(whole > 300 * 100, "{whole} bytes");
    assert_eq!(whole, reader.stats().unwrap().wal_bytes);
    assert_eq!(refreshed(), (300, 0));
    table.append(&batch(300, 100), OnError::Raise).unwrap();
    let (seen, bytes) = refreshed();
    assert!(seen == 301 && bytes > 0 && bytes < whole / 100, "{seen} commits, {bytes} bytes");
    assert_eq!(reader.stats().unwrap().wal_bytes, whole + bytes);

    // Another table, and a wider one: runs that were read stay.
    let other = db.create_table("other", values_spec(Merge::Upsert)).unwrap();
    other.append(&batch(0, 100), OnError::Raise).unwrap();
    table.add_column("more", &DataType::Int64).unwrap();
    table.append(&batch(301, 100), OnError::Raise).unwrap();
    let (seen, bytes) = refreshed();
    assert!(seen == 302 && bytes < whole / 50, "{seen} commits, {bytes} bytes");
    let found = commits(&reader.snapshot().unwrap().table("other").unwrap());
    assert_eq!(found, [100]);

    // What is in segments now is in memory no more.
    db.flush().unwrap();
    table.append(&batch(302, 100), OnError::Raise).unwrap();
    assert_eq!(refreshed().0, 303);
    let stats = reader.stats().unwrap();
    let of_table = stats.tables.iter().find(|table| table.name == "t").unwrap();
    assert_eq!((of_table.rows, of_table.runs), (303 * 100, 1));
    table.append(&batch(303, 100), OnError::Raise).unwrap();
    let (seen, bytes) = refreshed();
    assert!(seen == 304 && bytes < whole / 100, "{seen} commits, {bytes} bytes");
    db.drop_table("t").unwrap();
    reader.refresh().unwrap();
    assert!(reader.snapshot().unwrap().table("t").is_err());
}

#[test]
fn a_leftover_that_a_reader_holds_back_lends_its_number_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), Options::default()).unwrap();
    let db = open();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&batch(0, 100), OnError::Raise).unwrap();
    db.flush().unwrap();
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    drop(table);
    db.close().unwrap();
    drop(db);
    // As a crash leaves it that cut a segment off.
    let leftover = folder.path().join("segment-00000002.drill");
    assert!(folder.path().join("segment-00000001.drill").exists() && !leftover.exists());
    std::fs::write(&leftover, b"half a segment").unwrap();
    let db = open();
    assert!(leftover.exists(), "held back");
    let table = db.table("t").unwrap();
    table.append(&batch(1, 100), OnError::Raise).unwrap();
    db.flush().unwrap();
    assert_eq!(commits(&table.snapshot().unwrap()), [100, 100]);
    drop(reader);
    table.append(&batch(2, 100), OnError::Raise).unwrap();
    db.compact().unwrap();
    assert_eq!(commits(&table.snapshot().unwrap()), [100, 100, 100]);
}

fn held_back_bytes(db: &Database) -> u64 {
    db.stats().unwrap().writer.unwrap().held_back_bytes
}

#[test]
fn a_reader_follows_a_writer_and_keeps_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        Database::open_read_only(
            folder.path(),
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() }
        )
        .err()
        .unwrap()
        .kind(),
        ErrorKind::NotFound
    );
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&batch(0, 100), OnError::Raise).unwrap();
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let old = reader.snapshot().unwrap().table("t").unwrap();
    assert_eq!(commits(&old), [100], "from the log alone");

    db.flush().unwrap();
    let lsn = table.append(&batch(1, 100), OnError::Raise).unwrap().lsn;
    assert_eq!(
        commits(&reader.snapshot().unwrap().table("t").unwrap()),
        [100],
        "not before a refresh"
    );
    let seen = reader.refresh_to(lsn, Duration::ZERO).unwrap();
    assert_eq!(seen, lsn);
    let held = reader.snapshot().unwrap().table("t").unwrap();
    assert_eq!(commits(&held), [100, 100], "a segment and the log");

    db.flush().unwrap();
    db.compact().unwrap();
    assert!(held_back_bytes(&db) > 0, "the leased segment waits for the reader");
    assert_eq!((commits(&old), commits(&held)), (vec![100], vec![100, 100]));
    reader.refresh_to(lsn, Duration::ZERO).unwrap();
    table.append(&batch(2, 100), OnError::Raise).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    reader.refresh().unwrap();
    let error = reader.refresh_to(Lsn(1_000), Duration::from_millis(30)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Behind);
    assert_eq!(commits(&reader.snapshot().unwrap().table("t").unwrap()), [100, 100, 100]);

    reader.close().unwrap();
    assert_eq!(reader.snapshot().err().unwrap().kind(), ErrorKind::Closed);
    db.close().unwrap();
    // Two readers and no writer.
    let readers = [0, 1].map(|_| {
        Database::open_read_only(
            folder.path(),
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
        )
        .unwrap()
    });
    for reader in &readers {
        assert_eq!(commits(&reader.snapshot().unwrap().table("t").unwrap()), [100, 100, 100]);
    }
    drop(readers);
    let leases = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|name| name.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("lease-")).count()
    };
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert!(held_back_bytes(&db) > 0, "a snapshot that is held needs its files");
    assert_eq!((commits(&held), leases()), (vec![100, 100], 1));
    drop(held);
    db.close().unwrap();
    drop(db);
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!((held_back_bytes(&db), leases()), (0, 0), "no lease outlives who reads");
}

/// The writer's own snapshots outlive its closing, and the next writer leaves them their files.
#[test]
fn a_snapshot_of_a_closed_database_keeps_its_files_from_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), Options::default()).unwrap();
    let files = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|name| name.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.starts_with("segment-") || name.starts_with("lease-")).count()
    };
    let db = open();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    for number in 0..2 {
        table.append(&batch(number, 100), OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    let held = table.snapshot().unwrap();
    db.close().unwrap();
    drop((table, db));
    let db = open();
    db.compact().unwrap();
    assert_eq!(
        (commits(&held), files()),
        (vec![100, 100], 4),
        "two segments, their sum and a lease"
    );
    drop(held);
    let table = db.table("t").unwrap();
    table.append(&batch(2, 100), OnError::Raise).unwrap();
    db.compact().unwrap();
    assert_eq!((commits(&table.snapshot().unwrap()), files()), (vec![100, 100, 100], 1));
    db.close().unwrap();
    assert_eq!(files(), 1, "nothing is held");
}

/// A writer with a tiny budget appends, flushes, merges, compacts and reopens without pause; two readers
/// refresh as fast as they can. Every snapshot shows whole commits, from the first to some last one.
#[test]
fn every_refresh_beside_a_busy_writer_shows_a_prefix_of_whole_commits() {
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: 1 << 20, ..Default::default() };
        let db = Database::open(folder.path(), options.clone()).unwrap();
        db.create_table("t", values_spec(merge.clone())).unwrap();
        drop(db);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let reader = Database::open_read_only(
                            folder.path(),
                            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
                        )
                        .unwrap();
                        let (mut last, mut looks) = (0, 0);
                        while !done.load(Ordering::Relaxed) {
                            reader.refresh().unwrap();
                            let snapshot = reader.snapshot().unwrap().table("t").unwrap();
                            let commits = commits(&snapshot);
                            assert!(commits.iter().all(|&rows| rows == 300), "{commits:?}");
                            assert!(commits.len() >= last, "a reader went back");
                            assert_eq!(snapshot.rows().unwrap(), commits.len() as u64 * 300);
                            (last, looks) = (commits.len(), looks + 1);
                        }
                        looks
                    })
                })
                .collect();
            let mut commit = 0;
            for _ in 0..6 {
                let db = Database::open(folder.path(), options.clone()).unwrap();
                let table = db.table("t").unwrap();
                for _ in 0..40 {
                    table.append(&batch(commit, 300), OnError::Raise).unwrap();
                    commit += 1;
                }
                db.compact().unwrap();
                db.close().unwrap();
            }
            done.store(true, Ordering::Relaxed);
            let looks: Vec<i32> =
                readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            assert!(looks.iter().all(|&looks| looks >= 5), "{looks:?} refreshes");
        });
    }
}

/// A reader reads the manifest first and the log after it. A table made in between is in the second only.
#[test]
fn a_commit_to_a_table_made_meanwhile_shows_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    db.create_table("all", values_spec(Merge::Append)).unwrap();
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = Database::open_read_only(
                folder.path(),
                ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
            )
            .unwrap();
            while !done.load(Ordering::Relaxed) {
                reader.refresh().unwrap();
                let snapshot = reader.snapshot().unwrap();
                let rows = |name: &str| snapshot.table(name).unwrap().rows().unwrap();
                let made = snapshot.tables().into_iter().filter(|name| name != "all");
                assert_eq!(rows("all"), made.map(|name| rows(&name)).sum::<u64>());
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let has_looked = || looks.load(Ordering::Relaxed) > 5 || reader.is_finished();
        for number in (0..).take_while(|&number| number < 150 || !has_looked()) {
            let name = format!("part{number}");
            db.create_table(&name, values_spec(Merge::Append)).unwrap();
            let rows = batch(number, 10);
            db.append(&[("all", &rows), (&name, &rows)]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// The writer replaces segments all the while, those that are just being checked among them.
#[test]
fn verify_beside_merges_and_dropped_snapshots_finds_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&batch(0, 100), OnError::Raise).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checks = scope.spawn(|| {
            let reader = Database::open_read_only(
                folder.path(),
                ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
            )
            .unwrap();
            let (mut checks, mut segments) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let report = reader.verify().unwrap();
                assert_eq!(report.faults, Vec::<String>::new());
                segments += report.segments;
                checks += 1;
                if checks % 2 == 0 {
                    reader.refresh().unwrap();
                }
            }
            (checks, segments)
        });
        for step in 1..120 {
            table.append(&batch(step, 100), OnError::Raise).unwrap();
            db.flush().unwrap();
            if step % 5 == 0 {
                let name = format!("s{}", step % 3);
                drop(db.named_snapshot(&name).unwrap());
                db.compact().unwrap();
                db.drop_snapshot(&name).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        let (checks, segments) = checks.join().unwrap();
        assert!(checks > 10 && segments > checks, "{checks} checks of {segments} segments");
    });
}

#[test]
fn a_reader_reports_every_damaged_segment_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&batch(0, 1_000), OnError::Raise).unwrap();
    db.named_snapshot("before").unwrap();
    table.append(&batch(1, 1_000), OnError::Raise).unwrap();
    db.compact().unwrap();
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let whole = reader.verify().unwrap();
    assert_eq!((whole.segments, whole.rows, whole.faults.len()), (2, 3_000, 0));

    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        names.filter(|path| path.to_string_lossy().contains("segment-")).collect();
    segments.sort();
    let [of_snapshot, of_table] = &segments[..] else { panic!("{segments:?}") };
    let mut bytes = std::fs::read(of_table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(of_table, bytes).unwrap();
    std::fs::remove_file(of_snapshot).unwrap();
    let report = reader.verify().unwrap();
    assert_eq!((report.segments, report.rows), (2, 2_000));
    assert!(report.faults[0].contains("cannot open"), "{:?}", report.faults);
    assert!(report.faults[1].contains("checksum"), "{:?}", report.faults);

    let stopped = reader.interrupted_by(Interrupt::new(Arc::new(|| true)));
    assert_eq!(stopped.verify().unwrap_err().kind(), ErrorKind::Interrupted);
    reader.close().unwrap();
    assert_eq!(stopped.verify().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_stats_of_a_reader_tell_what_it_holds_and_nothing_of_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("z", values_spec(Merge::Append)).unwrap();
    db.create_table("a", values_spec(Merge::Upsert)).unwrap();
    table.append(&batch(0, 1_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let lsn = table.append(&batch(1, 100), OnError::Raise).unwrap().lsn;
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let (writer, stats) = (db.stats().unwrap(), reader.stats().unwrap());
    assert_eq!((stats.lsn, stats.wal_bytes), (lsn, writer.wal_bytes));
    assert!(stats.wal_bytes > 0);
    assert_eq!(stats.cache_bytes_limit, CACHE_BYTES);
    for (found, of_writer) in stats.tables.iter().zip(&writer.tables) {
        let mut expected = of_writer.clone();
        (expected.appended_rows, expected.appended_batches) = (None, None);
        assert_eq!(*found, expected);
    }
    assert_eq!((stats.tables.len(), stats.tables[0].rows, stats.tables[0].runs), (2, 1_100, 1));
    assert_eq!(stats.buffered_bytes, stats.tables[0].run_bytes);
    assert_eq!(stats.writer, None);
    assert!(writer.writer.unwrap().flushes > 0);
    let json = stats.to_json();
    for part in
        ["\"rows\":1100,", "\"flushes\":null,", "\"appended_rows\":null,", "\"failure\":null"]
    {
        assert!(json.contains(part), "{part} is missing in {json}");
    }

    assert_eq!(stats.blocks_read, 0);
    assert_eq!(commits(&reader.snapshot().unwrap().table("z").unwrap()), [1_000, 100]);
    assert!(reader.stats().unwrap().blocks_read > 0, "its own reads are counted");
    assert_eq!(db.stats().unwrap().blocks_read, 0, "and not those of the writer");
    reader.close().unwrap();
    assert_eq!(reader.stats().unwrap_err().kind(), ErrorKind::Closed);
}

/// A snapshot's segment holds a commit that the log lost with its newest file.
#[test]
fn a_log_that_ends_too_early_is_damage_to_a_reader_as_to_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table =
            db.create_table("t", TableSpec { exist_ok: true, ..values_spec(Merge::Append) });
        table.unwrap().append(&batch(round, 10), OnError::Raise).unwrap();
        if round == 1 {
            db.named_snapshot("both").unwrap();
        }
        db.close().unwrap();
    }
    assert_eq!(
        Database::open_read_only(
            folder.path(),
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() }
        )
        .unwrap()
        .snapshot()
        .unwrap()
        .lsn(),
        Lsn(2)
    );
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = names.filter(|path| path.to_string_lossy().contains("wal-"));
    std::fs::remove_file(log.max().unwrap()).unwrap();
    let errors = [
        Database::open_read_only(
            folder.path(),
            ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
        )
        .err()
        .unwrap(),
        Database::open(folder.path(), Options::default()).err().unwrap(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let message = "the log ends at commit 1, but segments have commits up to 2; restore the log \
                       from a copy";
        assert_eq!(error.to_string(), message);
    }
}
