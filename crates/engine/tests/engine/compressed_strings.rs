//! Strings that seldom come again: on disk they are compressed. Reads return the same rows, and files are smaller.

use std::path::Path;
use std::sync::Arc;

use drillcore::arrow_array::builder::{ListBuilder, StringBuilder};
use drillcore::arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, SchemaRef};
use drillcore::*;

use crate::fixtures::{as_one, ids, of_keys, of_set, schema_of};

const ROWS: i64 = 4_000;
const WORDS: [&str; 8] =
    ["payment", "order", "timeout", "connection", "customer", "retry", "refused", "shipment"];

fn schema() -> SchemaRef {
    let tags = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    schema_of(&[
        ("id", DataType::Int64, false),
        ("line", DataType::Utf8, true),
        ("document", DataType::Utf8, true),
        ("payload", DataType::Binary, false),
        ("tags", tags, true),
        ("noise", DataType::Binary, false),
    ])
}

fn word(at: i64) -> &'static str {
    WORDS[at.unsigned_abs() as usize % WORDS.len()]
}

/// A line of a log.
fn line(id: i64) -> String {
    format!("{} of {} {id} failed after {} ms", word(id), word(id / 3), id * 37 % 5_000)
}

/// Some of half a kilobyte, some of several, and every ninth of many.
fn document(id: i64) -> String {
    let items = if id % 9 == 0 { 400 } else { 5 + id % 20 };
    let item =
        |at: i64| format!("{{\"name\":\"{}\",\"count\":{}}}", word(id + at), id * at % 1_000);
    (0..items).map(item).collect::<Vec<_>>().join(",")
}

fn rows(ids: impl Iterator<Item = i64> + Clone, version: i64) -> RecordBatch {
    let mut tags = ListBuilder::new(StringBuilder::new());
    for id in ids.clone() {
        (0..id % 4).for_each(|at| tags.values().append_value(format!("{}-{id}", word(id + at))));
        tags.append(id % 7 > 0);
    }
    let noise = |id: i64| (id * ROWS + version).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter(
            ids.clone().map(|id| (id % 11 > 0).then(|| line(id * version))),
        )),
        Arc::new(StringArray::from_iter(
            ids.clone().map(|id| (id % 5 > 0).then(|| document(id + version))),
        )),
        Arc::new(BinaryArray::from_iter_values(ids.clone().map(|id| line(id + version)))),
        Arc::new(tags.finish()),
        Arc::new(BinaryArray::from_iter_values(ids.map(|id| noise(id).to_be_bytes()))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The same rows wherever they lie: scanned whole, in part, backwards, by key, at random.
fn assert_same(found: &TableSnapshot, expected: &TableSnapshot, what: &str) {
    let columns = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    let scans = [
        ScanRequest::default(),
        ScanRequest { reverse: true, threads: Some(2), ..Default::default() },
        ScanRequest { columns: columns(&["document"]), ..Default::default() },
        ScanRequest { columns: columns(&["id", "tags", "noise"]), ..Default::default() },
    ];
    for scan in scans {
        let all = |table: &TableSnapshot| as_one(table.scan(scan.clone()).unwrap());
        assert_eq!(all(found), all(expected), "{what}");
    }
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS + 50).rev().step_by(13)));
    let get = |table: &TableSnapshot| table.get(std::slice::from_ref(&keys), None).unwrap().rows;
    assert_eq!(get(found), get(expected), "{what}");
    let request = SampleRequest { n: 300, seed: Some(5), ..Default::default() };
    let drawn = found.sample(&request).unwrap();
    for row in 0..drawn.num_rows() {
        let drawn = drawn.slice(row, 1);
        let id = ids(&drawn)[0];
        let scan = ScanRequest { selection: of_keys(id, id), ..Default::default() };
        let rows = as_one(expected.scan(scan).unwrap());
        assert!((0..rows.num_rows()).any(|row| rows.slice(row, 1) == drawn), "{what}");
    }
}

