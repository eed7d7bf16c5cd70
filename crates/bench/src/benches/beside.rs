//! Bench `beside`: random rows of narrow key ranges, drawn by one thread while another appends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drillcore::{Merge, Table};
use drillcore_sample::rng::Rng;

use crate::error::{Error, Result};
use crate::figures::metric::{Metric, micros, quantile};
use crate::figures::report::{Report, grouped};
use crate::tables::pairs::{self, Range};
use crate::trials::setup::Setup;
use crate::trials::trial::{Contender, Outcome, Role};

/// Rows of a sample, and of an append.
const DRAWN: u64 = 1_000;
const APPENDED: u64 = 1_000;
/// Appends of a round, at the least; else as many rows are appended as there are before.
const APPENDS_MIN: u64 = 100;
/// Time between the beginnings of two appends of a writer that has a pace: a million rows per second.
const PACE: Duration = Duration::from_millis(1);

const SAMPLE: [(Metric, f64); 3] = [
    (Metric::time("sample, median"), 0.5),
    (Metric::time("sample, 99th percentile"), 0.99),
    (Metric::time("sample, longest"), 1.0),
];
const TAIL: Metric = Metric::count("sample, 99th over median", "times");
const APPEND: [(Metric, f64); 3] = [
    (Metric::time("append, median"), 0.5),
    (Metric::time("append, 99.9th percentile"), 0.999),
    (Metric::time("append, longest"), 1.0),
];
const RATE: Metric = Metric::rate("appended", "rows/s");

/// What the second thread does.
#[derive(Clone, Copy)]
struct Writer {
    name: &'static str,
    appends: bool,
    pace: Option<Duration>,
}

const WRITERS: [Writer; 3] = [
    Writer { name: "no writer", appends: false, pace: Some(PACE) },
    Writer { name: "1,000 appends/s", appends: true, pace: Some(PACE) },
    Writer { name: "appends without pause", appends: true, pace: None },
];

pub fn beside(setup: &Setup) -> Result<Report> {
    let mut trial = setup.trial("beside");
    let (rows, seed) = (setup.arguments.rows, setup.arguments.seed);
    let keys = pairs::shuffled(rows, seed);
    let later = pairs::shuffled(rows, seed + 1);
    let mut contenders = WRITERS.map(|writer| {
        let (keys, later) = (&keys, &later);
        Contender::new(writer.name, 2, Role::Subject, move |round| {
            let (_db, table) = pairs::create(Merge::Append)?;
            pairs::append(&table, keys)?;
            drawn_beside(&table, writer, later, Rng::keyed(seed, round))
        })
    });
    trial.compare("samples of 1,000, appends of 1,000", None, &mut contenders)?;
    let rows = grouped(rows);
    Ok(trial.finish(format!("{rows} rows of two whole numbers in memory, and as many appended")))
}

/// Draws in this thread until another has appended, and times each call.
fn drawn_beside(table: &Table, writer: Writer, later: &[i64], mut rng: Rng) -> Result<Outcome> {
    let is_done = AtomicBool::new(false);
    let rows = later.len() as u64;
    let (drawn, appended) = thread::scope(|scope| {
        let appending = scope.spawn(|| {
            let appended = append_all(table, writer, later);
            is_done.store(true, Ordering::Relaxed);
            appended
        });
        let mut draw_all = || -> Result<Vec<f64>> {
            let mut seconds = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let range = Range::anywhere(&mut rng, rows);
                let started = Instant::now();
                let drawn = range.sample(&table.snapshot()?, DRAWN, None, rng.next_u64())?;
                seconds.push(started.elapsed().as_secs_f64());
                check_drawn(range.count(&drawn))?;
            }
            Ok(seconds)
        };
        let drawn = draw_all();
        (drawn, appending.join().expect("it does not panic"))
    });
    let (mut drawn, (mut appended, elapsed)) = (drawn?, appended?);
    let times = |seconds: &mut Vec<f64>, of: [(Metric, f64); 3]| {
        of.map(|(time, share)| (time, micros(quantile(seconds, share))))
    };
    let of_samples = times(&mut drawn, SAMPLE);
    let mut values = of_samples.to_vec();
    values.push((TAIL, of_samples[1].1 / of_samples[0].1));
    if writer.appends {
        let rows = appended.len() as f64 * APPENDED as f64;
        values.extend(times(&mut appended, APPEND));
        values.push((RATE, rows / elapsed));
    }
    Ok(Outcome { values, answer: None })
}

/// Seconds of each append, and of all.
fn append_all(table: &Table, writer: Writer, later: &[i64]) -> Result<(Vec<f64>, f64)> {
    let appends = (later.len() as u64 / APPENDED).max(APPENDS_MIN);
    let mut seconds = Vec::with_capacity(appends as usize);
    let begun = Instant::now();
    for number in 0..appends as u32 {
        if let Some(pace) = writer.pace {
            thread::sleep((pace * number).saturating_sub(begun.elapsed()));
        }
        let from = (number as usize * APPENDED as usize) % later.len();
        let keys = &later[from..later.len().min(from + APPENDED as usize)];
        let started = Instant::now();
        if writer.appends {
            pairs::append_batch(table, keys)?;
        }
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok((seconds, begun.elapsed().as_secs_f64()))
}

fn check_drawn(found: u64) -> Result<()> {
    if found == DRAWN {
        return Ok(());
    }
    let (case, expected) = ("a sample".to_string(), DRAWN.to_string());
    Err(Error::Disagreement {
        bench: "beside",
        case,
        engine: "drillcore",
        found: found.to_string(),
        expected,
    })
}
