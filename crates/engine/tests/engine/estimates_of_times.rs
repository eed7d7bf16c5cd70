//! Extremes and quantiles of dates and timestamps, and of integers that no float has: values of the column, to the last digit.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use drillcore::arrow_schema::{DataType, Field, Schema, TimeUnit};
use drillcore::*;

use crate::fixtures::named;

/// Noon of 4 July 2013, in seconds.
const NOON: i64 = 1_372_939_200;
const ROWS: i64 = 20_000;

/// The types of times, with the units of a second and a step between rows: odd, so that each digit counts.
fn types() -> Vec<(DataType, i64)> {
    let units = [
        (TimeUnit::Second, 1),
        (TimeUnit::Millisecond, 1_000),
        (TimeUnit::Microsecond, 1_000_000),
        (TimeUnit::Nanosecond, 1_000_000_000),
    ];
    let zones = [None, Some("UTC".into()), Some("America/New_York".into())];
    let of_unit = |(unit, second): (TimeUnit, i64)| {
        zones.clone().map(|zone| (DataType::Timestamp(unit, zone), second))
    };
    units.into_iter().flat_map(of_unit).collect()
}

fn times(data_type: &DataType, numbers: &[Option<i64>]) -> ArrayRef {
    let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    arrow_cast::cast(&numbers, data_type).unwrap()
}

/// A table with one column of values, of which every seventh is null, half of them on disk.
fn table(data_type: &DataType, number: impl Fn(i64) -> i64) -> (Database, Table) {
    let db = Database::in_memory(Options::default()).unwrap();
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("even", DataType::Boolean, false),
        Field::new("at", data_type.clone(), true),
    ]));
    let table = db.create_table("t", TableSpec::new(columns.clone(), ["id"])).unwrap();
    for part in 0..2 {
        let ids = || (0..ROWS).filter(move |id| id % 2 == part);
        let numbers: Vec<Option<i64>> = ids().map(|id| (id % 7 != 0).then(|| number(id))).collect();
        let evens: ArrayRef = Arc::new(ids().map(|id| Some(id % 2 == 0)).collect::<BooleanArray>());
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids()));
        let batch =
            RecordBatch::try_new(columns.clone(), vec![ids, evens, times(data_type, &numbers)]);
        table.append(&batch.unwrap(), OnError::Raise).unwrap();
        if part == 0 {
            db.flush().unwrap();
        }
    }
    (db, table)
}

fn estimate(table: &Table, aggregates: &[Aggregate], by: &[&str], stop: Stop) -> Result<Estimate> {
    table.snapshot()?.estimate(&EstimateRequest {
        aggregates: named(aggregates),
        by: by.iter().map(|name| name.to_string()).collect(),
        stop,
        seed: Some(3),
        ..Default::default()
    })
}

/// Without a draw, as zone maps know them; by groups and with an error to stop at from all rows.
#[test]
fn extremes_of_times_are_values_of_their_column_to_the_last_digit() {
    for (data_type, second) in types() {
        let number = |id: i64| NOON * second + (id * 7_919 % ROWS) * second / 3 + id % 2;
        let numbers =
            |parity: i64| (0..ROWS).filter(move |id| id % 7 != 0 && id % 2 == parity).map(number);
        let (_db, table) = table(&data_type, number);
        let (least, most) = (numbers(0).min().unwrap(), numbers(1).max().unwrap());
        let expected = |at: i64| times(&data_type, &[Some(at)]);
        let found =
            estimate(&table, &[Aggregate::min("at"), Aggregate::max("at")], &[], Stop::Rows(10))
                .unwrap();
        assert!(found.exact && found.sampled == 0 && found.scanned == 0, "{data_type}");
        for (aggregate, at) in found
            .aggregates
            .iter()
            .zip([least.min(numbers(1).min().unwrap()), most.max(numbers(0).max().unwrap())])
        {
            assert_eq!(aggregate.data_type, data_type);
            assert_eq!(aggregate.figures(), [0; 3].map(|_| expected(at)), "{data_type}");
        }
        let batch = found.to_batch();
        assert_eq!(batch.column_by_name("max(at)_high").unwrap().data_type(), &data_type);
        for stop in [Stop::Error(HalfWidth::Absolute(1.0)), Stop::Rows(u64::MAX)] {
            let found =
                estimate(&table, &[Aggregate::min("at"), Aggregate::max("at")], &["even"], stop)
                    .unwrap();
            assert!(found.exact);
            let by_parity = |at: fn(&mut dyn Iterator<Item = i64>) -> i64| {
                times(&data_type, &[1, 0].map(|parity| Some(at(&mut numbers(parity)))))
            };
            let [least, most] =
                [by_parity(|all| all.min().unwrap()), by_parity(|all| all.max().unwrap())];
            assert_eq!(&found.aggregates[0].figures()[0], &least, "{data_type}");
            assert_eq!(&found.aggregates[1].figures()[0], &most, "{data_type}");
        }
    }
}

