//! Bench `sets`: all rows of one set, by the set's index and without one.

use drillcore::{ScanRequest, TableSnapshot};

use crate::engine::{self, DRILLCORE};
use crate::error::Result;
use crate::event::{Answer, events};
use crate::file_pages::PageFile;
use crate::loaded::Loaded;
use crate::metric::{Metric, micros, quantile};
use crate::report::{Report, grouped};
use crate::setup::Setup;
use crate::sqlite::{self, SQLITE};
use crate::trial::{Contender, Outcome, Role, time_calls};
use crate::workload::SETS;

const BY_INDEX: &str = "select * from events where city = ?1";
const BY_SCAN: &str = "select * from events not indexed where city = ?1";

const TIME: Metric = Metric::time("time");
/// Rows of the set, not those that were passed on the way.
const RATE: Metric = Metric::rate("rows of the set", "rows/s");

pub fn sets(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("sets");
    let loaded = Loaded::load(setup, &trial)?;
    let (_db, table) = loaded.open_drillcore()?;
    let sqlite = loaded.open_sqlite()?;
    let (mut by_index, mut by_scan) = (sqlite.prepare(BY_INDEX)?, sqlite.prepare(BY_SCAN)?);
    let seed = setup.arguments.seed;
    let floor = PageFile::create(&setup.path("floor"), loaded.workload.bytes, seed)?;
    for set in SETS {
        let expected = loaded.workload.answer_of_set(set);
        let rows = grouped(expected.rows);
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
            Contender::new(DRILLCORE, 1, Role::Subject, |_| timed(|| filtered(&table, set))),
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

/// The rows of a set, found by looking at all rows.
fn filtered(table: &TableSnapshot, set: &str) -> Result<Answer> {
    let mut answer = Answer::default();
    for batch in table.scan(ScanRequest { threads: Some(1), ..ScanRequest::default() })? {
        let batch = batch?;
        events(&batch).filter(|event| event.city == set).for_each(|event| answer.add(&event));
    }
    Ok(answer)
}

fn timed(scan: impl FnMut() -> Result<Answer>) -> Result<Outcome> {
    let (mut seconds, answer) = time_calls(scan)?;
    let median = quantile(&mut seconds, 0.5);
    let values = vec![(TIME, micros(median)), (RATE, answer.rows as f64 / median)];
    Ok(Outcome { values, answer: Some(answer) })
}
