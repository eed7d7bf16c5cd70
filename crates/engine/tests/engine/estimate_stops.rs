//! Estimates that stop at a width read no more rows than that takes: what is known, small or cannot be had by drawing is read,
//! and is exact. Counts of rows show it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::{named, schema_of};

const ROWS: i64 = 1_000_000;
/// The number of draws that cost as much as a scan: half of the rows are in memory, half on disk.
const SCAN_DRAWS: u64 = ROWS as u64 / 2 / 128 + ROWS as u64 / 2 / 1_024;

fn kinds_spec(merge: Merge) -> TableSpec {
    TableSpec::new(
        schema_of(&[
            ("id", DataType::Int64, false),
            ("name", DataType::Utf8, true),
            ("kind", DataType::Utf8, true),
            ("x", DataType::Float64, true),
        ]),
        ["id"],
    )
    .set("name")
    .merge(merge)
}

/// A row: its set, its kind, which no index knows, and its number.
type Row = (Option<&'static str>, &'static str, Option<f64>);

fn table(row: fn(i64) -> Row) -> (tempfile::TempDir, Database, Table) {
    table_of(Merge::Append, ROWS, row)
}

/// The rows in four commits, of which two are on disk.
fn table_of(merge: Merge, rows: i64, row: fn(i64) -> Row) -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", kinds_spec(merge.clone())).unwrap();
    for part in 0..4 {
        let ids: Vec<i64> = (0..rows).filter(|id| id % 4 == part).collect();
        let rows: Vec<Row> = ids.iter().map(|id| row(*id)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
        ];
        let batch = RecordBatch::try_new(kinds_spec(merge.clone()).columns, columns).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        if part == 1 {
            db.flush().unwrap();
        }
    }
    (folder, db, table)
}

/// Evenly spread from 0 to 100.
fn spread(id: i64) -> f64 {
    (id * 7_919 % 10_007) as f64 / 100.07
}

/// Two large sets and ten rows of a small one; 10,000 rows of a kind that no index knows.
fn with_a_small_set(id: i64) -> Row {
    let is_small = id % 100_000 == 77;
    let name = if is_small { "tiny" } else { ["north", "south"][id as usize % 2] };
    (Some(name), if id % 100 == 77 { "rare" } else { "usual" }, Some(spread(id)))
}

fn request(aggregates: &[Aggregate], by: Option<&str>, stop: Stop) -> EstimateRequest {
    EstimateRequest {
        aggregates: named(aggregates),
        by: by.map(String::from).into_iter().collect(),
        stop,
        seed: Some(7),
        ..Default::default()
    }
}

fn relative(error: f64) -> Stop {
    Stop::Error(HalfWidth::Relative(error))
}

fn estimate(table: &Table, request: &EstimateRequest) -> Estimate {
    table.snapshot().unwrap().estimate(request).unwrap()
}

/// The true count and average of each group, by its name.
fn truths(
    row: fn(i64) -> Row,
    group: fn(&Row) -> &'static str,
) -> BTreeMap<&'static str, [f64; 2]> {
    let mut groups: BTreeMap<&str, (f64, Vec<f64>)> = BTreeMap::new();
    for id in 0..ROWS {
        let row = row(id);
        let (rows, numbers) = groups.entry(group(&row)).or_default();
        *rows += 1.0;
        numbers.extend(row.2);
    }
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    groups.into_iter().map(|(name, (rows, numbers))| (name, [rows, mean(&numbers)])).collect()
}

/// The groups of an estimate with the interval of an aggregate.
fn of_groups(estimate: &Estimate, aggregate: usize) -> BTreeMap<String, Interval> {
    let names = estimate.groups[0].as_string::<i32>();
    let intervals = &estimate.aggregates[aggregate].intervals;
    names.iter().zip(intervals).map(|(name, each)| (name.unwrap().to_string(), *each)).collect()
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found}, not {expected}");
}

