//! Bench `ranges`: random rows of narrow key ranges, of rows in memory as they arrived.
//!
//! Rows are two whole numbers, the least that an index can hold. They arrive with their keys in random order, in batches, so
//! the engine holds them in several sorted runs. Each call asks a new snapshot for another range of a thousandth of all rows.
//! The engine compacts runs beside draws, once these have searched them for as long as that takes, so there are some before any
//! is timed. A snapshot of before the first draw keeps the runs as they came.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::{
    Between, Closed, Database, Durability, Merge, OnError, Options, SampleRequest, Selection,
    Table, TableSnapshot, TableSpec,
};
use drillcore_sample::rng::Rng;

use crate::engine::DRILLCORE;
use crate::error::Result;
use crate::event::Answer;
use crate::metric::{Metric, micros, quantile};
use crate::report::{Report, grouped};
use crate::setup::Setup;
use crate::trial::{Contender, Outcome, Role, time_calls};

/// Rows of a sample, drawn with replacement.
const COUNTS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// One row of this many is in a range.
const RANGE_SHARE: u64 = 1_000;
const KEYS_MIN: u64 = 100;
/// One row of this many is deleted.
const DELETED_SHARE: u64 = 20;
const BATCH_ROWS: usize = 10_000;
/// Rows of the table for each draw that comes before those that are timed.
const ROWS_PER_DRAW: u64 = 100;
/// Enough that no row is written out.
const MEMORY_BYTES: u64 = 64 << 30;
const WEIGHT_MAX: u64 = 1_000;

/// A snapshot of before the first draw.
const AS_IT_CAME: &str = "drillcore, as it came";
const WITH_DELETES: &str = "drillcore, 5 % deleted";
const BY_WEIGHT: &str = "drillcore, by weight";
const SORTED_ARRAY: &str = "sorted array";

const TIME: Metric = Metric::time("time");
const MEMORY: Metric = Metric::count("in memory", "bytes/row");
const PIECES: Metric = Metric::count("sorted runs", "runs");

pub fn ranges(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("ranges");
    let (rows, seed) = (setup.arguments.rows, setup.arguments.seed);
    trial.announce("appending the rows")?;
    let (append, with_deletes) = (Held::new(rows, seed, false)?, Held::new(rows, seed, true)?);
    trial.announce("drawing, until there are as few sorted runs as draws are worth")?;
    [&append, &with_deletes].iter().try_for_each(|held| held.draw_often(rows, seed))?;
    let sorted: Vec<[i64; 2]> = (0..rows as i64).map(|key| [key, value(key)]).collect();
    for n in COUNTS {
        let drawn_from = |held: &Held, weight: Option<&str>, round: u64| {
            let mut rng = Rng::keyed(seed, round);
            let draw = || {
                let range = Range::anywhere(&mut rng, rows);
                let drawn = range.sample(&held.table.snapshot()?, n, weight, rng.next_u64())?;
                Ok(range.count(&drawn))
            };
            let drawn = timed(draw)?;
            Ok(drawn.with(PIECES, held.table.snapshot()?.pieces() as f64))
        };
        let as_it_came = |round: u64| {
            let mut rng = Rng::keyed(seed, round);
            let draw = || {
                let range = Range::anywhere(&mut rng, rows);
                let drawn = range.sample(&append.as_it_came, n, None, rng.next_u64())?;
                Ok(range.count(&drawn))
            };
            let bytes = append.bytes as f64 / rows as f64;
            let pieces = append.as_it_came.pieces() as f64;
            Ok(timed(draw)?.with(MEMORY, bytes).with(PIECES, pieces))
        };
        let of_array = |round: u64| {
            let mut rng = Rng::keyed(seed, round);
            let mut drawn = Vec::new();
            timed(|| {
                let range = Range::anywhere(&mut rng, rows);
                let from = sorted.partition_point(|row| row[0] < range.first);
                let to = sorted.partition_point(|row| row[0] <= range.last);
                drawn.clear();
                drawn.extend((0..n).map(|_| from + rng.below((to - from) as u64) as usize));
                let gathered: Vec<[i64; 2]> = drawn.iter().map(|&row| sorted[row]).collect();
                Ok(black_box(gathered).len() as u64)
            })
        };
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, |round| drawn_from(&append, None, round)),
            Contender::new(AS_IT_CAME, 1, Role::Subject, as_it_came),
            Contender::new(WITH_DELETES, 1, Role::Subject, |round| {
                drawn_from(&with_deletes, None, round)
            }),
            Contender::new(BY_WEIGHT, 1, Role::Subject, |round| {
                drawn_from(&append, Some("value"), round)
            }),
            Contender::new(SORTED_ARRAY, 1, Role::Floor, of_array),
        ];
        trial.compare(
            &format!("{} of a range", grouped(n)),
            Some(Answer::any(n)),
            &mut contenders,
        )?;
    }
    Ok(trial.finish(format!("{} rows of two whole numbers, in memory", grouped(rows))))
}

