//! Power cuts, failing and full disks, at every operation of a script over tables of all kinds: appends, deletes,
//! flushes, compactions, named snapshots.
//!
//! Maintenance is held, so the script's own thread does everything and operation n is the same one in
//! each run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::directory::{Directory, MemoryDirectory};
use drillcore::*;
use drillcore_format::frame::Payload;
use drillcore_format::ids::Lsn;
use drillcore_sample::rng::Rng;
use drillcore_storage::error::StorageError;
use drillcore_storage::log::log_files::is_log_file;
use drillcore_storage::log::recovery::recover_log;
use drillcore_storage::log::wal::{LogOptions, Wal};
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Operation, Unsynced};
use drillcore_testkit::numbered_batches::{
    TABLES, append, check_each_table, create_tables, last_batches, spec,
};
use drillcore_testkit::repetitions::repetitions;

/// The one writer of the script.
const WRITER: i32 = 1;

/// What calls of the script returned.
#[derive(Debug, Default)]
struct Told {
    /// The last batch whose append returned.
    acknowledged: u64,
    /// The last batch that a power cut may not take at any durability.
    durable: u64,
    pinned: BTreeMap<String, Pinned>,
    /// A write failed.
    failed: bool,
}

/// A named snapshot.
#[derive(Debug)]
struct Pinned {
    /// The last batch it shows.
    batch: u64,
    /// The call that made it returned, and none that drops it failed.
    is_certain: bool,
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memory_bytes: Options::MEMORY_BYTES_MIN,
        maintenance_threads: 1,
        // Flushes and merges write several segments.
        segment_bytes: 40_000,
        ..Default::default()
    }
}

fn open(directory: Arc<dyn Directory>, durability: Durability) -> Result<Database> {
    Database::open_in(directory, options(durability))
}

/// Appends, deletes, flushes, compacts, pins and drops snapshots, drops a table and reopens, whatever fails.
/// After the first failure every call must still return, and what is visible must be what was acknowledged.
/// Without a log the script ends with a failure: tables may stand at different commits then.
fn run_script(directory: &FaultDirectory, durability: Durability) -> Told {
    let mut told = Told::default();
    for part in 0..3u64 {
        let database = match open(Arc::new(directory.clone()), durability) {
            Ok(database) => database,
            Err(error) => {
                let is_full = error.to_string().contains("no space left");
                // A write that was begun and found no room is a failure like any other.
                let is_put_off = is_full && error.kind() == ErrorKind::StorageFull;
                assert!(is_put_off || error.kind() == ErrorKind::Io, "opening: {error}");
                assert!(error.to_string().contains("injected"), "opening: {error}");
                told.failed = true;
                if durability == Durability::None {
                    break;
                }
                continue;
            }
        };
        // What a failed part left uncertain is certain now.
        let found = last_batch(&database.snapshot().unwrap());
        assert!(found >= told.acknowledged, "{found} of {} batches", told.acknowledged);
        told.acknowledged = found;
        check_pinned(&database, &told);
        let there: Vec<String> =
            database.snapshots().unwrap().into_iter().map(|(name, _)| name).collect();
        told.pinned.retain(|name, _| there.contains(name));
        told.pinned.values_mut().for_each(|pinned| pinned.is_certain = true);

        run_part(&database, part, durability, &mut told);
        if check_refused(database.close(), &mut told.failed) && durability == Durability::None {
            told.durable = told.acknowledged;
        }
        if told.failed && durability == Durability::None {
            break;
        }
    }
    told
}

