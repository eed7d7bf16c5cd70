//! Changes of a table's columns: from one shape to the next, or why there is none.
//!
//! In a rollup table a column is a dimension or a metric, and beside it stand the columns of the events. So each change
//! asks which of these a column is. Nothing here stores a shape.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef};
use drillcore_format::schema::{MergePolicy, Rollup, TableSchema};
use drillcore_format::type_name::type_name;
use drillcore_format::widening::is_wider;

use crate::error::{Error, ErrorKind, Result};
use crate::schema::columns::{check_columns, stored_type, widest, with_dimension};

/// A table's shape with one more nullable column, and that column: in a rollup table a dimension.
///
/// # Errors
/// `AlreadyExists` if there is a column of that name, `InvalidArgument` for a type that is not stored, or
/// in a rollup table has no order.
pub fn with_column(
    table: &str,
    schema: &TableSchema,
    name: &str,
    data_type: &DataType,
) -> Result<(TableSchema, FieldRef)> {
    if schema.columns.column_with_name(name).is_some() {
        let message = format!("table {table:?} already has a column {name:?}");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    if let MergePolicy::Rollup(_) = schema.merge {
        return with_dimension(schema, name, &stored_type(data_type));
    }
    let column: FieldRef = Arc::new(Field::new(name, stored_type(data_type), true));
    let wider = schema.with_column(column.clone());
    check_columns(wider.columns.fields())?;
    Ok((wider, column))
}

/// A rollup table's shape with the columns of a batch that it lacks, and these: none unless it discovers
/// dimensions. Columns of nothing but nulls say nothing.
///
/// # Errors
/// `InvalidArgument` for a column whose name a metric has, or whose type is no dimension's.
pub fn with_discovered(
    schema: &TableSchema,
    batch: &RecordBatch,
) -> Result<(TableSchema, Vec<FieldRef>)> {
    let (mut wider, mut columns) = (schema.clone(), Vec::new());
    let MergePolicy::Rollup(Rollup { events, discovers: true, .. }) = &schema.merge else {
        return Ok((wider, columns));
    };
    for (field, values) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let is_known = events.column_with_name(field.name()).is_some();
        if is_known || values.logical_null_count() == values.len() {
            continue;
        }
        let column;
        (wider, column) = with_dimension(&wider, field.name(), &widest(values.data_type()))?;
        columns.push(column);
    }
    Ok((wider, columns))
}

/// A table's shape with another name of a column, or of a column that only its events have.
///
/// # Errors
/// `NotFound` if there is no column called `old`, `AlreadyExists` if one is called `new`.
pub fn with_renamed(schema: &TableSchema, old: &str, new: &str) -> Result<TableSchema> {
    let events = schema.rollup().map(|rollup| &rollup.events);
    let is_event_only = schema.columns.column_with_name(old).is_none();
    let of_events = events.filter(|_| is_event_only).and_then(|events| events.index_of(old).ok());
    let is_there = |columns: &arrow_schema::Schema| columns.column_with_name(new).is_some();
    // A metric may have the name of what it is made of.
    let (named, is_taken) = match (of_events, events) {
        (Some(of_events), Some(events)) => {
            (schema.with_event_name(of_events, new), is_there(events))
        }
        (_, events) => {
            let column = column(schema, old)?;
            let is_in_events =
                schema.key.contains(&column) && events.is_some_and(|events| is_there(events));
            (schema.with_name(column, new), is_there(&schema.columns) || is_in_events)
        }
    };
    if is_taken {
        let message = format!("column {new:?} already exists; use another name");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    Ok(named)
}

/// A table's shape without a column.
///
/// # Errors
/// `NotFound` if there is no such column, `InvalidArgument` for one that rows are found, folded, drawn or expired by.
pub fn without_column(schema: &TableSchema, name: &str) -> Result<TableSchema> {
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
}

/// A table's shape with a wider type of a column; in a rollup table of a column of its events.
///
/// # Errors
/// `NotFound` if there is no such column, `InvalidArgument` for one that rows are found or folded by, and for a type
/// that does not hold all values of the one before.
pub fn with_wider(schema: &TableSchema, name: &str, data_type: &DataType) -> Result<TableSchema> {
    if let Some(rollup) = schema.rollup() {
        return widen_event(schema, rollup, name, data_type);
    }
    let column = column(schema, name)?;
    check_is_plain(schema, column, "get another type")?;
    check_is_wider(name, schema.columns.field(column).data_type(), data_type)?;
    Ok(schema.with_wider(column, data_type))
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