#[test]
fn a_small_set_is_read_whole_and_others_are_drawn_from() {
    let (_folder, _db, table) = table(with_a_small_set);
    let found = estimate(
        &table,
        &request(&[Aggregate::avg("x"), Aggregate::Count], Some("name"), relative(0.1)),
    );
    assert!(found.sampled < SCAN_DRAWS, "{} drawn", found.sampled);
    assert_eq!(found.scanned, 10);
    assert!(!found.exact && !found.asymptotic);
    let truths = truths(with_a_small_set, |row| row.0.unwrap());
    let averages = of_groups(&found, 0);
    assert_eq!(averages["tiny"].method, Method::Exact);
    assert_close(averages["tiny"].value, truths["tiny"][1]);
    for name in ["north", "south"] {
        assert_eq!(averages[name].method, Method::BoundedSequence);
        assert!(averages[name].contains(truths[name][1]), "{:?}", averages[name]);
        assert!(averages[name].half_width() <= 0.1 * averages[name].value);
    }
    let counts: Vec<f64> = of_groups(&found, 1).values().map(|count| count.value).collect();
    assert_eq!(counts, truths.values().map(|truth| truth[0]).collect::<Vec<_>>());
    assert_eq!(found.drawn[2], 10, "all rows of the small set were read");
    let note = "1 of 3 groups were read whole, 10 rows: their figures are exact";
    assert!(found.notes.iter().any(|each| each == note), "{:?}", found.notes);
    assert_eq!(found.unseen_share_high, 0.0, "an index lists all groups");
}

/// Eight sets that are rarely met cost less to read than the draws that they would take.
#[test]
fn sets_are_read_where_that_costs_less_than_to_draw_on() {
    fn many(id: i64) -> Row {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let name = if id % 5_000 < 8 { NAMES[id as usize % 5_000] } else { "large" };
        (Some(name), "", Some(spread(id)))
    }
    let (_folder, _db, table) = table(many);
    let found = estimate(&table, &request(&[Aggregate::avg("x")], Some("name"), relative(0.1)));
    let truths = truths(many, |row| row.0.unwrap());
    for (name, interval) in of_groups(&found, 0) {
        assert!(interval.half_width() <= 0.1 * interval.value, "{name}: {interval:?}");
        let [_, mean] = truths[name.as_str()];
        assert!(
            interval.low - 1e-9 <= mean && mean <= interval.high + 1e-9,
            "{name}: {interval:?}"
        );
    }
    // 200 rows of each small set.
    assert_eq!(found.scanned, 8 * 200);
    assert!((1_000..SCAN_DRAWS).contains(&found.sampled), "{} drawn", found.sampled);
}

/// There is no average to wait for. One set is small enough to be read, the other is found to be empty-handed by drawing.
#[test]
fn sets_without_values_are_not_waited_for() {
    fn with_nulls(id: i64) -> Row {
        match id % 1_000 {
            0..600 => (Some("nothing"), "", None),
            600 if id < 10_000 => (Some("none"), "", None),
            _ => (Some("some"), "", Some(spread(id))),
        }
    }
    let (_folder, _db, table) = table(with_nulls);
    let found = estimate(
        &table,
        &request(&[Aggregate::avg("x"), Aggregate::Count], Some("name"), relative(0.1)),
    );
    assert!(found.sampled < SCAN_DRAWS, "{} drawn", found.sampled);
    assert_eq!(found.scanned, 10);
    let averages = of_groups(&found, 0);
    assert_eq!(averages["none"].method, Method::Exact);
    assert!(averages["none"].value.is_nan() && averages["nothing"].value.is_nan());
    // It may have an average yet, and that lies between the bounds.
    assert!((0.0..0.1).contains(&averages["nothing"].low));
    assert!((99.0..=100.0).contains(&averages["nothing"].high));
    let counts: Vec<f64> = of_groups(&found, 1).values().map(|count| count.value).collect();
    assert_eq!(counts, [10.0, 600_000.0, 399_990.0]);
    let batch = found.to_batch();
    let is_null = |column: &str, row: usize| batch.column_by_name(column).unwrap().is_null(row);
    assert_eq!([0, 1, 2].map(|row| is_null("avg(x)", row)), [true, true, false]);
    assert_eq!([0, 1, 2].map(|row| is_null("avg(x)_high", row)), [true, false, false]);
    let note = found.notes.iter().find(|note| note.contains("no value was met")).unwrap();
    assert!(note.contains("in 1 of 3 groups"), "{note}");
    assert!(note.contains("at most 0."), "{note}");
    // The group is named, with the reason, and the others have their width.
    let [wide] = &found.unreached[..] else { panic!("{:?}", found.unreached) };
    assert_eq!((wide.aggregate.as_str(), wide.group), ("avg(x)", 1));
    assert_eq!(found.group_name(wide.group), "nothing");
    assert!(wide.reason.ends_with("drawn rows of the group has a value"), "{}", wide.reason);
    assert!(averages["some"].half_width() <= 0.1 * averages["some"].value);
    let start = "avg(x): the interval is wider than the requested error in 1 of 3 groups (nothing): none of the ";
    assert!(found.notes.iter().any(|note| note.starts_with(start)), "{:?}", found.notes);
}

