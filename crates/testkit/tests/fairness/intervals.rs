//! An estimate's interval holds the truth as often as it says.
//!
//! Null hypothesis of each test: intervals of confidence 95 % hold in 95 % of runs (at least, where they hold at
//! all looks together). 500 runs of each estimate, unless said otherwise, so the share of one that is right has a standard
//! deviation of 1 % and leaves 95 % +- 3 % in one of 500 fresh runs; seeds are fixed. Estimates that stop at a width have files of
//! their own: `intervals_at_a_width.rs`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::{
    Aggregate, Database, Estimate, EstimateRequest, Interval, Merge, Metric, OnError, Options,
    RollupSpec, Selection, Stop, Table, TableSpec,
};
use drillcore_testkit::event_table::{Events, Kind, id_range};
use drillcore_testkit::repetitions::repetitions;
use drillcore_testkit::table_states::{NEWEST, events_of, prepared_states};

const EVENTS: Events = Events { teams: 4, payload_bytes: 8 };
const ROWS: i64 = 20_000;
const RUNS: u64 = 500;

fn table() -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let table = db.create_table("events", Events::spec()).unwrap();
    for batch in 0..20 {
        // Every 20th row, so that keys of the pieces overlap.
        let ids: Vec<i64> = (0..ROWS / 20).map(|i| i * 20 + batch).collect();
        EVENTS.append(&table, &ids);
        if batch == 12 {
            db.flush().unwrap();
        }
    }
    (folder, db, table)
}

fn truth(ids: impl Iterator<Item = i64>) -> f64 {
    let values: Vec<f64> = ids.map(Events::value).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// True means: of all rows, then of each team.
fn truths() -> (f64, Vec<f64>) {
    let of_team = |team: i64| truth((0..ROWS).filter(|id| id % EVENTS.teams == team));
    (truth(0..ROWS), (0..EVENTS.teams).map(of_team).collect())
}

fn average(table: &Table, by: Option<&str>, stop: Stop) -> Vec<Estimate> {
    let aggregates = vec![("mean".into(), Aggregate::avg("value"))];
    let by = by.map(String::from);
    estimates(
        table,
        EstimateRequest { aggregates, by: by.into_iter().collect(), stop, ..Default::default() },
    )
}

/// One estimate a run.
fn estimates(table: &Table, request: EstimateRequest) -> Vec<Estimate> {
    let snapshot = table.snapshot().unwrap();
    let runs = (0..repetitions(RUNS)).map(|run| {
        let request = EstimateRequest { seed: Some(0x5eed_2000 + run), ..request.clone() };
        snapshot.estimate(&request).unwrap()
    });
    runs.collect()
}

/// The share of intervals that hold the truth, each with its half width multiplied by `width`.
fn coverage(estimates: &[Estimate], truths: &[f64], width: f64) -> f64 {
    let holds = |(interval, truth): (&Interval, &f64)| {
        let low = interval.value - width * (interval.value - interval.low);
        let high = interval.value + width * (interval.high - interval.value);
        (low..=high).contains(truth)
    };
    let mut held = 0;
    for estimate in estimates {
        let intervals = &estimate.aggregates[0].intervals;
        assert_eq!(intervals.len(), truths.len());
        held += intervals.iter().zip(truths).filter(|&pair| holds(pair)).count();
    }
    held as f64 / (estimates.len() * truths.len()) as f64
}

fn is_nominal(coverage: f64) -> bool {
    (coverage - 0.95).abs() <= 0.03
}

/// At n = 500 of 20,000. Twin: intervals of half the width.
#[test]
fn an_average_of_five_hundred_rows_holds_the_truth_in_95_of_100_runs() {
    let (_folder, _db, table) = table();
    let estimates = average(&table, None, Stop::Rows(500));
    assert!(estimates.iter().all(|estimate| estimate.sampled == 500 && !estimate.exact));
    let truth = [truths().0];
    let share = coverage(&estimates, &truth, 1.0);
    println!("avg at n = 500: {share}");
    assert!(is_nominal(share), "{share}");
    assert!(!is_nominal(coverage(&estimates, &truth, 0.5)), "half the width passed");
}

/// Four groups of about 125 draws each. Twin: intervals of half the width.
#[test]
fn a_grouped_average_holds_the_truth_of_a_group_in_95_of_100_runs() {
    let (_folder, _db, table) = table();
    let estimates = average(&table, Some("team"), Stop::Rows(500));
    let truths = truths().1;
    let share = coverage(&estimates, &truths, 1.0);
    println!("grouped avg at n = 500: {share}");
    assert!(is_nominal(share), "{share}");
    assert!(!is_nominal(coverage(&estimates, &truths, 0.5)), "half the width passed");
    for (team, truth) in truths.iter().enumerate() {
        let held = estimates.iter().filter(|e| e.aggregates[0].intervals[team].contains(*truth));
        let share = held.count() as f64 / estimates.len() as f64;
        assert!((share - 0.95).abs() <= 0.05, "team {team}: {share}");
    }
}

/// Two tables with the same commits, of ids and values, of which the first `flushed` are on disk.
fn tables_of_values(
    merges: [(&str, Merge); 2],
    commits: Vec<Vec<(i64, f64)>>,
    flushed: usize,
) -> (tempfile::TempDir, Database, [Table; 2]) {
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Float64, false),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let tables = merges.map(|(name, merge)| {
        let spec = TableSpec::new(columns.clone(), ["id"]).merge(merge);
        db.create_table(name, spec).unwrap()
    });
    for (number, rows) in commits.into_iter().enumerate() {
        if number == flushed {
            db.flush().unwrap();
        }
        let (ids, values): (Vec<i64>, Vec<f64>) = rows.into_iter().unzip();
        let arrays: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(ids)), Arc::new(Float64Array::from(values))];
        let batch = RecordBatch::try_new(columns.clone(), arrays).unwrap();
        tables.iter().for_each(|table| drop(table.append(&batch, OnError::Raise).unwrap()));
    }
    (folder, db, tables)
}

