//! Bench `reads`: single rows by key, and all rows in order.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array};
use drillcore::{Selection, TableSnapshot};
use drillcore_sample::rng::Rng;

use crate::benches::loaded::Loaded;
use crate::error::Result;
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::peers::file_pages::{PageFile, forget_pages};
use crate::peers::sqlite::{self, SQLITE, Sqlite};
use crate::rows::event::Answer;
use crate::rows::workload::BATCH_ROWS;
use crate::tables::engine::{self, DRILLCORE, pages_read};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, time_calls};

/// Rows that each thread asks for, one by one.
const GETS: usize = 2_000;
const ALL: &str = "select * from events";
const IN_ORDER: &str = "select * from events order by id";
const BY_KEY: &str = "select * from events where id = ?1";

const RATE: Metric = Metric::rate("gets", "gets/s");
const ROWS: Metric = Metric::rate("rows", "rows/s");
const MEDIAN: Metric = Metric::time("median");
const P99: Metric = Metric::time("99th percentile");
/// Pages that were not in the engine's cache.
const READS: Metric = Metric::count("reads per get", "reads");

/// What one thread did.
struct Gets {
    seconds: Vec<f64>,
    answer: Answer,
}

pub fn reads(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("reads");
    let loaded = Loaded::load(setup, &trial)?;
    let folder = setup.fresh_folder()?;
    let bytes = loaded.workload.bytes;
    let pages = PageFile::create(&folder.path().join("pages"), bytes, setup.arguments.seed)?;
    if forget_pages(folder.path())? {
        let mut contenders = [
            Contender::new(DRILLCORE, 1, Role::Subject, |round| {
                forget_pages(&loaded.drillcore)?;
                let (db, table) = loaded.open_drillcore()?;
                let outcome = drillcore_gets(setup, &table, 1, round)?;
                let reads = pages_read(&db)? as f64 / GETS as f64;
                Ok(outcome.with(READS, reads))
            }),
            Contender::new(SQLITE, 1, Role::Peer, |round| {
                forget_pages(&loaded.sqlite)?;
                sqlite_gets(setup, &mut [loaded.open_sqlite()?], round)
            }),
            Contender::new("pread 4 KiB", 1, Role::Floor, |round| {
                forget_pages(folder.path())?;
                floor_gets(setup, &pages, round)
            }),
        ];
        trial.compare("nothing cached", None, &mut contenders)?;
    }
    for threads in setup.thread_counts() {
        let (db, table) = loaded.open_drillcore()?;
        trial.announce("warming the caches")?;
        for ids in (1..=loaded.workload.rows as i64).collect::<Vec<_>>().chunks(BATCH_ROWS) {
            table.get(&key(ids), None)?;
        }
        let mut connections = Vec::new();
        for _ in 0..threads {
            let sqlite = loaded.open_sqlite()?;
            sqlite::answer(&mut sqlite.prepare(ALL)?, ())?;
            connections.push(sqlite);
        }
        let mut contenders = vec![
            Contender::new(DRILLCORE, threads, Role::Subject, |round| {
                let before = pages_read(&db)?;
                let outcome = drillcore_gets(setup, &table, threads, round)?;
                let gets = f64::from(threads) * GETS as f64;
                let reads = (pages_read(&db)? - before) as f64 / gets;
                Ok(outcome.with(READS, reads))
            }),
            Contender::new(SQLITE, threads, Role::Peer, |round| {
                sqlite_gets(setup, &mut connections, round)
            }),
        ];
        if threads == 1 {
            let floor = |round| floor_gets(setup, &pages, round);
            contenders.push(Contender::new("pread 4 KiB", 1, Role::Floor, floor));
        }
        trial.compare("all cached", None, &mut contenders)?;
    }
    let (_db, table) = loaded.open_drillcore()?;
    let sqlite = loaded.open_sqlite()?;
    let mut all = sqlite.prepare(IN_ORDER)?;
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        let table = &table;
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            scanned(|| engine::answer(table, Selection::default(), threads))
        }));
    }
    let peer = |_| scanned(|| sqlite::answer(&mut all, ()));
    contenders.push(Contender::new(SQLITE, 1, Role::Peer, peer));
    trial.compare("scan of all rows", Some(loaded.workload.answer()), &mut contenders)?;
    Ok(trial.finish(format!("{}, {} gets per thread", loaded.description, grouped(GETS as u64))))
}

