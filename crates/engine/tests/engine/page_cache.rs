//! What the page cache keeps: nothing is read again and again that fits it.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::{Database, OnError, Options, ScanRequest, Table, TableSnapshot, TableSpec};

use crate::fixtures::schema_of;

const ROWS: i64 = 60_000;
/// Enough for a dictionary of about a megabyte.
const NAMES: i64 = 30_000;

fn open(folder: &tempfile::TempDir, cache_bytes: u64) -> Database {
    let options = Options { cache_bytes, direct_io: false, ..Options::default() };
    Database::open(folder.path(), options).unwrap()
}

fn append_names(table: &Table, ids: impl Iterator<Item = i64>) {
    let ids: Vec<i64> = ids.collect();
    let names = ids.iter().map(|id| format!("a customer who is called {:06}", id * 7 % NAMES));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(Int64Array::from(ids.iter().map(|id| id * 3).collect::<Vec<_>>())),
    ];
    let columns = [vec![Arc::new(Int64Array::from(ids)) as ArrayRef], columns].concat();
    let batch = RecordBatch::try_new(table.schema().columns.clone(), columns).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
}

fn get(table: &TableSnapshot, id: i64) {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    assert!(table.get(&[key], None).unwrap().positions[0].is_some());
}

fn stream_pages(db: &Database) -> u64 {
    db.stats().unwrap().stream_pages_read
}

#[test]
fn a_dictionary_is_read_once_however_long_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let fields = [
        ("id", DataType::Int64, false),
        ("name", DataType::Utf8, false),
        ("amount", DataType::Int64, false),
    ];
    let spec = TableSpec::new(schema_of(&fields), ["id"]);
    {
        let db = open(&folder, 32 << 20);
        let table = db.create_table("t", spec).unwrap();
        for half in 0..2 {
            append_names(&table, (0..ROWS).filter(|id| id % 2 == half));
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    // Of the last, no dictionary fits the part that stays.
    for cache_bytes in [128 << 20, 8 << 20, 3 << 20] {
        let db = open(&folder, cache_bytes);
        let table = db.table("t").unwrap();
        let snapshot = table.snapshot().unwrap();
        let segments = snapshot.pieces() as u64;
        (0..600).for_each(|at| get(&snapshot, at * 7919 % ROWS));
        // The directory of the streams is not asked for.
        assert!(stream_pages(&db) <= segments, "{} of {segments}", stream_pages(&db));
        let columns = Some(vec!["name".into()]);
        let request = || ScanRequest { columns: columns.clone(), ..ScanRequest::default() };
        let scan =
            || snapshot.scan(request()).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        let rows: usize = scan();
        assert_eq!(rows as i64, ROWS);
        db.close().unwrap();
    }
    // A merge reads each dictionary once, not for each chunk.
    let db = open(&folder, 0);
    let snapshot = db.table("t").unwrap().snapshot().unwrap();
    let segments = snapshot.pieces() as u64;
    let before = stream_pages(&db);
    db.compact().unwrap();
    assert!(stream_pages(&db) - before <= segments, "{}", stream_pages(&db) - before);
}

#[test]
fn pages_of_segments_that_are_gone_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let fields = [
        ("id", DataType::Int64, false),
        ("a", DataType::Int64, false),
        ("b", DataType::Int64, false),
    ];
    let db = open(&folder, 2 << 20);
    let table = db.create_table("t", TableSpec::new(schema_of(&fields), ["id"])).unwrap();
    let append = |ids: Vec<i64>| {
        // What looks like chance is not made smaller.
        let noise =
            |by: i64| ids.iter().map(|id| id.wrapping_mul(by) & 0x3fff_ffff).collect::<Vec<_>>();
        let columns = [ids.clone(), noise(0x9e37_79b9_7f4a), noise(0x2545_f491_4f6d)];
        let columns = columns.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
        let schema = table.schema().columns.clone();
        let batch = RecordBatch::try_new(schema, columns.to_vec()).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    };
    let reads = |column: &str| {
        let before = stream_pages(&db);
        let columns = Some(vec![column.to_string()]);
        let request = ScanRequest { columns, ..ScanRequest::default() };
        let scan = table.snapshot().unwrap().scan(request).unwrap();
        assert!(scan.map(|batch| batch.unwrap().num_rows()).sum::<usize>() >= 300_000);
        stream_pages(&db) - before
    };
    append((0..300_000).map(|id| id * 2).collect());
    db.compact().unwrap();
    for column in ["a", "b", "a", "b"] {
        reads(column);
    }
    let warm = reads("a");
    append(vec![1]);
    db.compact().unwrap();
    let cold = reads("a");
    assert!(cold > warm + 3, "{cold} after {warm}");
    reads("a");
    assert!(reads("a") <= warm + 2, "{} of the new segment", reads("a"));
}
