use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array,
    Int64Array, ListArray, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampSecondArray, UInt8Array,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::block::byte_list::ListView;
use crate::block::encoder::{ColumnEncoder, column_encoder};
use crate::block::encoding_byte::{
    ALL_NULL, BITS, CONSTANT, DICTIONARY, NULL_BITMAP, NUMBERED, PACKED, PLAIN, SCALED,
};
use crate::block::key_encoder::KeyEncoder;
use crate::dictionary::{Dictionary, encode_dictionary};
use crate::error::Result;
use crate::extents::reference;
use crate::key::fixed::{Fixed, Scaling};
use crate::key::{Bound, Keys};
use crate::rows::tests::table;
use crate::rows::{Layout, Projection, Rows};
use crate::schema::{TableSchema, list_of_strings};
use crate::symbol_table::StringCompressor;
use crate::weight::stored_units;

/// A layout, rows of it sorted by key, and a range of them that is not empty.
fn sorted_rows() -> impl Strategy<Value = (Layout, Rows, usize, usize)> {
    (table(1..70), any::<Index>(), any::<Index>()).prop_map(|((schema, batch), from, to)| {
        let layout = Layout::new(&schema);
        let rows = layout.encode(&batch);
        let rows = rows.take(&rows.sort_permutation());
        let from = from.index(rows.len());
        let to = from + 1 + to.index(rows.len() - from);
        (layout, rows, from, to)
    })
}

/// The same of rows whose keys are of several columns, in which few values repeat, and at times null.
fn rows_of_long_keys() -> impl Strategy<Value = (Layout, Rows, usize, usize)> {
    let key = (0..3usize, 0..4i64, 0..300i64, any::<i64>(), 0..40u8);
    let keys = vec(key, 1..300);
    (keys, 0..4usize, any::<Index>(), any::<Index>()).prop_map(|(keys, order, from, to)| {
        let text = |&(text, ..): &(usize, i64, i64, i64, u8)| {
            ["UA", "DL", "Lufthansa"][if order == 3 { text } else { text % 2 }].to_string()
        };
        let texts = StringArray::from_iter_values(keys.iter().map(text));
        let hours = keys.iter().map(|(_, hour, ..)| 1_700_000_000_000 + hour * 3_600_000);
        let hours = TimestampMillisecondArray::from_iter_values(hours);
        // Some far apart, and some null.
        let number = |&(_, _, number, wide, rare): &(usize, i64, i64, i64, u8)| match rare {
            0 => Some(wide),
            1 if order > 0 => None,
            _ => Some(number),
        };
        let numbers = keys.iter().map(number).collect::<Int64Array>();
        let mut named: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(texts)),
            ("hour", Arc::new(hours)),
            ("number", Arc::new(numbers)),
        ];
        named.rotate_left(order % 3);
        let fields: Vec<Field> = named
            .iter()
            .map(|(name, of)| Field::new(*name, of.data_type().clone(), true))
            .collect();
        let columns = Arc::new(Schema::new(fields));
        let layout = Layout::new(&TableSchema::new(columns.clone(), vec![0, 1, 2]));
        let values = named.into_iter().map(|(_, of)| of).collect();
        let rows = layout.encode(&RecordBatch::try_new(columns, values).unwrap());
        let rows = rows.take(&rows.sort_permutation());
        let from = from.index(rows.len());
        let to = from + 1 + to.index(rows.len() - from);
        (layout, rows, from, to)
    })
}

fn any_rows() -> impl Strategy<Value = (Layout, Rows, usize, usize)> {
    prop_oneof![sorted_rows(), rows_of_long_keys()]
}

fn any_effort() -> impl Strategy<Value = Effort<'static>> {
    prop_oneof![Just(Effort::Quick), Just(small())]
}

/// To be small, with nothing apart.
fn small() -> Effort<'static> {
    Effort::Small(Apart::default())
}

fn encoded(rows: &Rows, from: usize, to: usize) -> Vec<u8> {
    encoded_with(rows, from, to, small())
}

fn encoded_with(rows: &Rows, from: usize, to: usize, effort: Effort<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(rows, from, to, effort, &mut bytes);
    bytes
}

