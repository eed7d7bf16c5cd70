//! `drillcore demo`: what the store does, shown and checked on departures that are made up on the spot.
//!
//! Writers and a thread that estimates run beside each other; then the table is asked in every way, and what
//! is known exactly in two ways is compared. An answer that does not fit ends the demo with exit code 1.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampSecondArray, UInt64Array,
};
use drillcore::{
    Aggregate, Database, Estimate, EstimateRequest, Granularity, Interrupt, Merge, Metric, Options,
    RollupSpec, SampleRequest, Snapshot, Stop, TableSpec,
};
use drillcore_sql::QueryOptions;
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arguments::shared_options::Style;
use crate::arguments::verb::Demo;
use crate::printing::output::{print_line, print_one};
use crate::printing::progress;
use crate::process::fault::Fault;
use crate::process::opening::open;

/// No airline has one of these names. The first have the most departures and the shortest delays.
const CARRIERS: [&str; 6] = ["Tern", "Swift", "Heron", "Gannet", "Dunlin", "Auk"];
const WRITERS: usize = 4;
/// Rows of a commit.
const BATCH_ROWS: u64 = 2048;
/// Rows of the table per drawn row of an estimate, which draws at least `DRAWS_MIN`.
const ROWS_PER_DRAW: u64 = 100;
const DRAWS_MIN: u64 = 1_000;
/// Between two estimates while rows come in.
const PAUSE: Duration = Duration::from_millis(50);
/// The departures are spread over a month, which begins at 2030-06-01 00:00.
const MONTH_START: i64 = 1_906_502_400;
const MONTH_SECONDS: u64 = 30 * 86_400;
const WORST_HOURS: &str = "\
select departed as hour, sum(flights) as flights,
       round(1.0 * sum(delay) / sum(flights), 1) as average_delay, max(worst) as worst_delay
from hourly group by departed order by average_delay desc limit 5";
const BY_CARRIER: &str = "\
select carrier, sum(flights) as flights, sum(delay) as delay
from hourly group by carrier order by carrier";

/// Fills a database with departures and asks it in every way.
pub fn demo(arguments: &Demo, interrupt: &Interrupt) -> Result<(), Fault> {
    let temporary = match &arguments.database {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Fault::unusable(format!(
                "cannot create a temporary directory: {error}; use --database to name one"
            ))
        })?),
    };
    let folder = arguments.database.as_deref().or(temporary.as_ref().map(|folder| folder.path()));
    let folder = folder.expect("one is given or made");
    let options = Options { interrupt: interrupt.clone(), ..Options::default() };
    let db = Database::open(folder, options)?;
    if !db.tables()?.is_empty() {
        let folder = folder.display();
        return Err(Fault::wrong_call(format!(
            "{folder} already has tables; use --database to name an empty directory"
        )));
    }
    create_tables(&db)?;
    print_line(&format!(
        "{WRITERS} threads append {} generated departures to two tables: one keeps them,\n\
         the other folds them by hour and carrier. Every snapshot shows a commit in both or in neither.",
        HumanCount(arguments.rows)
    ))?;
    append_departures(&db, arguments.rows, interrupt)?;
    let snapshot = db.snapshot()?;
    compare(&snapshot, arguments.rows)?;
    read_one(&snapshot, arguments.rows)?;
    draw_long_ones(&snapshot)?;
    ask_in_sql(&snapshot)?;
    db.flush()?;
    db.close()?;
    reopen(folder, arguments.rows, interrupt)?;
    match &arguments.database {
        Some(folder) => print_line(&format!(
            "\nThe database is kept. Look at it with: drillcore tables {}",
            folder.display()
        )),
        None => Ok(()),
    }
}

/// `departures` keeps all of them, `hourly` folds them by hour and carrier.
fn create_tables(db: &Database) -> Result<(), Fault> {
    let columns = made_up(0..0, 1).schema();
    let departures =
        TableSpec::new(columns.clone(), ["departed", "flight"]).set("carrier").weights(["miles"]);
    db.create_table("departures", departures)?;
    let folded = RollupSpec::default()
        .time("departed", Granularity::HOUR)
        .metric("flights", Metric::Count)
        .metric("delay", Metric::sum("delay"))
        .metric("worst", Metric::max("delay"));
    let hourly = TableSpec::new(columns, ["departed", "carrier"])
        .set("carrier")
        .merge(Merge::Rollup(folded));
    db.create_table("hourly", hourly)?;
    Ok(())
}

/// When a departure is.
fn departed(flight: u64, rows: u64) -> i64 {
    MONTH_START + (flight * MONTH_SECONDS / rows) as i64
}

