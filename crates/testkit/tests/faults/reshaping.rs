//! Changes of tables and columns on a disk that fails or loses power at any operation: each happened, or did not.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_testkit::fault_directory::{Fault, FaultDirectory, Unsynced};

const ROWS: i64 = 500;

fn open(directory: &FaultDirectory) -> Result<Database> {
    let options = Options {
        durability: Durability::Fsync,
        maintenance_threads: 1,
        segment_bytes: 40_000,
        ..Options::default()
    };
    Database::open_in(Arc::new(directory.clone()), options)
}

fn made(directory: &FaultDirectory) -> Database {
    let db = open(directory).unwrap();
    let field = |name: &str, of| Field::new(name, of, true);
    let columns = vec![
        field("id", DataType::Int64),
        field("a", DataType::Int16),
        field("b", DataType::Int64),
    ];
    let t = db.create_table("t", TableSpec::new(Arc::new(Schema::new(columns)), ["id"])).unwrap();
    for half in [0..ROWS / 2, ROWS / 2..ROWS] {
        let ids: ArrayRef = Arc::new(half.map(Some).collect::<Int64Array>());
        let columns = [("id", ids.clone()), ("a", ids.clone()), ("b", ids)];
        t.append(&RecordBatch::try_from_iter(columns).unwrap(), OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    db
}

/// The tables, and the columns of the first; their rows must be whole.
fn shape(db: &Database) -> (Vec<String>, Vec<String>) {
    let tables = db.tables().unwrap();
    for name in &tables {
        let snapshot = db.table(name).unwrap().snapshot().unwrap();
        assert_eq!(snapshot.rows().unwrap(), ROWS as u64);
        for batch in snapshot.scan(ScanRequest::default()).unwrap() {
            let batch = batch.unwrap();
            let ids = batch.column(0).as_primitive::<Int64Type>().clone();
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                assert!(field.name() == "id" || column.null_count() == 0);
                if let Some(values) = column.as_primitive_opt::<Int64Type>() {
                    assert_eq!(values.values(), ids.values(), "{}", field.name());
                }
            }
        }
    }
    let schema = db.table(&tables[0]).unwrap().schema();
    let columns =
        schema.columns.fields().iter().map(|of| format!("{} {}", of.name(), of.data_type()));
    (tables, columns.collect())
}

#[test]
fn whatever_fails_a_change_of_a_table_happened_or_did_not() {
    type Change = fn(&Database) -> Result<()>;
    let changes: [Change; 5] = [
        |db| db.table("t")?.rename_column("b", "c"),
        |db| db.table("t")?.drop_column("b"),
        |db| db.table("t")?.widen("a", &DataType::Int64),
        |db| db.rename_table("t", "u").map(drop),
        |db| db.copy_table("t", "u").map(drop),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (before, after) = {
            let db = made(&FaultDirectory::new());
            let before = shape(&db);
            change(&db).unwrap();
            (before, shape(&db))
        };
        for fault in [Fault::Once, Fault::Forever, Fault::DiskFull] {
            for nth in 0.. {
                let directory = FaultDirectory::new();
                let db = made(&directory);
                let _hold = db.hold_maintenance();
                let begins = directory.operations().len() as u64;
                directory.set_fault(Some(fault(begins + nth)));
                let changed = change(&db);
                let operations = directory.operations().len() as u64 - begins;
                directory.set_fault(None);
                assert_eq!(
                    shape(&db),
                    if changed.is_ok() { after.clone() } else { before.clone() }
                );
                let mut rng = Rng::keyed(number as u64, nth);
                for unsynced in [Unsynced::Dropped, Unsynced::Kept, Unsynced::Pages] {
                    let image = directory.crash_image(unsynced, &mut rng);
                    let found = open(&FaultDirectory::restarted(&image)).unwrap();
                    assert!(found.verify().unwrap().faults.is_empty());
                    let found = shape(&found);
                    let is_right = match changed {
                        Ok(()) => found == after,
                        Err(_) => found == before || found == after,
                    };
                    assert!(is_right, "change {number}, operation {nth}, {unsynced:?}: {found:?}");
                }
                if operations <= nth {
                    assert!(changed.is_ok() && nth > 0);
                    break;
                }
            }
        }
    }
}