/// Looks at an estimate that goes on name the groups that are still too wide; its result names none.
#[test]
fn looks_name_the_groups_that_are_too_wide_as_yet() {
    let (_folder, _db, table) = table(with_a_small_set);
    let asked = request(&[Aggregate::avg("x")], Some("name"), relative(0.05));
    let mut looks = Vec::new();
    let mut see = |look: &Estimate| {
        looks.push(look.clone());
        ControlFlow::Continue(())
    };
    let result = table.snapshot().unwrap().estimate_watched(&asked, &mut see).unwrap();
    assert!(result.unreached.is_empty(), "{:?}", result.unreached);
    let first = &looks[0];
    let is_narrow = |interval: &Interval| {
        interval.method == Method::Exact || interval.half_width() <= 0.05 * interval.value
    };
    let intervals = &first.aggregates[0].intervals;
    let wide: Vec<usize> = (0..3).filter(|group| !is_narrow(&intervals[*group])).collect();
    assert!(wide.len() >= 2, "{intervals:?}");
    assert_eq!(first.unreached.iter().map(|each| each.group).collect::<Vec<_>>(), wide);
    assert!(first.unreached.iter().any(|each| each.reason.ends_with("are not enough")));
}

/// Zone maps say so, and no row is read.
#[test]
fn a_column_without_values_has_no_average_and_needs_no_draw() {
    let (_folder, _db, table) = table(|_| (Some("all"), "", None));
    for by in [None, Some("name")] {
        let found = estimate(&table, &request(&[Aggregate::avg("x")], by, relative(0.05)));
        assert_eq!((found.sampled, found.scanned, found.exact), (0, 0, true), "{by:?}");
        let values = found.to_batch();
        assert!(values.column_by_name("avg(x)").unwrap().is_null(0));
    }
}

/// An average that only a scan can know: of a group that no index knows, and a width that is out of reach.
#[test]
fn all_rows_are_read_where_drawing_on_would_cost_more() {
    let (_folder, _db, table) = table(with_a_small_set);
    let all = truths(with_a_small_set, |_| "all")["all"];
    let kinds = truths(with_a_small_set, |row| row.1);
    for (by, error) in [(Some("kind"), 0.05), (None, 1e-4), (Some("name"), 1e-4)] {
        let found = estimate(
            &table,
            &request(&[Aggregate::avg("x"), Aggregate::Count], by, relative(error)),
        );
        assert!(found.sampled <= 2 * SCAN_DRAWS, "{by:?}: {} drawn", found.sampled);
        assert_eq!(found.scanned, ROWS as u64);
        assert!(found.exact, "{by:?}: {}", found.method);
        assert_eq!((found.unseen_share, found.unseen_share_high), (0.0, 0.0));
        let note = "all 1,000,000 rows were read after ";
        assert!(found.notes.iter().any(|each| each.starts_with(note)), "{:?}", found.notes);
        // Where only some groups are the reason, they are named.
        let has_names = found.notes.iter().any(|each| each.contains(" than drawing more for rare"));
        assert_eq!(has_names, by == Some("kind"), "{:?}", found.notes);
        assert!(found.unreached.is_empty());
        match by {
            None => assert_close(found.aggregates[0].intervals[0].value, all[1]),
            Some("kind") => {
                for (name, interval) in of_groups(&found, 0) {
                    assert_close(interval.value, kinds[name.as_str()][1]);
                }
                assert_eq!(found.drawn, [ROWS as u64 / 100, ROWS as u64 / 100 * 99]);
            }
            _ => assert_eq!(found.drawn, [ROWS as u64 / 2, ROWS as u64 / 2 - 10, 10]),
        }
    }
}

/// The first round would cost as much.
#[test]
fn a_small_table_is_read_without_a_draw() {
    for merge in [Merge::Append, Merge::Upsert] {
        let (_folder, _db, table) = table_of(merge, 5_000, with_a_small_set);
        let found = estimate(&table, &request(&[Aggregate::avg("x")], Some("kind"), relative(0.1)));
        assert_eq!((found.sampled, found.scanned, found.exact), (0, 5_000, true));
        let truth = (0..5_000).filter(|id| id % 100 != 77).map(spread).sum::<f64>() / 4_950.0;
        assert_close(of_groups(&found, 0)["usual"].value, truth);
    }
}

