//! Calls that ask for more than there is, or stop half-way: each ends soon, with what there is or with an
//! error that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Schema};
use drillcore::*;

use crate::fixtures::{of_set, place_rows, places_spec, schema_of, wait_until};

fn schema() -> Arc<Schema> {
    schema_of(&[
        ("id", DataType::Int64, false),
        ("text", DataType::Utf8, false),
        ("weight", DataType::Int64, true),
    ])
}

fn texts_spec(merge: Merge) -> TableSpec {
    TableSpec::new(schema(), ["id"]).set("text").weights(["weight"]).merge(merge)
}

fn rollup() -> TableSpec {
    let rollup = RollupSpec::default()
        .metric("total", Metric::sum("weight"))
        .metric("worst", Metric::max("weight"));
    let key = vec!["id".into(), "text".into()];
    TableSpec { key, weights: vec![], ..texts_spec(Merge::Rollup(rollup)) }
}

/// Row `id` has weight `id`, and a text of `len` bytes.
fn batch(ids: std::ops::Range<i64>, len: usize) -> RecordBatch {
    let text = "x".repeat(len);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids.clone().map(Some).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|_| &text))),
        Arc::new(ids.map(Some).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Rows 0 to 9, once updated where the table folds.
fn small_table(db: &Database, name: &str, spec: TableSpec) -> TableSnapshot {
    let is_append = spec.merge == Merge::Append;
    let table = db.create_table(name, spec).unwrap();
    table.append(&batch(0..10, 1), OnError::Raise).unwrap();
    if !is_append {
        table.append(&batch(0..5, 1), OnError::Raise).unwrap();
    }
    table.snapshot().unwrap()
}

fn all_kinds(db: &Database) -> [TableSnapshot; 3] {
    [
        small_table(db, "append", texts_spec(Merge::Append)),
        small_table(db, "upsert", texts_spec(Merge::Upsert)),
        small_table(db, "rollup", rollup()),
    ]
}

#[test]
fn a_sample_that_fits_no_memory_is_refused_before_it_is_drawn() {
    let db = Database::in_memory(Options::default()).unwrap();
    for table in all_kinds(&db) {
        let weights = [None, Some("weight".to_string())];
        for (n, weight) in [u64::MAX, 1 << 40]
            .into_iter()
            .flat_map(|n| weights.iter().map(move |weight| (n, weight.clone())))
        {
            if weight.is_some() && table.name() == "rollup" {
                continue;
            }
            for at_most in [false, true] {
                let request = SampleRequest {
                    n,
                    replace: true,
                    at_most,
                    weight: weight.clone(),
                    ..Default::default()
                };
                let error = table.sample(&request).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{}: {error}", table.name());
            }
        }
    }
}

#[test]
fn any_number_of_different_rows_ends_with_those_there_are() {
    let db = Database::in_memory(Options::default()).unwrap();
    for (table, rows) in all_kinds(&db).into_iter().zip([10, 10, 15]) {
        let all = SampleRequest { n: u64::MAX, at_most: true, ..Default::default() };
        assert_eq!(table.sample(&all).unwrap().num_rows(), rows);
        let more = SampleRequest { at_most: false, ..all.clone() };
        assert_eq!(table.sample(&more).unwrap_err().kind(), ErrorKind::TooFewRows);
        if table.name() != "rollup" {
            // Row 0 weighs nothing.
            let all = SampleRequest { weight: Some("weight".into()), ..all };
            assert_eq!(table.sample(&all).unwrap().num_rows(), 9);
            let more = SampleRequest { at_most: false, ..all };
            assert_eq!(table.sample(&more).unwrap_err().kind(), ErrorKind::TooFewRows);
        }
    }
}

#[test]
fn an_empty_sample_of_events_has_its_probability_column() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", rollup()).unwrap().snapshot().unwrap();
    let request =
        SampleRequest { n: 3, at_most: true, with_probability: true, ..Default::default() };
    let drawn = table.sample(&request).unwrap();
    assert_eq!(drawn.num_rows(), 0);
    assert!(drawn.column_by_name("probability").is_some());
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_only_where_it_is_asked_for() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", rollup()).unwrap();
    table.append(&batch(i64::MAX - 1..i64::MAX, 1), OnError::Raise).unwrap();
    table.append(&batch(i64::MAX - 1..i64::MAX, 1), OnError::Raise).unwrap();
    let table = table.snapshot().unwrap();
    let scan = |columns: Option<Vec<String>>| {
        table
            .scan(ScanRequest { columns, ..Default::default() })
            .unwrap()
            .collect::<Result<Vec<_>>>()
    };
    for columns in [None, Some(vec!["id".to_string(), "total".to_string()])] {
        assert_eq!(scan(columns).unwrap_err().kind(), ErrorKind::OutOfRange);
    }
    let worst = scan(Some(vec!["worst".into(), "id".into()])).unwrap().remove(0);
    assert_eq!(worst.column(0).as_primitive::<Int64Type>().value(0), i64::MAX - 1);
    assert_eq!(scan(Some(Vec::new())).unwrap()[0].num_rows(), 1);
    assert_eq!(table.sets().unwrap().rows, [1]);
}

