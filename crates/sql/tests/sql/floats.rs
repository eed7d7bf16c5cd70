//! Floats in SQL: one NaN, above all numbers, and one zero, wherever they come from.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Float32Type, Float64Type, Int64Type};
use drillcore::arrow_array::*;
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate, query};

use crate::fixtures::run_with;

/// A NaN with its sign set, as x86 computes it, one with a payload, and the zeros and infinities.
const FLOATS: [u64; 9] = [
    0xfff8 << 48,
    0x7ff8 << 48,
    (0x7ff8 << 48) | 0x123,
    1 << 63,
    0,
    0x7ff0 << 48,
    0xfff0 << 48,
    0x3ff0 << 48,
    0xbff0 << 48,
];

/// A table of these floats, in 64 and 32 bits, with integers, found by its first column.
fn database(first: &str, set: Option<&str>) -> Database {
    let mut columns = vec![
        Field::new("k", DataType::Int64, false),
        Field::new("f", DataType::Float64, true),
        Field::new("g", DataType::Float32, true),
        Field::new("i", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ];
    let floats: Vec<f64> = FLOATS.map(f64::from_bits).to_vec();
    // Bits of the sign and the payload, which a cast of the value need not keep.
    let narrow = |bits: u64| {
        f32::from_bits(
            ((bits >> 32) as u32 & 1 << 31) | (f64::from_bits(bits).abs() as f32).to_bits(),
        )
    };
    let narrow: Float32Array =
        FLOATS.iter().map(|&bits| Some(narrow(bits))).chain([None]).collect();
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..10)),
        Arc::new(floats.iter().map(|&float| Some(float)).chain([None]).collect::<Float64Array>()),
        Arc::new(narrow),
        Arc::new((0..10).map(|i| (i < 9).then_some(i % 3)).collect::<Int64Array>()),
        Arc::new((0..10).map(|i| Some(["", "a"][i % 2])).collect::<StringArray>()),
    ];
    let at = columns.iter().position(|field| field.name() == first).unwrap();
    columns.swap(0, at);
    arrays.swap(0, at);
    let db = Database::in_memory(Options::default()).unwrap();
    let spec = TableSpec {
        set: set.map(str::to_string),
        ..TableSpec::new(Arc::new(Schema::new(columns)), [first])
    };
    let rows = RecordBatch::try_new(spec.columns.clone(), arrays).unwrap();
    let table = db.create_table("t", spec).unwrap();
    table.append(&rows.slice(0, 6), OnError::Raise).unwrap();
    db.flush().unwrap();
    table.append(&rows.slice(6, 4), OnError::Raise).unwrap();
    db
}

fn databases() -> [Database; 4] {
    [("k", None), ("f", Some("g")), ("g", Some("s")), ("i", Some("f"))]
        .map(|(first, set)| database(first, set))
}

fn run(db: &Database, text: &str) -> Vec<RecordBatch> {
    let options = QueryOptions { threads: Some(2), ..Default::default() };
    run_with(db, text, &options)
}

/// The rows of a column of integers, nulls left out, in order.
fn keys(batches: &[RecordBatch]) -> Vec<i64> {
    let of_batch = |batch: &RecordBatch| -> Vec<i64> {
        batch.column(0).as_primitive::<Int64Type>().iter().flatten().collect()
    };
    let mut keys: Vec<i64> = batches.iter().flat_map(of_batch).collect();
    keys.sort_unstable();
    keys
}

/// The keys of the rows that meet a condition, as a query finds them and as reads of the table do.
fn where_(db: &Database, condition: &str) -> Vec<i64> {
    let found = keys(&run(db, &format!("select k from t where {condition}")));
    let table = db.table("t").unwrap().snapshot().unwrap();
    let predicate = Some(predicate(&table.schema(), condition).unwrap());
    let selection = Selection { predicate, ..Default::default() };
    let request = ScanRequest {
        selection: selection.clone(),
        columns: Some(vec!["k".into()]),
        ..Default::default()
    };
    let scanned: Vec<RecordBatch> = table.scan(request).unwrap().map(Result::unwrap).collect();
    assert_eq!(keys(&scanned), found, "a scan where {condition}");
    assert_eq!(table.count(&selection).unwrap(), found.len() as u64, "a count where {condition}");
    // Worked out for each row, above the scan.
    let shown = keys(&run(db, &format!("select case when {condition} then k end from t")));
    assert_eq!(shown, found, "{condition} for each row");
    found
}

