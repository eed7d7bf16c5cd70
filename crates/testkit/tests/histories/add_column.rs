//! Power cuts and failing disks at every operation of a script that adds columns, or appends rows that bring
//! them: what a call said was added is there, and so is every row that was acknowledged, with its value.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Unsynced};

/// What the calls that returned have done.
#[derive(Debug, Default, Clone, PartialEq)]
struct Told {
    has_table: bool,
    columns: usize,
    rows: i64,
}

fn options() -> Options {
    Options { durability: Durability::Fsync, maintenance_threads: 1, ..Default::default() }
}

/// Row `id`, which has `id` in some of the columns there are.
fn row(id: i64, columns: usize) -> RecordBatch {
    let value = || Arc::new(Int64Array::from(vec![id])) as ArrayRef;
    let names =
        (0..columns).filter(|column| is_set(id, *column)).map(|column| format!("c{column}"));
    let columns = ["id".to_string()].into_iter().chain(names).map(|name| (name, value()));
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Each second column, and in rows 2n + 1 the column that was added just before.
fn is_set(id: i64, column: usize) -> bool {
    (id + column as i64) % 2 == 0 || id == 2 * column as i64 + 1
}

/// How many columns stand before those added.
fn columns_before(merge: &Merge) -> usize {
    if discovers(merge) { 2 } else { 1 }
}

fn discovers(merge: &Merge) -> bool {
    matches!(merge, Merge::Rollup(_))
}

/// Appends, adds columns, flushes and compacts until a call fails.
fn run_script(directory: &FaultDirectory, merge: &Merge, told: &mut Told) -> Result<()> {
    let database = Database::open_in(Arc::new(directory.clone()), options())?;
    let _hold = database.hold_maintenance();
    let key = Field::new("id", DataType::Int64, false);
    let spec = TableSpec::new(Arc::new(Schema::new(vec![key])), ["id"]).merge(merge.clone());
    let table = database.create_table("t", spec)?;
    told.has_table = true;
    for step in 0..6 {
        table.append(&row(told.rows, told.columns), OnError::Raise)?;
        told.rows += 1;
        if !discovers(merge) {
            table.add_column(&format!("c{step}"), &DataType::Int64)?;
            told.columns += 1;
        }
        table.append(&row(told.rows, step + 1), OnError::Raise)?;
        told.columns = step + 1;
        told.rows += 1;
        match step {
            1 | 3 => database.flush()?,
            4 => database.compact()?,
            _ => {}
        }
    }
    database.close()
}

/// One more than acknowledged, of each: the call that failed may have reached the disk.
fn check(database: &Database, merge: &Merge, told: &Told) {
    let Ok(table) = database.table("t") else {
        assert!(!told.has_table);
        return;
    };
    let snapshot = table.snapshot().unwrap();
    let before = columns_before(merge);
    let found = snapshot.schema().columns.fields().len() - before;
    assert!((told.columns..=told.columns + 1).contains(&found), "{found} columns");
    let mut ids = Vec::new();
    for batch in snapshot.scan(ScanRequest::default()).unwrap() {
        let batch = batch.unwrap();
        let of_batch = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        for column in 0..found {
            let values = batch.column(column + before).as_primitive::<Int64Type>();
            for (&id, value) in of_batch.iter().zip(values) {
                // Rows 2n - 1 and 2n were appended when there were n columns.
                let was_there = (column as i64) < (id + 1) / 2;
                assert_eq!(value, (was_there && is_set(id, column)).then_some(id), "row {id}");
            }
        }
        ids.extend(of_batch);
    }
    assert!(ids.len() / 2 <= found, "no row without the column that it brought");
    assert!(
        ids == (0..told.rows).collect::<Vec<_>>() || ids == (0..=told.rows).collect::<Vec<_>>()
    );
}

#[test]
fn a_column_is_there_once_its_call_returned_whatever_fails_and_whenever() {
    let rollup = RollupSpec {
        granularity: Granularity::NONE,
        metrics: vec![("n".into(), Metric::Count)],
        discover: true,
        ..Default::default()
    };
    for merge in [Merge::Append, Merge::Upsert, Merge::Rollup(rollup)] {
        let sound = FaultDirectory::new();
        let mut whole = Told::default();
        run_script(&sound, &merge, &mut whole).unwrap();
        assert_eq!(whole, Told { has_table: true, columns: 6, rows: 12 });
        let operations = sound.operations().len() as u64;
        for failing in 0..operations {
            for fault in [Fault::Once(failing), Fault::Forever(failing)] {
                let directory = FaultDirectory::new();
                directory.set_fault(Some(fault));
                let mut told = Told::default();
                let _ = run_script(&directory, &merge, &mut told);
                for unsynced in Unsynced::ALL {
                    println!("{merge:?}, {fault:?}, {unsynced:?}, {told:?}");
                    let mut rng = Rng::keyed(failing, 0);
                    let image = Arc::new(directory.crash_image(unsynced, &mut rng));
                    let database = Database::open_in(image, options()).unwrap();
                    check(&database, &merge, &told);
                    if !database.tables().unwrap().is_empty() {
                        let table = database.table("t").unwrap();
                        table.add_column("later", &DataType::Utf8).unwrap();
                        let wider = table.snapshot().unwrap().schema();
                        assert!(wider.columns.column_with_name("later").is_some());
                    }
                    assert!(database.verify().unwrap().faults.is_empty());
                }
            }
        }
    }
}
