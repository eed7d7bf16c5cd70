//! Estimates that stop at a width, or when a watcher pleases, hold the truth as often as they say.
//!
//! Null hypothesis of each test: what is shown of a run, and its result, hold the truth all together in at least 95 % of runs. It
//! is rejected if so few runs hold with a chance below 1e-6 under it; that is the false-alarm rate of each check.

use std::ops::ControlFlow;
use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{
    Aggregate, Database, Estimate, EstimateRequest, Granularity, HalfWidth, Interval, Merge,
    Method, Metric, OnError, Options, RollupSpec, Stop, Table, TableSnapshot, TableSpec,
};
use drillcore_sample::rng::Rng;
use drillcore_testkit::repetitions::repetitions;
use statrs::distribution::{Binomial, DiscreteCDF};

const ROWS: i64 = 100_000;
const RUNS: u64 = 40;
/// Of a twin, which must fail.
const TWIN_RUNS: u64 = 30;

/// The value of each row.
type Values = fn(i64) -> Option<f64>;

/// Some columns to average; with each id comes a number as if drawn at random.
const COLUMNS: [(&str, Values); 9] = [
    ("even", |id| Some(chance(id))),
    ("rare_200", |id| Some(rare(id, 200))),
    ("rare_2000", |id| Some(rare(id, 2_000))),
    ("rare_20000", |id| Some(rare(id, 20_000))),
    ("negative", |id| Some(-rare(id, 2_000))),
    ("lognormal", |id| Some((2.0 * normal(id)).exp())),
    ("delay", |id| Some(delay(id))),
    ("one", |id| Some(f64::from(u8::from(id == 4_711)))),
    ("half_null", |id| (id % 2 == 0).then(|| rare(id, 2_000))),
];

fn chance(id: i64) -> f64 {
    Rng::keyed(id as u64, 11).unit_f64()
}

fn normal(id: i64) -> f64 {
    let mut rng = Rng::keyed(id as u64, 12);
    let radius = (-2.0 * (1.0 - rng.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit_f64()).cos()
}

/// One row in `one_in` is worth more than all others together.
fn rare(id: i64, one_in: u64) -> f64 {
    let is_rare = Rng::keyed(id as u64, 13).below(one_in) == 0;
    if is_rare { 2.0 * one_in as f64 } else { chance(id) }
}

/// In minutes, like those of flights.
fn delay(id: i64) -> f64 {
    let mut rng = Rng::keyed(id as u64, 14);
    let exponential = -(1.0 - rng.unit_f64()).ln();
    match rng.below(1_000) {
        0..700 => -5.0 + 6.0 * normal(id),
        700..995 => 45.0 * exponential - 5.0,
        _ => (200.0 * exponential).min(1_300.0),
    }
}

/// Two large groups, and a small one.
fn group(id: i64) -> &'static str {
    match id % 1_000 {
        7 => "small",
        odd if odd % 2 == 1 => "odd",
        _ => "even",
    }
}

fn schema() -> Arc<Schema> {
    let mut fields =
        vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, false)];
    fields.extend(COLUMNS.map(|(name, _)| Field::new(name, DataType::Float64, true)));
    Arc::new(Schema::new(fields))
}

/// All columns in an append table; in four commits, of which two are on disk.
fn table() -> (tempfile::TempDir, Database, Table) {
    let spec = TableSpec::new(schema(), ["id"]).set("name");
    filled(spec)
}

/// The same as a rollup table of one event per row, whose sums have no bounds.
fn folded() -> (tempfile::TempDir, Database, Table) {
    let sum = |(name, _): (&str, _)| (name.to_string(), Metric::sum(name));
    let spec = TableSpec::new(schema(), ["id", "name"]).merge(Merge::Rollup(RollupSpec {
        time: None,
        granularity: Granularity::NONE,
        metrics: COLUMNS.map(sum).to_vec(),
        ..Default::default()
    }));
    filled(spec)
}

