//! Batches that carry their number, so that what a crash left can be told from what it took.
//!
//! A writer commits batches 1, 2, 3 ... to the tables `a` and `b`: every third one to both in one
//! commit. Every row is computed from (writer, number, position), so a reader knows each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Int32Type, Int64Type};
use drillcore::arrow_array::{Int32Array, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

pub const TABLES: [&str; 2] = ["a", "b"];

/// The shape of both tables.
pub fn spec() -> TableSpec {
    TableSpec {
        columns: schema(),
        key: vec!["id".into()],
        set: Some("number".into()),
        weights: Vec::new(),
        merge: Merge::Append,
        exist_ok: true,
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("writer", DataType::Int32, false),
        Field::new("number", DataType::Int64, false),
        Field::new("position", DataType::Int32, false),
    ]))
}

/// Commits one batch.
pub fn append(database: &Database, writer: i32, number: u64) -> Result<AppendResult> {
    let batches = TABLES.map(|table| batch(table, writer, number));
    let named: Vec<(&str, &RecordBatch)> =
        TABLES.into_iter().zip(&batches).filter(|(_, batch)| batch.num_rows() > 0).collect();
    database.append(&named)
}

/// Rows of a batch in one table; in at least one of the tables there are some.
fn row_count(table: &str, number: u64) -> u64 {
    match (table, number % 3) {
        ("a", 0 | 1) => 1 + number * 37 % 300,
        ("b", 0 | 2) => 1 + number * 11 % 90,
        _ => 0,
    }
}

/// A key that scatters neighbours.
fn id(writer: i32, number: u64, position: u64) -> i64 {
    let plain = (number << 20) + (position << 4) + writer as u64;
    (plain.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64
}

fn batch(table: &str, writer: i32, number: u64) -> RecordBatch {
    let count = row_count(table, number);
    let ids: Int64Array = (0..count).map(|position| Some(id(writer, number, position))).collect();
    let writers = Int32Array::from(vec![writer; count as usize]);
    let numbers = Int64Array::from(vec![number as i64; count as usize]);
    let positions: Int32Array = (0..count as i32).map(Some).collect();
    let columns = vec![Arc::new(ids) as _, Arc::new(writers) as _];
    let columns = [columns, vec![Arc::new(numbers) as _, Arc::new(positions) as _]].concat();
    RecordBatch::try_new(schema(), columns).expect("the columns fit the schema")
}

/// The last batch of each writer.
///
/// Panics unless each writer's batches are 1, 2, ... without a gap, each whole and with the values
/// written, in both tables alike, and counts and sets agree with the rows. A table may be missing if it
/// has no rows yet.
pub fn last_batches(snapshot: &Snapshot) -> BTreeMap<i32, u64> {
    let mut rows: BTreeMap<(i32, u64), [u64; 2]> = BTreeMap::new();
    for (index, name) in TABLES.into_iter().enumerate() {
        let Ok(table) = snapshot.table(name) else { continue };
        let mut total = 0;
        for batch in table.scan(ScanRequest::default()).expect("a scan starts") {
            let batch = batch.expect("a scan goes on");
            total += batch.num_rows() as u64;
            let int64 = |column: usize| batch.column(column).as_primitive::<Int64Type>();
            let int32 = |column: usize| batch.column(column).as_primitive::<Int32Type>();
            for row in 0..batch.num_rows() {
                let (writer, number) = (int32(1).value(row), int64(2).value(row) as u64);
                let expected = id(writer, number, int32(3).value(row) as u64);
                assert_eq!(int64(0).value(row), expected, "{name}: batch {number} of {writer}");
                rows.entry((writer, number)).or_default()[index] += 1;
            }
        }
        assert_eq!(table.rows().unwrap(), total, "{name}: rows() and the scan");
        let sets = table.sets().expect("sets are read");
        assert_eq!(sets.rows.iter().sum::<u64>(), total, "{name}: sets() and the scan");
    }
    let mut last: BTreeMap<i32, u64> = BTreeMap::new();
    for ((writer, number), found) in rows {
        let before = last.insert(writer, number).unwrap_or(0);
        assert_eq!(number, before + 1, "writer {writer}: batch {number} follows batch {before}");
        let expected = TABLES.map(|table| row_count(table, number));
        assert_eq!(found, expected, "writer {writer}: rows of batch {number} in a and b");
    }
    last
}
