//! What is read to find rows: the index of a segment at once, with a short directory of sets, and of a sample no more than the rows
//! drawn.

use std::sync::Arc;

use drillcore::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use drillcore::arrow_schema::DataType;
use drillcore::*;
use drillcore_sample::rng::Rng;

use crate::fixtures::schema_of;

const ROWS: i64 = 200_000;

fn cities_spec() -> TableSpec {
    let columns = schema_of(&[
        ("id", DataType::Int64, false),
        ("city", DataType::Utf8, false),
        ("weight", DataType::Float64, false),
        ("note", DataType::Utf8, false),
    ]);
    TableSpec::new(columns, ["id"]).set("city").weights(["weight"])
}

/// One segment of some hundred thousand rows of about 100 bytes, behind an empty cache of some bytes.
fn opened(cache_bytes: u64) -> (Database, Table) {
    let files = Arc::new(directory::MemoryDirectory::new());
    let db = Database::open_in(files.clone(), Options::default()).unwrap();
    let table = db.create_table("t", cities_spec()).unwrap();
    let mut rng = Rng::keyed(7, 0);
    for ids in (0..ROWS).collect::<Vec<_>>().chunks(20_000) {
        let city = |id: &i64| if id % 100 == 0 { "small" } else { "large" };
        let mut note =
            |_: &i64| (0..5).map(|_| format!("{:016x}", rng.next_u64())).collect::<String>();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(StringArray::from_iter_values(ids.iter().map(city))),
            Arc::new(Float64Array::from_iter_values(ids.iter().map(|id| (1 + id % 9) as f64))),
            Arc::new(StringArray::from_iter_values(ids.iter().map(&mut note))),
        ];
        table
            .append(&RecordBatch::try_new(cities_spec().columns, columns).unwrap(), OnError::Raise)
            .unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    let db = Database::open_in(files, Options { cache_bytes, ..Options::default() }).unwrap();
    let table = db.table("t").unwrap();
    assert_eq!(table.snapshot().unwrap().pieces(), 1);
    (db, table)
}

fn get(table: &Table, id: i64) {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    assert_eq!(table.snapshot().unwrap().get(&[key], None).unwrap().rows.num_rows(), 1);
}

#[test]
fn the_index_of_a_segment_is_read_at_once_and_stays_while_the_segment_does() {
    let (db, table) = opened(4 << 20);
    let opened = db.stats().unwrap();
    // Several index pages.
    assert!((1..=2).contains(&opened.index_pages_read), "{} reads", opened.index_pages_read);
    assert!(opened.bytes_read > 30_000 && opened.cache_index_bytes >= opened.bytes_read);
    // And the only page of the directory of sets, which lies at the end of the file.
    assert_eq!(opened.set_pages_read, 0);
    assert!((1..8192).contains(&(opened.cache_bytes - opened.cache_index_bytes)));
    let sets: ArrayRef = Arc::new(StringArray::from(vec!["small"]));
    let small = Selection { sets: Some(sets), ..Selection::default() };
    assert_eq!(table.snapshot().unwrap().count(&small).unwrap(), ROWS as u64 / 100);
    assert_eq!(db.stats().unwrap().bytes_read, opened.bytes_read);
    // A block of some thirty rows has its place, its key and a sum of weights there.
    assert!(opened.cache_index_bytes < ROWS as u64, "{} bytes", opened.cache_index_bytes);
    (0..40).for_each(|step| get(&table, step * (ROWS / 40)));
    let after = db.stats().unwrap();
    assert_eq!(after.index_pages_read, opened.index_pages_read);
    assert_eq!(after.blocks_read - opened.blocks_read, 40);
    // A merged segment has an index of its own; the old one goes.
    let row = cities_spec().columns;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![ROWS / 2])),
        Arc::new(StringArray::from(vec!["small"])),
        Arc::new(Float64Array::from(vec![1.0])),
        Arc::new(StringArray::from(vec!["x"])),
    ];
    for _ in 0..5 {
        table
            .append(&RecordBatch::try_new(row.clone(), columns.clone()).unwrap(), OnError::Raise)
            .unwrap();
        db.compact().unwrap();
        (0..40).for_each(|step| get(&table, step * (ROWS / 40)));
    }
    let last = db.stats().unwrap();
    assert!(last.cache_bytes <= 4 << 20, "{} bytes are held", last.cache_bytes);
}

