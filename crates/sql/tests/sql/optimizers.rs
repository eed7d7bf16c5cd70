//! Queries that the optimizers answered wrongly, or refused, because of how their parts were moved, named or left out.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Float64Type;
use drillcore::arrow_array::*;
use drillcore::*;

use crate::fixtures::*;
use crate::query::refused;

/// Tables `a` and `b` of two rows each.
fn database() -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    for name in ["a", "b"] {
        let rows = rows_of([
            ("k", Arc::new(Int64Array::from(vec![1, 2])), false),
            ("j", Arc::new(Int64Array::from(vec![3, 4])), true),
            ("s", Arc::new(StringArray::from(vec!["x", "y"])), true),
        ]);
        add_table(&db, name, &rows);
    }
    db
}

fn rows(db: &Database, query: &str) -> usize {
    run(db, query).iter().map(RecordBatch::num_rows).sum()
}

/// A condition without a column was moved below the aggregate, which has a row of no rows, too.
#[test]
fn a_constant_condition_leaves_out_the_total_and_does_not_make_it_zero() {
    let db = database();
    let tagged = "select * from (select 'a' as src, count(*) as n from a union all \
                  select 'b', count(*) from b) x where src = 'a'";
    assert_eq!(texts(&run(&db, tagged), 0).trim(), "a");
    for (query, expected) in [
        ("select * from (select count(*) as n, 1 as c from a) x where c = 2", 0),
        ("select * from (select count(*) as n, 1 as c from a) x where c = 1", 1),
        ("select count(*) as n from a having (select max(k) from b) > 100", 0),
        ("select count(*) as n from a having (select max(k) from b) < 100", 1),
        ("select k, count(*) from a group by rollup (k) having (select max(k) from b) > 100", 0),
        ("select k, count(*) from a group by rollup (k) having (select max(k) from b) < 100", 3),
        ("select * from (select k, count(*) as n from a group by rollup (k)) x where k = 1", 1),
        ("select b.k from b left anti join (select count(*) as n from a) x on false", 2),
    ] {
        assert_eq!(rows(&db, query), expected, "{query}");
    }
    let outer =
        "select count(a.n), count(*) from b left join (select count(*) as n from a) a on false";
    assert_eq!((numbers(&run(&db, outer)), numbers_in(&run(&db, outer), 1)), (vec![0], vec![2]));
}

/// Each part of the union kept its first rows by the other columns alone, and took the bound of the others.
#[test]
fn the_first_rows_of_a_union_are_those_by_all_its_columns() {
    let db = database();
    let union = "(select k, 'b' as s from a union all select k, 'a' from b) x";
    for order in ["s, k", "s, k desc", "s desc, k"] {
        let first = texts(&run(&db, &format!("select s from {union} order by {order} limit 1")), 0);
        let expected = if order.starts_with("s desc") { "b" } else { "a" };
        assert_eq!(first.trim(), expected, "{order}");
    }
}

#[test]
fn the_first_groups_know_nan() {
    let db = database_of(&rows_of([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4])), false),
        ("f", Arc::new(Float64Array::from(vec![f64::NAN, 0.5, f64::NAN, 1.5])), true),
    ]));
    let floats = |query: &str| -> Vec<f64> {
        let batches = run(&db, query);
        let of_batch =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Float64Type>().values().to_vec();
        batches.iter().flat_map(of_batch).collect()
    };
    assert_eq!(floats("select distinct f from t order by 1 limit 1"), [0.5]);
    let last = floats("select distinct f from t order by 1 desc limit 2");
    assert!(last[0].is_nan() && last[1] == 1.5, "{last:?}");
    let least = "select min(f) from t group by id % 2 order by 1 limit 1";
    assert_eq!(floats(least), [0.5]);
}

/// The part that is left gave the columns by the names of the first.
#[test]
fn parts_of_a_union_have_their_columns_by_position() {
    let db = database();
    for query in [
        "select k as x, j as y from a where false union all select distinct j as y, k as x from b",
        "select k, j from a where false union all select distinct j, k from b",
        "select x, y from (select k as x, j as y from a limit 0) a union all \
         (select j, k from b order by k limit 2)",
    ] {
        let batches = run(&db, query);
        let mut found: Vec<(i64, i64)> =
            numbers(&batches).into_iter().zip(numbers_in(&batches, 1)).collect();
        found.sort();
        assert_eq!(found, [(3, 1), (4, 2)], "{query}");
    }
}

