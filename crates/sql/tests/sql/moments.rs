//! Times in columns of a zone: a moment is the same however it is written, and a clock's reading is of that zone.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::compute::cast;
use drillcore::arrow_array::*;
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sql::{QueryOptions, predicate};

use crate::fixtures::*;
use crate::query::refused;

const HOUR: i64 = 3_600;
/// 2020-01-01T00:00:00Z.
const NEW_YEAR: i64 = 1_577_836_800;

/// `t` with 24 hours before `moment` and 24 from it on, in New York, in UTC, and in no zone, where they are those of UTC.
fn hours_around(moment: i64) -> (Database, Table) {
    let db = Database::in_memory(Options::default()).unwrap();
    let seconds: Vec<i64> = (-24..24).map(|hour| moment + hour * HOUR).collect();
    let in_zone = |zone: Option<&str>| -> ArrayRef {
        Arc::new(TimestampSecondArray::from(seconds.clone()).with_timezone_opt(zone))
    };
    let rows = rows_of([
        ("k", Arc::new(Int64Array::from_iter_values(-24..24)), false),
        ("new_york", in_zone(Some("America/New_York")), false),
        ("utc", in_zone(Some("UTC")), false),
        ("clock", in_zone(None), false),
        ("text", cast(&in_zone(None), &DataType::Utf8).unwrap(), false),
    ]);
    let table = add_table(&db, "t", &rows);
    (db, table)
}

fn check(db: &Database, table: &Table, condition: &str, expected: i64) {
    let predicate = Some(predicate(&table.schema(), condition).unwrap());
    let selection = Selection { predicate, ..Selection::default() };
    let found = table.snapshot().unwrap().count(&selection).unwrap();
    assert_eq!(found, expected as u64, "{condition}");
    let query = format!("select sum(case when {condition} then 1 else 0 end) from t");
    assert_eq!(numbers(&run(db, &query)), [expected], "{condition}");
}

#[test]
fn a_time_with_an_offset_is_the_same_moment_in_every_zone() {
    let (db, table) = hours_around(NEW_YEAR);
    let moments = [
        "'2020-01-01T00:00:00Z'",
        "timestamp '2020-01-01T00:00:00Z'",
        "timestamp '2019-12-31T19:00:00-05:00'",
        "timestamptz '2020-01-01T00:00:00Z'",
        "cast('2020-01-01T01:00:00+01:00' as timestamp with time zone)",
        "to_timestamp('2020-01-01T00:00:00Z')",
    ];
    for moment in moments {
        for column in ["new_york", "utc"] {
            check(&db, &table, &format!("{column} >= {moment}"), 24);
            check(&db, &table, &format!("{moment} = {column}"), 1);
            check(&db, &table, &format!("{column} in ({moment})"), 1);
            check(&db, &table, &format!("{column} between {moment} and {moment}"), 1);
        }
    }
    // A clock's reading is of the column's zone: five hours later in New York.
    for reading in ["'2020-01-01T00:00:00'", "timestamp '2020-01-01'"] {
        for (column, expected) in [("new_york", 19), ("utc", 24), ("clock", 24)] {
            check(&db, &table, &format!("{column} >= {reading}"), expected);
        }
    }
}

#[test]
fn now_is_a_moment() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let (db, table) = hours_around(now + HOUR / 2);
    for column in ["new_york", "utc", "clock"] {
        for now in ["now()", "current_timestamp"] {
            check(&db, &table, &format!("{column} > {now}"), 24);
            check(&db, &table, &format!("{now} - interval '1 hour' < {column}"), 25);
            check(&db, &table, &format!("{column} - {now} > interval '0 hours'"), 24);
            check(&db, &table, &format!("{now} - {column} > interval '0 hours'"), 24);
        }
    }
    check(&db, &table, "new_york - utc = interval '0 hours'", 48);
    for difference in ["now() - new_york", "new_york - now()", "utc - new_york"] {
        let rows = run(&db, &format!("select {difference} as apart from t"));
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 48, "{difference}");
    }
    // A clock's readings stay what they are.
    check(&db, &table, "to_timestamp(text) = clock", 48);
    check(&db, &table, "to_timestamp(text) > now()", 24);
    assert_eq!(run(&db, "select to_timestamp(text) from t")[0].num_columns(), 1);
}

#[test]
fn what_is_apart_by_days_is_longer_than_hours() {
    let (db, table) = hours_around(NEW_YEAR);
    for (interval, later) in [("1 day", 0), ("12 hours", 11), ("0 days", 23), ("-1 days", 47)] {
        let condition = format!("clock - timestamp '2020-01-01' > interval '{interval}'");
        check(&db, &table, &condition, later);
    }
    for column in ["new_york", "utc", "clock"] {
        check(&db, &table, &format!("now() - {column} > interval '300 days'"), 48);
        check(&db, &table, &format!("{column} - now() < interval '1 day'"), 48);
    }
}

