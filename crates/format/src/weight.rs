//! Weights: what a row counts for in a draw by weight.
//!
//! Integers count as they are. Floats are counted in steps of 2⁻³², so that sums of weights are exact
//! integers and draws are exactly proportional; a weight is off by at most 2⁻³³.

use std::hint::black_box;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

/// Units in a float weight of one.
pub const FLOAT_STEPS: f64 = (1u64 << 32) as f64;

/// The most weight columns of a table: their number is a byte in its index pages.
pub const WEIGHTS_MAX: usize = u8::MAX as usize;

/// Why a value is no weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWeight {
    /// There is no value.
    Null,
    /// A number below zero.
    Negative,
    /// NaN or an infinity.
    NotFinite,
    /// A float of 2³² or more.
    TooLarge,
}

/// Whether a column of this type can be a weight.
pub fn is_weight_type(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// A number that can be a weight.
pub(crate) trait Weight: Copy {
    /// Its units always fit 32 bits, so sums of some weights fit 64.
    const IS_SMALL: bool = false;
    /// How many units it is.
    fn units(self) -> Result<u64, NoWeight>;
}

macro_rules! integer_weights {
    ($($native:ty),*) => {$(
        impl Weight for $native {
            const IS_SMALL: bool = size_of::<$native>() <= 4;
            #[inline]
            fn units(self) -> Result<u64, NoWeight> {
                u64::try_from(self).map_err(|_| NoWeight::Negative)
            }
        }
    )*};
}

integer_weights!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Weight for f32 {
    #[inline]
    fn units(self) -> Result<u64, NoWeight> {
        f64::from(self).units()
    }
}

impl Weight for f64 {
    #[inline]
    fn units(self) -> Result<u64, NoWeight> {
        if !self.is_finite() {
            return Err(NoWeight::NotFinite);
        }
        if self < 0.0 {
            return Err(NoWeight::Negative);
        }
        // Exact: the factor is a power of two. What follows rounds halves up without a call of a library.
        let steps = self * FLOAT_STEPS;
        let whole = steps as u64;
        let units = whole.saturating_add(u64::from(steps - whole as f64 >= 0.5));
        if steps >= u64::MAX as f64 { Err(NoWeight::TooLarge) } else { Ok(units) }
    }
}

/// Evaluates an expression with a name for the Arrow type of a weight column.
macro_rules! with_weight_type {
    ($data_type:expr, $Type:ident => $body:expr) => {{
        use arrow_array::types as t;
        use arrow_schema::DataType as D;
        macro_rules! with_type {
            ($type:ty) => {{
                type $Type = $type;
                $body
            }};
        }
        match $data_type {
            D::Int8 => with_type!(t::Int8Type),
            D::Int16 => with_type!(t::Int16Type),
            D::Int32 => with_type!(t::Int32Type),
            D::Int64 => with_type!(t::Int64Type),
            D::UInt8 => with_type!(t::UInt8Type),
            D::UInt16 => with_type!(t::UInt16Type),
            D::UInt32 => with_type!(t::UInt32Type),
            D::UInt64 => with_type!(t::UInt64Type),
            D::Float32 => with_type!(t::Float32Type),
            D::Float64 => with_type!(t::Float64Type),
            other => unreachable!("{other} was refused as a weight when the table was made"),
        }
    }};
}
pub(crate) use with_weight_type;

/// Each row's weight in units, or the first row that has none. The type is a weight type.
pub fn units(values: &ArrayRef) -> Result<Vec<u64>, (usize, NoWeight)> {
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        let row = (0..nulls.len()).find(|&row| nulls.is_null(row));
        return Err((row.expect("some are null"), NoWeight::Null));
    }
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>().values().iter().enumerate();
        values.map(|(row, value)| value.units().map_err(|why| (row, why))).collect()
    })
}

/// Each stored row's weight in units; the tombstones among them, which are null, weigh nothing.
pub fn stored_units(values: &ArrayRef) -> Result<Vec<u64>, (usize, NoWeight)> {
    if values.null_count() == 0 {
        return units(values);
    }
    (0..values.len())
        .map(|row| match values.is_null(row) {
            true => Ok(0),
            false => units(&values.slice(row, 1)).map(|one| one[0]).map_err(|(_, why)| (row, why)),
        })
        .collect()
}

/// The units before each `stride`th stored row, and those of all rows, or the first row whose value is no weight; tombstones,
/// which are null, weigh nothing. O(rows), with no memory but the result's.
pub fn running_sums(values: &ArrayRef, stride: usize) -> Result<Vec<u128>, (usize, NoWeight)> {
    let mut sums = Vec::with_capacity(values.len().div_ceil(stride) + 1);
    let mut sum = 0u128;
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        for (number, of_stride) in values.values().chunks(stride).enumerate() {
            sums.push(sum);
            for (row, value) in (number * stride..).zip(of_stride) {
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    sum += u128::from(value.units().map_err(|why| (row, why))?);
                }
            }
        }
    });
    sums.push(sum);
    Ok(sums)
}

/// What a processor loads at once.
const CACHE_LINE_BYTES: usize = 64;
/// Rows whose units are added up before it is asked whether one of them is wanted.
const TOGETHER: usize = 8;

