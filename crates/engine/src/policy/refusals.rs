//! What a table's merge policy refuses, and what to do instead.

use drillcore_format::rows::Layout;
use drillcore_format::schema::MergePolicy;

use crate::error::{Error, Result};
use crate::policy::table_policy::TablePolicy;

/// Refuses deletes by key of the table `name`, unless the newest row of a key stays.
pub fn check_deletes_by_key(name: &str, layout: &Layout) -> Result<()> {
    if TablePolicy::of(layout).deletes() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "table {name:?} is not an upsert table, so rows cannot be deleted by key; delete by a key range, sets or a \
         condition"
    )))
}

/// Refuses updates of the table `name`, unless the newest row of a key stays.
pub fn check_updates(name: &str, layout: &Layout) -> Result<()> {
    let (what, instead) = match layout.schema().merge {
        MergePolicy::Upsert { .. } => return Ok(()),
        MergePolicy::Rollup(_) => ("a rollup table", "append events that correct the figures"),
        MergePolicy::Append => ("an append table", "delete rows and append new ones"),
    };
    Err(Error::invalid(format!(
        "table {name:?} is {what}, whose rows cannot be updated; {instead}, or use an upsert table"
    )))
}

/// Refuses weights where rows are folded, and says what to do `instead`.
pub fn check_has_weights(layout: &Layout, instead: &str) -> Result<()> {
    if !TablePolicy::of(layout).combines() {
        return Ok(());
    }
    Err(Error::invalid(format!("a rollup table has no weight columns; {instead}")))
}

/// Refuses a condition on metrics for a delete: they belong to whole rows, and no stored row has them.
pub fn check_tests_stored_rows(
    layout: &Layout,
    columns: impl IntoIterator<Item = usize>,
) -> Result<()> {
    let policy = TablePolicy::of(layout);
    let Some(metric) = columns.into_iter().find(|&column| !policy.stores_as_shown(column)) else {
        return Ok(());
    };
    let name = layout.schema().columns.field(metric).name();
    Err(Error::invalid(format!(
        "{name:?} is a metric: rows of a rollup table are deleted by dimensions and time only; leave {name:?} out of \
         the condition"
    )))
}
