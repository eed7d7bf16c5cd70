//! Read a database beside the process that writes it: `cargo run -p drillcore --example reader`.
//!
//! Here one process does both, which works alike.

use std::sync::Arc;
use std::time::Duration;

use drillcore::arrow_array::{Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Database, OnError, Options, ReadOptions, Result, Selection, TableSpec};

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("drillcore-reader-{}", std::process::id()));
    let db = Database::open(&folder, Options::default())?;
    let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let events = db.create_table("events", TableSpec::new(columns.clone(), ["id"]))?;
    let append = |ids: std::ops::Range<i64>| {
        let ids = Arc::new(Int64Array::from_iter_values(ids));
        let batch = RecordBatch::try_new(columns.clone(), vec![ids]).expect("the array fits");
        events.append(&batch, OnError::Raise)
    };
    append(0..1_000)?;

    let reader = Database::open_read_only(&folder, ReadOptions::default())?;
    let count = |db: &Database| db.table("events")?.snapshot()?.count(&Selection::default());
    println!("the reader sees {} rows", count(&reader)?);

    // A reader moves on when it is asked to, here at least to a commit that the writer named.
    let newest = append(1_000..1_500)?.lsn;
    reader.refresh_to(newest, Duration::from_secs(10))?;
    println!("now it sees {} rows", count(&reader)?);

    reader.close()?;
    db.close()?;
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    Ok(())
}
