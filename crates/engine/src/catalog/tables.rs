//! Making and dropping tables: one edit of the manifest each.

use std::sync::Arc;

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::TableSchema;

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::jobs;
use crate::schema::difference::difference;
use crate::schema::table_spec::TableSpec;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::table_state::TableState;

/// What a handle on a table is made of.
pub struct Known {
    pub id: TableId,
    pub name: Arc<str>,
    pub schema: Arc<TableSchema>,
}

impl Known {
    fn of(id: TableId, table: &TableState) -> Known {
        Known { id, name: table.name.clone(), schema: table.schema.clone() }
    }
}

/// A table by name, if there is one.
pub fn find(state: &State, name: &str) -> Option<Known> {
    let mut tables = state.tables.iter();
    let (id, table) = tables.find(|(_, table)| &*table.name == name)?;
    Some(Known::of(*id, table))
}

/// Makes a table, or finds the one that is there if the spec takes it.
pub fn create(core: &Core, name: &str, spec: &TableSpec) -> Result<Known> {
    let schema = spec.schema(name)?;
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    let id = {
        let state = core.state();
        state.check_writable()?;
        if let Some(known) = find(&state, name) {
            if spec.exist_ok && known.schema.widens(&schema) {
                return Ok(known);
            }
            let hint = if spec.exist_ok {
                let differs = difference(&TableSpec::of(&known.schema), &TableSpec::of(&schema));
                format!(" with another shape: {differs}; use that shape, or drop the table first")
            } else {
                "; open it, or set exist_ok".to_string()
            };
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("table {name:?} already exists{hint}"),
            ));
        }
        state.next_table
    };
    let create = Edit::CreateTable { table: id, name: name.to_string(), schema: schema.clone() };
    manifest
        .commit(&[create, Edit::NextTable(TableId(id.0 + 1))])
        .map_err(Error::from)
        .inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let table = TableState::new(name, schema, Lsn(0));
    let known = Known::of(id, &table);
    state.tables.insert(id, table);
    state.next_table = TableId(id.0 + 1);
    state.changed();
    Ok(known)
}

/// Removes a table and, once no snapshot reads them, its files.
pub fn drop_table(core: &Core, id: TableId, name: &str) -> Result<()> {
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    {
        let state = core.state();
        state.check_writable()?;
        if !state.tables.contains_key(&id) {
            return Err(Error::new(ErrorKind::NotFound, format!("table {name:?} was dropped")));
        }
    }
    manifest
        .commit(&[Edit::DropTable { table: id }])
        .map_err(Error::from)
        .inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let table = state.tables.remove(&id).expect("tables are dropped under the manifest's lock");
    // Runs that a job works on are given back by the job.
    let free = table.runs.iter().filter(|slot| !slot.taken);
    state.buffered_bytes -= free.map(|slot| slot.piece.bytes()).sum::<u64>();
    state.changed();
    core.state_changed.notify_all();
    drop(state);
    let segments = table.segments.iter().map(|slot| &slot.piece);
    jobs::remove_unless_pinned(core, segments, manifest.version());
    drop(manifest);
    // Dropping the last handle of a segment removes its file, which takes long.
    drop(table);
    Ok(())
}
