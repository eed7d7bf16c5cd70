//! Zone maps in scans: rows are left out only where that changes no answer.

use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int64Type;
use drillcore::arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::schema_of;

/// `low <= column <= high`.
#[derive(Debug)]
struct Within {
    columns: Vec<String>,
    low: i64,
    high: i64,
    looks_at_zones: bool,
    /// Answers are kept by text; with and without zones each is found anew.
    text: String,
}

impl Predicate for Within {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let values = rows.column(0).as_primitive::<Int64Type>();
        let passes = |value| (self.low..=self.high).contains(&value);
        Ok(values.iter().map(|value| value.map(passes)).collect())
    }

    fn zone_columns(&self) -> &[String] {
        if self.looks_at_zones { &self.columns } else { &[] }
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        let Some(ColumnZones { mins, maxes, null_counts }) = zones.column(0) else {
            return Ok(BooleanArray::new_null(zones.len()));
        };
        let bounds = mins.as_primitive::<Int64Type>().iter().zip(maxes.as_primitive::<Int64Type>());
        let may_match = |zone: usize, (min, max): (Option<i64>, Option<i64>)| {
            let all_null = null_counts.value(zone) == zones.rows().value(zone);
            !all_null
                && min.is_none_or(|min| min <= self.high)
                && max.is_none_or(|max| max >= self.low)
        };
        Ok(bounds.enumerate().map(|(zone, bounds)| Some(may_match(zone, bounds))).collect())
    }

    fn text(&self) -> &str {
        &self.text
    }
}

fn within(column: &str, low: i64, high: i64, looks_at_zones: bool) -> Selection {
    let text = format!("{column} between {low} and {high}, zones {looks_at_zones}");
    let predicate = Within { columns: vec![column.into()], low, high, looks_at_zones, text };
    Selection { predicate: Some(Arc::new(predicate)), ..Default::default() }
}

fn database() -> Database {
    with_cache(64 << 20)
}

fn with_cache(cache_bytes: u64) -> Database {
    let files = Arc::new(directory::MemoryDirectory::new());
    let options = Options { maintenance_threads: 1, cache_bytes, ..Default::default() };
    Database::open_in(files, options).unwrap()
}

fn table(database: &Database, merge: Merge) -> Table {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("day", DataType::Int64, true),
        ("value", DataType::Int64, true),
    ]);
    let key = vec!["id", "day"];
    let spec = TableSpec::new(columns, key).merge(merge);
    database.create_table("t", spec).unwrap()
}

fn rollup() -> Merge {
    Merge::Rollup(RollupSpec::default().metric("value", Metric::max("value")))
}

fn append(table: &Table, rows: impl Iterator<Item = (i64, Option<i64>, Option<i64>)> + Clone) {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.clone().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.clone().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.map(|row| row.2).collect::<Int64Array>()),
    ];
    let names = ["id", "day", "value"];
    let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
    table.append(&batch, OnError::Raise).unwrap();
}

type Row = Vec<Option<i64>>;

