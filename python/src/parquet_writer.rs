//! Rows on their way from Python into a Parquet file.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::thread;

use drillcore_sql::{ParquetCompression, ParquetWriteError};
use parking_lot::Mutex;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3_arrow::{PyRecordBatch, PySchema};

use crate::error;
use crate::signals;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

type File = drillcore_sql::ParquetWriter<BufWriter<std::fs::File>>;

/// A Parquet file that is being written, in place of what the file of this name has. Threads of its own encode it.
#[pyclass(module = "drillcore._native", frozen)]
pub struct ParquetWriter {
    /// `None` once it is complete, failed or was given up. The lock is only ever taken with the interpreter released.
    file: Mutex<Option<File>>,
}

#[pymethods]
impl ParquetWriter {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        schema: PySchema,
        compression: &str,
    ) -> PyResult<ParquetWriter> {
        let compression = ParquetCompression::named(compression)
            .ok_or_else(|| error::invalid(py, &format!("unknown compression {compression:?}")))?;
        let schema = schema.into_inner();
        let open = || {
            let file = OpenOptions::new().write(true).truncate(true).create(true).open(path);
            let file = BufWriter::with_capacity(BUFFER_BYTES, file.map_err(ParquetWriteError::Io)?);
            let threads = thread::available_parallelism().map_or(1, usize::from);
            File::new(file, &schema, &[], compression, threads)
        };
        let file = run(py, open)?;
        Ok(ParquetWriter { file: Mutex::new(Some(file)) })
    }

    /// Writes rows; waits while the row group before is encoded.
    fn write(&self, py: Python<'_>, batch: PyRecordBatch) -> PyResult<()> {
        let batch = batch.into_inner();
        run(py, || {
            let mut file = self.file.lock();
            let written = file.as_mut().expect("it is neither complete nor failed").write(&batch);
            if written.is_err() {
                *file = None;
            }
            written
        })
    }

    /// Writes what is left, and the footer.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        run(py, || {
            let file = self.file.lock().take().expect("it is neither complete nor failed");
            file.finish()?.flush().map_err(ParquetWriteError::Io)
        })
    }

    /// Gives the file up unless it is complete, and waits for the threads that encode it.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.file.lock().take()));
    }
}

/// Runs `work` without the interpreter.
fn run<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, ParquetWriteError> + Send,
) -> PyResult<T> {
    signals::run(py, || Ok(work()))?.map_err(|error| match error {
        ParquetWriteError::Io(error) => match error.raw_os_error() {
            Some(code) => PyOSError::new_err((code, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        },
        ParquetWriteError::NoForm(what) => {
            error::invalid(py, &format!("the rows cannot be written as Parquet: {what}"))
        }
    })
}
