use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::byte_bounds;
use crate::key::arbitrary::{cell, column, data_type, tuple, value_type};
use crate::key::{decode_values, encode_keys, encode_keys_by_code};
use crate::pick::Pick;
use crate::rows::stored_rows::take_array;
use crate::schema::{SetColumn, TableSchema};

/// A table of random shape and a batch of it.
pub(crate) fn table(
    row_counts: std::ops::Range<usize>,
) -> impl Strategy<Value = (TableSchema, RecordBatch)> {
    let column_shape = (data_type(), value_type(), any::<prop::sample::Index>());
    let shape = (vec(column_shape, 1..8), 1..3usize, row_counts);
    shape.prop_flat_map(|(columns, key_count, len)| {
        let width = columns.len();
        // The key columns stand anywhere; indexes that coincide give a shorter key.
        let mut key: Vec<usize> = Vec::new();
        for (_, _, index) in columns.iter().take(key_count) {
            let index = index.index(width);
            if !key.contains(&index) {
                key.push(index);
            }
        }
        let set = columns.last().map(|(_, _, index)| index.index(width));
        let array = |(at, (of_key, of_value, _))| match key.contains(&at) || set == Some(at) {
            true => column(of_key, len),
            false => column(of_value, len),
        };
        let arrays: Vec<_> = columns.into_iter().enumerate().map(array).collect();
        arrays.prop_map(move |arrays| {
            let field = |(at, array): (usize, &ArrayRef)| {
                Field::new(format!("c{at}"), array.data_type().clone(), true)
            };
            let columns =
                Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<Field>>()));
            let batch = RecordBatch::try_new(columns.clone(), arrays).unwrap();
            let key = key.clone();
            let set = set.map(SetColumn::from);
            (TableSchema { set, ..TableSchema::new(columns, key) }, batch)
        })
    })
}

fn key_columns(schema: &TableSchema, batch: &RecordBatch) -> Vec<ArrayRef> {
    schema.key.iter().map(|column| batch.column(*column).clone()).collect()
}

proptest! {
    #[test]
    fn a_batch_reads_back_in_any_column_order(
        (schema, batch) in table(1..20),
        wanted in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let layout = Layout::new(&schema);
        let rows = layout.encode(&batch);
        let wanted: Vec<usize> = wanted.iter().map(|at| at.index(batch.num_columns())).collect();
        let projected = rows.project(&layout.projection(&wanted), 0..rows.len());
        for rows in [&rows, &projected] {
            let decoded = layout.decode(rows, &wanted).unwrap();
            prop_assert_eq!(decoded.num_rows(), batch.num_rows());
            prop_assert_eq!(decoded.num_columns(), wanted.len());
            for (array, &source) in decoded.columns().iter().zip(&wanted) {
                for row in 0..batch.num_rows() {
                    prop_assert_eq!(cell(array, row), cell(batch.column(source), row));
                }
            }
        }
    }

    #[test]
    fn the_sort_permutation_is_the_stable_order_of_tuples((schema, batch) in table(1..40)) {
        let rows = Layout::new(&schema).encode(&batch);
        let columns = key_columns(&schema, &batch);
        let mut expected: Vec<u32> = (0..batch.num_rows() as u32).collect();
        expected.sort_by_key(|row| tuple(&columns, *row as usize));
        prop_assert_eq!(rows.sort_permutation(), expected.clone());
        // Taken in that order, the rows are sorted already.
        let identity: Vec<u32> = (0..batch.num_rows() as u32).collect();
        prop_assert_eq!(rows.take(&expected).sort_permutation(), identity);
    }

    #[test]
    fn taking_and_interleaving_pick_the_same_rows(
        (schema, batch) in table(2..20),
        picks in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let rows = Layout::new(&schema).encode(&batch);
        let half = rows.len() / 2;
        let parts = [&rows.slice(0, half), &rows.slice(half, rows.len() - half)];
        let picks: Vec<usize> = picks.iter().map(|pick| pick.index(rows.len())).collect();
        let indices: Vec<u32> = picks.iter().map(|pick| *pick as u32).collect();
        let pairs: Vec<Pick> = picks
            .iter()
            .map(|&pick| if pick < half { Pick::new(0, pick) } else { Pick::new(1, pick - half) })
            .collect();
        let taken = rows.take(&indices);
        let interleaved = Rows::interleave(&parts, &pairs);
        prop_assert_eq!(taken.keys(), interleaved.keys());
        for (at, value) in taken.values().iter().enumerate() {
            for (row, &pick) in picks.iter().enumerate() {
                prop_assert_eq!(cell(value, row), cell(rows.value(at), pick));
                prop_assert_eq!(cell(interleaved.value(at), row), cell(rows.value(at), pick));
            }
        }
    }

    #[test]
    fn set_codes_name_each_rows_set_value((schema, batch) in table(0..30)) {
        let layout = Layout::new(&schema);
        let rows = layout.encode(&batch);
        let set = schema.set_column().unwrap();
        let codes = layout.set_codes(&rows).unwrap().unwrap();
        let alone = rows.project(&layout.projection(&[set]), 0..rows.len());
        prop_assert_eq!(&layout.set_codes(&alone).unwrap().unwrap(), &codes);
        let encoded: Vec<&[u8]> = codes.values.iter().map(|value| &**value).collect();
        let values = decode_values(&encoded, batch.column(set).data_type()).unwrap();
        let mut seen = 0;
        for (row, &code) in codes.codes.iter().enumerate() {
            prop_assert!(code <= seen, "codes rise in order of appearance");
            seen = seen.max(code + 1);
            prop_assert_eq!(cell(&values, code as usize), cell(batch.column(set), row));
        }
        prop_assert_eq!(codes.codes.len(), rows.len());
        let mut distinct = encoded.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), encoded.len());
    }
}

