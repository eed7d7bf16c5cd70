//! The part of bench `ingest` that fills the same memory with rows as they arrive: how many there are once it is full, and how fast
//! it filled.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use arrow_array::RecordBatch;
use drillcore::{Database, Durability, OnError, Options};

use crate::benches::ingest::incremental::{MEMORY_BYTES, THREADS, create};
use crate::error::Result;
use crate::figures::metric::Metric;
use crate::peers::row_objects::{RowObjects, SKIP_LIST};
use crate::rows::arriving::{Columns, raw_bytes};
use crate::tables::engine::DRILLCORE;
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role, Trial};

const HELD: Metric = Metric::rate("held", "rows");
const RATE: Metric = Metric::rate("arriving", "rows/s");
/// The memory that is filled has this share of the bytes of all raw rows: those who hold rows in less do not run out of them.
const CAP_SHARE: u64 = 4;

/// Rows of texts and numbers, folded and plain, until so much memory is full.
pub fn capped(setup: &Setup, trial: &mut Trial, batches: &[RecordBatch]) -> Result<()> {
    let cap = raw_bytes(batches) / CAP_SHARE;
    for (folds, how) in [(true, "rollup"), (false, "plain")] {
        let case = format!("basic, {how}, until memory is full");
        let mut contenders = Vec::new();
        for threads in
            THREADS.into_iter().filter(|&threads| threads >= setup.arguments.threads_from)
        {
            contenders.push(Contender::new(DRILLCORE, threads, Role::Subject, move |_| {
                let (durability, memory_bytes) = (Durability::None, MEMORY_BYTES);
                let options = Options { durability, memory_bytes, ..Options::default() };
                let db = Database::in_memory(options)?;
                let table = create(&db, Columns::Basic, folds)?;
                let has_room = || Ok(db.stats()?.row_bytes < cap);
                fill(batches, threads, has_room, |batch| {
                    table.append(batch, OnError::Raise)?;
                    Ok(())
                })
            }));
            contenders.push(Contender::new(SKIP_LIST, threads, Role::Peer, move |_| {
                let list = RowObjects::new(Columns::Basic, folds);
                fill(
                    batches,
                    threads,
                    || Ok(list.bytes() < cap),
                    |batch| {
                        list.insert(batch);
                        Ok(())
                    },
                )
            }));
        }
        trial.compare(&case, None, &mut contenders)?;
    }
    Ok(())
}

/// Has several threads each take the next batch while there is room.
fn fill(
    batches: &[RecordBatch],
    threads: u32,
    has_room: impl Fn() -> Result<bool> + Sync,
    insert: impl Fn(&RecordBatch) -> Result<()> + Sync,
) -> Result<Outcome> {
    let (next, rows) = (AtomicUsize::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let work = || -> Result<()> {
        while has_room()?
            && let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed))
        {
            insert(batch)?;
            rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("inserting panics not"))
    })?;
    let (rows, seconds) = (rows.into_inner() as f64, started.elapsed().as_secs_f64());
    // How many rows there are differs: what is asked of them is compared where all have all.
    Ok(Outcome { values: vec![(HELD, rows), (RATE, rows / seconds)], answer: None })
}
