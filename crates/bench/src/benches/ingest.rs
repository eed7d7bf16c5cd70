//! Bench `ingest`: how many rows per second go in.

mod incremental;
mod capped;
mod pair_writers;

use std::hint::black_box;
use std::time::Instant;

use drillcore::Selection;

use self::capped::capped;
use self::incremental::incremental;
use self::pair_writers::pair_writers;
use crate::error::Result;
use crate::figures::metric::Metric;
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::{sync, write_in_chunks};
use crate::peers::sqlite::{self, SQLITE, Sqlite};
use crate::rows::arriving::Columns;
use crate::rows::workload::{BATCH_ROWS, Order, Workload};
use crate::tables::engine::{self, DRILLCORE};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, Trial};

/// Until the last append has returned.
const ACKNOWLEDGED: Metric = Metric::rate("acknowledged", "rows/s");
/// Until all rows are where they are found without a log, synced.
const WRITTEN_OUT: Metric = Metric::rate("written out", "rows/s");

pub fn ingest(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("ingest");
    let rising = setup.workload(&trial, Order::Rising)?;
    appends(setup, &mut trial, "keys in order", &rising, false)?;
    folds(setup, &mut trial, "rollup by minute and city", &rising)?;
    drop(rising);
    let shuffled = setup.workload(&trial, Order::Shuffled)?;
    appends(setup, &mut trial, "keys shuffled", &shuffled, false)?;
    appends(setup, &mut trial, "keys shuffled, set index", &shuffled, true)?;
    incremental(setup, &mut trial)?;
    trial.announce("generating rows as they arrive")?;
    capped(
        setup,
        &mut trial,
        &Columns::Basic.generate(setup.arguments.rows, setup.arguments.seed),
    )?;
    pair_writers(setup, &mut trial)?;
    Ok(trial.finish(format!("{shuffled}, in commits of {} rows", grouped(BATCH_ROWS as u64))))
}

/// SQLite takes one writer at a time, so it has one thread.
fn appends(
    setup: &Setup,
    trial: &mut Trial,
    case: &str,
    workload: &Workload,
    has_sets: bool,
) -> Result<()> {
    let bytes = vec![1; workload.bytes as usize];
    let mut copy = vec![0; bytes.len()];
    let chunk_bytes = bytes.len().div_ceil(workload.batches.len());
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            let folder = setup.fresh_folder()?;
            let db = engine::open(folder.path())?;
            let table = engine::create_events(&db, has_sets)?;
            let append = || engine::append_all(&table, &workload.batches, threads);
            let values = timed(workload, append, || Ok(db.flush()?))?;
            let answer = engine::answer(&table.snapshot()?, Selection::default(), 1)?;
            db.close()?;
            Ok(Outcome { values, answer: Some(answer) })
        }));
    }
    contenders.push(Contender::new(SQLITE, 1, Role::Peer, |_| {
        let folder = setup.fresh_folder()?;
        let sqlite = Sqlite::open(&folder.path().join("db"))?;
        sqlite.create_events(has_sets)?;
        let insert = || sqlite.insert_all(&workload.batches);
        let values = timed(workload, insert, || sqlite.checkpoint())?;
        let answer = sqlite::answer(&mut sqlite.prepare("select * from events")?, ())?;
        Ok(Outcome { values, answer: Some(answer) })
    }));
    contenders.push(Contender::new("memcpy", 1, Role::Floor, |_| {
        let started = Instant::now();
        for (to, from) in copy.chunks_mut(chunk_bytes).zip(bytes.chunks(chunk_bytes)) {
            black_box(to).copy_from_slice(black_box(from));
        }
        let rate = workload.rows as f64 / started.elapsed().as_secs_f64();
        Ok(Outcome { values: vec![(ACKNOWLEDGED, rate)], answer: None })
    }));
    contenders.push(Contender::new("write", 1, Role::Floor, |_| {
        let path = setup.path("written");
        let write = || write_in_chunks(&path, &bytes, chunk_bytes);
        let values = timed(workload, write, || sync(&path))?;
        Ok(Outcome { values, answer: None })
    }));
    trial.compare(case, Some(workload.answer()), &mut contenders)
}

/// Rates are of rows that go in, not of those that they are folded into.
fn folds(setup: &Setup, trial: &mut Trial, case: &str, workload: &Workload) -> Result<()> {
    let batches = engine::folded_columns(&workload.batches);
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        let batches = &batches;
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            let folder = setup.fresh_folder()?;
            let db = engine::open(folder.path())?;
            let table = engine::create_minutes(&db)?;
            let append = || engine::append_all(&table, batches, threads);
            let values = timed(workload, append, || Ok(db.flush()?))?;
            let answer = engine::answer_of_minutes(&table.snapshot()?)?;
            db.close()?;
            Ok(Outcome { values, answer: Some(answer) })
        }));
    }
    contenders.push(Contender::new(SQLITE, 1, Role::Peer, |_| {
        let folder = setup.fresh_folder()?;
        let sqlite = Sqlite::open(&folder.path().join("db"))?;
        sqlite.create_minutes()?;
        let values =
            timed(workload, || sqlite.fold_all(&workload.batches), || sqlite.checkpoint())?;
        Ok(Outcome { values, answer: Some(sqlite.answer_of_minutes()?) })
    }));
    trial.compare(case, None, &mut contenders)
}

/// Rows a second, until they were acknowledged and until they were written out.
fn timed(
    workload: &Workload,
    append: impl FnOnce() -> Result<()>,
    write_out: impl FnOnce() -> Result<()>,
) -> Result<Vec<(Metric, f64)>> {
    let started = Instant::now();
    let rate = || workload.rows as f64 / started.elapsed().as_secs_f64();
    append()?;
    let acknowledged = rate();
    write_out()?;
    Ok(vec![(ACKNOWLEDGED, acknowledged), (WRITTEN_OUT, rate())])
}
