//! Payloads of pages of columns that lie by themselves, and of the dictionaries of columns, one kind a target.
//!
//! The first part of an input selects the decoder's other arguments, the second is the payload.

use drillcore::arrow_array::Array;
use drillcore::arrow_schema::DataType;
use drillcore_format::dictionary::Dictionary;
use drillcore_format::streams::directory::{StreamColumn, StreamDirectory};
use drillcore_format::streams::page::{StreamView, is_streamable};

use super::outcome::Outcome;
use super::pages::use_block;
use super::parts::{byte, number, part};
use super::tables::{FuzzTable, table};

/// Columns and groups that are looked for, beside those that there are.
const LOOKED_FOR: u64 = 40;

/// The types of a table's columns that can be streams, in their order.
pub fn stream_types(table: &FuzzTable) -> Vec<DataType> {
    let fields = table.schema.columns.fields().iter();
    fields.map(|field| field.data_type().clone()).filter(is_streamable).collect()
}

/// Values of a column of the selected table, of a type that the selector chooses. The third part is the column's dictionary, if
/// it has one.
pub fn stream(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let (selector, payload) = (part(parts, 0), part(parts, 1));
    let types = stream_types(table(byte(selector, 0)));
    let data_type = &types[usize::from(byte(selector, 1)) % types.len()];
    let is_of_texts = *data_type == DataType::Utf8;
    let dictionary = Some(part(parts, 2)).filter(|payload| is_of_texts && !payload.is_empty());
    let dictionary = dictionary.and_then(|payload| outcome.note(Dictionary::decode(payload)));
    let texts = dictionary.as_ref().map(Dictionary::texts);
    let Some(view) = outcome.note(StreamView::parse(payload, data_type)) else { return outcome };
    let rows = view.rows();
    let nulls = (0..rows).filter(|&row| view.is_null(row)).count();
    assert!(view.has_nulls() || nulls == 0);
    for (from, to) in [(0, rows), (rows / 3, rows - rows / 4), (rows / 2, rows / 2)] {
        if from > to {
            continue;
        }
        if let Some(values) = outcome.note(view.decode(from, to, data_type, texts)) {
            assert_eq!((values.len(), values.data_type()), (to - from, data_type));
            values.to_data().validate_full().expect("what is handed on is sound");
            let in_all = (from, to) == (0, rows);
            assert!(!in_all || values.logical_null_count() == nulls);
        }
        if !is_of_texts {
            continue;
        }
        let mut codes = Vec::new();
        let collected = view.for_each_code(from, to, |first, some| {
            assert_eq!(first, from + codes.len(), "codes come in order");
            codes.extend_from_slice(some);
        });
        if outcome.note(collected).is_none() {
            continue;
        }
        assert_eq!(codes.len(), to - from);
        for code in [0, 1, codes.last().copied().unwrap_or(7)] {
            let mut found = Vec::new();
            outcome.note(view.find_code(from, to, code, |row| found.push(row)));
            let has_it = |row: &usize| codes[row - from] == code && !view.is_null(*row);
            assert!(found.iter().copied().eq((from..to).filter(has_it)));
        }
    }
    outcome
}

/// Where the streams of a segment lie, with as many rows as the selector says.
pub fn stream_directory(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let rows = number(part(parts, 0), 0) & 0xffff_ffff;
    let decoded = StreamDirectory::decode(part(parts, 1), rows);
    let Some(directory) = outcome.note(decoded) else { return outcome };
    let mut again = Vec::new();
    directory.encode(&mut again);
    let reread = StreamDirectory::decode(&again, rows);
    assert_eq!(reread.as_ref(), Ok(&directory), "what was read can be written");
    for (number, stream) in directory.streams.iter().enumerate() {
        assert_eq!(directory.stream_of(stream.column), Some(number));
        for group in 0..directory.groups.len() {
            assert_eq!(directory.page(number, group).is_some(), stream.page_bytes[group] > 0);
        }
    }
    for column in (0..LOOKED_FOR).filter_map(StreamColumn::of) {
        let found = directory.stream_of(column).map(|number| directory.streams[number].column);
        assert!(found.is_none_or(|found| found == column));
    }
    outcome
}

/// What codes and compressed strings of a block stand for. The third part is a block of the selected table, each of whose columns has
/// the dictionary.
pub fn dictionary(parts: &[Vec<u8>]) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(dictionary) = outcome.note(Dictionary::decode(part(parts, 1))) else {
        return outcome;
    };
    dictionary.texts().to_data().validate_full().expect("what is handed on is sound");
    let layout = &table(byte(part(parts, 0), 0)).layout;
    use_block(layout, part(parts, 2), &dictionary.into(), &mut outcome);
    outcome
}