/// The units of some stored rows. O(rows), without allocating. Every value was found to be a weight or null.
pub fn units_in(values: &dyn Array, rows: Range<usize>) -> u128 {
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>();
        let sum_from = |row| sum_of(&known_units(values, row..rows.end.min(row + TOGETHER)));
        rows.clone().step_by(TOGETHER).map(sum_from).sum()
    })
}

/// A row with a unit of weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOfUnit {
    /// The row's position among the stored rows.
    pub row: usize,
    /// What the row weighs.
    pub units: u64,
    /// Which of the row's units it is, counted from 0.
    pub within: u128,
}

/// Brings the weights of some stored rows into the cache. No load waits for another, as those of a search do.
pub fn load(values: &dyn Array, rows: impl Iterator<Item = Range<usize>>) {
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>().values();
        let per_line = CACHE_LINE_BYTES / size_of::<<T as ArrowPrimitiveType>::Native>();
        let load = |all, value: &<T as ArrowPrimitiveType>::Native| all ^ value.as_usize();
        black_box(rows.fold(0, |all, rows| values[rows].iter().step_by(per_line).fold(all, load)));
    });
}

/// Which of some stored rows has a unit, counted from 0 over them: for several units, each with its rows. Units of the same rows
/// ascend. O(rows up to that one), without allocating. Every value was found to be a weight or null, and a unit lies below the sum of
/// its rows.
pub fn rows_of_units(
    values: &dyn Array,
    sought: impl Iterator<Item = (Range<usize>, u128)>,
    mut each: impl FnMut(RowOfUnit),
) {
    with_weight_type!(values.data_type(), T => {
        let values = values.as_primitive::<T>();
        let (mut start, mut row, mut before) = (usize::MAX, 0, 0);
        for (rows, unit) in sought {
            // What was added up for one unit is not for the next.
            if rows.start != start {
                (start, row, before) = (rows.start, rows.start, 0);
            }
            let found = row_of_unit(values, row..rows.end, unit - before);
            (row, before) = (found.row, unit - found.within);
            each(found);
        }
    });
}

fn row_of_unit<T: ArrowPrimitiveType<Native: Weight>>(
    values: &PrimitiveArray<T>,
    rows: Range<usize>,
    unit: u128,
) -> RowOfUnit {
    if <T::Native as Weight>::IS_SMALL
        && let Ok(unit) = u64::try_from(unit)
    {
        return row_of_small_unit(values, rows, unit);
    }
    let (mut first, mut rest) = (rows.start, unit);
    loop {
        let weights = known_units(values, first..rows.end.min(first + TOGETHER));
        let sum = sum_of(&weights);
        if rest < sum {
            return row_among(first, &weights, rest);
        }
        rest -= sum;
        first += TOGETHER;
        assert!(first < rows.end, "the unit lies below the sum of all rows");
    }
}

/// The same of small weights. Which row of some has the unit is counted: to predict it would fail each time.
fn row_of_small_unit<T: ArrowPrimitiveType<Native: Weight>>(
    values: &PrimitiveArray<T>,
    rows: Range<usize>,
    unit: u64,
) -> RowOfUnit {
    let nulls = values.nulls();
    let (mut first, mut rest) = (rows.start, unit);
    loop {
        let end = rows.end.min(first + TOGETHER);
        let mut weights = [0; TOGETHER];
        // Of a null any number is held.
        match (values.values()[first..end].first_chunk::<TOGETHER>(), nulls) {
            (Some(all), None) => weights = all.map(|value| value.as_usize() as u32),
            (_, nulls) => {
                for (weight, row) in weights.iter_mut().zip(first..end) {
                    if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                        *weight = values.values()[row].as_usize() as u32;
                    }
                }
            }
        }
        let sum = weights.into_iter().map(u64::from).sum();
        if rest < sum {
            let (passed, before) = passed(weights.map(u64::from), rest);
            let (row, units) = (first + passed, u64::from(weights[passed]));
            return RowOfUnit { row, units, within: u128::from(rest - before) };
        }
        rest -= sum;
        first += TOGETHER;
        assert!(first < rows.end, "the unit lies below the sum of all rows");
    }
}

/// How many weights in a row lie before a unit, and their sum.
#[inline]
fn passed(weights: [u64; TOGETHER], unit: u64) -> (usize, u64) {
    let (mut count, mut before, mut sum) = (0, 0, 0);
    for weight in weights {
        sum += weight;
        let is_passed = sum <= unit;
        count += usize::from(is_passed);
        before = if is_passed { sum } else { before };
    }
    (count, before)
}

/// The row with a unit, of rows with some weights, the first of which has a number.
fn row_among(first: usize, weights: &[u64], unit: u128) -> RowOfUnit {
    let mut within = unit;
    for (row, &units) in (first..).zip(weights) {
        match within.checked_sub(u128::from(units)) {
            None => return RowOfUnit { row, units, within },
            Some(left) => within = left,
        }
    }
    unreachable!("the unit lies below the sum of the weights")
}

