//! Records that are more than memory: how they are made, how any engine loads them, and what is measured meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drillcore_sample::rng::Rng;

use crate::arguments::Arguments;
use crate::error::{Error, Result};
use crate::figures::metric::{Metric, quantile};
use crate::rows::workload::BATCH_ROWS;
use crate::trials::trial::Outcome;

pub const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
pub const RECORD_BYTES: usize = KEY_BYTES + VALUE_BYTES;
/// How often is looked how far the load is.
const TICK: Duration = Duration::from_secs(1);

const ACKNOWLEDGED: Metric = Metric::rate("acknowledged", "rows/s");
pub const WRITTEN_OUT: Metric = Metric::rate("written out", "rows/s");
const MERGED: Metric = Metric::rate("merged", "rows/s");
/// The rate of the slowest tick over that of the median one.
const STEADINESS: Metric = Metric::rate("slowest second", "of the median");
const SEGMENTS: Metric = Metric::count("most files", "files");
/// Of the whole process. What it had before counts, too: the load uses that again.
const MEMORY: Metric = Metric::count("memory at most", "MiB");
pub const WRITTEN_ROWS: Metric = Metric::count("writes a row", "times");

/// What a record is asked for by.
pub type Key = [u8; KEY_BYTES];

/// The records of one batch, by the number of the batch.
#[derive(Clone, Copy)]
pub struct Records {
    pub rows: u64,
    pub seed: u64,
    /// What engines may hold of them in memory.
    pub memory_bytes: u64,
    /// The later half of the batches have the keys of the earlier.
    pub half_updated: bool,
}

impl Records {
    /// Those that were asked for.
    pub fn of(arguments: &Arguments) -> Records {
        let Arguments { rows, seed, memory, .. } = *arguments;
        Records { rows, seed, memory_bytes: u64::from(memory) << 20, half_updated: false }
    }

    pub fn batches(self) -> u64 {
        self.rows.div_ceil(BATCH_ROWS as u64)
    }

    /// Keys and values, one after the other.
    pub fn batch(self, number: u64) -> Vec<[u8; RECORD_BYTES]> {
        let mut records = self.noise(number, self.rows_of_batch(number));
        let half = self.batches() / 2;
        if self.half_updated && number >= self.batches() - half {
            let earlier = number - (self.batches() - half);
            let earlier = self.noise(earlier, self.rows_of_batch(earlier));
            for (record, earlier) in records.iter_mut().zip(earlier) {
                record[..KEY_BYTES].copy_from_slice(&earlier[..KEY_BYTES]);
            }
        }
        records
    }

    /// How many keys there are.
    pub fn keys(self) -> u64 {
        let updating = if self.half_updated { self.batches() / 2 } else { 0 };
        let of_batch = |number: u64| self.rows_of_batch(number);
        self.rows - (self.batches() - updating..self.batches()).map(of_batch).sum::<usize>() as u64
    }

    fn rows_of_batch(self, number: u64) -> usize {
        (self.rows - number * BATCH_ROWS as u64).min(BATCH_ROWS as u64) as usize
    }

    /// As many records of random bytes, the same for the same number.
    pub fn noise(self, number: u64, rows: usize) -> Vec<[u8; RECORD_BYTES]> {
        let mut rng = Rng::keyed(self.seed, number);
        (0..rows)
            .map(|_| {
                let mut record = [0; RECORD_BYTES];
                for word in record.chunks_mut(8) {
                    word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
                }
                record
            })
            .collect()
    }
}

/// What the threads of a load have in common.
struct Progress {
    next: AtomicU64,
    rows: AtomicU64,
    is_done: AtomicBool,
}

pub fn check_rows(engine: &'static str, found: u64, records: Records) -> Result<()> {
    if found == records.keys() {
        return Ok(());
    }
    let (case, expected) = (format!("{} rows", records.rows), records.keys().to_string());
    Err(Error::Disagreement { bench: "records", case, engine, found: found.to_string(), expected })
}

/// A record that is asked for by its key is there, once.
pub fn check_found(engine: &'static str, found: u64) -> Result<()> {
    if found == 1 {
        return Ok(());
    }
    let (case, expected) = ("one record".to_string(), "1".to_string());
    Err(Error::Disagreement { bench: "readers", case, engine, found: found.to_string(), expected })
}

/// Appends all records with some threads, writes them out and merges them, and measures how that goes.
pub fn loaded(
    records: Records,
    threads: u32,
    append: impl Fn(Vec<[u8; RECORD_BYTES]>) -> Result<()> + Sync,
    files: impl Fn() -> Result<u64> + Sync,
    write_out: impl FnOnce() -> Result<()>,
    merge: impl FnOnce() -> Result<()>,
) -> Result<Outcome> {
    let progress = Progress { next: 0.into(), rows: 0.into(), is_done: false.into() };
    let started = Instant::now();
    // To make the records takes time, too, of every engine the same.
    let work = || -> Result<()> {
        loop {
            let number = progress.next.fetch_add(1, Ordering::Relaxed);
            if number >= records.batches() {
                return Ok(());
            }
            let batch = records.batch(number);
            let rows = batch.len() as u64;
            append(batch)?;
            progress.rows.fetch_add(rows, Ordering::Relaxed);
        }
    };
    let watch = || -> Result<(Vec<f64>, u64, u64)> {
        let (mut ticks, mut most_files, mut most_bytes, mut before) = (Vec::new(), 0, 0, 0);
        while !progress.is_done.load(Ordering::Relaxed) {
            thread::sleep(TICK);
            let rows = progress.rows.load(Ordering::Relaxed);
            ticks.push((rows - before) as f64);
            before = rows;
            most_files = most_files.max(files()?);
            most_bytes = most_bytes.max(resident_bytes());
        }
        // The last was cut short.
        ticks.pop();
        Ok((ticks, most_files, most_bytes))
    };
    let (appended, watched, acknowledged) = thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut appended = work();
        for other in others {
            appended = appended.and(other.join().expect("it does not panic"));
        }
        let acknowledged = started.elapsed();
        progress.is_done.store(true, Ordering::Relaxed);
        (appended, watching.join().expect("it does not panic"), acknowledged)
    });
    appended?;
    let (mut ticks, most_files, most_bytes) = watched?;
    let rate = |took: Duration| records.rows as f64 / took.as_secs_f64();
    write_out()?;
    let written_out = started.elapsed();
    merge()?;
    let merged = started.elapsed();
    let steadiness = match ticks.is_empty() {
        true => f64::NAN,
        false => quantile(&mut ticks, 0.0) / quantile(&mut ticks, 0.5),
    };
    let values = vec![
        (ACKNOWLEDGED, rate(acknowledged)),
        (WRITTEN_OUT, rate(written_out)),
        (MERGED, rate(merged)),
        (STEADINESS, steadiness),
        (SEGMENTS, most_files as f64),
        (MEMORY, most_bytes as f64 / f64::from(1 << 20)),
    ];
    Ok(Outcome { values, answer: None })
}

/// What this process holds in memory; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
