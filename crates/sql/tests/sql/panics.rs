//! Whatever a function of SQL is given, a call ends in rows or in a typed error, and the table can be used
//! afterwards: no panic of a library crosses, and no result takes all memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use drillcore::arrow_array::*;
use drillcore::*;
use drillcore_sample::rng::Rng;
use drillcore_sql::{QueryOptions, predicate, query};

use crate::fixtures::{self, database_of, rows_of, texts};

const ROWS: i64 = 150;

/// Rows of extreme values of many types.
fn table() -> (Database, Table) {
    let ids = || 0..ROWS;
    let pick = |i: i64, n: usize| (i as usize / 2) % n;
    let ints = [i64::MIN, -1, 0, 1, 2_000_000, i64::MAX];
    let floats = [f64::NEG_INFINITY, -0.0, 0.5, 1e308, f64::NAN, f64::INFINITY];
    let texts =
        ["", "a", "äöü€", "12", "2024-02-30", "0x", "%", "(", "\u{0}", "aaaaaaaaaaaaaaaaaaaa"];
    let days = [i32::MIN, -1, 0, 20_000, i32::MAX];
    let prices = [-(10i128.pow(38) - 1), 0, 1, 10i128.pow(38) - 1];
    let mut words = builder::ListBuilder::new(builder::StringBuilder::new());
    for i in ids() {
        (0..i % 4).for_each(|n| words.values().append_value(texts[pick(i + n, texts.len())]));
        words.append(i % 7 != 0);
    }
    let n: Int64Array = ids().map(|i| (i % 11 != 0).then(|| ints[pick(i, 6)])).collect();
    let f: Float64Array = ids().map(|i| (i % 11 != 0).then(|| floats[pick(i, 6)])).collect();
    let s: StringArray =
        ids().map(|i| (i % 11 != 0).then(|| texts[pick(i, texts.len())])).collect();
    let ts: TimestampNanosecondArray =
        ids().map(|i| (i % 11 != 0).then(|| ints[pick(i, 6)])).collect();
    let day: Date32Array = ids().map(|i| (i % 11 != 0).then(|| days[pick(i, 5)])).collect();
    let price: Decimal128Array = ids().map(|i| Some(prices[pick(i, 4)])).collect();
    let b: BinaryArray = ids().map(|i| Some(texts[pick(i, texts.len())].as_bytes())).collect();
    let db = database_of(&rows_of([
        ("id", Arc::new(Int64Array::from_iter_values(ids())), false),
        ("n", Arc::new(n), true),
        ("f", Arc::new(f), true),
        ("s", Arc::new(s), true),
        ("ts", Arc::new(ts), true),
        ("day", Arc::new(day), true),
        ("price", Arc::new(price.with_precision_and_scale(38, 2).unwrap()), true),
        ("words", Arc::new(words.finish()), true),
        ("b", Arc::new(b), true),
    ]));
    let table = db.table("t").unwrap();
    (db, table)
}

fn run(db: &Database, text: &str) -> Result<usize> {
    let options = QueryOptions { memory_bytes: Some(256 << 20), ..Default::default() };
    let batches = query(&db.snapshot()?, text, &options)?;
    batches.map(|batch| Ok(batch?.num_rows())).sum()
}

fn passing(table: &Table, condition: &str) -> Result<u64> {
    let predicate = predicate(&table.schema(), condition)?;
    let selection = Selection { predicate: Some(predicate), ..Default::default() };
    table.snapshot()?.count(&selection)
}

/// Fails if a call panics, or says that the database is damaged.
fn is_answered(text: &str, call: impl FnOnce() -> Result<u64>) -> std::result::Result<u64, Error> {
    let answer = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| panic!("{text}: the panic crossed"));
    if let Err(error) = &answer {
        let is_about_the_database = matches!(
            error.kind(),
            ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::ReadOnly | ErrorKind::Closed
        );
        assert!(!is_about_the_database, "{text}: {:?}: {error}", error.kind());
    }
    answer
}

#[test]
fn calls_that_made_a_library_panic_end_in_a_typed_error_or_an_answer() {
    let (db, table) = table();
    let calls = [
        ("length(repeat(s, 400000)) >= 0", None),
        ("length(rpad(s, 30000, '')) >= 0", None),
        ("length(rpad(s, n, '')) >= 0", None),
        ("length(rpad(s, 1000000)) = 1000000", Some(ROWS as u64 * 10 / 11)),
        ("length(lpad('', 1000000, s)) >= 0", None),
        ("length(replace(s, 'a', repeat('b', 1000000))) >= 0", None),
        ("date_trunc('day', ts) is not null", None),
        ("array_position(words, 'a', n) > 0", None),
        ("cardinality(array_repeat(n, n)) > 0", None),
        ("cardinality(range(0, n)) > 0", None),
        ("length(s || repeat('x', 2000000000)) > 0", None),
        ("length(lpad(s, case when n < 2 then n else 2 end)) = 0", None),
    ];
    for (condition, expected) in calls {
        let found = is_answered(condition, || passing(&table, condition));
        if let Some(expected) = expected {
            let found = found.unwrap_or_else(|error| panic!("{condition}: {error}"));
            assert!(found.abs_diff(expected) < 20, "{condition}: {found}");
        }
        let text = format!("select * from t where {condition}");
        let _ = is_answered(&text, || run(&db, &text).map(|rows| rows as u64));
    }
    assert_eq!(run(&db, "select id from t").unwrap(), ROWS as usize, "the table is usable");
    assert_eq!(passing(&table, "n = 1").unwrap(), passing(&table, "n + 0 = 1").unwrap());
}

