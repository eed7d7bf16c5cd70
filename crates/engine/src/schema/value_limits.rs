//! How long values may be: what is appended must also be read, merged and shown.
//!
//! Blocks, batches and chunks are closed by their bytes, so no number of long values is too much for them; a
//! single one is handled whole. Keys and sets stand in indexes, whose resident parts hold some of them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};
use drillcore_format::value_bytes::{longest, string_offsets, text_lens, value_bytes};

/// Bytes of a string, of binary, or of all items of a list with four for each.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of the strings of a key, or of the value that names a set.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The rows of which a value is too long, with the reason. `key` are the columns that become part of the key,
/// `set` is the one that names sets. O(rows) for each column of long strings.
pub fn too_long(
    schema: &Schema,
    key: &[usize],
    set: Option<usize>,
    columns: &[ArrayRef],
) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    if columns.iter().map(|values| value_bytes(values)).fold(0, usize::saturating_add)
        <= KEY_BYTES_MAX
    {
        return found;
    }
    let name = |column: &usize| format!("{:?}", schema.field(*column).name());
    for (column, values) in columns.iter().enumerate() {
        let is_set = set == Some(column);
        let limit = if is_set { KEY_BYTES_MAX } else { VALUE_BYTES_MAX };
        let what = if is_set { "the set name" } else { "the value" };
        found.extend(longer_than(&[values], limit).into_iter().map(|(row, bytes)| {
            let name = name(&column);
            (
                row,
                format!(
                    "column {name}: {what} has {bytes} bytes; the limit is {limit}. Shorten it"
                ),
            )
        }));
    }
    let of_key: Vec<&ArrayRef> = key.iter().map(|&column| &columns[column]).collect();
    found.extend(longer_than(&of_key, KEY_BYTES_MAX).into_iter().map(|(row, bytes)| {
        let names = key.iter().map(name).collect::<Vec<_>>().join(", ");
        (row, format!("key columns {names}: the strings of the key have {bytes} bytes; the limit is {KEY_BYTES_MAX}. Shorten them"))
    }));
    found
}

/// The first key, given as one array per key column, whose strings are too long, with their bytes.
pub fn first_long_key(key: &[ArrayRef]) -> Option<(usize, usize)> {
    longer_than(&key.iter().collect::<Vec<_>>(), KEY_BYTES_MAX).into_iter().next()
}

/// The rows whose values together have more bytes than `limit`, of columns of strings and lists.
fn longer_than(columns: &[&ArrayRef], limit: usize) -> Vec<(usize, usize)> {
    // What most batches end with: no row has more than the longest value of each column.
    if columns.iter().map(|values| longest_value(values)).fold(0, usize::saturating_add) <= limit {
        return Vec::new();
    }
    let lengths: Vec<Lengths> = columns.iter().filter_map(|values| Lengths::of(values)).collect();
    let rows = columns.first().map_or(0, |values| values.len());
    let bytes = |row: usize| lengths.iter().map(|lengths| lengths.at(row)).sum::<usize>();
    (0..rows).map(|row| (row, bytes(row))).filter(|(_, bytes)| *bytes > limit).collect()
}

/// The most bytes that a value has, or for lists all values together.
fn longest_value(values: &ArrayRef) -> usize {
    if let Some(by_code) = values.as_any_dictionary_opt() {
        return longest_value(by_code.values());
    }
    match (string_offsets(values), Lengths::of(values)) {
        (Some(offsets), _) => longest(offsets),
        (None, Some(Lengths::Lists(lists, items))) => in_lists(lists, items, 0, lists.len() - 1),
        (None, _) => 0,
    }
}

/// How long the values of a column are.
enum Lengths<'a> {
    Strings(&'a [i32]),
    /// Of texts that came as a dictionary.
    Codes(Vec<usize>),
    /// Where each list begins among the items, and each item among the bytes.
    Lists(&'a [i32], &'a [i32]),
}

impl Lengths<'_> {
    fn of(values: &ArrayRef) -> Option<Lengths<'_>> {
        match values.data_type() {
            DataType::List(_) => {
                let lists = values.as_list::<i32>();
                Some(Lengths::Lists(lists.value_offsets(), string_offsets(lists.values())?))
            }
            DataType::Dictionary(..) => text_lens(values).map(Lengths::Codes),
            _ => string_offsets(values).map(Lengths::Strings),
        }
    }

    fn at(&self, row: usize) -> usize {
        match self {
            Lengths::Strings(offsets) => span(offsets, row, row + 1),
            Lengths::Codes(lens) => lens[row],
            Lengths::Lists(lists, items) => in_lists(lists, items, row, row + 1),
        }
    }
}

fn span(offsets: &[i32], from: usize, to: usize) -> usize {
    (offsets[to] - offsets[from]) as usize
}

fn in_lists(lists: &[i32], items: &[i32], from: usize, to: usize) -> usize {
    let (from, to) = (lists[from] as usize, lists[to] as usize);
    span(items, from, to) + 4 * (to - from)
}