fn scan(table: &Table, selection: &Selection, reverse: bool, limit: Option<u64>) -> Vec<Row> {
    // Several threads would read some blocks to find where to cut.
    let threads = Some(1);
    let selection = selection.clone();
    let request = ScanRequest { selection, reverse, limit, threads, ..Default::default() };
    let of_batch = |batch: RecordBatch| {
        let cell = |row, column: &ArrayRef| {
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let row = |row| batch.columns().iter().map(|column| cell(row, column)).collect();
        (0..batch.num_rows()).map(row).collect::<Vec<Row>>()
    };
    let scan = table.snapshot().unwrap().scan(request).unwrap();
    scan.flat_map(|batch| of_batch(batch.unwrap())).collect()
}

/// Whether the answers with zones are those without; returns how many blocks were left out.
fn check(database: &Database, table: &Table, column: &str, low: i64, high: i64) -> u64 {
    let (plain, zoned) = (within(column, low, high, false), within(column, low, high, true));
    let before = database.stats().unwrap().blocks_pruned;
    for (reverse, limit) in [(false, None), (true, None), (false, Some(7)), (true, Some(7))] {
        let expected = scan(table, &plain, reverse, limit);
        let found = scan(table, &zoned, reverse, limit);
        assert!(found == expected, "{column} in {low}..={high}, reverse {reverse}, {limit:?}");
    }
    let snapshot = || table.snapshot().unwrap();
    assert_eq!(snapshot().count(&zoned).unwrap(), snapshot().count(&plain).unwrap());
    assert_eq!(snapshot().count_events(&zoned).unwrap(), snapshot().count_events(&plain).unwrap());
    database.stats().unwrap().blocks_pruned - before
}

/// Rows by id with a day that rises with it; values scatter, and now and then there is none.
fn fill(database: &Database, table: &Table, rng: &mut Rng) {
    for round in 0..4 {
        let first = round * 3_000;
        let rows: Vec<_> = (first..first + 12_000)
            .map(|id| {
                let value = id / 10 + rng.below(50) as i64;
                (id, (id % 1_000 > 10).then_some(id / 100), rng.below(9).gt(&0).then_some(value))
            })
            .collect();
        append(table, rows.into_iter());
        // The last batch stays in memory.
        if round < 3 {
            database.flush().unwrap();
        }
    }
}

#[test]
fn scans_and_counts_with_zones_are_those_without() {
    let mut rng = Rng::keyed(3, 0);
    for merge in [Merge::Append, Merge::Upsert, rollup()] {
        let database = database();
        let hold = database.hold_maintenance();
        let table = table(&database, merge.clone());
        fill(&database, &table, &mut rng);
        let mut pruned = [0; 3];
        for _ in 0..12 {
            let low = rng.below(22_000) as i64;
            let high = low + rng.below(600) as i64;
            pruned[0] += check(&database, &table, "id", low, high);
            pruned[1] += check(&database, &table, "day", low / 100, high / 100);
            pruned[2] += check(&database, &table, "value", low / 10, high / 10);
        }
        let no_rows = check(&database, &table, "id", 1 << 40, 1 << 41);
        println!("{merge:?}: {pruned:?} blocks pruned by id, day and value, {no_rows} by none");
        assert!(pruned[0] > 1_000 && pruned[1] > 1_000, "{merge:?}: {pruned:?}");
        assert!(no_rows > 250, "{merge:?}: {no_rows}");
        // A column outside the key is only looked at where every row stands for itself.
        assert_eq!(pruned[2] > 0, matches!(merge, Merge::Append), "{merge:?}: {pruned:?}");
        drop(hold);
    }
}

#[test]
fn a_row_that_was_replaced_does_not_come_back_where_its_newer_version_cannot_pass() {
    let database = database();
    let _hold = database.hold_maintenance();
    let table = table(&database, Merge::Upsert);
    append(&table, (0..5_000).map(|id| (id, Some(0), Some(100))));
    database.flush().unwrap();
    append(&table, (0..5_000).map(|id| (id, Some(0), Some(1))));
    database.flush().unwrap();
    assert!(scan(&table, &within("value", 50, 200, true), false, None).is_empty());
    assert_eq!(scan(&table, &within("value", 0, 5, true), false, None).len(), 5_000);
}

#[test]
fn a_scan_reads_the_blocks_whose_zones_may_match_and_no_other() {
    let database = database();
    let table = table(&database, Merge::Append);
    append(&table, (0..100_000).map(|id| (id, Some(0), Some(id / 2))));
    database.flush().unwrap();
    let read = |selection: &Selection| {
        let before = database.stats().unwrap();
        let rows = scan(&table, selection, false, None).len();
        let after = database.stats().unwrap();
        let streams = after.stream_pages_read - before.stream_pages_read;
        let (blocks, pruned) =
            (after.blocks_read - before.blocks_read, after.blocks_pruned - before.blocks_pruned);
        (rows, streams, blocks, pruned)
    };
    // All of the streams of three columns, in four groups, and where they lie.
    assert_eq!(read(&within("value", 20_000, 20_049, false)), (100, 13, 0, 0));
    let (rows, streams, blocks, pruned) = read(&within("value", 20_000, 20_049, true));
    assert_eq!((rows, streams), (100, 0));
    assert!((1..=2).contains(&blocks) && pruned > 80, "{blocks} blocks, {pruned} pruned");
}

/// Without zones, which would have it read few blocks. Several threads once found their shares by looks at keys: a dozen index pages
/// and some seventy blocks.
#[test]
fn a_count_reads_the_streams_of_its_condition_and_no_other() {
    let database = with_cache(0);
    let table = table(&database, Merge::Append);
    append(&table, (0..200_000).map(|id| (id, Some(0), Some(id % 1_000))));
    database.flush().unwrap();
    let count = |selection: &Selection, expected: u64| {
        let before = database.stats().unwrap();
        assert_eq!(table.snapshot().unwrap().count(selection).unwrap(), expected);
        let after = database.stats().unwrap();
        let streams = after.stream_pages_read - before.stream_pages_read;
        let index_pages = after.index_pages_read - before.index_pages_read;
        (streams, index_pages, after.blocks_read - before.blocks_read)
    };
    // A page for each of seven groups; the first time the directory, which each thread may come to ask for.
    let (streams, ..) = count(&within("value", 200, 299, false), 20_000);
    assert!((8..12).contains(&streams), "{streams} pages");
    assert_eq!(count(&within("value", 300, 349, false), 10_000), (7, 0, 0));
    assert_eq!(count(&within("day", 1, 2, false), 0), (7, 0, 0));
    assert_eq!(count(&within("id", 1, 2, false), 2), (7, 0, 0));
}
