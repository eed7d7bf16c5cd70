//! Backups: what they hold, what they share, what they refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::directory::MemoryDirectory;
use drillcore::*;

use crate::fixtures::{place_rows, places_spec};

/// Every row of every table, as text.
fn rows(snapshot: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let of_table = |name: String| {
        let scan = snapshot.table(&name).unwrap().scan(ScanRequest::default()).unwrap();
        let batches: Vec<RecordBatch> = scan.map(|batch| batch.unwrap()).collect();
        let texts = batches.iter().flat_map(|batch| {
            let (ids, places) = (
                batch.column(0).as_primitive::<Int64Type>().clone(),
                batch.column(1).as_string::<i32>().clone(),
            );
            (0..batch.num_rows())
                .map(move |row| format!("{} {}", ids.value(row), places.value(row)))
        });
        (name, texts.collect())
    };
    snapshot.tables().into_iter().map(of_table).collect()
}

fn sample(snapshot: &Snapshot, table: &str) -> Vec<i64> {
    let request = SampleRequest { n: 20, seed: Some(9), ..Default::default() };
    let drawn = snapshot.table(table).unwrap().sample(&request).unwrap();
    drawn.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn read(path: &Path) -> Database {
    Database::open_read_only(path, ReadOptions::default()).unwrap()
}

fn restored(backup: &Path) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("restored");
    restore(backup, &path, false, &Interrupt::never()).unwrap();
    let db = Database::open(&path, Options::default()).unwrap();
    assert!(db.verify().unwrap().faults.is_empty());
    (folder, db)
}

fn two_tables(path: &Path, options: Options) -> Database {
    let db = Database::open(path, options).unwrap();
    db.create_table("a", places_spec(Merge::Append)).unwrap();
    db.create_table("u", places_spec(Merge::Upsert)).unwrap();
    db
}

#[test]
fn a_restored_backup_has_what_the_database_had_whatever_came_later() {
    for durability in [Durability::None, Durability::Os, Durability::Fsync] {
        let folder = tempfile::tempdir().unwrap();
        let [path, backup, full] = ["db", "backup", "full"].map(|name| folder.path().join(name));
        let db = two_tables(&path, Options { durability, ..Options::default() });
        let (a, u) = (db.table("a").unwrap(), db.table("u").unwrap());
        db.append(&[("a", &place_rows(0..500, "x")), ("u", &place_rows(0..300, "x"))]).unwrap();
        db.named_snapshot("early").unwrap();
        a.unindex_all_sets().unwrap();
        db.flush().unwrap();
        a.index_all_sets().unwrap();
        a.wait_for_set_index().unwrap();
        db.append(&[("a", &place_rows(500..900, "y")), ("u", &place_rows(200..400, "y"))]).unwrap();
        u.delete(&[Arc::new(Int64Array::from(vec![0, 399]))]).unwrap();
        let low: ArrayRef = Arc::new(Int64Array::from(vec![100]));
        let high: ArrayRef = Arc::new(Int64Array::from(vec![149]));
        let between =
            Between { low: Some(vec![low]), high: Some(vec![high]), closed: Closed::Both };
        let some = Selection { between: Some(between), ..Selection::default() };
        assert_eq!(a.delete_selected(&some).unwrap().rows, 50);

        let now = db.snapshot().unwrap();
        let expected = rows(&now);
        assert_eq!((expected["a"].len(), expected["u"].len()), (850, 398));
        let stored = db.backup(&backup, false).unwrap();
        assert_eq!((stored.lsn, stored.copied_bytes), (now.lsn(), 0));
        assert_eq!((stored.new_files, stored.linked_bytes), (stored.files, stored.bytes));
        let copied = db.backup(&full, true).unwrap();
        assert_eq!((copied.linked_bytes, copied.copied_bytes), (0, copied.bytes));
        let early = sample(&db.named_snapshot("early").unwrap(), "u");

        u.append(&place_rows(0..400, "z"), OnError::Raise).unwrap();
        a.truncate().unwrap();
        db.drop_snapshot("early").unwrap();
        db.compact().unwrap();
        db.drop_table("a").unwrap();
        for backup in [&backup, &full] {
            let reader = read(backup);
            assert_eq!(rows(&reader.snapshot().unwrap()), expected, "read in place");
            assert!(reader.verify().unwrap().faults.is_empty());
            drop(reader);
            let (_folder, db) = restored(backup);
            assert_eq!(rows(&db.snapshot().unwrap()), expected);
            assert_eq!(sample(&db.named_snapshot("early").unwrap(), "u"), early);
            let again = db.table("a").unwrap().append(&place_rows(900..901, "new"), OnError::Raise);
            assert_eq!(u64::from(again.unwrap().lsn), u64::from(stored.lsn) + 1);
            db.compact().unwrap();
            db.close().unwrap();
            assert_eq!(rows(&read(backup).snapshot().unwrap()), expected, "untouched");
        }
        drop(now);
        assert_eq!(db.verify().unwrap().faults, Vec::<String>::new());
    }
}

