//! Upsert tables against a map: the newest row of a key wins, deleted keys are gone, and no read, count or
//! draw shows a dead row, whatever maintenance has or has not been done.

use std::collections::BTreeMap;
use std::sync::Arc;

use drillcore::arrow_array::builder::{ListBuilder, StringBuilder};
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::goodness::chi_square_p_value;
use drillcore_sample::rng::Rng;

use crate::fixtures::{between, key, schema_of};

/// What the table should hold: key to set and value.
type Model = BTreeMap<i64, (Option<String>, i64)>;

fn tagged_places_spec() -> TableSpec {
    TableSpec::new(
        schema_of(&[
            ("id", DataType::Int64, false),
            ("place", DataType::Utf8, true),
            ("value", DataType::Int64, false),
            ("tags", DataType::new_list(DataType::Utf8, true), true),
            ("photo", DataType::Binary, true),
        ]),
        ["id"],
    )
    .set("place")
    .weights(["value"])
    .merge(Merge::Upsert)
    .exist_ok()
}

fn batch(rows: &[(i64, Option<String>, i64)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>()),
    ];
    let values: Vec<i64> = rows.iter().map(|row| row.2).collect();
    let columns = columns.into_iter().chain(tags_and_photos(&values)).collect();
    RecordBatch::try_new(tagged_places_spec().columns, columns).unwrap()
}

/// The last two columns, which follow from the values: lists and binary of any length, and nulls.
fn tags_and_photos(values: &[i64]) -> [ArrayRef; 2] {
    let mut tags = ListBuilder::new(StringBuilder::new());
    for &value in values {
        let items = (0..value % 4).map(|item| (item != 1).then(|| (value * item).to_string()));
        tags.append_option((value % 5 != 0).then_some(items));
    }
    let photo = |&value: &i64| (value % 7 != 0).then(|| vec![value as u8; value as usize % 9]);
    let photos: BinaryArray = values.iter().map(photo).collect();
    [Arc::new(tags.finish()), Arc::new(photos)]
}

fn rows(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<(i64, (Option<String>, i64))> {
    let of_batch = |batch: RecordBatch| {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let places = batch.column(1).as_string::<i32>();
        let values = batch.column(2).as_primitive::<Int64Type>();
        assert_eq!(batch.columns()[3..], tags_and_photos(values.values()));
        let place = |row| places.is_valid(row).then(|| places.value(row).to_string());
        (0..batch.num_rows())
            .map(|row| (ids.value(row), (place(row), values.value(row))))
            .collect::<Vec<_>>()
    };
    batches.into_iter().flat_map(of_batch).collect()
}

fn scan(table: &TableSnapshot, request: ScanRequest) -> Vec<(i64, (Option<String>, i64))> {
    rows(table.scan(request).unwrap().map(Result::unwrap))
}

fn check(table: &TableSnapshot, model: &Model, rng: &mut Rng) {
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(scan(table, ScanRequest::default()), all);
    assert_eq!(table.rows().unwrap(), all.len() as u64);
    let mut backwards = scan(table, ScanRequest { reverse: true, ..Default::default() });
    backwards.reverse();
    assert_eq!(backwards, all);

    let (low, high) = (rng.below(200) as i64, rng.below(200) as i64);
    let (low, high) = (low.min(high), low.max(high));
    let between = between(low, high);
    let place = (rng.below(4) > 0).then(|| format!("p{}", rng.below(3)));
    let set: ArrayRef = Arc::new(StringArray::from(vec![place.clone()]));
    for sets in [None, Some(set)] {
        let selection =
            Selection { between: Some(between.clone()), sets: sets.clone(), ..Default::default() };
        let passes = |(id, (of, _)): &&(i64, (Option<String>, i64))| {
            (low..=high).contains(id) && (sets.is_none() || *of == place)
        };
        let expected: Vec<_> = all.iter().filter(passes).cloned().collect();
        assert_eq!(table.count(&selection).unwrap(), expected.len() as u64);
        let request = ScanRequest { selection: selection.clone(), ..Default::default() };
        assert_eq!(scan(table, request), expected);
        let n = expected.len() as u64;
        let request =
            SampleRequest { n, selection, seed: Some(rng.next_u64()), ..Default::default() };
        let mut drawn = rows([table.sample(&request).unwrap()]);
        drawn.sort();
        assert_eq!(drawn, expected, "a sample of all is all");
        let more = SampleRequest { n: n + 1, ..request };
        assert_eq!(table.sample(&more).unwrap_err().kind(), ErrorKind::TooFewRows);
    }

    let sets = table.sets().unwrap();
    let mut expected: BTreeMap<Option<String>, u64> = BTreeMap::new();
    all.iter().for_each(|(_, (place, _))| *expected.entry(place.clone()).or_default() += 1);
    let places = sets.values.as_string::<i32>();
    let found: Vec<(Option<String>, u64)> = (0..places.len())
        .map(|i| (places.is_valid(i).then(|| places.value(i).into()), sets.rows[i]))
        .collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());

    let asked: Int64Array = (0..210).map(Some).collect();
    let found = table.get(&[Arc::new(asked)], None).unwrap();
    let by_position = rows([found.rows]);
    for (id, position) in found.positions.into_iter().enumerate() {
        let row = position.map(|position| by_position[position as usize].1.clone());
        assert_eq!(row, model.get(&(id as i64)).cloned());
    }
}