fn run_part(database: &Database, part: u64, durability: Durability, told: &mut Told) {
    let _hold = database.hold_maintenance();
    let mut is_failed = false;
    for name in TABLES.into_iter().chain(["dropped"]) {
        check(database, database.create_table(name, spec(name)).map(drop), &mut is_failed);
    }
    for step in 0..6u64 {
        let appended = append(database, WRITER, told.acknowledged + 1);
        // A table that could not be made cannot be appended to.
        if appended.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            assert!(is_failed);
        } else if check(database, appended.map(drop), &mut is_failed) {
            told.acknowledged += 1;
        }
        match (part, step) {
            (0, 3) => pin(database, "early", durability, told, &mut is_failed),
            (1, 1) => pin(database, "late", durability, told, &mut is_failed),
            (2, 3) => unpin(database, "early", told, &mut is_failed),
            (_, 2 | 4) => {
                if check(database, database.flush(), &mut is_failed) {
                    told.durable = told.acknowledged;
                }
                if step == 4 {
                    check(database, database.compact(), &mut is_failed);
                }
            }
            (1, 5) => {
                let dropped = database.drop_table("dropped");
                if dropped.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                    assert!(is_failed);
                } else {
                    check(database, dropped, &mut is_failed);
                }
            }
            _ => {}
        }
        let visible = last_batch(&database.snapshot().unwrap());
        assert_eq!(visible, told.acknowledged, "step {step}");
    }
    told.failed |= is_failed;
}

fn pin(
    database: &Database,
    name: &str,
    durability: Durability,
    told: &mut Told,
    is_failed: &mut bool,
) {
    let is_certain = check_refused(database.named_snapshot(name).map(drop), is_failed);
    if is_certain && durability != Durability::None {
        // The log is synced before the snapshot is noted.
        told.durable = told.acknowledged;
    }
    told.pinned.insert(name.into(), Pinned { batch: told.acknowledged, is_certain });
}

fn unpin(database: &Database, name: &str, told: &mut Told, is_failed: &mut bool) {
    let Some(pinned) = told.pinned.get_mut(name) else { return };
    if check(database, database.drop_snapshot(name), is_failed) {
        told.pinned.remove(name);
    } else {
        pinned.is_certain = false;
    }
}

/// Named snapshots that were certainly made are there, those dropped are not, and each shows its batches.
fn check_pinned(database: &Database, told: &Told) {
    let there = database.snapshots().unwrap();
    for (name, _) in &there {
        let pinned = told.pinned.get(name).unwrap_or_else(|| panic!("{name} was dropped"));
        let found = last_batch(&database.named_snapshot(name).unwrap());
        assert_eq!(found, pinned.batch, "named snapshot {name}");
    }
    let mut certain = told.pinned.iter().filter(|(_, pinned)| pinned.is_certain);
    assert!(certain.all(|(name, _)| there.iter().any(|(other, _)| other == name)), "{there:?}");
}

fn last_batch(snapshot: &Snapshot) -> u64 {
    last_batches(snapshot).get(&WRITER).copied().unwrap_or(0)
}

/// A call works, which is returned, or it fails with the injected failure, or refuses because of it. Where it says that
/// nothing was changed for want of room, writing goes on, and after any other failure it does not.
fn check(database: &Database, called: Result<()>, is_failed: &mut bool) -> bool {
    let Err(error) = called else { return true };
    assert!(error.to_string().contains("injected"), "{error}");
    *is_failed = true;
    let failure = database.stats().map(|stats| stats.writer.and_then(|writer| writer.failure));
    match error.kind() {
        ErrorKind::StorageFull => {
            assert!(error.to_string().contains("no space left"), "{error}");
            // What failed before may have been another call.
            let failure = failure.ok().flatten();
            assert!(failure.is_none_or(|failure| !error.to_string().contains(&failure)), "{error}");
        }
        ErrorKind::Io | ErrorKind::ReadOnly => {
            assert!(failure.is_ok_and(|failure| failure.is_some()), "still writable after {error}");
        }
        kind => panic!("{kind:?}: {error}"),
    }
    false
}

/// The same of a call that closes the database, or whose segments no table needs.
fn check_refused(called: Result<()>, is_failed: &mut bool) -> bool {
    let Err(error) = called else { return true };
    let kinds = [ErrorKind::Io, ErrorKind::StorageFull, ErrorKind::ReadOnly];
    assert!(kinds.contains(&error.kind()) && error.to_string().contains("injected"), "{error}");
    *is_failed = true;
    false
}