/// A table in memory.
struct Held {
    _db: Database,
    table: Table,
    as_it_came: TableSnapshot,
    /// Of the rows when they had come.
    bytes: u64,
}

impl Held {
    /// All keys, by a table that appends; or by one whose rows can be deleted, and some are.
    fn new(rows: u64, seed: u64, deletes: bool) -> Result<Held> {
        let options = Options {
            durability: Durability::None,
            memory_bytes: MEMORY_BYTES,
            ..Options::default()
        };
        let db = Database::in_memory(options)?;
        let spec = TableSpec::new(schema(), ["key"]).weights(["value"]);
        let spec = if deletes { spec.merge(Merge::Upsert) } else { spec };
        let table = db.create_table("pairs", spec)?;
        append(&table, shuffled(rows, seed))?;
        if deletes {
            let gone = shuffled(rows, seed + 1).into_iter().take((rows / DELETED_SHARE) as usize);
            for keys in gone.collect::<Vec<i64>>().chunks(BATCH_ROWS) {
                table.delete(&[Arc::new(Int64Array::from(keys.to_vec()))])?;
            }
        }
        let (as_it_came, bytes) = (table.snapshot()?, db.stats()?.row_bytes);
        // Now it is known which rows are alive, which some thousand draws would find out as well.
        as_it_came.rows()?;
        Ok(Held { _db: db, table, as_it_came, bytes })
    }
}

impl Held {
    /// Draws 1,000 rows of a range, once per [`ROWS_PER_DRAW`] rows of the table.
    fn draw_often(&self, rows: u64, seed: u64) -> Result<()> {
        let mut rng = Rng::keyed(seed, u64::MAX);
        for _ in 0..rows / ROWS_PER_DRAW {
            let range = Range::anywhere(&mut rng, rows);
            range.sample(&self.table.snapshot()?, 1_000, None, rng.next_u64())?;
        }
        Ok(())
    }
}

fn schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// The value of a key, which is its weight, too.
fn value(key: i64) -> i64 {
    1 + (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(32) as i64 % WEIGHT_MAX as i64
}

fn shuffled(rows: u64, seed: u64) -> Vec<i64> {
    let mut keys: Vec<i64> = (0..rows as i64).collect();
    let mut rng = Rng::keyed(seed, 0);
    for place in (1..keys.len()).rev() {
        keys.swap(place, rng.below(place as u64 + 1) as usize);
    }
    keys
}

fn append(table: &Table, keys: Vec<i64>) -> Result<()> {
    for keys in keys.chunks(BATCH_ROWS) {
        let values = keys.iter().map(|&key| value(key));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(keys.to_vec())),
            Arc::new(Int64Array::from_iter_values(values)),
        ];
        let batch = RecordBatch::try_new(schema(), columns).expect("two arrays of one length");
        table.append(&batch, OnError::Raise)?;
    }
    Ok(())
}

/// The keys of a range, first and last.
struct Range {
    first: i64,
    last: i64,
}

impl Range {
    /// A thousandth of the keys, or some more, so that not all of them are deleted.
    fn anywhere(rng: &mut Rng, rows: u64) -> Range {
        let keys = (rows / RANGE_SHARE).max(KEYS_MIN);
        let first = rng.below(rows - keys + 1) as i64;
        Range { first, last: first + keys as i64 - 1 }
    }

    fn sample(
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
    fn count(&self, rows: &RecordBatch) -> u64 {
        let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>().values();
        let pairs = numbers(0).iter().zip(numbers(1));
        let is_right = |&(&key, &found): &(&i64, &i64)| {
            (self.first..=self.last).contains(&key) && found == value(key)
        };
        pairs.filter(is_right).count() as u64
    }
}

fn timed(draw: impl FnMut() -> Result<u64>) -> Result<Outcome> {
    let (mut seconds, drawn) = time_calls(draw)?;
    let values = vec![(TIME, micros(quantile(&mut seconds, 0.5)))];
    Ok(Outcome { values, answer: Some(Answer::any(drawn)) })
}
