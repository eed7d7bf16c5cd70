//! Power cuts and failing disks, at every operation of a script of appends, flushes and compactions.
//!
//! Maintenance is held, so the script's own thread does everything and operation n is the same one in
//! each run.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore::*;
use drillcore_format::ids::Lsn;
use drillcore_sample::rng::Rng;
use drillcore_storage::error::StorageError;
use drillcore_storage::wal::Wal;
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Operation, Unsynced};
use drillcore_testkit::numbered_batches::{TABLES, append, last_batches, spec};

/// The one writer of the script.
const WRITER: i32 = 1;

/// What the script was told.
#[derive(Debug, Default)]
struct Told {
    /// The last batch whose append returned.
    acknowledged: u64,
    /// A write failed.
    failed: bool,
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memory_bytes: Options::MEMORY_BYTES_MIN,
        maintenance_threads: 1,
        ..Default::default()
    }
}

fn open(directory: Arc<dyn Directory>, durability: Durability) -> Result<Database> {
    Database::open_in(directory, options(durability), None)
}

/// Appends, flushes, compacts, drops a table and reopens, whatever fails. After the first failure every
/// call must still return, and what is visible must be what was acknowledged.
fn run_script(directory: &FaultDirectory, durability: Durability) -> Told {
    let mut told = Told::default();
    for part in 0..3u64 {
        let database = match open(Arc::new(directory.clone()), durability) {
            Ok(database) => database,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "opening: {error}");
                assert!(error.to_string().contains("injected"), "opening: {error}");
                told.failed = true;
                continue;
            }
        };
        // What a failed part left uncertain is certain now.
        let found = last_batches(&database.snapshot().unwrap());
        let found = found.get(&WRITER).copied().unwrap_or(0);
        assert!(found >= told.acknowledged, "{found} of {} batches", told.acknowledged);
        told.acknowledged = found;
        run_part(&database, part, &mut told);
        database.close().unwrap_or_else(|error| panic!("closing: {error}"));
    }
    told
}

fn run_part(database: &Database, part: u64, told: &mut Told) {
    let _hold = database.hold_maintenance();
    let mut is_failed = false;
    for name in TABLES.into_iter().chain(["dropped"]) {
        check(database.create_table(name, spec()).map(drop), &mut is_failed);
    }
    for step in 0..7u64 {
        let appended = append(database, WRITER, told.acknowledged + 1);
        let is_appended = appended.is_ok();
        // A table that could not be made cannot be appended to.
        if appended.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            assert!(is_failed);
        } else {
            check(appended.map(drop), &mut is_failed);
        }
        if is_appended {
            told.acknowledged += 1;
        }
        match step {
            2 => check(database.flush(), &mut is_failed),
            4 => check(database.flush().and_then(|()| database.compact()), &mut is_failed),
            5 if part == 1 => {
                let dropped = database.drop_table("dropped");
                if dropped.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                    assert!(is_failed);
                } else {
                    check(dropped, &mut is_failed);
                }
            }
            _ => {}
        }
        let visible = last_batches(&database.snapshot().unwrap());
        assert_eq!(visible.get(&WRITER).copied().unwrap_or(0), told.acknowledged, "step {step}");
    }
    told.failed |= is_failed;
}

/// A call works, or it fails with the injected failure, or refuses because of it.
fn check(called: Result<()>, is_failed: &mut bool) {
    let Err(error) = called else { return };
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::ReadOnly), "{error}");
    assert!(error.to_string().contains("injected"), "{error}");
    *is_failed = true;
}

/// Opens an image, and opens it once more after some more commits.
fn last_batch_after(image: MemoryDirectory, durability: Durability) -> u64 {
    let last = |database: &Database| {
        let found = last_batches(&database.snapshot().unwrap());
        found.get(&WRITER).copied().unwrap_or(0)
    };
    let mut found_at = Vec::new();
    for _ in 0..2 {
        let database = open(Arc::new(image.clone()), durability).expect("an image opens");
        let found = last(&database);
        found_at.push(found);
        for name in TABLES {
            database.create_table(name, spec()).unwrap();
        }
        append(&database, WRITER, found + 1).unwrap();
        append(&database, WRITER, found + 2).unwrap();
        let report = database.verify(&Interrupt::never()).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
    assert_eq!(found_at[1], found_at[0] + 2, "commits after the crash survive a close");
    found_at[0]
}

/// The operations of the script when nothing fails.
fn operations_of_script(durability: Durability) -> Vec<Operation> {
    let directory = FaultDirectory::new();
    let told = run_script(&directory, durability);
    assert!(!told.failed && told.acknowledged == 21, "{told:?}");
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

#[test]
fn after_any_failed_operation_calls_return_and_all_acknowledged_batches_survive_a_power_cut() {
    let operations = operations_of_script(Durability::Fsync);
    for (nth, operation) in operations.iter().enumerate() {
        for forever in [false, true] {
            let context = format!("operation {nth} ({operation:?}) fails, forever: {forever}");
            let _context = Context(context.clone());
            let directory = FaultDirectory::new();
            directory.set_fault(Some(Fault { nth: nth as u64, forever }));
            let told = run_script(&directory, Durability::Fsync);
            for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
                let _context = Context(format!("{context}, unsynced: {unsynced:?}"));
                let mut rng = Rng::keyed(nth as u64, number as u64);
                let image = directory.crash_image(unsynced, &mut rng);
                let found = last_batch_after(image, Durability::Fsync);
                // One more than acknowledged: the commit whose sync failed may have reached the disk.
                let expected = told.acknowledged..=told.acknowledged + 1;
                assert!(expected.contains(&found), "{found} batches, {told:?}");
            }
        }
    }
    println!("{} operations", operations.len());
}

#[test]
fn a_power_cut_leaves_a_prefix_of_the_commits_that_were_not_synced() {
    let operations = operations_of_script(Durability::Os);
    for (nth, operation) in operations.iter().enumerate() {
        let context = format!("power cut at operation {nth} ({operation:?})");
        let directory = FaultDirectory::new();
        directory.set_fault(Some(Fault { nth: nth as u64, forever: true }));
        let told = {
            let _context = Context(context.clone());
            run_script(&directory, Durability::Os)
        };
        for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
            let _context = Context(format!("{context}, unsynced: {unsynced:?}"));
            let mut rng = Rng::keyed(nth as u64, number as u64);
            let image = directory.crash_image(unsynced, &mut rng);
            let found = last_batch_after(image, Durability::Os);
            assert!(found <= told.acknowledged + 1, "{found} batches, {told:?}");
        }
    }
}

