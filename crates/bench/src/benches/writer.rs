//! Bench `writer`: rows that come a few at a time, through a writer that commits them in batches.

use std::hint::black_box;
use std::time::Instant;

use drillcore::{Database, OnError, Options, Table, WriterOptions};

use crate::error::Result;
use crate::figures::metric::Metric;
use crate::figures::report::{Report, grouped};
use crate::rows::workload::BATCH_ROWS;
use crate::tables::engine::DRILLCORE;
use crate::tables::record_table;
use crate::tables::records::{RECORD_BYTES, Records, check_rows};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Rows of one call.
const ROWS_PER_ADD: [usize; 3] = [1, 100, 1_000];
/// One row at a time takes longer, so fewer are added.
const FEWER: u64 = 10;

const RATE: Metric = Metric::rate("committed", "rows/s");
const MADE: Metric = Metric::rate("made", "rows/s");

pub fn writer(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("writer");
    let all = Records::of(setup.arguments);
    for rows_per_add in ROWS_PER_ADD {
        let rows = if rows_per_add == 1 { all.rows.div_ceil(FEWER) } else { all.rows };
        let records = Records { rows, ..all };
        trial.announce("making the records")?;
        let made: Vec<_> = (0..records.batches()).map(|number| records.batch(number)).collect();
        // Batches are made as they are needed, in the time that is measured: as a program does to which rows come one by one.
        let batches = |rows: usize| {
            made.iter().flat_map(move |records| records.chunks(rows)).map(record_table::batch_of)
        };
        let timed = |name: &str, write: &dyn Fn(&Table) -> Result<()>| {
            let folder = setup.fresh_folder()?;
            let db = Database::open(folder.path().join(name), Options::default())?;
            let table = record_table::create(&db)?;
            let started = Instant::now();
            write(&table)?;
            let seconds = started.elapsed().as_secs_f64();
            check_rows(DRILLCORE, table.snapshot()?.rows()?, records)?;
            db.close()?;
            Ok(Outcome { values: vec![(RATE, records.rows as f64 / seconds)], answer: None })
        };
        let add = |table: &Table| {
            let writer = table.writer(WriterOptions::default())?;
            for batch in batches(rows_per_add) {
                writer.add(&batch)?;
            }
            writer.close()?;
            Ok(())
        };
        let append = |table: &Table| {
            for batch in batches(BATCH_ROWS) {
                table.append(&batch, OnError::Raise)?;
            }
            Ok(())
        };
        let make = || {
            let started = Instant::now();
            let rows: usize = batches(rows_per_add).map(|batch| black_box(batch).num_rows()).sum();
            let seconds = started.elapsed().as_secs_f64();
            Ok(Outcome { values: vec![(MADE, rows as f64 / seconds)], answer: None })
        };
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, |_| timed("writer", &add)),
            Contender::new("appends by hand", 1, Role::Floor, |_| timed("appends", &append)),
            Contender::new("rows made and dropped", 1, Role::Floor, |_| make()),
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
