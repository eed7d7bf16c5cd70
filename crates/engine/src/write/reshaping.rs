//! Renaming, dropping and widening columns of live tables: one edit of the manifest, then another shape. No row is touched.
//!
//! Rows do not know the names of their columns, only where each is stored. A dropped column leaves its place to no other, and
//! a column of a wider type gets a new one, so rows that are written with an earlier shape meanwhile are read right.

use arrow_schema::DataType;
use drillcore_format::ids::TableId;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::{Rollup, TableSchema};
use drillcore_format::type_name::type_name;
use drillcore_format::widening::is_wider;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
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
    reshape(core, table, interrupt, |schema| {
        let events = schema.rollup().map(|rollup| &rollup.events);
        let is_there = |columns: &arrow_schema::Schema| columns.column_with_name(new).is_some();
        let is_event_only = schema.columns.column_with_name(old).is_none();
        let named = match events.filter(|_| is_event_only).map(|events| events.index_of(old)) {
            Some(Ok(of_events)) => schema.with_event_name(of_events, new),
            _ => schema.with_name(column(schema, old)?, new),
        };
        if is_there(&schema.columns) || events.is_some_and(|events| is_there(events)) {
            let message = format!("column {new:?} already exists; use another name");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        Ok(named)
    })
}

/// Drops a column of a table.
pub fn drop_column(core: &Core, table: TableId, name: &str, interrupt: &Interrupt) -> Result<()> {
    reshape(core, table, interrupt, |schema| {
        let column = column(schema, name)?;
        if schema.rollup().is_some() && schema.key.contains(&column) {
            return Err(Error::invalid(format!(
                "{name:?} is a dimension and cannot be dropped, because rows that differ only in it would have to be folded \
                 again; create a rollup table without it and append the events there"
            )));
        }
        check_is_plain(schema, column, "be dropped")?;
        if schema.weights.contains(&column) {
            return Err(Error::invalid(format!(
                "{name:?} is a weight, which cannot be dropped; copy the rows to a table without it"
            )));
        }
        if schema.ttl.is_some_and(|ttl| ttl.column == column) {
            return Err(Error::invalid(format!(
                "{name:?} sets when rows expire; change or remove the time to live before you drop the column"
            )));
        }
        Ok(schema.without_column(column))
    })
}

/// Gives a column of a table a wider type.
pub fn widen_column(
    core: &Core,
    table: TableId,
    name: &str,
    data_type: &DataType,
    interrupt: &Interrupt,
) -> Result<()> {
    reshape(core, table, interrupt, |schema| {
        if let Some(rollup) = schema.rollup() {
            return widen_event(schema, rollup, name, data_type);
        }
        let column = column(schema, name)?;
        check_is_plain(schema, column, "get another type")?;
        check_is_wider(name, schema.columns.field(column).data_type(), data_type)?;
        Ok(schema.with_wider(column, data_type))
    })
}

/// Gives a column of a rollup table's events a wider type. No row changes: metrics are stored in the widest type.
fn widen_event(
    schema: &TableSchema,
    rollup: &Rollup,
    name: &str,
    data_type: &DataType,
) -> Result<TableSchema> {
    let Ok(event) = rollup.events.index_of(name) else {
        let column = column(schema, name)?;
        let (found, metric) = (
            schema.columns.field(column).data_type(),
            schema.metric(column).expect("others are events"),
        );
        let hint = match metric.input.map(|input| rollup.events.field(input).name()) {
            Some(input) => format!("; the column of the events is {input:?}"),
            None => String::new(),
        };
        return Err(Error::invalid(format!(
            "{name:?} is a metric of type {}, the widest that metrics have{hint}",
            type_name(found)
        )));
    };
    if schema.key.iter().any(|&column| schema.columns.field(column).name() == name) {
        return Err(Error::invalid(format!(
            "{name:?} is a dimension, and keys hold it in its type; make a rollup table with the wider type, and append \
             the events to that"
        )));
    }
    check_is_wider(name, rollup.events.field(event).data_type(), data_type)?;
    if rollup.is_input(event) && *data_type == DataType::UInt64 {
        return Err(Error::invalid(format!(
            "column {name:?} cannot be widened to uint64: metrics are made of it, and have 64 bits with a sign; uint32 \
             is the widest"
        )));
    }
    Ok(schema.with_wider_event(event, data_type))
}

fn check_is_wider(name: &str, from: &DataType, to: &DataType) -> Result<()> {
    if is_wider(from, to) {
        return Ok(());
    }
    let (from, to) = (type_name(from), type_name(to));
    Err(Error::invalid(format!(
        "column {name:?} of type {from} cannot be widened to {to}; integers get wider integers with or without a sign as \
         before, and float32 becomes float64"
    )))
}

fn column(schema: &TableSchema, name: &str) -> Result<usize> {
    schema.columns.index_of(name).map_err(|_| {
        if schema.batch_columns().column_with_name(name).is_some() {
            return Error::invalid(format!(
                "the table has no column {name:?}, only its events do; name a dimension or a metric"
            ));
        }
        let columns = schema.columns.fields().iter().map(|field| field.name().as_str());
        Error::unknown("column", name, columns)
    })
}

/// Refuses columns that rows are found or folded by.
fn check_is_plain(schema: &TableSchema, column: usize, what: &str) -> Result<()> {
    let name = schema.columns.field(column).name();
    let role = if schema.key.contains(&column) {
        "a key column"
    } else if schema.set_column() == Some(column) {
        "the set column"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "{name:?} is {role} and cannot {what}; copy the rows to a new table instead"
    )))
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
    state.changed();
    drop(state);
    drop(manifest);
    drop(exclusive);
    core.state_changed.notify_all();
    Ok(())
}
