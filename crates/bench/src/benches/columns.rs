//! Bench `columns`: one column of all rows in key order, in memory as the rows came and after a rest, and on disk.

use std::hint::black_box;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use drillcore::{Database, Merge, Options, ScanRequest, TableSnapshot};

use crate::error::Result;
use crate::figures::metric::{Metric, quantile};
use crate::figures::report::{Report, grouped};
use crate::rows::event::Answer;
use crate::tables::engine::DRILLCORE;
use crate::tables::pairs;
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

const RATE: Metric = Metric::rate("rows", "rows/s");

pub fn columns(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("columns");
    let (rows, seed) = (setup.arguments.rows, setup.arguments.seed);
    trial.announce("appending the rows")?;
    let (in_memory, arrived) = pairs::create(Merge::Append)?;
    let keys = pairs::shuffled(rows, seed);
    pairs::append(&arrived, &keys)?;
    let as_it_came = arrived.snapshot()?;
    pairs::let_rest(&in_memory)?;
    let folder = setup.fresh_folder()?;
    let db = Database::open(folder.path(), Options::default())?;
    let stored = pairs::create_in(&db, Merge::Append)?;
    pairs::append(&stored, &keys)?;
    db.compact()?;
    let values: Vec<i64> = (0..rows as i64).map(pairs::value).collect();
    let mut copy = vec![0; values.len()];
    let tables = [
        ("in memory as it came", as_it_came),
        ("in memory after a rest", arrived.snapshot()?),
        ("on disk", stored.snapshot()?),
    ];
    for (place, table) in &tables {
        for (column, sum) in [("key", (0..rows as i64).sum()), ("value", values.iter().sum())] {
            let mut contenders = Vec::new();
            for threads in setup.thread_counts() {
                contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
                    rated(|| scanned(table, column, sum, threads))
                }));
            }
            contenders.push(Contender::new("memcpy", 1, Role::Floor, |_| {
                rated(|| {
                    black_box(&mut copy).copy_from_slice(black_box(&values));
                    Ok(rows)
                })
            }));
            let case = format!("the {column} {place}");
            trial.compare(&case, Some(Answer::any(rows)), &mut contenders)?;
        }
    }
    db.close()?;
    Ok(trial.finish(format!("{} rows of two whole numbers", grouped(rows))))
}

/// Reads each value of a column, and returns how many there are, or none if their sum is not the expected one.
fn scanned(table: &TableSnapshot, column: &str, sum_of_all: i64, threads: u32) -> Result<u64> {
    let columns = Some(vec![column.to_string()]);
    let request =
        ScanRequest { columns, threads: Some(threads as usize), ..ScanRequest::default() };
    let (mut rows, mut sum) = (0, 0i64);
    for batch in table.scan(request)? {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        sum = sum.wrapping_add(sum_of(&batch));
    }
    Ok(if sum == sum_of_all { rows } else { 0 })
}

fn sum_of(batch: &RecordBatch) -> i64 {
    let values = batch.column(0).as_primitive::<Int64Type>().values();
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

fn rated(mut scan: impl FnMut() -> Result<u64>) -> Result<Outcome> {
    let (mut seconds, rows) = time_calls(&mut scan)?;
    let values = vec![(RATE, rows as f64 / quantile(&mut seconds, 0.5))];
    Ok(Outcome { values, answer: Some(Answer::any(rows)) })
}