#[test]
fn what_an_index_knows_needs_no_draw() {
    let (_folder, _db, table) = table(with_a_small_set);
    for by in [None, Some("name")] {
        for stop in [relative(0.01), Stop::Rows(5_000), Stop::Seconds(1.0)] {
            let found = estimate(&table, &request(&[Aggregate::Count], by, stop));
            assert_eq!((found.sampled, found.scanned, found.exact), (0, 0, true), "{by:?}");
            let rows: f64 = found.aggregates[0].intervals.iter().map(|each| each.value).sum();
            assert_eq!(rows, ROWS as f64);
        }
    }
    // Zone maps know extremes, and a watcher has nothing to see.
    let extremes = request(
        &[Aggregate::Count, Aggregate::min("x"), Aggregate::max("x")],
        None,
        Stop::Rows(100),
    );
    let mut see = |_: &Estimate| panic!("nothing is drawn");
    let found = table.snapshot().unwrap().estimate_watched(&extremes, &mut see).unwrap();
    assert_eq!((found.sampled, found.exact), (0, true));
    // What no index knows is drawn.
    let found = estimate(&table, &request(&[Aggregate::Count], Some("kind"), Stop::Rows(5_000)));
    assert_eq!((found.sampled, found.exact), (5_000, false));
}

/// Nothing is said of what no row drawn can show, but that: the interval is unbounded, or ends at the bounds, and a note says how
/// many rows there may be.
#[test]
fn figures_of_rows_that_no_draw_met_say_so() {
    let (_folder, _db, table) = table(with_a_small_set);
    let aggregates = [
        Aggregate::avg("x"),
        Aggregate::ratio("x", "x"),
        Aggregate::variance("x"),
        Aggregate::median("x"),
        Aggregate::sum("x"),
    ];
    let rare = Selection {
        predicate: Some(Arc::new(IdIs(ROWS + 5)) as Arc<dyn Predicate>),
        ..Selection::default()
    };
    let asked = request(&aggregates, None, Stop::Rows(1_000));
    let found = estimate(&table, &EstimateRequest { selection: rare, ..asked });
    assert!(!found.exact);
    for (at, aggregate) in aggregates.iter().enumerate() {
        let [value, low, high] = found.shown(at, 0);
        if *aggregate != Aggregate::sum("x") {
            assert_eq!(value, "unknown", "{aggregate}");
        }
        for end in [low, high] {
            assert!(!end.contains("inf") && !end.contains("NaN"), "{aggregate}: {end}");
        }
        let start =
            format!("{aggregate}: none of the 1,000 rows drawn meets the condition; at most 0.");
        assert!(found.notes.iter().any(|note| note.starts_with(&start)), "{:?}", found.notes);
    }
    assert_eq!(found.shown(1, 0), ["unknown", "unbounded", "unbounded"], "a ratio");
    // Sets of which no row was drawn.
    let found = estimate(&table, &request(&[Aggregate::avg("x")], Some("name"), Stop::Rows(1)));
    let note = "avg(x): no rows were drawn of 2 of the 3 groups; draw more";
    assert!(found.notes.iter().any(|each| each == note), "{:?}", found.notes);
}

/// The row with an id.
#[derive(Debug)]
struct IdIs(i64);

impl Predicate for IdIs {
    fn text(&self) -> &str {
        "id is"
    }

    fn columns(&self) -> &[String] {
        static COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| vec!["id".to_string()]);
        &COLUMNS
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let ids = rows.column(0).as_primitive::<Int64Type>();
        Ok(ids.values().iter().map(|id| Some(*id == self.0)).collect())
    }
}

/// One that is not finite makes the average what it is, and no draw makes its interval narrower.
#[test]
fn a_value_that_is_not_finite_is_no_reason_to_draw_for_ever() {
    let (_folder, _db, table) = table(|id| {
        let odd = if id % 400 == 3 { f64::INFINITY } else { spread(id) };
        (None, "", Some(odd))
    });
    let found = estimate(&table, &request(&[Aggregate::avg("x")], None, relative(0.05)));
    assert_eq!((found.sampled, found.scanned, found.exact), (1_000, ROWS as u64, true));
    assert_eq!(found.aggregates[0].intervals[0].value, f64::INFINITY);
}

