//! Many threads at once: every snapshot is consistent, nothing is lost, nothing hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{Array, ArrayRef, Int64Array};
use drillcore::{
    Database, Durability, ErrorKind, OnError, Options, SampleRequest, Selection, Table,
    TableSnapshot,
};
use drillcore_sample::rng::Rng;
use drillcore_testkit::deadline::within;
use drillcore_testkit::event_table::{Events, id_range, ids, scan_ids};
use drillcore_testkit::repetitions::repetitions;

const PATIENCE: Duration = Duration::from_secs(60);
const WRITERS: i64 = 4;
/// Row `seq` of writer `w` has id `seq * WRITERS + w`, so the set column names the writer.
const EVENTS: Events = Events { teams: WRITERS, payload_bytes: 30 };
const SEED: u64 = 0x5eed_3000;

/// Small enough that rows are flushed and segments merged all the time.
fn options() -> Options {
    Options { memory_bytes: 2 << 20, cache_bytes: 1 << 20, ..Default::default() }
}

/// How many rows of each writer are there, which must be its first ones.
fn prefixes(ids: &[i64]) -> Vec<i64> {
    let mut rows = vec![0; WRITERS as usize];
    let mut last = i64::MIN;
    for &id in ids {
        assert!(id > last, "rows come in key order, each once: {id} after {last}");
        last = id;
        rows[(id % WRITERS) as usize] += 1;
    }
    for &id in ids {
        let (writer, seq) = (id % WRITERS, id / WRITERS);
        let known = rows[writer as usize];
        assert!(seq < known, "row {seq} of writer {writer} without one of the {known} before");
    }
    rows
}

fn check_consistent(snapshot: &TableSnapshot, batch_rows: i64) -> Vec<i64> {
    let found = scan_ids(snapshot, &Selection::default());
    let rows = prefixes(&found);
    assert!(rows.iter().all(|rows| rows % batch_rows == 0), "whole batches only: {rows:?}");
    assert_eq!(snapshot.rows().unwrap(), found.len() as u64);
    assert_eq!(snapshot.count(&Selection::default()).unwrap(), found.len() as u64);
    let sets = snapshot.sets().unwrap();
    assert_eq!(sets.rows.iter().sum::<u64>(), found.len() as u64);
    assert_eq!(sets.values.len(), sets.rows.len());
    for writer in 0..WRITERS {
        let counted = snapshot.count(&EVENTS.of_team(writer)).unwrap();
        assert_eq!(counted, rows[writer as usize] as u64, "writer {writer}");
    }
    rows
}

fn check_sample(snapshot: &TableSnapshot, n: u64, seed: u64) {
    let mut rng = Rng::keyed(seed, 9);
    let middle = rng.below(snapshot.rows().unwrap().max(1)) as i64;
    let selection = match rng.below(3) {
        0 => Selection::default(),
        1 => EVENTS.of_team(rng.below(WRITERS as u64) as i64),
        _ => id_range(middle / 2, middle),
    };
    let request = SampleRequest {
        n,
        selection: selection.clone(),
        at_most: true,
        seed: Some(seed),
        ..Default::default()
    };
    let sample = snapshot.sample(&request).unwrap();
    let mut drawn = ids(&sample);
    let there = snapshot.count(&selection).unwrap();
    assert_eq!(drawn.len() as u64, n.min(there), "seed {seed}");
    assert_eq!(drawn, ids(&snapshot.sample(&request).unwrap()), "one seed, one sample: {seed}");
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len() as u64, n.min(there), "a row twice: seed {seed}");
    let key: ArrayRef = Arc::new(Int64Array::from(drawn.clone()));
    let found = snapshot.get(&[key], Some(&["id".into()])).unwrap();
    assert!(found.positions.iter().all(Option::is_some), "drawn rows are there: seed {seed}");
    assert_eq!(ids(&found.rows), drawn);
}