#[test]
fn a_cache_too_small_for_the_index_reads_it_page_by_page_within_its_budget() {
    let (db, table) = opened(40 << 10);
    let before = db.stats().unwrap();
    (0..40).for_each(|step| get(&table, (step * 7919) % ROWS));
    let after = db.stats().unwrap();
    assert!(after.index_pages_read - before.index_pages_read > 10);
    assert!(after.cache_bytes <= 40 << 10, "{} bytes are held", after.cache_bytes);
    assert_eq!(after.blocks_read - before.blocks_read, 40);
}

/// Pages of all kinds that a sample read, behind an empty cache.
fn pages_of_a_sample(n: u64, city: &str, weight: Option<&str>) -> u64 {
    let (db, table) = opened(16 << 20);
    let snapshot = table.snapshot().unwrap();
    let sets: ArrayRef = Arc::new(StringArray::from(vec![city]));
    let selection = Selection { sets: Some(sets), ..Selection::default() };
    let before = db.stats().unwrap();
    let weight = weight.map(Into::into);
    let request = SampleRequest { n, selection, weight, seed: Some(3), ..Default::default() };
    assert_eq!(snapshot.sample(&request).unwrap().num_rows() as u64, n);
    let after = db.stats().unwrap();
    let pages = |stats: &Stats| stats.blocks_read + stats.set_pages_read + stats.index_pages_read;
    pages(&after) - pages(&before)
}

#[test]
fn a_sample_of_a_set_costs_the_rows_drawn_with_weights_and_without() {
    for (n, city) in [(1, "large"), (1, "small"), (100, "large"), (100, "small")] {
        // The directory, a list's tables and chunks of some members each, and the blocks; the index once.
        let uniform = pages_of_a_sample(n, city, None);
        assert!(uniform <= 8 + 3 * n, "{n} of {city}: {uniform} pages");
        // Weights are 1 to 9, so that about two are drawn for each that is taken; each is drawn by itself.
        let weighted = pages_of_a_sample(n, city, Some("weight"));
        assert!(weighted <= 16 + 6 * n, "{n} of {city} by weight: {weighted} pages");
    }
}

#[test]
fn a_short_directory_of_sets_is_here_once_its_segment_is_open() {
    let files = Arc::new(directory::MemoryDirectory::new());
    let db = Database::open_in(files.clone(), Options::default()).unwrap();
    let columns = schema_of(&[("id", DataType::Int64, false), ("city", DataType::Utf8, false)]);
    let spec = TableSpec::new(columns.clone(), ["id"]).set("city");
    let table = db.create_table("t", spec).unwrap();
    let name = |city: u64| format!("{city:03}");
    // The lists of about a hundred rows each take four pages, of which the first lies before what is read of a file's end.
    let (cities, rows) = (75, 7_500);
    let mut rng = Rng::keyed(11, 0);
    let values: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(StringArray::from_iter_values((0..rows).map(|_| name(rng.below(cities))))),
    ];
    table.append(&RecordBatch::try_new(columns, values).unwrap(), OnError::Raise).unwrap();
    db.flush().unwrap();
    db.close().unwrap();

    let db = Database::open_in(files, Options::default()).unwrap();
    let read = || db.stats().unwrap().set_pages_read;
    let opened = read();
    assert!((1..=3).contains(&opened), "{opened} pages");
    let table = db.table("t").unwrap().snapshot().unwrap();
    let count = |city| {
        let sets: ArrayRef = Arc::new(StringArray::from(vec![name(city)]));
        table.count(&Selection { sets: Some(sets), ..Selection::default() }).unwrap()
    };
    assert_eq!((0..cities).map(count).sum::<u64>() as i64, rows);
    assert_eq!(read(), opened);
}
