//! Writers that gather rows: every row that any thread added is committed once, however the writer ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_select::concat::concat_batches;
use drillcore::arrow_array::builder::{ListBuilder, StringBuilder};
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use drillcore::*;

use crate::fixtures::{all_ids, schema_of};

fn columns() -> SchemaRef {
    schema_of(&[("id", DataType::Int64, false), ("carrier", DataType::Utf8, true)])
}

fn rows(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Int64Array = ids.into_iter().map(Some).collect();
    let carriers: StringArray = (0..ids.len()).map(|_| Some("UA")).collect();
    RecordBatch::try_new(columns(), vec![Arc::new(ids), Arc::new(carriers)]).unwrap()
}

fn database() -> Database {
    Database::in_memory(Options::default()).unwrap()
}

fn table(db: &Database, name: &str) -> Table {
    db.create_table(name, TableSpec::new(columns(), ["id"]).set("carrier")).unwrap()
}

/// Commits only when asked to.
fn never() -> WriterOptions {
    WriterOptions {
        rows: usize::MAX / 2,
        seconds: 1e9,
        bytes: Some(u64::MAX),
        ..Default::default()
    }
}

#[test]
fn rows_of_many_threads_are_all_stored_once_and_in_the_order_of_each_thread() {
    let db = database();
    let table = table(&db, "t");
    let writer = table.writer(WriterOptions { rows: 100, ..Default::default() }).unwrap();
    const EACH: i64 = 2_000;
    thread::scope(|scope| {
        for thread in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                for row in 0..EACH {
                    writer.add(&rows([thread * EACH + row])).unwrap();
                }
            });
        }
    });
    let lsn = writer.close().unwrap();
    assert_eq!(all_ids(&table.snapshot().unwrap()), (0..4 * EACH).collect::<Vec<_>>());
    let stats = writer.stats();
    assert_eq!((stats.rows, stats.failed_rows, stats.waiting_rows), (4 * EACH as u64, 0, 0));
    assert!(stats.commits >= 80 && stats.commits < 4 * EACH as u64, "{stats:?}");
    assert!(table.snapshot().unwrap().lsn() >= lsn);
}

#[test]
fn a_commit_has_as_many_rows_as_the_limit_says_and_an_add_is_not_split() {
    let db = database();
    let table = table(&db, "t");
    let options = WriterOptions { rows: 10, ..never() };
    let writer = table.writer(options).unwrap();
    for first in [0, 4, 8] {
        writer.add(&rows(first..first + 4)).unwrap();
    }
    writer.add(&rows(12..112)).unwrap();
    writer.flush().unwrap();
    // 4 + 4, then 4, which 100 more do not fit beside, then 100.
    assert_eq!(writer.stats().commits, 3);
    assert_eq!(all_ids(&table.snapshot().unwrap()).len(), 112);
}

