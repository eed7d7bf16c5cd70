//! Whether the parts of a segment fit together, each of which is sound by itself.
//!
//! What one part says of another is used as an index, a length or something to take off. So it is compared when the
//! other one is read: the resident parts at opening, an index page when it is loaded. Rows beside their index page are
//! compared where a block is viewed, and all the rest by `verify`.

use std::ops::Range;

use drillcore_format::index_page::{IndexPage, Summary};
use drillcore_format::rows::Layout;
use drillcore_format::segment_footer::SegmentFooter;

/// What is wrong with the resident parts, beside each other and the table. O(weight columns).
pub fn check_resident(
    footer: &SegmentFooter,
    summary: &Summary,
    layout: &Layout,
) -> Result<(), String> {
    let SegmentFooter { rows, index_pages, columns, set_column, .. } = *footer;
    let schema = layout.schema();
    if summary.len() as u64 != index_pages {
        return Err(format!("{} of {index_pages} index pages are in the summary", summary.len()));
    }
    if summary.first_ordinal(summary.len() - 1) >= rows {
        return Err(format!("the last index page begins after the {rows} rows"));
    }
    if columns as usize > schema.stored_count() {
        let known = schema.stored_count();
        return Err(format!("{columns} columns, but the table has {known}"));
    }
    let expected = schema.set_column().map(|column| schema.stored.number(column));
    if set_column.map(|column| column as usize) != expected {
        return Err(format!("sets by column {set_column:?}, but the table's are by {expected:?}"));
    }
    let (found, expected) = (summary.weights(), layout.weight_count());
    if found != expected {
        return Err(format!("{found} weight columns, but the table has {expected}"));
    }
    // A row's weight has 64 bits, so those of all pieces together fit 128.
    let largest = u128::from(rows) * u128::from(u64::MAX);
    match (0..found).find(|weight| summary.weight_before(*weight, summary.len()) > largest) {
        None => Ok(()),
        Some(weight) => Err(format!("the weights {weight} of {rows} rows do not fit 64 bits each")),
    }
}

/// What is wrong with an index page, beside what the summary says of it and the ordinals that it should have, in a
/// segment of a given length. O(weight columns).
pub fn check_index_page(
    page: &IndexPage,
    number: usize,
    summary: &Summary,
    ordinals: Range<u64>,
    bytes: u64,
) -> Result<(), String> {
    let found = page.first_ordinal()..page.first_ordinal() + page.rows();
    if found != ordinals {
        return Err(format!("it has the rows {found:?}, not {ordinals:?}"));
    }
    if !page.begins_with(summary.separator(number)) {
        return Err("its first separator is not the one in the summary".into());
    }
    if page.blocks_end() > bytes {
        return Err(format!("its blocks end at byte {} of {bytes}", page.blocks_end()));
    }
    if page.weights() != summary.weights() {
        return Err(format!("{} weight columns", page.weights()));
    }
    for weight in 0..page.weights() {
        let before = summary.weight_before(weight, number);
        let expected = summary.weight_before(weight, number + 1) - before;
        let found = page.weight_before(weight, page.blocks());
        if found != expected {
            return Err(format!("its weights {weight} sum to {found}, not {expected}"));
        }
    }
    Ok(())
}