#[test]
fn a_batch_without_a_weight_column_is_refused_though_the_column_takes_nulls() {
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", texts_spec(Merge::Append)).unwrap();
    let batch = batch(0..3, 1).project(&[0, 1]).unwrap();
    let error = table.append(&batch, OnError::Raise).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "the batch lacks weight column \"weight\", which cannot hold null; add it, with 0 for rows that samples by weight do not draw"
    );
}

/// An interrupt that stops at the `nth` look, and at no other.
fn stops_once(nth: u32) -> Interrupt {
    let looks = AtomicU32::new(0);
    Interrupt::new(Arc::new(move || looks.fetch_add(1, Ordering::Relaxed) == nth))
}

#[test]
fn resolving_the_live_rows_of_an_upsert_table_can_be_interrupted() {
    let db = Database::in_memory(Options::default()).unwrap();
    let always = || Interrupt::new(Arc::new(|| true));
    let sets: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let by_set = Selection { between: None, sets: Some(sets), ..Default::default() };
    for (name, selection) in [("range", Selection::default()), ("set", by_set)] {
        let table = small_table(&db, name, texts_spec(Merge::Upsert));
        let error = table.interrupted_by(always()).count(&selection).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "count by {name}");
        let request = SampleRequest {
            n: 1,
            with_probability: true,
            selection: selection.clone(),
            ..Default::default()
        };
        let error = table.interrupted_by(stops_once(0)).sample(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "sample by {name}");
        assert_eq!(table.count(&selection).unwrap(), 10);
    }
}

#[test]
fn an_interrupt_of_verify_that_shows_once_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", texts_spec(Merge::Append)).unwrap();
    table.append(&batch(0..10, 1), OnError::Raise).unwrap();
    db.flush().unwrap();
    let error = db.interrupted_by(stops_once(0)).verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(db.verify().unwrap().rows, 10);
}

#[test]
fn the_batches_of_one_commit_share_its_limit() {
    let options = Options { memory_bytes: 4 << 20, ..Default::default() };
    let db = Database::in_memory(options).unwrap();
    let batch = batch(0..10, 60_000);
    let names = ["a", "b", "c"];
    let tables = names.map(|name| db.create_table(name, texts_spec(Merge::Append)).unwrap());
    tables[0].append(&batch, OnError::Raise).unwrap();
    let error = db.append(&names.map(|name| (name, &batch))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("the commit has"), "{error}");
    assert_eq!(tables.map(|table| table.snapshot().unwrap().rows().unwrap()), [10, 0, 0]);
}

