//! Averages of columns in which few rows may carry most of the sum: what bounds a column is found wherever its
//! extreme values lie, and their intervals reach far enough.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::{of_keys, schema_of};

const ROWS: i64 = 20_000;
const EXTREME: f64 = 1e6;

fn floats_spec(merge: Merge) -> TableSpec {
    TableSpec::new(
        schema_of(&[("id", DataType::Int64, false), ("value", DataType::Float64, true)]),
        ["id"],
    )
    .merge(merge)
}

fn batch(rows: impl Iterator<Item = (i64, Option<f64>)>) -> RecordBatch {
    let (ids, values): (Vec<i64>, Vec<Option<f64>>) = rows.unzip();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(ids)), Arc::new(Float64Array::from(values))];
    RecordBatch::try_new(floats_spec(Merge::Append).columns, columns).unwrap()
}

/// Zeros, but one row.
fn value(id: i64, extreme_id: i64) -> Option<f64> {
    Some(if id == extreme_id { EXTREME } else { 0.0 })
}

fn average(table: &TableSnapshot, selection: Selection, n: u64, seed: u64) -> Estimate {
    let request = EstimateRequest {
        aggregates: vec![("mean".into(), Aggregate::avg("value"))],
        selection,
        stop: Stop::Rows(n),
        seed: Some(seed),
        ..Default::default()
    };
    table.estimate(&request).unwrap()
}

/// Almost no sample meets the one row that matters, and every interval holds, even that of ten rows.
fn check(table: &Table, extreme_id: i64) {
    let table = table.snapshot().unwrap();
    let truth = EXTREME / ROWS as f64;
    for seed in 0..20 {
        let estimate = average(&table, Selection::default(), 100, seed);
        let interval = estimate.aggregates[0].intervals[0];
        assert!(interval.contains(truth), "{interval:?}");
        assert_eq!((estimate.method.as_str(), estimate.notes.len()), ("bounded", 1));
        assert!(estimate.notes[0].contains("bounds, 0 to 1,000,000: more draws narrow it"));
        let few = average(&table, Selection::default(), 10, seed).aggregates[0].intervals[0];
        assert!(few.contains(truth) && 0.0 <= few.low && few.high <= EXTREME, "{few:?}");
        let part = of_keys(extreme_id.max(50) - 50, extreme_id + 2_000);
        let interval = average(&table, part, 100, seed).aggregates[0].intervals[0];
        assert!(interval.contains(EXTREME / 2_051.0), "{interval:?}");
    }
    let whole = average(&table, Selection::default(), ROWS as u64, 0);
    assert_eq!((whole.exact, whole.notes.len()), (true, 0));
    assert!((whole.aggregates[0].intervals[0].value - truth).abs() < 1e-9);
}

#[test]
fn the_largest_value_is_known_wherever_it_lies() {
    for merge in [Merge::Append, Merge::Upsert] {
        // In the first commit, which is flushed, and in the last.
        for extreme_id in [1_000, 1_003] {
            let folder = tempfile::tempdir().unwrap();
            let db = Database::open(folder.path(), Options::default()).unwrap();
            let table = db.create_table("t", floats_spec(merge.clone())).unwrap();
            for part in 0..4 {
                let rows = (0..ROWS).filter(|id| id % 4 == part);
                let rows = batch(rows.map(|id| (id, value(id, extreme_id))));
                table.append(&rows, OnError::Raise).unwrap();
                if part == 1 {
                    db.flush().unwrap();
                }
            }
            check(&table, extreme_id);
            db.compact().unwrap();
            check(&table, extreme_id);
            db.close().unwrap();
            let db = Database::open(folder.path(), Options::default()).unwrap();
            check(&db.table("t").unwrap(), extreme_id);
        }
    }
}

#[test]
fn a_range_has_bounds_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", floats_spec(Merge::Append)).unwrap();
    table.append(&batch((0..ROWS).map(|id| (id, value(id, 1_000)))), OnError::Raise).unwrap();
    db.compact().unwrap();
    let table = table.snapshot().unwrap();
    let far_off = average(&table, of_keys(10_000, ROWS), 100, 1);
    // Between equal bounds there is one number.
    assert_eq!((far_off.exact, far_off.aggregates[0].intervals[0]), (true, Interval::exact(0.0)));
}

/// One value that is not finite leaves t in place, and the result says so. Without any value there is no average.
#[test]
fn a_column_without_bounds_has_t_intervals_that_say_so() {
    for odd in [Some(f64::NAN), Some(f64::INFINITY), None] {
        for is_flushed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let db = Database::open(folder.path(), Options::default()).unwrap();
            let table = db.create_table("t", floats_spec(Merge::Append)).unwrap();
            let is_all_null = odd.is_none();
            let rows = (0..ROWS).map(|id| {
                let usual = value(id, 1_000).filter(|_| !is_all_null);
                (id, if id == 7 { odd } else { usual })
            });
            table.append(&batch(rows), OnError::Raise).unwrap();
            if is_flushed {
                db.flush().unwrap();
            }
            let estimate = average(&table.snapshot().unwrap(), Selection::default(), 100, 3);
            assert_eq!(estimate.method, if is_all_null { "exact" } else { "t" });
            assert_eq!(estimate.asymptotic, !is_all_null);
            assert_eq!(estimate.notes.len(), usize::from(!is_all_null), "{:?}", estimate.notes);
        }
    }
}

/// Statistics pages are looked at by an estimate of more rows than there are pages, and by no other; once they are in
/// memory the second one reads none.
#[test]
fn bounds_cost_no_more_pages_than_rows_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", floats_spec(Merge::Append)).unwrap();
    for part in 0..120 {
        let rows = (0..ROWS).map(|id| (part * ROWS + id, Some((id % 1_000) as f64)));
        table.append(&batch(rows), OnError::Raise).unwrap();
    }
    db.compact().unwrap();
    let table = table.snapshot().unwrap();
    let read = || db.stats().unwrap().statistics_pages_read;
    let before = read();
    average(&table, Selection::default(), 2, 1);
    assert_eq!(read(), before, "two rows are not worth a look");
    average(&table, Selection::default(), 1_000, 1);
    let looked_at = read() - before;
    assert!((3..100).contains(&looked_at), "{looked_at}");
    average(&table, Selection::default(), 1_000, 2);
    assert_eq!(read() - before, looked_at);
}