#[test]
fn quantiles_of_times_are_times_between_times() {
    for (data_type, second) in types().into_iter().chain([(DataType::Date32, 0)]) {
        let (start, step) = if second == 0 { (15_890, 1) } else { (NOON * second, second) };
        // All minutes of some days, or all days of some years, in some order.
        let number = |id: i64| start + (id * 7_919 % ROWS) * step;
        let (_db, table) = table(&data_type, number);
        let mut all: Vec<i64> = (0..ROWS).filter(|id| id % 7 != 0).map(number).collect();
        all.sort_unstable();
        for share in [0.5, 0.9] {
            let aggregate = [Aggregate::quantile("at", share)];
            let truth = all[(share * (all.len() - 1) as f64) as usize];
            let exact = estimate(&table, &aggregate, &[], Stop::Rows(u64::MAX)).unwrap();
            let off = |number: i64| (number - truth).abs();
            let number = |values: &ArrayRef| {
                assert_eq!(values.data_type(), &data_type);
                let numbers = arrow_cast::cast(values, &DataType::Int64).unwrap();
                numbers.as_primitive::<Int64Type>().value(0)
            };
            // It may lie between two neighbours, and a float of nanoseconds is off by up to 128 of them.
            assert!(off(number(&exact.aggregates[0].figures()[0])) <= step + 256);
            for stop in [Stop::Rows(2_000), Stop::Error(HalfWidth::Absolute(600.0 * step as f64))] {
                let found = estimate(&table, &aggregate, &[], stop).unwrap();
                let [value, low, high] = found.aggregates[0].figures().map(|end| number(&end));
                assert_eq!(low < high, !found.exact, "{data_type}");
                // As far as the neighbour of the truth.
                assert!(low <= truth + step && truth <= high + step, "{data_type}");
                assert!(off(value) <= 1_000 * step, "{data_type}: {value} {truth}");
            }
        }
    }
}

#[test]
fn extremes_of_integers_have_all_their_digits() {
    let far = (1 << 60) + 1;
    let (_db, signed) =
        table(&DataType::Int64, |id| if id % 2 == 0 { far + id } else { -far - id });
    let found =
        estimate(&signed, &[Aggregate::min("at"), Aggregate::max("at")], &[], Stop::Rows(10))
            .unwrap();
    let expected = [-far - (ROWS - 3), far + ROWS - 2];
    for (at, expected) in expected.into_iter().enumerate() {
        let [value, ..] = found.aggregates[at].figures();
        assert_eq!(value.as_ref(), &Int64Array::from(vec![expected]) as &dyn Array);
    }
    assert_eq!(found.shown(0, 0)[0], "-1,152,921,504,606,866,974");

    let db = Database::in_memory(Options::default()).unwrap();
    let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::UInt64, false)]));
    let unsigned = db.create_table("t", TableSpec::new(columns.clone(), ["id"])).unwrap();
    let ids: ArrayRef = Arc::new(UInt64Array::from(vec![7, u64::MAX]));
    let batch = RecordBatch::try_new(columns, vec![ids]).unwrap();
    unsigned.append(&batch, OnError::Raise).unwrap();
    let found = estimate(&unsigned, &[Aggregate::max("id")], &[], Stop::Rows(1)).unwrap();
    let [value, ..] = found.aggregates[0].figures();
    assert_eq!(value.as_ref(), &UInt64Array::from(vec![u64::MAX]) as &dyn Array);
}