#[test]
fn batches_of_long_rows_are_closed_early() {
    const LEN: usize = 200_000;
    let folder = tempfile::tempdir().unwrap();
    // So that a flush writes one segment.
    let options = Options { maintenance_threads: 1, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let table = db.create_table("t", TableSpec { set: None, ..texts_spec(Merge::Append) }).unwrap();
    for first in [0, 1] {
        let ids = (0..200).map(|i| i * 2 + first);
        let rows = batch(0..200, LEN);
        let mut columns = rows.columns().to_vec();
        columns[0] = Arc::new(ids.map(Some).collect::<Int64Array>());
        let rows = RecordBatch::try_new(schema(), columns).unwrap();
        table.append(&rows, OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    for pieces in [2, 1] {
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.pieces(), pieces);
        for reverse in [false, true] {
            let scan = snapshot.scan(ScanRequest { reverse, ..Default::default() }).unwrap();
            let batches: Vec<RecordBatch> = scan.map(Result::unwrap).collect();
            let most = batches.iter().map(RecordBatch::num_rows).max().unwrap();
            assert!(most * LEN <= 24 << 20, "{most} rows in a batch");
            let id =
                |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            let mut ids: Vec<i64> = batches.iter().flat_map(id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..400).collect::<Vec<_>>());
        }
        db.compact().unwrap();
    }
}

#[test]
fn a_sample_whose_strings_fit_no_array_is_refused() {
    const LEN: usize = 1 << 20;
    let db = Database::in_memory(Options::default()).unwrap();
    let table = db.create_table("t", TableSpec { set: None, ..texts_spec(Merge::Append) }).unwrap();
    table.append(&batch(0..2, LEN), OnError::Raise).unwrap();
    let snapshot = table.snapshot().unwrap();
    let request = SampleRequest { n: 2_100, replace: true, ..Default::default() };
    let error = snapshot.sample(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let keys: ArrayRef = Arc::new((0..2_100).map(|i| Some(i % 2)).collect::<Int64Array>());
    let error = snapshot.get(std::slice::from_ref(&keys), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let ids = SampleRequest { columns: Some(vec!["id".into()]), ..request };
    assert_eq!(snapshot.sample(&ids).unwrap().num_rows(), 2_100);
}

#[test]
fn stats_name_the_oldest_snapshot_and_what_it_alone_holds() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", texts_spec(Merge::Append)).unwrap();
    let oldest = || {
        let writer = db.stats().unwrap().writer.unwrap();
        let (rows, files) = (writer.oldest_snapshot_row_bytes, writer.oldest_snapshot_file_bytes);
        (writer.oldest_snapshot_lsn, rows, files)
    };
    let first = table.append(&batch(0..100, 10), OnError::Raise).unwrap().lsn;
    assert_eq!(oldest(), (None, 0, 0));
    let snapshot = table.snapshot().unwrap();
    let held = db.stats().unwrap().buffered_bytes;
    assert_eq!(oldest(), (None, 0, 0), "it is the newest");
    for id in 100..200 {
        table.append(&batch(id..id + 1, 10), OnError::Raise).unwrap();
        table.snapshot().unwrap();
    }
    db.flush().unwrap();
    assert_eq!(oldest(), (Some(first), held, 0), "its run was written out beneath it");
    let later = table.snapshot().unwrap();
    drop(snapshot);
    table.append(&batch(200..201, 10), OnError::Raise).unwrap();
    db.compact().unwrap();
    let (lsn, rows, files) = oldest();
    assert_eq!((lsn, rows), (Some(Lsn(first.0 + 100)), 0));
    assert!(files > 0, "the segment that was merged waits for it");
    drop(later);
    assert_eq!(oldest(), (None, 0, 0));
}

/// Snapshots that are held while rows are written out beneath them, and nothing spills what only they hold.
#[test]
fn rows_that_only_snapshots_hold_are_reported_and_slow_writers_until_they_are_let_go() {
    let memory_bytes = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory_bytes, ..Options::default() };
    let db = Database::open(folder.path(), options).unwrap();
    let hold = db.hold_maintenance();
    let table = db.create_table("t", texts_spec(Merge::Append)).unwrap();
    let writer = || db.stats().unwrap().writer.unwrap();
    let mut next = 0;
    // For how long an append was slowed; its rows are written out beneath a snapshot.
    let mut append = || {
        let before = writer().stall_seconds;
        table.append(&batch(next..next + 500, 500), OnError::Raise).unwrap();
        next += 500;
        let snapshot = table.snapshot().unwrap();
        db.flush().unwrap();
        (snapshot, writer().stall_seconds - before)
    };
    let mut snapshots = Vec::new();
    while writer().snapshot_row_bytes < memory_bytes / 4 * 3 {
        let (snapshot, slowed) = append();
        assert_eq!(slowed, 0.0, "there is room");
        snapshots.push(snapshot);
        assert!(snapshots.len() < 1_000, "they hold nothing");
    }
    while writer().snapshot_row_bytes < memory_bytes / 2 * 3 {
        snapshots.push(append().0);
    }
    let (snapshot, slowed) = append();
    assert!(
        slowed > 0.2,
        "a quarter of a megabyte at a sixteenth of a megabyte a second, by a quarter: {slowed}"
    );
    snapshots.push(snapshot);
    drop(hold);
    wait_until("they go to files", || db.stats().unwrap().row_bytes <= memory_bytes / 8 * 7);
    assert_eq!(append().1, 0.0, "there is room again");
    for (number, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.rows().unwrap(), 500 * (number as u64 + 1));
    }
    drop(snapshots);
    // A job that spills may have found them just before.
    wait_until("all is let go", || writer().snapshot_row_bytes == 0);
    assert_eq!(append().1, 0.0);
}

