//! Columns added to live tables: older rows hold null there, wherever they lie and whatever becomes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;

use crate::fixtures::weighted_places_spec;

const CACHE_BYTES: u64 = 1 << 20;

/// Rows with the columns of `weighted_places_spec` and, if there is a version, `added`: the version in each row.
fn batch(ids: impl IntoIterator<Item = i64>, added: Option<(&str, i64)>) -> RecordBatch {
    let ids: Int64Array = ids.into_iter().map(Some).collect();
    let places: StringArray =
        ids.values().iter().map(|id| Some(if id % 3 == 0 { "x" } else { "y" })).collect();
    let weights = Int64Array::from(vec![1; ids.len()]);
    let len = ids.len();
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("id", Arc::new(ids)), ("place", Arc::new(places)), ("weight", Arc::new(weights))];
    if let Some((name, version)) = added {
        columns.push((name, Arc::new(Int64Array::from(vec![version; len]))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn append(table: &Table, ids: impl IntoIterator<Item = i64>, added: Option<(&str, i64)>) -> Lsn {
    table.append(&batch(ids, added), OnError::Raise).unwrap().lsn
}

/// Each row's id with its value in a column of integers.
fn values(table: &TableSnapshot, column: &str) -> Vec<(i64, Option<i64>)> {
    let columns = Some(vec!["id".to_string(), column.to_string()]);
    let mut rows = Vec::new();
    for batch in table.scan(ScanRequest { columns, ..Default::default() }).unwrap() {
        let batch = batch.unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>().values();
        rows.extend(ids.iter().copied().zip(batch.column(1).as_primitive::<Int64Type>()));
    }
    rows
}

fn names(table: &TableSnapshot) -> Vec<String> {
    table.schema().columns.fields().iter().map(|field| field.name().clone()).collect()
}

/// Where the first and the second half of the rows lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Memory,
    /// Older rows on disk, newer ones in memory.
    HalfFlushed,
    /// Two segments.
    Flushed,
    Merged,
    Reopened,
}

#[test]
fn older_rows_hold_null_wherever_they_lie() {
    for merge in [Merge::Append, Merge::Upsert] {
        use State::*;
        for state in [Memory, HalfFlushed, Flushed, Merged, Reopened] {
            let folder = tempfile::tempdir().unwrap();
            let mut db = Database::open(folder.path(), Options::default()).unwrap();
            let hold = db.hold_maintenance();
            let mut table = db.create_table("t", weighted_places_spec(merge.clone())).unwrap();
            append(&table, 0..5_000, None);
            let before = table.snapshot().unwrap();
            if state != Memory {
                db.flush().unwrap();
            }
            table.add_column("level", &DataType::Int64).unwrap();
            table.add_column("note", &DataType::LargeUtf8).unwrap();
            table.add_column("tags", &DataType::new_list(DataType::Utf8, true)).unwrap();
            append(&table, 5_000..10_000, Some(("level", 7)));
            append(&table, 10_000..10_010, None);
            if matches!(state, Flushed | Merged) {
                db.flush().unwrap();
            }
            if state == Merged {
                db.compact().unwrap();
            }
            drop(hold);
            if state == Reopened {
                drop(table);
                db.close().unwrap();
                db = Database::open(folder.path(), Options::default()).unwrap();
                table = db.table("t").unwrap();
            }
            let case = format!("{merge:?}, {state:?}");
            let snapshot = table.snapshot().unwrap();
            let all = ["id", "place", "weight", "level", "note", "tags"];
            assert_eq!(names(&snapshot), all, "{case}");
            assert_eq!(table.schema().columns, snapshot.schema().columns);
            let level = |id: i64| (5_000..10_000).contains(&id).then_some(7);
            let expected: Vec<_> = (0..10_010).map(|id| (id, level(id))).collect();
            assert_eq!(values(&snapshot, "level"), expected, "{case}");

            let keys: ArrayRef = Arc::new(Int64Array::from(vec![3, 7_000, 10_001]));
            let found = snapshot.get(&[keys], None).unwrap().rows;
            let levels = Int64Array::from(vec![None, Some(7), None]);
            assert_eq!(found.column(3).as_primitive::<Int64Type>(), &levels, "{case}");
            assert_eq!(found.column(4).data_type(), &DataType::Utf8);
            assert_eq!((found.column(4).null_count(), found.column(5).null_count()), (3, 3));

            for weight in [None, Some("weight".to_string())] {
                let request = SampleRequest { n: 10_010, weight, ..Default::default() };
                let drawn = snapshot.sample(&request).unwrap();
                let nulls = drawn.column_by_name("level").unwrap().null_count();
                assert_eq!(nulls, 5_010, "{case}: a sample of all");
            }
            let selection = Selection { sets: Some(place("x")), ..Default::default() };
            assert_eq!(snapshot.count(&selection).unwrap(), 3_337, "{case}");
            let request = ScanRequest { selection, reverse: true, ..Default::default() };
            let of_set: Vec<RecordBatch> =
                snapshot.scan(request).unwrap().map(Result::unwrap).collect();
            let nulls: usize = of_set.iter().map(|batch| batch.column(3).null_count()).sum();
            assert_eq!(nulls, 1_667 + 3, "{case}");

            assert_eq!(names(&before), all[..3], "{case}: an older snapshot keeps its columns");
            assert_eq!(values(&before, "weight").len(), 5_000, "{case}");
            assert!(before.schema().columns.column_with_name("level").is_none());
            assert!(db.verify().unwrap().faults.is_empty(), "{case}");
        }
    }
}

fn place(name: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![name]))
}

