//! Which encoding a column and the keys of a block take, and how long it is.

use arrow_array::{
    BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, UInt8Array,
};

use super::*;
use crate::block::byte_list::ListView;
use crate::block::encoder::{ColumnEncoder, column_encoder};
use crate::block::encoding_byte::{
    ALL_NULL, BITS, CONSTANT, DICTIONARY, NULL_BITMAP, NUMBERED, PACKED, PLAIN, SCALED,
};
use crate::block::key_encoder::KeyEncoder;
use crate::key::Keys;

/// The encoding byte and length of a column's section in a block of all its rows.
fn form_of(array: ArrayRef) -> (u8, usize) {
    let mut encoder = column_encoder(&array, Default::default(), true);
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
