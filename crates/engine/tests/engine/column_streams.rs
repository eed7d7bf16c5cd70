//! Scans of columns that lie by themselves beside the rows: the same answers, and only what they need is read.

use std::sync::Arc;

use drillcore::arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array, UInt32Array,
};
use drillcore::arrow_schema::{DataType, Field, Schema};
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::{as_one, key, named, schema_of};

/// Three groups, the last of them short.
const ROWS: i64 = 70_001;

fn database() -> Database {
    with_cache(64 << 20)
}

fn with_cache(cache_bytes: u64) -> Database {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options { maintenance_threads: 1, cache_bytes, ..Default::default() };
    Database::open_in(files, options).unwrap()
}

/// A column of each kind, with and without nulls; some would be worth no page.
fn rows(ids: std::ops::Range<i64>, seed: u64) -> RecordBatch {
    let mut rng = Rng::keyed(seed, 0);
    let ids: Vec<i64> = ids.collect();
    let mut some = |share: u64| -> Vec<Option<u64>> {
        ids.iter().map(|_| (rng.below(100) >= share).then(|| rng.below(1 << 40))).collect()
    };
    let small = some(3);
    let names = some(20).into_iter().map(|n| n.map(|n| format!("name {}", n % 3000)));
    let notes = some(0).into_iter().map(|n| n.map(|n| format!("a note of its own, {n}")));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids.clone()))),
        ("name", Arc::new(names.collect::<StringArray>())),
        ("note", Arc::new(notes.collect::<StringArray>())),
        (
            "price",
            Arc::new(
                some(0)
                    .iter()
                    .map(|n| n.map(|n| (n % 9973) as f64 / 100.0))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "odd",
            Arc::new(
                some(9).iter().map(|n| n.map(|n| (n as f64).sqrt())).collect::<Float64Array>(),
            ),
        ),
        (
            "short",
            Arc::new(
                some(0).iter().map(|n| n.map(|n| (n % 100) as f32 / 8.0)).collect::<Float32Array>(),
            ),
        ),
        (
            "flag",
            Arc::new(some(40).iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        ),
        ("level", Arc::new(small.iter().map(|n| n.map(|n| n as u8)).collect::<UInt8Array>())),
        ("day", Arc::new(ids.iter().map(|id| Some((id / 1000) as i32)).collect::<Date32Array>())),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                ids.iter().map(|id| id * 1_000_000 + 7),
            )),
        ),
        ("money", Arc::new(some(0).iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>())),
        ("nothing", Arc::new(Int64Array::new_null(ids.len()))),
    ];
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), *name != "id")
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(schema.into(), columns.into_iter().map(|(_, array)| array).collect())
        .unwrap()
}

/// One batch of what a scan gives.
fn scanned(
    table: &Table,
    columns: &[&str],
    reverse: bool,
    from: i64,
    threads: Option<usize>,
) -> RecordBatch {
    let low = Some(key(from));
    let between = (from > 0).then(|| Between { low, high: None, closed: Closed::Both });
    let request = ScanRequest {
        selection: Selection { between, ..Default::default() },
        columns: Some(columns.iter().map(ToString::to_string).collect()),
        reverse,
        threads,
        ..Default::default()
    };
    as_one(table.snapshot().unwrap().scan(request).unwrap())
}

/// What [`scanned`] should give of rows in key order.
fn expected(rows: &RecordBatch, columns: &[&str], reverse: bool, from: i64) -> RecordBatch {
    let columns: Vec<usize> =
        columns.iter().map(|name| rows.schema().index_of(name).unwrap()).collect();
    let from = from.min(rows.num_rows() as i64) as usize;
    let rows = rows.slice(from, rows.num_rows() - from).project(&columns).unwrap();
    if !reverse {
        return rows;
    }
    let order = UInt32Array::from_iter_values((0..rows.num_rows() as u32).rev());
    arrow_select::take::take_record_batch(&rows, &order).unwrap()
}