const NANS: [i64; 3] = [0, 1, 2];
const ZEROS: [i64; 2] = [3, 4];

#[test]
fn all_nans_are_one_and_above_all_numbers_and_so_are_both_zeros() {
    for db in databases() {
        for column in ["f", "g"] {
            let nan = [
                "cast('nan' as double)",
                "(0.0 / 0.0)",
                "-(0.0 / 0.0)",
                "(1.0 / 0.0 - 1.0 / 0.0)",
                "cast('-nan' as float)",
            ];
            let check = |condition: &str, expected: &[i64]| {
                let condition = condition.replace('F', column);
                assert_eq!(where_(&db, &condition), expected, "{condition}");
            };
            check("F < 0", &[6, 8]);
            check("F <= 0", &[3, 4, 6, 8]);
            check("F > 1", &[0, 1, 2, 5]);
            check("F >= 0.0", &[0, 1, 2, 3, 4, 5, 7]);
            check("F = -0.0", &ZEROS);
            check("F <> 0", &[0, 1, 2, 5, 6, 7, 8]);
            check("F is distinct from -0.0 and F <= 0", &[6, 8]);
            check("F between -0.0 and 0.0", &ZEROS);
            check("F - F = 0", &[3, 4, 7, 8]);
            check("F * 0 = 0", &[3, 4, 7, 8]);
            check("F / F = 1", &[7, 8]);
            check("F / F > 1", &[0, 1, 2, 3, 4, 5, 6]);
            for nan in nan {
                check(&format!("F = {nan}"), &NANS);
                check(&format!("F < {nan}"), &[3, 4, 5, 6, 7, 8]);
                check(&format!("F in (1.0, {nan})"), &[0, 1, 2, 7]);
                check(&format!("F not in ({nan}, 0)"), &[5, 6, 7, 8]);
                check(&format!("F is not distinct from {nan}"), &NANS);
                check(&format!("case F when {nan} then true end"), &NANS);
            }
        }
    }
}

#[test]
fn lists_of_every_length_know_both_zeros() {
    // About the lengths from which on a list is tested in another way.
    let lens = [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 39];
    for db in databases() {
        for len in lens {
            for zero in ["0.0", "-0.0"] {
                let others: Vec<String> = (1..len).map(|i| format!("{}.0", i + 6)).collect();
                let list = [&[zero.to_string()], &others[..]].concat().join(", ");
                for column in ["f", "g"] {
                    assert_eq!(where_(&db, &format!("{column} in ({list})")), ZEROS, "{list}");
                    let not = where_(&db, &format!("{column} not in ({list})"));
                    assert_eq!(not, [0, 1, 2, 5, 6, 7, 8], "{list}");
                    let when = format!(
                        "case {column} when {} then true else false end",
                        list.replace(", ", " then true when ")
                    );
                    assert_eq!(where_(&db, &when), ZEROS, "{when}");
                }
                assert_eq!(where_(&db, &format!("i in ({list})")), [0, 3, 6], "{list}");
                assert_eq!(
                    where_(&db, &format!("i not in ({list})")),
                    [1, 2, 4, 5, 7, 8],
                    "{list}"
                );
            }
        }
    }
}

#[test]
fn groups_sorts_joins_and_windows_know_one_nan_and_one_zero() {
    for db in databases() {
        for column in [
            "f",
            "g",
            "-f",
            "f * 1",
            "f + g",
            "cast(g as double)",
            "[f]",
            "struct(g)",
            "case when k > 3 then g else -f end",
        ] {
            // NaN, zero, two infinities, two ones and null; what is computed has no more.
            let number = |text: String| keys(&run(&db, &text))[0];
            let distinct =
                number(format!("select count(*) from (select distinct {column} x from t)"));
            assert_eq!(distinct, 7, "{column}");
            let groups = number(format!(
                "select count(*) from (select {column} x, count(*) from t group by 1)"
            ));
            assert_eq!(groups, 7, "{column}");
            if !column.starts_with(['[', 's']) {
                assert_eq!(
                    number(format!("select count(distinct {column}) from t")),
                    6,
                    "{column}"
                );
                let sorted = run(
                    &db,
                    &format!("select k from t order by {column} desc nulls last, k limit 3"),
                );
                assert_eq!(keys(&sorted), NANS, "{column}");
            }
            let joined = number(format!(
                "select count(*) from (select {column} x from t) a join (select {column} y from t) b on x = y"
            ));
            // A list of a null equals another.
            let nested = i64::from(column.starts_with(['[', 's']));
            assert_eq!(joined, 9 + 4 + 4 + nested, "{column}");
            let parts =
                format!("select count(*) over (partition by {column}) n, {column} x from t");
            assert_eq!(number(format!("select max(n) from ({parts})")), 3, "{column}");
            let peers =
                format!("select rank() over (order by {column}) n from t where k in (3, 4)");
            // DataFusion has no ranges of structs.
            if !column.starts_with("struct") {
                let ranks = number(format!("select cast(max(n) as bigint) from ({peers})"));
                assert_eq!(ranks, 1, "{column}");
            }
            let union =
                format!("select {column} x from t union select {column} from t where k < 4");
            assert_eq!(number(format!("select count(*) from ({union})")), 7, "{column}");
            let except =
                format!("select {column} x from t except select {column} from t where k in (1, 3)");
            assert_eq!(number(format!("select count(*) from ({except})")), 5, "{column}");
        }
    }
}

