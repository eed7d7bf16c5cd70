// The table that examples in the documentation of the crate begin with: 100 flights, 30 of them of UA, in a database in
// memory. One expression, which they include.
{
    use std::sync::Arc;

    use drillcore::arrow_array::{Int64Array, RecordBatch, StringArray};
    use drillcore::arrow_schema::{DataType, Field, Schema};
    use drillcore::{Database, OnError, Options, TableSpec};

    let db = Database::in_memory(Options::default())?;
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("carrier", DataType::Utf8, true),
        Field::new("delay", DataType::Int64, false),
    ]));
    let spec = TableSpec::new(columns.clone(), ["id"]).set("carrier").weights(["delay"]);
    let flights = db.create_table("flights", spec)?;
    let carriers = (0..100).map(|id| if id < 30 { "UA" } else { "DL" });
    let batch = RecordBatch::try_new(
        columns,
        vec![
            Arc::new(Int64Array::from_iter_values(0..100)),
            Arc::new(StringArray::from_iter_values(carriers)),
            Arc::new(Int64Array::from_iter_values((0..100).map(|id| id % 60))),
        ],
    );
    flights.append(&batch.unwrap(), OnError::Raise)?;
    flights
}
