//! Set indexes switched on and off: answers never differ, work is done once, and nothing is lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, SchemaRef};
use drillcore::*;

use crate::fixtures::{between, schema_of};

fn columns() -> SchemaRef {
    schema_of(&[
        ("number", DataType::Int64, false),
        ("place", DataType::Utf8, true),
        ("value", DataType::Int64, true),
    ])
}

fn numbered_spec(merge: Merge, set_index: bool) -> TableSpec {
    TableSpec { set_index, ..TableSpec::new(columns(), ["number"]).set("place").merge(merge) }
}

/// The place of a number: three are frequent, one is not, some rows have none.
fn place(number: i64) -> Option<String> {
    match number % 1000 {
        7 => Some("rare".to_string()),
        8..50 => None,
        rest => Some(format!("p{}", rest % 3)),
    }
}

fn rows(numbers: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers.clone())),
        Arc::new(numbers.clone().map(place).collect::<StringArray>()),
        Arc::new(Int64Array::from_iter_values(numbers.map(|number| number * 2))),
    ];
    RecordBatch::try_new(columns(), arrays).unwrap()
}

fn names(names: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(names.to_vec()))
}

fn of_sets(sets: &[Option<&str>]) -> Selection {
    Selection { sets: Some(names(sets)), ..Default::default() }
}

fn numbers(batches: impl Iterator<Item = Result<RecordBatch>>) -> Vec<i64> {
    let of_batch =
        |batch: RecordBatch| batch["number"].as_primitive::<Int64Type>().values().to_vec();
    batches.map(Result::unwrap).flat_map(of_batch).collect()
}

/// Every kind of answer about sets, in a form to compare.
fn answers(table: &TableSnapshot) -> Vec<String> {
    let mut answers = Vec::new();
    let range = between(900, 4321);
    let every = [None, Some("p0"), Some("p1"), Some("p2"), Some("rare"), Some("nowhere")];
    let mut asked: Vec<Vec<Option<&str>>> = every.iter().map(|set| vec![*set]).collect();
    asked.push(vec![Some("rare"), None]);
    asked.push(vec![Some("p1"), Some("rare"), Some("p0")]);
    asked.push(Vec::new());
    for sets in &asked {
        for between in [None, Some(range.clone())] {
            let selection = Selection { between, ..of_sets(sets) };
            answers.push(format!("{sets:?} {}", table.count(&selection).unwrap()));
            for reverse in [false, true] {
                let selection = selection.clone();
                let request = ScanRequest { selection, reverse, ..Default::default() };
                answers.push(format!("{:?}", numbers(table.scan(request).unwrap())));
            }
        }
    }
    let sets = table.sets().unwrap();
    answers.push(format!("{:?} {:?}", sets.values, sets.rows));
    answers
}

/// One seed's draws from some sets, and of one of them in a range.
fn drawn(table: &TableSnapshot) -> Vec<Vec<i64>> {
    let high: ArrayRef = Arc::new(Int64Array::from(vec![4321]));
    let range = Between { low: None, high: Some(vec![high]), closed: Closed::Both };
    let some = of_sets(&[Some("p1"), Some("rare"), Some("p0")]);
    [Selection { between: Some(range), ..of_sets(&[None]) }, some]
        .into_iter()
        .map(|selection| {
            let request = SampleRequest { selection, n: 50, seed: Some(5), ..Default::default() };
            numbers([table.sample(&request)].into_iter())
        })
        .collect()
}

fn open(path: &Path) -> Database {
    Database::open(path, Options::default()).unwrap()
}

fn open_without_cache(path: &Path) -> Database {
    Database::open(path, Options { cache_bytes: 0, ..Default::default() }).unwrap()
}

/// With so little memory that rows are flushed all the time.
fn open_small(path: &Path) -> Database {
    let memory_bytes = Options::MEMORY_BYTES_MIN;
    Database::open(path, Options { memory_bytes, ..Default::default() }).unwrap()
}

fn of_table(db: &Database) -> IndexedSetsStats {
    db.stats().unwrap().tables[0].indexed_sets.clone().unwrap()
}

