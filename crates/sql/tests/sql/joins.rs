//! Joins, counted beside nested loops over the same rows.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sql::QueryOptions;

use crate::fixtures::*;
use crate::query::refused;

type Row = (Option<i64>, Option<i64>);
type Pairs = Vec<(Row, Row)>;

fn row(k: i64, seed: i64) -> Row {
    let of = |number: i64| (number % 3 != 0).then_some(number % 4);
    (of(k * seed + 1), of(k * (seed + 2) / 3))
}

fn database(tables: &[(&str, &[Row])]) -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    for (name, rows) in tables {
        let rows = rows_of([
            ("k", Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)), false),
            ("a", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0))), true),
            ("b", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.1))), true),
        ]);
        add_table(&db, name, &rows);
    }
    db
}

fn count(db: &Database, text: &str) -> i64 {
    let options = QueryOptions { threads: Some(1), ..Default::default() };
    numbers(&run_with(db, text, &options))[0]
}

fn equal(x: Option<i64>, y: Option<i64>) -> bool {
    x.is_some() && x == y
}

/// Whether nulls are equal was one answer for all keys of a join, those among them that came later.
#[test]
fn nulls_are_equal_to_is_not_distinct_from_and_to_no_other_comparison() {
    let rows: Vec<Vec<Row>> = [5, 7, 11].map(|seed| (0..30).map(|k| row(k, seed)).collect()).into();
    let [l, r, x] = &rows[..] else { unreachable!() };
    let db = database(&[("l", l), ("r", r), ("x", x)]);
    let pairs = |keep: &dyn Fn(&Row, &Row) -> bool| {
        l.iter().map(|l| r.iter().filter(|r| keep(l, r)).count() as i64).sum::<i64>()
    };
    let both = pairs(&|l, r| l.0 == r.0 && equal(l.1, r.1));
    assert!(both < pairs(&|l, r| l == r), "no pair has nulls in `b`");
    let either = pairs(&|l, r| l.0 == r.0 && equal(l.1, r.1) || l.1 == r.1 && l.0 == Some(2));
    let unmatched = |own: &[Row], other: &[Row]| {
        let is_matched = |own: &&Row| other.iter().any(|o| o.0 == own.0 && equal(o.1, own.1));
        own.iter().filter(|own| !is_matched(own)).count() as i64
    };
    let (left_only, right_only) = (unmatched(l, r), unmatched(r, l));
    let three = |with_b: bool| {
        let mut count = 0;
        for l in l {
            for r in r.iter().filter(|r| r.0 == l.0 && (!with_b || equal(r.1, l.1))) {
                count += x.iter().filter(|x| equal(x.1, r.1) && equal(x.0, l.0)).count() as i64;
            }
        }
        count
    };
    let same = "l.a is not distinct from r.a";
    for (query, expected) in [
        (format!("l join r on {same} and l.b = r.b"), both),
        (format!("l join r on {same} where l.b = r.b"), both),
        (format!("l join r on l.b = r.b where {same}"), both),
        (format!("l, r where {same} and l.b = r.b"), both),
        (format!("l join r on {same} and l.b in (r.b, r.b, r.b)"), both),
        (format!("l join r on {same} where l.b in (r.b, r.b)"), both),
        (format!("l join r on {same} and not (l.b <> r.b)"), both),
        (format!("(select l.b as m, r.b as n from l join r on {same}) where m = n"), both),
        (format!("l left join r on {same} and l.b in (r.b, r.b)"), both + left_only),
        (format!("l right join r on {same} and l.b in (r.b, r.b)"), both + right_only),
        (format!("l full join r on {same} and l.b in (r.b, r.b)"), both + left_only + right_only),
        (
            format!("l where exists (select 1 from r where {same} and l.b in (r.b, r.b))"),
            l.len() as i64 - left_only,
        ),
        (
            format!("l where not exists (select 1 from r where {same} and l.b in (r.b, r.b))"),
            left_only,
        ),
        (format!("l join r on {same} join x on x.b = r.b and x.a = l.a"), three(false)),
        (format!("l join r on {same}, x where x.b = r.b and x.a = l.a and l.b = r.b"), three(true)),
        (
            format!(
                "l join r on ({same} and l.b = r.b) or (l.b is not distinct from r.b and l.a = 2)"
            ),
            either,
        ),
        (format!("l join r on {same}"), pairs(&|l, r| l.0 == r.0)),
        (format!("l join r on {same} and l.b is not distinct from r.b"), pairs(&|l, r| l == r)),
    ] {
        assert_eq!(count(&db, &format!("select count(*) from {query}")), expected, "{query}");
    }
    let plan = "explain select l.k from l join r on l.a is not distinct from r.a";
    let plan = texts(&run(&db, plan), 1);
    assert!(plan.contains("HashJoin") && !plan.contains("NestedLoop"), "{plan}");
}

