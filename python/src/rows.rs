//! A stream of rows on its way to Python: batch by batch, or handed over whole as an Arrow stream.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use drillcore::without_panic;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use crate::error;
use crate::signals::Signals;

/// What streams: a scan, or the result of a query.
type Batches = Box<dyn Iterator<Item = drillcore::Result<RecordBatch>> + Send>;

/// A stream that has not ended. It is read once.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Scan {
    schema: SchemaRef,
    signals: Signals,
    /// `None` once handed over. The lock is only ever taken with the interpreter released.
    scan: Mutex<Option<Batches>>,
}

impl Scan {
    pub fn new(
        schema: SchemaRef,
        batches: impl Iterator<Item = drillcore::Result<RecordBatch>> + Send + 'static,
        signals: Signals,
    ) -> Scan {
        Scan { schema, signals, scan: Mutex::new(Some(Box::new(batches))) }
    }

    fn take(&self, py: Python<'_>) -> PyResult<Batches> {
        py.detach(|| self.scan.lock().take()).ok_or_else(|| {
            error::invalid(py, "the rows of this scan were already read; scan again")
        })
    }
}

#[pymethods]
impl Scan {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(&self.schema))
    }

    /// The next batch, or `None` at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        let batch = self.signals.run(py, || {
            let mut scan = self.scan.lock();
            let Some(batches) = scan.as_mut() else { return Ok(None) };
            let batch = without_panic(|| batches.next().transpose());
            if batch.is_err() {
                // Nothing comes behind an error.
                *scan = None;
            }
            batch
        })?;
        Ok(batch.map(PyRecordBatch::new))
    }

    /// Hands the rest of the scan over as an Arrow C stream. Nothing interrupts it there.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = ScanReader { schema: Arc::clone(&self.schema), scan: self.take(py)? };
        let reader = PyRecordBatchReader::new(Box::new(reader)).into_pyobject(py)?;
        let capsule = reader.call_method1("__arrow_c_stream__", (requested_schema,))?;
        Ok(capsule.cast_into::<PyCapsule>()?)
    }
}

/// A scan as Arrow's own reader; its errors cross as text, which is all a C stream can carry.
struct ScanReader {
    schema: SchemaRef,
    scan: Batches,
}

impl Iterator for ScanReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not unwind into the code that reads the stream, which is not Rust's.
        let batch = without_panic(|| self.scan.next().transpose()).transpose()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(error.to_string().into())))
    }
}

impl RecordBatchReader for ScanReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