/// Whether two `Rows` hold the same values bit by bit.
fn assert_same(left: &Rows, right: &Rows) {
    assert_eq!(left.len(), right.len());
    assert_eq!(left.has_keys(), right.has_keys());
    if left.has_keys() {
        assert_eq!(left.keys(), right.keys());
    }
    assert_eq!(left.values().len(), right.values().len());
    for (left, right) in left.values().iter().zip(right.values()) {
        // Unlike arrays, their data compares floats by their bits.
        assert_eq!(left.to_data(), right.to_data());
    }
}

fn fetch(view: &BlockView<'_>, projection: &Projection, from: usize, to: usize) -> Result<Rows> {
    let mut builder = RowsBuilder::new(projection, to - from);
    builder.append_range(view, from, to)?;
    builder.finish()
}

proptest! {
    #[test]
    fn a_block_reads_back((layout, rows, from, to) in any_rows(), effort in any_effort()) {
        let bytes = encoded_with(&rows, from, to, effort);
        let view = BlockView::parse(&bytes, &layout).unwrap();
        prop_assert_eq!(view.rows(), to - from);
        let read = fetch(&view, &layout.all(), 0, view.rows()).unwrap();
        assert_same(&read, &rows.slice(from, to - from));
    }

    #[test]
    fn any_rows_and_columns_of_a_block_read_back(
        (layout, rows, from, to) in any_rows(), effort in any_effort(),
        columns in vec(any::<Index>(), 0..4),
        cuts in (any::<Index>(), any::<Index>()),
        picks in vec(any::<Index>(), 0..8),
    ) {
        let width = layout.schema().columns.fields().len();
        let columns: Vec<usize> = columns.iter().map(|column| column.index(width)).collect();
        let projection = layout.projection(&columns);
        let bytes = encoded_with(&rows, from, to, effort);
        let view = BlockView::parse(&bytes, &layout).unwrap();
        let count = view.rows();
        let (start, end) = (cuts.0.index(count + 1), cuts.1.index(count + 1));
        let (start, end) = (start.min(end), start.max(end));
        let picks: Vec<u32> = picks.iter().map(|pick| pick.index(count) as u32).collect();

        let mut builder = RowsBuilder::new(&projection, 0);
        builder.append_range(&view, start, end).unwrap();
        builder.append_rows(&view, &picks).unwrap();
        builder.append_range(&view, 0, start).unwrap();
        prop_assert_eq!(builder.len(), end + picks.len());

        let indices: Vec<u32> =
            (start as u32..end as u32).chain(picks).chain(0..start as u32).collect();
        let expected = rows.slice(from, count).project_rows(&projection, &indices);
        assert_same(&builder.finish().unwrap(), &expected);
    }

    #[test]
    fn the_length_is_known_before_writing((_, rows, from, to) in any_rows(), effort in any_effort()) {
        let bytes = encoded_with(&rows, from, to, effort);
        prop_assert_eq!(encoded_len(&rows, from, to, effort), bytes.len());
        let mut sizer = BlockSizer::new(&rows, from, effort);
        for end in from..=to {
            sizer.extend_to(end);
            prop_assert_eq!(sizer.encoded_len(), encoded_len(&rows, from, end, effort));
        }
    }

    #[test]
    fn a_block_has_the_rows_that_fit_one_page_or_of_wide_rows_a_few(
        (_, rows, from, _) in any_rows(), effort in any_effort(),
        page in 1..3000usize, pages_max in 1..6usize,
    ) {
        let taken = rows_of_block(&rows, from, effort, page, pages_max);
        let pages_of = |taken| encoded_len(&rows, from, from + taken, effort).div_ceil(page);
        let fitting = |pages| (1..=rows.len() - from).take_while(|taken| pages_of(*taken) <= pages).count();
        prop_assert!(taken == 1 || pages_of(taken) <= pages_max);
        if fitting(1) >= 4 {
            prop_assert_eq!(taken, fitting(1));
        }
        let per_row = |taken: usize| pages_of(taken) as f64 / taken as f64;
        for pages in 1..=pages_max {
            let other = fitting(pages).max(1);
            prop_assert!(fitting(1) >= 4 || per_row(taken) <= 1.25 * per_row(other));
        }
    }

    #[test]
    fn a_rank_is_the_number_of_rows_before_the_bound((layout, rows, from, to) in any_rows(), effort in any_effort()) {
        let bytes = encoded_with(&rows, from, to, effort);
        let view = BlockView::parse(&bytes, &layout).unwrap();
        for row in 0..rows.len() {
            let key = rows.key(row);
            for bound in [Bound::at_key(key), Bound::past_key(key), Bound::at_key(&key[..key.len() / 2])] {
                let expected = (from..to).filter(|row| !bound.lies_before(rows.key(*row))).count();
                prop_assert_eq!(view.rank(&bound).unwrap(), expected);
            }
            for at in 0..view.rows() {
                let own = rows.key(from + at);
                prop_assert_eq!(view.compare_key(at, key).unwrap(), own.cmp(key));
                let mut read = Vec::new();
                view.key_into(at, &mut read).unwrap();
                prop_assert_eq!(&read[..], own);
            }
        }
    }

    #[test]
    fn a_damaged_block_reads_as_something_or_fails_but_never_panics(
        (layout, rows, from, to) in any_rows(), effort in any_effort(),
        flips in vec((any::<Index>(), any::<u8>()), 0..4),
        header_flips in vec((0..24usize, any::<u8>()), 0..2),
        keep in prop_oneof![Just(None), any::<Index>().prop_map(Some)],
    ) {
        let mut bytes = encoded_with(&rows, from, to, effort);
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (at, byte) in header_flips {
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
        }
        if let Some(keep) = keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        let Ok(view) = BlockView::parse(&bytes, &layout) else { return Ok(()) };
        prop_assert!(view.rows() <= bytes.len(), "more rows than bytes");
        let _ = view.rank(&Bound::at_key(rows.key(to - 1)));
        let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
        if let Ok(read) = fetch(&view, &layout.all(), 0, view.rows()) {
            prop_assert_eq!(read.len(), view.rows());
            let _ = layout.decode(&read, &columns);
        }
        for row in 0..view.rows() as u32 {
            let _ = view.key_into(row as usize, &mut Vec::new());
            let mut builder = RowsBuilder::new(&layout.all(), 1);
            if let Ok(read) = builder.append_rows(&view, &[row]).and_then(|()| builder.finish()) {
                prop_assert_eq!(read.len(), 1);
            }
        }
    }
}