/// DataFusion moved such conditions below the join, and there took `l.a` and `r.a` for one column.
#[test]
fn a_condition_above_an_outer_join_tells_columns_of_one_name_apart() {
    let rows: Vec<Vec<Row>> = [5, 7, 11].map(|seed| (0..9).map(|k| row(k, seed)).collect()).into();
    let [l, r, x] = &rows[..] else { unreachable!() };
    let db = database(&[("l", l), ("r", r), ("x", x)]);
    let both: Vec<Row> = r.iter().chain(x).copied().collect();
    let none = (None, None);
    let joined = |right: &[Row]| -> (Pairs, Pairs) {
        let pairs = l.iter().flat_map(|l| right.iter().map(move |r| (*l, *r)));
        let pairs: Vec<_> = pairs.filter(|(l, r)| equal(l.1, r.1)).collect();
        let left = l.iter().filter(|l| !pairs.iter().any(|pair| equal(pair.0.1, l.1)));
        let alone = right.iter().filter(|r| !pairs.iter().any(|pair| equal(pair.1.1, r.1)));
        let left: Vec<_> = left.map(|l| (*l, none)).collect();
        let alone: Vec<_> = alone.map(|r| (none, *r)).collect();
        ([&pairs[..], &alone].concat(), [&pairs[..], &alone, &left].concat())
    };
    type Kept = fn(&(Row, Row)) -> bool;
    let conditions: [(&str, Kept); 3] = [
        ("l.a is distinct from r.a", |(l, r)| l.0 != r.0),
        ("coalesce(l.a, -1) <> coalesce(r.a, -1)", |(l, r)| l.0 != r.0),
        ("(l.a = r.a) is not true", |(l, r)| !equal(l.0, r.0)),
    ];
    for (side, rows) in [
        ("(select * from r union all select * from x) r", &both),
        ("(select * from r order by k limit 5) r", &r[..5].to_vec()),
        ("(select * from r where k <= (select max(k) from x)) r", r),
    ] {
        let (right, full) = joined(rows);
        for (condition, is_kept) in conditions {
            for (kind, rows) in [("right", &right), ("full", &full)] {
                let expected = rows.iter().filter(|pair| is_kept(pair)).count();
                let query =
                    format!("select l.a as x, r.a as y from l {kind} join {side} on l.b = r.b");
                let query = format!("{query} where {condition}");
                let found: usize = run(&db, &query).iter().map(|batch| batch.num_rows()).sum();
                assert_eq!(found, expected, "{query}");
            }
        }
    }
}