fn small_schema() -> TableSchema {
    TableSchema::new(
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
            Field::new("delay", DataType::Float64, true),
        ])),
        vec![0],
    )
}

fn small_batch(len: usize) -> RecordBatch {
    let schema = small_schema();
    let ids = Int64Array::from_iter_values(0..len as i64);
    let names = StringArray::from_iter_values((0..len).map(|row| format!("name {row}")));
    let delays = Float64Array::from_iter_values((0..len).map(|row| row as f64));
    let arrays: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(names), Arc::new(delays)];
    RecordBatch::try_new(schema.columns, arrays).unwrap()
}

#[test]
fn rows_written_before_a_column_was_added_read_it_as_null() {
    let old_schema = small_schema();
    let rows = Layout::new(&old_schema).encode(&small_batch(3));
    let mut fields = old_schema.columns.fields().to_vec();
    fields.push(Arc::new(Field::new("late", DataType::Boolean, true)));
    let schema = TableSchema { columns: Arc::new(Schema::new(fields)), ..old_schema };
    let layout = Layout::new(&schema);
    let projection = layout.projection(&[3, 0]);
    for projected in [rows.project(&projection, 1..3), rows.project_rows(&projection, &[2, 0])] {
        let decoded = layout.decode(&projected, &[3, 0]).unwrap();
        assert_eq!(decoded.column(0).null_count(), 2);
        assert_eq!(decoded.column(0).data_type(), &DataType::Boolean);
        assert_eq!(decoded.column(1).null_count(), 0);
    }
}

#[test]
fn a_projection_names_each_value_once_in_ascending_order() {
    let layout = Layout::new(&small_schema());
    let types = vec![DataType::Utf8, DataType::Float64];
    let expected = Projection { keys: false, values: vec![0, 1], types, earlier: vec![] };
    assert_eq!(layout.projection(&[2, 1, 2]), expected);
    assert_eq!(layout.projection(&[0]), Projection { keys: true, ..Default::default() });
    assert_eq!(layout.all(), Projection { keys: true, ..expected });
}

#[test]
fn no_columns_at_all_still_count_the_rows() {
    let layout = Layout::new(&small_schema());
    let rows = layout.encode(&small_batch(5)).project(&layout.projection(&[]), 0..5);
    assert_eq!(layout.decode(&rows, &[]).unwrap().num_rows(), 5);
}

#[test]
fn a_null_in_a_column_without_nulls_is_malformed() {
    let layout = Layout::new(&small_schema());
    let keys = encode_keys(&[new_null_array(&DataType::Int64, 1)]);
    let rows = Rows::new(1, Some(keys), vec![]);
    assert!(layout.decode(&rows, &[0]).is_err());
}

#[test]
fn rows_taken_from_a_small_slice_of_a_large_batch_do_not_keep_it_alive() {
    let layout = Layout::new(&small_schema());
    let large = small_batch(10_000);
    let slice = layout.encode(&large.slice(5_000, 10));
    let rows = slice.take(&(0..10).collect::<Vec<u32>>());
    assert!(rows.allocated_bytes() < 2_000, "{} bytes for ten rows", rows.allocated_bytes());
    let whole = layout.encode(&large);
    assert!(whole.allocated_bytes() > 10_000 * 24);
    assert_eq!(rows.value(0).as_ref(), whole.slice(5_000, 10).value(0).as_ref());
}

#[test]
fn a_table_without_a_set_column_has_no_set_codes() {
    let layout = Layout::new(&small_schema());
    assert_eq!(layout.set_codes(&layout.encode(&small_batch(2))), Ok(None));
}

#[test]
fn a_set_column_that_is_a_boolean_has_at_most_three_sets() {
    let booleans: ArrayRef =
        Arc::new(BooleanArray::from(vec![None, Some(true), Some(false), None]));
    let codes = SetCodes::of_array(&booleans, &DataType::Boolean);
    assert_eq!(codes.codes, [0, 1, 2, 0]);
    assert_eq!(codes.values[0].as_ref(), [0x00]);
}

/// Some rows of an array, copied.
pub(crate) fn taken(array: &ArrayRef, rows: &[u32]) -> ArrayRef {
    take_array(array, rows)
}

/// The layout of a table with columns of these types, the first of which is its key.
pub(crate) fn of_types(types: &[DataType]) -> Layout {
    let field = |(at, of): (usize, &DataType)| Field::new(format!("c{at}"), of.clone(), true);
    let columns = Schema::new(types.iter().enumerate().map(field).collect::<Vec<Field>>());
    Layout::new(&TableSchema::new(Arc::new(columns), vec![0]))
}

/// What is spelled of codes may be more than an array holds. Compaction puts together what is held.
#[test]
fn rows_by_code_come_together_whatever_their_keys_have_without_codes() {
    let long = "x".repeat(250);
    let rows = 4_300_000;
    let texts = std::iter::once(&*long).chain(std::iter::repeat_n("a city", rows - 1));
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let coded = encode_keys_by_code(&[column], None, true);
    let codes = Arc::new(coded.codes.expect("one text repeats"));
    let part = Rows::new(rows, None, Vec::new()).with_keys(coded.keys, Some(codes));
    assert!(2 * part.string_bytes() > byte_bounds::array());
    let both = RowsConcat::new(vec![part.clone(), part]).finish();
    assert_eq!((both.len(), both.key(0)), (2 * rows, both.key(rows)));
}
