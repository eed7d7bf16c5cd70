//! Names of the columns of a result: no two are alike, so that any program can hold it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};

/// The columns, of which a second `id` is called `id_1`, and so on; `None` if no two have one name.
///
/// A name that another column has is passed over.
pub fn distinct_names(schema: &Schema) -> Option<SchemaRef> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mut taken: HashSet<String> = names.map(str::to_string).collect();
    if taken.len() == schema.fields().len() {
        return None;
    }
    let mut occurrences: HashMap<&str, usize> = HashMap::new();
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        let number = match occurrences.get_mut(name.as_str()) {
            Some(number) => number,
            None => {
                occurrences.insert(name, 0);
                fields.push(field.clone());
                continue;
            }
        };
        let distinct = loop {
            *number += 1;
            let distinct = format!("{name}_{number}");
            if taken.insert(distinct.clone()) {
                break distinct;
            }
        };
        fields.push(Arc::new(field.as_ref().clone().with_name(distinct)));
    }
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The batch, with the names of a schema.
pub fn with_names(batch: &RecordBatch, names: &Schema) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(names.fields());
    let fields = fields.map(|(field, named)| field.as_ref().clone().with_name(named.name()));
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec())
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    fn distinct(names: &[&str]) -> Option<Vec<String>> {
        let fields = names.iter().map(|name| Field::new(*name, DataType::Int64, true));
        let renamed = distinct_names(&Schema::new(fields.collect::<Vec<_>>()))?;
        Some(renamed.fields().iter().map(|field| field.name().clone()).collect())
    }

    #[test]
    fn a_name_that_occurs_again_gets_a_number_that_is_free() {
        assert_eq!(distinct(&["a", "b", "A"]), None);
        assert_eq!(distinct(&["a", "b", "a"]).unwrap(), ["a", "b", "a_1"]);
        assert_eq!(distinct(&["a", "a", "a_1", "a"]).unwrap(), ["a", "a_2", "a_1", "a_3"]);
        assert_eq!(distinct(&["a", "a_1", "a", "a_1"]).unwrap(), ["a", "a_1", "a_2", "a_1_1"]);
    }

    #[test]
    fn ten_thousand_columns_of_one_name_get_names_of_their_own() {
        let renamed = distinct(&["x"; 10_000]).unwrap();
        assert_eq!(renamed[9_999], "x_9999");
    }
}