/// Polars refuses two columns of one name, and pandas gives both for it.
#[test]
fn no_two_columns_of_a_result_have_one_name() {
    let rows: Vec<Row> = (0..3).map(|k| row(k, 5)).collect();
    let db = database(&[("l", &rows), ("r", &rows)]);
    let names = |text: &str| -> Vec<String> {
        let batches = run(&db, text);
        batches[0].schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(names("select * from l join r on l.k = r.k"), ["k", "a", "b", "k_1", "a_1", "b_1"]);
    assert_eq!(names("select l.k, r.k from l join r using (k)"), ["k", "k_1"]);
    assert_eq!(names("select k, a from l"), ["k", "a"]);
    let text = "select l.k, r.k from l left join r on l.k = r.k + 1 order by 1";
    let batches = run(&db, text);
    assert_eq!(batches[0].column(0).null_count(), 0);
    assert_eq!(batches[0].column(1).null_count(), 1, "the first of l has none");
    assert_eq!(answer(&db, text, &QueryOptions::default()).unwrap()[0].num_rows(), 3);
}

/// DataFusion takes conditions that compare with the row around a subquery out of it, from below what is computed there.
#[test]
fn subqueries_that_use_the_row_around_them_are_right_or_refused() {
    let rows = |pairs: &[(i64, i64)]| -> Vec<Row> {
        pairs.iter().map(|&(a, b)| (Some(a), Some(b))).collect()
    };
    let (l, r) = (rows(&[(1, 0), (2, 0), (3, 0)]), rows(&[(1, 10), (1, 11), (2, 12)]));
    let db = database(&[("l", &l), ("r", &r)]);
    let right = [
        ("select count(*) from l where exists (select 1 from r where r.a = l.a)", 2),
        ("select count(*) from l where exists (select 1 from r where r.a = l.a limit 1)", 2),
        ("select count(*) from l where exists (select a from r where r.a = l.a group by a)", 2),
        (
            "select count(*) from l where exists (select 1 from r x join r y on x.k = y.k where x.a = l.a)",
            2,
        ),
        (
            "select count(*) from l where exists (select 1 from r x left join l y on x.k = y.k where x.a = l.a)",
            2,
        ),
        ("select count(*) from l where 0 = (select count(*) from r where r.a = l.a)", 1),
        ("select count(*) from l where l.k not in (select r.k from r where r.a = l.a)", 2),
    ];
    for (text, expected) in right {
        assert_eq!(count(&db, text), expected, "{text}");
    }
    let refused_ones = [
        ("select a from l where exists (select max(b) from r where r.a = l.a)", "an aggregate"),
        (
            "select a from l where not exists (select count(*) from r where r.a = l.a)",
            "an aggregate",
        ),
        ("select a from l where 0 in (select count(*) from r where r.a = l.a)", "an aggregate"),
        ("select a from l where 0 < any (select count(*) from r where r.a = l.a)", "an aggregate"),
        (
            "select a from l where exists (select count(*) from r where r.a = l.a group by rollup (b))",
            "an aggregate",
        ),
        ("select a from l where exists (select 1 from r where r.a = l.a offset 1)", "OFFSET"),
        ("select a from l where exists (select 1 from r where r.a = l.a limit 0)", "LIMIT"),
        ("select a from l where k not in (select k from r where r.a = l.a limit 1)", "LIMIT"),
        ("select a from l where k = any (select k from r where r.a = l.a limit 1)", "LIMIT"),
        (
            "select a from l where 1 in (select row_number() over (order by b) from r where r.a = l.a)",
            "a window function",
        ),
        (
            "select (select max(n) from (select *, sum(b) over () as n from r where r.a = l.a) x) from l",
            "a window function",
        ),
        (
            "select x.n from l join lateral (select *, sum(b) over () as n from r where r.a = l.a) x on true",
            "a window function",
        ),
        (
            "select a from l where exists (select 1 from r left join (select * from r where r.a = l.a) x \
             on r.k = x.k where x.k is null)",
            "an outer join",
        ),
        (
            "select a from l where exists (select 1 from r join l l2 on l2.k = r.k and l2.b = l.b)",
            "ON of a join",
        ),
        ("select k from l right join r using (k)", "coalesce"),
        ("select k from l full join r using (k)", "coalesce"),
        ("select * from l natural full outer join r", "coalesce"),
        ("select * from (select * from l natural right join r) x", "coalesce"),
        ("select a from l except all select a from r", "row_number"),
        ("select a from l union select a from r intersect all select a from r", "row_number"),
    ];
    for (text, said) in refused_ones {
        let error = refused(&db, text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}

/// They had a worker panic.
#[test]
fn sort_keys_given_twice_say_nothing_the_second_time() {
    let rows: Vec<Row> = vec![(Some(1), Some(3)), (Some(1), Some(2)), (Some(2), Some(1))];
    let db = database(&[("t", &rows)]);
    for (text, expected) in [
        ("select distinct on (a) b from t order by a, b, a desc, b desc", vec![2, 1]),
        ("select distinct on (a, a) a from t order by a", vec![1, 2]),
        ("select first_value(b order by b, b desc) from t group by a order by a", vec![2, 1]),
        ("select last_value(b order by b, b desc) from t group by a order by a", vec![3, 1]),
        ("select row_number() over (order by k, k desc) from t order by k, k desc", vec![1, 2, 3]),
    ] {
        let batches = run(&db, text);
        let found: Vec<i64> = batches
            .iter()
            .flat_map(|batch| {
                let numbers = arrow_cast::cast(batch.column(0), &DataType::Int64).unwrap();
                numbers.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}