#[test]
fn a_later_backup_stores_what_is_new_and_forgets_what_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let [path, backup] = ["db", "backup"].map(|name| folder.path().join(name));
    let db = two_tables(&path, Options::default());
    let a = db.table("a").unwrap();
    a.append(&place_rows(0..50_000, "x"), OnError::Raise).unwrap();
    let first = db.backup(&backup, false).unwrap();
    assert_eq!(db.backup(&backup, false).unwrap().new_files, 0);
    a.append(&place_rows(50_000..50_010, "x"), OnError::Raise).unwrap();
    let second = db.backup(&backup, false).unwrap();
    assert_eq!((second.files, second.new_files), (first.files + 1, 1));
    assert!(second.linked_bytes < first.bytes / 4 && second.bytes > first.bytes);
    let reader = read(&backup);
    assert_eq!(reader.snapshot().unwrap().table("a").unwrap().rows().unwrap(), 50_010);
    db.compact().unwrap();
    let third = db.backup(&backup, false).unwrap();
    assert_eq!((third.files, third.new_files), (1, 1));
    let held = rows(&reader.snapshot().unwrap());
    assert_eq!(held["a"].len(), 50_010, "a reader of the earlier backup reads on");
    drop(reader);
    // Through a restart, and with a copy in the place of what was shared.
    db.close().unwrap();
    let db = Database::open(&path, Options::default()).unwrap();
    assert_eq!(db.backup(&backup, false).unwrap().new_files, 0);
    let copied = db.backup(&backup, true).unwrap();
    assert_eq!((copied.new_files, copied.copied_bytes), (1, copied.bytes));
    assert_eq!(db.backup(&backup, true).unwrap().new_files, 0, "it shares nothing any more");
    let names: Vec<String> = std::fs::read_dir(&backup)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 3, "a segment, a manifest and the lock: {names:?}");
    assert_eq!(rows(&restored(&backup).1.snapshot().unwrap()), held);
}

#[test]
fn what_is_no_backup_of_this_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let db = two_tables(&at("db"), Options::default());
    db.table("a").unwrap().append(&place_rows(0..9, "x"), OnError::Raise).unwrap();
    let refused = |path: &Path, kind: ErrorKind, says: &str| {
        let error = db.backup(path, false).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
    };
    std::fs::write(at("file"), "x").unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    std::fs::write(at("folder").join("mine"), "x").unwrap();
    for name in ["file", "empty", "folder", "db"] {
        refused(&at(name), ErrorKind::AlreadyExists, "not a backup");
    }
    refused(&at(":memory:").with_file_name(""), ErrorKind::AlreadyExists, "not a backup");
    let other = two_tables(&at("other"), Options::default());
    other.backup(at("of other"), false).unwrap();
    refused(&at("of other"), ErrorKind::InvalidArgument, "another database");
    other.close().unwrap();

    db.backup(at("backup"), false).unwrap();
    let open = |name: &str| Database::open(at(name), Options::default());
    assert_eq!(
        restore(at("backup"), at("db"), false, &Interrupt::never()).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    for (name, kind) in [
        ("db", ErrorKind::InvalidArgument),
        ("empty", ErrorKind::NotFound),
        ("nowhere", ErrorKind::NotFound),
    ] {
        let error = restore(at(name), at("new"), false, &Interrupt::never()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&at(name).display().to_string()), "{error}");
        assert!(!at("new").exists() && !at("new.unfinished").exists());
    }
    assert!(std::fs::read_dir(at("empty")).unwrap().next().is_none());
    // A restored database is another one.
    restore(at("backup"), at("twin"), false, &Interrupt::never()).unwrap();
    let error = open("twin").unwrap().backup(at("backup"), false).unwrap_err();
    assert!(error.to_string().contains("another database"), "{error}");

    // Another call writes to it.
    let holder = open("backup").unwrap();
    refused(&at("backup"), ErrorKind::AlreadyExists, "opened for writing");
    holder.close().unwrap();
    refused(&at("backup"), ErrorKind::AlreadyExists, "opened for writing");
    let error = restore(at("backup"), at("new"), false, &Interrupt::never()).unwrap_err();
    assert!(error.to_string().contains("opened for writing"), "{error}");

    // What a call left that was killed does no harm, and what is not ours does not go.
    std::fs::create_dir(at("again.unfinished")).unwrap();
    std::fs::write(at("again.unfinished").join("segment-00000001.drill"), "half").unwrap();
    db.backup(at("again"), false).unwrap();
    assert!(!at("again.unfinished").exists());
    std::fs::create_dir(at("more.unfinished")).unwrap();
    std::fs::write(at("more.unfinished").join("mine"), "x").unwrap();
    refused(&at("more"), ErrorKind::AlreadyExists, "exists and it has mine");
    assert!(at("more.unfinished").join("mine").exists() && !at("more").exists());
    db.close().unwrap();
    refused(&at("late"), ErrorKind::Closed, "closed");
    assert!(!at("late").exists() && !at("late.unfinished").exists());
}