/// Some of `rows` departures: the same numbers give the same departures. Delays are exponential, the longer
/// the later in the day.
fn made_up(flights: Range<u64>, rows: u64) -> RecordBatch {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(flights.start);
    // Above 0 and at most 1.
    let mut uniform = move || ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let count = flights.clone().count();
    let (mut carriers, mut miles, mut delays) =
        (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
    let times: Vec<i64> = flights.clone().map(|flight| departed(flight, rows)).collect();
    for time in &times {
        let carrier = (uniform() * uniform() * CARRIERS.len() as f64) as usize % CARRIERS.len();
        let hour = (time / 3600 % 24) as f64;
        let mean = (8.0 + 3.0 * carrier as f64) * (0.5 + hour / 24.0);
        carriers.push(CARRIERS[carrier]);
        miles.push((150.0 - 500.0 * uniform().ln()) as i64);
        delays.push((-mean * uniform().ln()) as i64 - 5);
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("departed", Arc::new(TimestampSecondArray::from(times))),
        ("flight", Arc::new(Int64Array::from_iter_values(flights.map(|flight| flight as i64)))),
        ("carrier", Arc::new(StringArray::from(carriers))),
        ("miles", Arc::new(Int64Array::from(miles))),
        ("delay", Arc::new(Int64Array::from(delays))),
    ];
    RecordBatch::try_from_iter(columns).expect("the columns have one length")
}

/// Appends all departures from several threads, while another estimates their average delay.
fn append_departures(db: &Database, rows: u64, interrupt: &Interrupt) -> Result<(), Fault> {
    let bar = ProgressBar::new(rows)
        .with_style(progress::style("{bar:16} {human_pos} rows, {rate}; {msg}"));
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    let looks = thread::scope(|scope| {
        let write = || append_batches(db, rows, &next, &bar, interrupt);
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let watcher = scope.spawn(|| watch(db, &is_over, &bar));
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let looks = watcher.join().expect("the estimating thread does not panic");
        for done in written {
            done.expect("an appending thread does not panic")?;
        }
        looks
    })?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    print_line(&format!(
        "Appended in {seconds:.1} s, {} rows per second, while another thread made {} estimates.",
        HumanCount((rows as f64 / seconds) as u64),
        HumanCount(looks)
    ))
}

/// Takes the next departures that no thread has appended, until there are none.
fn append_batches(
    db: &Database,
    rows: u64,
    next: &AtomicU64,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<(), Fault> {
    loop {
        interrupt.check()?;
        let first = next.fetch_add(BATCH_ROWS, Ordering::Relaxed);
        if first >= rows {
            return Ok(());
        }
        let batch = made_up(first..rows.min(first + BATCH_ROWS), rows);
        db.append(&[("departures", &batch), ("hourly", &batch)])?;
        bar.inc(batch.num_rows() as u64);
    }
}

/// Estimates again and again, each time from a new sample of what is there by then, and counts how often. So
/// the intervals narrow because there are more rows to draw from; each is good for its own look.
fn watch(db: &Database, is_over: &AtomicBool, bar: &ProgressBar) -> Result<u64, Fault> {
    let mut looks = 0;
    while !is_over.load(Ordering::Relaxed) {
        let estimate = average_delay(&db.snapshot()?, None)?;
        if estimate.population > 0 {
            let interval = &estimate.aggregates[0].intervals[0];
            let half_width = (interval.high - interval.low) / 2.0;
            bar.set_message(format!("average delay {:.2} ± {half_width:.2}", interval.value));
            looks += 1;
        }
        thread::sleep(PAUSE);
    }
    Ok(looks)
}

/// From one departure in a hundred.
fn average_delay(snapshot: &Snapshot, by: Option<&str>) -> Result<Estimate, Fault> {
    let departures = snapshot.table("departures")?;
    let request = EstimateRequest {
        aggregates: vec![("delay".to_string(), Aggregate::avg("delay"))],
        by: by.map(str::to_string).into_iter().collect(),
        stop: Stop::Rows((departures.rows()? / ROWS_PER_DRAW).max(DRAWS_MIN)),
        ..EstimateRequest::default()
    };
    Ok(departures.estimate(&request)?)
}

/// Exact averages, from the rollup, beside estimated ones. Counts that both tables know must be equal.
fn compare(snapshot: &Snapshot, rows: u64) -> Result<(), Fault> {
    let (departures, hourly) = (snapshot.table("departures")?, snapshot.table("hourly")?);
    check("rows of departures", departures.rows()?, rows)?;
    check("events of hourly", hourly.count_events(&Default::default())?, rows)?;
    let started = Instant::now();
    let estimate = average_delay(snapshot, Some("carrier"))?;
    let took = started.elapsed();
    let exact = one_batch(snapshot, BY_CARRIER)?;
    let flights = exact.column(1).as_primitive::<Int64Type>().values();
    let delays = exact.column(2).as_primitive::<Int64Type>().values();
    let sets = departures.sets()?;
    check("carriers", sets.rows.len(), exact.num_rows())?;
    for ((carrier, &of_set), &of_rollup) in
        exact.column(0).as_string::<i32>().iter().zip(&sets.rows).zip(flights)
    {
        check(&format!("departures of {}", carrier.unwrap_or_default()), of_set, of_rollup as u64)?;
    }

    let intervals = &estimate.aggregates[0].intervals;
    check("estimated carriers", intervals.len(), exact.num_rows())?;
    let averages: Vec<f64> = delays
        .iter()
        .zip(flights)
        .map(|(&delay, &flights)| delay as f64 / flights as f64)
        .collect();
    let is_inside: BooleanArray = averages
        .iter()
        .zip(intervals)
        .map(|(exact, interval)| Some((interval.low..=interval.high).contains(exact)))
        .collect();
    let rounded = |values: Vec<f64>| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            values.into_iter().map(|value| (value * 100.0).round() / 100.0),
        ))
    };
    let of = |get: fn(&drillcore::Interval) -> f64| rounded(intervals.iter().map(get).collect());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("carrier", exact.column(0).clone()),
        ("departures", exact.column(1).clone()),
        ("drawn", Arc::new(UInt64Array::from(estimate.drawn.clone()))),
        ("average delay", rounded(averages)),
        ("estimate", of(|interval| interval.value)),
        ("low", of(|interval| interval.low)),
        ("high", of(|interval| interval.high)),
        ("inside", Arc::new(is_inside)),
    ];
    print_line(&format!(
        "\nAverage delays: exact from the rollup, and estimated from {} of {} departures ({:.1} %), in {}.\n\
         About one interval in twenty misses the exact value.",
        HumanCount(estimate.sampled),
        HumanCount(estimate.population),
        100.0 * estimate.sampled as f64 / estimate.population as f64,
        shown(took)
    ))?;
    print_one(Style::Table, RecordBatch::try_from_iter(columns).expect("one row per carrier"))
}

