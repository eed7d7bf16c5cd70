//! Values of megabytes between short ones, and values that are too long.

use std::sync::Arc;

use drillcore::arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder};
use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;

use crate::fixtures::{ids, schema_of};

const MIB: usize = 1 << 20;

fn schema() -> Arc<Schema> {
    schema_of(&[("id", DataType::Int64, false), ("text", DataType::Utf8, true)])
}

fn texts_spec(merge: Merge) -> TableSpec {
    TableSpec::new(schema(), ["id"]).merge(merge)
}

/// Rows whose texts have `len` bytes and differ.
fn rows(ids: std::ops::Range<i64>, len: usize) -> RecordBatch {
    let text = |id: i64| format!("{id:012}").chars().cycle().take(len).collect::<String>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter_values(ids.map(text))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The sizes for which this was reported: more than an array holds among the rows that are read at once.
fn sizes() -> (i64, i64, usize) {
    match std::env::var("DRILLCORE_LONG").is_ok_and(|value| value == "1") {
        true => (40_000, 620, 4 * MIB),
        false => (4_000, 40, 4 * MIB),
    }
}

#[test]
fn long_values_behind_many_short_ones_are_scanned_merged_checked_and_drawn() {
    let (short, long, len) = sizes();
    for merge in [Merge::Append, Merge::Upsert] {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { memory_bytes: 128 << 20, cache_bytes: 1 << 20, ..Default::default() };
        let db = Database::open(folder.path(), options.clone()).unwrap();
        let table = db.create_table("t", texts_spec(merge.clone())).unwrap();
        table.append(&rows(0..short, 20), OnError::Raise).unwrap();
        let mut from = short;
        while from < short + long {
            let to = (short + long).min(from + 5);
            table.append(&rows(from..to, len), OnError::Raise).unwrap();
            from = to;
        }
        let check = |what: &str| {
            let snapshot = table.snapshot().unwrap();
            for reverse in [false, true] {
                let scan = snapshot.scan(ScanRequest { reverse, ..Default::default() }).unwrap();
                let mut found = Vec::new();
                for batch in scan {
                    let batch = batch.unwrap_or_else(|error| panic!("{what}: {error}"));
                    let bytes = batch.column(1).as_string::<i32>().values().len();
                    assert!(batch.num_rows() as i64 <= short && bytes <= 1 << 30, "{what}");
                    found.extend(ids(&batch));
                }
                found.sort_unstable();
                assert_eq!(found, (0..short + long).collect::<Vec<_>>(), "{what}");
            }
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(short - 3..short + 3));
            let found = snapshot.get(&[keys], None).unwrap().rows;
            assert_eq!(found.num_rows(), 6, "{what}");
            let request = SampleRequest { n: 30, seed: Some(1), ..Default::default() };
            assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 30, "{what}");
            let report = db.verify().unwrap();
            assert_eq!(report.faults, Vec::<String>::new(), "{what}");
            assert_eq!(db.stats().unwrap().writer.unwrap().failure, None, "{what}");
        };
        check("as it was written");
        db.compact().unwrap();
        check("as one segment");
        let database = db.clone();
        drop(database);
    }
}

#[test]
fn a_value_that_is_too_long_is_refused_by_column_length_and_limit() {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options { memory_bytes: 2 << 30, ..Default::default() };
    let db = Database::open_in(files, options).unwrap();
    let list = DataType::new_list(DataType::Utf8, true);
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("text", DataType::Utf8, true),
        ("blob", DataType::Binary, true),
        ("tags", list, true),
        ("team", DataType::Utf8, true),
    ]);
    let spec = TableSpec {
        columns: columns.clone(),
        set: Some("team".into()),
        key: vec!["id".into()],
        ..texts_spec(Merge::Append)
    };
    let table = db.create_table("t", spec).unwrap();
    // Three rows; the middle one has a value of `len` bytes in one column.
    let batch = |column: usize, len: usize| {
        let len = |at: usize, row: usize| if at == column && row == 1 { len } else { 1 };
        let (mut text, mut blob) = (StringBuilder::new(), BinaryBuilder::new());
        let (mut tags, mut team) = (ListBuilder::new(StringBuilder::new()), StringBuilder::new());
        for row in 0..3 {
            text.append_value("x".repeat(len(1, row)));
            blob.append_value(vec![7; len(2, row)]);
            // Each of two items counts four bytes more.
            let of_item = len(3, row).saturating_sub(8).div_ceil(2);
            tags.values().append_value("x".repeat(of_item));
            tags.values().append_value("x".repeat(len(3, row).saturating_sub(8 + of_item)));
            tags.append(true);
            team.append_value("x".repeat(len(4, row)));
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(text.finish()),
            Arc::new(blob.finish()),
            Arc::new(tags.finish()),
            Arc::new(team.finish()),
        ];
        RecordBatch::try_new(table.schema().columns.clone(), columns).unwrap()
    };
    let logged = || db.stats().unwrap().wal_bytes;
    table.append(&batch(0, 1), OnError::Raise).unwrap();
    let cases = [(1, "text", 64 * MIB), (2, "blob", 64 * MIB), (3, "tags", 64 * MIB)];
    for (column, name, limit) in cases.into_iter().chain([(4, "team", 64 << 10)]) {
        let logged_before = logged();
        assert!(logged_before > 0);
        let error = table.append(&batch(column, limit + 1), OnError::Raise).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(logged(), logged_before, "nothing was logged");
        let message = error.to_string();
        for part in [format!("row 1: column {name:?}"), limit.to_string(), (limit + 1).to_string()]
        {
            assert!(message.contains(&part), "{message}");
        }
        let before = table.snapshot().unwrap().rows().unwrap();
        let result = table.append(&batch(column, limit + 1), OnError::Skip).unwrap();
        assert_eq!((result.rows, result.rejected.len(), result.rejected[0].row), (2, 1, 1));
        table.append(&batch(column, limit), OnError::Raise).unwrap();
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.rows().unwrap(), before + 5, "the limit itself is in");
        let rows: usize = snapshot
            .scan(ScanRequest::default())
            .unwrap()
            .map(|batch| batch.unwrap().num_rows())
            .sum();
        assert_eq!(rows as u64, before + 5);
    }
}