/// The weights of up to [`TOGETHER`] rows, and zeros behind them.
#[inline]
fn known_units<T: ArrowPrimitiveType<Native: Weight>>(
    values: &PrimitiveArray<T>,
    rows: Range<usize>,
) -> [u64; TOGETHER] {
    let mut weights = [0; TOGETHER];
    let known = values.values()[rows.clone()].iter().map(|value| value.units());
    match values.nulls() {
        None => {
            weights.iter_mut().zip(known).for_each(|(weight, units)| *weight = units.expect(WEIGHT))
        }
        Some(nulls) => {
            for ((weight, units), row) in weights.iter_mut().zip(known).zip(rows) {
                *weight = if nulls.is_null(row) { 0 } else { units.expect(WEIGHT) };
            }
        }
    }
    weights
}

/// What holds of values that were summed up before.
const WEIGHT: &str = "every value was found to be a weight or null";

/// The exact sum. Halves of 32 bits are summed apart, which cannot overflow and which processors do several at a time.
#[inline]
pub(crate) fn sum_of(weights: &[u64]) -> u128 {
    let low: u64 = weights.iter().map(|weight| weight & u64::from(u32::MAX)).sum();
    let high: u64 = weights.iter().map(|weight| weight >> 32).sum();
    (u128::from(high) << 32) + u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int32Array, Int64Array, UInt8Array, UInt32Array};
    use std::iter;
    use std::sync::Arc;

    #[test]
    fn the_row_of_a_unit_is_the_one_that_a_walk_finds_past_nulls_too() {
        let number = |row: i32| (row % 5 != 3).then_some(row * 7 % 4);
        let with_nulls: ArrayRef = Arc::new(Int32Array::from_iter((0..70).map(number)));
        let floats = (0..70).map(|row| f64::from(row * 3 % 5) / 1e10);
        let all_of = |most: i64| (0..70).map(move |row| most - row % 3);
        let of_each_kind: [ArrayRef; 5] = [
            with_nulls,
            Arc::new(Float64Array::from_iter_values(floats)),
            Arc::new(UInt8Array::from_iter_values(all_of(255).map(|weight| weight as u8))),
            Arc::new(UInt32Array::from_iter_values(all_of(1 << 31).map(|weight| weight as u32))),
            Arc::new(Int64Array::from_iter_values(all_of(i64::MAX))),
        ];
        for values in of_each_kind {
            let units = stored_units(&values).unwrap();
            for rows in [0..70, 3..70, 8..16, 5..6, 61..70] {
                let (mut sought, mut expected, mut before) = (Vec::new(), Vec::new(), 0);
                for row in rows.clone() {
                    assert_eq!(units_in(&values, rows.start..row), before);
                    let weight = units[row];
                    for unit in [0, 1, weight.saturating_sub(1)].into_iter().filter(|u| *u < weight)
                    {
                        let within = u128::from(unit);
                        sought.push((rows.clone(), before + within));
                        expected.push(RowOfUnit { row, units: weight, within });
                    }
                    before += u128::from(weight);
                }
                sought.sort_by_key(|(_, unit)| *unit);
                expected.sort_by_key(|found| (found.row, found.within));
                let mut found = Vec::new();
                rows_of_units(&values, sought.iter().cloned(), |row| found.push(row));
                assert_eq!(found, expected, "all of them in one call");
                for (sought, expected) in sought.into_iter().zip(expected) {
                    rows_of_units(&values, iter::once(sought), |found| assert_eq!(found, expected));
                }
            }
        }
    }

    #[test]
    fn integers_count_as_they_are_and_floats_in_fixed_steps() {
        let integers: ArrayRef = Arc::new(Int32Array::from(vec![0, 7]));
        assert_eq!(units(&integers), Ok(vec![0, 7]));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.5, 1e-12, 4e9]));
        assert_eq!(units(&floats), Ok(vec![0, 1 << 31, 0, 4_000_000_000 << 32]));
        // Halves of a step, and those next to one, are rounded as by the library.
        let steps = [0.5, 0.499_999_999_999_999_94, 1.5, 2.5, 4503599627370495.5, 9.3e18];
        let rounded = steps.iter().map(|steps: &f64| steps.round() as u64).collect();
        let floats: ArrayRef =
            Arc::new(Float64Array::from_iter_values(steps.map(|s| s / FLOAT_STEPS)));
        assert_eq!(units(&floats), Ok(rounded));
    }

    #[test]
    fn what_is_no_weight_is_named_by_row() {
        let refused = |values: Vec<Option<f64>>| {
            units(&(Arc::new(Float64Array::from(values)) as ArrayRef)).unwrap_err()
        };
        assert_eq!(refused(vec![Some(1.0), None]), (1, NoWeight::Null));
        assert_eq!(refused(vec![Some(-0.1)]), (0, NoWeight::Negative));
        assert_eq!(refused(vec![Some(f64::NAN)]), (0, NoWeight::NotFinite));
        assert_eq!(refused(vec![Some(f64::INFINITY)]), (0, NoWeight::NotFinite));
        assert_eq!(refused(vec![Some(4_294_967_296.0)]), (0, NoWeight::TooLarge));
    }
}