fn bytes_of_segments(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let segments = files.filter(|file| file.file_name().to_str().unwrap().starts_with("segment-"));
    segments.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn strings_that_are_alike_take_half_of_the_disk_and_come_back() {
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let spec = || TableSpec::new(schema(), ["id"]).merge(merge.clone());
        let in_memory = Database::in_memory(Options::default()).unwrap();
        let expected = in_memory.create_table("t", spec()).unwrap();
        let mut db = Database::open(folder.path(), Options::default()).unwrap();
        let mut table = db.create_table("t", spec()).unwrap();
        let mut raw = 0;
        for (part, version) in [(0, 1), (1, 1), (0, 2)] {
            let batch = rows((part..ROWS).step_by(2), version);
            raw += batch
                .columns()
                .iter()
                .map(|of| of.to_data().get_slice_memory_size().unwrap())
                .sum::<usize>();
            for table in [&table, &expected] {
                table.append(&batch, OnError::Raise).unwrap();
            }
            db.flush().unwrap();
        }
        assert_same(&table.snapshot().unwrap(), &expected.snapshot().unwrap(), "flushed");
        let bytes = bytes_of_segments(folder.path());
        assert!(bytes * 2 < raw as u64, "{bytes} bytes of {raw}");
        db.close().unwrap();
        db = Database::open(folder.path(), Options::default()).unwrap();
        table = db.table("t").unwrap();
        assert_same(&table.snapshot().unwrap(), &expected.snapshot().unwrap(), "opened anew");
        db.compact().unwrap();
        assert_same(&table.snapshot().unwrap(), &expected.snapshot().unwrap(), "compacted");
        assert_eq!(db.verify().unwrap().faults, Vec::<String>::new());
        db.close().unwrap();
    }
}

/// Rows of one group of a segment's streams.
const GROUP: i64 = 32_768;

/// Sets that no index knows are found by codes where there are any: not where all texts of a group are null, or have no codes.
#[test]
fn sets_without_an_index_are_found_beside_groups_of_nulls_and_of_many_texts() {
    let schema = schema_of(&[("id", DataType::Int64, false), ("session", DataType::Utf8, true)]);
    let few = |id: i64| Some(format!("few {}", id % 5));
    let unique = |id: i64| Some(format!("session {id} of 32768"));
    let kinds: [&dyn Fn(i64) -> Option<String>; 3] = [&|_| None, &few, &unique];
    let orders: [&[usize]; 7] = [&[0, 2], &[2, 0], &[0, 1, 2], &[1, 2], &[2, 1, 0], &[0, 1], &[2]];
    for order in orders {
        for merge in [Merge::Append, Merge::Upsert] {
            let folder = tempfile::tempdir().unwrap();
            let on_disk = Database::open(folder.path(), Options::default()).unwrap();
            let in_memory = Database::in_memory(Options::default()).unwrap();
            let tables = [&on_disk, &in_memory].map(|db| {
                let spec = TableSpec::new(schema.clone(), ["id"]).set("session");
                let spec = spec.merge(merge.clone()).without_set_index();
                let table = db.create_table("t", spec).unwrap();
                let rows = |ids: Vec<i64>| {
                    let session = |&id: &i64| kinds[order[(id / GROUP) as usize]](id);
                    let sessions = StringArray::from_iter(ids.iter().map(session));
                    let ids = Int64Array::from(ids);
                    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(sessions)];
                    RecordBatch::try_new(schema.clone(), columns).unwrap()
                };
                let ids = 0..order.len() as i64 * GROUP;
                table.append(&rows(ids.collect()), OnError::Raise).unwrap();
                table
            });
            on_disk.flush().unwrap();
            on_disk.compact().unwrap();
            let [found, expected] = tables.each_ref().map(|table| table.snapshot().unwrap());
            let unique_ids =
                order.iter().position(|&kind| kind == 2).map_or(0, |at| at as i64 * GROUP);
            let names = [
                None,
                few(3),
                unique(unique_ids + 40),
                unique(unique_ids + GROUP - 1),
                Some("of no row".to_string()),
            ];
            for name in names {
                let selection = match &name {
                    Some(name) => of_set(name),
                    None => Selection {
                        sets: Some(Arc::new(StringArray::new_null(1))),
                        ..Default::default()
                    },
                };
                let count = |table: &TableSnapshot| table.count(&selection).unwrap();
                assert_eq!(count(&found), count(&expected), "{name:?} of {order:?}");
                let scan = ScanRequest { selection: selection.clone(), ..Default::default() };
                let rows = |table: &TableSnapshot| as_one(table.scan(scan.clone()).unwrap());
                assert_eq!(rows(&found), rows(&expected), "{name:?} of {order:?}");
            }
            let (found, expected) = (found.sets().unwrap(), expected.sets().unwrap());
            assert_eq!(found.values.as_ref(), expected.values.as_ref(), "{order:?}");
            assert_eq!(found.rows, expected.rows, "{order:?}");
        }
    }
}