/// Without a log: a flush of both tables, with a power cut `nth` operations into it. Returns the number
/// of operations that the flush began.
fn cut_flush(nth: Option<u64>) -> (FaultDirectory, u64) {
    let directory = FaultDirectory::new();
    let database = open(Arc::new(directory.clone()), Durability::None).unwrap();
    let _hold = database.hold_maintenance();
    for name in TABLES {
        database.create_table(name, spec()).unwrap();
    }
    for number in 1..=3 {
        append(&database, WRITER, number).unwrap();
    }
    let before = directory.operations().len() as u64;
    directory.set_fault(nth.map(|nth| Fault { nth: before + nth, forever: true }));
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
                    for name in TABLES {
                        database.create_table(name, spec()).unwrap();
                    }
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
            let database = Database::open_in(shared, options, None).unwrap();
            for name in TABLES {
                database.create_table(name, spec()).unwrap();
            }
            let nth = directory.operations().len() as u64 + rng.below(400);
            directory.set_fault(Some(Fault { nth, forever: rng.below(2) == 0 }));
            let write = |writer: i32| {
                let database = database.clone();
                move || {
                    (1..300).take_while(|&number| append(&database, writer, number).is_ok()).count()
                }
            };
            let writers = [0, 1].map(|writer| std::thread::spawn(write(writer)));
            let numbers = writers.map(|writer| writer.join().unwrap() as u64);
            // A failed removal of a file that nobody needs any more is no failure.
            check(database.flush(), &mut false);
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

/// Opens a log that does not sync its writes, and says which commits it holds.
fn recover_log(
    directory: Arc<dyn Directory>,
) -> std::result::Result<(Wal, Vec<u64>), StorageError> {
    let mut commits = Vec::new();
    let (wal, _) = Wal::recover(directory, false, Lsn(1), |lsn, _| {
        commits.push(lsn.0);
        Ok::<(), StorageError>(())
    })?;
    Ok((wal, commits))
}

#[test]
fn a_power_cut_once_the_log_goes_on_in_another_file_leaves_a_log_that_opens() {
    let directory = FaultDirectory::new();
    let (wal, _) = recover_log(Arc::new(directory.clone())).unwrap();
    // Two commits fill a file, so the third begins the next.
    for lsn in 1..=3 {
        wal.enqueue(Lsn(lsn), vec![7; 9 << 20]);
        wal.write_through(Lsn(lsn)).unwrap();
    }
    assert_eq!(directory.list().unwrap().len(), 2);
    for seed in 0..5 {
        for (number, unsynced) in Unsynced::ALL.into_iter().enumerate() {
            let image = directory.crash_image(unsynced, &mut Rng::keyed(seed, number as u64));
            let (_, commits) = recover_log(Arc::new(image))
                .unwrap_or_else(|error| panic!("seed {seed}, unsynced {unsynced:?}: {error}"));
            assert!(commits.starts_with(&[1, 2]), "{unsynced:?}: {commits:?}");
        }
    }
}

#[test]
fn a_commit_is_durable_before_it_is_replayed() {
    let directory = FaultDirectory::new();
    let (wal, _) = recover_log(Arc::new(directory.clone())).unwrap();
    for lsn in 1..=2 {
        wal.enqueue(Lsn(lsn), vec![7; 1000]);
        wal.write_through(Lsn(lsn)).unwrap();
    }
    drop(wal);
    // Opening a database syncs the folder before it reads the log.
    directory.sync().unwrap();
    let name = directory.list().unwrap().remove(0);
    let written = read_file(&directory, &name).unwrap();
    let mut replayed = 0;
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    Wal::recover(shared, false, Lsn(1), |_, _| {
        replayed += 1;
        let image = directory.crash_image(Unsynced::Dropped, &mut Rng::keyed(0, 0));
        assert_eq!(read_file(&image, &name).unwrap(), written);
        Ok::<(), StorageError>(())
    })
    .unwrap();
    assert_eq!(replayed, 2);
}
