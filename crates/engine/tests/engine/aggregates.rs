//! Estimates of every aggregate: exact where all rows are read, as a plain computation has them, and refused where a sample says
//! nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use drillcore::arrow_schema::{DataType, Schema};
use drillcore::*;

use crate::fixtures::{named, schema_of};

fn all_aggregates() -> [Aggregate; 13] {
    [
        Aggregate::Count,
        Aggregate::values("x"),
        Aggregate::values("name"),
        Aggregate::avg("x"),
        Aggregate::sum("whole"),
        Aggregate::ratio("x", "whole"),
        Aggregate::variance("x"),
        Aggregate::std_dev("x"),
        Aggregate::quantile("x", 0.9),
        Aggregate::median("whole"),
        Aggregate::distinct("name"),
        Aggregate::min("x"),
        Aggregate::max("x"),
    ]
}

fn schema() -> Arc<Schema> {
    schema_of(&[
        ("id", DataType::Int64, false),
        ("name", DataType::Utf8, true),
        ("kind", DataType::Int64, false),
        ("x", DataType::Float64, true),
        ("whole", DataType::Int64, true),
    ])
}

/// Name, kind, x and whole of a row.
type Row = (Option<&'static str>, i64, Option<f64>, Option<i64>);

fn row(id: i64) -> Row {
    let name = [Some("a"), Some("b"), None][id as usize % 3];
    let x = (id % 7 != 0).then_some((id * 7_919 % 1_009) as f64 / 3.0 - 100.0);
    // Sums of these need more digits than a float has.
    let whole = (id % 5 != 0).then_some((1 << 53) + id % 11);
    (name, id % 4, x, whole)
}

fn batch(ids: &[i64], row: impl Fn(i64) -> Row) -> RecordBatch {
    let rows: Vec<Row> = ids.iter().map(|id| row(*id)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Rows in three commits, of which the first is on disk. In an upsert table some come twice, and some are deleted.
fn table(merge: Merge, rows: i64) -> (tempfile::TempDir, Database, Table) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let spec = TableSpec::new(schema(), ["id"]).set("name").merge(merge.clone());
    let table = db.create_table("t", spec).unwrap();
    let ids = |part: i64| (0..rows).filter(|id| id % 3 == part).collect::<Vec<_>>();
    if merge == Merge::Upsert {
        let old: Vec<i64> = (0..rows + 100).collect();
        let far = |_| (Some("old"), 9, Some(1e6), Some(1));
        table.append(&batch(&old, far), OnError::Raise).unwrap();
        let gone: ArrayRef = Arc::new(Int64Array::from_iter_values(rows..rows + 100));
        table.delete(&[gone]).unwrap();
    }
    for part in 0..3 {
        table.append(&batch(&ids(part), row), OnError::Raise).unwrap();
        if part == 0 {
            db.flush().unwrap();
        }
    }
    (folder, db, table)
}

fn request(aggregates: &[Aggregate], by: &[&str], stop: Stop) -> EstimateRequest {
    EstimateRequest {
        aggregates: named(aggregates),
        by: by.iter().map(|name| name.to_string()).collect(),
        stop,
        seed: Some(5),
        ..Default::default()
    }
}

fn estimate(table: &Table, request: &EstimateRequest) -> Result<Estimate> {
    table.snapshot().unwrap().estimate(request)
}

fn narrow() -> Stop {
    Stop::Error(HalfWidth::Relative(1e-9))
}

/// The figures of some rows, as [`all_aggregates`] has them.
fn figures(rows: &[Row]) -> Vec<Option<f64>> {
    let mut xs: Vec<f64> = rows.iter().filter_map(|row| row.2).collect();
    let mut wholes: Vec<i64> = rows.iter().filter_map(|row| row.3).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.0).collect();
    xs.sort_unstable_by(f64::total_cmp);
    wholes.sort_unstable();
    let count = xs.len() as f64;
    let sum: f64 = xs.iter().sum();
    let whole: i128 = wholes.iter().map(|&whole| i128::from(whole)).sum();
    let mean = sum / count;
    let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = |numbers: &[f64], share: f64| {
        let place = share * (numbers.len() as f64 - 1.0);
        let at = |place: f64| numbers[place as usize];
        at(place.floor()) + (at(place.ceil()) - at(place.floor())) * place.fract()
    };
    let has = |number: f64| (!xs.is_empty()).then_some(number);
    let floats: Vec<f64> = wholes.iter().map(|&whole| whole as f64).collect();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    vec![
        Some(rows.len() as f64),
        Some(count),
        Some(names.len() as f64),
        has(mean),
        (!wholes.is_empty()).then_some(whole as f64),
        has(sum / whole as f64),
        has(variance),
        has(variance.sqrt()),
        (!xs.is_empty()).then(|| quantile(&xs, 0.9)),
        (!wholes.is_empty()).then(|| quantile(&floats, 0.5)),
        Some(different.len() as f64),
        xs.first().copied(),
        xs.last().copied(),
    ]
}

fn assert_figures(found: &Estimate, group: usize, expected: &[Option<f64>]) {
    let batch = found.to_batch();
    for (name, expected) in
        all_aggregates().map(|aggregate| aggregate.to_string()).iter().zip(expected)
    {
        let column = batch
            .column_by_name(name)
            .unwrap()
            .as_primitive::<drillcore::arrow_array::types::Float64Type>();
        let value = column.is_valid(group).then(|| column.value(group));
        match (value, expected) {
            (Some(value), Some(expected)) => {
                let off = 1e-12 * expected.abs().max(1.0);
                assert!((value - expected).abs() <= off, "{name}: {value}, not {expected}");
            }
            (value, expected) => assert_eq!(value, *expected, "{name}"),
        }
    }
}

/// Read or drawn to the last, over an append and an upsert table; by nothing, a set, and two columns.
#[test]
fn all_rows_give_the_figures_of_a_plain_computation() {
    let rows = 3_000;
    for merge in [Merge::Append, Merge::Upsert] {
        let (_folder, _db, table) = table(merge.clone(), rows);
        for stop in [narrow(), Stop::Rows(u64::MAX)] {
            let all: Vec<Row> = (0..rows).map(row).collect();
            let found = estimate(&table, &request(&all_aggregates(), &[], stop)).unwrap();
            assert!(found.exact, "{merge:?}, {stop:?}: {}", found.method);
            assert_figures(&found, 0, &figures(&all));
            for by in [&["name"][..], &["name", "kind"]] {
                let mut groups: BTreeMap<(Option<&str>, i64), Vec<Row>> = BTreeMap::new();
                for row in &all {
                    let kind = if by.len() == 2 { row.1 } else { 0 };
                    groups.entry((row.0, kind)).or_default().push(*row);
                }
                let found = estimate(&table, &request(&all_aggregates(), by, stop)).unwrap();
                assert!(found.exact);
                assert_eq!(found.groups.len(), by.len());
                assert_eq!(found.drawn.len(), groups.len());
                let names = found.groups[0].as_string::<i32>();
                for (at, ((name, kind), rows)) in groups.iter().enumerate() {
                    assert_eq!(names.is_valid(at).then(|| names.value(at)), *name);
                    if by.len() == 2 {
                        assert_eq!(found.groups[1].as_primitive::<Int64Type>().value(at), *kind);
                    }
                    assert_figures(&found, at, &figures(rows));
                }
            }
        }
    }
}

/// As in SQL: no values have no sum, but a count.
#[test]
fn no_rows_have_counts_and_nothing_else() {
    let (_folder, _db, table) = table(Merge::Append, 0);
    for stop in [narrow(), Stop::Rows(10)] {
        let found = estimate(&table, &request(&all_aggregates(), &[], stop)).unwrap();
        assert!(found.exact);
        let none = [Some(0.0), Some(0.0), Some(0.0)].into_iter().chain([None; 10]);
        let mut expected: Vec<Option<f64>> = none.collect();
        expected[10] = Some(0.0);
        assert_figures(&found, 0, &expected);
        assert_eq!(
            estimate(&table, &request(&all_aggregates(), &["kind"], stop)).unwrap().drawn.len(),
            0
        );
    }
}

/// A row of a rollup table is what its partial rows fold to.
#[test]
fn figures_of_a_rollup_table_are_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let columns = schema_of(&[("id", DataType::Int64, false), ("x", DataType::Float64, true)]);
    let metrics = vec![("n".into(), Metric::Count), ("x".into(), Metric::sum("x"))];
    let spec = TableSpec::new(columns.clone(), ["id"]).merge(Merge::Rollup(RollupSpec {
        granularity: Granularity::NONE,
        metrics,
        ..Default::default()
    }));
    let table = db.create_table("t", spec).unwrap();
    for part in 0..3 {
        let values: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..200)),
            Arc::new(Float64Array::from_iter_values((0..200).map(|id| f64::from(id * part)))),
        ];
        let batch = RecordBatch::try_new(columns.clone(), values).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }
    for stop in [narrow(), Stop::Rows(u64::MAX)] {
        let asked = [
            Aggregate::sum("x"),
            Aggregate::median("x"),
            Aggregate::max("x"),
            Aggregate::min("n"),
            Aggregate::distinct("n"),
            Aggregate::ratio("x", "n"),
        ];
        let found = estimate(&table, &request(&asked, &[], stop)).unwrap();
        // Each row is three times its id.
        let values: Vec<f64> =
            found.aggregates.iter().map(|each| each.intervals[0].value).collect();
        assert_eq!(values, [59_700.0, 298.5, 597.0, 3.0, 1.0, 99.5], "{stop:?}");
    }
    // What partial rows hold bounds no folded row.
    let error =
        estimate(&table, &request(&[Aggregate::max("x")], &[], Stop::Rows(10))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// From the bounds that pieces know, where these are of rows that count; else refused, and read with an error to stop at.
#[test]
fn extremes_are_exact_or_refused() {
    let (_folder, _db, append) = table(Merge::Append, 3_000);
    let (_other_folder, _other_db, upsert) = table(Merge::Upsert, 3_000);
    let xs: Vec<f64> = (0..3_000).filter_map(|id| row(id).2).collect();
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let found = estimate(&append, &request(&[Aggregate::min("x")], &[], Stop::Rows(10))).unwrap();
    assert_eq!(found.aggregates[0].intervals[0].value, least);
    assert!(found.exact && found.scanned == 0);
    // Of an upsert table the pieces know old rows too, and of groups they know nothing.
    for (table, by) in [(&upsert, &[][..]), (&append, &["kind"])] {
        let error =
            estimate(table, &request(&[Aggregate::min("x")], by, Stop::Rows(10))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("cannot be estimated from a sample") && text.contains("smaller"),
            "{text}"
        );
        let found = estimate(table, &request(&[Aggregate::min("x")], by, narrow())).unwrap();
        assert!(found.exact && found.aggregates[0].intervals[0].value >= least);
    }
}

/// A lower bound from a sample, without an upper end.
#[test]
fn different_values_of_a_sample_are_a_lower_bound() {
    let (_folder, _db, table) = table(Merge::Append, 3_000);
    let found =
        estimate(&table, &request(&[Aggregate::distinct("id")], &[], Stop::Rows(100))).unwrap();
    let interval = found.aggregates[0].intervals[0];
    assert_eq!((interval.value, interval.low), (100.0, 100.0));
    assert_eq!((interval.high, interval.method), (f64::INFINITY, Method::LowerBound));
    assert!(found.to_batch().column_by_name("distinct(id)_high").unwrap().is_null(0));
    assert!(found.notes[0].contains("a lower bound: "), "{:?}", found.notes);
    assert!(!found.exact);
}

/// One NaN among the numbers: as in SQL it is above all numbers, and no sum is one.
#[test]
fn a_nan_is_the_greatest_number() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let table = db.create_table("t", TableSpec::new(schema(), ["id"])).unwrap();
    let with_nan = |id: i64| (None, 0, Some(if id == 3 { -f64::NAN } else { id as f64 }), None);
    let ids: Vec<i64> = (0..101).collect();
    table.append(&batch(&ids, with_nan), OnError::Raise).unwrap();
    let asked = [
        Aggregate::median("x"),
        Aggregate::min("x"),
        Aggregate::max("x"),
        Aggregate::sum("x"),
        Aggregate::quantile("x", 1.0),
    ];
    for stop in [narrow(), Stop::Rows(1_000)] {
        let found = estimate(&table, &request(&asked, &[], stop)).unwrap();
        let values: Vec<f64> =
            found.aggregates.iter().map(|each| each.intervals[0].value).collect();
        assert_eq!(values[..2], [51.0, 0.0]);
        assert!(values[2..].iter().all(|value| value.is_nan()), "{values:?}");
        assert!(found.aggregates.iter().all(|each| each.has_value[0]), "they exist");
    }
}

