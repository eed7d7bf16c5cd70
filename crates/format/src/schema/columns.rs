//! Columns: the types that they may have, and their bytes.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, validate_decimal_precision_and_scale};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::Result;

/// Whether a column of this type can be stored.
pub fn is_supported(data_type: &DataType) -> bool {
    let is_sound = match data_type {
        DataType::Decimal128(precision, scale) => {
            // Arrow's own arithmetic refuses scales below 0.
            *scale >= 0
                && validate_decimal_precision_and_scale::<Decimal128Type>(*precision, *scale)
                    .is_ok()
        }
        _ => true,
    };
    is_sound && type_tag(data_type).is_some()
}

/// Whether a column of this type can be in the key or name the sets: its values have an order.
pub fn is_key_type(data_type: &DataType) -> bool {
    is_supported(data_type) && !matches!(data_type, DataType::Binary | DataType::List(_))
}

/// The type of a column of lists of strings.
pub fn list_of_strings() -> DataType {
    DataType::List(list_item())
}

/// A list's items: strings and nulls.
pub(crate) fn list_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Utf8, true))
}

/// Appends the number of columns and each of them.
pub(crate) fn put_columns(columns: &Schema, out: &mut Vec<u8>) {
    put_varint(out, columns.fields().len() as u64);
    columns.fields().iter().for_each(|column| put_column(column, out));
}

/// Appends one column, as drawn in "Table schema".
pub(crate) fn put_column(column: &Field, out: &mut Vec<u8>) {
    put_bytes(out, column.name().as_bytes());
    out.push(type_tag(column.data_type()).expect("the engine refuses other types"));
    out.push(u8::from(column.is_nullable()));
    match column.data_type() {
        DataType::Timestamp(_, zone) => {
            put_bytes(out, zone.as_deref().unwrap_or("").as_bytes());
        }
        DataType::Decimal128(precision, scale) => {
            out.extend_from_slice(&[*precision, *scale as u8]);
        }
        _ => {}
    }
}

/// Reads what [`put_columns`] wrote.
pub(crate) fn read_columns(cursor: &mut Cursor<'_>) -> Result<SchemaRef> {
    let mut fields = Vec::new();
    for _ in 0..cursor.varint()? {
        fields.push(read_column(cursor)?);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Reads what [`put_column`] wrote.
pub(crate) fn read_column(cursor: &mut Cursor<'_>) -> Result<Field> {
    let name = cursor.str()?.to_string();
    let tag = cursor.u8()?;
    let nullable = cursor.u8()? != 0;
    let mut data_type = type_of_tag(tag)
        .ok_or_else(|| cursor.error(format!("column {name:?} has unknown type {tag}")))?;
    match &mut data_type {
        DataType::Timestamp(_, zone) => {
            let name = cursor.str()?;
            *zone = (!name.is_empty()).then(|| Arc::from(name));
        }
        DataType::Decimal128(precision, scale) => {
            (*precision, *scale) = (cursor.u8()?, cursor.u8()? as i8);
        }
        _ => {}
    }
    Ok(Field::new(name, data_type, nullable))
}

/// Type tags, fixed for good. Timestamps are followed by their zone, empty for none; decimals by
/// precision and scale.
pub(crate) const TYPE_TAGS: [(u8, DataType); 19] = [
    (1, DataType::Boolean),
    (2, DataType::Int8),
    (3, DataType::Int16),
    (4, DataType::Int32),
    (5, DataType::Int64),
    (6, DataType::UInt8),
    (7, DataType::UInt16),
    (8, DataType::UInt32),
    (9, DataType::UInt64),
    (10, DataType::Float32),
    (11, DataType::Float64),
    (12, DataType::Utf8),
    (13, DataType::Date32),
    (14, DataType::Timestamp(TimeUnit::Second, None)),
    (15, DataType::Timestamp(TimeUnit::Millisecond, None)),
    (16, DataType::Timestamp(TimeUnit::Microsecond, None)),
    (17, DataType::Timestamp(TimeUnit::Nanosecond, None)),
    (18, DataType::Decimal128(0, 0)),
    (19, DataType::Binary),
];
/// The tag of [`list_of_strings`].
const LIST_OF_STRINGS: u8 = 20;

fn type_tag(data_type: &DataType) -> Option<u8> {
    if *data_type == list_of_strings() {
        return Some(LIST_OF_STRINGS);
    }
    let plain = match data_type {
        DataType::Timestamp(unit, _) => &DataType::Timestamp(*unit, None),
        DataType::Decimal128(_, _) => &DataType::Decimal128(0, 0),
        other => other,
    };
    TYPE_TAGS.iter().find(|(_, known)| known == plain).map(|(tag, _)| *tag)
}

fn type_of_tag(tag: u8) -> Option<DataType> {
    if tag == LIST_OF_STRINGS {
        return Some(list_of_strings());
    }
    TYPE_TAGS.iter().find(|(known, _)| *known == tag).map(|(_, data_type)| data_type.clone())
}
