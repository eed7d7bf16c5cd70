//! Bench `weights`: random rows in proportion to a weight, of a table in memory, a key range, a set, and a set in a key range.
//!
//! Rows are a key, a weight between 1 and 1,000, and one of ten sets, and arrive with their keys in random order. The floor is
//! an array of the weights' running sums, in the order of keys: of all rows, or of those of the set. A draw is a random
//! number, a binary search, and a copy of the row.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use drillcore::{
    Between, Closed, Database, Durability, OnError, Options, SampleRequest, Selection, Table,
    TableSpec,
};
use drillcore_sample::rng::Rng;

use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::rows::event::Answer;
use crate::tables::engine::{self, DRILLCORE};
use crate::tables::pairs::{MEMORY_BYTES, let_rest, shuffled, value};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

/// Rows of a sample, drawn with replacement.
const COUNTS: [u64; 2] = [1, 1_000];
const BATCH_ROWS: usize = 10_000;
const SETS: u64 = 10;
/// The set that is drawn from.
const SET: u64 = 3;
/// One key of this many is in a range.
const NARROW: u64 = 1_000;
const WIDE: u64 = 10;
/// Rows of the table for each draw that comes before those that are timed, so that what draws leave for later ones is there.
const ROWS_PER_DRAW: u64 = 1_000;
const RUNNING_SUMS: &str = "running sums";

const TIME: Metric = Metric::time("time");
const PIECES: Metric = Metric::count("sorted runs", "runs");

/// What is drawn from.
#[derive(Clone, Copy)]
struct Source {
    name: &'static str,
    /// One key of this many, if not all.
    share: Option<u64>,
    in_set: bool,
}

const SOURCES: [Source; 4] = [
    Source { name: "of the table", share: None, in_set: false },
    Source { name: "of a thousandth of the keys", share: Some(NARROW), in_set: false },
    Source { name: "of a set", share: None, in_set: true },
    Source { name: "of a set in a tenth of the keys", share: Some(WIDE), in_set: true },
];

pub fn weights(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("weights");
    let (rows, seed) = (setup.arguments.rows, setup.arguments.seed);
    trial.announce("appending the rows")?;
    let (db, table) = appended(rows, seed)?;
    let_rest(&db)?;
    let all = RunningSums::of(0..rows as i64);
    let of_set = RunningSums::of((0..rows as i64).filter(|&key| set(key) == SET));
    for source in SOURCES {
        let mut rng = Rng::keyed(seed, u64::MAX);
        (0..rows / ROWS_PER_DRAW)
            .try_for_each(|_| source.draw(&table, rows, 1, &mut rng).map(drop))?;
        let sums = if source.in_set { &of_set } else { &all };
        for n in COUNTS {
            let of_engine = |round| {
                let mut rng = Rng::keyed(seed, round);
                let drawn = timed(|| source.draw(&table, rows, n, &mut rng))?;
                Ok(drawn.with(PIECES, table.snapshot()?.pieces() as f64))
            };
            let of_sums = |round| {
                let mut rng = Rng::keyed(seed, round);
                timed(|| Ok(sums.draw(source.keys(rows, &mut rng), n, &mut rng)))
            };
            let mut contenders = [
                Contender::new(DRILLCORE, 1, Role::Subject, of_engine),
                Contender::new(RUNNING_SUMS, 1, Role::Floor, of_sums),
            ];
            let case = format!("{} {}", grouped(n), source.name);
            trial.compare(&case, Some(Answer::any(n)), &mut contenders)?;
        }
    }
    let rows = grouped(rows);
    Ok(trial.finish(format!("{rows} rows of a key, a weight and one of {SETS} sets, in memory")))
}

fn appended(rows: u64, seed: u64) -> Result<(Database, Table)> {
    let options =
        Options { durability: Durability::None, memory_bytes: MEMORY_BYTES, ..Options::default() };
    let db = Database::in_memory(options)?;
    let spec = TableSpec::new(schema(), ["key"]).weights(["value"]).set("set");
    let table = db.create_table("weighted", spec)?;
    for keys in shuffled(rows, seed).chunks(BATCH_ROWS) {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(keys.to_vec())),
            Arc::new(Int64Array::from_iter_values(keys.iter().map(|&key| value(key)))),
            Arc::new(StringArray::from_iter_values(keys.iter().map(|&key| set_name(set(key))))),
        ];
        let batch = RecordBatch::try_new(schema(), columns).expect("arrays of one length");
        table.append(&batch, OnError::Raise)?;
    }
    Ok((db, table))
}