/// The encoding byte and length of a column's section in a block of all its rows.
fn form_of(array: ArrayRef) -> (u8, usize) {
    let mut encoder = column_encoder(&array, Default::default());
    encoder.extend(0..array.len(), &mut []);
    encoder.form()
}

#[test]
fn each_column_takes_its_smallest_encoding() {
    let ints = |values: Vec<i64>| form_of(Arc::new(Int64Array::from(values)));
    assert_eq!(ints(vec![5; 100]), (CONSTANT, 8));
    assert_eq!(ints((1000..1100).collect()), (PACKED, 8 + 1 + 88));
    assert_eq!(ints((0..100).map(|n| n * 100).collect()), (PACKED, 8 + 1 + 175));
    assert_eq!(ints((0..100).map(|n| n * 100_000).collect()), (PACKED, 8 + 1 + 300));
    assert_eq!(ints(vec![i64::MIN, i64::MAX, 0]), (PLAIN, 24));
    assert_eq!(form_of(Arc::new(UInt8Array::from_iter_values(0..=255))), (PLAIN, 256));
    assert_eq!(form_of(Arc::new(Float64Array::from(vec![0.0, -0.0]))), (PLAIN, 16));
    assert_eq!(form_of(Arc::new(Float64Array::from(vec![f64::NAN; 9]))), (CONSTANT, 8));
    let floats = |values: Vec<f64>| form_of(Arc::new(Float64Array::from(values)));
    let scaled = 1 + 8 + 1;
    assert_eq!(floats((0..100).map(f64::from).collect()), (SCALED, scaled + 88));
    assert_eq!(floats((0..100).map(|n| f64::from(n) / 100.0).collect()), (SCALED, scaled + 88));
    // The last one has a digit more, so all take four bits more.
    let mut prices: Vec<f64> = (0..100).map(|n| f64::from(n) / 100.0).collect();
    prices.push(0.005);
    assert_eq!(floats(prices.clone()), (SCALED, scaled + 127));
    prices.push(std::f64::consts::PI);
    assert_eq!(floats(prices), (PLAIN, 8 * 102));
    let floats = (0..100u8).map(|n| f32::from(n) / 10.0).collect::<Vec<f32>>();
    assert_eq!(form_of(Arc::new(Float32Array::from(floats))), (SCALED, scaled + 88));
    let decimals = Decimal128Array::from_iter_values((0..100).map(|n| n * 1_000_000));
    assert_eq!(form_of(Arc::new(decimals)), (SCALED, scaled + 338));
    assert_eq!(form_of(Arc::new(Decimal128Array::from(vec![1, i128::MAX]))), (PLAIN, 32));

    let bools = |values: Vec<Option<bool>>| form_of(Arc::new(BooleanArray::from(values)));
    assert_eq!(bools(vec![Some(true); 20]), (CONSTANT, 1));
    assert_eq!(bools([Some(true), Some(false)].repeat(10)), (BITS, 3));
    assert_eq!(bools(vec![None; 20]), (ALL_NULL, 0));
    assert_eq!(bools([Some(true), None].repeat(10)), (CONSTANT | NULL_BITMAP, 3 + 1));

    let strings = |values: Vec<String>| form_of(Arc::new(StringArray::from(values)));
    assert_eq!(strings(vec!["SFO".into(); 50]), (CONSTANT, 3));
    let turns = |two: [&str; 2]| two.repeat(25).into_iter().map(String::from).collect();
    assert_eq!(strings(turns(["SFO", "JFK"])), (DICTIONARY | 1, 7 + 1 + 6));
    assert_eq!(strings(turns(["Oslo", "Rome!"])), (DICTIONARY | 2, 7 + 1 + 2 + 9));
    let numbered = |count: usize| (0..count).map(|n| format!("{n:04}")).collect::<Vec<_>>();
    assert_eq!(strings(numbered(300)), (1, 1200), "the same length needs no ends");
    let rising = |count: usize| (0..count).map(|n| "x".repeat(n)).collect::<Vec<_>>();
    assert_eq!(strings(rising(10)), (2, 10 + 45));
    assert_eq!(strings(rising(100)), (3, 200 + 4950));
    assert_eq!(strings(rising(400)), (4, 1600 + 79_800));

    let bytes = |values: Vec<[u8; 2]>| form_of(Arc::new(BinaryArray::from_iter_values(values)));
    assert_eq!(bytes(vec![[0xff, 0]; 50]), (CONSTANT, 2));
    assert_eq!(bytes([[0xff, 0], [0, 0xff]].repeat(25)), (DICTIONARY | 1, 7 + 1 + 4));
    assert_eq!(bytes((0..99).map(|n| [n, 0xff]).collect()), (1, 198));
}

