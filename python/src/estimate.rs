//! An estimate, and the request that leads to one.

use drillcore::{EstimateRequest, HalfWidth, Method, Selection, Stop, TableSchema, Unit};
use drillcore_sql::aggregates;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;

use crate::error;
use crate::selection::SelectionArgument;
use crate::signals::Signals;

/// A value, the low and the high end of its interval, and how the interval was found. No numbers where there is no average.
type IntervalTuple = (Option<f64>, Option<f64>, Option<f64>, String);

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
    /// One row per group: the group, each aggregate with its low and high end, the rows read.
    fn batch(&self) -> PyRecordBatch {
        PyRecordBatch::new(self.inner.to_batch())
    }

    /// Per aggregate its name and an interval per group, of the first groups.
    fn intervals(&self, groups_max: usize) -> Vec<(String, Vec<IntervalTuple>)> {
        let mut all = Vec::with_capacity(self.inner.aggregates.len());
        for aggregate in &self.inner.aggregates {
            let intervals = aggregate.intervals.iter().zip(&aggregate.has_value).take(groups_max);
            let tuples = intervals.map(|(interval, has_value)| {
                let is_open =
                    |number: f64| interval.method == Method::LowerBound && number.is_infinite();
                let known = |number: f64| {
                    ((*has_value || !number.is_nan()) && !is_open(number)).then_some(number)
                };
                let [value, low, high] = [interval.value, interval.low, interval.high].map(known);
                (value, low, high, interval.method.to_string())
            });
            all.push((aggregate.name.clone(), tuples.collect()));
        }
        all
    }

    /// Per aggregate its name, and per group the value and the ends as people read them, of the first groups.
    fn shown(&self, groups_max: usize) -> Vec<(String, Vec<[String; 3]>)> {
        let aggregates = self.inner.aggregates.iter().enumerate();
        let of_groups = |(at, aggregate): (usize, &drillcore::AggregateEstimate)| {
            let groups = 0..aggregate.intervals.len().min(groups_max);
            (aggregate.name.clone(), groups.map(|group| self.inner.shown(at, group)).collect())
        };
        aggregates.map(of_groups).collect()
    }

    /// Intervals that are wider than asked for: the aggregate, the place of the group, and why.
    fn unreached(&self) -> Vec<(String, usize, String)> {
        let wide = self.inner.unreached.iter();
        wide.map(|each| (each.aggregate.clone(), each.group, each.reason.clone())).collect()
    }

    /// Per aggregate with intervals from bounds its name and these.
    fn bounds(&self) -> Vec<(String, f64, f64)> {
        let named = self.inner.aggregates.iter().filter_map(|aggregate| {
            let bounds = aggregate.bounds?;
            Some((aggregate.name.clone(), bounds.low, bounds.high))
        });
        named.collect()
    }

    #[getter]
    fn group_count(&self) -> usize {
        self.inner.drawn.len()
    }

    /// How many columns the groups have; 0 without groups.
    #[getter]
    fn group_columns(&self) -> usize {
        self.inner.groups.len()
    }

    #[getter]
    fn unit(&self) -> &'static str {
        self.inner.unit.as_str()
    }

    #[getter]
    fn sampled(&self) -> u64 {
        self.inner.sampled
    }

    #[getter]
    fn scanned(&self) -> u64 {
        self.inner.scanned
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
    fn unseen_share_high(&self) -> f64 {
        self.inner.unseen_share_high
    }

    #[getter]
    fn asymptotic(&self) -> bool {
        self.inner.asymptotic
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
    by: Vec<String>,
    #[pyo3(item)]
    selection: SelectionArgument,
    #[pyo3(item)]
    events: bool,
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
        let asked = {
            let read = || aggregates(schema, &self.aggregates, &self.by, &signals.interrupt());
            signals.run(py, read)?
        };
        Ok(EstimateRequest {
            aggregates: asked.aggregates,
            by: asked.by,
            computed: asked.computed,
            selection,
            unit: if self.events { Unit::Events } else { Unit::Rows },
            stop: parse_stop(py, &self.stop.0, self.stop.1)?,
            confidence: self.confidence,
            simultaneous: self.simultaneous,
            seed: self.seed,
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
