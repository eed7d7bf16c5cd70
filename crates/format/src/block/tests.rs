mod encodings;
mod numbers;
mod apart;
mod golden;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use self::golden::golden_rows;
use super::*;
use crate::error::Result;
use crate::key::Bound;
use crate::rows::tests::table;
use crate::rows::{Layout, Projection, Rows};
use crate::schema::TableSchema;

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

fn table_of(fields: Vec<Field>) -> Layout {
    let columns = Arc::new(Schema::new(fields));
    Layout::new(&TableSchema::new(columns, vec![0]))
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