/// Intervals of a sample, and at every look: they hold the truth with this seed, and name their method.
#[test]
fn each_figure_of_a_sample_has_its_method() {
    let (_folder, _db, table) = table(Merge::Append, 30_000);
    let all: Vec<Row> = (0..30_000).map(row).collect();
    let truths = figures(&all);
    let of_samples = [
        (3, "t", "bounded confidence sequence"),
        (4, "t", "bounded confidence sequence"),
        (5, "t", "bounded confidence sequence"),
        (6, "t", "bounded confidence sequence"),
        (7, "t", "bounded confidence sequence"),
        (1, "hypergeometric", "confidence sequence"),
        (8, "order statistics", "confidence sequence"),
    ];
    for (at, fixed, running) in of_samples {
        let aggregate = &all_aggregates()[at];
        let asked = request(slice::from_ref(aggregate), &[], Stop::Rows(3_000));
        let found = estimate(&table, &asked).unwrap();
        let interval = found.aggregates[0].intervals[0];
        assert_eq!(found.method, fixed, "{aggregate}");
        assert!(interval.contains(truths[at].unwrap()), "{aggregate}: {interval:?}");
        assert!(interval.half_width() < 0.3 * interval.value.abs().max(10.0), "{interval:?}");
        let mut looks = 0;
        let last = table.snapshot().unwrap().estimate_watched(&asked, &mut |look| {
            looks += 1;
            let interval = look.aggregates[0].intervals[0];
            assert!(interval.contains(truths[at].unwrap()), "{aggregate}: {interval:?}");
            ControlFlow::Continue(())
        });
        assert_eq!(last.unwrap().method, running, "{aggregate}");
        assert!(looks > 1);
    }
}

