//! An estimate, and the request that leads to one.

use drillcore::{EstimateRequest, HalfWidth, Selection, Stop, TableSchema};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;

use crate::error;
use crate::selection::SelectionArgument;
use crate::signals::Signals;

/// A value, the low and the high end of its interval, and how the interval was found.
type IntervalTuple = (f64, f64, f64, String);

/// An engine estimate. Figures that depend on the aggregate are read from [`Estimate::batch`] or,
/// for the first aggregate, from [`Estimate::intervals`].
#[pyclass(module = "drillcore._native", frozen)]
pub struct Estimate {
    inner: drillcore::Estimate,
}

impl Estimate {
    pub fn new(inner: drillcore::Estimate) -> Estimate {
        Estimate { inner }
    }
}

#[pymethods]
impl Estimate {
    /// One row a group: the group, each aggregate with its low and high end, the rows drawn.
    fn batch(&self) -> PyRecordBatch {
        PyRecordBatch::new(self.inner.to_batch())
    }

    /// Per aggregate its name and an interval a group.
    fn intervals(&self) -> Vec<(String, Vec<IntervalTuple>)> {
        let mut all = Vec::with_capacity(self.inner.aggregates.len());
        for aggregate in &self.inner.aggregates {
            let intervals = aggregate.intervals.iter();
            let tuples = intervals.map(|i| (i.value, i.low, i.high, i.method.to_string()));
            all.push((aggregate.name.clone(), tuples.collect()));
        }
        all
    }

    #[getter]
    fn grouped(&self) -> bool {
        self.inner.groups.is_some()
    }

    #[getter]
    fn sampled(&self) -> u64 {
        self.inner.sampled
    }

    #[getter]
    fn population(&self) -> u64 {
        self.inner.population
    }

    #[getter]
    fn confidence(&self) -> f64 {
        self.inner.confidence
    }

    #[getter]
    fn simultaneous(&self) -> bool {
        self.inner.simultaneous
    }

    #[getter]
    fn method(&self) -> &str {
        &self.inner.method
    }

    #[getter]
    fn unseen_share(&self) -> f64 {
        self.inner.unseen_share
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.clone()
    }

    #[getter]
    fn exact(&self) -> bool {
        self.inner.exact
    }
}

/// What `estimate` is asked, as Python gives it.
#[derive(FromPyObject)]
pub struct EstimateArgument {
    #[pyo3(item)]
    aggregates: Vec<(String, String)>,
    #[pyo3(item)]
    by: Option<String>,
    #[pyo3(item)]
    selection: SelectionArgument,
    /// `("rows", n)`, `("absolute", half width)`, `("relative", share)` or `("seconds", s)`.
    #[pyo3(item)]
    stop: (String, f64),
    #[pyo3(item)]
    confidence: f64,
    #[pyo3(item)]
    simultaneous: bool,
    #[pyo3(item)]
    seed: Option<u64>,
}

impl EstimateArgument {
    pub fn into_request(
        self,
        py: Python<'_>,
        schema: &TableSchema,
        signals: &Signals,
    ) -> PyResult<EstimateRequest> {
        let selection: Selection = self.selection.into_selection(py, schema)?;
        Ok(EstimateRequest {
            aggregates: self.aggregates,
            by: self.by,
            selection,
            stop: parse_stop(py, &self.stop.0, self.stop.1)?,
            confidence: self.confidence,
            simultaneous: self.simultaneous,
            seed: self.seed,
            interrupt: signals.interrupt(),
        })
    }
}

fn parse_stop(py: Python<'_>, kind: &str, value: f64) -> PyResult<Stop> {
    match kind {
        // Counts of rows stay far below 2^53, where every integer is a float.
        "rows" => Ok(Stop::Rows(value as u64)),
        "absolute" => Ok(Stop::Error(HalfWidth::Absolute(value))),
        "relative" => Ok(Stop::Error(HalfWidth::Relative(value))),
        "seconds" => Ok(Stop::Seconds(value)),
        other => Err(error::invalid(py, &format!("unknown way to stop: {other:?}"))),
    }
}