/// Opens what a power cut left, and opens it once more after some more commits. Segments are verified in one of the two:
/// verifying them is a third of the cost.
fn check_image(
    image: MemoryDirectory,
    unsynced: Unsynced,
    durability: Durability,
    told: &Told,
    verifies_later: bool,
) {
    let Told { acknowledged, durable, .. } = *told;
    // One more than acknowledged: the commit whose sync failed may have reached the disk.
    let allowed = match durability {
        Durability::None => durable..=acknowledged,
        Durability::Os if unsynced != Unsynced::Kept => durable..=acknowledged + 1,
        _ => acknowledged..=acknowledged + 1,
    };
    let mut found_at = Vec::new();
    for is_later in [false, true] {
        let database = open(Arc::new(image.clone()), durability).expect("an image opens");
        check_pinned(&database, told);
        let snapshot = database.snapshot().unwrap();
        if durability == Durability::None {
            check_each_table(&snapshot, WRITER, allowed.clone());
        } else {
            let found = last_batch(&snapshot);
            found_at.push(found);
            create_tables(&database).unwrap();
            append(&database, WRITER, found + 1).unwrap();
            append(&database, WRITER, found + 2).unwrap();
        }
        if is_later == verifies_later {
            let report = database.verify().unwrap();
            assert!(report.faults.is_empty(), "{:?}", report.faults);
        }
    }
    if let [found, later] = found_at[..] {
        assert!(allowed.contains(&found), "{found} batches, {told:?}");
        assert_eq!(later, found + 2, "commits after the crash survive a close");
    }
}

/// The operations of the script when nothing fails.
fn operations_of_script(durability: Durability) -> Vec<Operation> {
    let directory = FaultDirectory::new();
    let told = run_script(&directory, durability);
    assert!(!told.failed && told.acknowledged == 18 && told.pinned.len() == 1, "{told:?}");
    directory.operations()
}

/// Prints where a check failed.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Runs the script for each of its operations with two of four faults at it, and checks what a power cut afterwards
/// leaves: two of the six ways of it. In a longer run, all of both. After the last of the faults the script goes on
/// until a later operation, where the power goes.
fn fail_each_operation(durability: Durability) {
    let operations = operations_of_script(durability);
    let faults: [fn(u64) -> Fault; 4] = [Fault::Once, Fault::Forever, Fault::DiskFull, |nth| {
        Fault::OnceThenForever(nth, nth + 1 + Rng::keyed(nth, 6).below(60))
    }];
    for (nth, operation) in (0..).zip(&operations) {
        for turn in nth..nth + repetitions(2).min(4) {
            let fault = faults[turn as usize % 4](nth);
            let context = format!("{durability:?}, operation {nth} ({operation:?}), {fault:?}");
            let directory = FaultDirectory::new();
            directory.set_fault(Some(fault));
            let told = {
                let _context = Context(context.clone());
                run_script(&directory, durability)
            };
            for number in turn..turn + repetitions(2).min(6) {
                let unsynced = Unsynced::ALL[number as usize % 6];
                let _context = Context(format!("{context}, unsynced: {unsynced:?}"));
                let image = directory.crash_image(unsynced, &mut Rng::keyed(nth, number));
                check_image(image, unsynced, durability, &told, nth % 2 == number % 2);
            }
        }
    }
    println!("{durability:?}: {} operations", operations.len());
}

#[test]
fn after_any_failed_operation_calls_return_and_all_acknowledged_batches_survive_a_power_cut() {
    fail_each_operation(Durability::Fsync);
}

#[test]
fn a_power_cut_leaves_a_prefix_of_the_commits_that_were_not_synced() {
    fail_each_operation(Durability::Os);
}

#[test]
fn without_a_log_a_power_cut_leaves_what_was_flushed_and_of_each_table_a_prefix_of_the_rest() {
    fail_each_operation(Durability::None);
}

/// The log of this one fills some hundred pages, of which nothing was synced.
#[test]
fn whichever_unsynced_pages_a_power_cut_takes_a_prefix_of_the_commits_is_left() {
    let directory = FaultDirectory::new();
    let database = open(Arc::new(directory.clone()), Durability::Os).unwrap();
    let _hold = database.hold_maintenance();
    create_tables(&database).unwrap();
    let appended = 300;
    for number in 1..=appended {
        append(&database, WRITER, number).unwrap();
    }
    let mut found = [0; 2];
    for (kind, unsynced) in [Unsynced::Pages, Unsynced::Sectors].into_iter().enumerate() {
        for seed in 0..repetitions(50) {
            let _context = Context(format!("seed {seed}, {unsynced:?}"));
            let image = directory.crash_image(unsynced, &mut Rng::keyed(seed, 3));
            let database = open(Arc::new(image), Durability::Os).expect("an image opens");
            let last = last_batch(&database.snapshot().unwrap());
            assert!(last <= appended);
            found[kind] += last;
        }
    }
    println!("of {appended} batches, {found:?} in all images");
    assert!(found.iter().all(|&found| found > 0), "some images keep some batches: {found:?}");
}

