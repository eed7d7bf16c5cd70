//! Renaming, dropping and widening columns of live tables: one edit of the manifest, then another shape. No row is touched.
//!
//! Rows do not know the names of their columns, only where each is stored. A dropped column leaves its place to no other, and
//! a column of a wider type gets a new one, so rows that are written with an earlier shape meanwhile are read right.

use arrow_schema::DataType;
use drillcore_format::ids::TableId;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::TableSchema;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::policy::column_changes::{with_renamed, with_wider, without_column};
use crate::schema::name::check_name;
use crate::state::core::Core;
use crate::write::commit::table_dropped;
use crate::write::erase::Exclusive;

/// Gives a column of a table another name.
pub fn rename_column(
    core: &Core,
    table: TableId,
    old: &str,
    new: &str,
    interrupt: &Interrupt,
) -> Result<()> {
    check_name("column", new)?;
    reshape(core, table, interrupt, |schema| with_renamed(schema, old, new))
}

/// Drops a column of a table.
pub fn drop_column(core: &Core, table: TableId, name: &str, interrupt: &Interrupt) -> Result<()> {
    reshape(core, table, interrupt, |schema| without_column(schema, name))
}

/// Gives a column of a table a wider type.
pub fn widen_column(
    core: &Core,
    table: TableId,
    name: &str,
    data_type: &DataType,
    interrupt: &Interrupt,
) -> Result<()> {
    reshape(core, table, interrupt, |schema| with_wider(schema, name, data_type))
}

/// Changes a table's shape; when this returns, the change outlasts a power cut. Writers of the table wait meanwhile, for
/// about one sync of the disk; updates and deletes that are under way end before.
fn reshape(
    core: &Core,
    table: TableId,
    interrupt: &Interrupt,
    change: impl Fn(&TableSchema) -> Result<TableSchema>,
) -> Result<()> {
    let _underway = core.begin()?;
    let exclusive = Exclusive::take(core, table, interrupt)?;
    {
        // Erasures are looked for by the shape that they were made with, also in pieces that come later.
        let mut state = core.state();
        loop {
            state.check_writable()?;
            let visible = core.visible();
            let entry = state.tables.get_mut(&table).ok_or_else(table_dropped)?;
            entry.settle(visible);
            let to = change(&entry.schema)?;
            if to.stored == entry.schema.stored || entry.erasures.is_empty() {
                break;
            }
            // Erasures are remembered as long as a compaction has runs that it took before them, also while it is paused.
            let given_up = state.give_up_paused(table, |_| true);
            if !given_up.is_empty() {
                drop(state);
                drop(given_up);
                state = core.state();
                continue;
            }
            state = core.wait_or_stop(state, interrupt)?;
        }
    }
    let mut manifest = core.manifest();
    let schema = {
        let state = core.state();
        state.check_writable()?;
        let schema = change(&state.tables.get(&table).ok_or_else(table_dropped)?.schema)?;
        schema.check().map_err(Error::invalid)?;
        schema
    };
    let edit = Edit::Reshape { table, schema: schema.clone() };
    manifest.commit(&[edit]).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let entry = state.tables.get_mut(&table);
    entry.expect("tables are dropped under the manifest's lock").set_schema(schema);
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    drop(manifest);
    drop(exclusive);
    core.wake_all();
    Ok(())
}
