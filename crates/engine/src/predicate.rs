//! Conditions on rows. The engine parses nothing: whoever reads text hands it a [`Predicate`].

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use drillcore_format::schema::TableSchema;

use crate::error::{Error, Result};
use crate::key_range::Between;

/// A condition that a row of a table meets or not, whatever the other rows are: asked twice, it answers
/// the same.
///
/// A condition may be taken apart: into a key range and sets, which indexes find, and a test of the rows
/// in them.
pub trait Predicate: fmt::Debug + Send + Sync {
    /// A key range that every row that passes lies in. Its ends may be in the wrong order: then none does.
    fn between(&self) -> Option<&Between> {
        None
    }

    /// Values of the set column, one of which every row that passes has; a null element stands for the
    /// rows without a value.
    fn sets(&self) -> Option<&ArrayRef> {
        None
    }

    /// Whether every row in the range and the sets passes, so that none need be tested.
    fn is_exact(&self) -> bool {
        false
    }

    /// Names of the columns that the test reads; may be none.
    fn columns(&self) -> &[String];

    /// Tests rows, which have exactly the columns of [`Predicate::columns`], in that order: one element a
    /// row. Null is no.
    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray>;

    /// Says which condition this is: predicates with one text select the same rows of a table.
    fn text(&self) -> &str;
}

/// A predicate whose columns were found in a table.
#[derive(Debug, Clone)]
pub struct Test {
    predicate: Arc<dyn Predicate>,
    columns: Vec<usize>,
}

impl Test {
    /// What is left to test of a predicate, if anything is.
    pub fn new(schema: &TableSchema, predicate: &Arc<dyn Predicate>) -> Result<Option<Test>> {
        if predicate.is_exact() {
            return Ok(None);
        }
        let columns: Result<Vec<usize>> =
            predicate.columns().iter().map(|name| column(schema, name)).collect();
        Ok(Some(Test { predicate: predicate.clone(), columns: columns? }))
    }

    /// The columns of the table that are read.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Which rows pass: no element is null. `rows` has the columns of [`Test::columns`] in that order.
    pub fn passes(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let passes = self.predicate.select(rows)?;
        if passes.len() != rows.num_rows() {
            let (found, wanted) = (passes.len(), rows.num_rows());
            let message = format!("a predicate gave {found} answers for {wanted} rows");
            return Err(Error::invalid(message));
        }
        Ok(match passes.nulls() {
            None => passes,
            Some(valid) => BooleanArray::new(passes.values() & valid.inner(), None),
        })
    }
}

impl PartialEq for Test {
    fn eq(&self, other: &Test) -> bool {
        self.columns == other.columns && self.predicate.text() == other.predicate.text()
    }
}

/// The index of a table's column.
pub fn column(schema: &TableSchema, name: &str) -> Result<usize> {
    let columns = &schema.columns;
    let names = || columns.fields().iter().map(|field| field.name().as_str());
    columns.index_of(name).map_err(|_| Error::unknown("column", name, names()))
}
