//! The columns of a table: what each is stored as, and which are refused.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};
use drillcore_format::schema::{TableSchema, is_key_type, is_supported, list_of_strings};
use drillcore_format::type_name::type_name;

use crate::error::{Error, Result};
use crate::schema::name::check_name;

/// What a column of a type is stored as: how values lie in memory does not matter.
pub fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
            if stored_type(item.data_type()) == DataType::Utf8 =>
        {
            list_of_strings()
        }
        other => other.clone(),
    }
}

/// What a discovered dimension of a type is stored as: integers and floats in 64 bits, so that later
/// batches fit, which may come with wider ones.
pub fn widest(data_type: &DataType) -> DataType {
    match stored_type(data_type) {
        DataType::UInt64 => DataType::UInt64,
        integer if integer.is_integer() => DataType::Int64,
        float if float.is_floating() => DataType::Float64,
        other => other,
    }
}

/// Refuses columns that have one name, or a type or a name that no table has.
pub fn check_columns(fields: &Fields) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        check_name("column", field.name())?;
        if !seen.insert(field.name()) {
            return Err(Error::invalid(format!(
                "column {:?} appears twice; rename one",
                field.name()
            )));
        }
        if !is_supported(field.data_type()) {
            let (column, found) = (field.name(), type_name(field.data_type()));
            return Err(Error::invalid(format!(
                "column {column:?} has type {found}, which is not supported; use an integer, a float, \
                 decimal128 with a scale of 0 or more, bool, string, binary, date32, a timestamp or a list of strings"
            )));
        }
    }
    Ok(())
}

/// Refuses a role for a column whose values have no order.
pub fn check_is_scalar(role: &str, field: &Field) -> Result<()> {
    if is_key_type(field.data_type()) {
        return Ok(());
    }
    let (column, found) = (field.name(), type_name(field.data_type()));
    Err(Error::invalid(format!(
        "{role} {column:?} has type {found}; use binary and list columns as values only"
    )))
}

/// A rollup table's shape with one more dimension, and its column.
pub fn with_dimension(
    schema: &TableSchema,
    name: &str,
    data_type: &DataType,
) -> Result<(TableSchema, FieldRef)> {
    let rollup = schema.rollup().expect("only a rollup table has dimensions");
    if schema.columns.column_with_name(name).is_some() {
        return Err(Error::invalid(format!(
            "dimension {name:?} has the name of a metric; rename it"
        )));
    }
    if let Some((index, of_events)) = rollup.events.column_with_name(name) {
        if rollup.metrics.iter().any(|metric| metric.input == Some(index)) {
            let message = format!(
                "column {name:?} is read by a metric, so it cannot be a dimension; use another name"
            );
            return Err(Error::invalid(message));
        }
        if of_events.data_type() != data_type {
            let (known, data_type) = (type_name(of_events.data_type()), type_name(data_type));
            let message = format!(
                "column {name:?} has type {known} in appended batches, not {data_type}; use {known}"
            );
            return Err(Error::invalid(message));
        }
    }
    let column: FieldRef = Arc::new(Field::new(name, data_type.clone(), true));
    let wider = schema.with_column(column.clone());
    check_columns(wider.columns.fields())?;
    check_is_scalar("dimension", &column)?;
    Ok((wider, column))
}