/// The first commit whose sync failed is in the system's cache, so the next opening finds it; its pages are not
/// on disk, and no later sync brings them there.
#[test]
fn a_commit_whose_sync_failed_is_not_built_upon_before_it_is_durable() {
    for durability in [Durability::Fsync, Durability::Os] {
        let directory = FaultDirectory::new();
        let database = open(Arc::new(directory.clone()), durability).unwrap();
        let hold = database.hold_maintenance();
        create_tables(&database).unwrap();
        append(&database, WRITER, 1).unwrap();
        database.flush().unwrap();
        append(&database, WRITER, 2).unwrap();
        // The commit is one write and, with `fsync`, one sync; with `os` the flush syncs it next.
        let next = directory.operations().len() as u64;
        directory.set_fault(Some(Fault::Once(next + 1)));
        let failed = append(&database, WRITER, 3).map(drop).and_then(|()| database.flush());
        assert!(failed.unwrap_err().to_string().contains("sync"), "{durability:?}");
        drop(hold);
        let _ = database.close();
        drop(database);

        let database = open(Arc::new(directory.clone()), durability).unwrap();
        let found = last_batch(&database.snapshot().unwrap());
        assert_eq!(found, 3, "it is in the cache");
        append(&database, WRITER, 4).unwrap();
        append(&database, WRITER, 5).unwrap();
        let acknowledged = if durability == Durability::Fsync { 5 } else { 3 };
        for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
            let _context = Context(format!("{durability:?}, {unsynced:?}"));
            let image = directory.crash_image(unsynced, &mut Rng::keyed(4, number as u64));
            let database = open(Arc::new(image), durability).expect("an image opens");
            let found = last_batch(&database.snapshot().unwrap());
            assert!((acknowledged..=5).contains(&found), "{found} of {acknowledged}");
        }
    }
}

/// Without a log: a flush of all tables, with a power cut `nth` operations into it. Returns the number
/// of operations that the flush began.
fn cut_flush(nth: Option<u64>) -> (FaultDirectory, u64) {
    let directory = FaultDirectory::new();
    let database = open(Arc::new(directory.clone()), Durability::None).unwrap();
    let _hold = database.hold_maintenance();
    create_tables(&database).unwrap();
    for number in 1..=3 {
        append(&database, WRITER, number).unwrap();
    }
    let before = directory.operations().len() as u64;
    directory.set_fault(nth.map(|nth| Fault::Forever(before + nth)));
    assert_eq!(database.flush().is_err(), nth.is_some());
    let operations = directory.operations().len() as u64 - before;
    (directory, operations)
}

#[test]
fn without_a_log_a_power_cut_leaves_a_database_that_opens_with_any_durability() {
    let (_, operations) = cut_flush(None);
    for nth in 0..operations {
        let (directory, _) = cut_flush(Some(nth));
        for durability in [Durability::None, Durability::Os, Durability::Fsync] {
            for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
                let _context = Context(format!("operation {nth}, {durability:?}, {unsynced:?}"));
                let image = directory.crash_image(unsynced, &mut Rng::keyed(nth, number as u64));
                let image: Arc<dyn Directory> = Arc::new(image);
                // What is left of the rows is anybody's guess; what is appended now stays.
                for number in 100..103 {
                    let database = open(image.clone(), durability).expect("an image opens");
                    create_tables(&database).unwrap();
                    append(&database, WRITER, number).unwrap();
                }
                let database = open(image, durability).expect("an image opens");
                let table = database.table("a").unwrap().snapshot().unwrap();
                let sets = batches_in(&table);
                assert!((100..103).filter(|n| n % 3 < 2).all(|n| sets.contains(&n)), "{sets:?}");
            }
        }
    }
}