#[test]
fn a_value_and_its_cast_may_stand_in_one_query() {
    let db = database();
    for (query, expected) in [
        ("select max(cast(k as double)) as x, max(k) as y from a", 1),
        ("select cast(j as double) as f, j as i, count(*) as n from a group by 1, 2", 2),
        (
            "select cast(k as int) as x, cast(k as double) as y, count(*) as n from a group by 1, 2",
            2,
        ),
        ("select try_cast(k as double) as x, k as y, count(*) as n from a group by 1, 2", 2),
        ("select max(cast(k as double)) as x from a having max(k) > 0", 1),
        (
            "select sum(k) over (order by k) as x, sum(cast(k as int)) over (order by k) as y from a",
            2,
        ),
    ] {
        assert_eq!(rows(&db, query), expected, "{query}");
    }
    let batches = run(&db, "select k::int, k, max(cast(j as double)), max(j) from a group by 1, 2");
    let names: Vec<String> =
        batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["k::INT", "k", "max(CAST(j AS DOUBLE))", "max(a.j)"]);
}

#[test]
fn distinct_on_takes_names_and_positions_of_columns_of_the_result() {
    let db = database_of(&rows_of([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3])), false),
        ("b", Arc::new(Int64Array::from(vec![1, 1, 2])), true),
        ("c", Arc::new(Int64Array::from(vec![2, 3, 3])), true),
    ]));
    for (query, expected) in [
        ("select distinct on (b) id, b from t order by b, 2, 1", [1, 3]),
        ("select distinct on (b) id as x, b as y from t order by y, b, x", [1, 3]),
        ("select distinct on (b) id, 7 as seven from t order by b, seven, id", [1, 3]),
        // By what is called `x`, which is `b`, though the name of that is another column's.
        ("select distinct on (x) id, b as x, c as b from t order by x, id", [1, 3]),
        ("select distinct on (b) max(id) as id, b from t group by b, c order by b, id", [1, 3]),
    ] {
        assert_eq!(numbers(&run(&db, query)), expected, "{query}");
    }
}

/// Of rows that compare with none, it was null.
/// Half of the rows of each group were counted, in place of half of the groups.
#[test]
fn a_random_condition_is_of_the_rows_that_it_is_above() {
    let rows = rows_of([("k", Arc::new(Int64Array::from_iter_values(0..1_000)), false)]);
    let db = database_of(&rows);
    let groups = "select k % 10 as g, count(*) as n from t group by 1";
    let windows = "select k, count(*) over () as n from t";
    let pairs = "select count(*) over (partition by t.k) as n, t.k from t join t u on t.k % 10 = u.k % 10 where t.k < 10";
    for (rows, count) in [(groups, 100), (windows, 1_000), (pairs, 100)] {
        let kept = format!("select n from ({rows}) x where random() < 0.5");
        let kept = numbers(&run(&db, &kept));
        assert!(kept.iter().all(|n| *n == count), "{rows}: {kept:?}");
    }
}

#[test]
fn a_constant_of_an_aggregate_in_a_subquery_is_refused() {
    let db = database();
    for value in ["count(*) is null", "count(*) is not null", "max(k) is null or true"] {
        let query = format!("select a.k, (select {value} from b where b.j = a.k) as x from a");
        let error = refused(&db, &query);
        assert!(error.to_string().contains("outside of the subquery"), "{error}");
    }
    let counted = "select (select count(*) from b where b.j = a.k) is null as x from a";
    assert_eq!(rows(&db, &format!("select * from ({counted}) where not x")), 2);
}

#[test]
fn a_number_sorts_nothing_within_an_aggregate() {
    let db = database();
    let first =
        |order: &str| numbers(&run(&db, &format!("select first_value(k order by {order}) from a")));
    assert_eq!(first("s desc, 7"), [2]);
    assert_eq!(first("1, s desc"), [2]);
}