#[test]
fn equal_keys_are_stored_once_and_still_take_a_byte_each() {
    let keys = Keys::from_iter([b"same key"; 40]);
    for is_small in [false, true] {
        let mut encoder = KeyEncoder::new(&keys, is_small);
        encoder.extend(0..40, &mut []);
        assert_eq!(encoder.form(), (2, 1 + 8 + 40));
    }
}

#[test]
fn keys_of_several_columns_become_the_numbers_of_their_heads_and_the_bits_in_which_they_differ() {
    // Three hours of forty flights, of two carriers, with numbers of up to four digits.
    let key = |row: u64| {
        let (hour, carrier, flight) = (row / 40, [b"AA", b"DL"][row as usize / 20 % 2], row % 20);
        let hour = 1_700_000_000_000 + hour * 3_600_000;
        let flight = flight * 400 + 7;
        let key = [&[1], &hour.to_be_bytes()[..], &[1], carrier, &[0, 1], &flight.to_be_bytes()];
        key.concat()
    };
    let keys = Keys::from_iter((0..120).map(key));
    assert_eq!(keys.width(), Some(22));
    let form = |is_small: bool| {
        let mut encoder = KeyEncoder::new(&keys, is_small);
        encoder.extend(0..120, &mut []);
        encoder.form()
    };
    let prefix = 5;
    assert_eq!(form(false), (1, 1 + prefix + 120 * (22 - prefix)));
    // Six heads of an hour and a carrier, whose number takes 3 bits; flights differ in 13. Bytes that all have are in the tail.
    let (encoding, len) = form(true);
    assert_eq!(encoding, NUMBERED | 1);
    assert!(len < 1 + prefix + 2 + 2 * 13 + 120 * 2 + 6 * 8, "{len}");
}

fn table_of(fields: Vec<Field>) -> Layout {
    let columns = Arc::new(Schema::new(fields));
    Layout::new(&TableSchema::new(columns, vec![0]))
}

