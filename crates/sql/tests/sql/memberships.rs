//! `in`, of lists whose values are computed from the row and of queries, where nulls make the answer unknown.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate};

use crate::fixtures::*;

const ROWS: i64 = 40;

fn i_of(k: i64) -> Option<i64> {
    (k % 4 != 1).then_some(k % 7)
}

fn table_of(db: &Database, name: &str, rows: impl Iterator<Item = (i64, Option<i64>)>) -> Table {
    let (k, i): (Vec<i64>, Vec<Option<i64>>) = rows.unzip();
    let (k, i) = (Arc::new(Int64Array::from(k)), Arc::new(Int64Array::from(i)));
    add_table(db, name, &rows_of([("k", k, false), ("i", i, true)]))
}

/// `t` of `ROWS` rows, a quarter of whose `i` are null, and `u` with all kinds of members.
fn database() -> (Database, Table) {
    let db = Database::in_memory(Options::default()).unwrap();
    table_of(&db, "u", [(0, Some(2)), (1, None), (2, Some(5)), (3, Some(90))].into_iter());
    let table = table_of(&db, "t", (0..ROWS).map(|k| (k, i_of(k))));
    (db, table)
}

fn ks(db: &Database, text: &str) -> Result<Vec<i64>> {
    let options = QueryOptions { threads: Some(1), ..Default::default() };
    let mut ks = numbers(&answer(db, text, &options)?);
    ks.sort();
    Ok(ks)
}

/// DataFusion tried such lists on no rows, and took what came out for constants.
#[test]
fn values_of_a_list_are_computed_of_each_row() {
    let (db, table) = database();
    let values = [
        "case when i is null then 1 else k end",
        "case when i is null then 1 else k end + 0",
        "cast(case when i is null then '1' else '7' end as bigint)",
        "coalesce(i, k)",
        "nullif(k, i)",
        "abs(case when i is null then 1 else k end)",
        "case i when 2 then k when 3 then i else abs(k) end",
        "i",
        "7",
    ];
    let mut passing = 0;
    let compared = ["abs(k)", "k + 0", "k", "i", "7", "nullif(k, 9)"];
    for (at, first) in values.iter().enumerate() {
        for (also, second) in values.iter().enumerate() {
            for value in [compared[(at + also) % 6], compared[(at + 2 * also + 3) % 6]] {
                let list = format!("{value} in ({first}, {second}, {first}, -1)");
                let joined = format!("({value} = {first} or {value} = {second} or {value} = -1)");
                let expected = ks(&db, &format!("select k from t where {joined}")).unwrap();
                passing += expected.len();
                let ask = |text: String| ks(&db, &text).unwrap();
                assert_eq!(ask(format!("select k from t where {list}")), expected, "{list}");
                let shown = format!("select k from (select k, {list} as x from t) where x is true");
                assert_eq!(ask(shown), expected, "{list}");
                let grouped = format!("select max(k) from t group by k, {list} having {list}");
                assert_eq!(ask(grouped), expected, "{list}");
                let not = |condition: &str| ask(format!("select k from t where not ({condition})"));
                assert_eq!(not(&list), not(&joined), "{list}");
                let predicate = predicate(&table.schema(), &list).unwrap();
                let selection = Selection { predicate: Some(predicate), ..Default::default() };
                let found = table.snapshot().unwrap().count(&selection).unwrap();
                assert_eq!(found, expected.len() as u64, "{list}");
            }
        }
    }
    assert!(passing > 1_000, "little was compared");
}

/// `x in (members)`, of three values.
fn is_in(x: Option<i64>, members: &[Option<i64>]) -> Option<bool> {
    match x {
        _ if members.is_empty() => Some(false),
        Some(_) if members.contains(&x) => Some(true),
        Some(_) if !members.contains(&None) => Some(false),
        _ => None,
    }
}

