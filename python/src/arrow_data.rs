//! Arrow data that a caller gives, checked.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3_arrow::PyArray;
use pyo3_arrow::input::AnyRecordBatch;

use crate::sound::{check_array, check_batch, sound_rows};
use crate::{error, signals};

/// A batch or a stream of batches, by the Arrow interfaces of Python.
pub struct ArrowData(AnyRecordBatch);

/// One array, by the same interfaces.
pub struct ArrowArray(ArrayRef);

impl<'a, 'py> FromPyObject<'a, 'py> for ArrowData {
    type Error = PyErr;

    /// # Errors
    /// `InvalidArgumentError` for data that is not as its schema says, such as nulls in a column without nulls.
    fn extract(data: Borrowed<'a, 'py, PyAny>) -> PyResult<ArrowData> {
        let py = data.py();
        data.extract::<AnyRecordBatch>().map(ArrowData).map_err(|raised| {
            // Not of the errors of this package, which derive from it.
            match raised.get_type(py).is(py.get_type::<PyValueError>()) {
                true => {
                    let unreadable = error::unreadable(py, raised.value(py));
                    unreadable.set_cause(py, Some(raised));
                    unreadable
                }
                false => raised,
            }
        })
    }
}

impl ArrowData {
    /// [`ArrowData::read_all`] without the rows whose texts are not UTF-8, which come with what is wrong with them.
    pub fn read_sound(self, py: Python<'_>) -> PyResult<(RecordBatch, Vec<(u64, String)>)> {
        let (mut first, mut unsound) = (0, Vec::new());
        let sound = self.read(py, |batch| {
            let rows = batch.num_rows() as u64;
            let (sound, others) = sound_rows(batch)?;
            unsound.extend(others.into_iter().map(|(row, why)| (first + row, why)));
            first += rows;
            Ok(sound)
        })?;
        Ok((sound, unsound))
    }

    /// Reads it to its end as one batch, since an append is one commit.
    pub fn read_all(self, py: Python<'_>) -> PyResult<RecordBatch> {
        let mut first = 0;
        self.read(py, |batch| {
            check_batch(&batch, first)?;
            first += batch.num_rows();
            Ok(batch)
        })
    }

    /// Reads it to its end. Each batch is checked before it is put together with others. The caller's stream may be Python code:
    /// it takes the interpreter for itself.
    fn read(
        self,
        py: Python<'_>,
        mut checked: impl FnMut(RecordBatch) -> Result<RecordBatch, String> + Send,
    ) -> PyResult<RecordBatch> {
        let reader = match self.0 {
            AnyRecordBatch::RecordBatch(batch) => {
                let checked = signals::run(py, || Ok(checked(batch.into_inner())))?;
                return checked.map_err(|why| error::invalid(py, &why));
            }
            AnyRecordBatch::Stream(stream) => stream.into_reader()?,
        };
        let whole = signals::call(py, |interrupt| {
            let schema = reader.schema();
            let mut batches = Vec::new();
            for batch in reader {
                interrupt.check()?;
                match batch.map(&mut checked) {
                    Ok(Ok(batch)) => batches.push(batch),
                    Ok(Err(why)) => return Ok(Err(Refused::Unsound(why))),
                    Err(error) => return Ok(Err(Refused::Unreadable(error))),
                }
            }
            let whole = match <[RecordBatch; 1]>::try_from(batches) {
                Ok([only]) => Ok(only),
                Err(batches) => concat_batches(&schema, &batches),
            };
            Ok(whole.map_err(Refused::Unreadable))
        })?;
        whole.map_err(|refused| match refused {
            Refused::Unsound(why) => error::invalid(py, &why),
            Refused::Unreadable(error) => error::from_arrow(py, error),
        })
    }
}

/// Why a stream was not read to its end.
enum Refused {
    Unsound(String),
    Unreadable(ArrowError),
}

impl<'a, 'py> FromPyObject<'a, 'py> for ArrowArray {
    type Error = PyErr;

    /// # Errors
    /// `InvalidArgumentError` for values that are not as their type says.
    fn extract(array: Borrowed<'a, 'py, PyAny>) -> PyResult<ArrowArray> {
        let py = array.py();
        let array = array.extract::<PyArray>()?.into_inner().0;
        check_array(&array).map_err(|why| error::invalid(py, &why))?;
        Ok(ArrowArray(array))
    }
}

impl ArrowArray {
    pub fn into_inner(self) -> ArrayRef {
        self.0
    }
}

/// The Arrow arrays behind `arrays`.
pub fn into_arrays(arrays: Vec<ArrowArray>) -> Vec<ArrayRef> {
    arrays.into_iter().map(ArrowArray::into_inner).collect()
}
