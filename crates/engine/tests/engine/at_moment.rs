//! Readers at a moment: they show what another reader showed, whatever the writer has done since, and say so where that
//! cannot be any more.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampSecondArray};
use drillcore::arrow_schema::{DataType, TimeUnit};
use drillcore::directory::{Directory, LocalDirectory, Lock, ReadFile, WriteFile};
use drillcore::*;

use crate::fixtures::{of_keys, pairs, schema_of, value_rows, values_spec};

fn rows(snapshot: &Snapshot, table: &str) -> Vec<(i64, i64)> {
    pairs(&snapshot.table(table).unwrap())
}

fn open(path: &Path) -> Database {
    Database::open_read_only(path, ReadOptions::default()).unwrap()
}

fn open_at(path: &Path, at: At) -> Result<Database> {
    Database::open_read_only(path, ReadOptions { at, ..ReadOptions::default() })
}

fn at(moment: &Moment) -> At {
    At::Moment(moment.clone())
}

fn kind(opened: Result<Database>) -> ErrorKind {
    opened.err().expect("it cannot be opened").kind()
}

#[test]
fn a_moment_shows_the_same_rows_after_flushes_merges_drops_renames_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let db = Database::open(path, Options::default()).unwrap();
    let log = db.create_table("log", values_spec(Merge::Append)).unwrap();
    let state = db.create_table("state", values_spec(Merge::Upsert)).unwrap();
    db.create_table("other", values_spec(Merge::Append)).unwrap();
    log.append(&value_rows(0..1_000, 0), OnError::Raise).unwrap();
    state.append(&value_rows(0..100, 0), OnError::Raise).unwrap();
    db.flush().unwrap();
    db.append(&[("log", &value_rows(500..600, 1)), ("state", &value_rows(50..150, 1))]).unwrap();
    state.delete(&[Arc::new(Int64Array::from(vec![7]))]).unwrap();
    db.append(&[("other", &value_rows(0..10, 0))]).unwrap();
    let reader = open(path);
    let moment = reader.moment().unwrap();
    assert_eq!(moment.lsn(), reader.snapshot().unwrap().lsn());
    assert_eq!((moment.clock(), moment.snapshot()), (None, None));
    let tables = ["log", "state", "other"];
    let of = |db: &Database| tables.map(|table| rows(&db.snapshot().unwrap(), table));
    let expected = of(&reader);
    assert_eq!(expected.each_ref().map(Vec::len), [1_100, 149, 10]);

    let same = |what: &str| {
        let pair = At::Moment(Moment::new(moment.version(), moment.lsn()));
        for at in [at(&moment), pair] {
            let other = open_at(path, at).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(of(&other), expected, "{what}");
            assert_eq!(other.moment().unwrap(), moment);
            assert_eq!(other.verify().unwrap().faults, Vec::<String>::new());
        }
    };
    same("at once");
    log.append(&value_rows(0..50, 2), OnError::Raise).unwrap();
    same("after a later commit");
    log.delete_selected(&of_keys(0, 550)).unwrap();
    same("after a delete");
    db.flush().unwrap();
    same("after a flush");
    state.append(&value_rows(0..1_000, 3), OnError::Raise).unwrap();
    db.compact().unwrap();
    same("after a merge");
    log.drop_column("value").unwrap();
    db.drop_table("state").unwrap();
    db.rename_table("other", "another").unwrap();
    same("after a column and a table were dropped and a table was renamed");
    drop((log, state));
    db.close().unwrap();
    drop(db);
    same("without a writer");
    for round in 0..3 {
        let db = Database::open(path, Options::default()).unwrap();
        db.append(&[("another", &value_rows(0..10, round))]).unwrap();
        same("beside another writer");
        db.compact().unwrap();
        same("after its merge");
    }
    // A reader that was opened at it holds it for others.
    let second = open_at(path, at(&moment)).unwrap();
    reader.close().unwrap();
    let db = Database::open(path, Options::default()).unwrap();
    db.append(&[("another", &value_rows(0..10, 9))]).unwrap();
    db.compact().unwrap();
    same("held by the second");
    assert!(db.stats().unwrap().writer.unwrap().held_back_bytes > 0);
    second.close().unwrap();
    let error = open_at(path, at(&moment)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MomentGone);
    assert!(error.to_string().contains("no reader holds it. Take a new moment"), "{error}");
    db.append(&[("another", &value_rows(0..10, 9))]).unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().writer.unwrap().held_back_bytes, 0, "nothing is held for good");
    drop(db);
    let kept = std::fs::read_dir(path).unwrap().map(|name| name.unwrap().file_name());
    let kept: Vec<_> = kept.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(kept.iter().filter(|name| name.starts_with("lease-")).count(), 0, "{kept:?}");
    assert_eq!(kept.iter().filter(|name| name.starts_with("manifest-")).count(), 1, "{kept:?}");
}