fn scanned(scan: impl FnMut() -> Result<Answer>) -> Result<Outcome> {
    let (mut seconds, answer) = time_calls(scan)?;
    let values = vec![(ROWS, answer.rows as f64 / quantile(&mut seconds, 0.5))];
    Ok(Outcome { values, answer: Some(answer) })
}

fn drillcore_gets(
    setup: &Setup,
    table: &TableSnapshot,
    threads: u32,
    round: u64,
) -> Result<Outcome> {
    let work = |thread: u32| {
        gets(keys(setup, round, thread), |id, answer| {
            answer.add_batch(&table.get(&key(&[id]), None)?.rows);
            Ok(())
        })
    };
    let started = Instant::now();
    let done = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect()
    });
    outcome(started, done)
}

/// A connection for each thread.
fn sqlite_gets(setup: &Setup, connections: &mut [Sqlite], round: u64) -> Result<Outcome> {
    let work = |thread: usize, sqlite: &mut Sqlite| {
        let mut by_key = sqlite.prepare(BY_KEY)?;
        gets(keys(setup, round, thread as u32), |id, answer| {
            sqlite::each(&mut by_key, (id,), |event| answer.add(&event))
        })
    };
    let started = Instant::now();
    let done = thread::scope(|scope| {
        let connections = connections.iter_mut().enumerate();
        let threads: Vec<_> =
            connections.map(|(thread, sqlite)| scope.spawn(move || work(thread, sqlite))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect()
    });
    outcome(started, done)
}

fn floor_gets(setup: &Setup, pages: &PageFile, round: u64) -> Result<Outcome> {
    let mut rng = Rng::keyed(setup.arguments.seed, round);
    let started = Instant::now();
    let done = gets(keys(setup, round, 0), |_, _| pages.read_one(&mut rng));
    Ok(Outcome { answer: None, ..outcome(started, vec![done])? })
}

/// Calls `get` for each key and adds up what it finds.
fn gets(keys: Vec<i64>, mut get: impl FnMut(i64, &mut Answer) -> Result<()>) -> Result<Gets> {
    let mut gets = Gets { seconds: Vec::with_capacity(keys.len()), answer: Answer::default() };
    for id in keys {
        let started = Instant::now();
        get(id, &mut gets.answer)?;
        gets.seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(gets)
}

fn outcome(started: Instant, done: Vec<Result<Gets>>) -> Result<Outcome> {
    let elapsed = started.elapsed().as_secs_f64();
    let mut seconds = Vec::new();
    let mut answer = Answer::default();
    for gets in done {
        let gets = gets?;
        seconds.extend(gets.seconds);
        answer = answer.and(gets.answer);
    }
    let values = vec![
        (RATE, seconds.len() as f64 / elapsed),
        (MEDIAN, micros(quantile(&mut seconds, 0.5))),
        (P99, micros(quantile(&mut seconds, 0.99))),
    ];
    Ok(Outcome { values, answer: Some(answer) })
}

/// The keys of one thread in one round: independent and uniform.
fn keys(setup: &Setup, round: u64, thread: u32) -> Vec<i64> {
    let mut rng = Rng::keyed(setup.arguments.seed, ((round + 1) << 32) | u64::from(thread));
    (0..GETS).map(|_| 1 + rng.below(setup.arguments.rows) as i64).collect()
}

fn key(ids: &[i64]) -> [ArrayRef; 1] {
    [Arc::new(Int64Array::from(ids.to_vec()))]
}