#[test]
fn what_a_clock_shows_is_of_the_zone_of_the_column() {
    let (db, table) = hours_around(NEW_YEAR);
    for clock in [
        "cast(new_york as timestamp)",
        "try_cast(new_york as timestamp(3))",
        "new_york::timestamp(0)",
    ] {
        check(&db, &table, &format!("{clock} = clock - interval '5 hours'"), 48);
        check(&db, &table, &format!("{clock} >= timestamp '2020-01-01'"), 19);
        check(&db, &table, &format!("cast({clock} as date) = cast(new_york as date)"), 48);
        check(
            &db,
            &table,
            &format!("extract(hour from {clock}) = extract(hour from new_york)"),
            48,
        );
        let back = format!("arrow_cast({clock}, 'Timestamp(s, \"America/New_York\")')");
        check(&db, &table, &format!("{back} = new_york"), 48);
    }
    let rows =
        run(&db, "select cast(new_york as timestamp), max(cast(utc as timestamp)) over () from t");
    assert_eq!(rows[0].schema().field(0).name(), "t.new_york");
    // A date is its midnight there.
    for (column, later) in [("new_york", 19), ("utc", 24), ("clock", 24)] {
        check(&db, &table, &format!("{column} >= date '2020-01-01'"), later);
        check(&db, &table, &format!("cast({column} as date) >= date '2020-01-01'"), later);
        check(&db, &table, &format!("{column} = date '2020-01-01'"), 1);
        check(
            &db,
            &table,
            &format!("{column} between date '2020-01-01' and date '2020-01-02'"),
            later.min(25),
        );
        check(&db, &table, &format!("{column} in (date '2020-01-01', date '2019-12-31')"), 2);
        check(&db, &table, &format!("{column} = cast(cast({column} as date) as timestamp)"), 2);
    }
    let joined = "select count(*) from t a join (select distinct cast(clock as date) as day from t) d on d.day = a.new_york";
    assert_eq!(numbers(&run(&db, joined)), [2]);
}

#[test]
fn times_that_a_clock_does_not_show_once_need_an_offset() {
    let (db, table) = hours_around(NEW_YEAR);
    for time in ["2020-03-08 02:30:00", "2020-11-01 01:30:00"] {
        for time in [
            format!("'{time}'"),
            format!("timestamp '{time}'"),
            format!("cast('{time}' as timestamp(6))"),
        ] {
            let condition = format!("new_york < {time}");
            let error = predicate(&table.schema(), &condition).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{condition}");
            assert!(error.to_string().contains("add the offset from UTC"), "{condition}: {error}");
            let query = format!("select count(*) from t where {condition}");
            let error = answer(&db, &query, &QueryOptions::default()).unwrap_err();
            assert!(error.to_string().contains("add the offset from UTC"), "{query}: {error}");
        }
    }
    check(&db, &table, "new_york < '2020-03-08 02:30:00-05:00'", 48);
}

#[test]
fn a_day_begins_when_its_clocks_show_it_first() {
    let db = Database::in_memory(Options::default()).unwrap();
    // Skipped at midnight, skipped at midnight, shown twice, skipped as a whole.
    for (zone, day, first) in [
        ("Africa/Cairo", "2024-04-26", "2024-04-25T22:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
        ("America/Havana", "2020-11-01", "2020-11-01T04:00:00Z"),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
        ("Europe/Berlin", "2020-03-29", "2020-03-28T23:00:00Z"),
        ("+05:30", "2020-01-01", "2019-12-31T18:30:00Z"),
    ] {
        let at = |shift: i64| {
            format!(
                "arrow_cast('{first}', 'Timestamp(s, \"{zone}\")') + interval '{shift} seconds'"
            )
        };
        for (shift, is_of_day) in [(-1, false), (0, true), (1, true)] {
            let query = format!(
                "select cast({at} >= date '{day}' as int), cast(cast({at} as date) >= date '{day}' as int) as b",
                at = at(shift)
            );
            let rows = run(&db, &query);
            let expected = [i64::from(is_of_day)];
            assert_eq!([numbers(&rows), numbers_in(&rows, 1)], [expected, expected], "{query}");
        }
    }
}

#[test]
fn times_that_no_clock_shows_are_null_or_out_of_range() {
    let db = Database::in_memory(Options::default()).unwrap();
    let last = "arrow_cast(9223372036854775807, 'Timestamp(ns, \"Europe/Berlin\")')";
    let beyond = refused(&db, &format!("select cast({last} as timestamp)"));
    assert_eq!(beyond.kind(), ErrorKind::OutOfRange, "{beyond}");
    for fits in ["timestamp(6)", "timestamp(0)"] {
        let rows = run(&db, &format!("select count(cast({last} as {fits}))"));
        assert_eq!(numbers(&rows), [1], "{fits}");
    }
    for zone in ["UTC", "Europe/Berlin"] {
        let far = format!("arrow_cast(9000000000000000000, 'Timestamp(us, \"{zone}\")')");
        for cast in ["timestamp", "timestamp(9)"] {
            let rows = run(&db, &format!("select count(try_cast({far} as {cast}))"));
            assert_eq!(numbers(&rows), [0], "{zone} {cast}");
        }
    }
    // The digits of UTC are those of its clocks, so the key is searched as it is.
    let columns = rows_of([(
        "at",
        Arc::new(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC")),
        false,
    )]);
    let plan = run(
        &database_of(&columns),
        "explain select * from t where cast(at as timestamp(6)) >= timestamp '2020-01-01'",
    );
    assert!(texts(&plan, 1).contains("range="), "{}", texts(&plan, 1));
}
