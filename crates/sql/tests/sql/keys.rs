//! Sorts, windows and ordered aggregates whose keys are computed.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;
use drillcore_sql::QueryOptions;

use crate::fixtures::*;

const ROWS: i64 = 3_000;

/// `t`, of numbers, floats, decimals and texts, of which some are null.
fn database() -> Database {
    let of = |k: i64, n: i64| (k % 11 != 0).then_some(k * 7_919 % n);
    let i: Int64Array = (0..ROWS).map(|k| of(k, 13)).collect();
    let h: Float64Array = (0..ROWS).map(|k| Some(of(k, 40)? as f64 / 4.0 - 4.0)).collect();
    let d: Decimal128Array = (0..ROWS).map(|k| of(k, 300).map(i128::from)).collect();
    let s: StringArray = (0..ROWS).map(|k| Some("x".repeat(of(k, 5)? as usize))).collect();
    database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..ROWS)), false),
        ("i", Arc::new(i), true),
        ("h", Arc::new(h), true),
        ("d", Arc::new(d.with_precision_and_scale(18, 2).unwrap()), true),
        ("s", Arc::new(s), true),
    ]))
}

/// Has several threads read even small tables.
fn options(threads: usize) -> QueryOptions {
    QueryOptions { threads: Some(threads), partition_rows: Some(1_000), ..Default::default() }
}

fn batches(db: &Database, text: &str, threads: usize) -> Vec<RecordBatch> {
    run_with(db, text, &options(threads))
}

const KEYS: [&str; 19] = [
    "sqrt(abs(h))",
    "ln(abs(h) + 1)",
    "acos(h / 100)",
    "length(s) < 3",
    "upper(s) < 'XX'",
    "coalesce(i, 3) < 5",
    "case when i > 4 then 1 else k end",
    "case when i > 4 then 1 else k end > 7",
    "h + 1.5 < 3.0",
    "d < 1.3e0",
    "d not between 0.5e0 and 1.5e0",
    "i * 3 - 7",
    "-i",
    "abs(i) + k",
    "i in (1, 3)",
    "s is null",
    "s || 'y'",
    "cast(h as bigint)",
    "h",
];

/// Most of these plans were refused by DataFusion itself, and windows by computed whole numbers were not even planned.
#[test]
fn rows_are_in_the_order_of_computed_keys() {
    let db = database();
    for key in KEYS {
        for (way, filter) in [("", "true"), ("desc", "k % 3 = 1"), ("nulls first", "s <> 'xx'")] {
            // Ranks are given in one stream of rows, whose keys are columns.
            let ranked = format!(
                "select k, cast(rank() over (order by c {way}, k) as bigint) \
                 from (select k, {key} as c from t where {filter})"
            );
            let found = batches(&db, &ranked, 1);
            let mut expected: Vec<(i64, i64)> =
                numbers_in(&found, 1).into_iter().zip(numbers_in(&found, 0)).collect();
            expected.sort();
            let expected: Vec<i64> = expected.into_iter().map(|(_, k)| k).collect();
            assert!(expected.len() > 500);
            let rows = format!("from t where {filter}");
            for (text, column) in [
                (format!("select k {rows} order by {key} {way}, k"), 0),
                (format!("select k, {key} as c {rows} order by c {way}, k"), 0),
                (
                    format!(
                        "select k, cast(row_number() over (order by {key} {way}, k) as bigint) as n {rows} order by n"
                    ),
                    0,
                ),
                (format!("select unnest(array_agg(k order by {key} {way}, k)) {rows}"), 0),
            ] {
                for threads in [1, 3] {
                    let found = numbers_in(&batches(&db, &text, threads), column);
                    assert!(found == expected, "{text}\n on {threads} threads");
                }
            }
            let first = format!("select k {rows} order by {key} {way}, k limit 7");
            assert_eq!(numbers_in(&batches(&db, &first, 3), 0), expected[..7], "{first}");
        }
    }
}

#[test]
fn windows_may_compute_all_their_parts() {
    let db = database();
    let is_long = std::env::var_os("DRILLCORE_LONG").is_some();
    for (part_at, part) in KEYS.into_iter().enumerate() {
        for (key_at, key) in KEYS.into_iter().enumerate() {
            // Each is seen in six pairs or more at both places in any case.
            if !is_long && (part_at + key_at) % 3 > 0 {
                continue;
            }
            // The same, from columns that are computed before.
            let apart = format!(
                "select k, count(*) over (partition by p order by c, k) as n, \
                 count(*) filter (where f) over (partition by p) as m \
                 from (select k, {part} as p, {key} as c, i * 3 > 9 as f from t) order by k"
            );
            let at_once = format!(
                "select k, count(*) over (partition by {part} order by {key}, k) as n, \
                 count(*) filter (where i * 3 > 9) over (partition by {part}) as m from t order by k"
            );
            let (apart, at_once) = (batches(&db, &apart, 1), batches(&db, &at_once, 3));
            for column in 0..3 {
                let (expected, found) = (numbers_in(&apart, column), numbers_in(&at_once, column));
                assert!(found == expected, "partition by {part} order by {key}, column {column}");
            }
        }
    }
}

#[test]
fn columns_of_windows_are_called_what_they_are_called() {
    let db = database();
    let text = "select rank() over (partition by i + 1 order by k * 3, sqrt(abs(h)), s) from t";
    assert_eq!(
        batches(&db, text, 3)[0].schema().field(0).name(),
        "rank() PARTITION BY [t.i + Int64(1)] ORDER BY [t.k * Int64(3) ASC NULLS LAST, \
         sqrt(abs(t.h)) ASC NULLS LAST, t.s ASC NULLS LAST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    );
}

/// A shuffle is `order by random()`. Sorted by threads and merged by other random numbers, it took half of its first
/// rows from each thread, however few rows that had.
///
/// Null hypothesis: each row is as likely as any other to be among the first ten. Of 10 rows of the first 1,000 and
/// 1,000 of the last, 10 are shown 40 times, so that 4 of the first kind are expected, and more than 24 come with a
/// chance below 1e-10. The fault gave about 200.
#[test]
fn a_shuffle_favours_no_thread() {
    let db = database();
    let text =
        "select k from t where k >= 2000 or (k < 1000 and k % 100 = 0) order by random() limit 10";
    let shown = (0..40).flat_map(|_| numbers_in(&batches(&db, text, 3), 0));
    let early = shown.filter(|&k| k < 1000).count();
    assert!(early <= 24, "{early} of 400 are of the first rows");
}
