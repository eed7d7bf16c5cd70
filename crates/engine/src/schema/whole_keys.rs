//! Keys that a caller gives, as they are stored.

use arrow_array::{Array, ArrayRef};
use drillcore_format::key::{Keys, encode_keys};
use drillcore_format::schema::TableSchema;

use crate::error::{Error, Result};
use crate::schema::conform::cast;

/// Encodes whole keys, given as one array per key column.
pub fn encode_whole_keys(schema: &TableSchema, keys: &[ArrayRef]) -> Result<Keys> {
    let least = schema.key_columns_min();
    if keys.len() < least || keys.len() > schema.key.len() {
        let names: Vec<&str> =
            schema.key.iter().map(|&column| schema.columns.field(column).name().as_str()).collect();
        let count = match least == names.len() {
            true => least.to_string(),
            false => format!("{least} to {}", names.len()),
        };
        let given = match keys.len() {
            1 => "1 was".to_string(),
            given => format!("{given} were"),
        };
        let values = if names.len() == 1 { "value" } else { "values" };
        let message = format!(
            "a key needs {count} {values} ({}), but {given} given; give one value per key column",
            names.join(", "),
        );
        return Err(Error::invalid(message));
    }
    let mut columns = Vec::with_capacity(keys.len());
    for (values, &column) in keys.iter().zip(&schema.key) {
        if values.len() != keys[0].len() {
            return Err(Error::invalid(
                "the key columns have different lengths; give each key column the same number of values",
            ));
        }
        let field = schema.columns.field(column);
        columns.push(cast(values, field.data_type(), field.name())?);
    }
    Ok(encode_keys(&columns))
}
