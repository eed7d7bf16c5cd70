//! Bench `upserts`: records half of which replace earlier ones, until they are written out and merged, and how long it takes to
//! count the rows meanwhile.

use std::path::Path;
use std::time::Instant;

use drillcore::{Database, Merge, Options};

use crate::error::Result;
use crate::figures::metric::{Metric, micros};
use crate::figures::report::{Report, grouped};
#[cfg(feature = "rocksdb")]
use crate::peers::rocksdb_load;
use crate::rows::workload::BATCH_ROWS;
use crate::tables::engine::DRILLCORE;
use crate::tables::record_table;
use crate::tables::records::{RECORD_BYTES, Records, check_rows, loaded};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

const APPENDING: &str = "drillcore, append";

const FIRST_COUNT: Metric = Metric::time("first count");
/// After each commit of a batch.
const LATER_COUNT: Metric = Metric::time("later count");
/// Commits that a count follows.
const COUNTS: u64 = 10;

pub fn upserts(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("upserts");
    let records = Records { half_updated: true, ..Records::of(setup.arguments) };
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        for (engine, merge) in [(DRILLCORE, Merge::Upsert), (APPENDING, Merge::Append)] {
            contenders.push(Contender::new(engine, threads, Role::Subject, move |_| {
                let folder = setup.fresh_folder()?;
                of_drillcore(folder.path(), records, merge.clone(), threads)
            }));
        }
        #[cfg(feature = "rocksdb")]
        contenders.push(Contender::new("rocksdb", threads, Role::Peer, move |_| {
            let folder = setup.fresh_folder()?;
            rocksdb_load::of_rocksdb(folder.path(), records, threads)
        }));
    }
    trial.compare("half of them updates", None, &mut contenders)?;
    let mut counting = [Contender::new(DRILLCORE, 1, Role::Subject, |_| counted(setup, records))];
    trial.compare("counts in memory", None, &mut counting)?;
    let (rows, memory) = (grouped(records.rows), records.memory_bytes >> 20);
    Ok(trial.finish(format!(
        "{rows} records of {RECORD_BYTES} bytes through {memory} MiB, in commits of {} rows; counts of as many in memory",
        grouped(BATCH_ROWS as u64)
    )))
}

fn of_drillcore(folder: &Path, records: Records, merge: Merge, threads: u32) -> Result<Outcome> {
    let options = Options { memory_bytes: records.memory_bytes, ..Options::default() };
    let db = Database::open(folder, options)?;
    let is_upsert = merge == Merge::Upsert;
    let table = record_table::create_merged(&db, merge)?;
    let segments = || Ok(db.stats()?.tables[0].segments);
    let append = |records: Vec<[u8; RECORD_BYTES]>| record_table::append(&table, &records);
    let outcome =
        loaded(records, threads, append, segments, || Ok(db.flush()?), || Ok(db.compact()?))?;
    if is_upsert {
        check_rows(DRILLCORE, table.snapshot()?.rows()?, records)?;
    }
    db.close()?;
    Ok(outcome)
}

/// How long counts take of records in memory: the first, and those after one commit more.
fn counted(setup: &Setup, records: Records) -> Result<Outcome> {
    let folder = setup.fresh_folder()?;
    let options = Options { memory_bytes: u64::MAX / 4, ..Options::default() };
    let db = Database::open(folder.path(), options)?;
    let table = record_table::create_merged(&db, Merge::Upsert)?;
    let count = || -> Result<f64> {
        let snapshot = table.snapshot()?;
        let started = Instant::now();
        snapshot.rows()?;
        Ok(started.elapsed().as_secs_f64())
    };
    (0..records.batches())
        .try_for_each(|number| record_table::append(&table, &records.batch(number)))?;
    let first = count()?;
    check_rows(DRILLCORE, table.snapshot()?.rows()?, records)?;
    let mut later = 0.0;
    for number in 0..COUNTS.min(records.batches()) {
        record_table::append(&table, &records.batch(number))?;
        later += count()?;
    }
    let later = later / COUNTS.min(records.batches()) as f64;
    db.close()?;
    let values = vec![(FIRST_COUNT, micros(first)), (LATER_COUNT, micros(later))];
    Ok(Outcome { values, answer: None })
}
