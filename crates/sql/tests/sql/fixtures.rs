//! What the tests of several themes make and ask alike. What a theme's rows are made of stays in its own file.

use datafusion::arrow::compute::cast;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sql::{QueryOptions, query};

/// Rows by the names and values of their columns, and whether these may be null.
pub fn rows_of<const N: usize>(columns: [(&str, ArrayRef, bool); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A table of these rows, whose key is the first column.
pub fn add_table(db: &Database, name: &str, rows: &RecordBatch) -> Table {
    let columns = rows.schema();
    let key = columns.field(0).name().clone();
    add_table_of(db, name, TableSpec::new(columns, [key]), rows)
}

/// A table of these rows.
pub fn add_table_of(db: &Database, name: &str, spec: TableSpec, rows: &RecordBatch) -> Table {
    let table = db.create_table(name, spec).unwrap();
    table.append(rows, OnError::Raise).unwrap();
    table
}

/// A database in memory whose table `t` has these rows.
pub fn database_of(rows: &RecordBatch) -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    add_table(&db, "t", rows);
    db
}

pub fn answer(db: &Database, text: &str, options: &QueryOptions) -> Result<Vec<RecordBatch>> {
    query(&db.snapshot()?, text, options)?.collect()
}

/// The answer to a query that has one.
pub fn run_with(db: &Database, text: &str, options: &QueryOptions) -> Vec<RecordBatch> {
    answer(db, text, options).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub fn run(db: &Database, text: &str) -> Vec<RecordBatch> {
    run_with(db, text, &QueryOptions::default())
}

/// The whole numbers of a column, none of them null.
pub fn numbers_in(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let of_batch = |batch: &RecordBatch| {
        let numbers = cast(batch.column(column), &DataType::Int64).unwrap();
        numbers.as_primitive::<Int64Type>().values().to_vec()
    };
    batches.iter().flat_map(of_batch).collect()
}

/// The whole numbers of the first column, none of them null.
pub fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    numbers_in(batches, 0)
}

/// The texts of a column, a line each.
pub fn texts(batches: &[RecordBatch], column: usize) -> String {
    let of_batch = |batch: &RecordBatch| -> Vec<String> {
        let texts = batch.column(column).as_string::<i32>();
        texts.iter().map(|text| text.unwrap_or_default().to_string()).collect()
    };
    batches.iter().flat_map(of_batch).collect::<Vec<_>>().join("\n")
}
