//! Casts that change no value: each comes over as it is, or its row is listed.
//!
//! Only narrower floats round, as everywhere, but not to infinity, and every NaN becomes the one that keys have. What
//! cannot be meant, such as text for numbers, is an error, and so is more text than one array holds.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Float32Type, Float64Type, LargeBinaryType, LargeUtf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, make_array};
use arrow_buffer::OffsetBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use drillcore_format::type_name::type_name;

use crate::error::{Error, Result};

/// Values in the type they were wanted in.
pub struct Cast {
    pub values: ArrayRef,
    /// The rows whose value that type cannot hold, ascending. What stands there instead means nothing.
    pub unfit: Vec<usize>,
}

/// Casts the values of a column.
///
/// # Errors
/// `InvalidArgument` if values of the one type are none of the other, or all of them do not fit one array.
pub fn exact_cast(values: &ArrayRef, to: &DataType, column: &str) -> Result<Cast> {
    let values = flat(values);
    let from = values.data_type();
    if from == to {
        return Ok(Cast { values: with_one_nan(values), unfit: Vec::new() });
    }
    let (source, target) = (kind(from), kind(to));
    let mismatch = || {
        let hint = match (&source, &target) {
            (Kind::WallClock, Kind::Moment) => "; give the times a time zone",
            (Kind::Moment, Kind::WallClock) => {
                "; convert the times to one time zone, then remove the zone"
            }
            _ => "",
        };
        let (to, from) = (type_name(to), type_name(from));
        Error::invalid(format!("column {column:?} stores {to}, but {from} was given{hint}"))
    };
    if !means(&source, from, &target, to) {
        return Err(mismatch());
    }
    if matches!(source, Kind::Null) {
        let values = cast(&values, to).map_err(|error| mismatch().with_source(error))?;
        return Ok(Cast { values, unfit: Vec::new() });
    }
    if matches!(source, Kind::Text | Kind::Bytes | Kind::Texts) {
        // Types differ in how values lie in memory only, so there is one reason to fail.
        let too_long = || {
            let message = format!(
                "the values of column {column:?} have more than 2 GiB in total; append in smaller batches"
            );
            Error::invalid(message)
        };
        if view_bytes(&values) > i32::MAX as u64 {
            return Err(too_long());
        }
        let values = cast(&with_small_offsets(&values), to)
            .map_err(|error| too_long().with_source(error))?;
        return Ok(Cast { values, unfit: Vec::new() });
    }
    let there = cast(&values, to).map_err(|error| mismatch().with_source(error))?;
    let unfit = match (from.is_floating(), to.is_floating()) {
        (true, true) => infinite_only_there(&values, &there),
        _ => changed(&values, &there).map_err(|error| mismatch().with_source(error))?,
    };
    Ok(Cast { values: with_one_nan(there), unfit })
}

/// The same values with one NaN. There are many, and a comparison of floats by their bits distinguishes them: those with the sign
/// set, as x86 computes them, come below all numbers.
fn with_one_nan(values: ArrayRef) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(
        values: ArrayRef,
        is_other: fn(T::Native) -> bool,
        nan: T::Native,
    ) -> ArrayRef {
        let floats = values.as_primitive::<T>();
        // Without a branch, so that a look is all that most columns cost.
        match floats.values().iter().fold(false, |found, &value| found | is_other(value)) {
            false => values,
            true => {
                Arc::new(floats.unary::<_, T>(|value| if is_other(value) { nan } else { value }))
            }
        }
    }
    match values.data_type() {
        DataType::Float32 => {
            let is_other = |value: f32| value.is_nan() & (value.to_bits() != f32::NAN.to_bits());
            of::<Float32Type>(values, is_other, f32::NAN)
        }
        DataType::Float64 => {
            let is_other = |value: f64| value.is_nan() & (value.to_bits() != f64::NAN.to_bits());
            of::<Float64Type>(values, is_other, f64::NAN)
        }
        _ => values,
    }
}

/// Kinds of types between which values may move.
#[derive(PartialEq)]
enum Kind {
    Null,
    Number,
    Decimal,
    Text,
    Bytes,
    /// Lists of texts; lists of nothing but nulls are such, too.
    Texts,
    Bool,
    /// A moment: a timestamp with a zone.
    Moment,
    /// A reading of a clock and calendar: a timestamp without zone, or a date.
    WallClock,
    Other,
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Null => Kind::Null,
        DataType::Dictionary(_, values) => kind(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Kind::Bytes,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
            if matches!(kind(item.data_type()), Kind::Text | Kind::Null) =>
        {
            Kind::Texts
        }
        DataType::Boolean => Kind::Bool,
        DataType::Timestamp(_, Some(_)) => Kind::Moment,
        DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 => Kind::WallClock,
        decimal if decimal.is_decimal() => Kind::Decimal,
        numeric if numeric.is_integer() || numeric.is_floating() => Kind::Number,
        _ => Kind::Other,
    }
}

