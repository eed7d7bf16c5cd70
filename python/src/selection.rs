//! A selection as Python gives it: bounds and set values as Arrow arrays, or as values of Python's own.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use drillcore::{Between, Closed, Selection, SplitRange, TableSchema};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::arrow_data::ArrowArray;
use crate::{error, signals};

/// Values of one column: an Arrow array, or one value, of which an array is made here. To make it in Python and hand it over takes
/// longer than most reads of memory do.
pub struct ColumnValues(ArrayRef);

/// The ends of `between`, each a key prefix by arrays of one value, or open.
type Ends = (Option<Vec<ColumnValues>>, Option<Vec<ColumnValues>>);

/// The encoded keys that a split lies between.
pub type SplitEnds = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Everything that narrows a read, in the order of the native methods' arguments.
#[derive(FromPyObject)]
pub struct SelectionArgument {
    #[pyo3(item)]
    between: Option<Ends>,
    #[pyo3(item)]
    closed: String,
    #[pyo3(item)]
    sets: Option<ColumnValues>,
    #[pyo3(item("where"))]
    condition: Option<String>,
    #[pyo3(item)]
    split: Option<SplitEnds>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for ColumnValues {
    type Error = PyErr;

    fn extract(values: Borrowed<'a, 'py, PyAny>) -> PyResult<ColumnValues> {
        Ok(ColumnValues(if values.is_exact_instance_of::<PyInt>() {
            Arc::new(Int64Array::from(vec![values.extract::<i64>()?]))
        } else if values.is_exact_instance_of::<PyString>() {
            Arc::new(StringArray::from(vec![values.extract::<String>()?]))
        } else {
            values.extract::<ArrowArray>()?.into_inner()
        }))
    }
}

impl ColumnValues {
    /// The arrays of some columns.
    pub fn into_arrays(columns: Vec<ColumnValues>) -> Vec<ArrayRef> {
        columns.into_iter().map(|values| values.0).collect()
    }
}

impl SelectionArgument {
    /// Checks the condition against the columns of the table it is about; the engine checks the rest.
    pub fn into_selection(self, py: Python<'_>, schema: &TableSchema) -> PyResult<Selection> {
        let closed = parse_closed(py, &self.closed)?;
        let between = self.between.map(|(low, high)| Between {
            low: low.map(ColumnValues::into_arrays),
            high: high.map(ColumnValues::into_arrays),
            closed,
        });
        let sets = self.sets.map(|values| values.0);
        let predicate = self.condition.map(|text| {
            signals::call(py, |interrupt| {
                drillcore_sql::predicate_interruptibly(schema, &text, &interrupt)
            })
        });
        let split = self.split.map(|(low, high)| SplitRange { low, high });
        Ok(Selection { between, sets, predicate: predicate.transpose()?, split })
    }
}

fn parse_closed(py: Python<'_>, name: &str) -> PyResult<Closed> {
    match name {
        "both" => Ok(Closed::Both),
        "left" => Ok(Closed::Left),
        "right" => Ok(Closed::Right),
        "neither" => Ok(Closed::Neither),
        other => Err(error::invalid(
            py,
            &format!("closed={other:?}: expected \"both\", \"left\", \"right\" or \"neither\""),
        )),
    }
}