const SELECTIONS: [&[&str]; 6] = [
    &["price"],
    &["id"],
    &["name", "at", "id"],
    &["odd", "short", "flag", "level"],
    &["day", "money", "nothing"],
    &["note", "price"],
];

#[test]
fn a_scan_by_columns_gives_what_was_appended() {
    for merge in [Merge::Append, Merge::Upsert] {
        let database = database();
        let batch = rows(0..ROWS, 1);
        let spec = TableSpec::new(batch.schema(), ["id"]).merge(merge).set("name");
        let table = database.create_table("t", spec).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        database.compact().unwrap();
        let all: Vec<&str> =
            batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        for columns in SELECTIONS.into_iter().chain([all.as_slice()]) {
            for reverse in [false, true] {
                for from in [0, 1, 8_192, 40_000, ROWS - 20_000, ROWS - 3, ROWS] {
                    let threads = (from % 2 == 0).then_some(1);
                    let found = scanned(&table, columns, reverse, from, threads);
                    let wanted = expected(&batch, columns, reverse, from);
                    assert!(found == wanted, "{columns:?}, reverse {reverse}, from {from}");
                }
            }
        }
        assert!(database.verify().unwrap().faults.is_empty());
    }
}

/// Pages of streams and blocks that a scan of the whole table reads.
fn pages_of(database: &Database, table: &Table, columns: &[&str]) -> (u64, u64) {
    let pages =
        || database.stats().map(|stats| (stats.stream_pages_read, stats.blocks_read)).unwrap();
    let before = pages();
    scanned(table, columns, false, 0, Some(1));
    (pages().0 - before.0, pages().1 - before.1)
}

#[test]
fn a_scan_reads_the_pages_of_its_columns_and_no_other() {
    let batch = rows(0..ROWS, 2);
    let with_cache = |cache_bytes| {
        let database = with_cache(cache_bytes);
        let table = database.create_table("t", TableSpec::new(batch.schema(), ["id"])).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        database.compact().unwrap();
        (database, table)
    };
    let (database, table) = with_cache(64 << 20);
    assert_eq!(pages_of(&database, &table, &["price"]), (3 + 1, 0));
    assert_eq!(pages_of(&database, &table, &["price"]), (0, 0), "the cache has room for them");
    let (database, table) = with_cache(0);
    // One page for each of three groups; the first time the directory, and the dictionary of a text.
    assert_eq!(pages_of(&database, &table, &["price"]), (3 + 1, 0));
    assert_eq!(pages_of(&database, &table, &["price"]), (3, 0));
    assert_eq!(pages_of(&database, &table, &["name", "id"]), (6 + 1, 0));
    // Each note is another one: they lie in blocks alone, and so what is read beside them; and the symbols that they are compressed by.
    let (streams, blocks) = pages_of(&database, &table, &["note", "id"]);
    assert!(streams == 1 && blocks > 600, "{streams} pages and {blocks} blocks");
}

#[test]
fn an_estimate_that_reads_all_rows_reads_the_pages_of_its_columns_and_no_other() {
    let batch = rows(0..ROWS, 7);
    let database = with_cache(0);
    let table = database.create_table("t", TableSpec::new(batch.schema(), ["id"])).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    database.compact().unwrap();
    let pages =
        || database.stats().map(|stats| (stats.stream_pages_read, stats.blocks_read)).unwrap();
    let estimated = |aggregate: Aggregate| {
        let request = EstimateRequest {
            aggregates: named(&[aggregate]),
            stop: Stop::Error(HalfWidth::Relative(1e-12)),
            ..Default::default()
        };
        let before = pages();
        let found = table.snapshot().unwrap().estimate(&request).unwrap();
        assert!(found.exact && found.scanned == ROWS as u64, "{}", found.method);
        (pages().0 - before.0, pages().1 - before.1)
    };
    // The directory is read once.
    assert_eq!(estimated(Aggregate::sum("price")), (3 + 1, 0));
    assert_eq!(estimated(Aggregate::avg("level")), (3, 0));
    assert_eq!(estimated(Aggregate::ratio("price", "short")), (6, 0));
}