#[test]
fn a_reader_that_moves_on_lets_go_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    let reader = open(folder.path());
    let moment = reader.moment().unwrap();
    // Now as before: nothing was flushed.
    table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
    reader.refresh().unwrap();
    let later = reader.moment().unwrap();
    assert!(later.lsn() > moment.lsn() && later.version() == moment.version());
    assert_eq!(
        rows(&open_at(folder.path(), at(&moment)).unwrap().snapshot().unwrap(), "t").len(),
        10
    );
    db.flush().unwrap();
    assert_eq!(
        rows(&open_at(folder.path(), at(&moment)).unwrap().snapshot().unwrap(), "t").len(),
        10
    );
    // Who holds a later commit at that version holds the earlier one, too.
    reader.refresh().unwrap();
    assert_eq!(kind(open_at(folder.path(), at(&moment))), ErrorKind::MomentGone);
    assert_eq!(kind(open_at(folder.path(), at(&later))), ErrorKind::MomentGone);
    assert_eq!(reader.moment().unwrap().lsn(), later.lsn());
    open_at(folder.path(), at(&reader.moment().unwrap())).unwrap();
}

/// Without a log, the newest commit may be that of a table that is dropped.
#[test]
fn a_moment_can_be_opened_after_the_table_of_its_commit_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let options = Options { durability: Durability::None, ..Options::default() };
    let db = Database::open(path, options).unwrap();
    db.create_table("kept", values_spec(Merge::Append)).unwrap();
    let dropped = db.create_table("dropped", values_spec(Merge::Append)).unwrap();
    let batch = value_rows(0..2, 0);
    db.append(&[("kept", &batch), ("dropped", &batch)]).unwrap();
    // Deletes are of segments, so this table is written out.
    dropped.delete_selected(&of_keys(0, 1)).unwrap();
    let reader = open(path);
    let lsn = reader.snapshot().unwrap().lsn();
    db.drop_table("dropped").unwrap();
    assert_eq!(reader.refresh().unwrap(), lsn);
    let moment = reader.moment().unwrap();
    let other = open_at(path, at(&moment)).unwrap();
    assert_eq!(other.snapshot().unwrap().tables(), ["kept"]);
    assert_eq!(other.moment().unwrap(), moment);
    // It is held for others by the second reader, too.
    reader.close().unwrap();
    db.append(&[("kept", &value_rows(0..10, 1))]).unwrap();
    db.compact().unwrap();
    assert_eq!(rows(&open_at(path, at(&moment)).unwrap().snapshot().unwrap(), "kept"), []);
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    table.append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    db.flush().unwrap();
    table.append(&value_rows(0..10, 1), OnError::Raise).unwrap();
    let reader = open(folder.path());
    let moment = reader.moment().unwrap();
    let names = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|name| name.unwrap().file_name());
        names.collect::<BTreeSet<_>>()
    };
    let before = names();
    let (version, lsn) = (moment.version(), u64::from(moment.lsn()));
    let open = |version: u64, lsn: u64| {
        let opened = open_at(folder.path(), At::Moment(Moment::new(version, lsn.into())));
        let error = opened.err().expect("nonsense");
        (error.kind(), error.to_string())
    };
    for (version, lsn, expected, part) in [
        (0, 0, ErrorKind::InvalidArgument, "does not belong to this database"),
        (0, lsn, ErrorKind::InvalidArgument, "does not belong to this database"),
        (version + 1, lsn, ErrorKind::InvalidArgument, "newest version is"),
        (u64::MAX, u64::MAX, ErrorKind::InvalidArgument, "does not belong to this database"),
        (version, 1, ErrorKind::InvalidArgument, "have commits up to 2"),
        (version, lsn + 1, ErrorKind::MomentGone, "the log ends at commit 3"),
        (version, u64::MAX, ErrorKind::MomentGone, "the log ends at commit 3"),
        (version - 1, lsn, ErrorKind::MomentGone, "no reader holds it"),
        (1, lsn, ErrorKind::InvalidArgument, "does not belong to this database"),
    ] {
        let (kind, message) = open(version, lsn);
        assert!(
            kind == expected && message.contains(part),
            "{version}, {lsn}: {kind:?}, {message}"
        );
    }
    let missing = open_at(folder.path(), At::Snapshot("nothing".into())).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(names(), before, "no lease stays");
    assert_eq!(db.moment().unwrap_err().kind(), ErrorKind::Unsupported);
    let fixed = open_at(folder.path(), at(&moment)).unwrap();
    let refused = fixed.refresh().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("open another reader for newer rows"), "{refused}");
    assert_eq!(fixed.snapshot().unwrap().lsn(), moment.lsn());
    fixed.close().unwrap();
    assert_eq!(fixed.moment().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_named_snapshot_is_a_moment_also_of_the_pair_and_after_it_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Upsert)).unwrap();
    table.append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    let pinned = db.named_snapshot("training").unwrap();
    table.append(&value_rows(0..20, 1), OnError::Raise).unwrap();
    db.flush().unwrap();
    let reader = open_at(folder.path(), At::Snapshot("training".into())).unwrap();
    let moment = reader.moment().unwrap();
    assert_eq!((moment.snapshot(), moment.lsn()), (Some("training"), pinned.lsn()));
    let expected = rows(&pinned, "t");
    let sample = |db: &Database| {
        let request = SampleRequest { n: 5, seed: Some(7), ..SampleRequest::default() };
        db.snapshot().unwrap().table("t").unwrap().sample(&request).unwrap()
    };
    let drawn = sample(&reader);
    let same = || {
        let pair = At::Moment(Moment::new(moment.version(), moment.lsn()));
        for at in [at(&moment), pair] {
            let other = open_at(folder.path(), at).unwrap();
            assert_eq!(rows(&other.snapshot().unwrap(), "t"), expected);
            assert_eq!((other.moment().unwrap(), sample(&other)), (moment.clone(), drawn.clone()));
            assert_eq!(other.refresh().unwrap_err().kind(), ErrorKind::Unsupported);
            assert_eq!(other.positions().unwrap_err().kind(), ErrorKind::Unsupported);
        }
    };
    same();
    drop(pinned);
    db.drop_snapshot("training").unwrap();
    db.compact().unwrap();
    same();
    let again = db.named_snapshot("training").unwrap();
    assert_ne!(rows(&again, "t"), expected);
    same();
    reader.close().unwrap();
    db.compact().unwrap();
    assert_eq!(kind(open_at(folder.path(), at(&moment))), ErrorKind::MomentGone);
}