#[derive(Debug)]
struct WrongType;

impl Expression for WrongType {
    fn columns(&self) -> &[String] {
        &[]
    }

    fn data_type(&self) -> &DataType {
        &DataType::Int64
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        Ok(Arc::new(UInt64Array::from(vec![1; rows.num_rows()])))
    }
}

/// Prices are decimals in many tables, and were no numbers.
#[test]
fn decimals_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let columns =
        schema_of(&[("id", DataType::Int64, false), ("price", DataType::Decimal128(8, 2), true)]);
    let table = db.create_table("t", TableSpec::new(columns.clone(), ["id"])).unwrap();
    // Of 0.00 to 4.99, a tenth without.
    let cents = |id: i64| (id % 10 != 3).then_some(i128::from(id * 7 % 500));
    for part in [0..2_000, 2_000..3_000] {
        let prices: Decimal128Array = part.clone().map(cents).collect();
        let prices = prices.with_precision_and_scale(8, 2).unwrap();
        let arrays: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from_iter_values(part)), Arc::new(prices)];
        let rows = RecordBatch::try_new(columns.clone(), arrays).unwrap();
        table.append(&rows, OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    let held: Vec<f64> = (0..3_000).filter_map(cents).map(|cents| cents as f64 / 100.0).collect();
    let (count, sum) = (held.len() as f64, held.iter().sum::<f64>());
    let of = [
        (Aggregate::avg("price"), sum / count),
        (Aggregate::sum("price"), sum),
        (Aggregate::values("price"), count),
        (Aggregate::min("price"), 0.0),
        (Aggregate::max("price"), 4.99),
        (Aggregate::ratio("price", "id"), f64::NAN),
    ];
    let aggregates = of.clone().map(|(aggregate, _)| aggregate);
    let whole = estimate(&table, &request(&aggregates, &[], Stop::Rows(3_000))).unwrap();
    for ((aggregate, expected), found) in of.iter().zip(&whole.aggregates) {
        let value = found.intervals[0].value;
        let is_close = (value - expected).abs() < 1e-9 * expected.abs().max(1.0);
        assert!(is_close || expected.is_nan() && value > 0.0, "{aggregate:?}: {value}");
    }
    let few = estimate(&table, &request(&aggregates[..2], &[], Stop::Rows(30))).unwrap();
    let mean = few.aggregates[0].intervals[0];
    assert!(mean.contains(sum / count) && 0.0 <= mean.low && mean.high <= 4.99, "{mean:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let (_folder, _db, table) = table(Merge::Append, 300);
    let refuses = |request: &EstimateRequest, part: &str| {
        let error = estimate(&table, request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let rows = Stop::Rows(10);
    refuses(&request(&[Aggregate::sum("name")], &[], rows), "sum needs numbers");
    refuses(&request(&[Aggregate::ratio("x", "name")], &[], rows), "ratio needs numbers");
    let quantile = vec![("q".to_string(), Aggregate::quantile("x", 1.5))];
    let outside =
        EstimateRequest { aggregates: quantile, ..request(&[Aggregate::Count], &[], rows) };
    refuses(&outside, "from 0 to 1");
    refuses(&request(&[Aggregate::Count, Aggregate::Count], &[], rows), "two columns");
    refuses(&request(&[Aggregate::Count], &["kind", "kind"], rows), "two columns");
    let wrong = EstimateRequest {
        aggregates: vec![("sum".into(), Aggregate::sum("wrong"))],
        computed: vec![Computed { name: "wrong".into(), expression: Arc::new(WrongType) }],
        ..request(&[Aggregate::Count], &[], rows)
    };
    refuses(&wrong, "one per row, of type int64");
}