/// The numbers of the batches that a table has rows of.
fn batches_in(table: &TableSnapshot) -> Vec<i64> {
    table.sets().unwrap().values.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn a_disk_that_fails_under_background_work_neither_hangs_nor_panics_nor_loses_a_batch() {
    let long = std::env::var_os("DRILLCORE_LONG").is_some();
    for seed in 0..if long { 2_000 } else { 60 } {
        let mut rng = Rng::keyed(seed, 7);
        let durability = [Durability::Fsync, Durability::Os][rng.below(2) as usize];
        let context = format!("seed {seed}, {durability:?}");
        let _context = Context(context.clone());
        let directory = FaultDirectory::new();
        let acknowledged = {
            let options = Options { wal_bytes_max: 60_000, ..options(durability) };
            let shared = Arc::new(directory.clone());
            let database = Database::open_in(shared, options).unwrap();
            create_tables(&database).unwrap();
            let nth = directory.operations().len() as u64 + rng.below(400);
            let faults: [fn(u64) -> Fault; 3] = [Fault::Once, Fault::Forever, Fault::DiskFull];
            directory.set_fault(Some(faults[rng.below(3) as usize](nth)));
            let write = |writer: i32| {
                let database = database.clone();
                move || {
                    (1..300).take_while(|&number| append(&database, writer, number).is_ok()).count()
                }
            };
            let writers = [0, 1].map(|writer| std::thread::spawn(write(writer)));
            let numbers = writers.map(|writer| writer.join().unwrap() as u64);
            // A failed removal of a file that is no longer needed is no failure.
            check(&database, database.flush(), &mut false);
            last_batches(&database.snapshot().unwrap());
            numbers
        };
        for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
            let _context = Context(format!("{context}, unsynced: {unsynced:?}"));
            let image = directory.crash_image(unsynced, &mut Rng::keyed(seed, number as u64));
            let database = open(Arc::new(image), durability).expect("an image opens");
            let found = last_batches(&database.snapshot().unwrap());
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let found = found.get(&(writer as i32)).copied().unwrap_or(0);
                let least = if durability == Durability::Fsync { *acknowledged } else { 0 };
                assert!((least..=acknowledged + 1).contains(&found), "{found} of {acknowledged}");
            }
        }
    }
}

/// The disk fills up under two writers and background work, and has room again later.
#[test]
fn a_full_disk_turns_the_database_read_only_says_why_and_loses_nothing_acknowledged() {
    for (seed, durability) in (0..).zip([Durability::Fsync, Durability::Os, Durability::None]) {
        let _context = Context(format!("seed {seed}, {durability:?}"));
        let directory = FaultDirectory::new();
        let options = Options { wal_bytes_max: 60_000, ..options(durability) };
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let database = Database::open_in(shared.clone(), options.clone()).unwrap();
        create_tables(&database).unwrap();
        let fill = database.create_table("fill", spec("fill")).unwrap();
        let mut flushed = BTreeMap::new();
        for number in 1..=20 {
            append(&database, 0, number).unwrap();
            append(&database, 1, number).unwrap();
            flushed.extend([(0, number), (1, number)]);
        }
        database.named_snapshot("before").unwrap();
        database.flush().unwrap();
        let room = Rng::keyed(seed, 8).below(300);
        directory.set_fault(Some(Fault::DiskFull(directory.operations().len() as u64 + room)));
        let write = |writer: i32| {
            let database = database.clone();
            move || (21..).take_while(|&number| append(&database, writer, number).is_ok()).last()
        };
        let writers = [0, 1].map(|writer| std::thread::spawn(write(writer)));
        let acknowledged: BTreeMap<i32, u64> =
            (0..).zip(writers.map(|writer| writer.join().unwrap().unwrap_or(20))).collect();

        // Who stopped may have been refused a delete, for which rows must be flushed first. That alone changes nothing.
        let columns = [0i64; 4].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef);
        let more = RecordBatch::try_new(fill.schema().columns.clone(), columns.to_vec()).unwrap();
        while fill.append(&more, OnError::Raise).is_ok() {}

        // Nothing is written any more, and every call says why.
        directory.set_fault(None);
        let error = append(&database, 0, 1_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("no space left"), "{error}");
        let writer = database.stats().unwrap().writer.unwrap();
        assert!(writer.failure.is_some_and(|why| why.contains("no space left")));
        for refused in [
            database.flush(),
            database.create_table("more", spec("more")).map(drop),
            database.drop_table("a"),
            database.named_snapshot("after").map(drop),
            database.drop_snapshot("before"),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
        // Reads go on.
        let snapshot = database.snapshot().unwrap();
        assert_eq!(last_batches(&snapshot), acknowledged);
        let request = SampleRequest { n: 20, ..Default::default() };
        for name in TABLES {
            assert_eq!(snapshot.table(name).unwrap().sample(&request).unwrap().num_rows(), 20);
        }
        assert_eq!(last_batches(&database.named_snapshot("before").unwrap()), flushed);
        // Closing succeeds where the log has all rows, else it says that some are lost.
        let closed = database.close();
        assert_eq!(closed.is_err(), durability == Durability::None, "{closed:?}");
        drop((snapshot, database));

        let database = Database::open_in(shared, options).unwrap();
        assert_eq!(last_batches(&database.named_snapshot("before").unwrap()), flushed);
        let snapshot = database.snapshot().unwrap();
        if durability == Durability::None {
            for (writer, acknowledged) in acknowledged {
                check_each_table(&snapshot, writer, flushed[&writer]..=acknowledged);
            }
            continue;
        }
        for (writer, found) in last_batches(&snapshot) {
            // The commit whose write failed may have been written whole.
            let acknowledged = acknowledged[&writer];
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{found}");
            append(&database, writer, found + 1).unwrap();
        }
    }
}