#[test]
fn a_table_of_keys_and_long_values_has_no_streams() {
    let database = database();
    let batch = rows(0..ROWS, 3).project(&[0, 2]).unwrap();
    let table = database.create_table("t", TableSpec::new(batch.schema(), ["id"])).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    database.compact().unwrap();
    let (streams, blocks) = pages_of(&database, &table, &["id"]);
    assert!(streams == 0 && blocks > 200, "{streams} pages and {blocks} blocks");
}

#[test]
fn a_column_that_was_added_is_null_where_rows_are_older_and_deleted_rows_are_not_shown() {
    let database = database();
    let batch = rows(0..ROWS, 4).project(&[0, 1, 3]).unwrap();
    let spec = TableSpec::new(batch.schema(), ["id"]).merge(Merge::Upsert);
    let table = database.create_table("t", spec).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    database.compact().unwrap();
    table.add_column("more", &DataType::Int32).unwrap();
    let found = scanned(&table, &["more", "price"], false, 0, None);
    assert_eq!(found.num_rows() as i64, ROWS);
    assert_eq!(found.column(0).null_count() as i64, ROWS);
    assert_eq!(found.column(1), batch.column(2));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).step_by(2)));
    // The segment keeps its tombstones while a snapshot needs what lies beneath.
    let _before = table.snapshot().unwrap();
    table.delete(&[keys]).unwrap();
    database.compact().unwrap();
    let found = scanned(&table, &["id", "more"], false, 0, None);
    let odd: ArrayRef = Arc::new(Int64Array::from_iter_values((1..ROWS).step_by(2)));
    assert_eq!(found.column(0), &odd);
}

#[test]
fn a_table_of_a_thousand_columns_has_small_groups() {
    let database = database();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000));
    let fields: Vec<Field> =
        (0..1_000).map(|at| Field::new(format!("c{at}"), DataType::Int64, false)).collect();
    let batch = RecordBatch::try_new(Schema::new(fields).into(), vec![ids.clone(); 1_000]).unwrap();
    let table = database.create_table("t", TableSpec::new(batch.schema(), ["c0"])).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
    database.compact().unwrap();
    assert_eq!(pages_of(&database, &table, &["c999"]), (5 + 1, 0));
    assert_eq!(scanned(&table, &["c500"], false, 0, None).column(0), &ids);
    assert!(database.verify().unwrap().faults.is_empty());
}

#[test]
fn pieces_whose_keys_do_not_overlap_are_read_one_after_the_other() {
    for merge in [Merge::Append, Merge::Upsert] {
        let database = with_cache(0);
        let _hold = database.hold_maintenance();
        let all = rows(0..ROWS, 5);
        let spec = TableSpec::new(all.schema(), ["id"]).merge(merge.clone());
        let table = database.create_table("t", spec).unwrap();
        // Not in the order of their keys.
        for (from, to) in [(20_000, 50_000), (0, 20_000), (50_000, ROWS)] {
            let part = all.slice(from as usize, (to - from) as usize);
            table.append(&part, OnError::Raise).unwrap();
            database.flush().unwrap();
        }
        let (streams, blocks) = pages_of(&database, &table, &["price", "at"]);
        assert!(streams > 0 && blocks == 0, "{merge:?}: {streams} pages and {blocks} blocks");
        let check = |what: &str| {
            for columns in [&["price", "name"][..], &["id"], &["note", "at"]] {
                for reverse in [false, true] {
                    for from in [0, 19_999, 30_000, 65_000] {
                        let threads = (from % 2 == 0).then_some(1);
                        let found = scanned(&table, columns, reverse, from, threads);
                        let wanted = expected(&all, columns, reverse, from);
                        assert!(
                            found == wanted,
                            "{merge:?}, {what}: {columns:?}, {reverse}, {from}"
                        );
                    }
                }
            }
        };
        check("three pieces");
        if matches!(merge, Merge::Upsert) {
            // The same rows again, over the border of two pieces: these three are merged.
            let again = all.slice(19_000, 2_000);
            table.append(&again, OnError::Raise).unwrap();
            check("a run over two of them");
            database.flush().unwrap();
            check("a segment over two of them");
            let (streams, blocks) = pages_of(&database, &table, &["price"]);
            assert!(streams > 0 && blocks > 100, "{streams} pages and {blocks} blocks");
        }
    }
}