/// The maximum of no times is the lowest of all in the place of a null, which no day begins before.
#[test]
fn functions_answer_for_nulls_and_for_lengths_below_zero() {
    let rows = rows_of([
        ("id", Arc::new(Int64Array::from_iter_values(0..3)), false),
        ("n", Arc::new(Int64Array::from(vec![-1, 0, 2])), true),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![None, Some(5), None])), true),
    ]);
    let db = database_of(&rows);
    let days = "select count(*) from (select id, date_trunc('day', max(ts)) as d from t group by id) where d is null";
    assert_eq!(fixtures::numbers(&fixtures::run(&db, days)), [2]);
    for pad in ["lpad", "rpad"] {
        let lengths = format!("select length({pad}('abc', n)) from t order by id");
        assert_eq!(fixtures::numbers(&fixtures::run(&db, &lengths)), [0, 0, 2]);
        let lengths = format!("select length({pad}('abc', n, 'x')) from t order by id");
        assert_eq!(fixtures::numbers(&fixtures::run(&db, &lengths)), [0, 0, 2]);
    }
}

#[test]
fn a_result_that_is_too_large_for_all_rows_is_made_of_fewer_at_a_time() {
    let (_, table) = table();
    let is_long = "length(repeat(s, 4000000)) > 4000000";
    let expected = passing(&table, "length(s) > 1").unwrap();
    assert!(expected > 50);
    assert_eq!(passing(&table, is_long).unwrap(), expected);
}

#[test]
fn what_is_over_the_limit_is_an_error_of_memory_before_it_is_made() {
    let (db, table) = table();
    for text in [
        "select repeat('x', 1000000000)",
        "select repeat(s, 20000000) from t",
        "select lpad(s, 2000000, 'x') from t",
        "select rpad(s, 2000000, 'ä') from t",
        "select replace(repeat('a', 100000), 'a', repeat('b', 100000))",
        "select array_repeat(1, 1000000000)",
        "select range(0, 9000000000000000000)",
        "select generate_series(date '0001-01-01', date '9999-01-01', interval '1 nanosecond')",
        // Each constant would do, all together do not.
        "select length(s || repeat('x', 150000000)), length(s || repeat('y', 150000000)) from t",
    ] {
        let error = run(&db, text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{text}: {error}");
    }
    let condition = "s = repeat('x', 200000000) or s = repeat('y', 200000000)";
    let error = passing(&table, condition).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
}

/// Every function there is, over random arguments of many types.
#[test]
fn no_function_panics_across_the_face_whatever_it_is_given() {
    let (db, table) = table();
    let names = "select distinct routine_name from information_schema.routines \
                 where function_type = 'SCALAR' order by 1";
    let names = texts(&fixtures::run(&db, names), 0);
    let names: Vec<&str> = names.lines().collect();
    assert!(names.len() > 100, "{} functions", names.len());
    let arguments = [
        "id",
        "n",
        "f",
        "s",
        "ts",
        "day",
        "price",
        "words",
        "b",
        "0",
        "-1",
        "2000000",
        "9223372036854775807",
        "-9223372036854775808",
        "0.5",
        "1e308",
        "cast('nan' as double)",
        "''",
        "'day'",
        "'%'",
        "'('",
        "'2024-02-29'",
        "'UTC'",
        "null",
        "[1, 2]",
        "interval '1 month'",
        "interval '1 nanosecond'",
        "timestamp '1677-09-21T00:12:44'",
        "date '2024-02-29'",
        "true",
        "'äöü€'",
        "cast(n as int)",
    ];
    let is_long = std::env::var_os("DRILLCORE_LONG").is_some();
    let seed = if is_long { fresh_seed() } else { 1 };
    let rounds = if is_long { 100 } else { 2 };
    let mut rng = Rng::keyed(seed, 0);
    let mut answered = 0;
    for name in (0..rounds).flat_map(|_| &names) {
        for arity in 0..=3 {
            let arguments: Vec<&str> =
                (0..arity).map(|_| arguments[rng.below(arguments.len() as u64) as usize]).collect();
            let call = format!("{name}({})", arguments.join(", "));
            let text = format!("seed {seed}: select {call}");
            let found = is_answered(&text, || {
                run(&db, &format!("select {call} from t")).map(|rows| rows as u64)
            });
            answered += u64::from(found.is_ok());
            let condition = format!("{call} is not null");
            let text = format!("seed {seed}: where {condition}");
            let _ = is_answered(&text, || passing(&table, &condition));
        }
    }
    assert!(answered > 100, "most calls are refused before they run: {answered} answered");
    assert_eq!(run(&db, "select id from t").unwrap(), ROWS as usize, "the table is usable");
}
