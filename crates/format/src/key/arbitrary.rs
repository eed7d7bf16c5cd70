//! Random columns for property tests, with the values that break things: nulls, NaN, -0.0, the
//! ends of the integers, and strings of the bytes that the key encoding escapes.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::key::fixed::{Fixed, with_fixed_type};
use crate::schema::list_of_strings;

/// Any type that a column outside the key can have.
pub(crate) fn value_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        8 => data_type(),
        1 => Just(DataType::Binary),
        1 => Just(list_of_strings()),
    ]
}

/// Any type that a key column can have.
pub(crate) fn data_type() -> impl Strategy<Value = DataType> {
    select(vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Date32,
        DataType::Decimal128(38, 2),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("Asia/Tokyo".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ])
}

/// A column of `len` values: all null, none null or mixed; few different values or many.
pub(crate) fn column(data_type: DataType, len: usize) -> BoxedStrategy<ArrayRef> {
    let null_share = prop_oneof![Just(0.0), Just(0.4), Just(1.0)];
    let spread = prop_oneof![Just(1usize), Just(3), Just(50)];
    (null_share, spread, string_or_word_pool())
        .prop_flat_map(move |(null_share, spread, pool)| {
            let data_type = data_type.clone();
            let pool: Vec<(u64, String)> = pool.into_iter().take(spread).collect();
            let cell = (prop::bool::weighted(1.0 - null_share), select(pool));
            vec(cell, len).prop_map(move |cells| array(&data_type, &cells))
        })
        .boxed()
}

fn string_or_word_pool() -> impl Strategy<Value = Vec<(u64, String)>> {
    let word = prop_oneof![
        any::<u64>(),
        0..300u64,
        0..100_000u64,
        (0..3u64).prop_map(|back| back.wrapping_neg()),
        select(vec![0, 1 << 63, (1 << 63) - 1, 1 << 31, 1 << 15, 1 << 7, u64::MAX]),
        // Both zeros, infinities, and NaNs of several kinds, as 64-bit and as 32-bit floats.
        select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN])
            .prop_map(f64::to_bits),
        select(vec![-0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, 1.5])
            .prop_map(|float| u64::from(float.to_bits())),
    ];
    let letter = select(vec!['\0', '\u{1}', '\u{2}', 'a', 'b', '\u{7f}', '\u{ff}', '語', '🜚']);
    let string = vec(letter, 0..4).prop_map(|letters| letters.into_iter().collect());
    let long = (1..300usize).prop_map(|len| "x".repeat(len));
    vec((word, prop_oneof![5 => string, 1 => long]), 50)
}

/// A column made of (is present, (bits, string)).
fn array(data_type: &DataType, cells: &[(bool, (u64, String))]) -> ArrayRef {
    match data_type {
        DataType::Boolean => {
            let values = cells.iter().map(|(present, (bits, _))| present.then_some(bits % 2 == 1));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Utf8 => {
            let values = cells.iter().map(|(present, (_, s))| present.then_some(s.as_str()));
            Arc::new(values.collect::<StringArray>())
        }
        DataType::Binary => {
            let values = cells.iter().map(|(present, (bits, s))| {
                // Rarely UTF-8.
                present.then(|| [s.as_bytes(), &bits.to_le_bytes()[..s.len() % 9]].concat())
            });
            Arc::new(values.collect::<BinaryArray>())
        }
        DataType::List(_) => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for (present, (bits, s)) in cells {
                let item = |at| (bits >> at & 1 == 0).then_some(&s[..]);
                lists.append_option(present.then(|| (0..bits % 4).map(item)));
            }
            Arc::new(lists.finish())
        }
        data_type => with_fixed_type!(data_type, T => {
            type Native = <T as arrow_array::ArrowPrimitiveType>::Native;
            let values = cells.iter().map(|(present, (bits, _))| {
                let wide = u128::from(*bits) | u128::from(bits.rotate_left(7)) << 64;
                let value = Native::read_le(&wide.to_le_bytes()[..size_of::<Native>()]);
                present.then_some(value)
            });
            Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
        }, unreachable!("{data_type}")),
    }
}

/// A value as the model sees it; its order is the order that keys promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i128),
    Float(Number),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Cell>),
}

/// A float with one zero and one NaN, greater than all numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(f64);

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        match (self.0.is_nan(), other.0.is_nan()) {
            (false, false) => self.0.partial_cmp(&other.0).expect("neither is NaN"),
            (left, right) => left.cmp(&right),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

/// The value of a column at a row.
pub(crate) fn cell(column: &ArrayRef, row: usize) -> Cell {
    use arrow_array::types::{Float32Type, Float64Type};
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Boolean => Cell::Bool(column.as_boolean().value(row)),
        DataType::Utf8 => Cell::Str(column.as_string::<i32>().value(row).to_string()),
        DataType::Binary => Cell::Bytes(column.as_binary::<i32>().value(row).to_vec()),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            Cell::List((0..items.len()).map(|item| cell(&items, item)).collect())
        }
        DataType::Float32 => {
            Cell::Float(Number(f64::from(column.as_primitive::<Float32Type>().value(row))))
        }
        DataType::Float64 => Cell::Float(Number(column.as_primitive::<Float64Type>().value(row))),
        data_type => with_fixed_type!(data_type, T => {
            let text = column.as_primitive::<T>().value(row).to_string();
            Cell::Int(text.parse().expect("integers print as digits"))
        }, unreachable!("{data_type}")),
    }
}

/// The values of several columns at a row.
pub(crate) fn tuple(columns: &[ArrayRef], row: usize) -> Vec<Cell> {
    columns.iter().map(|column| cell(column, row)).collect()
}