fn sums() -> Merge {
    Merge::Rollup(RollupSpec::default().metric("value", Metric::sum("value")))
}

/// A rollup table of sums, and an upsert table of the same commits, which shows of each row the newest part
/// only: 4,000 rows of three events in three commits, one of them on disk.
fn folded_and_newest() -> (tempfile::TempDir, Database, [Table; 2]) {
    let commit = |part| (0..FOLDED).map(move |id| (id, Events::value(3 * id + part))).collect();
    let merges = [("folded", sums()), ("newest", Merge::Upsert)];
    tables_of_values(merges, (0..3).map(commit).collect(), 1)
}

const FOLDED: i64 = 4_000;

/// At n = 400 of 4,000 rows, each in three parts. Twin: averages parts without completing them.
#[test]
fn an_average_of_folded_rows_holds_the_truth_in_95_of_100_runs() {
    let (_folder, _db, [folded, newest]) = folded_and_newest();
    let sum = |id: i64| (0..3).map(|part| Events::value(3 * id + part)).sum::<f64>();
    let truth = [(0..FOLDED).map(sum).sum::<f64>() / FOLDED as f64];
    let average = |table: &Table| {
        let aggregates = vec![("mean".into(), Aggregate::avg("value"))];
        estimates(
            table,
            EstimateRequest { aggregates, stop: Stop::Rows(400), ..Default::default() },
        )
    };
    let share = coverage(&average(&folded), &truth, 1.0);
    println!("avg of folded rows at n = 400: {share}");
    assert!(is_nominal(share), "{share}");
    assert!(!is_nominal(coverage(&average(&newest), &truth, 1.0)), "partial rows passed");
}

/// With all rows drawn what is exact, with none but one what an index knows; and of 60 rows intervals: 1,000 in all,
/// whose share that is right has a standard deviation of 0.7 %.
#[test]
fn estimates_of_a_rollup_table_are_of_its_rows_in_every_state() {
    let mean = |of: fn(i64) -> i64, ids: std::ops::RangeInclusive<i64>| {
        let rows = ids.clone().count() as f64;
        ids.map(of).sum::<i64>() as f64 / rows
    };
    let weight = |id: i64| events_of(id) * Events::weight(id);
    let (mut held, mut runs) = (0, 0);
    for state in prepared_states(Kind::Rollup) {
        for (selection, ids) in [(Selection::default(), 0..=NEWEST), (id_range(31, 200), 31..=200)]
        {
            let request = EstimateRequest {
                aggregates: vec![
                    ("rows".into(), Aggregate::Count),
                    ("events".into(), Aggregate::avg("n")),
                    ("weight".into(), Aggregate::avg("weight")),
                ],
                selection: selection.clone(),
                stop: Stop::Rows(u64::MAX),
                ..Default::default()
            };
            let estimate = |request: &EstimateRequest| state.snapshot.estimate(request).unwrap();
            let events = mean(events_of, ids.clone());
            let truths = [ids.clone().count() as f64, events, mean(weight, ids.clone())];
            let whole = estimate(&request);
            assert!(whole.exact, "{}: {}", state.state, whole.method);
            for (aggregate, truth) in whole.aggregates.iter().zip(truths) {
                let found = aggregate.intervals[0].value;
                assert!((found - truth).abs() < 1e-9, "{}: {found}, not {truth}", state.state);
            }
            for _ in 0..50 {
                let stop = Stop::Rows(60);
                let estimate =
                    estimate(&EstimateRequest { stop, seed: Some(runs), ..request.clone() });
                assert_eq!((estimate.sampled, estimate.exact), (60, false));
                held += u64::from(estimate.aggregates[1].intervals[0].contains(events));
                runs += 1;
            }
        }
        let by_team = EstimateRequest {
            aggregates: vec![("rows".into(), Aggregate::Count)],
            by: vec!["team".into()],
            stop: Stop::Rows(1),
            ..Default::default()
        };
        let by_team = state.snapshot.estimate(&by_team).unwrap();
        let rows: Vec<f64> = by_team.aggregates[0].intervals.iter().map(|i| i.value).collect();
        assert_eq!((by_team.exact, rows), (true, vec![61.0, 60.0, 60.0, 60.0]), "{}", state.state);
    }
    let share = held as f64 / runs as f64;
    println!("avg(n) of 60 folded rows in all states: {share}");
    assert!((share - 0.95).abs() <= 0.025, "{share}");
}

