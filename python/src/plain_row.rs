//! One dict of plain values as a batch of one row, for appends of one row.
//!
//! A value is plain if its type is exactly the one that Python has for the column, and the column holds it unchanged.
//! Any other row is left to the Python layer, which converts more values and has the words for those that do not fit.
//! Whatever is taken here is what `to_arrow` of `drillcore.data` makes of the dict.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use drillcore::TableSchema;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};

/// The columns that a dict may have, as long as the columns of the table stay.
pub struct PlainRow {
    names: Vec<Py<PyString>>,
    /// The same columns. They may be null, or missing: the engine says which may not.
    schema: SchemaRef,
}

impl PlainRow {
    pub fn new(py: Python<'_>, table: &TableSchema) -> PlainRow {
        let fields = table.batch_columns().fields();
        let names = fields.iter().map(|field| PyString::intern(py, field.name()).unbind());
        let nullable = fields.iter().map(|field| field.as_ref().clone().with_nullable(true));
        PlainRow {
            names: names.collect(),
            schema: Arc::new(Schema::new(nullable.collect::<Vec<_>>())),
        }
    }

    /// The only row of `data` as a batch, or nothing if `data` is not a list of one dict, or takes more than this.
    /// Costs a lookup per column of the table.
    pub fn batch(&self, data: &Bound<'_, PyAny>) -> Option<RecordBatch> {
        let rows = data.cast_exact::<PyList>().ok()?;
        if rows.len() != 1 {
            return None;
        }
        let row = rows.get_item(0).ok()?.cast_into_exact::<PyDict>().ok()?;
        let py = row.py();
        let types = Types::get(py)?;
        let (mut places, mut arrays) = (Vec::new(), Vec::with_capacity(self.names.len()));
        for (place, name) in self.names.iter().enumerate() {
            if let Some(value) = row.get_item(name.bind(py)).ok()? {
                arrays.push(array(&value, self.schema.field(place).data_type(), types)?);
                places.push(place);
            }
        }
        let has_unknown = places.len() != row.len();
        if has_unknown || places.is_empty() {
            return None;
        }
        let schema = match places.len() == self.names.len() {
            true => Arc::clone(&self.schema),
            false => Arc::new(self.schema.project(&places).ok()?),
        };
        RecordBatch::try_new(schema, arrays).ok()
    }
}

/// The types of Python's library that columns have.
struct Types {
    date: Py<PyType>,
    datetime: Py<PyType>,
    decimal: Py<PyType>,
    utc: Py<PyAny>,
}

impl Types {
    fn get(py: Python<'_>) -> Option<&Types> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || Types::import(py)).ok()
    }

    fn import(py: Python<'_>) -> PyResult<Types> {
        let datetime = py.import("datetime")?;
        Ok(Types {
            date: datetime.getattr("date")?.cast_into()?.unbind(),
            datetime: datetime.getattr("datetime")?.cast_into()?.unbind(),
            decimal: py.import("decimal")?.getattr("Decimal")?.cast_into()?.unbind(),
            utc: datetime.getattr("timezone")?.getattr("utc")?.unbind(),
        })
    }
}

/// A value as an array of the type `to`, if it is plain.
fn array(value: &Bound<'_, PyAny>, to: &DataType, types: &Types) -> Option<ArrayRef> {
    if value.is_none() {
        return Some(new_null_array(to, 1));
    }
    match *to {
        DataType::Boolean => {
            let value = value.cast_exact::<PyBool>().ok()?.is_true();
            Some(Arc::new(BooleanArray::from(vec![value])))
        }
        DataType::Int8 => integer::<Int8Type>(value),
        DataType::Int16 => integer::<Int16Type>(value),
        DataType::Int32 => integer::<Int32Type>(value),
        DataType::Int64 => integer::<Int64Type>(value),
        DataType::UInt8 => integer::<UInt8Type>(value),
        DataType::UInt16 => integer::<UInt16Type>(value),
        DataType::UInt32 => integer::<UInt32Type>(value),
        DataType::UInt64 => integer::<UInt64Type>(value),
        DataType::Float32 => {
            let value = value.cast_exact::<PyFloat>().ok()?.value();
            let narrow = value as f32;
            (narrow.is_finite() || !value.is_finite()).then(|| fixed::<Float32Type>(narrow))
        }
        DataType::Float64 => {
            Some(fixed::<Float64Type>(value.cast_exact::<PyFloat>().ok()?.value()))
        }
        DataType::Utf8 => {
            let text = value.cast_exact::<PyString>().ok()?.to_str().ok()?;
            has_offset(text.len()).then(|| Arc::new(StringArray::from(vec![text])) as _)
        }
        DataType::Binary => {
            let bytes = value.cast_exact::<PyBytes>().ok()?.as_bytes();
            has_offset(bytes.len()).then(|| Arc::new(BinaryArray::from(vec![bytes])) as _)
        }
        DataType::Date32 if value.get_type().is(&types.date) => {
            Some(fixed::<Date32Type>(i32::try_from(days(value)?).ok()?))
        }
        DataType::Timestamp(unit, ref zone) if value.get_type().is(&types.datetime) => {
            timestamp(value, unit, zone.as_ref(), types)
        }
        DataType::Decimal128(precision, scale) => {
            let value = decimal(value, precision, scale, types)?;
            let array = PrimitiveArray::<Decimal128Type>::from_value(value, 1);
            Some(Arc::new(array.with_data_type(to.clone())))
        }
        _ => None,
    }
}

