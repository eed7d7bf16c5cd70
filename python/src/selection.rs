//! A selection as Python gives it: bounds and set values as Arrow arrays.

use arrow_array::ArrayRef;
use drillcore::{Between, Closed, Selection, SplitRange, TableSchema};
use pyo3::prelude::*;
use pyo3_arrow::PyArray;

use crate::{error, signals};

/// The ends of `between`, each a key prefix as arrays of one value, or open.
type Ends = (Option<Vec<PyArray>>, Option<Vec<PyArray>>);

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
    sets: Option<PyArray>,
    #[pyo3(item("where"))]
    condition: Option<String>,
    #[pyo3(item)]
    split: Option<SplitEnds>,
}

impl SelectionArgument {
    /// Checks the condition against the columns of the table it is about; the engine checks the rest.
    pub fn into_selection(self, py: Python<'_>, schema: &TableSchema) -> PyResult<Selection> {
        let closed = parse_closed(py, &self.closed)?;
        let between = self.between.map(|(low, high)| Between {
            low: low.map(into_arrays),
            high: high.map(into_arrays),
            closed,
        });
        let sets = self.sets.map(|values| values.into_inner().0);
        let predicate = self.condition.map(|text| {
            signals::call(py, |interrupt| {
                drillcore_sql::predicate_interruptibly(schema, &text, &interrupt)
            })
        });
        let split = self.split.map(|(low, high)| SplitRange { low, high });
        Ok(Selection { between, sets, predicate: predicate.transpose()?, split })
    }
}

/// The Arrow arrays behind `arrays`.
pub fn into_arrays(arrays: Vec<PyArray>) -> Vec<ArrayRef> {
    arrays.into_iter().map(|array| array.into_inner().0).collect()
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