/// `level` is not null; looks at zones.
#[derive(Debug)]
struct HasLevel(Vec<String>);

impl Predicate for HasLevel {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let level = rows.column(0);
        Ok((0..level.len()).map(|row| Some(level.is_valid(row))).collect())
    }

    fn zone_columns(&self) -> &[String] {
        &self.0
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let nulls = &zones.column(0).expect("asked for").null_counts;
        let has_any = |zone| Some(nulls.value(zone) < zones.rows().value(zone));
        Ok((0..zones.len()).map(has_any).collect())
    }

    fn text(&self) -> &str {
        "level is not null"
    }
}

#[test]
fn a_scan_leaves_out_segments_that_are_older_than_the_column_it_tests() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    append(&table, 0..60_000, None);
    db.flush().unwrap();
    table.add_column("level", &DataType::Int64).unwrap();
    append(&table, 60_000..60_010, Some(("level", 1)));
    db.flush().unwrap();
    let predicate = HasLevel(vec!["level".into()]);
    let selection = Selection { predicate: Some(Arc::new(predicate)), ..Default::default() };
    let before = db.stats().unwrap().blocks_pruned;
    assert_eq!(table.snapshot().unwrap().count(&selection).unwrap(), 10);
    assert!(db.stats().unwrap().blocks_pruned > before + 10);
}

#[test]
fn updates_and_deletes_reach_over_the_moment_a_column_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Upsert)).unwrap();
    let mut model: BTreeMap<i64, Option<i64>> = BTreeMap::new();
    let delete = |ids: std::ops::Range<i64>| {
        let keys: Int64Array = ids.map(Some).collect();
        table.delete(&[Arc::new(keys)]).unwrap();
    };
    append(&table, 0..100, None);
    delete(90..95);
    model.extend((0..90).chain(95..100).map(|id| (id, None)));
    table.add_column("level", &DataType::Int64).unwrap();
    append(&table, 50..60, Some(("level", 1)));
    model.extend((50..60).map(|id| (id, Some(1))));
    append(&table, 55..58, None);
    model.extend((55..58).map(|id| (id, None)));
    delete(0..10);
    model.retain(|id, _| *id >= 10);
    append(&table, 5..6, Some(("level", 2)));
    model.insert(5, Some(2));
    let expected: Vec<_> = model.into_iter().collect();
    for what in ["in memory", "flushed", "merged"] {
        let snapshot = table.snapshot().unwrap();
        assert_eq!(values(&snapshot, "level"), expected, "{what}");
        assert_eq!(snapshot.rows().unwrap(), expected.len() as u64, "{what}");
        if what == "in memory" { db.flush().unwrap() } else { db.compact().unwrap() }
    }
}