fn wait(table: &Table) {
    table.wait_for_set_index().unwrap();
}

fn files(path: &Path, stem: &str) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    std::fs::read_dir(path).unwrap().map(name).filter(|name| name.starts_with(stem)).collect()
}

#[test]
fn answers_are_the_same_with_any_sets_indexed_in_memory_and_on_disk() {
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let db = open_small(folder.path());
        let always = db.create_table("always", numbered_spec(merge.clone(), true)).unwrap();
        let table = db.create_table("t", numbered_spec(merge.clone(), false)).unwrap();
        let append = |numbers: std::ops::Range<i64>| {
            let batch = rows(numbers);
            db.append(&[("always", &batch), ("t", &batch)]).unwrap();
        };
        let check = |step: &str| {
            let snapshot = db.snapshot().unwrap();
            let expected = answers(&snapshot.table("always").unwrap());
            assert_eq!(answers(&snapshot.table("t").unwrap()), expected, "{step}");
        };
        append(0..3000);
        check("one run");
        append(2000..5000);
        check("two runs");
        db.flush().unwrap();
        check("a segment");
        table.index_sets(&names(&[Some("rare"), None])).unwrap();
        append(4000..6000);
        check("some sets, of new rows");
        wait(&table);
        check("some sets");
        db.flush().unwrap();
        table.unindex_sets(&names(&[None, Some("p2")])).unwrap();
        append(6000..6500);
        check("fewer sets");
        table.index_all_sets().unwrap();
        table.unindex_sets(&names(&[Some("p0")])).unwrap();
        wait(&table);
        append(6500..7000);
        check("all but one");
        db.compact().unwrap();
        check("all but one, merged");
        table.index_sets(&names(&[Some("p0")])).unwrap();
        wait(&table);
        check("all");
        table.unindex_all_sets().unwrap();
        db.compact().unwrap();
        append(7000..7100);
        check("none");
        drop(table);
        drop(always);
        db.close().unwrap();
        drop(db);
        let db = open(folder.path());
        let snapshot = db.snapshot().unwrap();
        let expected = answers(&snapshot.table("always").unwrap());
        assert_eq!(answers(&snapshot.table("t").unwrap()), expected, "reopened");
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

/// That the passes above were passes, and the lists were lists, is seen from what was read.
#[test]
fn a_listed_set_costs_what_it_costs_and_another_one_a_pass() {
    let folder = tempfile::tempdir().unwrap();
    let db = open_without_cache(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..200_000), OnError::Raise).unwrap();
    db.compact().unwrap();
    let pages = || db.stats().map(|of| (of.stream_pages_read, of.blocks_read)).unwrap();
    let pages_read = |set: &str| {
        let before = pages();
        // A snapshot of its own: what one looked for, it keeps.
        db.append(&[("t", &rows(300_000..300_001))]).unwrap();
        let rows = table.snapshot().unwrap().count(&of_sets(&[Some(set)])).unwrap();
        assert!(rows >= 200, "{set}: {rows}");
        (pages().0 - before.0, pages().1 - before.1)
    };
    // A pass reads the stream of the set column, a page for each of seven groups, and its dictionary; the first time the
    // directory, too.
    assert_eq!(pages_read("rare"), (7 + 2, 0));
    table.index_sets(&names(&[Some("rare")])).unwrap();
    wait(&table);
    assert_eq!(pages_read("rare"), (0, 0));
    assert_eq!(pages_read("p0"), (7 + 1, 0));
    table.index_all_sets().unwrap();
    wait(&table);
    assert_eq!(pages_read("p0"), (0, 0));
    // What is listed already is used until a merge.
    table.unindex_all_sets().unwrap();
    assert_eq!(pages_read("p0"), (0, 0));
    db.compact().unwrap();
    assert_eq!(pages_read("p0"), (7 + 2, 0));
}

