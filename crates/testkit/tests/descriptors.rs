//! Processes that may have only a few files open: child processes under a low limit of file descriptors, and a
//! folder that refuses descriptors at random moments. Nothing turns read-only, and every row is there.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::directory::{Directory, MemoryDirectory, read_file};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::FaultDirectory;
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches};
use drillcore_testkit::repetitions::repetitions;

/// What the child process plays, where, and with how many descriptors.
const SCENARIO: &str = "DRILLCORE_DESCRIPTORS_SCENARIO";
const FOLDER: &str = "DRILLCORE_DESCRIPTORS_FOLDER";
const LIMIT: &str = "DRILLCORE_DESCRIPTORS_LIMIT";

const SEGMENTS: i64 = 10_000;
const TABLES: i64 = 300;

fn play(scenario: &str, folder: &Path, limit: u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_with_few_descriptors", "--nocapture"])
        .env(SCENARIO, scenario)
        .env(FOLDER, folder)
        .env(LIMIT, limit.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scenario} with {limit} descriptors:\n{told}\n{errors}");
    assert!(told.contains("1 passed"), "the child played nothing:\n{told}");
}

#[test]
#[ignore = "runs as the child of the other tests"]
fn child_with_few_descriptors() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let folder = std::env::var_os(FOLDER).expect("the parent names the folder");
    let limit = std::env::var(LIMIT).unwrap().parse().unwrap();
    rlimit::setrlimit(rlimit::Resource::NOFILE, limit, limit).unwrap();
    let folder = Path::new(&folder);
    match scenario.as_str() {
        "load" => load(folder),
        "tables" => many_tables(folder),
        "segments" => many_segments(folder),
        "others" => others_take_all(folder),
        other => panic!("no scenario {other:?}"),
    }
}

fn options() -> Options {
    Options { memory_bytes: Options::MEMORY_BYTES_MIN, cache_bytes: 100_000, ..Default::default() }
}

fn teams_spec() -> TableSpec {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    TableSpec::new(Arc::new(Schema::new(vec![field("id"), field("team")])), ["id"])
        .set("team")
        .exist_ok()
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Int64Array::from_iter_values(ids.map(|id| id % 7))),
    ];
    RecordBatch::try_new(teams_spec().columns, columns).unwrap()
}

fn scanned(table: &TableSnapshot) -> usize {
    let scan = table.scan(ScanRequest::default()).unwrap();
    scan.map(|batch| batch.unwrap().num_rows()).sum()
}

fn check_healthy(database: &Database) {
    let writer = database.stats().unwrap().writer.unwrap();
    assert_eq!(writer.failure, None);
    let report = database.verify().unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

/// Three writers and background work, a reader beside them that keeps an old snapshot, then all of it again from
/// the files.
fn load(folder: &Path) {
    let database = Database::open(folder, options()).unwrap();
    create_tables(&database).unwrap();
    append(&database, 0, 1).unwrap();
    let reader = Database::open_read_only(
        folder,
        ReadOptions { cache_bytes: 100_000, ..ReadOptions::default() },
    )
    .unwrap();
    let early = reader.snapshot().unwrap();
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let write = |writer: i32| {
            let database = &database;
            move || {
                (1..250).for_each(|number| assert!(append(database, writer, number).is_ok()));
                249
            }
        };
        let writers = [1, 2, 3].map(|writer| scope.spawn(write(writer)));
        for _ in 0..12 {
            database.flush().unwrap();
            reader.refresh().unwrap();
            last_batches(&reader.snapshot().unwrap());
            database.snapshot().unwrap();
        }
        writers.map(|writer| writer.join().unwrap()).to_vec()
    });
    database.named_snapshot("kept").unwrap();
    database.compact().unwrap();
    assert_eq!(last_batches(&early).get(&0), Some(&1), "a snapshot of the reader stays whole");
    let check = |snapshot: &Snapshot| {
        let found = last_batches(snapshot);
        assert!((1..=3).all(|writer| found[&writer] == numbers[0]), "{found:?}");
    };
    check(&database.snapshot().unwrap());
    check_healthy(&database);
    let late = database.snapshot().unwrap();
    drop(database);
    let database = Database::open(folder, options()).unwrap();
    append(&database, 0, 2).unwrap();
    database.compact().unwrap();
    check(&late);
    check(&database.named_snapshot("kept").unwrap());
    check_healthy(&database);
}