#[test]
fn the_table_says_which_columns_are_streams() {
    let database = database();
    let batch = rows(0..ROWS, 6);
    let pages = |name: &str, streams: &[&str], columns: &[&str]| {
        let spec = TableSpec::new(batch.schema(), ["id"]).streams(streams.iter().copied());
        let table = database.create_table(name, spec.clone()).unwrap();
        assert_eq!(TableSpec::of(&table.schema()).streams, spec.streams);
        table.append(&batch, OnError::Raise).unwrap();
        database.compact().unwrap();
        let (streams, blocks) = pages_of(&database, &table, columns);
        let found = scanned(&table, columns, false, 0, None);
        assert!(found == expected(&batch, columns, false, 0), "{name}");
        (streams, blocks > 0)
    };
    assert_eq!(pages("none", &[], &["price"]), (0, true));
    assert_eq!(pages("some", &["id", "price"], &["id", "price"]), (6 + 1, false));
    assert_eq!(pages("others", &["price"], &["id", "price"]), (1, true));
    assert_eq!(pages("key", &["id"], &["id"]), (3 + 1, false));
    assert!(database.verify().unwrap().faults.is_empty());
    let refused = |streams: &[&str]| {
        let spec = TableSpec::new(batch.schema(), ["id"]).streams(streams.iter().copied());
        database.create_table("t", spec).err().unwrap().to_string()
    };
    assert!(refused(&["prize"]).contains("\"price\""));
    assert!(refused(&["id", "id"]).contains("listed twice"));
    let binary = schema_of(&[("id", DataType::Int64, false), ("raw", DataType::Binary, false)]);
    let spec = TableSpec::new(binary, ["id"]).streams(["raw"]);
    let error = database.create_table("t", spec).err().unwrap().to_string();
    assert!(error.contains("\"raw\"") && error.contains("leave it out"), "{error}");
    let again = TableSpec::new(batch.schema(), ["id"]).exist_ok();
    assert!(database.create_table("some", again.clone().streams(["id", "price"])).is_ok());
    let error = database.create_table("some", again).err().unwrap().to_string();
    assert!(error.contains("its list of streams is (id, price), not by size"), "{error}");
}

/// A text that comes again is in a block as a code into the segment's dictionary, whether or not its column is a stream.
#[test]
fn texts_are_stored_once_without_streams_too() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        (
            "name",
            Arc::new(
                (0..ROWS)
                    .map(|id| Some(format!("a name, {}", id * 7919 % 3000)))
                    .collect::<StringArray>(),
            ),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let bytes = |streams: Option<&[&str]>| {
        let db = database();
        let spec = TableSpec::new(batch.schema(), ["id"]);
        let spec = match streams {
            None => spec,
            Some(streams) => spec.streams(streams.iter().copied()),
        };
        let table = db.create_table("t", spec).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
        db.flush().unwrap();
        let bytes = db.stats().unwrap().tables[0].segment_bytes as f64 / ROWS as f64;
        let columns = ["id", "name"];
        assert_eq!(scanned(&table, &columns, false, 0, None), expected(&batch, &columns, false, 0));
        bytes
    };
    let (by_size, none, only_id) = (bytes(None), bytes(Some(&[])), bytes(Some(&["id"])));
    // 12 bits of a code, two bytes of the key, 1.3 of a filter, and what pages need; with texts it was 18.
    assert!(none < 7.0, "{none} bytes per row");
    assert!(none < only_id && only_id < by_size, "{none}, {only_id}, {by_size}");
}