#[test]
fn rows_that_expire_later_are_shown_at_an_earlier_moment() {
    // Each waits until some rows have expired.
    thread::scope(|scope| {
        for merge in [Merge::Append, Merge::Upsert] {
            scope.spawn(|| show_what_has_expired(merge));
        }
    });
}

fn show_what_has_expired(merge: Merge) {
    let second =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let time = DataType::Timestamp(TimeUnit::Second, None);
    let columns = schema_of(&[("id", DataType::Int64, false), ("at", time, false)]);
    let spec = TableSpec::new(columns.clone(), ["id"]).merge(merge);
    let table = db.create_table("t", spec).unwrap();
    let now = second();
    // One row per second, of which more expire with each.
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let ats: ArrayRef =
        Arc::new(TimestampSecondArray::from_iter_values((0..100).map(|id| now - 50 + id)));
    let rows = RecordBatch::try_new(columns, vec![ids, ats]).unwrap();
    table.append(&rows, OnError::Raise).unwrap();
    table.set_ttl(Some(("at", Duration::from_secs(10)))).unwrap();
    db.flush().unwrap();
    let count = |db: &Database| db.snapshot().unwrap().table("t").unwrap().rows().unwrap();
    let reader = open(folder.path());
    let (moment, shown) = reader.snapshot_with_moment().unwrap();
    assert!(moment.clock().is_some_and(|clock| clock as i64 >= now));
    let then = shown.table("t").unwrap().rows().unwrap();
    assert!((1..100).contains(&then), "{then} rows");
    let fixed = open_at(folder.path(), at(&moment)).unwrap();
    // By the pair alone, the time of the opening counts, and stays.
    let pair = At::Moment(Moment::new(moment.version(), moment.lsn()));
    let of_pair = open_at(folder.path(), pair).unwrap();
    let at_opening = count(&of_pair);
    while second() < now + 4 {
        thread::sleep(Duration::from_millis(50));
    }
    db.compact().unwrap();
    assert!(count(&reader) < then, "a reader goes on with the time");
    assert!(count(&of_pair) == at_opening && at_opening <= then);
    let clock = of_pair.moment().unwrap().clock().unwrap() as i64;
    assert_eq!(at_opening as i64, 59 - (clock - now), "what had not expired by its clock");
    assert_eq!(count(&fixed), then);
    assert_eq!(count(&open_at(folder.path(), at(&moment)).unwrap()), then);
}