fn fixed<T: ArrowPrimitiveType>(value: T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1))
}

fn integer<T: ArrowPrimitiveType>(value: &Bound<'_, PyAny>) -> Option<ArrayRef>
where
    T::Native: for<'a, 'py> FromPyObject<'a, 'py>,
{
    let value = value.cast_exact::<PyInt>().ok()?;
    Some(fixed::<T>(value.extract().ok()?))
}

/// Whether an array can have a value of `len` bytes. The table may allow less.
fn has_offset(len: usize) -> bool {
    i32::try_from(len).is_ok()
}

/// Days since 1970 of a date or datetime.
fn days(value: &Bound<'_, PyAny>) -> Option<i64> {
    const ORDINAL_OF_1970: i64 = 719_163;
    let ordinal: i64 = value.call_method0(intern!(value.py(), "toordinal")).ok()?.extract().ok()?;
    Some(ordinal - ORDINAL_OF_1970)
}

fn timestamp(
    value: &Bound<'_, PyAny>,
    unit: TimeUnit,
    zone: Option<&Arc<str>>,
    types: &Types,
) -> Option<ArrayRef> {
    let py = value.py();
    let part = |name| value.getattr(name).ok()?.extract::<i64>().ok();
    let given = value.getattr(intern!(py, "tzinfo")).ok()?;
    if zone.is_none() != given.is_none() {
        return None;
    }
    let ahead = match given.is_none() || given.is(&types.utc) {
        true => 0,
        false => seconds_ahead_of_utc(value)?,
    };
    let (hours, minutes) = (part(intern!(py, "hour"))?, part(intern!(py, "minute"))?);
    let minutes = (days(value)? * 24 + hours) * 60 + minutes;
    let seconds = minutes * 60 + part(intern!(py, "second"))? - ahead;
    let micros = part(intern!(py, "microsecond"))?;
    let in_units = |per_second: i64| {
        let scaled = micros * per_second;
        let is_exact = scaled % 1_000_000 == 0;
        is_exact.then(|| seconds.checked_mul(per_second)?.checked_add(scaled / 1_000_000))?
    };
    let zone = zone.cloned();
    Some(match unit {
        TimeUnit::Second => time::<TimestampSecondType>(in_units(1)?, zone),
        TimeUnit::Millisecond => time::<TimestampMillisecondType>(in_units(1_000)?, zone),
        TimeUnit::Microsecond => time::<TimestampMicrosecondType>(in_units(1_000_000)?, zone),
        TimeUnit::Nanosecond => time::<TimestampNanosecondType>(in_units(1_000_000_000)?, zone),
    })
}

/// How far the clock of a datetime's zone is ahead then, if by whole seconds.
fn seconds_ahead_of_utc(value: &Bound<'_, PyAny>) -> Option<i64> {
    let py = value.py();
    let ahead = value.call_method0(intern!(py, "utcoffset")).ok()?;
    let part = |name| ahead.getattr(name).ok()?.extract::<i64>().ok();
    let is_whole = part(intern!(py, "microseconds"))? == 0;
    is_whole.then_some(part(intern!(py, "days"))? * 86_400 + part(intern!(py, "seconds"))?)
}

fn time<T: ArrowTimestampType>(value: i64, zone: Option<Arc<str>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_timezone_opt(zone))
}

/// An int or a `Decimal` in units of the scale, unless it has an exponent or hardly fits.
fn decimal(value: &Bound<'_, PyAny>, precision: u8, scale: i8, types: &Types) -> Option<i128> {
    if !value.is_exact_instance_of::<PyInt>() && !value.get_type().is(&types.decimal) {
        return None;
    }
    let text = value.str().ok()?;
    let text = text.to_str().ok()?;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Digits that are there and those that the scale appends. Zeros in front count, too: then a few go the longer way.
    let appended = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    if whole.len() + fraction.len() + appended > usize::from(precision) {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', appended));
    let digit = |units: i128, digit: u8| {
        digit.is_ascii_digit().then(|| units * 10 + i128::from(digit - b'0'))
    };
    // A precision has up to 38 digits, which are below 2^127.
    let units = digits.into_iter().try_fold(0, digit)?;
    Some(if is_negative { -units } else { units })
}