#[test]
fn random_updates_and_deletes_agree_with_a_map_at_every_step() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { memory_bytes: 1 << 20, ..Default::default() };
        let mut db = Database::open(folder.path(), options.clone()).unwrap();
        let mut table = db.create_table("t", tagged_places_spec()).unwrap();
        let mut rng = Rng::keyed(seed, 0);
        let mut model = Model::new();
        let mut held: Vec<(TableSnapshot, Model)> = Vec::new();
        for step in 0..60 {
            match rng.below(12) {
                0..=5 => {
                    let rows: Vec<_> = (0..rng.below(60))
                        .map(|_| {
                            let place = (rng.below(4) > 0).then(|| format!("p{}", rng.below(3)));
                            (rng.below(200) as i64, place, rng.below(1000) as i64)
                        })
                        .collect();
                    table.append(&batch(&rows), OnError::Raise).unwrap();
                    model.extend(rows.into_iter().map(|(id, place, value)| (id, (place, value))));
                }
                6 | 7 => {
                    let ids: Vec<i64> = (0..rng.below(30)).map(|_| rng.below(200) as i64).collect();
                    ids.iter().for_each(|id| drop(model.remove(id)));
                    table.delete(&[Arc::new(Int64Array::from(ids))]).unwrap();
                }
                8 => db.flush().unwrap(),
                9 => db.compact().unwrap(),
                10 => {
                    held.push((table.snapshot().unwrap(), model.clone()));
                    drop(table);
                    db.close().unwrap();
                    db = Database::open(folder.path(), options.clone()).unwrap();
                    table = db.table("t").unwrap();
                }
                _ => {
                    let everything: Int64Array = (0..200).map(Some).collect();
                    table.delete(&[Arc::new(everything)]).unwrap();
                    model.clear();
                }
            }
            println!("seed {seed}, step {step}");
            check(&table.snapshot().unwrap(), &model, &mut rng);
        }
        for (snapshot, model) in &held {
            check(snapshot, model, &mut rng);
        }
        assert!(db.verify().unwrap().faults.is_empty());
    }
}

/// Null hypothesis: each of 100 live rows is equally likely, though half have been updated once or
/// twice, and 50 more are deleted. 40,000 draws, chi-square, false-alarm rate 1e-6. The twin that draws
/// among all versions, as if none were dead, fails.
#[test]
fn every_live_row_is_drawn_equally_often_under_updates_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", tagged_places_spec()).unwrap();
    let upsert = |ids: std::ops::Range<i64>, value: i64| {
        let rows: Vec<_> = ids.map(|id| (id, Some("p".into()), value)).collect();
        table.append(&batch(&rows), OnError::Raise).unwrap();
    };
    upsert(0..150, 1);
    db.flush().unwrap();
    upsert(0..50, 2);
    db.flush().unwrap();
    upsert(20..50, 3);
    table.delete(&[Arc::new((100..150).map(Some).collect::<Int64Array>())]).unwrap();
    let check = |state: &str| {
        let snapshot = table.snapshot().unwrap();
        for replace in [false, true] {
            let mut observed = vec![0u64; 100];
            for seed in 0..4_000 {
                let request =
                    SampleRequest { n: 10, replace, seed: Some(seed), ..Default::default() };
                for (id, _) in rows([snapshot.sample(&request).unwrap()]) {
                    observed[id as usize] += 1;
                }
            }
            let p = chi_square_p_value(&observed, &[400.0; 100]);
            assert!(p > 1e-6, "{state}, replace {replace}: p = {p:e}");
            let versions = |id: u64| {
                if id < 20 {
                    2
                } else if id < 50 {
                    3
                } else {
                    1
                }
            };
            let twin: Vec<u64> = (0..100).map(|id| observed[id as usize] * versions(id)).collect();
            let even = twin.iter().sum::<u64>() as f64 / 100.0;
            assert!(chi_square_p_value(&twin, &[even; 100]) < 1e-6, "the twin passed");
        }
    };
    check("memory over two segments");
    db.flush().unwrap();
    check("three segments");
    db.compact().unwrap();
    check("one segment");
}