/// Three readers at one moment agree, while the writer appends, deletes, flushes and merges.
#[test]
fn readers_at_one_moment_agree_beside_a_busy_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let options = Options { memory_bytes: 1 << 20, wal_bytes_max: 100_000, ..Options::default() };
    let db = Database::open(path, options).unwrap();
    let log = db.create_table("log", values_spec(Merge::Append)).unwrap();
    let state = db.create_table("state", values_spec(Merge::Upsert)).unwrap();
    log.append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    let done = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks < 5 {
                let first = open(path);
                let moment = first.moment().unwrap();
                let answers = |db: &Database| {
                    let snapshot = db.snapshot().unwrap();
                    (rows(&snapshot, "log"), rows(&snapshot, "state"))
                };
                let expected = answers(&first);
                let others = [(); 3].map(|()| {
                    thread::sleep(Duration::from_millis(5));
                    open_at(path, at(&moment)).unwrap()
                });
                drop(first);
                for other in &others {
                    assert_eq!(answers(other), expected);
                }
                // The same pieces, so the same draws.
                let draw = |db: &Database| {
                    let request = SampleRequest { n: 5, seed: Some(looks), ..Default::default() };
                    db.snapshot().unwrap().table("log").unwrap().sample(&request).unwrap()
                };
                let drawn = others.each_ref().map(draw);
                assert!(drawn[0] == drawn[1] && drawn[0] == drawn[2]);
                looks += 1;
            }
            looks
        });
        for n in 1..200 {
            log.append(&value_rows(n * 20..n * 20 + 100, n), OnError::Raise).unwrap();
            state.append(&value_rows(n..n + 50, n), OnError::Raise).unwrap();
            match n % 20 {
                5 => db.flush().unwrap(),
                10 => db.compact().unwrap(),
                15 => {
                    log.delete_selected(&of_keys(n * 3, n * 4)).unwrap();
                }
                _ => {}
            }
        }
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap()
    });
    assert!(looks >= 5, "{looks} looks");
}