/// A departure by its key.
fn read_one(snapshot: &Snapshot, rows: u64) -> Result<(), Fault> {
    let flight = rows / 2;
    let key: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from(vec![departed(flight, rows)])),
        Arc::new(Int64Array::from(vec![flight as i64])),
    ];
    let started = Instant::now();
    let found = snapshot.table("departures")?.get(&key, None)?;
    print_line(&format!("\nOne departure by its key, in {}:", shown(started.elapsed())))?;
    check("rows with one key", found.rows.num_rows(), 1)?;
    let batch = flight - flight % BATCH_ROWS;
    let made = made_up(batch..rows.min(batch + BATCH_ROWS), rows);
    check("the departure", &found.rows, &made.slice((flight - batch) as usize, 1))?;
    print_one(Style::Table, found.rows)
}

/// A sample in proportion to a weight.
fn draw_long_ones(snapshot: &Snapshot) -> Result<(), Fault> {
    let request = SampleRequest { n: 5, weight: Some("miles".to_string()), ..Default::default() };
    let started = Instant::now();
    let drawn = snapshot.table("departures")?.sample(&request)?;
    let took = shown(started.elapsed());
    print_line(&format!("\nFive departures drawn in proportion to their miles, in {took}:"))?;
    check("rows drawn", drawn.num_rows(), 5)?;
    print_one(Style::Table, drawn)
}

fn ask_in_sql(snapshot: &Snapshot) -> Result<(), Fault> {
    let started = Instant::now();
    let worst = one_batch(snapshot, WORST_HOURS)?;
    print_line(&format!(
        "\nThe worst hours, from SQL, in {}:\n{WORST_HOURS}",
        shown(started.elapsed())
    ))?;
    print_one(Style::Table, worst)
}

/// What was closed is there again.
fn reopen(folder: &Path, rows: u64, interrupt: &Interrupt) -> Result<(), Fault> {
    let started = Instant::now();
    let db = open(folder, interrupt)?;
    let opened = shown(started.elapsed());
    let report = db.verify()?;
    if let Some(fault) = report.faults.first() {
        return Err(Fault::wrong_answer(format!("damaged: {fault}")));
    }
    let snapshot = db.snapshot()?;
    check("rows of departures", snapshot.table("departures")?.rows()?, rows)?;
    let events = snapshot.table("hourly")?.count_events(&Default::default())?;
    check("events of hourly", events, rows)?;
    db.close()?;
    print_line(&format!(
        "\nClosed the database, opened it again in {opened} and verified it: {} segments, {}, nothing damaged.\n\
         It has all {} departures.",
        report.segments,
        HumanBytes(report.bytes),
        HumanCount(rows)
    ))
}

/// The result of a query.
fn one_batch(snapshot: &Snapshot, text: &str) -> Result<RecordBatch, Fault> {
    let options = QueryOptions::default();
    let query = drillcore_sql::query(snapshot, text, &options)?;
    let schema = query.schema();
    let batches = query.collect::<Result<Vec<_>, _>>()?;
    Ok(arrow_select::concat::concat_batches(&schema, &batches).expect("batches of one query fit"))
}

fn check<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    Err(Fault::wrong_answer(format!("{what}: found {found:?}, expected {expected:?}")))
}

/// A duration, with the digits that matter.
fn shown(took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds < 0.001 => format!("{:.0} µs", 1e6 * seconds),
        seconds if seconds < 1.0 => format!("{:.1} ms", 1e3 * seconds),
        seconds => format!("{seconds:.1} s"),
    }
}
