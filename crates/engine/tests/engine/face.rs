//! The public face, end to end: what is appended comes back by every read, from memory and from disk.

use std::sync::Arc;

use drillcore::arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use drillcore::arrow_schema::{DataType, Schema};
use drillcore::*;

use crate::fixtures::{between, ids, schema_of};

fn schema() -> Arc<Schema> {
    schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, true),
        ("delay", DataType::Float64, true),
    ])
}

fn cities_spec() -> TableSpec {
    TableSpec::new(schema(), ["id"]).set("city")
}

/// Row `id` is in city `c{id % 7}`, none for every seventh, and has delay `id / 2`.
fn batch(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let city = |id: i64| (id % 7 != 0).then(|| format!("c{}", id % 7));
    let cities: StringArray = ids.clone().map(city).collect();
    let delays: Float64Array = ids.clone().map(|id| Some(id as f64 / 2.0)).collect();
    let ids: Int64Array = ids.map(Some).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(cities), Arc::new(delays)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn scan(table: &TableSnapshot, request: ScanRequest) -> Vec<i64> {
    table.scan(request).unwrap().flat_map(|batch| ids(&batch.unwrap())).collect()
}

fn city(name: Option<&str>) -> Option<ArrayRef> {
    Some(Arc::new(StringArray::from(vec![name])))
}

fn check_reads(table: &Table, rows: i64) {
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.rows().unwrap(), rows as u64);
    assert_eq!(scan(&snapshot, ScanRequest::default()), (0..rows).collect::<Vec<_>>());
    let reversed = ScanRequest { reverse: true, limit: Some(10), ..Default::default() };
    assert_eq!(scan(&snapshot, reversed), (rows - 10..rows).rev().collect::<Vec<_>>());

    let between = Between { closed: Closed::Left, ..between(100, 2_000) };
    let range = Selection { between: Some(between), sets: None, ..Default::default() };
    assert_eq!(snapshot.count(&range).unwrap(), 1_900);
    let in_set = Selection { sets: city(Some("c3")), ..range.clone() };
    let expected: Vec<i64> = (100..2_000).filter(|id| id % 7 == 3).collect();
    assert_eq!(snapshot.count(&in_set).unwrap(), expected.len() as u64);
    for reverse in [false, true] {
        let request = ScanRequest { selection: in_set.clone(), reverse, ..Default::default() };
        let mut found = scan(&snapshot, request);
        if reverse {
            found.reverse();
        }
        assert_eq!(found, expected);
    }
    let nowhere = Selection { between: None, sets: city(None), ..Default::default() };
    assert_eq!(
        snapshot.count(&nowhere).unwrap(),
        (0..rows).filter(|id| id % 7 == 0).count() as u64
    );

    let sample =
        SampleRequest { n: 200, selection: in_set.clone(), seed: Some(3), ..Default::default() };
    let drawn = ids(&snapshot.sample(&sample).unwrap());
    assert_eq!(drawn, ids(&snapshot.sample(&sample).unwrap()), "one seed, one sample");
    let mut distinct = drawn.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 200);
    assert!(distinct.iter().all(|id| expected.contains(id)));

    let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, -1, rows - 1, rows]));
    let found = snapshot.get(&[keys], None).unwrap();
    assert_eq!(found.positions, [Some(0), None, Some(1), None]);
    assert_eq!(ids(&found.rows), [5, rows - 1]);

    let sets = snapshot.sets().unwrap();
    assert_eq!(sets.rows.iter().sum::<u64>(), rows as u64);
    assert_eq!(sets.values.len(), 7);
    assert!(sets.values.is_null(0), "the rows without a value come first");

    let request = EstimateRequest {
        aggregates: vec![("n".into(), Aggregate::Count), ("delay".into(), Aggregate::avg("delay"))],
        selection: range,
        stop: Stop::Rows(500),
        seed: Some(1),
        ..Default::default()
    };
    let estimate = snapshot.estimate(&request).unwrap();
    assert_eq!(estimate.aggregates[0].intervals[0], Interval::exact(1_900.0));
    let delay = estimate.aggregates[1].intervals[0];
    let exact = (100 + 1_999) as f64 / 4.0;
    assert!(delay.low < exact && exact < delay.high, "{delay:?} holds {exact}");
}

#[test]
fn rows_come_back_by_every_read_from_memory_disk_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let options = Options { memory_bytes: 1 << 20, ..Default::default() };
    let rows = 80_000;
    {
        let db = Database::open(&path, options.clone()).unwrap();
        let table = db.create_table("t", cities_spec()).unwrap();
        for start in (0..rows).step_by(500) {
            // Shuffled within and between batches: 271 and the row count have no common factor.
            let batch = batch((start..start + 500).map(|i| i * 271 % rows));
            assert_eq!(table.append(&batch, OnError::Raise).unwrap().rows, 500);
        }
        check_reads(&table, rows);
        assert!(db.stats().unwrap().writer.unwrap().flushes > 0, "the table outgrew its budget");
    }
    let db = Database::open(&path, options.clone()).unwrap();
    check_reads(&db.table("t").unwrap(), rows);
    db.flush().unwrap();
    check_reads(&db.table("t").unwrap(), rows);
    db.compact().unwrap();
    check_reads(&db.table("t").unwrap(), rows);
    let report = db.verify().unwrap();
    assert_eq!((report.segments, report.rows, report.faults), (1, rows as u64, vec![]));
    db.close().unwrap();
    assert_eq!(db.tables().unwrap_err().kind(), ErrorKind::Closed);
    let db = Database::open(&path, options).unwrap();
    check_reads(&db.table("t").unwrap(), rows);
}

#[test]
fn sets_given_in_another_type_than_the_column_are_the_same_sets_to_an_estimate() {
    let db = Database::in_memory(Options::default()).unwrap();
    let columns = schema_of(&[("id", DataType::Int64, false), ("city", DataType::Int32, false)]);
    let table =
        db.create_table("t", TableSpec { columns: columns.clone(), ..cities_spec() }).unwrap();
    let ids: Int64Array = (0..100).map(Some).collect();
    let cities: Int32Array = (0..100).map(|id| Some(id % 7)).collect();
    let batch = RecordBatch::try_new(columns, vec![Arc::new(ids), Arc::new(cities)]).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    let sets: ArrayRef = Arc::new(Int64Array::from(vec![3, 5]));
    let request = EstimateRequest {
        aggregates: vec![("n".into(), Aggregate::Count)],
        by: vec!["city".into()],
        selection: Selection { between: None, sets: Some(sets), ..Default::default() },
        stop: Stop::Rows(1),
        ..Default::default()
    };
    let snapshot = table.snapshot().unwrap();
    let estimate = snapshot.estimate(&request).unwrap();
    assert!(estimate.exact, "{}", estimate.method);
    let counts: Vec<f64> = estimate.aggregates[0].intervals.iter().map(|i| i.value).collect();
    assert_eq!(counts, [14.0, 14.0]);
}

/// A share of one in 49, times 49, is a little less than one in floating point.
#[test]
fn once_all_rows_are_drawn_the_count_of_a_group_is_a_whole_number() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", cities_spec()).unwrap();
    table.append(&batch(0..49), OnError::Raise).unwrap();
    let request = EstimateRequest {
        aggregates: vec![("n".into(), Aggregate::Count)],
        by: vec!["id".into()],
        stop: Stop::Rows(49),
        ..Default::default()
    };
    let snapshot = table.snapshot().unwrap();
    let estimate = snapshot.estimate(&request).unwrap();
    assert_eq!(estimate.aggregates[0].intervals, [Interval::exact(1.0); 49]);
}
