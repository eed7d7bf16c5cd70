//! Records in a table of Drillcore: a key of two numbers and a value.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::{Database, Merge, OnError, Options, ReadOptions, Table, TableSnapshot, TableSpec};

use crate::error::Result;
use crate::tables::engine::DRILLCORE;
use crate::tables::records::{KEY_BYTES, Key, RECORD_BYTES, Records, check_found};

const RECORDS: &str = "records";

/// One for all batches, as a program has it that makes many.
fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let columns =
            [("high", DataType::Int64), ("low", DataType::Int64), ("value", DataType::Binary)];
        let field = |(name, of)| Field::new(name, of, false);
        Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<Field>>()))
    });
    SCHEMA.clone()
}

/// Makes the table; all rows stay.
pub fn create(db: &Database) -> Result<Table> {
    create_merged(db, Merge::Append)
}

/// Makes the table, with what equal keys mean.
pub fn create_merged(db: &Database, merge: Merge) -> Result<Table> {
    Ok(db.create_table(RECORDS, records_spec().merge(merge))?)
}

/// Makes a table like it, of another name.
pub fn create_named(db: &Database, name: &str) -> Result<Table> {
    Ok(db.create_table(name, records_spec())?)
}

fn records_spec() -> TableSpec {
    TableSpec::new(schema(), ["high", "low"])
}

/// Makes a database with the table, and loads records into it; they are written out and merged.
pub fn load(folder: &Path, records: Records) -> Result<()> {
    let options = Options { memory_bytes: records.memory_bytes, ..Options::default() };
    let db = Database::open(folder, options)?;
    let table = create(&db)?;
    for number in 0..records.batches() {
        append(&table, &records.batch(number))?;
    }
    db.compact()?;
    Ok(db.close()?)
}

/// Opens that database past the system's cache.
pub fn open_cold(folder: &Path, cache_bytes: u64) -> Result<Database> {
    let options = ReadOptions { cache_bytes, direct_io: true, ..ReadOptions::default() };
    Ok(Database::open_read_only(folder, options)?)
}

/// The records that are there.
pub fn open(db: &Database) -> Result<TableSnapshot> {
    Ok(db.table(RECORDS)?.snapshot()?)
}

pub fn append(table: &Table, records: &[[u8; RECORD_BYTES]]) -> Result<()> {
    append_batch(table, &batch_of(records))
}

pub fn append_batch(table: &Table, batch: &RecordBatch) -> Result<()> {
    table.append(batch, OnError::Raise)?;
    Ok(())
}

/// Records as rows of the table.
pub fn batch_of(records: &[[u8; RECORD_BYTES]]) -> RecordBatch {
    let number = |at: usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(records.iter().map(|record| number_at(record, at))))
    };
    let values = records.iter().map(|record| &record[KEY_BYTES..]);
    let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let batch = RecordBatch::try_new(schema(), vec![number(0), number(8), values]);
    batch.expect("three arrays of one length")
}

/// Reads the record of a key, which must be there.
pub fn get(table: &TableSnapshot, key: &Key) -> Result<()> {
    let number = |at| -> ArrayRef { Arc::new(Int64Array::from(vec![number_at(key, at)])) };
    let found = table.get(&[number(0), number(8)], None)?;
    check_found(DRILLCORE, found.rows.num_rows() as u64)
}

fn number_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