#[test]
fn a_key_that_is_too_long_is_refused_whatever_keys_mean() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let logged = || db.stats().unwrap().wal_bytes;
    let columns = ["a", "b", "more"].map(|name| Field::new(name, DataType::Utf8, true));
    let two_texts_spec = |merge: Merge| TableSpec {
        columns: Arc::new(Schema::new(columns.to_vec())),
        key: vec!["a".into(), "b".into()],
        ..texts_spec(merge)
    };
    let rollup = RollupSpec { discover: true, ..RollupSpec::default() };
    let batch = |lens: [usize; 3]| {
        let column = |len: usize| Arc::new(StringArray::from(vec!["x".repeat(len)])) as ArrayRef;
        let schema = Arc::new(Schema::new(columns.to_vec()));
        RecordBatch::try_new(schema, lens.map(column).to_vec()).unwrap()
    };
    let half = 32 << 10;
    for (name, merge) in [("append", Merge::Append), ("upsert", Merge::Upsert)] {
        let table = db.create_table(name, two_texts_spec(merge)).unwrap();
        table.append(&batch([1, 1, 1]), OnError::Raise).unwrap();
        let before = logged();
        assert!(before > 0);
        let error = table.append(&batch([half, half + 1, 1]), OnError::Raise).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(logged(), before, "nothing was logged");
        let expected = r#"row 0: key columns "a", "b": the strings of the key have 65537 bytes"#;
        assert!(error.to_string().starts_with(expected), "{error}");
        table.append(&batch([half, half, half]), OnError::Raise).unwrap();
        let key = |len: usize| Arc::new(StringArray::from(vec!["x".repeat(len)])) as ArrayRef;
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.get(&[key(half), key(half)], None).unwrap().rows.num_rows(), 1);
        assert_eq!(snapshot.get(&[key(half), key(half + 1)], None).unwrap().rows.num_rows(), 0);
        if name == "upsert" {
            table.delete(&[key(half), key(half)]).unwrap();
            let error = table.delete(&[key(half), key(half + 1)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
    }
    // A column that is discovered becomes part of the key.
    let table = db.create_table("rollup", two_texts_spec(Merge::Rollup(rollup))).unwrap();
    let error = table.append(&batch([half, half - 1, 2]), OnError::Raise).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(r#"key columns "a", "b", "more": the strings of the key have 65537 bytes"#),
        "{error}"
    );
    table.append(&batch([half, half - 1, 1]), OnError::Raise).unwrap();
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 1);
}

/// The longest values, some of them, on disk: each is read by itself.
#[test]
fn values_of_the_greatest_length_are_written_read_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    // Segments are short enough to be merged though their keys do not overlap.
    let options = Options {
        memory_bytes: 512 << 20,
        cache_bytes: 1 << 20,
        segment_bytes: 2 << 30,
        ..Default::default()
    };
    let db = Database::open(folder.path(), options).unwrap();
    let table = db.create_table("t", texts_spec(Merge::Append)).unwrap();
    for id in 0..3 {
        table.append(&rows(id..id + 1, 64 * MIB), OnError::Raise).unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.pieces(), 1);
    let scan = snapshot.scan(ScanRequest::default()).unwrap();
    let batches: Vec<RecordBatch> = scan.map(Result::unwrap).collect();
    assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(batches.iter().all(|batch| batch.num_rows() == 1), "a batch is closed by its bytes");
    assert!(db.verify().unwrap().faults.is_empty());
}
