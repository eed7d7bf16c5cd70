//! From text on the command line to values of the table's types.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use drillcore::{Between, Closed, Interrupt, TableSchema, type_name};

use crate::arguments::shared_options::Selection;
use crate::files::exact_text::{hint, holds};
use crate::process::fault::Fault;

/// The rows that the options select.
pub fn selection(
    schema: &TableSchema,
    options: &Selection,
    interrupt: &Interrupt,
) -> Result<drillcore::Selection, Fault> {
    let end =
        |text: &Option<String>| text.as_ref().map(|text| key_prefix(schema, text)).transpose();
    let between = match (&options.from, &options.to) {
        (None, None) => None,
        (low, high) => Some(Between { low: end(low)?, high: end(high)?, closed: Closed::Both }),
    };
    let sets = match options.set.is_empty() && !options.null_set {
        true => None,
        false => {
            let instead = "leave --set and --null-set out, or use --where";
            Some(sets(schema, &options.set, options.null_set, instead)?)
        }
    };
    let condition = options.condition.as_ref();
    let read = |text| drillcore_sql::predicate_interruptibly(schema, text, interrupt);
    let predicate = condition.map(|text: &String| read(text)).transpose()?;
    Ok(drillcore::Selection { between, sets, predicate, ..Default::default() })
}

/// Sets by name, and if wanted the rows without a value; `instead` is what to do where there are no sets.
pub fn sets(
    schema: &TableSchema,
    names: &[String],
    with_null: bool,
    instead: &str,
) -> Result<ArrayRef, Fault> {
    let column = schema.set_column();
    let column = column.ok_or_else(|| {
        Fault::wrong_call(format!("the table has no set column, so it has no sets; {instead}"))
    })?;
    let field = schema.columns.field(column);
    let mut names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    names.extend(with_null.then_some(None));
    parse(StringArray::from(names), field.data_type(), field.name())
}

/// A whole key, one value per key column; the engine knows whether some may be left off.
pub fn key(schema: &TableSchema, values: &[String]) -> Result<Vec<ArrayRef>, Fault> {
    key_values(schema, values.iter().map(String::as_str))
}

fn key_prefix(schema: &TableSchema, text: &str) -> Result<Vec<ArrayRef>, Fault> {
    key_values(schema, text.split(','))
}

/// The values of the first key columns.
fn key_values<'a>(
    schema: &TableSchema,
    values: impl Iterator<Item = &'a str> + Clone,
) -> Result<Vec<ArrayRef>, Fault> {
    if values.clone().count() > schema.key.len() {
        let names: Vec<&str> =
            schema.key.iter().map(|&column| schema.columns.field(column).name().as_str()).collect();
        return Err(Fault::wrong_call(format!(
            "a key has {} {} ({}), but {} were given; give at most one value per key column",
            names.len(),
            if names.len() == 1 { "value" } else { "values" },
            names.join(", "),
            values.count()
        )));
    }
    let of_column = |(value, &column): (&str, &usize)| {
        let field = schema.columns.field(column);
        parse(StringArray::from(vec![value]), field.data_type(), field.name())
    };
    values.zip(&schema.key).map(of_column).collect()
}

fn parse(text: StringArray, to: &DataType, column: &str) -> Result<ArrayRef, Fault> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if let Some(unfit) = text.iter().flatten().find(|text| !holds(to, text)) {
        let hint = hint(to, unfit);
        return Err(Fault::wrong_call(format!(
            "column {column:?} stores {}, which cannot hold {unfit:?}{hint}",
            type_name(to)
        )));
    }
    let text: ArrayRef = Arc::new(text);
    cast_with_options(&text, to, &strict).map_err(|_| {
        let values = (0..text.len())
            .filter_map(|row| arrow_cast::display::array_value_to_string(&text, row).ok());
        let values: Vec<String> = values.map(|value| format!("{value:?}")).collect();
        Fault::wrong_call(format!(
            "{} is not a valid {}, the type of column {column:?}",
            values.join(", "),
            type_name(to)
        ))
    })
}
