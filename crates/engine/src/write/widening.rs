//! Columns added to live tables: one edit of the manifest, then a wider schema. No row is touched.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use drillcore_format::ids::TableId;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::TableSchema;

use crate::error::{Error, Result};
use crate::policy::column_changes::with_column;
use crate::state::core::Core;

/// A table's next shape.
pub struct Widening {
    pub table: TableId,
    /// The shape that it was made from.
    pub from: Arc<TableSchema>,
    pub to: TableSchema,
    /// What `to` has and `from` has not, in order.
    pub columns: Vec<FieldRef>,
}

/// Adds a column to a table, called `table` in errors.
pub fn add_column(
    core: &Core,
    id: TableId,
    table: &str,
    name: &str,
    data_type: &DataType,
) -> Result<()> {
    let _underway = core.begin()?;
    loop {
        let known = core.open_state()?.tables.get(&id).map(|entry| entry.schema.clone());
        let from = known.ok_or_else(|| Error::dropped(&format!("table {table:?}")))?;
        let (to, column) = with_column(table, &from, name, data_type)?;
        if widen(core, &[Widening { table: id, from, to, columns: vec![column] }])? {
            return Ok(());
        }
    }
}

/// Makes tables wider, all or none; when this returns, the columns outlast a power cut. Says no, and does
/// nothing, if the shape of one has changed since.
///
/// Rows with the new columns are published after this, so the log never has them without the edits.
///
/// # Errors
/// `NotFound` if a table was dropped, `ReadOnly`, `Closed`, `Io`.
pub fn widen(core: &Core, widenings: &[Widening]) -> Result<bool> {
    if widenings.is_empty() {
        return Ok(true);
    }
    let mut manifest = core.manifest();
    {
        let state = core.state();
        state.check_writable()?;
        for Widening { table, from, .. } in widenings {
            match state.tables.get(table) {
                None => return Err(Error::dropped("the table")),
                Some(table) if table.schema != *from => return Ok(false),
                Some(_) => {}
            }
        }
    }
    let edit = |table, column: &FieldRef| Edit::AddColumn { table, column: column.clone() };
    let of_table = |widening: &Widening| {
        let edits = widening.columns.iter().map(|column| edit(widening.table, column));
        edits.collect::<Vec<_>>()
    };
    let edits: Vec<Edit> = widenings.iter().flat_map(of_table).collect();
    manifest.commit(&edits).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    for Widening { table, to, .. } in widenings {
        let table = state.tables.get_mut(table);
        table.expect("tables are dropped under the manifest's lock").set_schema(to.clone());
    }
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    Ok(true)
}
