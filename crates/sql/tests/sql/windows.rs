//! Windows over a range of values, counted beside a loop over the same rows.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;

use crate::fixtures::*;
use crate::query::refused;

/// The values that are kept for each, and `of_null` for a null.
fn counts(values: &[Option<i128>], of_null: i64, keep: impl Fn(i128, i128) -> bool) -> Vec<i64> {
    let of = |own: &Option<i128>| match own {
        Some(own) => values.iter().flatten().filter(|other| keep(*own, **other)).count() as i64,
        None => of_null,
    };
    values.iter().map(of).collect()
}

/// An offset beyond the column's type reached to the end, and one finer than its unit was the row's own value.
#[test]
fn a_range_of_values_reaches_as_far_as_it_says() {
    let small = [Some(-100i8), None, Some(0), Some(120), Some(127), Some(-128), Some(50)];
    let large =
        [Some(i64::MIN), Some(-5), None, Some(0), Some(5), Some(i64::MAX - 3), Some(i64::MAX)];
    let days = [Some(0i32), Some(1), Some(2), None, Some(40), Some(41), Some(-1)];
    let prices = [Some(10i128), Some(11), Some(-99), Some(99), None, Some(12), Some(98)];
    let prices_column = Decimal128Array::from_iter(prices).with_precision_and_scale(2, 1).unwrap();
    let rows = rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..7)), false),
        ("small", Arc::new(Int8Array::from_iter(small)), true),
        ("large", Arc::new(Int64Array::from_iter(large)), true),
        ("day", Arc::new(Date32Array::from_iter(days)), true),
        (
            "second",
            Arc::new(TimestampSecondArray::from_iter(days.map(|day| day.map(i64::from)))),
            true,
        ),
        ("price", Arc::new(prices_column), true),
    ]);
    let db = database_of(&rows);
    let found = |column: &str, frame: &str| {
        let over = format!("order by {column} nulls first range between {frame}");
        numbers(&run(&db, &format!("select count(*) over ({over}) as n from t order by k")))
    };
    let from_now = |far: i128| move |own: i128, other: i128| (own..=own + far).contains(&other);
    let small = small.map(|value| value.map(i128::from));
    let within = |far: &str| format!("current row and {far} following");
    for far in [0, 5, 127, 128, 150, 255, 300] {
        assert_eq!(
            found("small", &within(&far.to_string())),
            counts(&small, 1, from_now(far)),
            "{far}"
        );
    }
    assert_eq!(found("small", &within("20.5")), counts(&small, 1, from_now(20)));
    let large = large.map(|value| value.map(i128::from));
    for far in [5, i64::MAX as i128, i64::MAX as i128 + 1, u64::MAX as i128] {
        assert_eq!(
            found("large", &within(&far.to_string())),
            counts(&large, 1, from_now(far)),
            "{far}"
        );
    }
    for (far, thousandths) in [("0.1", 100), ("0.05", 50), ("0.15", 150), ("99", 99_000)] {
        let prices = prices.map(|price| price.map(|price| price * 100));
        assert_eq!(
            found("price", &within(far)),
            counts(&prices, 1, from_now(thousandths)),
            "{far}"
        );
    }
    // A null comes first, and nothing ends its frame.
    let times = days.map(|day| day.map(|day| i128::from(day) * 86_400_000));
    let after = |far: i128| move |own: i128, other: i128| other >= own + far;
    for (far, milliseconds) in [
        ("5 hours", 18_000_000),
        ("36 hours", 129_600_000),
        ("1 day", 86_400_000),
        ("0.5 seconds", 500),
    ] {
        let frame = format!("interval '{far}' following and unbounded following");
        assert_eq!(found("day", &frame), counts(&times, 7, after(milliseconds)), "{far}");
    }
    let times = days.map(|second| second.map(|second| i128::from(second) * 1000));
    for (far, milliseconds) in
        [("500 milliseconds", 500), ("1 second", 1000), ("1.5 seconds", 1500)]
    {
        let frame = format!("interval '{far}' following and unbounded following");
        assert_eq!(found("second", &frame), counts(&times, 7, after(milliseconds)), "{far}");
    }
}

#[test]
fn a_range_that_has_no_meaning_is_refused_with_advice() {
    let db = database_of(&rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(0..3)), false),
        ("day", Arc::new(Date32Array::from_iter_values(0..3)), true),
        ("text", Arc::new(StringArray::from_iter_values(["a", "b", "c"])), true),
    ]));
    for (column, far, advice) in [
        ("k", "'x'", "use a number"),
        ("k", "'-1'", "choose between PRECEDING and FOLLOWING"),
        ("k", "'nan'", "choose between PRECEDING and FOLLOWING"),
        ("k", "1e3", "without an exponent"),
        ("k", "0.1234567890123456789", "at most 18 digits"),
        ("cast(k as double)", "'-1'", "choose between PRECEDING and FOLLOWING"),
        ("cast(k as double)", "'x'", "use a number"),
        ("day", "1", "INTERVAL '1 day'"),
        ("day", "interval '-1 day'", "choose between PRECEDING and FOLLOWING"),
        ("text", "1", "use ROWS or GROUPS"),
    ] {
        let over = format!("order by {column} range between {far} preceding and current row");
        let error = refused(&db, &format!("select count(*) over ({over}) as n from t"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(advice), "{column} {far}: {error}");
    }
}