/// What reads found out, and leave for later ones, takes its memory from that of rows. Nothing is flushed, so an append waits once
/// there is no more.
#[test]
fn lists_and_bitmaps_take_their_memory_from_that_of_rows() {
    const ROWS: i64 = 30_000;
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    let db = Database::in_memory(Options { memory_bytes, ..Options::default() }).unwrap();
    let spec = places_spec(Merge::Upsert).without_set_index();
    let table = db.create_table("t", spec).unwrap();
    for _ in 0..2 {
        for from in (0..ROWS).step_by(3_000) {
            table.append(&place_rows(from..from + 3_000, "Rome"), OnError::Raise).unwrap();
        }
    }
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.rows().unwrap(), ROWS as u64);
    assert_eq!(snapshot.count(&of_set("Rome")).unwrap(), ROWS as u64);
    let request = SampleRequest { n: 10, selection: of_set("Rome"), ..Default::default() };
    assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 10);
    let stats = || db.stats().unwrap();
    assert!(stats().liveness_bytes >= ROWS as u64 / 8, "{} of bitmaps", stats().liveness_bytes);
    assert!(stats().list_bytes > memory_bytes / 8, "{} of lists", stats().list_bytes);
    let _hold = db.hold_maintenance();
    let end = Instant::now() + Duration::from_millis(500);
    let table = table.interrupted_by(Interrupt::new(Arc::new(move || Instant::now() > end)));
    let error = (ROWS..).step_by(1_000).find_map(|from| {
        table.append(&place_rows(from..from + 1_000, "Oslo"), OnError::Raise).err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::Interrupted);
    let Stats { buffered_bytes, list_bytes, liveness_bytes, .. } = stats();
    let all = buffered_bytes + list_bytes + liveness_bytes;
    assert!(all <= memory_bytes, "{buffered_bytes}, {list_bytes} and {liveness_bytes}");
    assert!(all > memory_bytes / 8 * 7, "{all} of {memory_bytes}");
    assert!(buffered_bytes < memory_bytes / 8 * 7, "rows have less than all");
}
