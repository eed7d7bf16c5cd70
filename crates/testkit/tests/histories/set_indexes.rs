//! Power cuts and failing disks at every operation of a script that switches set indexes: what a call said is
//! so after a restart, every acknowledged row is there, and no list lacks a row.

use std::sync::Arc;
use std::time::Duration;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::directory::Directory;
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::deadline::wait_until;
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Operation, Unsynced};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What the calls that returned have done.
#[derive(Debug, Default, Clone, PartialEq)]
struct Told {
    has_table: bool,
    rows: i64,
    /// The last two states of the index: what a call returned, and what may be there instead.
    indexed: Vec<IndexedSetsStats>,
}

fn options() -> Options {
    Options { durability: Durability::Fsync, maintenance_threads: 1, ..Default::default() }
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let names: StringArray = ids.clone().map(|id| Some(NAMES[id as usize % 3])).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids), ("name", Arc::new(names) as _)]).unwrap()
}

fn names(names: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(names.to_vec()))
}

/// Appends, switches, flushes and compacts until a call fails.
fn run_script(directory: &FaultDirectory, told: &mut Told) -> Result<()> {
    let database = Database::open_in(Arc::new(directory.clone()), options())?;
    let spec = TableSpec::new(batch(0..0).schema(), ["id"]).set("name").without_set_index();
    let state = |all, exceptions| {
        let mut state = IndexedSetsStats::default();
        (state.all, state.exceptions) = (all, exceptions);
        state
    };
    told.indexed = vec![state(false, 0)];
    let table = database.create_table("t", spec)?;
    told.has_table = true;
    let append = |told: &mut Told| -> Result<()> {
        table.append(&batch(told.rows..told.rows + 9), OnError::Raise)?;
        told.rows += 9;
        Ok(())
    };
    let settle = || table.wait_for_set_index();
    append(told)?;
    database.flush()?;
    for step in 0..4 {
        let next = [state(false, 1), state(true, 0), state(true, 1), state(true, 0)][step].clone();
        told.indexed = vec![told.indexed.last().expect("one is told").clone(), next.clone()];
        match step {
            0 => table.index_sets(&names(&["b"]))?,
            1 => table.index_all_sets()?,
            2 => table.unindex_sets(&names(&["a"]))?,
            _ => table.index_sets(&names(&["a"]))?,
        }
        told.indexed = vec![next];
        append(told)?;
        settle()?;
        match step {
            0 | 2 => database.flush()?,
            1 => database.compact()?,
            _ => drop(database.named_snapshot("kept")?),
        }
        settle()?;
    }
    database.close()
}

/// Nine more than acknowledged: the call that failed may have reached the disk.
fn check(database: &Database, told: &Told) {
    let Ok(table) = database.table("t") else {
        assert!(!told.has_table);
        return;
    };
    let mut stats = database.stats().unwrap().tables[0].indexed_sets.clone().unwrap();
    stats.rows_to_index = 0;
    assert!(told.indexed.contains(&stats), "{stats:?}");
    for settled in [false, true] {
        if settled {
            table.wait_for_set_index().unwrap();
        }
        let rows = rows_of_sets(&table);
        assert!(rows == told.rows || rows == told.rows + 9, "{rows}");
    }
}

/// How many rows the table has: each set has a third.
fn rows_of_sets(table: &Table) -> i64 {
    let snapshot = table.snapshot().unwrap();
    let rows = snapshot.count(&Selection::default()).unwrap() as i64;
    for name in NAMES {
        let selection = Selection { sets: Some(names(&[name])), ..Default::default() };
        assert_eq!(snapshot.count(&selection).unwrap() as i64, rows / 3, "{name}");
    }
    rows
}

#[test]
fn a_switch_is_for_good_once_its_call_returned_whatever_fails_and_whenever() {
    let sound = FaultDirectory::new();
    let mut whole = Told::default();
    run_script(&sound, &mut whole).unwrap();
    assert_eq!(whole.rows, 45);
    let operations = sound.operations().len() as u64;
    for failing in 0..operations {
        for fault in [Fault::Once(failing), Fault::Forever(failing)] {
            let directory = FaultDirectory::new();
            directory.set_fault(Some(fault));
            let mut told = Told::default();
            let _ = run_script(&directory, &mut told);
            for unsynced in Unsynced::ALL {
                println!("{fault:?}, {unsynced:?}, {told:?}");
                let mut rng = Rng::keyed(failing, 0);
                let image = Arc::new(directory.crash_image(unsynced, &mut rng));
                let database = Database::open_in(image.clone(), options()).unwrap();
                check(&database, &told);
                assert!(database.verify().unwrap().faults.is_empty());
                database.close().unwrap();
                drop(database);
                let database = Database::open_in(image, options()).unwrap();
                check(&database, &told);
            }
        }
    }
}

/// A table without lists of sets, in one segment.
fn unlisted(directory: &FaultDirectory) -> (Database, Table) {
    let database = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
    let spec = TableSpec::new(batch(0..0).schema(), ["id"]).set("name").without_set_index();
    let table = database.create_table("t", spec).unwrap();
    table.append(&batch(0..45), OnError::Raise).unwrap();
    database.flush().unwrap();
    (database, table)
}

#[test]
fn a_list_for_which_the_disk_has_no_room_half_way_is_written_once_there_is_room() {
    let sound = FaultDirectory::new();
    let (_database, table) = unlisted(&sound);
    let before = sound.operations().len();
    table.index_all_sets().unwrap();
    table.wait_for_set_index().unwrap();
    let operations = sound.operations();
    // Before and behind them the manifest is written.
    let is = |kind| move |operation: &Operation| *operation == kind;
    let created = before + operations[before..].iter().position(is(Operation::Create)).unwrap();
    let synced = created + operations[created..].iter().position(is(Operation::Sync)).unwrap();
    assert!(synced > created + 1, "bytes are written: {operations:?}");

    let mut indexed = IndexedSetsStats::default();
    (indexed.all, indexed.exceptions) = (true, 0);
    let told = Told { has_table: true, rows: 45, indexed: vec![indexed] };
    for failing in created..synced {
        let directory = FaultDirectory::new();
        let (database, table) = unlisted(&directory);
        directory.set_fault(Some(Fault::DiskFull(failing as u64)));
        table.index_all_sets().unwrap();
        let why = || database.stats().unwrap().tables[0].merge_put_off.clone();
        wait_until(Duration::from_secs(30), "the list is put off", || why().is_some());
        assert!(why().unwrap().contains("no space left"), "{:?}", why());
        assert_eq!(rows_of_sets(&table), 45);
        for unsynced in Unsynced::ALL {
            let image = directory.crash_image(unsynced, &mut Rng::keyed(failing as u64, 0));
            check(&Database::open_in(Arc::new(image), options()).unwrap(), &told);
        }
        directory.set_fault(None);
        check(&database, &told);
        let stats = database.stats().unwrap();
        let rows_to_index = stats.tables[0].indexed_sets.as_ref().unwrap().rows_to_index;
        assert_eq!((why(), rows_to_index), (None, 0));
        assert_eq!(stats.writer.unwrap().segments_indexed, 1);
        assert!(database.verify().unwrap().faults.is_empty());
        let is_list = |name: &&String| name.starts_with("postings-");
        assert_eq!(directory.list().unwrap().iter().filter(is_list).count(), 1);
    }
}
