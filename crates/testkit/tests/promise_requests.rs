//! Appends ask for memory about as often for many rows as for few. Threads that ask for small pieces wait for each other in the
//! allocator. Alone in its file, as the allocator counts for the whole binary.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{Database, Merge, Metric, OnError, Options, RollupSpec, TableSpec};
use drillcore_testkit::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const FEW: i64 = 4_000;
const MANY: i64 = 32_000;
/// Lists that grow with the rows are moved some times more.
const MORE: u64 = 60;

fn schema() -> Arc<Schema> {
    let field = |(name, data_type)| Field::new(name, data_type, false);
    let fields = [
        ("place", DataType::Utf8),
        ("id", DataType::Int64),
        ("units", DataType::Int64),
        ("price", DataType::Float64),
        ("note", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.map(field).to_vec()))
}

fn batch(rows: i64, first: i64) -> RecordBatch {
    let ids = first..first + rows;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("p{}", id % 50)))),
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id * 7919 % 1_000_003))),
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 90))),
        Arc::new(Float64Array::from_iter_values(ids.clone().map(|id| id as f64 / 8.0))),
        Arc::new(StringArray::from_iter_values(ids.map(|id| format!("note {id}")))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// How often the appending thread asks for memory for a batch of `rows` rows, in a new table.
fn requests(spec: &TableSpec, rows: i64) -> u64 {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("rows", spec.clone()).unwrap();
    // The first append allocates what later ones use again.
    table.append(&batch(10, 0), OnError::Raise).unwrap();
    let batch = batch(rows, 10);
    let before = CountingAllocator::requests();
    table.append(&batch, OnError::Raise).unwrap();
    CountingAllocator::requests() - before
}

#[test]
fn appends_of_many_rows_ask_for_memory_as_often_as_those_of_few() {
    let rollup = RollupSpec::default()
        .metric("rows", Metric::Count)
        .metric("units", Metric::sum("units"))
        .metric("most", Metric::max("price"));
    let spec = |merge| TableSpec::new(schema(), ["place", "id"]).set("place").merge(merge);
    let specs = [
        ("append", spec(Merge::Append)),
        ("append, weights", spec(Merge::Append).weights(["units", "price"])),
        ("upsert, weights", spec(Merge::Upsert).weights(["price"])),
        ("rollup", spec(Merge::Rollup(rollup))),
    ];
    for (what, spec) in specs {
        let (few, many) = (requests(&spec, FEW), requests(&spec, MANY));
        println!("{what}: {few} and {many} requests");
        assert!(many <= few + MORE, "{what}: {few} requests for {FEW} rows, {many} for {MANY}");
    }
}