#[test]
fn a_reader_sees_the_column_once_it_refreshes() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    append(&table, 0..10, None);
    db.flush().unwrap();
    append(&table, 10..20, None);
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let seen = || reader.snapshot().unwrap().table("t").unwrap();
    let refresh = |lsn| reader.refresh_to(lsn, Duration::ZERO).unwrap();
    table.add_column("level", &DataType::Int64).unwrap();
    assert_eq!(names(&seen()).len(), 3, "not before a refresh");
    let old = seen();
    refresh(Lsn(0));
    assert_eq!(values(&seen(), "level").len(), 20, "though nothing was appended");
    refresh(append(&table, 20..30, Some(("level", 1))));
    let expected: Vec<_> = (0..30).map(|id| (id, (id >= 20).then_some(1))).collect();
    assert_eq!(values(&seen(), "level"), expected);
    assert_eq!((names(&old).len(), values(&old, "weight").len()), (3, 20));
    let another = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    assert_eq!(values(&another.snapshot().unwrap().table("t").unwrap(), "level"), expected);
}

#[test]
fn a_reader_that_refreshes_while_columns_are_added_sees_whole_commits() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: CACHE_BYTES, ..ReadOptions::default() },
    )
    .unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..60 {
                let name = format!("c{number}");
                table.add_column(&name, &DataType::Int64).unwrap();
                append(&table, [number], Some((name.as_str(), number)));
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            reader.refresh().unwrap();
            let snapshot = reader.snapshot().unwrap().table("t").unwrap();
            for name in &names(&snapshot)[3..] {
                let number: i64 = name[1..].parse().unwrap();
                for (id, value) in values(&snapshot, name) {
                    assert_eq!(value, (id == number).then_some(number), "{name} of row {id}");
                }
            }
        }
    });
}

#[test]
fn a_named_snapshot_keeps_its_columns_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    append(&table, 0..10, None);
    db.flush().unwrap();
    append(&table, 10..20, None);
    let draw = |snapshot: &Snapshot| {
        let request = SampleRequest { n: 5, seed: Some(3), ..Default::default() };
        snapshot.table("t").unwrap().sample(&request).unwrap()
    };
    let early = draw(&db.named_snapshot("early").unwrap());
    table.add_column("level", &DataType::Int64).unwrap();
    append(&table, 20..30, Some(("level", 1)));
    let late = draw(&db.named_snapshot("late").unwrap());
    assert_eq!((early.num_columns(), late.num_columns()), (3, 4));
    db.compact().unwrap();
    assert_eq!(draw(&db.named_snapshot("early").unwrap()), early);
    drop((table, db));
    let db = Database::open(folder.path(), Options::default()).unwrap();
    for (name, drawn) in [("early", &early), ("late", &late)] {
        assert_eq!(&draw(&db.named_snapshot(name).unwrap()), drawn, "{name}");
    }
    assert!(db.verify().unwrap().faults.is_empty());
}

