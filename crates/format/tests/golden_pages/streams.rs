//! Column streams: pages of each encoding, frames of each form, the dictionary that texts have, and the directory.

use std::slice;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int64Array, StringArray, UInt64Array,
};
use drillcore_format::dictionary::{Dictionary, DictionaryBuilder, encode_dictionary};
use drillcore_format::page::{PAGE_BYTES, PageKind, page_len, read_page, write_page};
use drillcore_format::streams::directory::{Stream, StreamColumn, StreamDirectory};
use drillcore_format::streams::page::{StreamView, put_codes, put_values};
use drillcore_format::symbol_table::StringCompressor;

use crate::{address, golden};

/// Words of a frame but the last one of a page.
const FRAME: i64 = 1024;
const FIRST_PAGE: u64 = 8192;
/// Rows of the group whose pages are pinned.
const ROWS: i64 = 32;

/// The pages of a group, one behind the other, of which the last one is padded.
fn group_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        let (at, is_last) =
            (address(FIRST_PAGE + bytes.len() as u64), number + 1 == payloads.len());
        write_page(PageKind::Stream, at, payload, is_last, &mut bytes);
    }
    bytes
}

/// The payloads of such pages, of these lengths.
fn payloads_of<'a>(group: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut at = 0;
    let payload = |(number, len): (usize, &usize)| {
        let offset = FIRST_PAGE + at as u64;
        let bytes = page_len(offset, *len, number + 1 == lens.len());
        let page = &group[at..at + bytes];
        at += bytes;
        read_page(page, PageKind::Stream, address(offset)).unwrap()
    };
    let payloads = lens.iter().enumerate().map(payload).collect();
    assert_eq!(at, group.len());
    payloads
}

/// That a page has the values of a column, whole and from anywhere. Floats are compared by their bits.
fn assert_holds(payload: &[u8], column: &ArrayRef, dictionary: Option<&StringArray>) {
    let view = StreamView::parse(payload, column.data_type()).unwrap();
    assert_eq!(view.rows(), column.len());
    for (from, to) in [(0, column.len()), (column.len() / 3, column.len() - 2)] {
        let read = view.decode(from, to, column.data_type(), dictionary).unwrap();
        let (read, expected) = (bits(&read), bits(&column.slice(from, to - from)));
        assert_eq!(read, expected, "{}", column.data_type());
    }
}

/// Of each value a text that no other one has; `None` of a null.
fn bits(column: &ArrayRef) -> Vec<Option<String>> {
    let text = |row: usize| {
        let slice = column.slice(row, 1);
        match (slice.as_any().downcast_ref::<Float64Array>(), slice.as_any().downcast_ref()) {
            (Some(value), _) => format!("{:x}", value.value(0).to_bits()),
            (_, Some(value)) => format!("{:x}", Float32Array::value(value, 0).to_bits()),
            _ => format!("{slice:?}"),
        }
    };
    (0..column.len()).map(|row| column.is_valid(row).then(|| text(row))).collect()
}

/// A frame of each form, in the order of their numbers, and a short one of the widest distances; never to be changed.
fn numbers_of_each_form() -> Vec<i64> {
    let scattered = |at: i64| at * 7919 % 1009;
    let forms: [&dyn Fn(i64) -> i64; 6] = [
        &|at| scattered(at) % 16 - 8,
        &|at| 1_700_000_000 + at * 60 + scattered(at) % 3,
        &|at| at / 100 * 5 - 1000,
        &|at| if at % 300 == 299 { 1_000_000 + at } else { scattered(at) % 4 },
        &|at| [499, 999, 1999, 4999, 9999, 12_999, 15_999, 16_383][scattered(at) as usize % 8],
        &|at| scattered(at / 4) % 500,
    ];
    let frames = forms.iter().flat_map(|value| (0..FRAME).map(value));
    frames.chain([0, i64::MIN, -1, i64::MAX, 1]).collect()
}

/// The form of each frame of a page of numbers without nulls and exceptions.
fn forms_of(payload: &[u8], frames: usize) -> Vec<u8> {
    let mut rest = &payload[4 + 1 + 1 + 1 + 2..];
    let len = |_| {
        let bytes = rest.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let (len, after) = rest.split_at(bytes);
        rest = after;
        len.iter().rev().fold(0, |len, byte| len << 7 | usize::from(byte & 0x7f))
    };
    let lens: Vec<usize> = (0..frames).map(len).collect();
    let form = |len: &usize| {
        let (frame, after) = rest.split_at(*len);
        rest = after;
        frame[0]
    };
    lens.iter().map(form).collect()
}

#[test]
fn a_stream_page_of_frames_of_each_form_keeps_its_bytes() {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers_of_each_form()));
    let mut payload = Vec::new();
    put_values(&column, &mut payload);
    assert_eq!(forms_of(&payload, 7), [1, 2, 3, 4, 5, 6, 1]);
    let pinned = golden("stream-page-of-each-form-v1.bin", &group_of(slice::from_ref(&payload)));
    let [read] = payloads_of(&pinned, &[payload.len()])[..] else { panic!("one page") };
    assert_holds(read, &column, None);
}