fn lists<'s>(lists: impl Iterator<Item = Option<Vec<Option<&'s str>>>>) -> ListArray {
    let mut builder = ListBuilder::new(StringBuilder::new());
    lists.for_each(|list| builder.append_option(list));
    builder.finish()
}

/// Twenty rows in which every encoding has its turn; never to be changed.
fn golden_rows() -> (Layout, Rows) {
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

#[test]
fn a_block_written_before_a_column_was_added_reads_it_as_null() {
    let old = table_of(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec![Some("a"), None])),
    ];
    let batch = RecordBatch::try_new(old.schema().columns.clone(), columns).unwrap();
    let bytes = encoded(&old.encode(&batch), 0, 2);

    let mut fields: Vec<Field> =
        old.schema().columns.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new("late", DataType::Float64, true));
    fields.push(Field::new("later", DataType::Utf8, true));
    let new = table_of(fields);
    let view = BlockView::parse(&bytes, &new).unwrap();
    let mut builder = RowsBuilder::new(&new.all(), 3);
    builder.append_range(&view, 0, 2).unwrap();
    builder.append_rows(&view, &[1]).unwrap();
    let decoded = new.decode(&builder.finish().unwrap(), &[0, 1, 2, 3]).unwrap();
    assert_eq!(decoded.column(1).null_count(), 2);
    assert_eq!(decoded.column(2).null_count(), 3);
    assert_eq!(decoded.column(3).null_count(), 3);

    // The other way round, the block has values that the table has not.
    let wide = encoded(&new.encode(&decoded), 0, 3);
    assert!(BlockView::parse(&wide, &old).is_err());
}

#[test]
fn a_row_count_that_the_bytes_cannot_hold_is_malformed() {
    let (layout, rows) = golden_rows();
    let mut bytes = encoded(&rows, 0, rows.len());
    for count in [0u32, 19, 21, 1 << 20, u32::MAX] {
        bytes[..4].copy_from_slice(&count.to_le_bytes());
        assert!(BlockView::parse(&bytes, &layout).is_err(), "{count} rows");
    }
}

#[test]
fn a_string_that_is_not_utf_8_is_malformed_however_it_is_read() {
    let layout = table_of(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ]);
    // "é" is cut in two by an end that is moved into it; then its first byte is overwritten.
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec!["é", "b"]))];
    let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
    let bytes = encoded(&layout.encode(&batch), 0, 2);
    let strings = bytes.len() - 5;
    assert_eq!(&bytes[strings..], [2, 3, 0xc3, 0xa9, b'b']);
    for (at, byte) in [(0, 1), (2, b'a')] {
        let mut bytes = bytes.clone();
        bytes[strings + at] = byte;
        let view = BlockView::parse(&bytes, &layout).unwrap();
        assert!(fetch(&view, &layout.all(), 0, 2).is_err());
        let mut builder = RowsBuilder::new(&layout.all(), 1);
        builder.append_rows(&view, &[0]).unwrap();
        assert!(builder.finish().is_err());
    }
}

#[test]
fn an_empty_block_has_no_rows() {
    let (layout, rows) = golden_rows();
    let bytes = encoded(&rows, 3, 3);
    assert_eq!(bytes.len(), encoded_len(&rows, 3, 3, small()));
    let view = BlockView::parse(&bytes, &layout).unwrap();
    assert_eq!(view.rows(), 0);
    assert_eq!(view.rank(&Bound::at_key(b"")).unwrap(), 0);
    assert!(fetch(&view, &layout.all(), 0, 0).unwrap().is_empty());
}

#[test]
fn keys_that_are_not_sorted_read_back_too() {
    // Log frames hold rows in the order they were appended.
    let (layout, rows) = golden_rows();
    let shuffled = rows.take(&[7, 3, 19, 0, 3]);
    let bytes = encoded(&shuffled, 0, 5);
    let view = BlockView::parse(&bytes, &layout).unwrap();
    assert_same(&fetch(&view, &layout.all(), 0, 5).unwrap(), &shuffled);
}

#[test]
fn distances_at_the_edges_of_their_widths_read_back() {
    let layout = table_of(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
    ]);
    for edge in [1i64 << 8, 1 << 16, 1 << 32] {
        for greatest in [edge - 1, edge, edge + 1] {
            let values = vec![-7, greatest - 7, -6, -5, -4];
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(0..5)),
                Arc::new(Int64Array::from(values)),
            ];
            let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
            let rows = layout.encode(&batch);
            let bytes = encoded(&rows, 0, 5);
            let view = BlockView::parse(&bytes, &layout).unwrap();
            assert_same(&fetch(&view, &layout.all(), 0, 5).unwrap(), &rows);
        }
    }
}

