//! Long values lie apart from their rows: they come back everywhere, and cost nothing where they are not asked for.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::{DataType, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{as_one, key, schema_of};

const ROWS: i64 = 3_000;

fn schema() -> Arc<Schema> {
    schema_of(&[
        ("id", DataType::Int64, false),
        ("note", DataType::Utf8, true),
        ("n", DataType::Int64, false),
        ("body", DataType::Binary, true),
    ])
}

fn notes_and_bodies_spec() -> TableSpec {
    TableSpec::new(schema(), ["id"])
}

/// Values of all lengths around the one from which on they lie apart, short ones and nulls among them.
fn rows(ids: impl Iterator<Item = i64>, seed: u64) -> RecordBatch {
    let mut rng = Rng::keyed(seed, 0);
    let ids: Vec<i64> = ids.collect();
    let mut value = || {
        let len = match rng.below(10) {
            0 => return None,
            1 => 0,
            2..5 => rng.below(40),
            5 => 1015 + rng.below(12),
            6..9 => 1000 + rng.below(4000),
            _ => 5_000 + rng.below(60_000),
        };
        Some((0..len).map(|_| b'a' + rng.below(26) as u8).collect::<Vec<u8>>())
    };
    let notes: Vec<_> = ids.iter().map(|_| value()).collect();
    let bodies: Vec<_> = ids.iter().map(|_| value()).collect();
    let notes = notes.iter().map(|note| note.as_ref().map(|note| str::from_utf8(note).unwrap()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(notes.collect::<StringArray>()),
        Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| id * 3))),
        Arc::new(bodies.iter().map(Option::as_deref).collect::<BinaryArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn database() -> Database {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options { cache_bytes: 1 << 20, segment_bytes: 8 << 20, ..Default::default() };
    Database::open_in(files, options).unwrap()
}

fn scanned(table: &TableSnapshot, columns: &[&str], reverse: bool) -> RecordBatch {
    let columns = Some(columns.iter().map(ToString::to_string).collect());
    as_one(table.scan(ScanRequest { columns, reverse, ..Default::default() }).unwrap())
}

fn taken(rows: &RecordBatch, numbers: impl Iterator<Item = i64>, columns: &[&str]) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(numbers);
    let columns: Vec<usize> =
        columns.iter().map(|name| rows.schema().index_of(name).unwrap()).collect();
    arrow_select::take::take_record_batch(&rows.project(&columns).unwrap(), &numbers).unwrap()
}

#[test]
fn long_values_come_back_from_every_read() {
    for merge in [Merge::Append, Merge::Upsert] {
        let db = database();
        let table = db.create_table("t", notes_and_bodies_spec().merge(merge)).unwrap();
        let all = rows(0..ROWS, 4);
        // Parts that overlap, so that merges read and write long values, too.
        for part in 0..3 {
            let ids = (0..ROWS).filter(|id| id % 3 == part);
            let columns = ["id", "note", "n", "body"];
            table.append(&taken(&all, ids, &columns), OnError::Raise).unwrap();
            db.flush().unwrap();
        }
        for is_compacted in [false, true] {
            if is_compacted {
                db.compact().unwrap();
            }
            assert!(db.verify().unwrap().faults.is_empty());
            let snapshot = table.snapshot().unwrap();
            for columns in [&["id", "note", "n", "body"][..], &["body"], &["n", "note"], &["n"]] {
                assert_eq!(scanned(&snapshot, columns, false), taken(&all, 0..ROWS, columns));
                let backwards = taken(&all, (0..ROWS).rev(), columns);
                assert_eq!(scanned(&snapshot, columns, true), backwards);
                let wanted = [7, 2_999, 0, 1_500, 7, 1_234];
                let keys: ArrayRef = Arc::new(Int64Array::from(wanted.to_vec()));
                let names: Vec<String> = columns.iter().map(ToString::to_string).collect();
                let got = snapshot.get(&[keys], Some(&names)).unwrap();
                let found = got.positions.iter().map(|at| i64::from(at.unwrap()));
                let found = taken(&got.rows, found, columns);
                assert_eq!(found, taken(&all, wanted.into_iter(), columns));
            }
            let request = SampleRequest { n: 700, seed: Some(5), ..Default::default() };
            let sample = snapshot.sample(&request).unwrap();
            let ids = sample.column(0).as_primitive::<Int64Type>().values();
            assert_eq!(sample, taken(&all, ids.iter().copied(), &["id", "note", "n", "body"]));
        }
    }
}

#[test]
fn who_does_not_ask_for_a_long_value_reads_none() {
    let db = database();
    let table = db.create_table("t", notes_and_bodies_spec().streams(["id"])).unwrap();
    table.append(&rows(0..ROWS, 6), OnError::Raise).unwrap();
    db.compact().unwrap();
    let snapshot = table.snapshot().unwrap();
    let read = |what: &dyn Fn()| {
        let stats = || {
            let stats = db.stats().unwrap();
            (stats.long_values_read, stats.blocks_read, stats.bytes_read)
        };
        let before = stats();
        what();
        let after = stats();
        (after.0 - before.0, after.1 - before.1, after.2 - before.2)
    };
    let (long, _, bytes) = read(&|| {
        snapshot.get(&key(77), Some(&["n".to_string()])).unwrap();
    });
    assert_eq!((long, bytes <= 2 * 4096), (0, true), "{bytes} bytes");
    let (long, _, all_but_long) = read(&|| {
        assert_eq!(scanned(&snapshot, &["n"], false).num_rows() as i64, ROWS);
    });
    let whole = db.stats().unwrap().tables[0].segment_bytes;
    assert!(long == 0 && all_but_long * 10 < whole, "{all_but_long} of {whole} bytes");
    let (long, blocks, bytes) = read(&|| {
        scanned(&snapshot, &["note", "body"], false);
    });
    assert!(long > ROWS as u64 / 2 && bytes > whole / 2, "{long} values, {blocks} blocks");
    // One row: its block, and those of its values that lie apart.
    let (long, blocks, _) = read(&|| {
        snapshot.get(&key(2_345), None).unwrap();
    });
    assert!(long <= 2 && blocks <= 1, "{long} values, {blocks} blocks");
}

#[test]
fn a_flipped_bit_in_a_long_value_is_found_by_who_reads_it_and_by_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), Options::default()).unwrap();
    let table = db.create_table("t", notes_and_bodies_spec().streams(["id"])).unwrap();
    let long = "long ".repeat(1_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["short", &long])),
        Arc::new(Int64Array::from(vec![10, 20])),
        Arc::new(BinaryArray::from_opt_vec(vec![None, None])),
    ];
    table.append(&RecordBatch::try_new(schema(), columns).unwrap(), OnError::Raise).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let is_segment = |name: &std::path::Path| name.to_string_lossy().contains("segment-");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let path = files.into_iter().find(|path| is_segment(path)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(10).position(|window| window == b"long long ").unwrap();
    bytes[at + 100] ^= 4;
    std::fs::write(&path, bytes).unwrap();

    let db = Database::open(folder.path(), Options::default()).unwrap();
    let snapshot = db.table("t").unwrap().snapshot().unwrap();
    assert_eq!(scanned(&snapshot, &["n"], false).num_rows(), 2);
    let note = |id: i64| snapshot.get(&key(id), Some(&["note".to_string()]));
    assert_eq!(note(1).unwrap().rows.column(0).as_string::<i32>().value(0), "short");
    let error = note(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("segment-"), "{error}");
    assert_eq!(db.verify().unwrap().faults.len(), 1);
}