/// Whether values of one type can be values of another. Of numbers, only whole ones are decimals too: a
/// fraction is seldom the float next to it.
fn means(source: &Kind, from: &DataType, target: &Kind, to: &DataType) -> bool {
    match (source, target) {
        (Kind::Other, _) => false,
        (Kind::Null, _) => true,
        (Kind::Number, Kind::Decimal) => from.is_integer(),
        (Kind::Decimal, Kind::Number) => to.is_integer(),
        _ => source == target,
    }
}

/// Arrow's cast, with null for what does not fit. Dates of 64 bits and days go by way of milliseconds, where
/// Arrow's own way overflows or gives up.
fn cast(values: &ArrayRef, to: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
    let by_way = match (values.data_type(), to) {
        (DataType::Date64, DataType::Timestamp(_, _)) => Some(milliseconds),
        (DataType::Timestamp(_, _), DataType::Date32) => Some(DataType::Date64),
        _ => None,
    };
    match by_way.filter(|way| way != values.data_type()) {
        None => cast_with_options(values, to, &lenient),
        Some(way) => {
            let half_way = cast_with_options(values, &way, &lenient)?;
            cast_with_options(&half_way, to, &lenient)
        }
    }
}

/// Dictionaries as plain values, of which only those are looked at that rows have.
fn flat(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Dictionary(_, plain) => cast(values, plain).unwrap_or_else(|_| values.clone()),
        _ => values.clone(),
    }
}

/// The rows in which a finite number became an infinite one.
fn infinite_only_there(values: &ArrayRef, there: &ArrayRef) -> Vec<usize> {
    let (values, there) = (as_floats(values), as_floats(there));
    let is_unfit = |&row: &usize| {
        let pair = (values.as_primitive::<Float64Type>(), there.as_primitive::<Float64Type>());
        pair.0.is_valid(row) && pair.0.value(row).is_finite() && pair.1.value(row).is_infinite()
    };
    (0..values.len()).filter(is_unfit).collect()
}

/// The rows whose value does not come back as it was.
fn changed(values: &ArrayRef, there: &ArrayRef) -> std::result::Result<Vec<usize>, ArrowError> {
    let back = cast(there, values.data_type())?;
    if values.data_type().is_floating() {
        // By value: the zeros are one, and what is no number comes back as null.
        let (values, back) = (as_floats(values), as_floats(&back));
        let value = |array: &ArrayRef, row| {
            let array = array.as_primitive::<Float64Type>();
            array.is_valid(row).then(|| array.value(row))
        };
        let is_changed = |&row: &usize| value(&values, row) != value(&back, row);
        return Ok((0..values.len()).filter(is_changed).collect());
    }
    let (values, back) = (values.to_data(), back.to_data());
    if values == back {
        return Ok(Vec::new());
    }
    let is_changed = |&row: &usize| values.slice(row, 1) != back.slice(row, 1);
    Ok((0..values.len()).filter(is_changed).collect())
}

fn as_floats(values: &ArrayRef) -> ArrayRef {
    cast(values, &DataType::Float64).expect("floats widen")
}

/// Bytes of the strings and binary that are laid out as views, which may share them.
fn view_bytes(values: &ArrayRef) -> u64 {
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => values.as_binary_view().lengths().map(u64::from).sum(),
        _ => {
            let data = values.to_data();
            data.child_data().iter().map(|child| view_bytes(&make_array(child.clone()))).sum()
        }
    }
}

/// Large strings or binary, if they are a slice that begins too far behind, with offsets that count from it.
fn with_small_offsets(values: &ArrayRef) -> ArrayRef {
    fn small<T: ByteArrayType<Offset = i64>>(values: &GenericByteArray<T>) -> ArrayRef {
        let offsets = values.value_offsets();
        let (first, past_last) = (offsets[0], offsets[values.len()]);
        if past_last <= i64::from(i32::MAX) {
            return Arc::new(values.clone());
        }
        let bytes = values.values().slice_with_length(first as usize, (past_last - first) as usize);
        let offsets: Vec<i64> = offsets.iter().map(|offset| offset - first).collect();
        let offsets = OffsetBuffer::new(offsets.into());
        Arc::new(GenericByteArray::<T>::new(offsets, bytes, values.nulls().cloned()))
    }
    match values.data_type() {
        DataType::LargeUtf8 => small::<LargeUtf8Type>(values.as_bytes()),
        DataType::LargeBinary => small::<LargeBinaryType>(values.as_bytes()),
        _ => values.clone(),
    }
}

#[cfg(test)]
mod tests;