#[test]
fn times_are_shown_as_times_and_without_fractions_where_the_interval_is_wide() {
    let zone = Some("+02:00".into());
    let data_type = DataType::Timestamp(TimeUnit::Microsecond, zone);
    let (_db, table) = table(&data_type, |id| NOON * 1_000_000 + id * 1_000_001);
    let found = estimate(&table, &[Aggregate::max("at")], &[], Stop::Rows(10)).unwrap();
    assert_eq!(found.shown(0, 0), ["2013-07-04T19:33:18.019998+02:00"; 3]);
    let found = estimate(&table, &[Aggregate::median("at")], &[], Stop::Rows(500)).unwrap();
    let shown = found.shown(0, 0);
    assert!(shown.iter().all(|text| text.len() == "2013-07-04T16:46:39+02:00".len()), "{shown:?}");
    // Rounded outward.
    let [_, low, high] = found.aggregates[0].figures();
    let seconds = |end: &ArrayRef| {
        let end = arrow_cast::cast(end, &DataType::Int64).unwrap();
        end.as_primitive::<Int64Type>().value(0) as f64 / 1e6
    };
    let second = |text: &str| {
        let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let in_utc = DataType::Timestamp(TimeUnit::Second, Some("+00:00".into()));
        let at = arrow_cast::cast(&arrow_cast::cast(&text, &in_utc).unwrap(), &DataType::Int64);
        at.unwrap().as_primitive::<Int64Type>().value(0) as f64
    };
    assert!((0.0..1.0).contains(&(seconds(&low) - second(&shown[1]))), "{shown:?}");
    assert!((0.0..1.0).contains(&(second(&shown[2]) - seconds(&high))), "{shown:?}");
}

#[test]
fn what_makes_no_sense_of_times_is_refused_and_what_does_is_named() {
    let (_db, table) = table(&DataType::Timestamp(TimeUnit::Millisecond, None), |id| id);
    let refused = |aggregate: Aggregate, stop: Stop| {
        let error = estimate(&table, &[aggregate], &[], stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    for aggregate in [
        Aggregate::avg("at"),
        Aggregate::sum("at"),
        Aggregate::variance("at"),
        Aggregate::ratio("at", "id"),
    ] {
        let text = refused(aggregate, Stop::Rows(10));
        assert!(text.contains("of times, estimate min, max, median or quantile"), "{text}");
    }
    assert!(!refused(Aggregate::avg("even"), Stop::Rows(10)).contains("of times"));
    let text = refused(Aggregate::max("even"), Stop::Rows(10));
    assert!(
        text.contains("max needs numbers, dates or timestamps, but column \"even\" has type bool"),
        "{text}"
    );
    let text = refused(Aggregate::median("at"), Stop::Error(HalfWidth::Relative(0.05)));
    assert!(text.contains("give the error as a number of milliseconds"), "{text}");
    // Of extremes nothing is wide.
    let narrow = Stop::Error(HalfWidth::Relative(0.05));
    assert!(estimate(&table, &[Aggregate::max("at")], &["even"], narrow).unwrap().exact);
}

/// Where every value is null, and in a group without values.
#[test]
fn no_times_have_no_extremes_and_no_median() {
    let data_type = DataType::Timestamp(TimeUnit::Second, None);
    let db = Database::in_memory(Options::default()).unwrap();
    let columns = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("at", data_type.clone(), true),
    ]));
    let table = db.create_table("t", TableSpec::new(columns.clone(), ["id"])).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_new(columns, vec![ids, times(&data_type, &[None; 3])]).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    for by in [&[][..], &["id"]] {
        let asked = [Aggregate::max("at"), Aggregate::median("at")];
        let found = estimate(&table, &asked, by, Stop::Rows(u64::MAX)).unwrap();
        for (at, aggregate) in found.aggregates.iter().enumerate() {
            assert_eq!(
                aggregate.figures(),
                [0; 3].map(|_| times(&data_type, &vec![None; found.drawn.len()]))
            );
            assert_eq!(found.shown(at, 0), ["null"; 3]);
        }
    }
}
