//! A disk that is too small for all that should be written to it. Work that does not fit is put off and reported,
//! what fits goes on, and a call that does not fit changes nothing. Nothing turns read-only, and once there is room
//! all goes on without reopening.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::directory::Directory;
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::FaultDirectory;
use drillcore_testkit::numbered_batches::{append, create_tables, last_batches};
use drillcore_testkit::repetitions::repetitions;

const DURABILITIES: [Durability; 3] = [Durability::Os, Durability::Fsync, Durability::None];
const MIB: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 4 * MIB;
/// What merges leave free: two MiB and a quarter of memory.
const MERGES_LEAVE: u64 = 2 * MIB + MEMORY_BYTES / 4;
/// Longer than the longest pause before work is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(directory: &FaultDirectory, durability: Durability) -> Result<Database> {
    let options = Options { durability, memory_bytes: MEMORY_BYTES, ..Options::default() };
    Database::open_in(Arc::new(directory.clone()), options)
}

fn texts_spec() -> TableSpec {
    let columns =
        vec![Field::new("id", DataType::Int64, false), Field::new("text", DataType::Utf8, false)];
    TableSpec::new(Arc::new(Schema::new(columns)), ["id"]).exist_ok()
}

/// Rows of 1 KiB that do not get shorter by being stored.
fn rows(count: u64, rng: &mut Rng) -> RecordBatch {
    let mut text = || (0..64).map(|_| format!("{:016x}", rng.next_u64())).collect::<String>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..count as i64)),
        Arc::new(StringArray::from_iter_values((0..count).map(|_| text()))),
    ];
    RecordBatch::try_new(texts_spec().columns, columns).unwrap()
}

fn used_bytes(directory: &FaultDirectory) -> u64 {
    let names = directory.list().unwrap();
    // A file may go meanwhile.
    names.iter().filter_map(|name| directory.open(name).ok()?.byte_len().ok()).sum()
}

fn check_writable(database: &Database) {
    assert_eq!(database.stats().unwrap().writer.unwrap().failure, None);
}

fn of_table(database: &Database, name: &str) -> TableStats {
    let stats = database.stats().unwrap();
    stats.tables.into_iter().find(|table| table.name == name).unwrap()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_merge_that_does_not_fit_is_put_off_and_reported_while_what_fits_goes_on() {
    for durability in DURABILITIES {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(1, 0));
        let database = open(&directory, durability).unwrap();
        let tables =
            ["large", "small"].map(|name| database.create_table(name, texts_spec()).unwrap());
        let hold = database.hold_maintenance();
        for _ in 0..4 {
            for (table, count) in tables.iter().zip([900, 5]) {
                table.append(&rows(count, &mut rng), OnError::Raise).unwrap();
                database.flush().unwrap();
            }
        }
        directory.set_capacity(Some(used_bytes(&directory) + MERGES_LEAVE + MIB));
        drop(hold);
        wait_until("the small table is merged", || of_table(&database, "small").segments == 1);
        let put_off = || of_table(&database, "large").merge_put_off;
        wait_until("the large one is put off", || put_off().is_some());
        assert!(put_off().unwrap().contains("bytes of disk space"), "{:?}", put_off());
        assert_eq!(of_table(&database, "large").segments, 4);
        assert_eq!(of_table(&database, "small").merge_put_off, None);

        let error = database.compact().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        for table in &tables {
            table.append(&rows(5, &mut rng), OnError::Raise).unwrap();
        }
        database.flush().unwrap();
        check_writable(&database);

        directory.set_capacity(None);
        wait_until("the large one is merged", || of_table(&database, "large").segments < 4);
        wait_until("nothing is put off", || put_off().is_none());
        database.compact().unwrap();
        drop((database, tables));
        let database = open(&directory, durability).unwrap();
        assert_eq!(of_table(&database, "large").rows, 4 * 900 + 5);
        assert_eq!(of_table(&database, "small").rows, 4 * 5 + 5);
        assert!(database.verify().unwrap().faults.is_empty());
    }
}

