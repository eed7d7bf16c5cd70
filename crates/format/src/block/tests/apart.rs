//! Values of which a block has only a part: compressed strings, whose symbols lie in a dictionary, and long values.

use arrow_array::BinaryArray;

use super::*;
use crate::dictionary::{Dictionary, encode_dictionary};
use crate::extents::reference;
use crate::symbol_table::StringCompressor;

/// 600 rows with lines of a log, the same with compressed lines, and the dictionary page of these.
pub(super) fn compressed_lines() -> (Layout, Rows, Rows, Vec<u8>) {
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
