//! Parameters: they stand where literals do, indexes see them, and none is missing or left over.

use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;
use drillcore_sql::{Parameters, QueryOptions};

use crate::fixtures::*;

fn database() -> Database {
    let db = Database::in_memory(Options::default()).unwrap();
    let carriers: StringArray =
        (0..100).map(|i| (i % 4 > 0).then(|| format!("c{}", i % 4))).collect();
    let prices = Decimal128Array::from_iter_values(0..100).with_precision_and_scale(10, 2).unwrap();
    let rows = rows_of([
        ("id", array(Int64Array::from_iter_values(0..100)), false),
        ("carrier", array(carriers), true),
        ("at", array(TimestampSecondArray::from_iter_values(0..100)), true),
        ("price", array(prices), true),
        ("raw", array(BinaryArray::from_iter_values((0..100).map(|i| [i as u8]))), true),
    ]);
    add_table_of(&db, "t", TableSpec::new(rows.schema(), ["id"]).set("carrier"), &rows);
    db
}

fn array(values: impl Array + 'static) -> ArrayRef {
    Arc::new(values)
}

fn int(value: i64) -> ArrayRef {
    array(Int64Array::from(vec![value]))
}

fn text(value: &str) -> ArrayRef {
    array(StringArray::from(vec![value]))
}

fn listed(values: Vec<ArrayRef>) -> Parameters {
    Parameters::Listed(values)
}

