//! The part of bench `ingest` that holds rows of two whole numbers in memory, appended by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_skiplist::SkipMap;
use drillcore::Merge;

use crate::benches::ingest::incremental::{IN_MEMORY, THREADS};
use crate::error::Result;
use crate::figures::metric::Metric;
use crate::rows::event::Answer;
use crate::tables::engine::DRILLCORE;
use crate::tables::pairs::{self, BATCH_ROWS, value};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, Trial};

const RATE: Metric = Metric::rate("arriving", "rows/s");
/// The name of the peer in figures.
const SKIP_LIST: &str = "skip list";
/// A key, a value, and the two links that an entry has on average, with a word of counts: a lower bound.
const ENTRY_BYTES: u64 = 16 + 3 * size_of::<usize>() as u64;

/// Rows whose keys come in no order.
pub fn pair_writers(setup: &Setup, trial: &mut Trial) -> Result<()> {
    let rows = setup.arguments.rows;
    trial.announce("generating pairs")?;
    let keys = pairs::shuffled(rows, setup.arguments.seed);
    let values = |seconds: f64, bytes: u64| {
        vec![(RATE, rows as f64 / seconds), (IN_MEMORY, bytes as f64 / rows as f64)]
    };
    let mut contenders = Vec::new();
    let keys = &keys;
    for threads in THREADS.into_iter().filter(|&threads| threads >= setup.arguments.threads_from) {
        contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
            let (db, table) = pairs::create(Merge::Append)?;
            let seconds = timed(keys, threads, |keys| pairs::append_batch(&table, keys))?;
            let answer = Answer::any(table.snapshot()?.rows()?);
            Ok(Outcome { values: values(seconds, db.stats()?.row_bytes), answer: Some(answer) })
        }));
        contenders.push(Contender::new(SKIP_LIST, threads, Role::Peer, move |_| {
            let list: SkipMap<i64, i64> = SkipMap::new();
            let seconds = timed(keys, threads, |keys| {
                keys.iter().for_each(|&key| drop(list.insert(key, value(key))));
                Ok(())
            })?;
            let answer = Answer::any(list.len() as u64);
            Ok(Outcome { values: values(seconds, ENTRY_BYTES * rows), answer: Some(answer) })
        }));
    }
    trial.compare("two whole numbers, plain, in memory", None, &mut contenders)
}

/// How long several threads take that each append the next keys.
fn timed(keys: &[i64], threads: u32, append: impl Fn(&[i64]) -> Result<()> + Sync) -> Result<f64> {
    let batches: Vec<&[i64]> = keys.chunks(BATCH_ROWS).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(keys) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            append(keys)?;
        }
        Ok(())
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("appending panics not"))
    })?;
    Ok(started.elapsed().as_secs_f64())
}