/// Columns of each presence and encoding; never to be changed.
fn columns_of_each_encoding() -> Vec<ArrayRef> {
    let some = |row: i64| row % 5 != 2;
    let price = |row: i64| match row {
        // What is no word.
        3 => f64::NAN,
        20 => -0.0,
        row => (row * 7919 % 1000) as f64 / 100.0,
    };
    let wide = |row: i64| if row % 9 == 4 { i128::MAX - i128::from(row) } else { row.into() };
    let one_wide = |row: i64| if row == 9 { i128::MIN } else { i128::from(row % 9) - 4 };
    let short = (0..ROWS).map(|row| some(row).then_some((row * 31 % 50) as f32 / 8.0));
    vec![
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(price))),
        Arc::new(short.collect::<Float32Array>()),
        Arc::new(
            (0..ROWS).map(|row| some(row).then(|| (row as f64).sqrt())).collect::<Float64Array>(),
        ),
        Arc::new(
            (0..ROWS).map(|row| some(row + 2).then_some(row % 3 == 0)).collect::<BooleanArray>(),
        ),
        Arc::new(Int64Array::new_null(ROWS as usize)),
        Arc::new(Date32Array::from_iter_values((0..ROWS as i32).map(|row| row / 10 - 1))),
        Arc::new(UInt64Array::from_iter_values((0..ROWS as u64).map(|row| u64::MAX - row % 7))),
        Arc::new(Decimal128Array::from_iter_values((0..ROWS).map(one_wide))),
        Arc::new(Decimal128Array::from_iter_values((0..ROWS).map(wide))),
    ]
}

#[test]
fn stream_pages_of_each_encoding_keep_their_bytes() {
    let columns = columns_of_each_encoding();
    let payload = |column: &ArrayRef| {
        let mut payload = Vec::new();
        put_values(column, &mut payload);
        payload
    };
    let payloads: Vec<Vec<u8>> = columns.iter().map(payload).collect();
    let presence: Vec<u8> = payloads.iter().map(|payload| payload[4]).collect();
    assert_eq!(presence, [0, 2, 2, 2, 1, 0, 0, 0, 0]);
    let bitmap_bytes = |presence: u8| if presence == 2 { ROWS as usize / 8 } else { 0 };
    let encoding = |(payload, presence): (&Vec<u8>, &u8)| {
        payload.get(5 + bitmap_bytes(*presence)).copied().unwrap_or(0)
    };
    let encodings: Vec<u8> = payloads.iter().zip(&presence).map(encoding).collect();
    assert_eq!(encodings, [2, 2, 1, 2, 0, 2, 2, 2, 1]);
    assert_eq!(payloads[0][6..9], [2, 2, 0], "a scale and two exceptions");
    assert_eq!(payloads[7][6..9], [0, 1, 0], "a number that fits no word");
    let pinned = golden("stream-pages-v1.bin", &group_of(&payloads));
    let lens: Vec<usize> = payloads.iter().map(Vec::len).collect();
    for (payload, column) in payloads_of(&pinned, &lens).into_iter().zip(&columns) {
        assert_holds(payload, column, None);
    }
}

#[test]
fn a_stream_page_of_texts_and_their_dictionary_keep_their_bytes() {
    let cities = ["Rome", "Århus", "", "Köln"];
    let city = |row: i64| (row % 7 != 6).then(|| cities[row as usize * 5 % 11 % 4]);
    let texts: StringArray = (0..ROWS).map(city).collect();
    let mut builder = DictionaryBuilder::default();
    let codes = builder.codes(&texts, ROWS as usize).unwrap();
    let mut payload = Vec::new();
    put_codes(&texts, &codes, &mut payload);
    let dictionary = encode_dictionary(Some(&builder), &StringCompressor::default()).unwrap();
    let mut bytes = group_of(slice::from_ref(&payload));
    let place = address(FIRST_PAGE + bytes.len() as u64);
    write_page(PageKind::Dictionary, place, &dictionary, true, &mut bytes);
    let pinned = golden("stream-page-of-texts-v1.bin", &bytes);
    let (page, dictionary) = pinned.split_at(PAGE_BYTES);
    let [read] = payloads_of(page, &[payload.len()])[..] else { panic!("one page") };
    let dictionary = read_page(dictionary, PageKind::Dictionary, place).unwrap();
    let dictionary = Dictionary::decode(dictionary).unwrap();
    // In the order in which they first come.
    assert_eq!(dictionary.texts(), &StringArray::from(vec!["Rome", "Århus", "", "Köln"]));
    let column: ArrayRef = Arc::new(texts.clone());
    assert_holds(read, &column, Some(dictionary.texts()));
    let mut found = Vec::new();
    let view = StreamView::parse(read, column.data_type()).unwrap();
    view.find_code(0, ROWS as usize, 3, |row| found.push(row)).unwrap();
    let in_cologne = |row: &usize| texts.is_valid(*row) && texts.value(*row) == "Köln";
    assert_eq!(found, (0..ROWS as usize).filter(in_cologne).collect::<Vec<_>>());
    assert!(found.len() > 3);
}

#[test]
fn a_stream_directory_keeps_its_bytes() {
    let directory = StreamDirectory {
        group_rows: 32_768,
        groups: vec![1_000_000, 2_400_012, 3_700_000],
        streams: vec![
            Stream { column: StreamColumn::Key(0), page_bytes: vec![300, 301, 40] },
            Stream { column: StreamColumn::Value(0), page_bytes: vec![20_000, 0, 700] },
            Stream { column: StreamColumn::Key(1), page_bytes: vec![127, 128, 129] },
            Stream { column: StreamColumn::Value(200), page_bytes: vec![0, 0, 5] },
        ],
    };
    let mut payload = Vec::new();
    directory.encode(&mut payload);
    let mut bytes = Vec::new();
    write_page(PageKind::StreamDirectory, address(FIRST_PAGE), &payload, true, &mut bytes);
    let pinned = golden("stream-directory-v1.bin", &bytes);
    let read = read_page(&pinned, PageKind::StreamDirectory, address(FIRST_PAGE)).unwrap();
    let read = StreamDirectory::decode(read, 2 * 32_768 + 1000).unwrap();
    assert_eq!(read, directory);
    assert_eq!(read.page(2, 0), Some((1_000_000 + 300 + 20_000, 127)));
    assert_eq!(read.page(1, 1), None);
}