/// As with a seed: the first rows drawn are the same, whatever stops the drawing, with a watcher and without.
#[test]
fn a_seed_draws_the_same_rows_whatever_stops_them() {
    let (_folder, _db, table) = table(with_a_small_set);
    let snapshot = table.snapshot().unwrap();
    let by_error =
        snapshot.estimate(&request(&[Aggregate::avg("x")], None, relative(0.05))).unwrap();
    assert!(!by_error.exact);
    let rows = Stop::Rows(by_error.sampled);
    let by_rows = snapshot.estimate(&request(&[Aggregate::avg("x")], None, rows)).unwrap();
    let mut looks = Vec::new();
    let watched = snapshot
        .estimate_watched(&request(&[Aggregate::avg("x")], None, rows), &mut |look| {
            looks.push(look.sampled);
            ControlFlow::Continue(())
        })
        .unwrap();
    let value = |estimate: &Estimate| estimate.aggregates[0].intervals[0].value;
    assert_eq!(value(&by_error), value(&by_rows));
    assert_eq!(value(&by_error), value(&watched));
    assert_eq!(looks[0], 1_000);
    // A look of several, though the last one was fixed beforehand.
    assert_eq!(
        (by_rows.method.as_str(), watched.method.as_str()),
        ("t", "bounded confidence sequence")
    );
}

/// Of a rollup table only what does not fold has bounds, and the result says so.
#[test]
fn sums_that_fold_have_no_bounds_and_dimensions_do() {
    let metrics = vec![("n".into(), Metric::Count), ("x".into(), Metric::sum("x"))];
    let columns = schema_of(&[("id", DataType::Int64, false), ("x", DataType::Float64, true)]);
    let spec = TableSpec {
        columns: columns.clone(),
        set: None,
        merge: Merge::Rollup(RollupSpec { metrics, ..RollupSpec::default() }),
        ..kinds_spec(Merge::Append)
    };
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", spec).unwrap();
    let rows = 40_000;
    let values: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(Float64Array::from_iter_values((0..rows).map(spread))),
    ];
    table.append(&RecordBatch::try_new(columns, values).unwrap(), OnError::Raise).unwrap();
    db.flush().unwrap();
    // So few rows would be read if an error were to stop the drawing.
    let watched = |aggregate: Aggregate| {
        let request = request(&[aggregate], None, Stop::Rows(2_000));
        let go_on = &mut |_: &Estimate| ControlFlow::Continue(());
        table.snapshot().unwrap().estimate_watched(&request, go_on).unwrap()
    };
    let of_sums = watched(Aggregate::avg("x"));
    assert_eq!(
        (of_sums.method.as_str(), of_sums.asymptotic),
        ("asymptotic confidence sequence", true)
    );
    assert_eq!(of_sums.aggregates[0].bounds, None);
    assert!(of_sums.notes[0].starts_with("avg(x): the bounds of its values are unknown"));
    assert!(of_sums.notes[0].contains("in fewer than 95 % of cases"), "{}", of_sums.notes[0]);
    let of_dimension = watched(Aggregate::avg("id"));
    assert_eq!(of_dimension.method, "bounded confidence sequence");
    assert!(!of_dimension.asymptotic);
    assert_eq!(of_dimension.aggregates[0].bounds, Bounds::new(0.0, rows as f64 - 1.0));
    let note = "avg(id): the interval allows for values as far as the column's bounds, 0 to 39,999";
    assert_eq!(of_dimension.notes, [note]);
}

/// Each row its own group, so that nothing is known of the others: the share of rows not met is said, with its upper end.
#[test]
fn groups_that_were_not_met_are_said_to_be_there() {
    let (_folder, _db, table) = table(with_a_small_set);
    let found = estimate(&table, &request(&[Aggregate::Count], Some("id"), Stop::Rows(2_000)));
    assert_eq!((found.unseen_share, found.unseen_share_high), (1.0, 1.0));
    let note = "groups not met hold an estimated 100 % of the rows, at most 100 %";
    assert_eq!(found.notes, [note]);
    let found = estimate(&table, &request(&[Aggregate::Count], Some("kind"), Stop::Rows(2_000)));
    let truth = if found.drawn.len() == 1 { 0.01 } else { 0.0 };
    assert!((truth..0.01).contains(&found.unseen_share_high), "{}", found.unseen_share_high);
    assert!(found.notes[0].starts_with("groups not met hold an estimated 0"), "{:?}", found.notes);
    let found = estimate(&table, &request(&[Aggregate::Count], Some("name"), Stop::Rows(2_000)));
    assert_eq!((found.unseen_share_high, found.notes), (0.0, vec![]));
}