/// Opens a log that does not sync its writes, and says which commits it holds.
fn open_log(directory: Arc<dyn Directory>) -> std::result::Result<(Wal, Vec<u64>), StorageError> {
    let mut commits = Vec::new();
    let (wal, _) = recover_log(directory, LogOptions::new(false, 1), Lsn(1), |lsn, _| {
        commits.push(lsn.0);
        Ok::<(), StorageError>(())
    })?;
    Ok((wal, commits))
}

#[test]
fn a_power_cut_once_the_log_goes_on_in_another_file_leaves_a_log_that_opens() {
    let directory = FaultDirectory::new();
    let (wal, _) = open_log(Arc::new(directory.clone())).unwrap();
    // Two commits fill a file, so the third begins the next. The first was synced as the next file was made ready.
    for (lsn, kibibytes) in [(1, 9 << 10), (2, 15 << 9), (3, 1)] {
        wal.enqueue(Lsn(lsn), Payload::of(&vec![7; kibibytes << 10]));
        wal.write_through(Lsn(lsn)).unwrap();
        wal.end_upkeep();
    }
    let mut names = directory.list().unwrap();
    names.retain(|name| is_log_file(name));
    assert_eq!(names.len(), 2);
    let mut lengths = BTreeSet::new();
    for seed in 0..5 {
        for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
            let image = directory.crash_image(unsynced, &mut Rng::keyed(seed, number as u64));
            let (_, commits) = open_log(Arc::new(image))
                .unwrap_or_else(|error| panic!("seed {seed}, unsynced {unsynced:?}: {error}"));
            assert!([1, 2, 3].starts_with(&commits), "{unsynced:?}: {commits:?}");
            lengths.insert(commits.len());
        }
    }
    assert!(lengths.contains(&1) && !lengths.contains(&0), "{lengths:?}");
}

#[test]
fn a_commit_is_durable_before_it_is_replayed() {
    let directory = FaultDirectory::new();
    let (wal, _) = open_log(Arc::new(directory.clone())).unwrap();
    for lsn in 1..=2 {
        wal.enqueue(Lsn(lsn), Payload::of(&[7; 1000]));
        wal.write_through(Lsn(lsn)).unwrap();
    }
    drop(wal);
    // Opening a database syncs the folder before it reads the log.
    directory.sync().unwrap();
    let mut replayed = 0;
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    recover_log(shared, LogOptions::new(false, 2), Lsn(1), |_, _| {
        replayed += 1;
        let image = directory.crash_image(Unsynced::Dropped, &mut Rng::keyed(0, 0));
        assert_eq!(open_log(Arc::new(image)).unwrap().1, [1, 2]);
        Ok::<(), StorageError>(())
    })
    .unwrap();
    assert_eq!(replayed, 2);
}
