//! Bench `durability`: what the log costs, and how fast it is read after a crash.
//!
//! The crash is a copy of the folder of an open database: what a process that was killed leaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use drillcore::{Database, Durability, Options};

use crate::error::{Error, Result};
use crate::figures::metric::Metric;
use crate::figures::report::{Report, grouped};
use crate::tables::engine::DRILLCORE;
use crate::tables::record_table;
use crate::tables::records::{RECORD_BYTES, Records, check_rows};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Rows of one append.
const APPEND_ROWS: usize = 1_000;

const OS: &str = "drillcore, os";
const FSYNC: &str = "drillcore, fsync";
const WITHOUT: &str = "drillcore, none";

const RATE: Metric = Metric::rate("acknowledged", "rows/s");
const RECOVERED: Metric = Metric::rate("of the log", "MB/s");

pub fn durability(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("durability");
    let records = Records::of(setup.arguments);
    let mut contenders = Vec::new();
    for threads in setup.thread_counts() {
        for (engine, durability) in
            [(WITHOUT, Durability::None), (OS, Durability::Os), (FSYNC, Durability::Fsync)]
        {
            contenders.push(Contender::new(engine, threads, Role::Subject, move |_| {
                let folder = setup.fresh_folder()?;
                appended(folder.path(), records, durability, threads)
            }));
        }
    }
    trial.compare("appends of 1,000 rows", None, &mut contenders)?;
    let mut contenders = [
        Contender::new(DRILLCORE, 1, Role::Subject, |_| {
            let folder = setup.fresh_folder()?;
            recovered(folder.path(), records)
        }),
        Contender::new("read of the log", 1, Role::Floor, |_| {
            let folder = setup.fresh_folder()?;
            let crashed = crashed(folder.path(), records)?;
            let started = Instant::now();
            let mut bytes = 0;
            for path in log_files(&crashed)? {
                bytes += fs::read(&path).map_err(Error::io("read", &path))?.len();
            }
            Ok(of_log(bytes as u64, started.elapsed().as_secs_f64()))
        }),
    ];
    trial.compare("opening after a crash", None, &mut contenders)?;
    Ok(trial.finish(format!("{} records of {RECORD_BYTES} bytes", grouped(records.rows))))
}

/// Appends all records by some threads to a database whose memory holds them.
fn appended(
    folder: &Path,
    records: Records,
    durability: Durability,
    threads: u32,
) -> Result<Outcome> {
    let db = Database::open(folder, Options { durability, ..in_memory() })?;
    let table = record_table::create(&db)?;
    let made: Vec<_> = (0..records.batches()).map(|number| records.batch(number)).collect();
    let batches: Vec<_> = made
        .iter()
        .flat_map(|batch| batch.chunks(APPEND_ROWS))
        .map(record_table::batch_of)
        .collect();
    let next = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                record_table::append_batch(&table, batch)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    check_rows(DRILLCORE, table.snapshot()?.rows()?, records)?;
    db.close()?;
    Ok(Outcome { values: vec![(RATE, records.rows as f64 / seconds)], answer: None })
}

fn recovered(folder: &Path, records: Records) -> Result<Outcome> {
    let crashed = crashed(folder, records)?;
    let log_files = log_files(&crashed)?;
    let bytes = log_files.iter().map(|path| {
        fs::metadata(path).map(|metadata| metadata.len()).map_err(Error::io("look at", path))
    });
    let bytes = bytes.sum::<Result<u64>>()?;
    let started = Instant::now();
    let db = Database::open(&crashed, in_memory())?;
    let seconds = started.elapsed().as_secs_f64();
    check_rows(DRILLCORE, record_table::open(&db)?.rows()?, records)?;
    db.close()?;
    Ok(of_log(bytes, seconds))
}

fn of_log(bytes: u64, seconds: f64) -> Outcome {
    Outcome { values: vec![(RECOVERED, bytes as f64 / 1e6 / seconds)], answer: None }
}

/// A database all of whose records are in the log, as a crash leaves it.
fn crashed(folder: &Path, records: Records) -> Result<PathBuf> {
    let (open, crashed) = (folder.join("open"), folder.join("crashed"));
    let db = Database::open(&open, in_memory())?;
    let table = record_table::create(&db)?;
    (0..records.batches())
        .try_for_each(|number| record_table::append(&table, &records.batch(number)))?;
    fs::create_dir(&crashed).map_err(Error::io("create", &crashed))?;
    for entry in fs::read_dir(&open).map_err(Error::io("list", &open))? {
        let path = entry.map_err(Error::io("list", &open))?.path();
        if path.is_file() {
            let to = crashed.join(path.file_name().expect("it was listed"));
            fs::copy(&path, &to).map_err(Error::io("copy", &path))?;
        }
    }
    db.close()?;
    Ok(crashed)
}

fn log_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_log = name.starts_with("wal-");
        files.extend(is_log.then_some(path));
    }
    Ok(files)
}

/// Memory and a log that hold all records.
fn in_memory() -> Options {
    Options { memory_bytes: u64::MAX / 4, wal_bytes_max: u64::MAX / 4, ..Options::default() }
}