/// The true number of rows and average value of each group of rows by weight: 20 groups, and one that is alone.
fn truths_by_weight() -> BTreeMap<i64, [f64; 2]> {
    let mut groups: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    (0..ROWS).for_each(|id| groups.entry(Events::weight(id)).or_default().push(id));
    let of_group = |ids: Vec<i64>| [ids.len() as f64, truth(ids.into_iter())];
    groups.into_iter().map(|(weight, ids)| (weight, of_group(ids))).collect()
}

/// Whether every interval of every group holds; aggregates are the count and the average value.
fn all_hold(estimate: &Estimate, truths: &BTreeMap<i64, [f64; 2]>) -> bool {
    let groups = estimate.groups[0].as_primitive::<Int64Type>();
    groups.values().iter().enumerate().all(|(group, value)| {
        let truths = truths[value].iter().zip(&estimate.aggregates);
        truths.into_iter().all(|(truth, of)| of.intervals[group].contains(*truth))
    })
}

fn by_weight(simultaneous: bool, stop: Stop) -> EstimateRequest {
    EstimateRequest {
        aggregates: vec![
            ("rows".into(), Aggregate::Count),
            ("mean".into(), Aggregate::avg("value")),
        ],
        by: vec!["weight".into()],
        simultaneous,
        stop,
        ..Default::default()
    }
}

/// Null hypothesis: all intervals of a result hold in 95 % of runs or more, of counts and averages of 21 groups that no index
/// knows, at n = 2,000. Twin: the intervals that hold each by itself.
#[test]
fn simultaneous_intervals_of_groups_found_by_drawing_hold_together() {
    let (_folder, _db, table) = table();
    let truths = truths_by_weight();
    let share = |simultaneous| {
        let estimates = estimates(&table, by_weight(simultaneous, Stop::Rows(2_000)));
        assert!(estimates.iter().all(|estimate| estimate.simultaneous == simultaneous));
        let held = estimates.iter().filter(|estimate| all_hold(estimate, &truths)).count();
        held as f64 / estimates.len() as f64
    };
    let (together, each) = (share(true), share(false));
    println!("21 groups at n = 2,000: {together} together, {each} each by itself");
    assert!(together >= 0.93, "{together}");
    assert!(each < 0.93, "intervals for each by itself passed: {each}");
}

