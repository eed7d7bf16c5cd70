//! What the C interface of Arrow leaves to the one who takes data in: that texts are UTF-8, that the codes of a dictionary are
//! among its values, that decimals have the digits of their type. Libraries hand on what they read from a file without a look,
//! and whatever is stored must be readable again.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, GenericStringType};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, GenericByteArray, GenericListArray,
    OffsetSizeTrait, RecordBatch, StringViewArray,
};
use arrow_data::validate_binary_view;
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;

/// What is wrong with a value, and in which row, where that is known.
struct Unsound {
    row: Option<usize>,
    why: String,
}

/// Checks the values of a batch whose first row is called `first`. O(bytes of its texts + rows of its texts, lists, dictionaries and decimals).
///
/// # Errors
/// The column and the row that have an unsound value, and what to do.
pub fn check_batch(batch: &RecordBatch, first: usize) -> Result<(), String> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    for (field, column) in columns {
        check(column).map_err(|Unsound { row, why }| {
            let unsound = Unsound { row: row.map(|row| first + row), why };
            format!("column {:?}{unsound}", field.name())
        })?;
    }
    Ok(())
}

/// The rows whose texts are UTF-8, and the others with what is wrong with them.
///
/// # Errors
/// Those of [`check_batch`] of what is wrong with more than some rows.
pub fn sound_rows(batch: RecordBatch) -> Result<(RecordBatch, Vec<(u64, String)>), String> {
    let Err(why) = check_batch(&batch, 0) else { return Ok((batch, Vec::new())) };
    let mut unsound: BTreeMap<u64, String> = BTreeMap::new();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let Err(first) = check(column) else { continue };
        let Some(mut row) = first.row else { return Err(why) };
        let mut why = first.why;
        let mut note = |row: usize, why: &str| {
            let shown = || format!("column {:?}: {why}", field.name());
            unsound.entry(row as u64).or_insert_with(shown);
        };
        if matches!(column.data_type(), DataType::Dictionary(_, _)) {
            // In one pass: a check of each rest of the column would check the dictionary as often.
            let rows = 0..column.len();
            rows.filter(|&row| has_wrong_code(column, row)).for_each(|row| note(row, &why));
            continue;
        }
        loop {
            note(row, &why);
            match check(&column.slice(row + 1, column.len() - row - 1)) {
                Ok(()) => break,
                Err(next) => (row, why) = (row + 1 + next.row.ok_or(&why)?, next.why),
            }
        }
    }
    let is_sound: BooleanArray =
        (0..batch.num_rows() as u64).map(|row| Some(!unsound.contains_key(&row))).collect();
    let sound = filter_record_batch(&batch, &is_sound).map_err(|error| error.to_string())?;
    Ok((sound, unsound.into_iter().collect()))
}

/// [`check_batch`] of one array.
pub fn check_array(array: &ArrayRef) -> Result<(), String> {
    check(array).map_err(|unsound| format!("an array{unsound}"))
}

impl std::fmt::Display for Unsound {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.row {
            Some(row) => write!(out, ", row {row}: {}", self.why),
            None => write!(out, ": {}", self.why),
        }
    }
}

fn check(array: &ArrayRef) -> Result<(), Unsound> {
    match array.data_type() {
        DataType::Utf8 => check_texts::<i32>(array.as_string()),
        DataType::LargeUtf8 => check_texts::<i64>(array.as_string()),
        DataType::Utf8View => check_views(array.as_string_view()),
        DataType::Binary => places::<i32>(
            array.as_binary::<i32>().value_offsets(),
            array.as_binary::<i32>().value_data(),
        )
        .map(drop),
        DataType::LargeBinary => places::<i64>(
            array.as_binary::<i64>().value_offsets(),
            array.as_binary::<i64>().value_data(),
        )
        .map(drop),
        DataType::BinaryView => {
            let views = array.as_binary_view();
            validate_binary_view(views.views(), views.data_buffers())
                .map_err(|error| Unsound { row: None, why: error.to_string() })
        }
        DataType::Dictionary(_, _) => check_dictionary(array),
        DataType::Decimal128(precision, _) => {
            let decimals = array.as_primitive::<Decimal128Type>();
            let checked = decimals.validate_decimal_precision(*precision);
            checked.map_err(|error| Unsound { row: None, why: error.to_string() })
        }
        DataType::List(_) => check_lists::<i32>(array.as_list()),
        DataType::LargeList(_) => check_lists::<i64>(array.as_list()),
        DataType::FixedSizeList(_, _) => check_items(array.as_fixed_size_list().values()),
        DataType::ListView(_) => check_items(array.as_list_view::<i32>().values()),
        DataType::LargeListView(_) => check_items(array.as_list_view::<i64>().values()),
        DataType::Map(_, _) => array.as_map().entries().columns().iter().try_for_each(check_items),
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check),
        // Whole, also where it is a slice: few have such data.
        DataType::RunEndEncoded(_, _) | DataType::Union(_, _) => {
            let whole = array.to_data().validate_full();
            whole.map_err(|error| Unsound { row: None, why: error.to_string() })
        }
        _ => Ok(()),
    }
}