/// Writers, a reader in the process and maintenance under little memory, while columns come.
#[test]
fn columns_are_added_while_others_append_and_read() {
    const COLUMNS: i64 = 20;
    const COMMITS: i64 = 150;
    const ROWS: i64 = 60;
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..Default::default() };
        let db = Database::open(folder.path(), options.clone()).unwrap();
        let table = db.create_table("t", weighted_places_spec(merge)).unwrap();
        let is_done = AtomicBool::new(false);
        // A row's id tells the commit; a commit has a value in one of the columns there were, if any.
        let added = |commit: i64, columns: i64| (columns > 0).then(|| commit % columns.max(1));
        let written = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let table = &table;
                    scope.spawn(move || {
                        let mut written = Vec::new();
                        for step in 0..COMMITS {
                            let commit = step * 3 + writer;
                            let columns = table.schema().columns.fields().len() as i64 - 3;
                            let column = added(commit, columns);
                            let name = column.map(|column| format!("c{column}"));
                            let ids = commit * ROWS..(commit + 1) * ROWS;
                            append(table, ids, name.as_deref().map(|name| (name, commit)));
                            written.push((commit, column));
                        }
                        written
                    })
                })
                .collect();
            scope.spawn(|| {
                for column in 0..COLUMNS {
                    table.add_column(&format!("c{column}"), &DataType::Int64).unwrap();
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    let snapshot = table.snapshot().unwrap();
                    for name in names(&snapshot).iter().skip(3) {
                        for (id, value) in values(&snapshot, name) {
                            assert!(value.is_none_or(|value| value == id / ROWS), "{name}, {id}");
                        }
                    }
                }
            });
            let written: Vec<_> =
                writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
            is_done.store(true, Ordering::Release);
            written
        });
        let check = |table: &Table| {
            let snapshot = table.snapshot().unwrap();
            for column in 0..COLUMNS {
                let mut expected: Vec<(i64, Option<i64>)> = written
                    .iter()
                    .flat_map(|&(commit, of)| {
                        let value = (of == Some(column)).then_some(commit);
                        (commit * ROWS..(commit + 1) * ROWS).map(move |id| (id, value))
                    })
                    .collect();
                expected.sort_unstable();
                assert_eq!(values(&snapshot, &format!("c{column}")), expected, "c{column}");
            }
        };
        check(&table);
        drop((table, db));
        let db = Database::open(folder.path(), options).unwrap();
        check(&db.table("t").unwrap());
        db.compact().unwrap();
        check(&db.table("t").unwrap());
    }
}

#[test]
fn an_append_that_began_before_the_column_commits_with_null() {
    let (began, added) = (AtomicBool::new(false), AtomicBool::new(false));
    let flags = Arc::new((began, added));
    // Asked once the append has begun.
    let holds_up = {
        let flags = flags.clone();
        Interrupt::new(Arc::new(move || {
            flags.0.store(true, Ordering::Release);
            while !flags.1.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            false
        }))
    };
    let files = directory::MemoryDirectory::new();
    let options = Options::default();
    let db = Database::open_in(Arc::new(files.clone()), options.clone()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    std::thread::scope(|scope| {
        let held_up = table.interrupted_by(holds_up);
        let appending = scope.spawn(move || append(&held_up, 0..10, None));
        while !flags.0.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        table.add_column("level", &DataType::Int64).unwrap();
        flags.1.store(true, Ordering::Release);
        appending.join().unwrap();
    });
    append(&table, 10..12, Some(("level", 5)));
    let expected: Vec<_> = (0..12).map(|id| (id, (id >= 10).then_some(5))).collect();
    assert_eq!(values(&table.snapshot().unwrap(), "level"), expected);
    drop((table, db));
    let db = Database::open_in(Arc::new(files), options).unwrap();
    let snapshot = db.table("t").unwrap().snapshot().unwrap();
    assert_eq!(values(&snapshot, "level"), expected, "from the log");
}

#[test]
fn a_column_that_cannot_be_is_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", weighted_places_spec(Merge::Append)).unwrap();
    for name in ["id", "place"] {
        let error = table.add_column(name, &DataType::Int64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = table.add_column("level", &DataType::Date64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"level\" has type date64"), "{error}");
    let rollup = Merge::Rollup(RollupSpec::default().metric("sum", Metric::sum("weight")));
    let rollup = TableSpec { set: None, weights: vec![], ..weighted_places_spec(rollup) };
    let rollup = db.create_table("r", rollup).unwrap();
    let error = rollup.add_column("sum", &DataType::Int64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    for (name, data_type, reason) in [
        ("weight", DataType::Int64, "read by a metric"),
        ("place", DataType::Int64, "has type string in appended batches"),
        ("tags", DataType::new_list(DataType::Utf8, true), "values only"),
        ("level", DataType::Date64, "has type date64"),
    ] {
        let error = rollup.add_column(name, &data_type).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(rollup.schema().columns.fields().len(), 2);
    assert_eq!(table.schema().columns, weighted_places_spec(Merge::Append).columns);
    let unknown = table.append(&batch(0..1, Some(("level", 1))), OnError::Raise).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);

    db.drop_table("r").unwrap();
    let error = rollup.add_column("level", &DataType::Int64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    db.close().unwrap();
    let error = table.add_column("level", &DataType::Int64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