/// Two tables get the same numbers in each commit: a backup that cuts one in two, or has a gap, is seen.
#[test]
fn backups_beside_writers_and_merges_hold_whole_commits_without_a_gap() {
    for durability in [Durability::None, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let memory_bytes = Options::MEMORY_BYTES_MIN;
        let options = Options { durability, memory_bytes, ..Options::default() };
        let db = two_tables(&folder.path().join("db"), options);
        let reader = read(&folder.path().join("db"));
        let ends = AtomicBool::new(false);
        let check = |backup: &Path, lsn: Lsn| {
            let (_folder, restored) = restored(backup);
            // Positions are those of its last commit.
            let position = restored.positions().unwrap()["source"].clone();
            assert_eq!(position, u64::from(lsn).to_le_bytes());
            let found = rows(&restored.snapshot().unwrap());
            let expected = u64::from(lsn) as usize * 40;
            assert_eq!(found["a"].len(), expected);
            assert_eq!(found["a"], found["u"]);
            let ids: Vec<i64> = found["a"]
                .iter()
                .map(|row| row.split(' ').next().unwrap().parse().unwrap())
                .collect();
            assert!(ids.into_iter().eq(0..expected as i64));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !ends.load(Ordering::Relaxed) && number < 40_000 {
                    let batch = place_rows(number * 40..(number + 1) * 40, "x");
                    let append = db.prepare(&[("a", &batch), ("u", &batch)], OnError::Raise);
                    number += 1;
                    let position = number.to_le_bytes().to_vec();
                    let position = SourcePosition { source: "source".into(), position };
                    append.unwrap().commit(&[position]).unwrap();
                    if number % 100 == 0 {
                        db.compact().unwrap();
                    }
                }
            });
            let backup = folder.path().join("backup");
            let mut lsns = Vec::new();
            while u64::from(db.snapshot().unwrap().lsn()) == 0 {
                std::thread::yield_now();
            }
            for number in 0..6 {
                let stored = db.backup(&backup, false).unwrap();
                check(&backup, stored.lsn);
                lsns.push(stored.lsn);
                // A reader sees whole tables only where there is a log.
                if durability == Durability::Os {
                    let beside = folder.path().join(format!("beside {number}"));
                    let stored_beside = reader.backup(&beside, false).unwrap();
                    assert!(stored_beside.lsn >= stored.lsn);
                    check(&beside, stored_beside.lsn);
                    let error = reader.backup(&backup, false).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
                    // One that knows the database can be brought up to date by its writer.
                    let newer = db.backup(&beside, false).unwrap();
                    check(&beside, newer.lsn);
                }
            }
            ends.store(true, Ordering::Relaxed);
            assert!(lsns.is_sorted() && lsns[0] < lsns[5], "{lsns:?}");
        });
    }
}

#[test]
fn a_database_in_memory_can_be_backed_up_and_a_call_that_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let db = Database::in_memory(Options::default()).unwrap();
    let t = db.create_table("a", places_spec(Merge::Append)).unwrap();
    t.append(&place_rows(0..100, "x"), OnError::Raise).unwrap();
    let stop = Interrupt::new(Arc::new(|| true));
    let error = db.interrupted_by(stop.clone()).backup(&backup, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    let stored = db.backup(&backup, false).unwrap();
    assert_eq!((stored.linked_bytes, stored.copied_bytes), (0, stored.bytes));
    assert_eq!(rows(&restored(&backup).1.snapshot().unwrap()), rows(&db.snapshot().unwrap()));
    let memory = Arc::new(MemoryDirectory::new());
    db.backup_in(memory.clone(), false).unwrap();
    let copy = Database::open_in(memory, Options::default()).unwrap();
    assert_eq!(rows(&copy.snapshot().unwrap()), rows(&db.snapshot().unwrap()));
}
