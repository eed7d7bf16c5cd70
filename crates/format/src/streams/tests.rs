use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, Int64Array, StringArray};
use arrow_schema::DataType;
use proptest::collection::vec;
use proptest::prelude::*;

use super::directory::{Stream, StreamColumn, StreamDirectory};
use super::group::{GROUP_ROWS_MAX, GROUP_ROWS_MIN};
use super::page::{StreamView, is_streamable, put_codes, put_values};
use crate::dictionary::Dictionary;
use crate::key::arbitrary::{column, data_type};

/// A column of some type that streams, of up to a few frames.
fn any_column() -> impl Strategy<Value = ArrayRef> {
    let streamed = data_type().prop_filter("a stream", is_streamable);
    (streamed, prop_oneof![1..80usize, 1000..2100usize])
        .prop_flat_map(|(data_type, len)| column(data_type, len))
}

/// The page of a column, and the dictionary page of texts.
fn encoded(column: &ArrayRef) -> (Vec<u8>, Option<StringArray>) {
    let mut page = Vec::new();
    let Some(texts) = column.as_string_opt::<i32>() else {
        put_values(column, &mut page);
        return (page, None);
    };
    // Any dictionary that has them: here each text is an entry.
    let entries = StringArray::from_iter_values(texts.iter().map(Option::unwrap_or_default));
    let codes: Vec<u32> = (0..texts.len() as u32).collect();
    put_codes(texts, &codes, &mut page);
    (page, Some(entries))
}

proptest! {
    #[test]
    fn a_stream_page_reads_back_from_anywhere(column in any_column(), ends in any::<(u16, u16)>()) {
        let (page, dictionary) = encoded(&column);
        let view = StreamView::parse(&page, column.data_type()).unwrap();
        prop_assert_eq!(view.rows(), column.len());
        let (a, b) = (usize::from(ends.0) % column.len(), usize::from(ends.1) % column.len());
        for (from, to) in [(0, column.len()), (a.min(b), a.max(b) + 1), (0, 0)] {
            let read = view.decode(from, to, column.data_type(), dictionary.as_ref()).unwrap();
            // A null's value does not matter, and floats are compared by their bits.
            let expected = column.slice(from, to - from);
            let valid = |array: &ArrayRef| -> Vec<u32> {
                (0..array.len() as u32).filter(|&row| array.is_valid(row as usize)).collect()
            };
            let valid = (valid(&read), valid(&expected));
            prop_assert_eq!(&valid.0, &valid.1);
            let valid = valid.0;
            let take = |array: &ArrayRef| crate::rows::tests::taken(array, &valid);
            prop_assert_eq!(take(&read).to_data(), take(&expected).to_data());
        }
    }

    #[test]
    fn damaged_pages_never_panic(column in any_column(), at in any::<u16>(), byte in any::<u8>(), cut in any::<u16>()) {
        let (mut page, dictionary) = encoded(&column);
        let at = usize::from(at) % page.len();
        page[at] = byte;
        page.truncate(page.len() - usize::from(cut) % 3);
        if let Ok(view) = StreamView::parse(&page, column.data_type()) {
            let _ = view.decode(0, view.rows(), column.data_type(), dictionary.as_ref());
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..60), of in data_type(), rows in 0..100_000u64) {
        if let Ok(view) = StreamView::parse(&bytes, &of) {
            let _ = view.decode(0, view.rows(), &of, None);
        }
        let _ = Dictionary::decode(&bytes);
        let _ = StreamDirectory::decode(&bytes, rows);
    }

    #[test]
    fn a_directory_reads_back(lens in vec(vec(any::<u32>(), 3), 0..5), offsets in vec(0..1u64 << 40, 3)) {
        let mut groups = offsets;
        groups.sort_unstable();
        let column = |number: u32| match number % 2 {
            0 => StreamColumn::Key(number / 2),
            _ => StreamColumn::Value(number / 2),
        };
        let stream = |(number, page_bytes)| Stream {
            column: column(number as u32),
            page_bytes,
        };
        let streams: Vec<Stream> = lens.into_iter().enumerate().skip(1).map(stream).collect();
        let directory = StreamDirectory { group_rows: GROUP_ROWS_MIN, groups, streams };
        let mut bytes = Vec::new();
        directory.encode(&mut bytes);
        let rows = 3 * GROUP_ROWS_MIN - 5;
        let read = StreamDirectory::decode(&bytes, rows).unwrap();
        for (number, stream) in directory.streams.iter().enumerate() {
            prop_assert_eq!(read.stream_of(stream.column), Some(number));
        }
        prop_assert_eq!(&read, &directory);
        prop_assert!(StreamDirectory::decode(&bytes, rows + GROUP_ROWS_MIN).is_err());
        for len in 0..bytes.len() {
            prop_assert!(StreamDirectory::decode(&bytes[..len], rows).is_err());
        }
    }
}

fn page_len(column: ArrayRef) -> usize {
    encoded(&column).0.len()
}

#[test]
fn prices_take_the_bits_of_their_cents() {
    let cents: Vec<i64> = (0..GROUP_ROWS_MAX as i64).map(|at| at * 7919 % 10_000).collect();
    let prices = Float64Array::from_iter_values(cents.iter().map(|&cents| cents as f64 / 100.0));
    let floats = Float32Array::from_iter_values(cents.iter().map(|&cents| cents as f32 / 100.0));
    let (as_cents, as_prices) =
        (page_len(Arc::new(Int64Array::from(cents))), page_len(Arc::new(prices)));
    assert_eq!(as_cents, as_prices);
    assert_eq!(as_cents, page_len(Arc::new(floats)));
    assert!(as_cents < GROUP_ROWS_MAX as usize * 15 / 8);
}

#[test]
fn odd_floats_are_exceptions_and_many_are_plain() {
    let odd = [f64::NAN, -0.0, f64::INFINITY, 1e300, 0.1 + 0.2];
    let mut prices: Vec<f64> = (0..1000).map(|at| f64::from(at * 7919 % 1000) / 4.0).collect();
    let even = page_len(Arc::new(Float64Array::from(prices.clone())));
    prices[100..105].copy_from_slice(&odd);
    assert_eq!(page_len(Arc::new(Float64Array::from(prices))), even + odd.len() * 10);
    let odd = Float64Array::from_iter_values((0..1000).map(|at| f64::from(at).sqrt()));
    assert_eq!(page_len(Arc::new(odd)), 4 + 1 + 1 + 8000);
}

#[test]
fn a_code_that_the_dictionary_does_not_have_is_an_error() {
    let texts = StringArray::from(vec!["a", "b"]);
    let mut page = Vec::new();
    put_codes(&texts, &[0, 1], &mut page);
    let view = StreamView::parse(&page, &DataType::Utf8).unwrap();
    let one = StringArray::from(vec!["a"]);
    assert!(view.decode(0, 2, &DataType::Utf8, Some(&one)).is_err());
    assert!(view.decode(0, 1, &DataType::Utf8, Some(&one)).is_ok());
    assert!(view.decode(0, 1, &DataType::Utf8, None).is_err());
}