#[test]
fn whatever_computes_a_nan_gives_the_one() {
    let db = database("k", None);
    let infinite = "(select * from t where k in (5, 6))";
    let texts = [
        "select 0.0 / 0.0",
        "select -(0.0 / 0.0)",
        "select -cast('nan' as double)",
        "select cast('-nan' as double)",
        "select cast('-nan' as float)",
        "select try_cast('-nan' as double)",
        "select arrow_cast('-nan', 'Float64')",
        "select 5.0 % 0.0",
        "select x - x from (select f x from t where k = 6)",
        "select x * 0 from (select f x from t where k = 5)",
        "select x / x from (select g x from t where k = 5)",
        "select -x from (select g x from t where k = 0)",
        "select coalesce(-x, 0) from (select f x from t where k = 1)",
        "select greatest(-f, 1) from t where k = 1",
        "select unnest([-f]) from t where k = 1",
        "select [-f][1] from t where k = 1",
        "select named_struct('x', -f)['x'] from t where k = 1",
        "select cast(arrow_cast('-nan', 'Float16') as double)",
        "select (select -f from t where k = 1)",
        "select column1 from (values (0.0 / 0.0))",
        &format!("select sum(f) from {infinite}"),
        &format!("select avg(f) from {infinite}"),
        &format!("select avg(-g) from {infinite}"),
        &format!("select sum(f) x from {infinite} group by i % 1"),
        &format!("select stddev(f) from {infinite}"),
        &format!("select var_pop(f) from {infinite}"),
        &format!("select median(f) from {infinite}"),
        &format!("select (select avg(f) from {infinite})"),
        &format!("select sum(f) over () from {infinite}"),
        &format!(
            "select avg(f) over (order by k rows between unbounded preceding and unbounded following) from {infinite}"
        ),
        &format!("select max(x) from (select avg(f) x from {infinite})"),
        &format!("with w as (select avg(f) x from {infinite}) select x from w"),
        "select -f from t where k < 3",
        "select f from t where k < 3",
        "select distinct f from t where k < 3",
        "select max(f) from t",
        "select lag(f) over (order by k) from t where k < 3 order by k offset 1",
    ];
    for text in texts {
        let mut rows = 0;
        for batch in run(&db, text) {
            rows += batch.num_rows();
            let column = batch.column(0);
            let nans = match column.as_primitive_opt::<Float32Type>() {
                Some(floats) => {
                    floats.iter().all(|value| value.unwrap().to_bits() == f32::NAN.to_bits())
                }
                None => {
                    let floats = column.as_primitive::<Float64Type>();
                    floats.iter().all(|value| value.unwrap().to_bits() == f64::NAN.to_bits())
                }
            };
            assert!(nans, "{text} is {column:?}");
        }
        assert!(rows > 0, "{text}");
    }
}

#[test]
fn columns_keep_their_names() {
    let db = database("k", None);
    let names = |text: &str| -> Vec<String> {
        let found = query(&db.snapshot().unwrap(), text, &QueryOptions::default()).unwrap();
        found.schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(
        names("select f / g, -f, -0.0, avg(f), sum(g) + 1.5 from t group by 1, 2"),
        ["t.f / t.g", "(- t.f)", "Float64(-0)", "avg(t.f)", "sum(t.g) + Float64(1.5)",]
    );
    assert_eq!(
        names("select * from (select -0.0, f / 2 from t)"),
        ["Float64(-0)", "t.f / Int64(2)"]
    );
    assert_eq!(names("select avg(f) over (order by k) from t").len(), 1);
}