fn filled(spec: TableSpec) -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let table = db.create_table("t", spec).unwrap();
    for part in 0..4 {
        let ids: Vec<i64> = (0..ROWS).filter(|id| id % 4 == part).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.clone())),
            Arc::new(ids.iter().map(|id| Some(group(*id))).collect::<StringArray>()),
        ];
        for (_, number) in COLUMNS {
            columns.push(Arc::new(ids.iter().map(|id| number(*id)).collect::<Float64Array>()));
        }
        let batch = RecordBatch::try_new(schema(), columns).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        if part == 1 {
            db.flush().unwrap();
        }
    }
    (folder, db, table)
}

fn truth(number: fn(i64) -> Option<f64>, ids: impl Iterator<Item = i64>) -> f64 {
    let numbers: Vec<f64> = ids.filter_map(number).collect();
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn average(name: &str, by: Option<&str>, stop: Stop, run: u64) -> EstimateRequest {
    EstimateRequest {
        aggregates: vec![("mean".into(), Aggregate::avg(name))],
        by: by.map(String::from).into_iter().collect(),
        stop,
        seed: Some(0x5eed_7000 + run),
        ..Default::default()
    }
}

/// The most draws.
const DRAWS_MAX: u64 = 8_000;

/// What there is once every interval is as narrow as a share of its value, or at the end. A watcher stops it, as
/// [`drillcore::Stop::Error`] does, which would read all rows of a table of this size.
fn stopped_at(
    table: &TableSnapshot,
    name: &str,
    by: Option<&str>,
    error: f64,
    run: u64,
) -> Estimate {
    let request = average(name, by, Stop::Rows(DRAWS_MAX), run);
    let mut is_narrow = |found: &Estimate| {
        let is_wide = |interval: &Interval| interval.half_width() > error * interval.value.abs();
        match found.aggregates[0].intervals.iter().any(is_wide) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    table.estimate_watched(&request, &mut is_narrow).unwrap()
}

/// Up to the rounding of a sum in another order.
fn holds(interval: &Interval, truth: f64) -> bool {
    let off = 1e-9 * truth.abs();
    interval.low - off <= truth && truth <= interval.high + off
}

fn is_rejected(held: u64, runs: u64) -> bool {
    Binomial::new(0.95, runs).unwrap().cdf(held) < 1e-6
}

/// Every column, at an error that most reach by drawing and at one that few do. Twin: the asymptotic sequence, which is all there
/// is for sums of a rollup table. There every result says so.
#[test]
fn an_average_stopped_at_a_width_holds_the_truth_however_rare_the_rows_that_carry_it() {
    let (_folder, _db, plain) = table();
    let (_other_folder, _other_db, folded) = folded();
    let (plain, folded) = (plain.snapshot().unwrap(), folded.snapshot().unwrap());
    let runs = repetitions(RUNS);
    for (name, number) in COLUMNS {
        let truth = truth(number, 0..ROWS);
        for error in [0.1, 0.5] {
            let (mut held, mut drawn) = (0, 0);
            for run in 0..runs {
                let found = stopped_at(&plain, name, None, error, run);
                let interval = &found.aggregates[0].intervals[0];
                let is_narrow = interval.half_width() <= error * interval.value.abs();
                assert!(is_narrow || found.sampled == DRAWS_MAX, "{interval:?}");
                assert!(!found.asymptotic && found.aggregates[0].bounds.is_some());
                held += u64::from(holds(interval, truth));
                drawn += found.sampled;
            }
            let drawn = drawn / runs;
            println!("{name} at {error}: {held} of {runs} held; {drawn} draws");
            assert!(!is_rejected(held, runs), "{name} at {error}: {held} of {runs}");
        }
        let is_carried_by_few = ["rare_2000", "rare_20000", "negative", "half_null"];
        if is_carried_by_few.contains(&name) {
            let mut held = 0;
            for run in 0..TWIN_RUNS {
                let found = stopped_at(&folded, name, None, 0.1, run);
                held += u64::from(holds(&found.aggregates[0].intervals[0], truth));
                assert!(found.asymptotic);
                let warns = found
                    .notes
                    .iter()
                    .any(|note| note.contains("bounds of its values are unknown"));
                assert!(warns, "{:?}", found.notes);
            }
            println!("{name}: without bounds {held} of {TWIN_RUNS} held");
            assert!(is_rejected(held, TWIN_RUNS), "{name}: the asymptotic sequence passed: {held}");
        }
    }
}

/// Large and small groups. Stopped by an error, the small one or all of them are read, and exact.
#[test]
fn averages_of_groups_stopped_at_a_width_hold_the_truth() {
    let (_folder, _db, table) = table();
    let table = table.snapshot().unwrap();
    let runs = repetitions(RUNS);
    for (name, number) in [COLUMNS[0], COLUMNS[1], COLUMNS[6]] {
        let truths = ["even", "odd", "small"]
            .map(|wanted| truth(number, (0..ROWS).filter(|id| group(*id) == wanted)));
        let mut held = [0; 3];
        for run in 0..runs {
            let found = stopped_at(&table, name, Some("name"), 0.3, run);
            let intervals = &found.aggregates[0].intervals;
            for ((held, interval), truth) in held.iter_mut().zip(intervals).zip(truths) {
                *held += u64::from(holds(interval, truth));
            }
        }
        println!("{name} by group: {held:?} of {runs} held");
        assert!(held.iter().all(|held| !is_rejected(*held, runs)), "{name}: {held:?} of {runs}");
        let error = Stop::Error(HalfWidth::Relative(0.3));
        let found = table.estimate(&average(name, Some("name"), error, 0)).unwrap();
        let intervals = &found.aggregates[0].intervals;
        assert_eq!(intervals[2].method, Method::Exact);
        assert!(intervals.iter().zip(truths).all(|(interval, truth)| holds(interval, truth)));
    }
}

/// A watcher who stops as soon as an interval looks narrow, or goes on to the end: what is seen and the result hold together.
/// Twin: intervals of a third of the width, for columns whose bounds are not what matters.
#[test]
fn what_a_watcher_sees_and_keeps_holds_the_truth_whenever_it_stops() {
    let (_folder, _db, table) = table();
    let table = table.snapshot().unwrap();
    let runs = repetitions(RUNS);
    for (name, number, twin_fails) in [
        ("even", COLUMNS[0].1, true),
        ("rare_2000", COLUMNS[2].1, false),
        ("delay", COLUMNS[6].1, false),
    ] {
        let truth = truth(number, 0..ROWS);
        let (mut held, mut twin_held, mut looks) = (0, 0, 0);
        for run in 0..runs {
            let request = average(name, None, Stop::Rows(6_000), run);
            let (mut all, mut twin_all) = (true, true);
            let mut see = |interval: &Interval| {
                let Interval { value, low, high, method } = *interval;
                assert_eq!(method, Method::BoundedSequence);
                let third = |end: f64| value + (end - value) / 3.0;
                all &= holds(interval, truth);
                twin_all &=
                    holds(&Interval { low: third(low), high: third(high), ..*interval }, truth);
                looks += 1;
            };
            let last = table.estimate_watched(&request, &mut |estimate| {
                let interval = &estimate.aggregates[0].intervals[0];
                see(interval);
                match interval.half_width() < 0.2 * interval.value && run % 2 == 0 {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            see(&last.unwrap().aggregates[0].intervals[0]);
            held += u64::from(all);
            twin_held += u64::from(twin_all);
        }
        println!(
            "{name}: {held} of {runs} held over {looks} looks, a third of the width {twin_held}"
        );
        assert!(!is_rejected(held, runs), "{name}: {held} of {runs}");
        assert!(!twin_fails || is_rejected(twin_held, runs), "{name}: a third passed: {twin_held}");
    }
}