fn schema() -> SchemaRef {
    let field = |name: &str, of: DataType| Field::new(name, of, false);
    let numbers = ["key", "value"].map(|name| field(name, DataType::Int64));
    let fields = numbers.into_iter().chain([field("set", DataType::Utf8)]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The set of a key.
fn set(key: i64) -> u64 {
    ((key as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) % SETS
}

fn set_name(set: u64) -> String {
    format!("set {set}")
}

impl Source {
    /// The first key and the last.
    fn keys(self, rows: u64, rng: &mut Rng) -> (i64, i64) {
        let Some(share) = self.share else { return (0, rows as i64 - 1) };
        let keys = (rows / share).max(SETS * SETS).min(rows);
        let first = rng.below(rows - keys + 1) as i64;
        (first, first + keys as i64 - 1)
    }

    /// Draws from a new snapshot by one thread, and gives the number of rows that are right.
    fn draw(self, table: &Table, rows: u64, n: u64, rng: &mut Rng) -> Result<u64> {
        let (first, last) = self.keys(rows, rng);
        let end = |key: i64| Some(vec![Arc::new(Int64Array::from(vec![key])) as ArrayRef]);
        let between = || Between { low: end(first), high: end(last), closed: Closed::Both };
        let of_set =
            if self.in_set { engine::of_set(&set_name(SET)) } else { Selection::default() };
        let request = SampleRequest {
            n,
            selection: Selection { between: self.share.map(|_| between()), ..of_set },
            columns: Some(vec!["key".into(), "value".into()]),
            weight: Some("value".into()),
            replace: true,
            seed: Some(rng.next_u64()),
            threads: Some(1),
            ..SampleRequest::default()
        };
        let drawn = table.snapshot()?.sample(&request)?;
        let numbers = |column: usize| drawn.column(column).as_primitive::<Int64Type>().values();
        let pairs = numbers(0).iter().zip(numbers(1));
        let is_right = |&(&key, &found): &(&i64, &i64)| {
            (first..=last).contains(&key)
                && found == value(key)
                && (!self.in_set || set(key) == SET)
        };
        Ok(pairs.filter(is_right).count() as u64)
    }
}

/// Some rows in the order of their keys, and the units of weight before each and of all.
struct RunningSums {
    rows: Vec<[i64; 2]>,
    sums: Vec<u64>,
}

impl RunningSums {
    fn of(keys: impl Iterator<Item = i64>) -> RunningSums {
        let rows: Vec<[i64; 2]> = keys.map(|key| [key, value(key)]).collect();
        let mut sum = 0;
        let ends = rows.iter().map(|row| {
            sum += row[1] as u64;
            sum
        });
        let sums = std::iter::once(0).chain(ends).collect();
        RunningSums { rows, sums }
    }

    fn draw(&self, (first, last): (i64, i64), n: u64, rng: &mut Rng) -> u64 {
        let from = self.rows.partition_point(|row| row[0] < first);
        let to = self.rows.partition_point(|row| row[0] <= last);
        let (rows, sums) = (&self.rows[from..to], &self.sums[from..=to]);
        let (before, all) = (sums[0], sums[to - from] - sums[0]);
        let drawn: Vec<[i64; 2]> = (0..n)
            .map(|_| {
                let unit = before + rng.below(all);
                rows[sums.partition_point(|&sum| sum <= unit) - 1]
            })
            .collect();
        black_box(drawn).len() as u64
    }
}

fn timed(draw: impl FnMut() -> Result<u64>) -> Result<Outcome> {
    let (mut seconds, drawn) = time_calls(draw)?;
    let values = vec![(TIME, micros(quantile(&mut seconds, 0.5)))];
    Ok(Outcome { values, answer: Some(Answer::any(drawn)) })
}
