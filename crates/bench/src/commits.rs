//! Bench `commits`: what a commit costs by the number of its rows, in a database of one table and of a thousand.

use std::time::Instant;

use arrow_array::RecordBatch;
use drillcore::{Database, Options, Table};

use crate::error::Result;
use crate::metric::{Metric, micros};
use crate::record_table;
use crate::records::{KEY_BYTES, RECORD_BYTES, Records, check_found};
use crate::report::{Report, grouped};
use crate::setup::Setup;
use crate::trial::{Contender, Outcome, Role};

/// Rows of one commit.
const BATCHES: [usize; 4] = [1, 10, 100, 1_000];
const TABLES: usize = 1_000;
/// Rows of each table before those that are timed.
const ROWS_BEFORE: usize = 10;
/// One row of so many that the arguments ask for is appended in a round, ...
const ROWS_SHARE: usize = 10;
/// ... and so many commits at the least and at the most.
const COMMITS: [usize; 2] = [100, 20_000];

const TIME: Metric = Metric::time("per commit");

/// A way to commit.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    tables: usize,
    /// Each commit is of the next table.
    in_turn: bool,
    /// Each commit is followed by a read of its first row, from a new snapshot.
    reads: bool,
}

const WAYS: [Way; 6] = [
    Way { name: "one table", tables: 1, in_turn: false, reads: false },
    Way { name: "one of 1,000 tables", tables: TABLES, in_turn: false, reads: false },
    Way { name: "1,000 tables in turn", tables: TABLES, in_turn: true, reads: false },
    Way { name: "one table, with a get", tables: 1, in_turn: false, reads: true },
    Way { name: "one of 1,000, with a get", tables: TABLES, in_turn: false, reads: true },
    Way { name: "1,000 in turn, with a get", tables: TABLES, in_turn: true, reads: true },
];

pub fn commits(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("commits");
    let records = Records::of(setup.arguments);
    for rows in BATCHES {
        let [least, most] = COMMITS;
        let commits = (records.rows as usize / ROWS_SHARE / rows).clamp(least, most);
        let mut contenders = WAYS.map(|way| {
            Contender::new(way.name, 1, Role::Subject, move |round| {
                let folder = setup.fresh_folder()?;
                let db = Database::open(folder.path(), Options::default())?;
                let outcome = timed(&db, way, records, rows, commits, round)?;
                db.close()?;
                Ok(outcome)
            })
        });
        let case = format!("{} rows", grouped(rows as u64));
        trial.compare(&case, None, &mut contenders)?;
    }
    Ok(trial.finish(format!("commits of records of {RECORD_BYTES} bytes, durability os")))
}

fn timed(
    db: &Database,
    way: Way,
    records: Records,
    rows: usize,
    commits: usize,
    round: u64,
) -> Result<Outcome> {
    let before = records.noise(round, ROWS_BEFORE);
    let tables = (0..way.tables)
        .map(|number| {
            let table = record_table::create_named(db, &format!("records {number}"))?;
            record_table::append(&table, &before)?;
            Ok(table)
        })
        .collect::<Result<Vec<Table>>>()?;
    let made = records.noise(round + 1, rows * commits);
    let batches: Vec<RecordBatch> = made.chunks(rows).map(record_table::batch_of).collect();
    let started = Instant::now();
    for (number, batch) in batches.iter().enumerate() {
        let table = &tables[if way.in_turn { number % way.tables } else { 0 }];
        record_table::append_batch(table, batch)?;
        if way.reads {
            let key = made[number * rows][..KEY_BYTES].try_into().expect("a key");
            record_table::get(&table.snapshot()?, key)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64() / commits as f64;
    let found = tables.iter().map(|table| Ok(table.snapshot()?.rows()?)).sum::<Result<u64>>()?;
    check_found(
        "drillcore",
        u64::from(found == (way.tables * ROWS_BEFORE + rows * commits) as u64),
    )?;
    Ok(Outcome { values: vec![(TIME, micros(seconds))], answer: None })
}