#[test]
fn snapshots_taken_beside_writers_and_maintenance_are_consistent() {
    const BATCH_ROWS: i64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path, options()).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    let run_for = Duration::from_secs(repetitions(8));
    let started = Instant::now();
    let is_over = move || started.elapsed() >= run_for;
    let batches: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let (looks, samples, compactions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (table, acknowledged) = (&table, &batches[writer as usize]);
            scope.spawn(move || {
                let mut rng = Rng::keyed(SEED, writer as u64);
                while !is_over() {
                    let batch = acknowledged.load(Ordering::SeqCst) as i64;
                    let seqs = batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS;
                    let ids: Vec<i64> = seqs.rev().map(|seq| seq * WRITERS + writer).collect();
                    let result = EVENTS.append(table, &ids);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    // Its own commit is visible to a snapshot taken after it.
                    assert!(table.snapshot().unwrap().lsn() >= result.lsn);
                    // Not as fast as it can: the table stays small enough to be scanned often.
                    thread::sleep(Duration::from_millis(rng.below(10)));
                }
            });
        }
        for sampler in 0..2 {
            let (table, samples) = (&table, &samples);
            scope.spawn(move || {
                let mut seed = SEED + (sampler << 32);
                while !is_over() {
                    seed += 1;
                    check_sample(&table.snapshot().unwrap(), seed % 300, seed);
                    samples.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut kept: Option<(TableSnapshot, Vec<i64>)> = None;
            while !is_over() {
                let before: Vec<u64> = batches.iter().map(|b| b.load(Ordering::SeqCst)).collect();
                let snapshot = table.snapshot().unwrap();
                let rows = check_consistent(&snapshot, BATCH_ROWS);
                for (rows, acknowledged) in rows.iter().zip(before) {
                    assert!(
                        *rows >= acknowledged as i64 * BATCH_ROWS,
                        "an acknowledged batch lacks"
                    );
                }
                // An old snapshot stays as it was, whatever was merged and removed beneath it.
                if let Some((old, old_rows)) = &kept {
                    assert_eq!(&check_consistent(old, BATCH_ROWS), old_rows);
                }
                if looks.fetch_add(1, Ordering::Relaxed) % 4 == 0 {
                    kept = Some((snapshot, rows));
                }
            }
        });
        scope.spawn(|| {
            while !is_over() {
                db.compact().unwrap();
                compactions.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(50));
            }
        });
    });
    let stats = db.stats().unwrap();
    let writer = stats.writer.unwrap();
    println!(
        "{} rows, {} scans, {} samples, {} compactions, {} joins, {} flushes, {} merges",
        stats.tables[0].rows,
        looks.load(Ordering::Relaxed),
        samples.load(Ordering::Relaxed),
        compactions.load(Ordering::Relaxed),
        writer.memory_compactions,
        writer.flushes,
        writer.merges
    );
    assert!(looks.load(Ordering::Relaxed) > 3 && compactions.load(Ordering::Relaxed) > 3);
    assert!(writer.flushes > 0 && writer.merges > 0);
    let expected: Vec<i64> =
        batches.iter().map(|b| b.load(Ordering::SeqCst) as i64 * BATCH_ROWS).collect();
    assert_eq!(check_consistent(&table.snapshot().unwrap(), BATCH_ROWS), expected);
    db.close().unwrap();
    let db = Database::open(&path, options()).unwrap();
    let snapshot = db.table("events").unwrap().snapshot().unwrap();
    assert_eq!(check_consistent(&snapshot, BATCH_ROWS), expected, "after reopening");
    let report = db.verify().unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
}

/// Appends until the engine refuses, and gives the number of batches it took and what it said.
fn append_until_refused(table: &Table, writer: i64) -> (u64, ErrorKind) {
    for batch in 0.. {
        let seqs = batch * 100..(batch + 1) * 100;
        let ids: Vec<i64> = seqs.map(|seq| seq * WRITERS + writer).collect();
        if let Err(error) = table.append(&EVENTS.batch(&ids), OnError::Raise) {
            return (batch as u64, error.kind());
        }
    }
    unreachable!("the batches do not end")
}

#[test]
fn a_table_dropped_beside_readers_and_writers_stays_readable_in_old_snapshots() {
    for round in 0..repetitions(10) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Database::open(&path, options()).unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        let other = db.create_table("other", Events::spec()).unwrap();
        other.append(&EVENTS.batch(&[1, 2, 3]), OnError::Raise).unwrap();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let table = table.clone();
                thread::spawn(move || append_until_refused(&table, writer))
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let (table, stop) = (table.clone(), stop.clone());
            move || {
                let mut kept: Vec<(TableSnapshot, usize)> = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    match table.snapshot() {
                        Ok(snapshot) => {
                            let rows = scan_ids(&snapshot, &Selection::default()).len();
                            kept.push((snapshot, rows));
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                    }
                    if let Some((old, rows)) = kept.last() {
                        assert_eq!(scan_ids(old, &Selection::default()).len(), *rows);
                        check_sample(old, 20, SEED + *rows as u64);
                    }
                }
                kept
            }
        });
        thread::sleep(Duration::from_millis(40 + 7 * round));
        db.drop_table("events").unwrap();
        thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            let (_, kind) =
                within(PATIENCE, "a writer of a dropped table", move || writer.join().unwrap());
            assert_eq!(kind, ErrorKind::NotFound);
        }
        let kept = within(PATIENCE, "a reader of a dropped table", move || reader.join().unwrap());
        assert_eq!(db.tables().unwrap(), ["other"]);
        assert_eq!(other.snapshot().unwrap().rows().unwrap(), 3);
        for (snapshot, rows) in &kept {
            assert_eq!(scan_ids(snapshot, &Selection::default()).len(), *rows, "round {round}");
        }
        drop(kept);
        db.compact().unwrap();
        wait_for_memory_back(&db);
        // The name is free again.
        let again = db.create_table("events", Events::spec()).unwrap();
        again.append(&EVENTS.batch(&[7]), OnError::Raise).unwrap();
        db.close().unwrap();
        let db = Database::open(&path, options()).unwrap();
        let reopened = db.table("events").unwrap().snapshot().unwrap();
        assert_eq!(scan_ids(&reopened, &Selection::default()), [7], "round {round}");
    }
}