#[test]
fn zones_spare_a_pass_the_blocks_that_cannot_hold_a_set() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let spec = TableSpec {
        key: vec!["place".into(), "number".into()],
        ..numbered_spec(Merge::Append, false)
    };
    let table = db.create_table("t", spec).unwrap();
    table.append(&rows(0..200_000), OnError::Raise).unwrap();
    db.compact().unwrap();
    let before = db.stats().unwrap().blocks_read;
    assert_eq!(table.snapshot().unwrap().count(&of_sets(&[Some("rare")])).unwrap(), 200);
    assert_eq!(table.snapshot().unwrap().count(&of_sets(&[Some("nowhere")])).unwrap(), 0);
    let read = db.stats().unwrap().blocks_read - before;
    assert!(read < 40, "{read} blocks");
}

#[test]
fn a_list_is_written_once_and_goes_with_its_segment() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..50_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let segment = files(folder.path(), "segment-");
    let bytes_before = db.stats().unwrap().tables[0].segment_bytes;
    assert!(files(folder.path(), "postings-").is_empty());
    table.index_sets(&names(&[Some("p0")])).unwrap();
    wait(&table);
    let first = files(folder.path(), "postings-");
    assert_eq!(first.len(), 1);
    assert!(db.stats().unwrap().tables[0].segment_bytes > bytes_before);
    table.index_sets(&names(&[Some("p0")])).unwrap();
    table.unindex_sets(&names(&[Some("p0")])).unwrap();
    table.index_sets(&names(&[Some("p0")])).unwrap();
    wait(&table);
    assert_eq!(files(folder.path(), "postings-"), first, "off and on again costs nothing");
    table.index_all_sets().unwrap();
    wait(&table);
    let second = files(folder.path(), "postings-");
    assert!(second.len() == 1 && second != first, "{second:?} replaces {first:?}");
    assert_eq!(files(folder.path(), "segment-"), segment, "no row was written again");
    assert_eq!(db.stats().unwrap().writer.unwrap().segments_indexed, 2);
    // Merged, the list is in the segment.
    table.append(&rows(50_000..60_000), OnError::Raise).unwrap();
    db.compact().unwrap();
    assert!(files(folder.path(), "postings-").is_empty());
    assert_eq!(files(folder.path(), "segment-").len(), 1);
    assert_eq!(db.stats().unwrap().writer.unwrap().segments_indexed, 2);
    db.drop_table("t").unwrap();
    assert!(files(folder.path(), "segment-").is_empty());
}

#[test]
fn a_restart_goes_on_with_what_was_to_be_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..50_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let hold = db.hold_maintenance();
    table.index_all_sets().unwrap();
    let stats = of_table(&db);
    assert_eq!((stats.all, stats.exceptions, stats.rows_to_index), (true, 0, 50_000));
    assert_eq!(stats.fault, None);
    drop((hold, table));
    db.close().unwrap();
    drop(db);
    // A list that a crash cut off is no list.
    std::fs::write(folder.path().join("postings-00000090.drill"), b"half a list").unwrap();
    let db = open(folder.path());
    let table = db.table("t").unwrap();
    let progress = Progress::default();
    assert_eq!(progress.share(), None);
    table.wait_for_set_index_with(&progress).unwrap();
    assert_eq!(progress.done(), progress.total());
    assert_eq!(table.snapshot().unwrap().count(&of_sets(&[Some("rare")])).unwrap(), 50);
    let listed = files(folder.path(), "postings-");
    assert!(listed.len() == 1 && listed[0] != "postings-00000090.drill", "{listed:?}");
}

