//! Rollups, cubes and what is grouped or kept once by them.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;

use crate::fixtures::*;

fn database() -> Database {
    database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..4)), false),
        ("g", Arc::new(StringArray::from(vec!["a", "b", "b", "a"])), true),
        ("x", Arc::new(Int64Array::from(vec![Some(1), None, Some(2), Some(1)])), true),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])), true),
    ]))
}

/// Planning refused them, or ended in an internal error.
#[test]
fn rollups_and_cubes_may_have_a_value_twice_and_compute_it() {
    let db = database();
    for (groups, expected) in [
        // Groups of the whole, then of each rollup step.
        ("rollup (g, g)", vec![2, 2, 2, 2, 4]),
        ("rollup (g, x)", vec![1, 1, 2, 2, 2, 4]),
        ("cube (g, g)", vec![2, 2, 2, 2, 2, 2, 4]),
        ("rollup ((g, x), g)", vec![1, 1, 1, 1, 2, 2, 4]),
        ("cube ((g, x))", vec![1, 1, 2, 4]),
        ("g, rollup (g, g)", vec![2; 6]),
        ("rollup (x in (1, null))", vec![2, 2, 4]),
        ("cube (x in (1, null), g)", vec![2, 2, 2, 2, 2, 2, 4]),
        ("rollup (b is true)", vec![2, 2, 4]),
    ] {
        let query = format!("select count(*) as n from t group by {groups} order by n");
        assert_eq!(numbers(&run(&db, &query)), expected, "{query}");
    }
}

/// The plan had it that what is asked of a condition is never null, and the operators that it may be.
#[test]
fn what_is_true_of_a_condition_may_be_kept_once() {
    let db = database();
    for (test, trues) in [
        ("b is true", 2),
        ("b is not true", 2),
        ("b is false", 1),
        ("b is not false", 3),
        ("b is unknown", 1),
        ("b is not unknown", 3),
        ("(x > 1) is true", 1),
        ("(x > 1) is unknown", 1),
        ("coalesce(b, true)", 3),
    ] {
        assert_eq!(numbers(&run(&db, &format!("select count(*) from t where {test}"))), [trues]);
        let distinct = format!("select count(*) from (select distinct {test} as c from t)");
        assert_eq!(numbers(&run(&db, &distinct)), [2], "{test}");
        let union =
            format!("select count(*) from (select {test} as c from t union select {test} from t)");
        assert_eq!(numbers(&run(&db, &union)), [2], "{test}");
        let on = format!(
            "select count(*) from (select distinct on ({test}) k from t order by {test}, k)"
        );
        assert_eq!(numbers(&run(&db, &on)), [2], "{test}");
        let named = format!("select {test} from t limit 1");
        assert!(!run(&db, &named)[0].schema().field(0).name().contains("DISTINCT"), "{test}");
    }
}