/// DataFusion took what is unknown for false, and `not in` for true then, but for one form of a condition.
#[test]
fn what_nulls_make_unknown_is_neither_among_the_values_of_a_query_nor_not() {
    let (db, _) = database();
    type Value = (&'static str, fn(i64) -> Option<i64>);
    let values: [Value; 8] = [
        ("t.k", Some),
        ("t.i", i_of),
        ("nullif(t.k, 3)", |k| (k != 3).then_some(k)),
        ("t.i + 1", |k| Some(i_of(k)? + 1)),
        ("5", |_| Some(5)),
        ("77", |_| Some(77)),
        ("cast(null as bigint)", |_| None),
        ("(select max(i) from u)", |_| Some(90)),
    ];
    // The members, of a row `k`.
    type Members = (&'static str, fn(i64) -> Vec<Option<i64>>);
    let members: [Members; 9] = [
        ("select i from u", |_| vec![Some(2), None, Some(5), Some(90)]),
        ("select i from u where i is not null", |_| vec![Some(2), Some(5), Some(90)]),
        ("select k from u", |_| (0..4).map(Some).collect()),
        ("select k from u where k > 8", |_| vec![]),
        ("select i from u where i is null", |_| vec![None]),
        ("select i from u where i > 100", |_| vec![]),
        ("select i from u order by k limit 2", |_| vec![Some(2), None]),
        ("select u.i from u where u.k = t.k", |k| match k {
            0 => vec![Some(2)],
            1 => vec![None],
            2 => vec![Some(5)],
            3 => vec![Some(90)],
            _ => vec![],
        }),
        ("select u.i from u where u.k < t.k", |k| {
            [Some(2), None, Some(5), Some(90)].into_iter().take(k as usize).collect()
        }),
    ];
    // Conditions about `x in (...)`, of three values.
    type Form = (&'static str, fn(Option<bool>, i64) -> Option<bool>);
    let forms: [Form; 14] = [
        ("{x} in ({m})", |found, _| found),
        ("{x} not in ({m})", |found, _| Some(!found?)),
        ("not ({x} in ({m}))", |found, _| Some(!found?)),
        ("not ({x} not in ({m}))", |found, _| found),
        ("{x} not in ({m}) and t.k < 20", |found, k| Some(!found? && k < 20)),
        ("{x} not in ({m}) or t.k < 5", |found, k| if k < 5 { Some(true) } else { Some(!found?) }),
        ("{x} in ({m}) or t.k < 5", |found, k| if k < 5 { Some(true) } else { found }),
        (
            "not ({x} in ({m}) or t.k < 5)",
            |found, k| if k < 5 { Some(false) } else { Some(!found?) },
        ),
        ("({x} in ({m})) is null", |found, _| Some(found.is_none())),
        ("({x} not in ({m})) is null", |found, _| Some(found.is_none())),
        ("coalesce({x} in ({m}), true)", |found, _| Some(found.unwrap_or(true))),
        ("case when {x} in ({m}) then false else true end", |found, _| Some(found != Some(true))),
        ("{x} <> all ({m})", |found, _| Some(!found?)),
        ("({x} = any ({m})) is null", |found, _| Some(found.is_none())),
    ];
    let asked = |text: &str| ks(&db, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (mut passing, mut elsewhere, mut number) = (0, 0, 0);
    let is_long = std::env::var_os("DRILLCORE_LONG").is_some();
    for (x_at, (x, value)) in values.into_iter().enumerate() {
        for (query_at, (query, members)) in members.into_iter().enumerate() {
            for (form_at, (form, of_found)) in forms.into_iter().enumerate() {
                // Each pair of the three is seen in any case.
                if !is_long && (x_at + query_at + form_at) % 3 > 0 {
                    continue;
                }
                let condition = form.replace("{x}", x).replace("{m}", query);
                let passes = |k: &i64| of_found(is_in(value(*k), &members(*k)), *k) == Some(true);
                let expected: Vec<i64> = (0..ROWS).filter(passes).collect();
                passing += expected.len();
                let text = format!("select t.k from t where {condition}");
                assert_eq!(asked(&text), expected, "{text}");
                // What optimisers make a condition of, if they can.
                let inside =
                    format!("select s.k from (select t.k, {condition} as x from t) s where s.x");
                let joined = format!("select t.k from t join t r on t.k = r.k and ({condition})");
                // By turns: each takes as long as all the rest of a condition.
                number += 1;
                let text = if number % 2 == 0 { inside } else { joined };
                match ks(&db, &text) {
                    Ok(found) => {
                        assert_eq!(found, expected, "{text}");
                        elsewhere += 1;
                    }
                    Err(error) => {
                        assert!(
                            error.to_string().contains("in WHERE and HAVING only"),
                            "{text}: {error}"
                        );
                    }
                }
            }
        }
    }
    assert!(elsewhere > 100, "little was asked elsewhere: {elsewhere}");
    assert!(passing > 1_000, "little was compared");
}

/// A cast has the name of its column, by which the query is joined with the row.
#[test]
fn a_query_that_looks_at_the_row_may_select_a_cast_of_what_it_is_compared_by() {
    let (db, _) = database();
    let members = [(0, Some(2)), (1, None), (2, Some(5)), (3, Some(90))];
    for (member, of_i) in [
        ("u.k", false),
        ("cast(u.k as double)", false),
        ("u.i", true),
        ("cast(u.i as double)", true),
    ] {
        for value in ["t.i", "cast(t.i as double)", "cast(t.i as decimal(20, 0))"] {
            let within = format!("(select {member} from u where {member} <= t.k)");
            let answers = |k: i64| {
                let members = members.map(|(k, i)| if of_i { i } else { Some(k) });
                let near: Vec<_> =
                    members.into_iter().filter(|of| of.is_some_and(|of| of <= k)).collect();
                is_in(i_of(k), &near)
            };
            for (condition, passes) in [
                (
                    "{x} in {m}",
                    Box::new(|is| is == Some(true)) as Box<dyn Fn(Option<bool>) -> bool>,
                ),
                ("{x} not in {m}", Box::new(|is| is == Some(false))),
                ("({x} in {m}) is null", Box::new(|is: Option<bool>| is.is_none())),
                ("({x} = any {m}) is distinct from true", Box::new(|is| is != Some(true))),
                ("{x} <> all {m}", Box::new(|is| is == Some(false))),
            ] {
                let condition = condition.replace("{x}", value).replace("{m}", &within);
                let found = ks(&db, &format!("select k from t where {condition}"));
                let expected: Vec<i64> = (0..ROWS).filter(|k| passes(answers(*k))).collect();
                assert_eq!(found.expect(&condition), expected, "{condition}");
            }
        }
    }
}

/// Whether a null is among the values is asked by itself, and has to be about the same values.
#[test]
fn values_that_change_with_each_question_are_refused_where_a_null_among_them_counts() {
    let (db, _) = database();
    let members = "(select nullif(i, cast(random() * 9 as bigint)) from u)";
    for condition in
        ["i in {m} or k < 3", "(i in {m}) is null", "case when i not in {m} then true end"]
    {
        let text = format!("select k from t where {}", condition.replace("{m}", members));
        let error = ks(&db, &text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
        assert!(error.to_string().contains("values change in each call"), "{text}: {error}");
    }
    for condition in
        ["i in {m}", "i not in {m} and k < 3", "k in (select k from u where random() < 2) or k = 9"]
    {
        ks(&db, &format!("select k from t where {}", condition.replace("{m}", members))).unwrap();
    }
}