/// Floats that are short decimals, mostly, of few or many digits.
/// A column of weights in one of the encodings, some rows of it null.
fn weights() -> impl Strategy<Value = ArrayRef> {
    let some = |null: bool, value: u32| (!null).then_some(value);
    let rows = vec((any::<bool>(), any::<u32>()), 1..300);
    (0..5, 0..33u32, any::<bool>(), rows).prop_map(move |(form, shift, with_nulls, rows)| {
        let values = rows
            .iter()
            .map(|&(null, value)| some(null && with_nulls, value.checked_shr(shift).unwrap_or(0)));
        match form {
            0 => Arc::new(values.map(|v| v.map(|v| v as i64)).collect::<Int64Array>()) as ArrayRef,
            1 => Arc::new(values.map(|v| v.map(|v| v as u8)).collect::<UInt8Array>()),
            2 => Arc::new(values.map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
            3 => {
                Arc::new(values.map(|v| v.map(|v| f64::from(v) / 100.0)).collect::<Float64Array>())
            }
            _ => Arc::new(values.map(|v| v.map(|v| f64::from(v).sqrt())).collect::<Float64Array>()),
        }
    })
}

proptest! {
    #[test]
    fn units_of_weight_are_found_as_in_a_running_sum(
        weights in weights(),
        picks in vec(any::<Index>(), 1..8),
    ) {
        let field = Field::new("w", weights.data_type().clone(), true);
        let layout = table_of(vec![Field::new("k", DataType::Int64, false), field]);
        let keys = (0..weights.len() as u32).map(u32::to_be_bytes).collect();
        let units = stored_units(&weights).unwrap();
        let rows = Rows::new(weights.len(), Some(keys), vec![weights]);
        let bytes = encoded(&rows, 0, rows.len());
        let view = BlockView::parse(&bytes, &layout).unwrap();
        let weight = layout.stored(false, vec![0]);
        let mut sums = vec![0u128];
        units.iter().for_each(|&unit| sums.push(sums[sums.len() - 1] + u128::from(unit)));
        let total = sums[units.len()];
        prop_assert_eq!(view.row_of_unit(&weight, total).unwrap(), None);
        for pick in picks {
            let row = pick.index(units.len());
            prop_assert_eq!(view.weight_before(&weight, row).unwrap(), sums[row]);
            // The first unit of the row and its last, if it has any.
            if units[row] > 0 {
                let found = Some((row, units[row]));
                prop_assert_eq!(view.row_of_unit(&weight, sums[row]).unwrap(), found);
                prop_assert_eq!(view.row_of_unit(&weight, sums[row + 1] - 1).unwrap(), found);
            }
        }
    }
}

#[test]
fn a_number_that_is_no_weight_is_malformed() {
    let (key, weight) =
        (Field::new("k", DataType::Int64, false), Field::new("w", DataType::Int64, true));
    let layout = table_of(vec![key, weight]);
    let keys = Keys::from_iter([b"a", b"b"]);
    let rows = Rows::new(2, Some(keys), vec![Arc::new(Int64Array::from(vec![1, -1]))]);
    let bytes = encoded(&rows, 0, 2);
    let view = BlockView::parse(&bytes, &layout).unwrap();
    let error = view.row_of_unit(&layout.stored(false, vec![0]), 1).unwrap_err();
    assert!(error.to_string().contains("the weight of row 1 is Negative"), "{error}");
}

fn decimals() -> impl Strategy<Value = Vec<f64>> {
    let one =
        (any::<i64>(), 1..60u32, 0..12i32, 0..40u8).prop_map(|(digits, bits, scale, kind)| {
            match kind {
                0 => -0.0,
                1 => f64::from_bits(digits as u64),
                _ => (digits >> bits) as f64 / 10f64.powi(scale),
            }
        });
    vec(one, 1..60)
}

proptest! {
    #[test]
    fn floats_read_back_to_the_bit(values in decimals()) {
        let layout = table_of(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("wide", DataType::Float64, false),
            Field::new("short", DataType::Float32, false),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..values.len() as i64)),
            Arc::new(Float64Array::from(values.clone())),
            Arc::new(Float32Array::from_iter_values(values.iter().map(|value| *value as f32))),
        ];
        let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
        let rows = layout.encode(&batch);
        for (from, to) in [(0, values.len()), (values.len() / 2, values.len())] {
            let bytes = encoded(&rows, from, to);
            let view = BlockView::parse(&bytes, &layout).unwrap();
            let read = fetch(&view, &layout.all(), 0, to - from).unwrap();
            for (read, rows) in read.values().iter().zip(rows.slice(from, to - from).values()) {
                let bits = |array: &ArrayRef| array.to_data().buffers()[0].as_slice().to_vec();
                // A slice's buffer is whole.
                let copied = crate::rows::tests::taken(rows, &(0..rows.len() as u32).collect::<Vec<_>>());
                prop_assert_eq!(bits(read), bits(&copied));
            }
        }
    }

    #[test]
    fn a_scale_that_rose_is_that_of_all_numbers_before(values in decimals()) {
        let mut scaling = Scaling::default();
        values.iter().for_each(|value| scaling.push(*value));
        if let Some((scale, least, width)) = scaling.form() {
            for value in &values {
                let distance = value.scaled(scale).unwrap().wrapping_sub(least) as u64;
                prop_assert!(width == 64 || distance >> width == 0, "{value} of {values:?}");
            }
        }
        let short: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let mut scaling = Scaling::default();
        short.iter().for_each(|value| scaling.push(*value));
        if let Some((scale, least, width)) = scaling.form() {
            for value in &short {
                let distance = value.scaled(scale).unwrap().wrapping_sub(least) as u64;
                prop_assert!(width == 64 || distance >> width == 0, "{value} of {short:?}");
            }
        }
    }
}

