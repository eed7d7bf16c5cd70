//! What the tests of several features make and read alike. What a feature's table is made of stays in its own file.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::*;

/// Columns by name, type and whether they may hold null.
pub fn schema_of(fields: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = fields.iter().map(|(name, of, nullable)| Field::new(*name, of.clone(), *nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Integers, none of them null.
pub fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// The key of a row in a table that has one integer as its key.
pub fn key(id: i64) -> Vec<ArrayRef> {
    vec![integers([id])]
}

/// The keys from one to another, with both.
pub fn between(low: i64, high: i64) -> Between {
    Between { low: Some(key(low)), high: Some(key(high)), closed: Closed::Both }
}

/// The rows with these keys.
pub fn of_keys(low: i64, high: i64) -> Selection {
    Selection { between: Some(between(low, high)), ..Default::default() }
}

/// The rows of one set.
pub fn of_set(name: &str) -> Selection {
    let sets: ArrayRef = Arc::new(StringArray::from(vec![name]));
    Selection { sets: Some(sets), ..Default::default() }
}

/// The integers in one column of a batch, none of them null.
fn column(batch: &RecordBatch, number: usize) -> Vec<i64> {
    batch.column(number).as_primitive::<Int64Type>().values().to_vec()
}

/// The first column of a batch, which has the ids.
pub fn ids(batch: &RecordBatch) -> Vec<i64> {
    column(batch, 0)
}

/// The ids of all rows, in key order.
pub fn all_ids(table: &TableSnapshot) -> Vec<i64> {
    let columns = Some(vec!["id".to_string()]);
    let scan = table.scan(ScanRequest { columns, ..Default::default() }).unwrap();
    scan.flat_map(|batch| ids(&batch.unwrap())).collect()
}

/// The first two columns of all rows, in key order.
pub fn pairs(table: &TableSnapshot) -> Vec<(i64, i64)> {
    let batches = table.scan(ScanRequest::default()).unwrap().map(Result::unwrap);
    batches.flat_map(|batch| ids(&batch).into_iter().zip(column(&batch, 1))).collect()
}

/// All rows of a scan.
pub fn as_one(scan: Scan) -> RecordBatch {
    let schema = scan.schema();
    let batches = scan.collect::<Result<Vec<_>>>().unwrap();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

/// A table of ids and places, which are its sets.
pub fn places_spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[("id", DataType::Int64, false), ("place", DataType::Utf8, true)]);
    TableSpec::new(columns, ["id"]).set("place").merge(merge)
}

/// Rows of such a table, all of one place.
pub fn place_rows(ids: std::ops::Range<i64>, place: &str) -> RecordBatch {
    let places: ArrayRef = Arc::new(StringArray::from(vec![place; ids.clone().count()]));
    RecordBatch::try_from_iter([("id", integers(ids)), ("place", places)]).unwrap()
}

/// A table of ids, of places, which are its sets, and of weights.
pub fn weighted_places_spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("place", DataType::Utf8, true),
        ("weight", DataType::Int64, false),
    ]);
    TableSpec::new(columns, ["id"]).set("place").weights(["weight"]).merge(merge)
}

/// A table of ids and integers.
pub fn values_spec(merge: Merge) -> TableSpec {
    let columns = schema_of(&[("id", DataType::Int64, false), ("value", DataType::Int64, false)]);
    TableSpec::new(columns, ["id"]).merge(merge)
}

/// Rows of such a table, all of one value.
pub fn value_rows(ids: impl IntoIterator<Item = i64>, value: i64) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let values = integers(vec![value; ids.len()]);
    RecordBatch::try_from_iter([("id", integers(ids)), ("value", values)]).unwrap()
}

/// Aggregates, each with the name that it is shown by.
pub fn named(aggregates: &[Aggregate]) -> Vec<(String, Aggregate)> {
    aggregates.iter().map(|aggregate| (aggregate.to_string(), aggregate.clone())).collect()
}

/// Looks again and again whether something is true, for half a minute.
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < give_up, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}
