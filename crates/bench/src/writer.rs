//! Bench `writer`: rows that come a few at a time, through a writer that commits them in batches.

use std::time::Instant;

use arrow_array::RecordBatch;
use drillcore::{Database, OnError, Options, Table, WriterOptions};

use crate::engine::DRILLCORE;
use crate::error::Result;
use crate::metric::Metric;
use crate::record_table;
use crate::records::{RECORD_BYTES, Records, check_rows};
use crate::report::{Report, grouped};
use crate::setup::Setup;
use crate::trial::{Contender, Outcome, Role};
use crate::workload::BATCH_ROWS;

/// Rows of one call.
const ROWS_PER_ADD: [usize; 3] = [1, 100, 1_000];
/// One row at a time takes longer, so fewer are added.
const FEWER: u64 = 10;

const RATE: Metric = Metric::rate("committed", "rows/s");

pub fn writer(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("writer");
    let all = Records::of(setup.arguments);
    for rows_per_add in ROWS_PER_ADD {
        let rows = if rows_per_add == 1 { all.rows.div_ceil(FEWER) } else { all.rows };
        let records = Records { rows, ..all };
        trial.announce("making the rows")?;
        let adds = batches(records, rows_per_add);
        let commits = batches(records, BATCH_ROWS);
        let timed = |name: &str,
                     batches: &[RecordBatch],
                     write: &dyn Fn(&Table, &[RecordBatch]) -> Result<()>| {
            let folder = setup.fresh_folder()?;
            let db = Database::open(folder.path().join(name), Options::default())?;
            let table = record_table::create(&db)?;
            let started = Instant::now();
            write(&table, batches)?;
            let seconds = started.elapsed().as_secs_f64();
            check_rows(DRILLCORE, table.snapshot()?.rows()?, records)?;
            db.close()?;
            Ok(Outcome { values: vec![(RATE, records.rows as f64 / seconds)], answer: None })
        };
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, |_| timed("writer", &adds, &add)),
            Contender::new("appends by hand", 1, Role::Floor, |_| {
                timed("appends", &commits, &append)
            }),
        ];
        trial.compare(
            &format!("{} rows per add", grouped(rows_per_add as u64)),
            None,
            &mut contenders,
        )?;
    }
    Ok(trial.finish(format!(
        "{} records of {RECORD_BYTES} bytes, a tenth of them one by one; by hand in commits of {} rows",
        grouped(all.rows),
        grouped(BATCH_ROWS as u64)
    )))
}

/// The records in batches of some rows.
fn batches(records: Records, rows: usize) -> Vec<RecordBatch> {
    let of_batch = |number: u64| {
        let records = records.batch(number);
        records.chunks(rows).map(record_table::batch_of).collect::<Vec<_>>()
    };
    (0..records.batches()).flat_map(of_batch).collect()
}

fn add(table: &Table, batches: &[RecordBatch]) -> Result<()> {
    let writer = table.writer(WriterOptions::default())?;
    for batch in batches {
        writer.add(batch)?;
    }
    writer.close()?;
    Ok(())
}

fn append(table: &Table, batches: &[RecordBatch]) -> Result<()> {
    for batch in batches {
        table.append(batch, OnError::Raise)?;
    }
    Ok(())
}
