//! Bench `ranges`: random rows of narrow key ranges, of rows in memory as they arrived.
//!
//! Rows are two whole numbers, the least that an index can hold. They arrive with their keys in random order, in batches, so
//! the engine holds them in several sorted runs. Each call asks a new snapshot for another range of a thousandth of all rows.
//! The engine compacts runs of a table to which no rows come, so that is waited for. A snapshot of before keeps the runs as they
//! came.

use std::hint::black_box;

use drillcore::{Database, Merge, Table, TableSnapshot};
use drillcore_sample::rng::Rng;

use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::rows::event::Answer;
use crate::tables::engine::DRILLCORE;
use crate::tables::pairs::{self, Range, value};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

/// Rows of a sample, drawn with replacement.
const COUNTS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// One row of this many is deleted.
const DELETED_SHARE: u64 = 20;

/// A snapshot of before the table rested.
const AS_IT_CAME: &str = "drillcore, as it came";
const WITH_DELETES: &str = "drillcore, 5 % deleted";
const WITH_DELETES_AS_IT_CAME: &str = "drillcore, 5 % deleted, as it came";
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
    trial.announce("waiting until there are as few sorted runs as a rest leaves")?;
    [&append, &with_deletes].iter().try_for_each(|held| pairs::let_rest(&held.db))?;
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
        let as_it_came = |held: &Held, round: u64| {
            let mut rng = Rng::keyed(seed, round);
            let draw = || {
                let range = Range::anywhere(&mut rng, rows);
                let drawn = range.sample(&held.as_it_came, n, None, rng.next_u64())?;
                Ok(range.count(&drawn))
            };
            let bytes = held.bytes as f64 / rows as f64;
            let pieces = held.as_it_came.pieces() as f64;
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
            Contender::new(AS_IT_CAME, 1, Role::Subject, |round| as_it_came(&append, round)),
            Contender::new(WITH_DELETES_AS_IT_CAME, 1, Role::Subject, |round| {
                as_it_came(&with_deletes, round)
            }),
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
    db: Database,
    table: Table,
    as_it_came: TableSnapshot,
    /// Of the rows when they had come.
    bytes: u64,
}

impl Held {
    /// All keys, by a table that appends; or by one whose rows can be deleted, and some are.
    fn new(rows: u64, seed: u64, deletes: bool) -> Result<Held> {
        let (db, table) = pairs::create(if deletes { Merge::Upsert } else { Merge::Append })?;
        pairs::append(&table, &pairs::shuffled(rows, seed))?;
        if deletes {
            let gone = (rows / DELETED_SHARE) as usize;
            pairs::delete(&table, &pairs::shuffled(rows, seed + 1)[..gone])?;
        }
        let (as_it_came, bytes) = (table.snapshot()?, db.stats()?.row_bytes);
        // Now it is known which rows are alive, which some thousand draws would find out as well.
        as_it_came.rows()?;
        Ok(Held { db, table, as_it_came, bytes })
    }
}

fn timed(draw: impl FnMut() -> Result<u64>) -> Result<Outcome> {
    let (mut seconds, drawn) = time_calls(draw)?;
    let values = vec![(TIME, micros(quantile(&mut seconds, 0.5)))];
    Ok(Outcome { values, answer: Some(Answer::any(drawn)) })
}