#[test]
fn a_set_index_that_does_not_fit_is_an_error_for_who_waits_and_is_made_once_there_is_room() {
    let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(3, 0));
    let database = open(&directory, Durability::Os).unwrap();
    let table = database.create_table("t", texts_spec().set("text").without_set_index()).unwrap();
    table.append(&rows(900, &mut rng), OnError::Raise).unwrap();
    database.flush().unwrap();
    // Enough for the manifest to say which sets are wanted.
    directory.set_capacity(Some(used_bytes(&directory) + 3 * MIB / 2));
    table.index_all_sets().unwrap();
    let error = table.wait_for_set_index().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    check_writable(&database);
    directory.set_capacity(None);
    wait_until("the index is there", || table.wait_for_set_index().is_ok());
    assert!(database.verify().unwrap().faults.is_empty());
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_takes_it_once_there_is_room() {
    for durability in DURABILITIES {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(2, 0));
        let database = open(&directory, durability).unwrap();
        let table = database.create_table("t", texts_spec()).unwrap();
        directory.set_capacity(Some(used_bytes(&directory) + 6 * MIB));
        let mut appended = 0;
        let error = loop {
            assert!(appended < 64_000, "6 MiB of disk and 4 of memory have an end");
            match table.append(&rows(64, &mut rng), OnError::Raise) {
                Ok(_) => appended += 64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{durability:?}: {error}");
        assert!(appended > 2_000, "{durability:?}: {appended} rows fit");
        check_writable(&database);
        assert_eq!(of_table(&database, "t").rows, appended);

        // Another process takes what was left; no flush under way gives any of it back.
        let hold = database.hold_maintenance();
        wait_until("background work has ended", || {
            let before = used_bytes(&directory);
            std::thread::sleep(Duration::from_millis(200));
            used_bytes(&directory) == before
        });
        directory.set_capacity(Some(used_bytes(&directory)));
        let small = rows(1, &mut rng);
        let calls: [(&str, &dyn Fn() -> Result<()>); 6] = [
            ("append", &|| match durability {
                // Goes to memory alone.
                Durability::None => database.flush(),
                _ => table.append(&small, OnError::Raise).map(drop),
            }),
            ("create a table", &|| database.create_table("more", texts_spec()).map(drop)),
            ("drop a table", &|| database.drop_table("t")),
            ("add a column", &|| table.add_column("more", &DataType::Int64)),
            ("flush", &|| database.flush()),
            ("name a snapshot", &|| database.named_snapshot("kept").map(drop)),
        ];
        for (what, call) in calls {
            let error = call().expect_err(what);
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{durability:?}, {what}: {error}");
            check_writable(&database);
        }
        assert_eq!(of_table(&database, "t").rows, appended);

        directory.set_capacity(None);
        drop(hold);
        for (what, call) in calls.into_iter().filter(|(what, _)| *what != "drop a table") {
            call().unwrap_or_else(|error| panic!("{durability:?}, {what}: {error}"));
        }
        table.append(&rows(1, &mut rng), OnError::Raise).unwrap();
        let stored = appended + 1 + u64::from(durability != Durability::None);
        assert_eq!(of_table(&database, "t").rows, stored);
        check_writable(&database);
        if durability == Durability::None {
            directory.set_capacity(Some(used_bytes(&directory)));
            assert_eq!(database.close().unwrap_err().kind(), ErrorKind::StorageFull);
            assert_eq!(of_table(&database, "t").rows, stored, "it is open, and has all rows");
            directory.set_capacity(None);
        }
        database.close().unwrap();
        drop((database, table));
        let database = open(&directory, durability).unwrap();
        assert_eq!(of_table(&database, "t").rows, stored);
        assert!(database.verify().unwrap().faults.is_empty());
    }
}

#[test]
fn whatever_is_left_of_the_disk_at_random_moments_no_call_fails_but_for_want_of_it() {
    let mut refused = 0;
    for seed in 0..repetitions(6) {
        let (directory, mut rng) = (FaultDirectory::new(), Rng::keyed(seed, 13));
        let durability = DURABILITIES[seed as usize % 3];
        let mut last = 0;
        for part in 0..3 {
            let database = loop {
                match open(&directory, durability) {
                    Ok(database) => break database,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::StorageFull, "seed {seed}: {error}");
                        refused += 1;
                        directory.set_capacity(None);
                    }
                }
            };
            if part == 0 {
                create_tables(&database).unwrap();
            }
            for step in 0..40 {
                let left = [0, 70_000, MIB + 5_000, 2 * MIB + 20_000, MERGES_LEAVE + 40_000];
                directory.set_capacity(match rng.below(6) {
                    5 => None,
                    n => Some(used_bytes(&directory) + left[n as usize] + rng.below(20_000)),
                });
                let mut check = |done: Result<()>| {
                    if let Err(error) = &done {
                        assert_eq!(error.kind(), ErrorKind::StorageFull, "seed {seed}: {error}");
                        refused += 1;
                    }
                    check_writable(&database);
                    done.is_ok()
                };
                for _ in 0..5 {
                    if check(append(&database, 1, last + 1).map(drop)) {
                        last += 1;
                    }
                }
                match rng.below(8) {
                    0 | 1 => check(database.flush()),
                    2 => check(database.compact()),
                    3 => check(database.named_snapshot(&format!("{part}-{step}")).map(drop)),
                    4 => check(database.table("a").unwrap().index_all_sets()),
                    _ => true,
                };
            }
            assert_eq!(last_batches(&database.snapshot().unwrap()).get(&1), Some(&last));
            if durability == Durability::None || rng.below(2) == 0 {
                // Without a log, closing has to write all rows out.
                directory.set_capacity(None);
            }
            database.close().unwrap();
        }
        directory.set_capacity(None);
        let database = open(&directory, durability).unwrap();
        assert_eq!(last_batches(&database.snapshot().unwrap()).get(&1), Some(&last));
        assert!(database.verify().unwrap().faults.is_empty());
    }
    assert!(refused > 100, "{refused} calls were refused");
}