#[test]
fn a_row_is_committed_once_it_is_old_enough_and_by_its_bytes() {
    let db = database();
    let table = table(&db, "t");
    let writer = table.writer(WriterOptions { seconds: 0.02, ..never() }).unwrap();
    writer.add(&rows([1])).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while all_ids(&table.snapshot().unwrap()).is_empty() {
        assert!(Instant::now() < until, "the row is not committed");
        thread::sleep(Duration::from_millis(1));
    }
    let by_bytes = table.writer(WriterOptions { bytes: Some(64), ..never() }).unwrap();
    by_bytes.add(&rows(2..102)).unwrap();
    while all_ids(&table.snapshot().unwrap()).len() < 101 {
        assert!(Instant::now() < until, "the rows are not committed");
        thread::sleep(Duration::from_millis(1));
    }
    let waited = table.writer(WriterOptions { seconds: 3600.0, ..never() }).unwrap();
    waited.add_with(&rows([200]), OnError::Raise, Duration::from_secs(3600)).unwrap();
    while all_ids(&table.snapshot().unwrap()).len() < 102 {
        assert!(Instant::now() < until, "the row that waited is not committed");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn dropping_a_writer_commits_what_was_added_and_keeps_the_database_until_then() {
    let folder = tempfile::tempdir().unwrap();
    {
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let writer = table(&db, "t").writer(never()).unwrap();
        writer.add(&rows(0..5)).unwrap();
        drop(db);
        writer.add(&rows(5..10)).unwrap();
    }
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(all_ids(&db.table("t").unwrap().snapshot().unwrap()), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_row_that_does_not_fit_is_refused_at_its_add_and_the_others_stay() {
    let db = database();
    let table = table(&db, "t");
    let writer = table.writer(never()).unwrap();
    let wrong: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let wrong = RecordBatch::try_from_iter([("id", wrong)]).unwrap();
    let unknown: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let unknown = RecordBatch::try_from_iter([("id", unknown.clone()), ("nmae", unknown)]).unwrap();
    writer.add(&rows([1])).unwrap();
    assert_eq!(writer.add(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(writer.add(&unknown).unwrap_err().kind(), ErrorKind::NotFound);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None, Some(3)]));
    let null = RecordBatch::try_from_iter([("id", null)]).unwrap();
    assert_eq!(writer.add(&null).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let skips = table.writer(WriterOptions { on_error: OnError::Skip, ..never() }).unwrap();
    assert_eq!(skips.add(&null).unwrap()[0].row, 1);
    writer.close().unwrap();
    skips.close().unwrap();
    assert_eq!(all_ids(&table.snapshot().unwrap()), [1, 2, 3]);
    assert_eq!((skips.stats().rows, skips.stats().failed_rows), (2, 1));
}

/// What two tables have of one add is in one commit, at every moment.
#[test]
fn an_add_to_several_tables_is_never_split_over_two_commits() {
    let db = database();
    let (one, two) = (table(&db, "one"), table(&db, "two"));
    let writer = db.writer(WriterOptions { rows: 7, ..Default::default() }).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..3_000 {
                let row = rows([id]);
                writer.add(&[("one", &row), ("two", &row)]).unwrap();
            }
            writer.close().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let now = db.snapshot().unwrap();
            let rows = |name: &str| now.table(name).unwrap().rows().unwrap();
            assert_eq!(rows("one"), rows("two"));
        }
    });
    assert_eq!(
        (all_ids(&one.snapshot().unwrap()).len(), all_ids(&two.snapshot().unwrap()).len()),
        (3_000, 3_000)
    );
}

#[test]
fn an_add_of_which_one_table_refuses_a_row_is_left_out_whole() {
    let db = database();
    let (one, two) = (table(&db, "one"), table(&db, "two"));
    let writer = db.writer(WriterOptions { on_error: OnError::Skip, ..never() }).unwrap();
    let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let null = RecordBatch::try_from_iter([("id", null)]).unwrap();
    assert!(writer.add(&[("one", &rows([1])), ("two", &rows([1]))]).unwrap().is_empty());
    let rejected = writer.add(&[("one", &rows([2])), ("two", &null)]).unwrap();
    assert_eq!((rejected[0].0, rejected[0].1.row), (1, 1));
    assert_eq!(
        writer.add(&[("one", &rows([3])), ("one", &rows([3]))]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    writer.close().unwrap();
    assert_eq!(
        (all_ids(&one.snapshot().unwrap()), all_ids(&two.snapshot().unwrap())),
        (vec![1], vec![1])
    );
    assert_eq!((writer.stats().rows, writer.stats().failed_rows), (2, 3));
}

#[test]
fn rows_for_a_table_that_was_dropped_fail_and_those_beside_them_stay() {
    let db = database();
    let kept = table(&db, "kept");
    table(&db, "gone");
    let writer = db.writer(never()).unwrap();
    for id in 0..20 {
        writer.add(&[("kept", &rows([id]))]).unwrap();
        if id == 11 {
            writer.add(&[("gone", &rows([100])), ("kept", &rows([100]))]).unwrap();
        }
    }
    db.drop_table("gone").unwrap();
    let error = writer.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("2 rows added earlier"), "{error}");
    assert_eq!(all_ids(&kept.snapshot().unwrap()), (0..20).collect::<Vec<_>>());
    let failed: HashSet<_> = writer.take_failed().into_iter().map(|failed| failed.table).collect();
    assert_eq!(failed, HashSet::from(["gone".to_string(), "kept".to_string()]));
    assert!(writer.take_failed().is_empty());
    writer.add(&[("kept", &rows([20]))]).unwrap();
    writer.close().unwrap();
    assert_eq!(
        all_ids(&kept.snapshot().unwrap()).len(),
        21,
        "an error is reported once, and the writer goes on"
    );
}

#[test]
fn a_column_added_meanwhile_does_not_disturb_it() {
    let db = database();
    let table = table(&db, "t");
    let writer = table.writer(never()).unwrap();
    writer.add(&rows([1])).unwrap();
    table.add_column("gate", &DataType::Int64).unwrap();
    writer.add(&rows([2])).unwrap();
    let (id, gate): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![3])), Arc::new(Int64Array::from(vec![7])));
    writer.add(&RecordBatch::try_from_iter([("id", id), ("gate", gate)]).unwrap()).unwrap();
    writer.close().unwrap();
    assert_eq!(all_ids(&table.snapshot().unwrap()), [1, 2, 3]);
}