/// A folder in which one operation fails.
struct Failing {
    folder: LocalDirectory,
    /// Operations until then.
    left: AtomicI64,
}

impl Failing {
    fn step(&self) -> io::Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("broken on purpose")),
            _ => Ok(()),
        }
    }
}

impl Directory for Failing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.step().and_then(|()| self.folder.list())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        self.step().and_then(|()| self.folder.open(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        panic!("a reader makes no {name}");
    }

    fn rename(&self, from: &str, _: &str) -> io::Result<()> {
        panic!("a reader renames no {from}");
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        assert!(name.starts_with("lease-"), "a reader removes no {name}");
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.step().and_then(|()| self.folder.lock(name))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.step().and_then(|()| self.folder.try_lock(name))
    }
}

#[test]
fn whatever_fails_while_a_moment_is_opened_is_an_error_or_passes_and_leaves_no_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let db = Database::open(path, Options::default()).unwrap();
    let table = db.create_table("t", values_spec(Merge::Append)).unwrap();
    table.append(&value_rows(0..100, 0), OnError::Raise).unwrap();
    db.flush().unwrap();
    table.append(&value_rows(0..100, 1), OnError::Raise).unwrap();
    let first = open(path);
    let moment = first.moment().unwrap();
    db.compact().unwrap();
    let leases = || {
        let names = std::fs::read_dir(path).unwrap().map(|name| name.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("lease-")).count()
    };
    let held = leases();
    let (mut failures, mut operations) = (0, 0);
    loop {
        let left = AtomicI64::new(operations);
        let failing = Arc::new(Failing { folder: LocalDirectory::open(path).unwrap(), left });
        let options = ReadOptions { at: at(&moment), ..ReadOptions::default() };
        match Database::open_read_only_in(failing.clone(), options) {
            Ok(other) => assert_eq!(rows(&other.snapshot().unwrap(), "t").len(), 200),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "operation {operations}: {error}");
                assert!(error.to_string().contains("broken on purpose"), "{error}");
                failures += 1;
            }
        }
        assert_eq!(leases(), held, "operation {operations}");
        if failing.left.load(Ordering::Relaxed) >= 0 {
            break;
        }
        operations += 1;
    }
    assert!(failures > 5 && operations > 10, "{failures} failures of {operations}");
}

/// A database that was opened without a log leaves commits in segments that no log has; a log file that a reader holds from
/// before is not taken for a log that ends too early.
#[test]
fn a_log_that_only_a_reader_needs_is_not_taken_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let db = Database::open(path, Options::default()).unwrap();
    for name in ["a", "b"] {
        db.create_table(name, values_spec(Merge::Append)).unwrap();
        db.table(name).unwrap().append(&value_rows(0..10, 0), OnError::Raise).unwrap();
    }
    let reader = open(path);
    let moment = reader.moment().unwrap();
    db.close().unwrap();
    drop(db);
    let unlogged = Options { durability: Durability::None, ..Options::default() };
    let db = Database::open(path, unlogged.clone()).unwrap();
    for n in 1..4 {
        db.append(&[("a", &value_rows(0..10, n))]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    for options in [unlogged, Options::default()] {
        let db = Database::open(path, options).unwrap();
        assert_eq!(rows(&db.snapshot().unwrap(), "a").len(), 40);
        db.append(&[("b", &value_rows(0..10, 1))]).unwrap();
        let other = open_at(path, at(&moment)).unwrap();
        assert_eq!(rows(&other.snapshot().unwrap(), "a").len(), 10);
        assert_eq!(rows(&open(path).snapshot().unwrap(), "a").len(), 40);
        db.flush().unwrap();
        db.close().unwrap();
    }
    let db = Database::open(path, Options::default()).unwrap();
    assert_eq!(rows(&db.snapshot().unwrap(), "b").len(), 30);
}
