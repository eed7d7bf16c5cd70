//! A table's shape: its columns, sort key, set column and merge policy.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::cursor::{Cursor, put_bytes, put_varint};
use crate::error::Result;

/// What rows with equal keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergePolicy {
    /// All are kept, in commit order.
    Append,
    /// The newest wins; rows can be deleted.
    Upsert,
}

/// A table's shape. Columns are only ever added at the end, so a column's index is its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// All columns in the order the user sees.
    pub columns: SchemaRef,
    /// Indexes of the sort key's columns, most significant first.
    pub key: Vec<usize>,
    /// Index of the column whose values name the sets.
    pub set: Option<usize>,
    pub merge: MergePolicy,
    /// Indexes of the columns that rows can be drawn by, none of them in the key.
    pub weights: Vec<usize>,
}

/// Whether a column of this type can be stored; keys and values accept the same types.
pub fn is_supported(data_type: &DataType) -> bool {
    type_tag(data_type).is_some()
}

impl TableSchema {
    /// Appends the encoding drawn in `docs/format.md`, section "Table schema".
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.columns.fields().len() as u64);
        for field in self.columns.fields() {
            put_bytes(out, field.name().as_bytes());
            out.push(type_tag(field.data_type()).expect("create_table refuses other types"));
            out.push(u8::from(field.is_nullable()));
            if let DataType::Timestamp(_, zone) = field.data_type() {
                put_bytes(out, zone.as_deref().unwrap_or("").as_bytes());
            }
        }
        put_varint(out, self.key.len() as u64);
        for &column in &self.key {
            put_varint(out, column as u64);
        }
        put_varint(out, self.set.map_or(0, |column| column as u64 + 1));
        out.push(match self.merge {
            MergePolicy::Append => 0,
            MergePolicy::Upsert => 1,
        });
        put_varint(out, self.weights.len() as u64);
        for &column in &self.weights {
            put_varint(out, column as u64);
        }
    }

    /// Reads what [`TableSchema::encode`] wrote.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<TableSchema> {
        let count = cursor.varint()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let name = cursor.str()?.to_string();
            let tag = cursor.u8()?;
            let nullable = cursor.u8()? != 0;
            let mut data_type = type_of_tag(tag)
                .ok_or_else(|| cursor.error(format!("column {name:?} has unknown type {tag}")))?;
            if let DataType::Timestamp(_, zone) = &mut data_type {
                let name = cursor.str()?;
                *zone = (!name.is_empty()).then(|| Arc::from(name));
            }
            fields.push(Field::new(name, data_type, nullable));
        }
        let width = fields.len();
        let column = |cursor: &mut Cursor<'_>, index: u64| match usize::try_from(index) {
            Ok(index) if index < width => Ok(index),
            _ => Err(cursor.error(format!("column {index} of {width}"))),
        };
        let mut key = Vec::new();
        for _ in 0..cursor.varint()? {
            let index = cursor.varint()?;
            key.push(column(cursor, index)?);
        }
        let set = match cursor.varint()? {
            0 => None,
            index => Some(column(cursor, index - 1)?),
        };
        let merge = match cursor.u8()? {
            0 => MergePolicy::Append,
            1 => MergePolicy::Upsert,
            other => return Err(cursor.error(format!("unknown merge policy {other}"))),
        };
        let mut weights = Vec::new();
        for _ in 0..cursor.varint()? {
            let index = cursor.varint()?;
            weights.push(column(cursor, index)?);
        }
        Ok(TableSchema { columns: Arc::new(Schema::new(fields)), key, set, merge, weights })
    }
}

/// Type tags, fixed for good. Timestamps are followed by their zone, empty for none.
const TYPE_TAGS: [(u8, DataType); 17] = [
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
];

fn type_tag(data_type: &DataType) -> Option<u8> {
    let plain = match data_type {
        DataType::Timestamp(unit, _) => &DataType::Timestamp(*unit, None),
        other => other,
    };
    TYPE_TAGS.iter().find(|(_, known)| known == plain).map(|(tag, _)| *tag)
}

fn type_of_tag(tag: u8) -> Option<DataType> {
    TYPE_TAGS.iter().find(|(known, _)| *known == tag).map(|(_, data_type)| data_type.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reads_back() {
        let mut fields: Vec<Field> = TYPE_TAGS
            .iter()
            .map(|(tag, data_type)| Field::new(format!("c{tag}"), data_type.clone(), tag % 2 == 0))
            .collect();
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("America/New_York".into()));
        fields.push(Field::new("zoned", zoned, true));
        let schema = TableSchema {
            columns: Arc::new(Schema::new(fields)),
            key: vec![17, 4],
            set: Some(0),
            merge: MergePolicy::Append,
            weights: vec![3, 9],
        };
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        let mut cursor = Cursor::new(&bytes, "schema");
        assert_eq!(TableSchema::decode(&mut cursor).unwrap(), schema);
        cursor.finish().unwrap();
    }
}
