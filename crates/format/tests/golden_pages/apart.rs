//! Blocks that name what is not in them: texts by their codes in the segment's dictionary, and long values by their places.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use drillcore_format::block::{Apart, BlockView, Effort, Picked, RowsBuilder, encode};
use drillcore_format::dictionary::{Dictionary, DictionaryBuilder, encode_dictionary};
use drillcore_format::error::Result;
use drillcore_format::extents::{INLINE_BYTES_MAX, Reference, place_of, reference};
use drillcore_format::page::{PAGE_BYTES, PageKind, read_page, write_page};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::schema::TableSchema;
use drillcore_format::symbol_table::StringCompressor;

use crate::{address, golden};

const FIRST_PAGE: u64 = 8192;
const ROWS: i64 = 40;

/// A table of these columns behind its key, `id`, and its rows.
fn table(columns: &[(&str, ArrayRef)]) -> (Layout, RecordBatch, Rows) {
    let rows = columns[0].1.len();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let columns = [("id", ids)].into_iter().chain(columns.iter().cloned());
    let (names, columns): (Vec<&str>, Vec<ArrayRef>) = columns.unzip();
    let field = |(name, of): (&&str, &ArrayRef)| Field::new(*name, of.data_type().clone(), true);
    let mut fields: Vec<Field> = names.iter().zip(&columns).map(field).collect();
    fields[0] = Field::new("id", DataType::Int64, false);
    let schema = Arc::new(Schema::new(fields));
    let layout = Layout::new(&TableSchema::new(schema.clone(), vec![0]));
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    let rows = layout.encode(&batch);
    (layout, batch, rows)
}

fn read_all(layout: &Layout, view: &BlockView<'_>) -> Result<RecordBatch> {
    let mut builder = RowsBuilder::new(&layout.all(), view.rows());
    builder.append_range(view, 0, view.rows())?;
    let columns: Vec<usize> = (0..layout.schema().columns.fields().len()).collect();
    layout.decode(&builder.finish()?, &columns)
}

#[test]
fn a_block_of_codes_and_their_dictionary_keep_their_bytes() {
    let city =
        |row: i64| (row % 6 != 1).then(|| format!("the city of number {}", row * 7919 % 31 % 11));
    let cities: StringArray = (0..ROWS).map(city).collect();
    // The codes of the block are not the first ones of the dictionary.
    let mut builder = DictionaryBuilder::default();
    let before = StringArray::from(vec!["a", "b", "ü", "d"]);
    assert_eq!(builder.codes(&before, 4).unwrap(), [0, 1, 2, 3]);
    let codes = [Some(builder.codes(&cities, ROWS as usize).unwrap()), None];
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 3)));
    let (layout, batch, rows) = table(&[("city", Arc::new(cities)), ("n", numbers)]);
    let mut block = Vec::new();
    let apart = Apart { codes: &codes, ..Default::default() };
    encode(&rows, 0, ROWS as usize, Effort::Small(apart), &mut block);
    let mut bytes = Vec::new();
    write_page(PageKind::Block, address(FIRST_PAGE), &block, true, &mut bytes);
    let dictionary = encode_dictionary(Some(&builder), &StringCompressor::default()).unwrap();
    let place = address(FIRST_PAGE + PAGE_BYTES as u64);
    write_page(PageKind::Dictionary, place, &dictionary, true, &mut bytes);
    let pinned = golden("block-of-codes-v1.bin", &bytes);

    let (block, dictionary) = pinned.split_at(PAGE_BYTES);
    let block = read_page(block, PageKind::Block, address(FIRST_PAGE)).unwrap();
    let dictionary = read_page(dictionary, PageKind::Dictionary, place).unwrap();
    let dictionaries = [(0, Arc::new(Dictionary::decode(dictionary).unwrap()))];
    let view = BlockView::parse(block, &layout).unwrap();
    assert!(read_all(&layout, &view).is_err(), "the block has no text");
    let view = view.with_dictionaries(&dictionaries);
    assert_eq!(read_all(&layout, &view).unwrap(), batch);
}

#[test]
fn a_block_and_its_extents_keep_their_bytes() {
    let long = |of: &str| of.repeat(INLINE_BYTES_MAX / of.len() + 1);
    let texts = [Some(long("ü")), None, Some("short".into()), Some(long("of text ")), None];
    let raws = [None, Some("inline".to_string()), Some(long("\u{1}")), None, Some(String::new())];
    // The extents lie before the block, in the order of the rows, and in a row of the columns.
    let (mut bytes, mut extents) = (Vec::new(), [vec![None; 5], vec![None; 5]]);
    for row in 0..5 {
        for (value, column) in [&texts, &raws].into_iter().enumerate() {
            let Some(long) = column[row].as_ref().filter(|text| text.len() > INLINE_BYTES_MAX)
            else {
                continue;
            };
            let (offset, before) = (FIRST_PAGE + bytes.len() as u64, bytes.len());
            write_page(PageKind::Extent, address(offset), long.as_bytes(), false, &mut bytes);
            let place = (offset, (bytes.len() - before) as u32);
            assert_eq!(place_of(&reference(place)).unwrap(), place);
            extents[value][row] = Some(reference(place));
        }
    }
    let extents: [Option<Vec<Option<Reference>>>; 2] = extents.map(Some);
    bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
    let columns: [(&str, ArrayRef); 2] = [
        ("text", Arc::new(texts.iter().cloned().collect::<StringArray>())),
        (
            "raw",
            Arc::new(
                raws.iter().map(|raw| raw.as_ref().map(String::as_bytes)).collect::<BinaryArray>(),
            ),
        ),
    ];
    let (layout, batch, rows) = table(&columns);
    let mut block = Vec::new();
    let apart = Apart { extents: &extents, ..Default::default() };
    encode(&rows, 0, 5, Effort::Small(apart), &mut block);
    let (place, at) = (address(FIRST_PAGE + bytes.len() as u64), bytes.len());
    write_page(PageKind::Block, place, &block, true, &mut bytes);
    let pinned = golden("block-and-extents-v1.bin", &bytes);

    let block = read_page(&pinned[at..], PageKind::Block, place).unwrap();
    let view = BlockView::parse(block, &layout).unwrap();
    assert!(read_all(&layout, &view).is_err(), "they were not read");
    let places = view.extents(&layout.all(), Picked::Range(0, 5)).unwrap();
    let extent = |&(offset, bytes): &(u64, u32)| {
        let from = (offset - FIRST_PAGE) as usize;
        let page = &pinned[from..from + bytes as usize];
        read_page(page, PageKind::Extent, address(offset)).unwrap().into()
    };
    let read: Vec<Arc<[u8]>> = places.iter().map(extent).collect();
    assert_eq!(read.len(), 3);
    assert_eq!(read_all(&layout, &view.with_extents(&read)).unwrap(), batch);
}
