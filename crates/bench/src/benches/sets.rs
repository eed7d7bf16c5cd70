//! Bench `sets`: all rows of one set, by the set's index and without one.

use std::thread;
use std::time::Instant;

use drillcore::TableSnapshot;

use crate::benches::loaded::Loaded;
use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::PageFile;
use crate::peers::sqlite::{self, SQLITE};
use crate::rows::event::Answer;
use crate::rows::workload;
use crate::tables::engine::{self, DRILLCORE};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

const BY_INDEX: &str = "select * from events where city = ?1";
const BY_SCAN: &str = "select * from events not indexed where city = ?1";

const TIME: Metric = Metric::time("time");
/// Rows of the set, not those that were passed on the way.
const RATE: Metric = Metric::rate("rows of the set", "rows/s");

pub fn sets(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("sets");
    let loaded = Loaded::load(setup, &trial)?;
    let (_db, table) = loaded.open_drillcore()?;
    let folder = setup.fresh_folder()?;
    let unlisted_db = engine::open(folder.path())?;
    let unlisted = engine::create_events(&unlisted_db, true)?;
    unlisted.unindex_all_sets()?;
    engine::append_all(&unlisted, &loaded.workload.batches, setup.arguments.threads)?;
    unlisted_db.compact()?;
    let unlisted = unlisted.snapshot()?;
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let sqlite = loaded.open_sqlite()?;
    let (mut by_index, mut by_scan) = (sqlite.prepare(BY_INDEX)?, sqlite.prepare(BY_SCAN)?);
    let seed = setup.arguments.seed;
    let floor = PageFile::create(&setup.path("floor"), loaded.workload.bytes, seed)?;
    for (set, rows) in workload::sets(setup.arguments.rows) {
        let expected = loaded.workload.answer_of_set(set);
        let rows = grouped(rows);
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, |_| {
                timed(|| engine::answer(&table, engine::of_set(set), 1))
            }),
            Contender::new(SQLITE, 1, Role::Peer, |_| {
                timed(|| sqlite::answer(&mut by_index, (set,)))
            }),
        ];
        trial.compare(&format!("{rows} rows, by index"), Some(expected), &mut contenders)?;
        let mut contenders = [
            Contender::new(DRILLCORE, cores, Role::Subject, |_| not_remembered(&unlisted, set)),
            Contender::new(SQLITE, 1, Role::Peer, |_| {
                timed(|| sqlite::answer(&mut by_scan, (set,)))
            }),
            Contender::new("read", 1, Role::Floor, |_| {
                let (mut seconds, ()) = time_calls(|| floor.read_all())?;
                let time = micros(quantile(&mut seconds, 0.5));
                Ok(Outcome { values: vec![(TIME, time)], answer: None })
            }),
        ];
        trial.compare(&format!("{rows} rows, without index"), Some(expected), &mut contenders)?;
    }
    Ok(trial.finish(loaded.description))
}

/// Calls of which each begins without what a snapshot remembers: the rows of the last four sets that it looked for.
fn not_remembered(table: &TableSnapshot, set: &str) -> Result<Outcome> {
    const CALLS: usize = 5;
    let (mut seconds, mut answer) = (Vec::new(), Answer::default());
    for call in 0..CALLS {
        for other in 0..4 {
            engine::answer(table, engine::of_set(&format!("nowhere {call} {other}")), 1)?;
        }
        let started = Instant::now();
        answer = engine::answer(table, engine::of_set(set), 1)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(outcome(&mut seconds, answer))
}

fn timed(scan: impl FnMut() -> Result<Answer>) -> Result<Outcome> {
    let (mut seconds, answer) = time_calls(scan)?;
    Ok(outcome(&mut seconds, answer))
}

fn outcome(seconds: &mut [f64], answer: Answer) -> Outcome {
    let median = quantile(seconds, 0.5);
    let values = vec![(TIME, micros(median)), (RATE, answer.rows as f64 / median)];
    Outcome { values, answer: Some(answer) }
}