/// After the last row of a dropped table is gone, the budget holds nothing of it.
fn wait_for_memory_back(db: &Database) {
    drillcore_testkit::deadline::wait_until(PATIENCE, "the budget is free", || {
        db.stats().unwrap().buffered_bytes == 0
    });
}

#[test]
fn closing_beside_writers_gives_typed_errors_and_loses_nothing_acknowledged() {
    close_beside_writers(Durability::Os);
}

/// Without a log, closing has to write out what was acknowledged up to the last moment.
#[test]
fn closing_without_a_log_beside_writers_loses_nothing_acknowledged() {
    close_beside_writers(Durability::None);
}

fn close_beside_writers(durability: Durability) {
    for round in 0..repetitions(10) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Database::open(&path, Options { durability, ..options() }).unwrap();
        let table = db.create_table("events", Events::spec()).unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let table = table.clone();
                thread::spawn(move || append_until_refused(&table, writer))
            })
            .collect();
        thread::sleep(Duration::from_millis(30 + 10 * round));
        let hold = (round % 3 == 0).then(|| db.hold_maintenance());
        if hold.is_some() {
            // Long enough for all writers to wait at the limit.
            thread::sleep(Duration::from_millis(200));
        }
        let closing = db.clone();
        within(PATIENCE, "closing", move || closing.close().unwrap());
        let mut acknowledged = Vec::new();
        for writer in writers {
            let (batches, kind) =
                within(PATIENCE, "a writer of a closed database", move || writer.join().unwrap());
            assert_eq!(kind, ErrorKind::Closed);
            acknowledged.push(batches);
        }
        assert_eq!(table.snapshot().err().map(|error| error.kind()), Some(ErrorKind::Closed));
        drop((hold, table, db));
        let db = Database::open(&path, options()).unwrap();
        let snapshot = db.table("events").unwrap().snapshot().unwrap();
        let rows = check_consistent(&snapshot, 100);
        for (rows, batches) in rows.iter().zip(&acknowledged) {
            assert!(
                *rows >= *batches as i64 * 100,
                "round {round}: {rows} rows of {batches} batches"
            );
        }
    }
}

/// Names and lengths of all files.
fn files(path: &std::path::Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            Some((entry.file_name().into_string().ok()?, entry.metadata().ok()?.len()))
        })
        .collect();
    files.sort_unstable();
    files
}

/// Another process may open the files as soon as `close` has returned.
#[test]
fn nothing_is_written_after_closing_beside_a_compaction() {
    for round in 0..repetitions(5) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Database::open(&path, Options::default()).unwrap();
        let hold = db.hold_maintenance();
        let table = db.create_table("events", Events::spec()).unwrap();
        for part in 0..4 {
            for batch in 0..5 {
                let ids: Vec<i64> = (0..5_000).map(|i| (i * 5 + batch) * 4 + part).collect();
                EVENTS.append(&table, &ids);
            }
            db.flush().unwrap();
        }
        let compacting = db.clone();
        let thread = thread::spawn(move || compacting.compact());
        thread::sleep(Duration::from_millis(5 * round));
        within(PATIENCE, "closing", {
            let db = db.clone();
            move || db.close().unwrap()
        });
        let closed = files(&path);
        match thread.join().unwrap() {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(files(&path), closed, "round {round}");
        drop((hold, table, db));
        let db = Database::open(&path, Options::default()).unwrap();
        let snapshot = db.table("events").unwrap().snapshot().unwrap();
        assert_eq!(scan_ids(&snapshot, &Selection::default()), (0..100_000).collect::<Vec<_>>());
    }
}
