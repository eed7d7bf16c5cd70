//! Bench `cold`: rows that are in no cache, many in a call, beside as many reads of the device.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use drillcore::{SampleRequest, Selection, TableSnapshot};
use drillcore_sample::rng::Rng;

use crate::benches::loaded::Loaded;
use crate::error::Result;
use crate::figures::metric::{Metric, micros};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::DevicePages;
use crate::rows::event::Answer;
use crate::rows::workload::{self, TENTH};
use crate::tables::engine::{self, DRILLCORE, EVENTS, of_set, pages_read};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Rows of one call.
const ROWS: [u64; 2] = [100, 1_000];

const TIME: Metric = Metric::time("time");
const READS: Metric = Metric::count("pages read", "pages");
/// The index among them, where it fits.
const READS_BEFORE: Metric = Metric::count("pages read to open", "pages");

/// What is asked for in one call.
#[derive(Clone, Copy)]
enum Call {
    Sample(u64),
    Gets(u64),
    Set(&'static str),
    /// A set that has rows in about every block, or all rows, read by as many threads as there may be.
    LargeSet(&'static str),
    All,
}

impl Call {
    /// Whether about all blocks are read.
    fn is_pass(self) -> bool {
        matches!(self, Call::LargeSet(_) | Call::All)
    }
}

pub fn cold(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("cold").without_peers();
    let loaded = Loaded::load(setup, &trial)?;
    let seed = setup.arguments.seed;
    // What the device does for these files, not for others that may lie better, or in the cache of its host.
    let device = DevicePages::open(&loaded.drillcore)?;
    let mut cases: Vec<(String, u64, Call)> = Vec::new();
    for rows in ROWS {
        let shown = grouped(rows);
        cases.push((format!("{shown} random rows"), rows, Call::Sample(rows)));
        cases.push((format!("{shown} keys"), rows, Call::Gets(rows)));
    }
    for (set, rows) in workload::sets(setup.arguments.rows) {
        let call = if set == TENTH { Call::LargeSet(set) } else { Call::Set(set) };
        cases.push((format!("a set of {}", grouped(rows)), rows, call));
    }
    cases.push(("all rows".to_string(), setup.arguments.rows, Call::All));
    for (case, rows, call) in cases {
        let ours = |round| {
            let db = engine::open_cold(&loaded.drillcore, u64::from(setup.arguments.cache) << 20)?;
            let table = db.table(EVENTS)?.snapshot()?;
            let before = pages_read(&db)?;
            let started = Instant::now();
            let answer = asked(&table, call, setup, round)?;
            let seconds = started.elapsed().as_secs_f64();
            let reads = pages_read(&db)? - before;
            let values =
                vec![(TIME, micros(seconds)), (READS, reads as f64), (READS_BEFORE, before as f64)];
            Ok(Outcome { values, answer: Some(answer) })
        };
        let floor = |round| {
            let mut rng = Rng::keyed(seed, round);
            let values = match call.is_pass() {
                true => vec![(TIME, micros(device.read_all()?))],
                false => {
                    let seconds = device.read_at_once(rows, &mut rng)?;
                    vec![(TIME, micros(seconds)), (READS, rows as f64)]
                }
            };
            Ok(Outcome { values, answer: None })
        };
        let (threads, device) = match call.is_pass() {
            true => (setup.arguments.threads, "one pass"),
            false => (1, "pages, 64 at once"),
        };
        let mut contenders = [
            Contender::new(DRILLCORE, threads, Role::Subject, ours),
            Contender::new(device, 1, Role::Floor, floor),
        ];
        trial.compare(&case, None, &mut contenders)?;
    }
    Ok(trial.finish(loaded.description))
}

fn asked(table: &TableSnapshot, call: Call, setup: &Setup, round: u64) -> Result<Answer> {
    let mut answer = Answer::default();
    let mut add = |batch: &RecordBatch| answer.add_batch(batch);
    match call {
        Call::Sample(n) => {
            let request = SampleRequest { n, seed: Some(round), ..SampleRequest::default() };
            add(&table.sample(&request)?);
        }
        Call::Gets(n) => {
            let mut rng = Rng::keyed(setup.arguments.seed, round);
            let key = |_| 1 + rng.below(setup.arguments.rows) as i64;
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(key)));
            add(&table.get(&[keys], None)?.rows);
        }
        Call::Set(set) => return engine::answer(table, of_set(set), 1),
        Call::LargeSet(set) => {
            return engine::answer(table, of_set(set), setup.arguments.threads);
        }
        Call::All => return engine::answer(table, Selection::default(), setup.arguments.threads),
    }
    Ok(answer)
}