fn named(values: Vec<(&str, ArrayRef)>) -> Parameters {
    Parameters::Named(values.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

fn with(parameters: Parameters) -> QueryOptions {
    QueryOptions { parameters, ..Default::default() }
}

/// The first column of the answer, whole numbers.
fn ints(db: &Database, text: &str, parameters: Parameters) -> Vec<i64> {
    numbers(&run_with(db, text, &with(parameters)))
}

fn refused(db: &Database, text: &str, parameters: Parameters) -> String {
    let error = answer(db, text, &with(parameters)).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.to_string()
}

#[test]
fn parameters_are_taken_in_order_by_number_and_by_name() {
    let db = database();
    let wanted = vec![41, 42];
    let in_order = "select id from t where id > ? and id < ? order by 1";
    assert_eq!(ints(&db, in_order, listed(vec![int(40), int(43)])), wanted);
    let numbered = "select id from t where id > $2 and id < $1 and id <> $2 order by 1";
    assert_eq!(ints(&db, numbered, listed(vec![int(43), int(40)])), wanted);
    let with_names = "select id from t where id > $low and id < $high and $low = $low order by 1";
    let both = named(vec![("high", int(43)), ("low", int(40))]);
    assert_eq!(ints(&db, with_names, both), wanted);
}

/// The tree keeps the order of the text nowhere: a window stands behind the arguments and before the filter.
#[test]
fn parameters_are_counted_in_the_order_of_the_text() {
    let db = database();
    let text = "with few as (select id from t where id >= ?) select id * ? + ? from few where id < ? order by 1 \
                limit ? offset ?";
    let values = [10, 1000, 7, 20, 2, 3].map(int).to_vec();
    assert_eq!(ints(&db, text, listed(values)), vec![13_007, 14_007]);
}

#[test]
fn a_parameter_stands_where_a_literal_can() {
    let db = database();
    let sampled = "select id from t tablesample (? rows) repeatable (?) where id >= ?";
    let drawn = ints(&db, sampled, listed(vec![int(5), int(7), int(90)]));
    let same = "select id from t tablesample (5 rows) repeatable (7) where id >= 90";
    assert_eq!(drawn, ints(&db, same, Parameters::None));
    let function = "select id from sample(?, ?) limit 3";
    assert_eq!(ints(&db, function, listed(vec![text("t"), int(9)])).len(), 3);
    assert_eq!(ints(&db, "select 5 -?", listed(vec![int(-3)])), vec![8]);
    assert_eq!(ints(&db, "select ?", listed(vec![int(i64::MIN)])), vec![i64::MIN]);
    let arm = "select case when ? then ? else ? end";
    let yes = array(BooleanArray::from(vec![true]));
    assert_eq!(ints(&db, arm, listed(vec![yes, int(1), int(2)])), vec![1]);
}

#[test]
fn text_is_never_read_as_sql() {
    let db = database();
    let evil = "c1' or 'a' = 'a";
    let count = "select count(*) from t where carrier = ?";
    assert_eq!(ints(&db, count, listed(vec![text(evil)])), vec![0]);
    assert_eq!(ints(&db, "select count(*) where ? = '?$a'", listed(vec![text("?$a")])), vec![1]);
    // Nor is a question mark in a string or a comment a place.
    let quoted = "select count(*) /* ? */ from t where carrier = ? and carrier <> '?' -- $1";
    assert_eq!(ints(&db, quoted, listed(vec![text("c1")])), vec![25]);
}

#[test]
fn every_type_of_value_is_compared_as_it_is() {
    let db = database();
    let count = |condition: &str, value: ArrayRef| {
        ints(&db, &format!("select count(*) from t where {condition}"), listed(vec![value]))[0]
    };
    let price = Decimal128Array::from(vec![42]).with_precision_and_scale(4, 2).unwrap();
    assert_eq!(count("price = ?", array(price)), 1);
    assert_eq!(count("price = ?", array(Float64Array::from(vec![0.42]))), 1);
    assert_eq!(count("raw = ?", array(BinaryArray::from_vec(vec![&[42u8]]))), 1);
    let micros = |micros| array(TimestampMicrosecondArray::from(vec![micros]));
    assert_eq!(count("at >= ?", micros(90_000_000)), 10);
    assert_eq!(count("at = ?", micros(90_000_000)), 1);
    assert_eq!(count("at > ?", micros(90_500_000)), 9);
    assert_eq!(count("at < ?", micros(90_500_000)), 91);
    assert_eq!(count("at >= ?", micros(90_500_000)), 9);
    assert_eq!(count("? < at", micros(90_500_000)), 9);
    assert_eq!(count("at = ?", micros(90_500_000)), 0);
    assert_eq!(count("at <> ?", micros(90_500_000)), 100);
    assert_eq!(count("at is distinct from ?", micros(90_500_000)), 100);
    assert_eq!(count("at between ? and timestamp '1970-01-01T00:01:35'", micros(90_500_000)), 5);
    assert_eq!(count("at between timestamp '1970-01-01T00:01:25' and ?", micros(90_500_000)), 6);
    assert_eq!(count("cast('1970-01-01' as date) < ?", micros(1)), 100);
    let half = Decimal128Array::from(vec![75]).with_precision_and_scale(4, 1).unwrap();
    assert_eq!(count("id < ?", array(half.clone())), 8);
    assert_eq!(count("id = ?", array(half)), 0);
    assert_eq!(count("at < ?", array(Date32Array::from(vec![1]))), 100);
    assert_eq!(count("id = ?", array(NullArray::new(1))), 0);
    assert_eq!(count("id < ?", array(Float64Array::from(vec![f64::INFINITY]))), 100);
    assert_eq!(count("id < ?", array(UInt64Array::from(vec![u64::MAX]))), 100);
    assert_eq!(count("id < ?", array(Int8Array::from(vec![3]))), 3);
    assert_eq!(count("carrier is not distinct from ?", array(StringArray::new_null(1))), 25);
}

#[test]
fn a_time_finer_than_a_list_is_compared_with_is_refused() {
    let finer = array(TimestampMicrosecondArray::from(vec![90_500_000]));
    let message = refused(&database(), "select * from t where at in (?)", listed(vec![finer]));
    assert!(message.contains("finer") && message.contains("round it"), "{message}");
}

/// The plan shows what indexes answer.
#[test]
fn parameters_narrow_key_ranges_and_sets() {
    let db = database();
    let plan = |text: &str, parameters: Parameters| -> String {
        texts(&run_with(&db, &format!("explain {text}"), &with(parameters)), 1)
    };
    let text_of = "select * from t where id >= ? and carrier = ?";
    let shown = plan(text_of, listed(vec![int(90), text("c1")]));
    assert_eq!(shown, plan("select * from t where id >= 90 and carrier = 'c1'", Parameters::None));
    assert!(shown.contains("range=") && shown.contains("sets="), "{shown}");
    assert!(!shown.contains("test="), "{shown}");
    let typed =
        plan("select * from t where id >= ?", listed(vec![array(Int16Array::from(vec![90]))]));
    assert!(typed.contains("range=") && !typed.contains("test="), "{typed}");
}

#[test]
fn a_parameter_too_few_or_too_many_is_named() {
    let db = database();
    let says = |text: &str, parameters, wanted: &str| {
        let message = refused(&db, text, parameters);
        assert!(message.contains(wanted), "{text}: {message}");
    };
    let two = "select id from t where id > ? and id < ?";
    says(two, Parameters::None, "the placeholder ? has no value; pass a parameter");
    says(
        two,
        listed(vec![int(1)]),
        "placeholder 2 (?) has no value, because the list has 1 parameter",
    );
    says(
        two,
        listed(vec![int(1), int(2), int(3)]),
        "parameter 3 of 3 is not used, because the query has 2",
    );
    says("select 1", listed(vec![int(1)]), "parameter 1 of 1 is not used");
    says(
        "select $1 + $3",
        listed([1, 2, 3].map(int).to_vec()),
        "parameter 2 is not used; write $2",
    );
    says("select $2", listed(vec![int(1)]), "$2 has no value");
    says("select $0", listed(vec![int(1)]), "$0");
    says("select ? + $1", listed(vec![int(1)]), "one kind of placeholder");
    says("select $low", listed(vec![int(1)]), "$low has a name");
    says("select ?", named(vec![("low", int(1))]), "? has no name");
    says("select $low", named(vec![("loe", int(1))]), "$low has no value; did you mean \"loe\"");
    says("select $low", named(vec![]), "$low has no value; add it");
    says(
        "select $low",
        named(vec![("low", int(1)), ("high", int(2))]),
        "parameter \"high\" is not used; write $high",
    );
    says("select :low", named(vec![]), ":low");
}
