//! How far a long call is, for other threads to read.

use pyo3::prelude::*;

/// Given to a call, which counts in it.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Progress {
    inner: drillcore::Progress,
}

impl Progress {
    pub fn counts(&self) -> &drillcore::Progress {
        &self.inner
    }
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Progress {
        Progress { inner: drillcore::Progress::default() }
    }

    /// The share of the work that is done; `None` until it is known how much there is.
    #[getter]
    fn share(&self) -> Option<f64> {
        self.inner.share()
    }
}