#[test]
fn a_named_snapshot_keeps_its_list_and_a_reader_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..20_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let reader = Database::open_read_only(
        folder.path(),
        ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() },
    )
    .unwrap();
    let old = reader.snapshot().unwrap().table("t").unwrap();
    let before = (answers(&old), drawn(&old));
    let both = |table: &TableSnapshot| (answers(table), drawn(table));
    let pinned = db.named_snapshot("before").unwrap().table("t").unwrap();
    table.index_all_sets().unwrap();
    wait(&table);
    reader.refresh_to(Lsn(0), Duration::from_secs(5)).unwrap();
    assert_eq!(reader.stats().unwrap().tables[0].indexed_sets.as_ref().unwrap().rows_to_index, 0);
    let fresh = reader.snapshot().unwrap().table("t").unwrap();
    for (who, table) in [("old", &old), ("fresh", &fresh), ("pinned", &pinned)] {
        assert_eq!(both(table), before, "{who}");
    }
    // The pinned segment leaves the table, with its list.
    table.append(&rows(20_000..30_000), OnError::Raise).unwrap();
    db.compact().unwrap();
    assert_eq!(files(folder.path(), "postings-").len(), 1);
    assert_eq!(both(&pinned), before);
    reader.refresh_to(Lsn(0), Duration::from_secs(5)).unwrap();
    let named = reader.named_snapshot("before").unwrap().table("t").unwrap();
    assert_eq!(both(&named), before);
    assert!(reader.verify().unwrap().faults.is_empty());
    drop((reader, old, fresh, named, pinned));
    drop(table);
    db.close().unwrap();
    drop(db);
    let db = open(folder.path());
    let pinned = db.named_snapshot("before").unwrap().table("t").unwrap();
    assert_eq!(both(&pinned), before);
    drop(pinned);
    db.drop_snapshot("before").unwrap();
    assert!(files(folder.path(), "postings-").is_empty());
    assert_eq!(files(folder.path(), "segment-").len(), 1);
}

#[test]
fn a_segment_that_cannot_be_listed_is_told_and_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..50_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let segment = folder.path().join(&files(folder.path(), "segment-")[0]);
    let sound = std::fs::read(&segment).unwrap();
    let mut damaged = sound.clone();
    // Blocks and streams, each page of them; what is read on opening lies at the end.
    let pages = damaged.len() * 15 / 16;
    damaged[..pages].iter_mut().skip(100).step_by(4096).for_each(|byte| *byte ^= 1);
    std::fs::write(&segment, &damaged).unwrap();
    table.index_all_sets().unwrap();
    let refused = |table: &Table| {
        let waited = table.wait_for_set_index();
        let error = waited.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("segment-"), "{error}");
    };
    refused(&table);
    let stats = of_table(&db);
    assert_eq!(stats.rows_to_index, 50_000);
    assert!(stats.fault.unwrap().contains("segment-"));
    assert!(files(folder.path(), "postings-").is_empty());
    // The database goes on, and so it does when it is opened again.
    table.append(&rows(50_000..51_000), OnError::Raise).unwrap();
    drop(table);
    db.close().unwrap();
    drop(db);
    let db = open(folder.path());
    let table = db.table("t").unwrap();
    refused(&table);
    table.append(&rows(51_000..52_000), OnError::Raise).unwrap();
    std::fs::write(&segment, &sound).unwrap();
    // Another switch tries again.
    table.unindex_sets(&names(&[Some("p0")])).unwrap();
    wait(&table);
    assert_eq!(of_table(&db).fault, None);
    assert_eq!(table.snapshot().unwrap().count(&of_sets(&[Some("rare")])).unwrap(), 52);
    assert!(db.verify().unwrap().faults.is_empty());
}

