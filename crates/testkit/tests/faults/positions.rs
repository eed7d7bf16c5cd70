//! How far a source has been read, and the rows that were read of it: whatever a power cut or a killed process leaves has
//! both, or neither.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::directory::{Directory, MemoryDirectory};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::{FaultDirectory, Unsynced};
use drillcore_testkit::repetitions::repetitions;

const TABLES: [&str; 2] = ["even", "odd"];
const COMMITS: u64 = 60;

fn open(directory: Arc<dyn Directory>, durability: Durability) -> Database {
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    let options =
        Options { durability, memory_bytes, maintenance_threads: 1, ..Default::default() };
    Database::open_in(directory, options).unwrap()
}

fn row(number: u64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![number as i64]));
    RecordBatch::try_from_iter([("number", numbers)]).unwrap()
}

/// Commits `number` into one of the tables, and says that the source is read up to there. Every seventh has no row.
fn commit(database: &Database, number: u64) {
    let row = row(number);
    let batches = [(TABLES[number as usize % 2], &row)];
    let batches = if number.is_multiple_of(7) { &[][..] } else { &batches };
    let position = |source: &str, position: String| SourcePosition {
        source: source.into(),
        position: position.into(),
    };
    let mut positions = vec![position("numbers", number.to_string())];
    // One that comes and goes.
    let seldom = if number.is_multiple_of(3) { String::new() } else { number.to_string() };
    positions.push(position("seldom", seldom));
    database.prepare(batches, OnError::Raise).unwrap().commit(&positions).unwrap();
}

/// The numbers in both tables, and the position.
fn found(database: &Database) -> (Vec<u64>, u64) {
    let positions = database.positions().unwrap();
    let read = |position: &Vec<u8>| String::from_utf8(position.clone()).unwrap().parse().unwrap();
    let position: u64 = positions.get("numbers").map_or(0, read);
    let seldom = (!position.is_multiple_of(3)).then_some(position);
    assert_eq!(positions.get("seldom").map(read), seldom, "the newest position counts");
    let mut numbers = Vec::new();
    for table in TABLES {
        let Ok(table) = database.table(table) else { continue };
        for batch in table.snapshot().unwrap().scan(ScanRequest::default()).unwrap() {
            let batch = batch.unwrap();
            let column = batch.column(0).as_primitive::<Int64Type>();
            numbers.extend(column.values().iter().map(|number| *number as u64));
        }
    }
    numbers.sort_unstable();
    (numbers, position)
}

fn read_up_to(position: u64) -> Vec<u64> {
    (1..=position).filter(|number| !number.is_multiple_of(7)).collect()
}

fn create_tables(database: &Database) {
    for name in TABLES {
        let columns = Schema::new(vec![Field::new("number", DataType::Int64, false)]);
        database.create_table(name, TableSpec::new(Arc::new(columns), ["number"])).unwrap();
    }
}

/// Power cuts at any time, after flushes of this table and that one.
fn cut_power(durability: Durability, seed: u64) {
    let mut rng = Rng::keyed(seed, 5);
    let directory = FaultDirectory::new();
    let mut database = open(Arc::new(directory.clone()), durability);
    create_tables(&database);
    for number in 1..=COMMITS {
        commit(&database, number);
        match rng.below(12) {
            0 | 1 => database.flush().unwrap(),
            2 => database.compact().unwrap(),
            3 => {
                database.close().unwrap();
                database = open(Arc::new(directory.clone()), durability);
                assert_eq!(found(&database), (read_up_to(number), number), "seed {seed}");
            }
            _ => {}
        }
        for unsynced in [Unsynced::Dropped, Unsynced::Kept, Unsynced::Cut, Unsynced::Sectors] {
            let image: MemoryDirectory = directory.crash_image(unsynced, &mut rng);
            let after = open(Arc::new(image), durability);
            let (numbers, position) = found(&after);
            if durability == Durability::None {
                // Tables stand at different commits then.
                let has = |wanted: &u64| numbers.contains(wanted);
                assert!(
                    read_up_to(position).iter().all(has),
                    "seed {seed}: {numbers:?} {position}"
                );
            } else {
                assert_eq!(
                    numbers,
                    read_up_to(position),
                    "seed {seed}, commit {number}, {unsynced:?}, {durability:?}"
                );
                let kept = matches!(unsynced, Unsynced::Kept) || durability == Durability::Fsync;
                assert!(position == number || !kept, "seed {seed}: {position} of {number}");
            }
        }
    }
}

#[test]
fn a_power_cut_leaves_a_position_with_the_rows_up_to_it_and_no_others() {
    for seed in 0..repetitions(6) {
        for durability in [Durability::Os, Durability::Fsync, Durability::None] {
            cut_power(durability, seed);
        }
    }
}

#[test]
fn a_flush_keeps_positions_of_commits_without_rows() {
    for durability in [Durability::Os, Durability::Fsync, Durability::None] {
        let directory = FaultDirectory::new();
        let database = open(Arc::new(directory.clone()), durability);
        create_tables(&database);
        for number in [1, 7] {
            commit(&database, number);
            database.flush().unwrap();
        }
        let mut rng = Rng::keyed(7, 5);
        let image: MemoryDirectory = directory.crash_image(Unsynced::Dropped, &mut rng);
        assert_eq!(found(&open(Arc::new(image), durability)), (vec![1], 7), "{durability:?}");
    }
}

#[test]
fn a_reader_sees_a_position_with_the_rows_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), Options::default()).unwrap();
    create_tables(&database);
    let mut rng = Rng::keyed(3, 5);
    let open_reader = || Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    let reader = open_reader();
    for number in 1..=COMMITS {
        commit(&database, number);
        if rng.below(6) == 0 {
            database.flush().unwrap();
        }
        // What the first has read of the log is not read again.
        if rng.below(2) == 0 {
            reader.refresh().unwrap();
            assert_eq!(found(&reader), (read_up_to(number), number));
            assert_eq!(found(&open_reader()), (read_up_to(number), number));
        }
    }
}

#[test]
fn a_position_of_no_source_or_of_one_listed_twice_is_refused_and_nothing_is_changed() {
    let database = Database::in_memory(Options::default()).unwrap();
    let columns = Schema::new(vec![Field::new("number", DataType::Int64, false)]);
    let table =
        database.create_table("odd", TableSpec::new(Arc::new(columns), ["number"])).unwrap();
    let position =
        |source: &str, len| SourcePosition { source: source.into(), position: vec![1; len] };
    for (positions, said) in [
        (vec![position("", 1)], "no name"),
        (vec![position("a", 1), position("a", 2)], "listed twice"),
        (vec![position("a", 70_000)], "the limit is 65536"),
        (vec![position(&"a".repeat(5_000), 1)], "the limit is 4096"),
    ] {
        let row = row(1);
        let ready = database.prepare(&[("odd", &row)], OnError::Raise).unwrap();
        let refused = ready.commit(&positions).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(said), "{refused}");
    }
    assert!(database.positions().unwrap().is_empty());
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 0);
}