#[test]
fn ends_of_strings_that_fall_are_malformed() {
    let list = ListView::parse(2, 3, &[2, 1, 3, b'a', b'b', b'c']).unwrap();
    assert_eq!(list.get(0).unwrap(), b"ab");
    assert!(list.get(1).is_err());
    assert!(list.range(0, 3, |_| {}).is_err());
    let beyond = ListView::parse(2, 3, &[9, 9, 3, b'a', b'b', b'c']).unwrap();
    assert!(beyond.get(0).is_err());
    assert!(beyond.range(0, 2, |_| {}).is_err());
    assert!(ListView::parse(2, 3, &[1, 2, 4, b'a', b'b', b'c']).is_err(), "past the end");
    assert!(ListView::parse(1, 3, &[]).is_err(), "strings of no length need ends");
}

/// 600 rows with lines of a log, the same with compressed lines, and the dictionary page of these.
fn compressed_lines() -> (Layout, Rows, Rows, Vec<u8>) {
    let line = |row: usize| match row {
        0..200 => Some(format!("request {} took {} ms", row * 7, row % 10)),
        200..400 => (!row.is_multiple_of(3)).then(|| format!("connection {} timed out", row % 4)),
        _ => Some("connection reset by peer".to_string()),
    };
    let lines: StringArray = (0..600).map(line).collect();
    let layout = table_of(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("line", DataType::Utf8, true),
    ]);
    let ids = Arc::new(Int64Array::from_iter_values(0..600));
    let columns: Vec<ArrayRef> = vec![ids, Arc::new(lines.clone())];
    let batch = RecordBatch::try_new(layout.schema().columns.clone(), columns).unwrap();
    let rows = layout.encode(&batch);
    let mut compressor = StringCompressor::default();
    compressor.compress(&StringArray::from_iter_values((0..2_000).filter_map(line)), true).unwrap();
    let compressed = compressor.compress(&lines, true).unwrap();
    let stored = rows.with_values(vec![compressed]);
    let dictionary = encode_dictionary(None, &compressor).unwrap();
    (layout, rows, stored, dictionary)
}