#[test]
fn an_add_waits_while_two_batches_are_full_and_an_interrupt_ends_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let table = table(&db, "t");
    let hold = db.hold_maintenance();
    let writer = table.writer(WriterOptions { rows: 500, ..never() }).unwrap();
    let end = Instant::now() + Duration::from_millis(800);
    let impatient = writer.interrupted_by(Interrupt::new(Arc::new(move || Instant::now() > end)));
    let mut added = 0;
    // Nothing leaves memory, so commits wait, and soon adds do.
    let error = loop {
        match impatient.add(&rows(added..added + 500)) {
            Ok(_) => added += 500,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(writer.stats().waits >= 1);
    assert!(writer.stats().waiting_rows <= 1_000, "two batches: {:?}", writer.stats());
    drop(hold);
    writer.close().unwrap();
    assert_eq!(all_ids(&table.snapshot().unwrap()), (0..added).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let db = database();
    let table = table(&db, "t");
    let refused = |options| table.writer(options).err().unwrap().to_string();
    assert!(refused(WriterOptions { rows: 0, ..never() }).contains("rows must be at least 1"));
    assert!(refused(WriterOptions { bytes: Some(0), ..never() }).contains("bytes must be"));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(WriterOptions { seconds, ..never() }).contains("a positive number"));
    }
    let writer = table.writer(never()).unwrap();
    writer.close().unwrap();
    writer.close().unwrap();
    assert_eq!(writer.add(&rows([1])).unwrap_err().kind(), ErrorKind::Closed);
    db.close().unwrap();
    assert_eq!(table.writer(never()).err().unwrap().kind(), ErrorKind::Closed);
}

#[test]
fn a_reader_has_no_writer() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    table(&db, "t");
    let reader = Database::open_read_only(folder.path(), ReadOptions::default()).unwrap();
    assert_eq!(reader.writer(never()).err().unwrap().kind(), ErrorKind::ReadOnly);
    let error = reader.table("t").unwrap().writer(never()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

/// Small adds are copied together, whatever their types, and in turns with large ones and with lists, which are not.
#[test]
fn rows_come_through_as_they_are_however_few_are_added_at_once() {
    let types = [
        DataType::Boolean,
        DataType::UInt8,
        DataType::Float32,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Utf8,
        DataType::Binary,
        DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
    ];
    const ROWS: usize = 3_000;
    let texts: StringArray =
        (0..ROWS).map(|row| (row % 7 != 0).then(|| format!("text {row}"))).collect();
    let numbers: Int64Array =
        (0..ROWS as i64).map(|row| (row % 5 != 0).then_some(row % 200)).collect();
    let values = |of: &DataType| -> ArrayRef {
        match of {
            DataType::Utf8 | DataType::Binary => arrow_cast::cast(&texts, of).unwrap(),
            DataType::List(_) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                (0..ROWS).for_each(|row| match row % 3 {
                    0 => lists.append_null(),
                    items => lists.append_value(vec![Some("a"); items]),
                });
                Arc::new(lists.finish())
            }
            // Numbers become times through the number that they are stored as.
            DataType::Date32 => {
                let days = arrow_cast::cast(&numbers, &DataType::Int32).unwrap();
                arrow_cast::cast(&days, of).unwrap()
            }
            _ => arrow_cast::cast(&numbers, of).unwrap(),
        }
    };
    for with_lists in [false, true] {
        let types = &types[..types.len() - usize::from(!with_lists)];
        let named = types.iter().enumerate().map(|(at, of)| (format!("c{at}"), values(of)));
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let batch = RecordBatch::try_from_iter_with_nullable(
            [("id".to_string(), ids, false)]
                .into_iter()
                .chain(named.map(|(name, values)| (name, values, true))),
        )
        .unwrap();
        let db = database();
        let table = db.create_table("t", TableSpec::new(batch.schema(), ["id"])).unwrap();
        let writer = table.writer(WriterOptions { rows: 1_000, ..Default::default() }).unwrap();
        let (mut from, mut sizes) = (0, [1, 1, 3, 300, 1, 256, 257].into_iter().cycle());
        while from < ROWS {
            let rows = sizes.next().unwrap().min(ROWS - from);
            writer.add(&batch.slice(from, rows)).unwrap();
            from += rows;
        }
        writer.close().unwrap();
        let stats = writer.stats();
        assert_eq!((stats.rows, stats.waiting_rows), (ROWS as u64, 0));
        let found = table.snapshot().unwrap().scan(ScanRequest::default()).unwrap();
        let found: Vec<RecordBatch> = found.map(|batch| batch.unwrap()).collect();
        assert_eq!(concat_batches(&batch.schema(), &found).unwrap(), batch);
    }
}

