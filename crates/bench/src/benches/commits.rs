//! Bench `commits`: what a commit costs by the number of its rows, in a database of one table and of many.

use std::time::Instant;

use arrow_array::RecordBatch;
use drillcore::{Database, Options, Table};

use crate::error::{Error, Result};
use crate::figures::metric::{Metric, micros};
use crate::figures::report::{Report, grouped};
use crate::tables::engine::DRILLCORE;
use crate::tables::record_table;
use crate::tables::records::{RECORD_BYTES, Records};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Rows of one commit.
const BATCHES: [usize; 4] = [1, 10, 100, 1_000];
/// The number of tables where there are many: one per hundred rows that the arguments ask for, and this at most.
const TABLES_MAX: u64 = 1_000;
const ROWS_PER_TABLE: u64 = 100;
/// Rows of each table before those that are timed.
const ROWS_BEFORE: usize = 10;
/// A round appends this share of the rows that the arguments ask for: one in ten.
const ROWS_SHARE: usize = 10;
/// The least and the greatest number of commits in a round, whatever that share is.
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

/// Commits of a round, all of as many rows.
#[derive(Clone, Copy)]
struct Commits {
    records: Records,
    rows: usize,
    commits: usize,
}

fn ways(many: usize) -> [Way; 6] {
    let way = |name, tables, in_turn, reads| Way { name, tables, in_turn, reads };
    [
        way("one table", 1, false, false),
        way("one of many tables", many, false, false),
        way("many tables in turn", many, true, false),
        way("one table, with a get", 1, false, true),
        way("one of many, with a get", many, false, true),
        way("many in turn, with a get", many, true, true),
    ]
}

pub fn commits(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("commits");
    let records = Records::of(setup.arguments);
    let many = (records.rows / ROWS_PER_TABLE).min(TABLES_MAX) as usize;
    for rows in BATCHES {
        let [least, most] = COMMITS;
        let commits = (records.rows as usize / ROWS_SHARE / rows).clamp(least, most);
        let commits = Commits { records, rows, commits };
        let mut contenders = ways(many).map(|way| {
            Contender::new(way.name, 1, Role::Subject, move |round| {
                let folder = setup.fresh_folder()?;
                let db = Database::open(folder.path(), Options::default())?;
                let outcome = commits.timed(&db, way, round)?;
                db.close()?;
                Ok(outcome)
            })
        });
        trial.compare(&format!("{} rows", grouped(rows as u64)), None, &mut contenders)?;
    }
    let data = format!("records of {RECORD_BYTES} bytes, durability os; many tables are {many}");
    Ok(trial.finish(data))
}

impl Commits {
    fn timed(self, db: &Database, way: Way, round: u64) -> Result<Outcome> {
        let Commits { records, rows, commits } = self;
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
                let key = made[number * rows].first_chunk().expect("a record has a key");
                record_table::get(&table.snapshot()?, key)?;
            }
        }
        let seconds = started.elapsed().as_secs_f64() / commits as f64;
        let snapshot = db.snapshot()?;
        let rows_of = |table: &Table| Ok(snapshot.table(table.name())?.rows()?);
        let found = tables.iter().map(rows_of).sum::<Result<u64>>()?;
        check_rows_found(found, (way.tables * ROWS_BEFORE + rows * commits) as u64)?;
        Ok(Outcome { values: vec![(TIME, micros(seconds))], answer: None })
    }
}

fn check_rows_found(found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (case, found) = ("rows of all tables".to_string(), found.to_string());
    let expected = expected.to_string();
    Err(Error::Disagreement { bench: "commits", case, engine: DRILLCORE, found, expected })
}