/// Null hypothesis: the same at all looks of a watcher, who stops at the fifth. Twin as above.
#[test]
fn simultaneous_intervals_hold_together_at_all_looks() {
    let (_folder, _db, table) = table();
    let truths = truths_by_weight();
    let snapshot = table.snapshot().unwrap();
    let share = |simultaneous| {
        let mut held = 0;
        for run in 0..repetitions(RUNS) {
            let request = EstimateRequest {
                seed: Some(0x5eed_3000 + run),
                ..by_weight(simultaneous, Stop::Rows(u64::MAX))
            };
            let (mut looks, mut all) = (0, true);
            let last = snapshot.estimate_watched(&request, &mut |estimate| {
                looks += 1;
                all &= all_hold(estimate, &truths);
                match looks {
                    5 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            held += u64::from(all && all_hold(&last.unwrap(), &truths));
        }
        held as f64 / repetitions(RUNS) as f64
    };
    let (together, each) = (share(true), share(false));
    println!("21 groups at 5 looks: {together} together, {each} each by itself");
    assert!(together >= 0.93, "{together}");
    assert!(each < 0.93, "intervals for each by itself passed: {each}");
}

/// Null hypothesis: as above where every row is a group of its own, so that whatever is met is overestimated. Twin as above.
#[test]
fn simultaneous_counts_hold_where_every_group_met_is_one_of_thousands() {
    let (_folder, _db, table) = table();
    let share = |simultaneous| {
        let aggregates = vec![("rows".into(), Aggregate::Count)];
        let request = EstimateRequest { aggregates, ..by_weight(simultaneous, Stop::Rows(500)) };
        let request = EstimateRequest { by: vec!["id".into()], ..request };
        let estimates = estimates(&table, request);
        let holds = |estimate: &Estimate| {
            estimate.aggregates[0].intervals.iter().all(|interval| interval.contains(1.0))
        };
        estimates.iter().filter(|estimate| holds(estimate)).count() as f64 / estimates.len() as f64
    };
    let (together, each) = (share(true), share(false));
    println!("500 of 20,000 groups of one row: {together} together, {each} each by itself");
    assert!(together >= 0.93, "{together}");
    assert!(each < 0.93, "intervals for each by itself passed: {each}");
}

/// Null hypothesis: as above for averages of the four sets, which an index knows, at n = 500. Twin as above.
#[test]
fn simultaneous_averages_of_known_sets_hold_together() {
    let (_folder, _db, table) = table();
    let truths = truths().1;
    let share = |simultaneous| {
        let aggregates = vec![("mean".into(), Aggregate::avg("value"))];
        let request = EstimateRequest { aggregates, ..by_weight(simultaneous, Stop::Rows(500)) };
        let request = EstimateRequest { by: vec!["team".into()], ..request };
        let estimates = estimates(&table, request);
        let holds = |estimate: &&Estimate| {
            let mut intervals = estimate.aggregates[0].intervals.iter().zip(&truths);
            intervals.all(|(interval, truth)| interval.contains(*truth))
        };
        estimates.iter().filter(holds).count() as f64 / estimates.len() as f64
    };
    let (together, each) = (share(true), share(false));
    println!("four sets at n = 500: {together} together, {each} each by itself");
    assert!(together >= 0.93, "{together}");
    assert!(each < 0.93, "intervals for each by itself passed: {each}");
}

const SPIKES: i64 = 20_000;

/// One row of a thousand is worth as much as all others.
fn spike(id: i64) -> f64 {
    if id % 1_000 == 137 { 1_000.0 } else { Events::value(id) / 100.0 }
}

/// The spikes as an append table, and as a rollup table of one event a row, whose sums have no bounds.
fn spikes() -> (tempfile::TempDir, Database, [Table; 2]) {
    let commit = |part| (0..SPIKES).filter(|id| id % 4 == part).map(|id| (id, spike(id))).collect();
    let merges = [("plain", Merge::Append), ("folded", sums())];
    tables_of_values(merges, (0..4).map(commit).collect(), 2)
}

/// At n = 500 of 20,000 rows, of which 60 samples in 100 meet no spike. Twin: t, which is all there is where nothing
/// bounds the column; there the result says that it may be wrong.
#[test]
fn an_average_of_spikes_holds_the_truth_by_the_bounds_of_its_column() {
    let (_folder, _db, [plain, folded]) = spikes();
    let truth = [(0..SPIKES).map(spike).sum::<f64>() / SPIKES as f64];
    let average = |table: &Table| {
        let aggregates = vec![("mean".into(), Aggregate::avg("value"))];
        estimates(
            table,
            EstimateRequest { aggregates, stop: Stop::Rows(500), ..Default::default() },
        )
    };
    let bounded = average(&plain);
    let share = coverage(&bounded, &truth, 1.0);
    let without = average(&folded);
    let twin = coverage(&without, &truth, 1.0);
    println!("avg of spikes at n = 500: {share}, by t {twin}");
    assert!(share >= 0.93, "{share}");
    assert!(twin < 0.93, "t passed: {twin}");
    let has_met_one = |estimate: &Estimate| estimate.aggregates[0].intervals[0].value > 1.0;
    for estimate in &bounded {
        // Once several were met, t is wide enough.
        assert!(estimate.method == "bounded" || estimate.method == "t" && has_met_one(estimate));
        assert_eq!((estimate.notes.len(), estimate.asymptotic), (1, false));
    }
    for estimate in &without {
        assert_eq!((estimate.method.as_str(), estimate.asymptotic), ("t", true));
        let notes = &estimate.notes;
        assert!(
            notes.len() == 1 && notes[0].contains("bounds of its values are unknown"),
            "{notes:?}"
        );
        assert_eq!(notes[0].contains("skewness"), has_met_one(estimate), "{notes:?}");
    }
}