#[test]
fn switching_while_others_write_and_read_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let db = open_small(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                for batch in 0..120 {
                    let first = (batch * 2 + writer) * 1000;
                    table.append(&rows(first..first + 1000), OnError::Raise).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let snapshot = table.snapshot().unwrap();
                let all = snapshot.count(&Selection::default()).unwrap();
                // Each batch holds each set equally often.
                let rare = snapshot.count(&of_sets(&[Some("rare")])).unwrap();
                assert_eq!(rare * 1000, all);
                let without = snapshot.count(&of_sets(&[None])).unwrap();
                assert_eq!(without * 1000, all * 42);
                let sets = snapshot.sets().unwrap();
                assert_eq!(sets.rows.iter().sum::<u64>(), all);
            }
        });
        let mut round = 0;
        while !done.load(Ordering::Relaxed) {
            match round % 4 {
                0 => table.index_sets(&names(&[Some("rare")])).unwrap(),
                1 => table.index_all_sets().unwrap(),
                2 => table.unindex_sets(&names(&[None])).unwrap(),
                _ => table.unindex_all_sets().unwrap(),
            }
            round += 1;
            thread::sleep(Duration::from_millis(3));
        }
        assert!(round > 3);
    });
    table.index_all_sets().unwrap();
    wait(&table);
    db.flush().unwrap();
    assert!(db.verify().unwrap().faults.is_empty());
    let expected: BTreeMap<Option<String>, u64> =
        (0..240_000).map(place).fold(BTreeMap::new(), |mut counts, place| {
            *counts.entry(place).or_default() += 1;
            counts
        });
    let sets = table.snapshot().unwrap().sets().unwrap();
    let found = sets.values.as_string::<i32>().iter().map(|name| name.map(str::to_string));
    assert_eq!(found.zip(sets.rows).collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn what_cannot_be_indexed_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let plain = TableSpec { set: None, ..numbered_spec(Merge::Append, true) };
    let plain = db.create_table("plain", plain).unwrap();
    for refused in [
        plain.index_all_sets(),
        plain.unindex_all_sets(),
        plain.index_sets(&names(&[Some("p0")])),
        plain.wait_for_set_index(),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("no set column"), "{error}");
    }
    db.drop_table("plain").unwrap();
    let table = db.create_table("t", numbered_spec(Merge::Append, true)).unwrap();
    let before = of_table(&db);
    let wrong: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let error = table.unindex_sets(&wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(of_table(&db), before);
    // Which sets are indexed is no part of a table's shape.
    let again = TableSpec { exist_ok: true, ..numbered_spec(Merge::Append, false) };
    db.create_table("t", again).unwrap();
    assert_eq!(of_table(&db), before);
    db.drop_table("t").unwrap();
    assert_eq!(table.index_all_sets().unwrap_err().kind(), ErrorKind::NotFound);
    db.close().unwrap();
    assert_eq!(table.index_all_sets().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn groups_by_a_set_column_without_index_are_estimated_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let table = db.create_table("t", numbered_spec(Merge::Append, false)).unwrap();
    table.append(&rows(0..20_000), OnError::Raise).unwrap();
    db.flush().unwrap();
    let request = EstimateRequest {
        aggregates: vec![("n".into(), Aggregate::Count)],
        by: vec!["place".into()],
        stop: Stop::Rows(5_000),
        seed: Some(1),
        ..Default::default()
    };
    let width = |table: &Table| {
        let estimate = table.snapshot().unwrap().estimate(&request).unwrap();
        let rare = estimate.groups[0].as_string::<i32>().iter();
        let rare = rare.zip(&estimate.aggregates[0].intervals);
        let (_, rare) = rare.into_iter().find(|(name, _)| *name == Some("rare")).unwrap();
        assert!(rare.low <= 20.0 && 20.0 <= rare.high, "{rare:?}");
        rare.high - rare.low
    };
    assert!(width(&table) > 1.0);
    table.index_all_sets().unwrap();
    wait(&table);
    assert_eq!(width(&table), 0.0);
}

/// A pass over a set column reads codes where it is a stream of texts, and values elsewhere: both find the same rows.
#[test]
fn sets_without_an_index_are_found_by_codes_and_by_values_alike() {
    let columns = schema_of(&[("id", DataType::Int64, false), ("city", DataType::Utf8, true)]);
    let rows = 50_000;
    let city = |id: i64| match id * 7919 % 1009 {
        0 => None,
        n if n < 20 => Some(format!("a city of its own, {id}")),
        n => Some(format!("city {n}")),
    };
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new((0..rows).map(city).collect::<StringArray>()),
    ];
    let batch = RecordBatch::try_new(columns.clone(), arrays).unwrap();
    let mut answers = Vec::new();
    for (streams, is_flushed) in [(vec!["city"], true), (vec!["id"], true), (vec!["city"], false)] {
        let db = Database::in_memory(Options::default()).unwrap();
        let spec = TableSpec::new(columns.clone(), ["id"]).set("city").streams(streams);
        let table = db.create_table("t", TableSpec { set_index: false, ..spec }).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        let ids = |sets: &[Option<&str>]| -> Vec<i64> {
            let sets: ArrayRef = Arc::new(StringArray::from(sets.to_vec()));
            let selection = Selection { sets: Some(sets), ..Default::default() };
            let scan = snapshot.scan(ScanRequest { selection, ..Default::default() }).unwrap();
            let batches = scan.map(Result::unwrap);
            batches
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect()
        };
        let many: Vec<String> = (30..60).map(|n| format!("city {n}")).collect();
        let many: Vec<Option<&str>> = many.iter().map(|name| Some(name.as_str())).collect();
        let found = [
            ids(&[Some("city 77")]),
            ids(&[None]),
            ids(&[Some("city 78"), None, Some("nowhere")]),
            ids(&[Some("nowhere")]),
            ids(&many),
            ids(&[Some("a city of its own, 1009")]),
        ];
        let expected = |wanted: &[Option<&str>]| -> Vec<i64> {
            (0..rows).filter(|&id| wanted.contains(&city(id).as_deref())).collect()
        };
        assert_eq!(found[0], expected(&[Some("city 77")]));
        assert_eq!(found[1], expected(&[None]));
        assert_eq!(found[2], expected(&[Some("city 78"), None]));
        assert_eq!((found[3].len(), &found[4]), (0, &expected(&many)));
        let sets = snapshot.sets().unwrap();
        assert_eq!(sets.rows.iter().sum::<u64>(), rows as u64);
        answers.push((sets.rows, found));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Rows of sets that most blocks have are read by columns; those of small ones are not.
#[test]
fn large_sets_are_read_by_columns_in_both_directions_and_give_the_same_rows() {
    let files = Arc::new(directory::MemoryDirectory::new());
    let db = Database::open_in(files, Options { cache_bytes: 0, ..Options::default() }).unwrap();
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, true),
        ("n", DataType::Int64, false),
    ]);
    let spec = TableSpec::new(columns.clone(), ["id"]).set("city");
    let table = db.create_table("t", spec).unwrap();
    // A third each, a few of another, and some without a set.
    let city = |id: i64| match id % 100 {
        0 => None,
        1 => (id % 5_000 == 1).then_some("few"),
        other => Some(["a", "b", "c"][other as usize % 3]),
    };
    let ids: Vec<i64> = (0..100_000).collect();
    let of_columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(ids.iter().map(|id| city(*id)).collect::<StringArray>()),
        Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| id * 7))),
    ];
    table.append(&RecordBatch::try_new(columns, of_columns).unwrap(), OnError::Raise).unwrap();
    db.compact().unwrap();
    let snapshot = table.snapshot().unwrap();
    for (sets, is_large) in [(vec!["a"], true), (vec!["a", "c"], true), (vec!["few"], false)] {
        for (low, high) in [(0, 100_000), (12_345, 81_234)] {
            for reverse in [false, true] {
                let values: ArrayRef = Arc::new(StringArray::from(sets.clone()));
                let between = between(low, high);
                let selection =
                    Selection { sets: Some(values), between: Some(between), ..Default::default() };
                let request = ScanRequest { selection, reverse, ..ScanRequest::default() };
                let before = db.stats().unwrap();
                let batches = snapshot.scan(request).unwrap().map(Result::unwrap);
                let found: Vec<(i64, i64)> = batches
                    .flat_map(|batch| {
                        let number = |column: usize| {
                            batch.column(column).as_primitive::<Int64Type>().values().to_vec()
                        };
                        number(0).into_iter().zip(number(2)).collect::<Vec<_>>()
                    })
                    .collect();
                let is_in = |id: &i64| city(*id).is_some_and(|city| sets.contains(&city));
                let mut expected: Vec<(i64, i64)> =
                    (low..=high.min(99_999)).filter(is_in).map(|id| (id, id * 7)).collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(found, expected, "{sets:?} {low}..={high} {reverse}");
                let after = db.stats().unwrap();
                // Otherwise a block for each row, and the dictionary of their cities.
                let streams = after.stream_pages_read - before.stream_pages_read;
                let blocks = after.blocks_read - before.blocks_read;
                assert_eq!(streams > blocks, is_large, "{sets:?}: {streams} and {blocks}");
            }
        }
    }
}