/// Many tables of one row, each with a segment; then of two rows.
fn many_tables(folder: &Path) {
    let database = Database::open(folder, options()).unwrap();
    for number in 0..TABLES {
        let table = database.create_table(&format!("t{number}"), teams_spec()).unwrap();
        table.append(&rows(number..number + 1), OnError::Raise).unwrap();
    }
    database.flush().unwrap();
    let first = database.snapshot().unwrap();
    for number in 0..TABLES {
        let table = database.table(&format!("t{number}")).unwrap();
        table.append(&rows(number + 1..number + 2), OnError::Raise).unwrap();
    }
    database.compact().unwrap();
    check_healthy(&database);
    let reader = Database::open_read_only(
        folder,
        ReadOptions { cache_bytes: 100_000, ..ReadOptions::default() },
    )
    .unwrap();
    for number in 0..TABLES {
        let name = format!("t{number}");
        assert_eq!(scanned(&first.table(&name).unwrap()), 1);
        for snapshot in [database.snapshot().unwrap(), reader.snapshot().unwrap()] {
            assert_eq!(scanned(&snapshot.table(&name).unwrap()), 2);
        }
    }
}

/// A table whose segments are many more than the process may have files.
fn many_segments(folder: &Path) {
    let reader = Database::open_read_only(
        folder,
        ReadOptions { cache_bytes: 100_000, ..ReadOptions::default() },
    )
    .unwrap();
    let early = reader.snapshot().unwrap().table("t").unwrap();
    assert_eq!(early.pieces() as i64, SEGMENTS);
    let check = |snapshot: &TableSnapshot| {
        assert_eq!(snapshot.rows().unwrap(), SEGMENTS as u64);
        assert_eq!(scanned(snapshot), SEGMENTS as usize);
        let request = SampleRequest { n: 500, ..Default::default() };
        assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 500);
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..SEGMENTS));
        let found = snapshot.get(std::slice::from_ref(&keys), None).unwrap();
        assert_eq!(found.rows.num_rows() as i64, SEGMENTS);
        assert_eq!(snapshot.sets().unwrap().rows.len(), 7);
    };
    check(&early);
    assert!(reader.verify().unwrap().faults.is_empty());
    let database = Database::open(folder, options()).unwrap();
    let table = database.table("t").unwrap();
    let snapshot = table.snapshot().unwrap();
    check(&snapshot);
    table.unindex_all_sets().unwrap();
    table.index_all_sets().unwrap();
    database.named_snapshot("all").unwrap();
    database.compact().unwrap();
    reader.refresh().unwrap();
    for snapshot in [&snapshot, &early, &reader.snapshot().unwrap().table("t").unwrap()] {
        check(snapshot);
    }
    check(&database.named_snapshot("all").unwrap().table("t").unwrap());
    check_healthy(&database);
    database.close().unwrap();
    // Another opening removes what the first one's snapshots still read, once they do not.
    let database = Database::open(folder, options()).unwrap();
    database.drop_snapshot("all").unwrap();
    check(&snapshot);
    check_healthy(&database);
}

/// Other code in the process takes all descriptors there are: calls that need one fail and change nothing.
fn others_take_all(folder: &Path) {
    let options = Options { wal_bytes_max: 1 << 30, ..options() };
    let database = Database::open(folder, options.clone()).unwrap();
    let table = database.create_table("t", teams_spec()).unwrap();
    let take_all = || std::iter::from_fn(|| File::open("/dev/null").ok()).collect::<Vec<_>>();
    let mut taken = take_all();
    assert!(taken.len() > 10);
    // There is no log file yet.
    let error = table.append(&rows(0..1), OnError::Raise).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
    taken.pop();
    table.append(&rows(0..1), OnError::Raise).unwrap();
    taken.extend(take_all());
    // Now there is.
    table.append(&rows(1..2), OnError::Raise).unwrap();
    let error = database.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(database.named_snapshot("none").is_err());
    assert!(
        Database::open_read_only(folder, ReadOptions { cache_bytes: 0, ..ReadOptions::default() })
            .is_err()
    );
    // Memory fills up: what cannot be flushed is refused after a while, with the reason.
    let refused = (0..1_000)
        .map(|n| table.append(&rows(n * 5_000 + 2..n * 5_000 + 5_002), OnError::Raise))
        .find_map(|appended| appended.err())
        .expect("memory has an end");
    assert!(refused.to_string().contains("ulimit -n"), "{refused}");
    let stats = database.stats().unwrap();
    assert!(stats.tables[0].flush_put_off.as_ref().is_some_and(|why| why.contains("ulimit -n")));
    let count = table.snapshot().unwrap().rows().unwrap();
    drop(taken);
    database.flush().unwrap();
    assert_eq!(database.stats().unwrap().tables[0].flush_put_off, None);
    table.append(&rows(0..5_000), OnError::Raise).unwrap();
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), count + 5_000);
    check_healthy(&database);
    let taken = take_all();
    assert!(Database::open(folder, options).is_err());
    drop(taken);
}

#[test]
fn a_process_with_few_descriptors_loads_reads_and_compacts() {
    for limit in [40, 256] {
        let folder = tempfile::tempdir().unwrap();
        play("load", folder.path(), limit);
    }
}

