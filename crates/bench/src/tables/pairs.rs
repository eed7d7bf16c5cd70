//! Rows of two whole numbers, the least that an index can hold, in a table in memory; and random rows of narrow key ranges.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::{
    Between, Closed, Database, Durability, Merge, OnError, Options, SampleRequest, Selection,
    Table, TableSnapshot, TableSpec,
};
use drillcore_sample::rng::Rng;

use crate::error::Result;

/// One row of this many is in a range.
const RANGE_SHARE: u64 = 1_000;
const KEYS_MIN: u64 = 100;
pub const BATCH_ROWS: usize = 10_000;
/// Enough that no row is written out.
pub const MEMORY_BYTES: u64 = 64 << 30;
/// Without a compaction, several times as long as the engine waits for one.
const REST: Duration = Duration::from_secs(1);
const WEIGHT_MAX: u64 = 1_000;

/// A database in memory with a table of pairs, which is empty. Values are weights.
pub fn create(merge: Merge) -> Result<(Database, Table)> {
    let options =
        Options { durability: Durability::None, memory_bytes: MEMORY_BYTES, ..Options::default() };
    let db = Database::in_memory(options)?;
    let table = create_in(&db, merge)?;
    Ok((db, table))
}

/// The same table in another database.
pub fn create_in(db: &Database, merge: Merge) -> Result<Table> {
    let spec = TableSpec::new(schema(), ["key"]).weights(["value"]).merge(merge);
    Ok(db.create_table("pairs", spec)?)
}

fn schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// The value of a key, which is its weight, too.
pub fn value(key: i64) -> i64 {
    1 + (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(32) as i64 % WEIGHT_MAX as i64
}

/// The keys below `rows`, in random order.
pub fn shuffled(rows: u64, seed: u64) -> Vec<i64> {
    let mut keys: Vec<i64> = (0..rows as i64).collect();
    let mut rng = Rng::keyed(seed, 0);
    for place in (1..keys.len()).rev() {
        keys.swap(place, rng.below(place as u64 + 1) as usize);
    }
    keys
}

/// Appends rows with these keys, in batches.
pub fn append(table: &Table, keys: &[i64]) -> Result<()> {
    keys.chunks(BATCH_ROWS).try_for_each(|keys| append_batch(table, keys))
}

/// Appends rows with these keys in one commit.
pub fn append_batch(table: &Table, keys: &[i64]) -> Result<()> {
    let values = keys.iter().map(|&key| value(key));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.to_vec())),
        Arc::new(Int64Array::from_iter_values(values)),
    ];
    let batch = RecordBatch::try_new(schema(), columns).expect("two arrays of one length");
    table.append(&batch, OnError::Raise)?;
    Ok(())
}

/// Waits until runs in memory have not been compacted for a while, though none came: they are as few as a rest makes them.
pub fn let_rest(db: &Database) -> Result<()> {
    let compactions = || -> Result<(u64, bool)> {
        let stats = db.stats()?;
        let of_runs: u64 = stats.tables.iter().map(|table| table.run_bytes).sum();
        let is_one_under_way = stats.buffered_bytes > of_runs;
        Ok((stats.writer.map_or(0, |writer| writer.memory_compactions), is_one_under_way))
    };
    loop {
        let (before, _) = compactions()?;
        thread::sleep(REST);
        if compactions()? == (before, false) {
            return Ok(());
        }
    }
}

/// Deletes rows by their keys.
pub fn delete(table: &Table, keys: &[i64]) -> Result<()> {
    for keys in keys.chunks(BATCH_ROWS) {
        table.delete(&[Arc::new(Int64Array::from(keys.to_vec()))])?;
    }
    Ok(())
}

/// The keys of a range, first and last.
pub struct Range {
    pub first: i64,
    pub last: i64,
}

impl Range {
    /// A thousandth of the keys, or some more, so that not all of them are deleted.
    pub fn anywhere(rng: &mut Rng, rows: u64) -> Range {
        let keys = (rows / RANGE_SHARE).max(KEYS_MIN);
        let first = rng.below(rows - keys + 1) as i64;
        Range { first, last: first + keys as i64 - 1 }
    }

    /// Rows of the range, drawn with replacement by one thread.
    pub fn sample(
        &self,
        table: &TableSnapshot,
        n: u64,
        weight: Option<&str>,
        seed: u64,
    ) -> Result<RecordBatch> {
        let end = |key: i64| Some(vec![Arc::new(Int64Array::from(vec![key])) as ArrayRef]);
        let between = Between { low: end(self.first), high: end(self.last), closed: Closed::Both };
        let request = SampleRequest {
            n,
            selection: Selection { between: Some(between), ..Selection::default() },
            weight: weight.map(String::from),
            replace: true,
            seed: Some(seed),
            threads: Some(1),
            ..SampleRequest::default()
        };
        Ok(table.sample(&request)?)
    }

    /// How many rows are of the range, and have the value of their key.
    pub fn count(&self, rows: &RecordBatch) -> u64 {
        let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>().values();
        let pairs = numbers(0).iter().zip(numbers(1));
        let is_right = |&(&key, &found): &(&i64, &i64)| {
            (self.first..=self.last).contains(&key) && found == value(key)
        };
        pairs.filter(is_right).count() as u64
    }
}
