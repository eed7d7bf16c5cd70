//! Two lists of `in` on one value, joined: what a null in them, or of the value, makes unknown stays so.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::*;
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate};

use crate::fixtures::*;

/// A value of a row, or unknown.
type Value = Option<i64>;
/// True, false or unknown.
type Truth = Option<bool>;

/// What a list has besides numbers.
#[derive(Clone, Copy)]
enum Item {
    Number(i64),
    Null,
    /// The other column.
    Other,
}

use Item::{Null, Number, Other};

/// Whether a value is in a list, or not.
#[derive(Clone, Copy)]
struct Test {
    items: &'static [Item],
    negated: bool,
}

const TESTS: [Test; 10] = [
    Test { items: &[Number(1), Number(2)], negated: false },
    Test { items: &[Number(2), Number(3), Null], negated: false },
    Test { items: &[Number(2)], negated: false },
    Test { items: &[Number(1), Number(2)], negated: true },
    Test { items: &[Number(3), Number(4)], negated: true },
    Test { items: &[Number(2), Null], negated: true },
    Test { items: &[Other, Number(3)], negated: false },
    Test { items: &[Other], negated: true },
    Test { items: &[Null], negated: false },
    Test { items: &[Number(4), Number(4), Number(5)], negated: false },
];

fn equal(one: Value, other: Value) -> Truth {
    Some(one? == other?)
}

fn and(one: Truth, other: Truth) -> Truth {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn not(truth: Truth) -> Truth {
    truth.map(|truth| !truth)
}

fn or(one: Truth, other: Truth) -> Truth {
    not(and(not(one), not(other)))
}

impl Test {
    fn of(&self, value: Value, other: Value) -> Truth {
        let mut is_in = Some(false);
        for item in self.items {
            let item = match item {
                Number(number) => Some(*number),
                Null => None,
                Other => other,
            };
            is_in = or(is_in, equal(value, item));
        }
        if self.negated { not(is_in) } else { is_in }
    }

    fn text(&self, value: &str, other: &str) -> String {
        let item = |item: &Item| match item {
            Number(number) => number.to_string(),
            Null => "null".to_string(),
            Other => other.to_string(),
        };
        let items: Vec<String> = self.items.iter().map(item).collect();
        match (self.negated, &items[..]) {
            (false, [only]) => format!("{value} = {only}"),
            (negated, items) => {
                let is_in = if negated { "not in" } else { "in" };
                format!("{value} {is_in} ({})", items.join(", "))
            }
        }
    }
}

type Join = (fn(&str, &str) -> String, fn(Truth, Truth) -> Truth);

const JOINS: [Join; 7] = [
    (|a, b| format!("({a}) and ({b})"), and),
    (|a, b| format!("({a}) or ({b})"), or),
    (|a, b| format!("not (({a}) and ({b}))"), |a, b| not(and(a, b))),
    (|a, b| format!("not (({a}) or ({b}))"), |a, b| not(or(a, b))),
    (|a, b| format!("not ({a}) and ({b})"), |a, b| and(not(a), b)),
    (|a, b| format!("(({a}) or not ({b})) is null"), |a, b| Some(or(a, not(b)).is_none())),
    (|a, b| format!("not (({a}) and (({b}) and ({a})))"), |a, b| not(and(a, and(b, a)))),
];

/// DataFusion makes one list of two, and lost the nulls.
#[test]
fn two_lists_on_one_value_are_true_false_or_unknown_as_each_by_itself() {
    let db = Database::in_memory(Options::default()).unwrap();
    let rows: Vec<(i64, Value)> = (0..6)
        .flat_map(|k| [None, Some(1), Some(2), Some(4)].map(|i| (k, i)))
        .enumerate()
        .map(|(n, (k, i))| (k + 10 * (n as i64 / 24), i))
        .collect();
    let (k, i): (Vec<i64>, Vec<Value>) = rows.iter().copied().unzip();
    let (k, i) = (Arc::new(Int64Array::from(k)), Arc::new(Int64Array::from(i)));
    let table = add_table(&db, "t", &rows_of([("k", k, false), ("i", i, true)]));
    let snapshot = table.snapshot().unwrap();
    for (value, other) in [("i", "k"), ("k", "i")] {
        let of = |test: &Test, (k, i): (i64, Value)| match value {
            "k" => test.of(Some(k), i),
            _ => test.of(i, Some(k)),
        };
        for one in &TESTS {
            for another in &TESTS {
                let texts = JOINS
                    .map(|(text, _)| text(&one.text(value, other), &another.text(value, other)));
                let columns: Vec<String> =
                    texts.iter().enumerate().map(|(n, text)| format!("{text} as c{n}")).collect();
                let query = format!("select k, i, {} from t", columns.join(", "));
                let found = answer(&db, &query, &QueryOptions::default()).unwrap();
                for batch in &found {
                    for row in 0..batch.num_rows() {
                        let number = |column: usize| {
                            let column = batch.column(column).as_primitive::<types::Int64Type>();
                            column.is_valid(row).then(|| column.value(row))
                        };
                        let (k, i) = (number(0).unwrap(), number(1));
                        for (n, (_, join)) in JOINS.iter().enumerate() {
                            let truths = batch.column(2 + n).as_boolean();
                            let truth = truths.is_valid(row).then(|| truths.value(row));
                            let expected = join(of(one, (k, i)), of(another, (k, i)));
                            assert_eq!(truth, expected, "{} of k={k}, i={i:?}", texts[n]);
                        }
                    }
                }
                for (text, (_, join)) in texts.iter().zip(&JOINS) {
                    let predicate = Some(predicate(&table.schema(), text).unwrap());
                    let selection = Selection { predicate, ..Selection::default() };
                    let passes = |row: &&(i64, Value)| {
                        join(of(one, **row), of(another, **row)) == Some(true)
                    };
                    let expected = rows.iter().filter(passes).count() as u64;
                    assert_eq!(snapshot.count(&selection).unwrap(), expected, "{text}");
                }
            }
        }
    }
}

/// A list of items that have to be tested one by one is a tree of tests, which must not be as high as it is long, and lists
/// within lists must not grow with each.
#[test]
fn long_lists_and_lists_within_lists_are_planned() {
    let k: Vec<i64> = (0..20).collect();
    let (k, i) = (Arc::new(Int64Array::from(k.clone())), Arc::new(Int64Array::from(k)));
    let db = Database::in_memory(Options::default()).unwrap();
    add_table(&db, "t", &rows_of([("k", k, false), ("i", i, true)]));
    let count = |condition: &str| {
        let query = format!("select sum(case when {condition} then 1 else 0 end) from t");
        numbers(&run(&db, &query))[0]
    };
    assert_eq!(count(&format!("i in ({}null)", "k, ".repeat(30_000))), 20);
    assert_eq!(count(&format!("i not in (5{})", ", null".repeat(30_000))), 0);
    let many: Vec<String> = (0..500).map(|n| format!("k + {n}")).collect();
    assert_eq!(count(&format!("i in ({})", many.join(", "))), 20);
    let nested = (0..40).fold("(k = 1)".to_string(), |of, _| format!("({of} in (k = 1, i = 2))"));
    assert!(count(&nested) > 0);
}