#[test]
fn a_process_with_few_descriptors_has_as_many_tables_as_it_likes() {
    let folder = tempfile::tempdir().unwrap();
    play("tables", folder.path(), 64);
}

#[test]
fn a_database_with_more_segments_than_descriptors_opens_and_answers() {
    // Written in memory, where nothing has to be synced, by one flush, which cuts between all keys.
    let memory = MemoryDirectory::new();
    {
        let options = Options { segment_bytes: 1, ..options() };
        let database = Database::open_in(Arc::new(memory.clone()), options).unwrap();
        let _hold = database.hold_maintenance();
        let table = database.create_table("t", teams_spec()).unwrap();
        table.append(&rows(0..SEGMENTS), OnError::Raise).unwrap();
        database.flush().unwrap();
        // While it is held, so that nothing is merged.
        database.close().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    for name in memory.list().unwrap() {
        let bytes = read_file(&memory, &name).unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    play("segments", folder.path(), 256);
}

#[test]
fn a_call_that_gets_no_descriptor_changes_nothing_and_the_database_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    play("others", folder.path(), 64);
}

/// Descriptors are refused to random calls, to some in a row. Whatever fails says why, and changes nothing.
#[test]
fn descriptors_that_are_refused_at_random_moments_cost_no_row_and_leave_the_database_writable() {
    for seed in 0..repetitions(3) {
        let directory = FaultDirectory::new();
        let mut rng = Rng::keyed(seed, 12);
        let durability = [Durability::Fsync, Durability::Os, Durability::None][seed as usize % 3];
        let options = Options { durability, wal_bytes_max: 60_000, ..options() };
        let open = || Database::open_in(Arc::new(directory.clone()), options.clone());
        let mut last = 0;
        for part in 0..3 {
            let database = loop {
                match open() {
                    Ok(database) => break database,
                    Err(error) => check_refused(&error, seed),
                }
            };
            if part == 0 {
                create_tables(&database).unwrap();
                directory.begin_scarcity(seed);
            }
            for step in 0..25 {
                match append(&database, 1, last + 1) {
                    Ok(_) => last += 1,
                    Err(error) => check_refused(&error, seed),
                }
                let done = match rng.below(8) {
                    0 => database.flush(),
                    1 => database.compact(),
                    2 => database.named_snapshot(&format!("{part}-{step}")).map(drop),
                    _ => Ok(()),
                };
                done.unwrap_or_else(|error| check_refused(&error, seed));
            }
            let failed = directory.end_scarcity();
            assert!(failed > 0, "seed {seed}: nothing was refused");
            wait_until_reads_succeed(&database);
            assert_eq!(last_batches(&database.snapshot().unwrap()).get(&1), Some(&last));
            check_healthy(&database);
            directory.begin_scarcity(seed + 100 * (part + 1));
            // Without a log, closing has to write all rows out.
            if durability == Durability::None {
                directory.end_scarcity();
                database.close().unwrap();
                directory.begin_scarcity(seed + 100 * (part + 1));
            }
        }
        directory.end_scarcity();
        let database = open().unwrap();
        assert_eq!(last_batches(&database.snapshot().unwrap()).get(&1), Some(&last));
        check_healthy(&database);
    }
}

/// A page that maintenance began to read while descriptors were refused fails for all who wait for it.
fn wait_until_reads_succeed(database: &Database) {
    let snapshot = database.snapshot().unwrap();
    let can_scan = |name: &String| {
        let scan = snapshot.table(name).unwrap().scan(ScanRequest::default());
        scan.is_ok_and(|mut scan| scan.all(|batch| batch.is_ok()))
    };
    let succeed = (0..50).any(|_| snapshot.tables().iter().all(can_scan));
    assert!(succeed, "reads fail once no descriptor is refused any more");
}

fn check_refused(error: &Error, seed: u64) {
    assert_eq!(error.kind(), ErrorKind::Io, "seed {seed}: {error}");
    assert!(error.to_string().contains("os error 24"), "seed {seed}: {error}");
}

/// A name must not be reused for another file: what reads it would take it for the old one.
#[test]
fn numbers_of_files_are_never_given_twice() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let mut seen: Vec<String> = Vec::new();
    for round in 1..8 {
        let database = Database::open_in(directory.clone(), options()).unwrap();
        create_tables(&database).unwrap();
        let before = directory.list().unwrap();
        for number in 1..6 {
            append(&database, round, number).unwrap();
            database.flush().unwrap();
        }
        database.compact().unwrap();
        let files = directory.list().unwrap();
        let fresh: Vec<String> = files.into_iter().filter(|name| !before.contains(name)).collect();
        let paged = fresh.into_iter().filter(|name| name.ends_with(".drill"));
        for name in paged {
            assert!(!seen.contains(&name), "{name} was there before");
            seen.push(name);
        }
    }
    assert!(seen.len() >= 7);
}
