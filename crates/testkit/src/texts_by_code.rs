//! Texts as dictionaries, laid out in the ways that a writer of Arrow may choose.

use std::collections::HashMap;
use std::sync::Arc;

use drillcore::arrow_array::cast::AsArray;
use drillcore::arrow_array::types::Int16Type;
use drillcore::arrow_array::{
    Array, ArrayRef, DictionaryArray, Int16Array, RecordBatch, StringArray,
};
use drillcore::arrow_schema::DataType;

/// The same rows with every column of texts as a dictionary: its values are in no order, the first is null, and one may occur twice. A
/// null has no code, or that of the null.
pub fn texts_by_code(batch: &RecordBatch) -> RecordBatch {
    let names = batch.schema();
    let columns = names.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = match column.data_type() {
            DataType::Utf8 => by_code(column),
            _ => column.clone(),
        };
        (field.name(), column, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("the columns have one length")
}

fn by_code(column: &ArrayRef) -> ArrayRef {
    let texts = column.as_string::<i32>();
    let mut values: Vec<Option<&str>> = vec![None];
    let mut known: HashMap<&str, i16> = HashMap::new();
    let codes = (0..texts.len()).map(|row| {
        if texts.is_null(row) {
            return (row % 2 == 0).then_some(0);
        }
        let text = texts.value(row);
        // The first text occurs twice, if the second is the same.
        if row == 1 {
            known.clear();
        }
        let code = known.entry(text).or_insert_with(|| {
            values.push(Some(text));
            values.len() as i16 - 1
        });
        Some(*code)
    });
    let codes: Int16Array = codes.collect();
    Arc::new(DictionaryArray::<Int16Type>::new(codes, Arc::new(StringArray::from(values))))
}
