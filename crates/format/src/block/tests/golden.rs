//! The bytes of blocks, pinned by golden files.

use std::path::{Path, PathBuf};

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{BinaryArray, BooleanArray, Float64Array, ListArray, TimestampSecondArray};
use arrow_schema::TimeUnit;

use super::apart::compressed_lines;
use super::*;
use crate::dictionary::Dictionary;
use crate::schema::list_of_strings;

fn lists<'s>(lists: impl Iterator<Item = Option<Vec<Option<&'s str>>>>) -> ListArray {
    let mut builder = ListBuilder::new(StringBuilder::new());
    lists.for_each(|list| builder.append_option(list));
    builder.finish()
}

/// Twenty rows in which every encoding has its turn; never to be changed.
pub(super) fn golden_rows() -> (Layout, Rows) {
    let layout = table_of(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("carrier", DataType::Utf8, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("delay", DataType::Float64, true),
        Field::new("distance", DataType::Int64, false),
        Field::new("year", DataType::Int64, false),
        Field::new("late", DataType::Boolean, true),
        Field::new("gone", DataType::Boolean, true),
        Field::new("photo", DataType::Binary, true),
        Field::new("tags", list_of_strings(), true),
    ]);
    let numbers = 0..20i64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(
            numbers.clone().map(|n| 1_700_000_000_000 + n * 777),
        )),
        Arc::new(StringArray::from_iter_values(
            numbers.clone().map(|n| ["UA", "DL", "Lufthansa"][n as usize % 3]),
        )),
        Arc::new(
            numbers
                .clone()
                .map(|n| (n % 4 != 0).then(|| "ü".repeat(n as usize)))
                .collect::<StringArray>(),
        ),
        Arc::new(
            numbers
                .clone()
                .map(|n| (n % 3 != 0).then_some(n as f64 / 4.0))
                .collect::<Float64Array>(),
        ),
        Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n * 200 - 50))),
        Arc::new(Int64Array::from(vec![2023; 20])),
        Arc::new(
            numbers.clone().map(|n| (n % 5 != 0).then_some(n % 2 == 0)).collect::<BooleanArray>(),
        ),
        Arc::new(BooleanArray::new_null(20)),
        Arc::new(
            numbers
                .clone()
                .map(|n| (n % 7 != 0).then(|| vec![0xff; n as usize]))
                .collect::<BinaryArray>(),
        ),
        Arc::new(lists(numbers.map(|n| {
            let items = [None, Some("late"), Some("süd"), Some("")];
            (n % 6 != 0).then(|| items.into_iter().take(n as usize % 5).collect())
        }))),
    ];
    let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
    let rows = layout.encode(&batch);
    (layout, rows)
}

/// Flights of two carriers in three hours; never to be changed.
fn golden_rows_of_long_keys() -> (Layout, Rows) {
    let columns = Arc::new(Schema::new(vec![
        Field::new("hour", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("carrier", DataType::Utf8, false),
        Field::new("flight", DataType::Int64, false),
    ]));
    let layout = Layout::new(&TableSchema::new(columns.clone(), vec![0, 1, 2]));
    let rows = 0..60i64;
    let carrier = |row: i64| ["DL", "UA"][row as usize / 10 % 2];
    let hours = rows.clone().map(|row| 1_700_000_000 + row / 20 * 3_600);
    let values: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from_iter_values(hours)),
        Arc::new(StringArray::from_iter_values(rows.clone().map(carrier))),
        Arc::new(Int64Array::from_iter_values(rows.map(|row| row % 10 * 37 + 100))),
    ];
    let rows = layout.encode(&RecordBatch::try_new(columns, values).unwrap());
    (layout, rows)
}

#[test]
fn the_bytes_of_blocks_are_those_of_version_3() {
    check_golden("block-v3.bin", golden_rows());
    check_golden("block-of-numbered-keys-v3.bin", golden_rows_of_long_keys());
}

/// Which symbols a writer finds is not pinned, but what a reader makes of them.
#[test]
fn compressed_strings_of_version_4_are_read() {
    let (layout, rows, stored, dictionary) = compressed_lines();
    let path = golden_path("block-of-compressed-strings-v4.bin");
    if updates_golden() {
        let mut bytes = (dictionary.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&dictionary);
        let apart = Apart { compressed: &[true], ..Default::default() };
        encode(&stored, 0, 50, Effort::Small(apart), &mut bytes);
        std::fs::write(&path, &bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    let (len, golden) = golden.split_first_chunk().unwrap();
    let (dictionary, block) = golden.split_at(u32::from_le_bytes(*len) as usize);
    let dictionaries = [(0, Arc::new(Dictionary::decode(dictionary).unwrap()))];
    let view = BlockView::parse(block, &layout).unwrap().with_dictionaries(&dictionaries);
    let found = fetch(&view, &layout.all(), 0, 50).unwrap();
    assert_same(&found, &rows.project(&layout.all(), 0..50));
}

fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn updates_golden() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|update| update == "1")
}

fn check_golden(name: &str, (layout, rows): (Layout, Rows)) {
    let path = golden_path(name);
    let bytes = encoded(&rows, 0, rows.len());
    if updates_golden() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert_eq!(bytes, golden, "the encoding changed");
    let view = BlockView::parse(&golden, &layout).unwrap();
    assert_same(&fetch(&view, &layout.all(), 0, view.rows()).unwrap(), &rows);
}
