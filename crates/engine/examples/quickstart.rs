//! Make a table, append to it, and read it back: `cargo run -p drillcore --example quickstart`.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Database, OnError, Options, Result, ScanRequest, Selection, TableSpec};

fn main() -> Result<()> {
    // `Database::open("flights.drill", ...)` keeps it in a folder.
    let db = Database::in_memory(Options::default())?;
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("carrier", DataType::Utf8, true),
        Field::new("delay", DataType::Int64, true),
    ]));
    // Sorted by `id`; the rows of one carrier are a set, which costs what it holds to read.
    let spec = TableSpec::new(columns.clone(), ["id"]).set("carrier");
    let flights = db.create_table("flights", spec)?;

    let batch = RecordBatch::try_new(
        columns,
        vec![
            Arc::new(Int64Array::from_iter_values(0..1_000)),
            Arc::new(StringArray::from_iter_values(
                (0..1_000).map(|id| if id % 10 == 0 { "UA" } else { "DL" }),
            )),
            Arc::new(Int64Array::from_iter_values((0..1_000).map(|id| id % 60 - 10))),
        ],
    )
    .expect("the arrays fit the columns");
    // Any number of threads may append at once; each batch is one commit.
    flights.append(&batch, OnError::Raise)?;

    // A snapshot is the table at one moment, whatever is appended meanwhile.
    let now = flights.snapshot()?;
    let key: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    println!("flight 7: {:?}", now.get(&[key], None)?.rows);

    let united =
        Selection { sets: Some(Arc::new(StringArray::from(vec!["UA"]))), ..Selection::default() };
    println!("{} flights of United", now.count(&united)?);
    let request = ScanRequest { selection: united, limit: Some(3), ..ScanRequest::default() };
    for batch in now.scan(request)? {
        println!("{:?}", batch?);
    }
    db.close()
}
