//! Percentiles: linear between the two values around them, to the last digit.

use std::sync::Arc;

use drillcore::Database;
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::{Float32Type, Float64Type};
use drillcore::arrow_array::{Float32Array, Float64Array, Int64Array, RecordBatch};
use drillcore_sql::QueryOptions;

use crate::fixtures::*;

/// 0, 1e9 and 3e9 in group 0, infinities in group 1, nothing in group 2.
fn database() -> Database {
    let infinity = f64::INFINITY;
    let wide = [Some(1e9), Some(0.0), Some(3e9), Some(infinity), Some(-infinity), None];
    let narrow: Float32Array = wide.iter().map(|value| value.map(|value| value as f32)).collect();
    database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..6)), false),
        ("g", Arc::new(Int64Array::from(vec![0, 0, 0, 1, 1, 2])), false),
        ("x", Arc::new(Float64Array::from(wide.to_vec())), true),
        ("f", Arc::new(narrow), true),
        ("i", Arc::new(Int64Array::from(vec![10, 0, 0, 10, 0, 10])), true),
    ]))
}

fn floats(batches: &[RecordBatch]) -> Vec<Option<f64>> {
    let of_batch = |batch: &RecordBatch| -> Vec<Option<f64>> {
        match batch.column(0).as_primitive_opt::<Float64Type>() {
            Some(floats) => floats.iter().collect(),
            None => {
                let floats = batch.column(0).as_primitive::<Float32Type>();
                floats.iter().map(|float| float.map(f64::from)).collect()
            }
        }
    };
    batches.iter().flat_map(of_batch).collect()
}

#[test]
fn a_percentile_between_two_values_is_exact() {
    let db = database();
    let check = |query: &str, expected: &[Option<f64>]| {
        assert_eq!(floats(&run(&db, query)), expected, "{query}");
    };
    let third = 1.0 / 3.0;
    let at_third = Some(1e9 * (third * 2.0));
    check(
        "select percentile_cont(0.3333333333333333) within group (order by x) from t where g = 0",
        &[at_third],
    );
    check("select quantile_cont(x, 0.3333333333333333) from t where g = 0", &[at_third]);
    check(
        "select percentile_cont(0.6666666666666667) within group (order by x desc) from t where g = 0",
        &[Some(1e9 * ((1.0 - 0.6666666666666667) * 2.0))],
    );
    check(
        "select percentile_cont(0.3333333333333333) within group (order by f) from t where g = 0",
        &[Some(f64::from((1e9 * (third * 2.0)) as f32))],
    );
    // 0, 0 and 10, or 0 and 10 without repetition.
    check(
        "select percentile_cont(0.75) within group (order by i) from t where g = 0",
        &[Some(5.0)],
    );
    check("select percentile_cont(distinct i, 0.75) from t where g = 0", &[Some(7.5)]);
    check(
        "select percentile_cont(0.75) within group (order by i) filter (where i > 0) from t",
        &[Some(10.0)],
    );
    check("select percentile_cont(0.5) within group (order by x) from t where g = 2", &[None]);
    check("select percentile_cont(0.5) within group (order by x) from t where g = 3", &[None]);
}

#[test]
fn percentiles_of_groups_and_of_windows_are_those_of_their_rows() {
    let db = database();
    let infinity = Some(f64::INFINITY);
    let of_groups = |percentile: &str| {
        let aggregate = format!("percentile_cont({percentile}) within group (order by x)");
        floats(&run(&db, &format!("select {aggregate} from t group by g order by g")))
    };
    assert_eq!(of_groups("0"), [Some(0.0), Some(f64::NEG_INFINITY), None]);
    assert_eq!(of_groups("1"), [Some(3e9), infinity, None]);
    // As far from one as from the other, by any share.
    assert_eq!(format!("{:?}", of_groups("0.75")), "[Some(2000000000.0), Some(NaN), None]");
    let windows = "select percentile_cont(x, 0.25) over (order by k rows between 1 preceding and current row) from t
        where g = 0 order by k";
    assert_eq!(floats(&run(&db, windows)), [Some(1e9), Some(0.25e9), Some(0.75e9)]);
    let windows = "select percentile_cont(x, 0.25) over (order by k) from t where g = 0 order by k";
    assert_eq!(floats(&run(&db, windows)), [Some(1e9), Some(0.25e9), Some(0.5e9)]);
}

#[test]
fn a_median_lies_between_two_values_however_large_they_are() {
    let (wide, narrow) = (1.7e308, 3e38_f32);
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..2)), false),
        ("x", Arc::new(Float64Array::from(vec![wide; 2])), false),
        ("f", Arc::new(Float32Array::from(vec![narrow; 2])), false),
        ("i", Arc::new(Int64Array::from(vec![1, 2])), false),
    ]));
    for (column, expected) in [("x", wide), ("f", narrow.into()), ("i", 1.5), ("distinct i", 1.5)] {
        for groups in ["", "group by k / 2"] {
            let query = format!("select median({column}) from t {groups}");
            assert_eq!(floats(&run(&db, &query)), [Some(expected)], "{query}");
        }
    }
    let ends = format!("select median(x) from (values (-{wide:?}), ({wide:?})) v(x)");
    assert_eq!(floats(&run(&db, &ends)), [Some(0.0)]);
    for (query, expected) in [
        ("select median(x) from (values (-1e16), (10000000000000002.0)) v(x)", 1.0),
        ("select median(x) from (values (-9007199254740992), (9007199254740991)) v(x)", -0.5),
        ("select percentile_cont(x, 0.25) from (values (-1e16), (30000000000000008.0)) v(x)", 2.0),
        (
            "select percentile_cont(x, 0.25) from (values (cast('-inf' as double)), (-1.0)) v(x)",
            f64::NEG_INFINITY,
        ),
        (
            "select cast(median(arrow_cast(x, 'Float16')) as double) from (values (60000), (60000)) v(x)",
            60_000.0,
        ),
    ] {
        assert_eq!(floats(&run(&db, query)), [Some(expected)], "{query}");
    }
    let decimals =
        "select cast(median(d) as double) from (values (cast(1.5 as decimal(3, 1))), (2.5)) v(d)";
    assert_eq!(floats(&run(&db, decimals)), [Some(2.0)]);
}

/// Enough groups for threads to hand on their rows as they are.
#[test]
fn each_row_may_be_a_group_of_its_own() {
    let rows: i64 = 300_000;
    // In another order than the keys'.
    let groups = || (0..rows).map(|row| row * 7_919 % rows);
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..rows)), false),
        ("g", Arc::new(Int64Array::from_iter_values(groups())), false),
        ("x", Arc::new(Float64Array::from_iter_values(groups().map(|group| group as f64))), false),
    ]));
    for percentile in ["0.5", "0"] {
        let query = format!(
            "select count(*) from (
            select g, percentile_cont({percentile}) within group (order by x) as half from t group by g) where half = g"
        );
        for threads in [1, 4] {
            let options = QueryOptions { threads: Some(threads), ..QueryOptions::default() };
            assert_eq!(numbers(&run_with(&db, &query, &options)), [rows]);
        }
    }
}