/// What says that rows do not fit only as they are committed leaves out these alone.
#[test]
fn of_rows_added_one_by_one_those_that_cannot_be_stored_are_left_out() {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let db = database();
    // Rows of a table that discovers columns are looked at when they are committed.
    let rollup = RollupSpec {
        time: None,
        granularity: Granularity::NONE,
        metrics: vec![("n".to_string(), Metric::Count)],
        discover: true,
    };
    let spec = TableSpec::new(schema, ["id"]).merge(Merge::Rollup(rollup));
    let table = db.create_table("t", spec).unwrap();
    let writer = table.writer(WriterOptions { on_error: OnError::Skip, ..never() }).unwrap();
    for id in 0..100i64 {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![(id % 10 != 3).then_some(id)]));
        let row = RecordBatch::try_from_iter_with_nullable([("id", ids, true)]).unwrap();
        writer.add(&row).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(
        all_ids(&table.snapshot().unwrap()),
        (0..100).filter(|id| id % 10 != 3).collect::<Vec<_>>()
    );
    let failed: usize = writer.take_failed().iter().map(|failed| failed.rows.num_rows()).sum();
    assert_eq!(failed, 10);
}

/// A row with a value for a column that was dropped failed all rows that came with it.
#[test]
fn rows_without_a_value_for_a_column_that_is_gone_are_stored() {
    let with = |ids: &[i64], carrier: Option<&str>| {
        let carriers: StringArray = ids.iter().map(|_| carrier).collect();
        let ids = Int64Array::from_iter_values(ids.iter().copied());
        RecordBatch::try_new(columns(), vec![Arc::new(ids), Arc::new(carriers)]).unwrap()
    };
    let mixed = || {
        let ids = Int64Array::from(vec![200, 201, 202]);
        let carriers = StringArray::from(vec![None, Some("UA"), None]);
        RecordBatch::try_new(columns(), vec![Arc::new(ids), Arc::new(carriers)]).unwrap()
    };
    let unnamed: Vec<i64> = (0..100).collect();
    let options = || WriterOptions { on_error: OnError::Skip, ..never() };
    for renamed in [false, true] {
        let db = database();
        let spec = || TableSpec::new(columns(), ["id"]);
        let (one, other) = (db.create_table("one", spec()), db.create_table("other", spec()));
        let (one, other) = (one.unwrap(), other.unwrap());
        let (of_table, of_both) = (one.writer(options()).unwrap(), db.writer(options()).unwrap());
        for batch in [with(&unnamed, None), mixed(), with(&[300], Some("DL"))] {
            of_table.add(&batch).unwrap();
        }
        let (unnamed, named) = (with(&[400], None), with(&[401], Some("DL")));
        of_both.add(&[("other", &unnamed), ("one", &unnamed)]).unwrap();
        of_both.add(&[("other", &with(&[402], None)), ("one", &named)]).unwrap();
        match renamed {
            true => one.rename_column("carrier", "airline").unwrap(),
            false => one.drop_column("carrier").unwrap(),
        }
        of_table.flush().unwrap();
        of_both.flush().unwrap();
        let mut stored: Vec<i64> = (0..100).collect();
        stored.extend([200, 202, 400]);
        assert_eq!(all_ids(&one.snapshot().unwrap()), stored);
        assert_eq!(all_ids(&other.snapshot().unwrap()), [400], "an add is stored as a whole");
        let failed = of_table.take_failed();
        let failed: usize = failed.iter().map(|failed| failed.rows.num_rows()).sum();
        assert_eq!((failed, of_table.stats().failed_rows), (2, 2));
        let failed = of_both.take_failed();
        assert_eq!(failed.len(), 2);
        for failed in failed {
            assert!(failed.error.to_string().contains("unknown column \"carrier\""));
        }
    }
}