/// Strings that a table of symbols compresses come back, whatever encodes them: alike in all rows, few, in a list, beside nulls.
#[test]
fn compressed_strings_come_back_for_any_rows() {
    let (layout, rows, stored, dictionary) = compressed_lines();
    let dictionaries = [(0, Arc::new(Dictionary::decode(&dictionary).unwrap()))];
    for (from, to) in [(0, 200), (200, 400), (400, 600), (150, 450), (7, 8)] {
        let mut bytes = Vec::new();
        let apart = Apart { compressed: &[true], ..Default::default() };
        encode(&stored, from, to, Effort::Small(apart), &mut bytes);
        assert!(bytes.len() <= encoded(&rows, from, to).len(), "{from}..{to}");
        let view = BlockView::parse(&bytes, &layout).unwrap();
        let all = layout.all();
        assert!(fetch(&view, &all, 0, to - from).is_err(), "there is no table of symbols");
        let texts = [(0, Arc::new(Dictionary::of_texts(StringArray::from(vec!["a"; 600]))))];
        assert!(fetch(&view.clone().with_dictionaries(&texts), &all, 0, to - from).is_err());
        let view = view.with_dictionaries(&dictionaries);
        let found = fetch(&view, &all, 0, to - from).unwrap();
        assert_same(&found, &rows.project(&all, from..to));
        let picks: Vec<u32> = (0..(to - from) as u32).rev().step_by(3).collect();
        let mut builder = RowsBuilder::new(&all, 0);
        builder.append_rows(&view, &picks).unwrap();
        assert_same(&builder.finish().unwrap(), &rows.project(&all, from..to).take(&picks));
    }
}

/// Long values are references in the block, and come back from what is read of their places.
#[test]
fn values_that_lie_apart_come_back_for_any_rows() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("n", DataType::Int64, false),
        Field::new("raw", DataType::Binary, true),
    ]));
    let long = |n: usize| "x".repeat(2000 + n);
    let texts = [Some(long(0)), None, Some("short".into()), Some(long(1)), Some(String::new())];
    let raws = [None, Some(long(2)), Some(long(3)), Some("y".into()), None];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..5)),
        Arc::new(texts.iter().cloned().collect::<StringArray>()),
        Arc::new(Int64Array::from_iter_values(5..10)),
        Arc::new(
            raws.iter().map(|raw| raw.as_ref().map(String::as_bytes)).collect::<BinaryArray>(),
        ),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let layout = table_of(schema.fields().iter().map(|field| (**field).clone()).collect());
    let rows = layout.encode(&batch);
    // Places are numbers of what was put away.
    let mut away: Vec<Arc<[u8]>> = Vec::new();
    let mut put_away = |value: &Option<String>| {
        let value = value.as_ref().filter(|value| value.len() > 1000)?;
        away.push(value.as_bytes().into());
        Some(reference((away.len() as u64 - 1, value.len() as u32)))
    };
    let extents = [
        Some(texts.iter().map(&mut put_away).collect()),
        None,
        Some(raws.iter().map(&mut put_away).collect()),
    ];
    let mut bytes = Vec::new();
    let apart = Apart { extents: &extents, ..Default::default() };
    encode(&rows, 0, 5, Effort::Small(apart), &mut bytes);
    assert!(bytes.len() < 300, "{} bytes", bytes.len());
    let view = BlockView::parse(&bytes, &layout).unwrap();
    for columns in [vec![1, 2, 3], vec![1], vec![3], vec![2]] {
        let projection = layout.projection(&columns);
        for picked in [Picked::Range(0, 5), Picked::Range(2, 4), Picked::Rows(&[3, 0, 0, 2])] {
            let places = view.extents(&projection, picked).unwrap();
            let read: Vec<_> = places.iter().map(|place| away[place.0 as usize].clone()).collect();
            assert!(places.iter().zip(&read).all(|(place, value)| place.1 as usize == value.len()));
            let whole = view.clone().with_extents(&read);
            let append = |view: &BlockView<'_>| {
                let mut builder = RowsBuilder::new(&projection, 0);
                match picked {
                    Picked::Range(from, to) => builder.append_range(view, from, to)?,
                    Picked::Rows(rows) => builder.append_rows(view, rows)?,
                }
                builder.finish()
            };
            let numbers: Vec<u32> = match picked {
                Picked::Range(from, to) => (from as u32..to as u32).collect(),
                Picked::Rows(rows) => rows.to_vec(),
            };
            let expected = rows.project(&projection, 0..5).take(&numbers);
            assert_eq!(append(&whole).unwrap().values(), expected.values());
            if !read.is_empty() {
                assert!(append(&view).is_err(), "they were not read");
                assert!(append(&view.clone().with_extents(&read[1..])).is_err());
            }
            let more: Vec<_> = read.iter().cloned().chain([away[0].clone()]).collect();
            assert!(append(&view.clone().with_extents(&more)).is_err());
        }
    }
}