/// What values with these ends have of a buffer.
fn places<'b, O: OffsetSizeTrait>(ends: &[O], bytes: &'b [u8]) -> Result<&'b [u8], Unsound> {
    let is_sound = ends.is_sorted() && ends[0] >= O::default();
    let of_all = ends[0].as_usize()..ends[ends.len() - 1].as_usize();
    // A slice without values comes without the bytes of the others.
    let found = if of_all.is_empty() { Some(&[][..]) } else { bytes.get(of_all) };
    found
        .filter(|_| is_sound)
        .ok_or_else(|| Unsound { row: None, why: "its values lie outside of their buffer".into() })
}

fn check_texts<O: OffsetSizeTrait>(
    texts: &GenericByteArray<GenericStringType<O>>,
) -> Result<(), Unsound> {
    let (ends, bytes) = (texts.value_offsets(), texts.value_data());
    if places(ends, bytes)?.is_ascii() {
        return Ok(());
    }
    let text = |row: usize| &bytes[ends[row].as_usize()..ends[row + 1].as_usize()];
    check_each(texts, text)
}

fn check_views(texts: &StringViewArray) -> Result<(), Unsound> {
    validate_binary_view(texts.views(), texts.data_buffers())
        .map_err(|error| Unsound { row: None, why: error.to_string() })?;
    let bytes: BinaryViewArray = texts.clone().to_binary_view();
    check_each(texts, |row| bytes.value(row))
}

/// Nulls may have any bytes.
fn check_each<'t>(texts: &dyn Array, text: impl Fn(usize) -> &'t [u8]) -> Result<(), Unsound> {
    let is_unsound = |&row: &usize| texts.is_valid(row) && std::str::from_utf8(text(row)).is_err();
    match (0..texts.len()).find(is_unsound) {
        None => Ok(()),
        row => Err(Unsound {
            row,
            why: "the text is not UTF-8; decode it first, or store it in a binary column".into(),
        }),
    }
}

fn check_dictionary(array: &ArrayRef) -> Result<(), Unsound> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    check(values).map_err(|Unsound { row, why }| match row {
        None => Unsound { row, why },
        Some(value) => {
            Unsound { row: None, why: format!("value {value} of its dictionary: {why}") }
        }
    })?;
    // Of codes that are not among the values this makes an error, and of null codes none.
    if array.to_data().validate_values().is_ok() {
        return Ok(());
    }
    Err(Unsound {
        row: (0..array.len()).find(|&row| has_wrong_code(array, row)),
        why: format!("its code is not among the {} values of its dictionary", values.len()),
    })
}

/// Whether the code in a row of a dictionary array is not among its values.
fn has_wrong_code(array: &ArrayRef, row: usize) -> bool {
    array.slice(row, 1).to_data().validate_values().is_err()
}

/// Only what these lists hold: those of a slice share the items of the whole.
fn check_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<(), Unsound> {
    let ends = lists.value_offsets();
    let (first, last) = (ends[0].as_usize(), ends[lists.len()].as_usize());
    if last > lists.values().len() || !ends.is_sorted() || ends[0] < O::default() {
        return Err(Unsound { row: None, why: "its lists lie outside of their items".into() });
    }
    check_items(&lists.values().slice(first, last - first))
}

fn check_items(items: &ArrayRef) -> Result<(), Unsound> {
    check(items).map_err(|Unsound { row, why }| match row {
        None => Unsound { row, why },
        Some(item) => Unsound { row: None, why: format!("item {item} of its lists: {why}") },
    })
}