#[test]
fn a_table_that_keeps_every_row_refuses_to_delete() {
    let db = Database::in_memory(Options::default()).unwrap();
    let append = TableSpec { merge: Merge::Append, ..tagged_places_spec() };
    let error = db.create_table("t", append).unwrap().delete(&key(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn tombstones_leave_once_nothing_older_lies_beneath_them() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", tagged_places_spec()).unwrap();
    table.append(&batch(&[(1, None, 1), (2, None, 2)]), OnError::Raise).unwrap();
    table.delete(&key(1)).unwrap();
    table.delete(&key(9)).unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().unwrap().tables[0].rows, 1, "only row 2 was written");
    table.delete(&key(2)).unwrap();
    db.compact().unwrap();
    let stats = db.stats().unwrap();
    assert_eq!((stats.tables[0].rows, stats.tables[0].segments), (0, 0));
    drop((table, db));
    let db = Database::open(folder.path(), Options::default()).unwrap();
    assert_eq!(db.table("t").unwrap().snapshot().unwrap().rows().unwrap(), 0);
}

/// Only a first segment of more than 4 MiB is left alone when four small ones behind it are merged.
#[test]
fn tombstones_stay_when_segments_merge_above_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", tagged_places_spec()).unwrap();
    let mut rng = Rng::keyed(1, 0);
    let mut long = || Some((0..40).map(|_| format!("{:016x}", rng.next_u64())).collect::<String>());
    let rows: Vec<_> = (0..8_000).map(|id| (id, long(), 1)).collect();
    table.append(&batch(&rows), OnError::Raise).unwrap();
    db.flush().unwrap();
    for part in 0..4 {
        table.append(&batch(&[(part, None, 2)]), OnError::Raise).unwrap();
        table.delete(&key(100 + part)).unwrap();
        db.flush().unwrap();
    }
    let started = std::time::Instant::now();
    while db.stats().unwrap().writer.unwrap().merges == 0 {
        assert!(started.elapsed().as_secs() < 20, "{:?}", db.stats().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(db.stats().unwrap().tables[0].segments, 2);
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.rows().unwrap(), 7_996);
    for part in 0..4 {
        assert_eq!(snapshot.get(&key(100 + part), None).unwrap().positions, [None]);
    }
    assert_eq!(db.stats().unwrap().tables[0].rows, 8_008, "four rows and four tombstones are kept");
}

#[test]
fn to_delete_a_null_where_keys_have_none_deletes_nothing() {
    let db = Database::in_memory(Options::default()).unwrap();
    let _hold = db.hold_maintenance();
    let table = db.create_table("t", tagged_places_spec()).unwrap();
    table.append(&batch(&[(1, Some("p1".to_string()), 10)]), OnError::Raise).unwrap();
    let before = db.snapshot().unwrap().lsn();
    let nothing: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![None::<i64>])),
        drillcore::arrow_array::new_null_array(&DataType::Null, 2),
    ];
    for keys in nothing {
        table.delete(&[keys]).unwrap();
    }
    assert_eq!(db.snapshot().unwrap().lsn(), before, "there was nothing to commit");
    table.delete(&[Arc::new(Int64Array::from(vec![None, Some(2)])) as ArrayRef]).unwrap();
    let snapshot = table.snapshot().unwrap();
    let request = EstimateRequest {
        aggregates: vec![("mean".into(), Aggregate::avg("id"))],
        ..Default::default()
    };
    assert_eq!(snapshot.estimate(&request).unwrap().population, 1);
    assert_eq!(snapshot.rows().unwrap(), 1);
}
