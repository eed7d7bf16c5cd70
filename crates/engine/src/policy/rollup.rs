//! Rollup: events become rows of metrics, rows of one key become one, and metrics become what is shown.
//!
//! A stored row is *partial*: its metrics cover some of its key's events, and rows of several pieces add up
//! to the whole. Beside the metrics stand hidden counts, of events and of the values of each nullable input,
//! null where there are as many as events: an average is a sum over such a count. Integer sums are kept in 128 bits; float sums carry what rounding
//! left over (Neumaier, 1974), null where that is nothing, so the order in which rows are folded hardly shows. What is shown is made
//! last, and a sum that does not fit its type is an error, never a wrapped number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, UInt64Array,
    new_null_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use drillcore_format::narrowing::restored;
use drillcore_format::rows::{Groups, Layout, Rows};
use drillcore_format::schema::{
    MergePolicy, MetricKind, Rollup, StoredGranularity, StoredMetric, TableSchema,
};

use crate::error::{Error, ErrorKind, Result};
use crate::policy::batch_coder::BatchCoder;

/// One partial row per event, in the order of the batch, which has exactly the columns of the events.
pub fn partial_rows(
    layout: &Layout,
    rollup: &Rollup,
    events: &RecordBatch,
    coder: &BatchCoder,
) -> Rows {
    let schema = layout.schema();
    let len = events.num_rows();
    let key_columns: Vec<ArrayRef> = schema
        .key
        .iter()
        .enumerate()
        .map(|(position, &column)| {
            let values = events.column_by_name(schema.columns.field(column).name());
            let values = values.expect("the events have the key's columns");
            match rollup.time == Some(position) {
                true => truncate(values, rollup.granularity),
                false => values.clone(),
            }
        })
        .collect();
    let mut values = no_values(layout, len);
    values[0] = Arc::new(UInt64Array::from(vec![1; len]));
    for (at, column) in schema.counted_inputs().into_iter().enumerate() {
        let input = events.column(column);
        values[1 + at] = match input.null_count() {
            0 => new_null_array(&DataType::UInt64, len),
            _ => Arc::new(UInt64Array::from_iter(
                (0..len).map(|row| input.is_null(row).then_some(0)),
            )),
        };
    }
    for (metric, at) in rollup.metrics.iter().zip(metric_values(layout)) {
        let input = metric.input.map(|column| events.column(column));
        values[at] = match (metric.kind, input) {
            (MetricKind::Count, _) => Arc::new(Int64Array::from(vec![1; len])),
            (MetricKind::Sum | MetricKind::Avg, Some(input)) if is_float(input.data_type()) => {
                values[at + 1] = new_null_array(&DataType::Float64, len);
                Arc::new(as_float(input))
            }
            (MetricKind::Sum | MetricKind::Avg, Some(input)) => {
                Arc::new(of_sums(as_integer(input).unary(i128::from)))
            }
            (_, Some(input)) if is_float(input.data_type()) => Arc::new(as_float(input)),
            (_, Some(input)) => Arc::new(as_integer(input)),
            (_, None) => unreachable!("create_table gives every metric but a count an input"),
        }
    }
    let (keys, codes) = coder.next_batch().keys(&key_columns);
    Rows::new(len, None, values).with_keys(keys, codes.map(Arc::new))
}

/// Folds groups of rows with all values, which may be held narrowed, each in the order of its rows.
///
/// # Errors
/// `Corrupt` if a count or a sum of integers fits its type no more, which needs more events than there can be.
pub fn fold(layout: &Layout, rollup: &Rollup, rows: &Rows, groups: &Groups) -> Result<Rows> {
    if groups.len() == rows.len() {
        return Ok(rows.clone());
    }
    // What is added up has types that hold every sum.
    let rows = &rows.restored(layout.value_types());
    let sums = Sums { groups };
    let mut values = no_values(layout, groups.len());
    let events = sums.add_counts(rows.value(0))?;
    for (hidden, counts) in values[..layout.hidden_values()].iter_mut().enumerate().skip(1) {
        *counts = sums.add_differing(rows.value(hidden), rows.value(0), &events)?;
    }
    values[0] = events;
    for (metric, at) in rollup.metrics.iter().zip(metric_values(layout)) {
        let stored = rows.value(at);
        values[at] = match (metric.kind, stored.data_type()) {
            (MetricKind::Count, _) => sums.add_integers(stored)?,
            (MetricKind::Sum | MetricKind::Avg, DataType::Float64) => {
                let (total, left_over) = sums.add_floats(stored, rows.value(at + 1));
                values[at + 1] = left_over;
                total
            }
            (MetricKind::Sum | MetricKind::Avg, _) => sums.add_decimals(stored)?,
            (MetricKind::Min, _) => sums.extreme(stored, true),
            (MetricKind::Max, _) => sums.extreme(stored, false),
        }
    }
    let folded = Rows::new(groups.len(), None, values);
    Ok(match rows.has_keys() {
        true => {
            let keys = rows.keys().take(groups.representatives());
            folded.with_keys(keys, rows.key_codes().cloned())
        }
        false => folded,
    })
}

/// What is shown of whole rows, whose values may be held narrowed: the given columns of the table's schema. A sum that does not fit
/// matters only where it is asked for.
pub fn shown(
    layout: &Layout,
    rollup: &Rollup,
    rows: &Rows,
    columns: &[usize],
) -> Result<RecordBatch> {
    let schema = layout.schema();
    let value = |at: usize| restored(rows.value(at), &layout.value_types()[at]);
    let events = value(0);
    let counts = |metric: &StoredMetric| value(counts_of_input(schema, metric));
    let mut values = Vec::with_capacity(rollup.metrics.len());
    for (metric, column) in rollup.metrics.iter().zip(metric_columns(schema)) {
        let at = layout.value_of(column).expect("a metric is not in the key");
        if !columns.contains(&column) {
            // Never looked at, it only keeps the place of its column.
            values.push(rows.value(at).clone());
            continue;
        }
        let stored = value(at);
        values.push(match (metric.kind, stored.data_type()) {
            (MetricKind::Sum, DataType::Float64) => Arc::new(totals(&stored, &value(at + 1))),
            (MetricKind::Sum, _) => narrow(schema.columns.field(column).name(), &stored)?,
            (MetricKind::Avg, DataType::Float64) => {
                let (sums, counts) = (totals(&stored, &value(at + 1)), counts(metric));
                averages(sums.iter(), differing(&counts, &events))
            }
            (MetricKind::Avg, _) => {
                let (sums, counts) = (stored.as_primitive::<Decimal128Type>(), counts(metric));
                let sums = sums.iter().map(|sum| sum.map(|sum| sum as f64));
                averages(sums, differing(&counts, &events))
            }
            _ => stored,
        });
    }
    Ok(plain(schema).decode(&rows.with_values(values), columns)?)
}

/// The layout of shown values: they stand where a table without hidden values has its own.
fn plain(schema: &TableSchema) -> Layout {
    Layout::new(&TableSchema {
        merge: MergePolicy::Append,
        weights: Vec::new(),
        stored: Default::default(),
        ..schema.clone()
    })
}

/// A null for each value of `len` rows. Those of metrics that were dropped stay so.
fn no_values(layout: &Layout, len: usize) -> Vec<ArrayRef> {
    let nothing = new_null_array(&DataType::Null, len);
    vec![nothing; layout.value_types().len()]
}

/// The first value of each metric, in order.
fn metric_values(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    let first = |column| layout.value_of(column).expect("a metric is not in the key");
    metric_columns(layout.schema()).map(first)
}

/// The value that says how many of each row's events have one in the input of a metric.
fn counts_of_input(schema: &TableSchema, metric: &StoredMetric) -> usize {
    let counted = schema.counted_inputs();
    let place = counted.iter().position(|&column| Some(column) == metric.input);
    // Where nulls are not allowed, all have one.
    place.map_or(0, |place| 1 + place)
}

/// Counts that are null where they are as many as the events.
fn differing<'r>(counts: &'r ArrayRef, events: &'r ArrayRef) -> impl Iterator<Item = u64> + 'r {
    let events = events.as_primitive::<UInt64Type>().values();
    let counts = counts.as_primitive::<UInt64Type>();
    counts.iter().zip(events).map(|(count, &events)| count.unwrap_or(events))
}

/// Sums of floats together with what rounding left over of them.
fn totals(sums: &ArrayRef, left_over: &ArrayRef) -> Float64Array {
    let sums = sums.as_primitive::<Float64Type>().iter();
    let left_over = left_over.as_primitive::<Float64Type>();
    let total =
        |(sum, rest): (Option<f64>, Option<f64>)| Some(with_one_nan(sum? + rest.unwrap_or(0.0)));
    sums.zip(left_over).map(total).collect()
}

/// Sums over counts; there is a sum where the count is not zero.
fn averages(
    sums: impl Iterator<Item = Option<f64>>,
    counts: impl Iterator<Item = u64>,
) -> ArrayRef {
    let average =
        |(sum, count): (Option<f64>, u64)| sum.map(|sum| with_one_nan(sum / count as f64));
    Arc::new(sums.zip(counts).map(average).collect::<Float64Array>())
}

/// What is computed has the NaN of the machine, which may have its sign set.
fn with_one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// The indexes of the metrics' columns, in order.
fn metric_columns(schema: &TableSchema) -> impl Iterator<Item = usize> + '_ {
    (0..schema.columns.fields().len()).filter(|column| !schema.key.contains(column))
}

/// Rounds moments down to a step of the granularity, counted from 1970-01-01 00:00 UTC.
fn truncate(values: &ArrayRef, granularity: StoredGranularity) -> ArrayRef {
    let StoredGranularity::Seconds(seconds) = granularity else { return values.clone() };
    let DataType::Timestamp(unit, _) = values.data_type() else {
        unreachable!("create_table truncates timestamps only")
    };
    let step = i64::from(seconds)
        * match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
    let numbers = cast(values, &DataType::Int64).expect("a timestamp is an integer");
    // A step below the least number is as far down as there is.
    let down = |value: i64| value.checked_sub(value.rem_euclid(step)).unwrap_or(i64::MIN);
    let truncated: Int64Array = numbers.as_primitive::<Int64Type>().unary(down);
    cast(&truncated, values.data_type()).expect("an integer is a timestamp")
}

fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

fn as_float(values: &ArrayRef) -> Float64Array {
    let values = cast(values, &DataType::Float64).expect("floats widen");
    values.as_primitive::<Float64Type>().clone()
}

fn as_integer(values: &ArrayRef) -> Int64Array {
    let values =
        cast(values, &DataType::Int64).expect("create_table refuses unsigned 64-bit inputs");
    values.as_primitive::<Int64Type>().clone()
}

/// Sums of integers, as they are stored.
fn of_sums(sums: Decimal128Array) -> Decimal128Array {
    sums.with_data_type(DataType::Decimal128(38, 0))
}

/// A sum as the 64-bit integer that is shown.
fn narrow(name: &str, sums: &ArrayRef) -> Result<ArrayRef> {
    let narrowed = sums.as_primitive::<Decimal128Type>().iter().map(|sum| match sum {
        None => Ok(None),
        Some(sum) => i64::try_from(sum).map(Some).map_err(|_| {
            let message = format!(
                "the sum {name:?} is {sum}, which does not fit a 64-bit integer; use a float \
                 column for this metric"
            );
            Error::new(ErrorKind::OutOfRange, message)
        }),
    });
    Ok(Arc::new(narrowed.collect::<Result<Int64Array>>()?))
}

/// What the rows of each group add up to.
struct Sums<'g> {
    groups: &'g Groups,
}

impl Sums<'_> {
    /// Folds the values of each group in the order of its rows, from `empty` on.
    fn fold<V, S: Clone>(
        &self,
        values: impl Iterator<Item = V>,
        empty: S,
        mut add: impl FnMut(&mut S, V),
    ) -> Vec<S> {
        let mut sums = vec![empty; self.groups.len()];
        for (value, &group) in values.zip(self.groups.of_rows()) {
            add(&mut sums[group as usize], value);
        }
        sums
    }

    fn add_counts(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = values.as_primitive::<UInt64Type>().values();
        Ok(Arc::new(UInt64Array::from(self.counted(values.iter().copied())?)))
    }

    /// Counts that are null where they are as many as the events: before, given with the events of the rows, and after, of
    /// which `added` are the events.
    fn add_differing(
        &self,
        values: &ArrayRef,
        events: &ArrayRef,
        added: &ArrayRef,
    ) -> Result<ArrayRef> {
        if values.null_count() == values.len() {
            return Ok(new_null_array(&DataType::UInt64, self.groups.len()));
        }
        let counts = self.counted(differing(values, events))?;
        let added = added.as_primitive::<UInt64Type>().values();
        let counts = counts.iter().zip(added);
        let counts = counts.map(|(&count, &events)| Some(count).filter(|_| count != events));
        Ok(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn counted(&self, counts: impl Iterator<Item = u64>) -> Result<Vec<u64>> {
        let mut fits = true;
        let sums = self.fold(counts, 0u64, |sum, count| {
            let (added, is_too_large) = sum.overflowing_add(count);
            (*sum, fits) = (added, fits & !is_too_large);
        });
        if fits { Ok(sums) } else { Err(too_large()) }
    }

    fn add_integers(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = values.as_primitive::<Int64Type>().values();
        let mut fits = true;
        let sums = self.fold(values.iter(), 0i64, |sum, &count| {
            let (added, is_too_large) = sum.overflowing_add(count);
            (*sum, fits) = (added, fits & !is_too_large);
        });
        if fits { Ok(Arc::new(Int64Array::from(sums))) } else { Err(too_large()) }
    }

    fn add_decimals(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = values.as_primitive::<Decimal128Type>();
        let mut fits = true;
        let sums = self.fold(values.iter(), None, |sum: &mut Option<i128>, value| {
            let Some(value) = value else { return };
            let (added, is_too_large) = sum.unwrap_or(0).overflowing_add(value);
            (*sum, fits) = (Some(added), fits & !is_too_large);
        });
        if fits { Ok(Arc::new(of_sums(Decimal128Array::from(sums)))) } else { Err(too_large()) }
    }

    /// Sums, and what rounding left over of them.
    fn add_floats(&self, sums: &ArrayRef, left_over: &ArrayRef) -> (ArrayRef, ArrayRef) {
        let sums = sums.as_primitive::<Float64Type>();
        let left_over = left_over.as_primitive::<Float64Type>();
        let rest = |row| if left_over.is_valid(row) { left_over.value(row) } else { 0.0 };
        if sums.null_count() == 0 {
            // Nothing, added to a sum, leaves it as it is, its sign included.
            let nothing = (-0.0, 0.0);
            let rests = left_over.null_count() < left_over.len();
            let parts = sums.values().iter().enumerate();
            let totals = self.fold(parts, nothing, |total, (row, &sum)| {
                *total = add_compensated(*total, (sum, if rests { rest(row) } else { 0.0 }));
            });
            let sums = Float64Array::from_iter_values(totals.iter().map(|(sum, _)| *sum));
            let left_over = totals.iter().map(|(_, rest)| Some(*rest).filter(|rest| *rest != 0.0));
            return (Arc::new(sums), Arc::new(left_over.collect::<Float64Array>()));
        }
        let parts = sums.iter().enumerate();
        let totals = self.fold(parts, None, |total: &mut Option<(f64, f64)>, (row, sum)| {
            let Some(sum) = sum else { return };
            let part = (sum, rest(row));
            *total = Some(total.map_or(part, |before| add_compensated(before, part)));
        });
        let of_total = |total: Option<(f64, f64)>| {
            let (sum, rest) = total.unzip();
            (sum, rest.filter(|&rest| rest != 0.0))
        };
        let (sums, left_over): (Vec<_>, Vec<_>) = totals.into_iter().map(of_total).unzip();
        (Arc::new(Float64Array::from(sums)), Arc::new(Float64Array::from(left_over)))
    }

    /// The least or the greatest value that is not null; NaN is above all numbers.
    fn extreme(&self, values: &ArrayRef, least: bool) -> ArrayRef {
        fn keep<V: Copy>(kept: &mut Option<V>, value: Option<V>, pick: impl Fn(V, V) -> V) {
            *kept = match (*kept, value) {
                (Some(kept), Some(value)) => Some(pick(kept, value)),
                (kept, value) => kept.or(value),
            };
        }
        if is_float(values.data_type()) {
            let values = values.as_primitive::<Float64Type>();
            // A NaN that was computed often has its sign bit set, which `total_cmp` alone heeds.
            let order = |a: f64, b: f64| a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(&b));
            let pick = |a: f64, b: f64| if order(a, b).is_lt() == least { a } else { b };
            let kept = self.fold(values.iter(), None, |kept, value| keep(kept, value, pick));
            return Arc::new(Float64Array::from(kept));
        }
        let values = values.as_primitive::<Int64Type>();
        let pick = |a: i64, b: i64| if least { a.min(b) } else { a.max(b) };
        let kept = self.fold(values.iter(), None, |kept, value| keep(kept, value, pick));
        Arc::new(Int64Array::from(kept))
    }
}

/// Partial rows claim more events than any table has.
fn too_large() -> Error {
    Error::damaged("partial rows of one key have more events than possible: they are damaged")
}

/// Adds two sums with what rounding left over of each.
fn add_compensated(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let sum = a.0 + b.0;
    let lost = if a.0.abs() >= b.0.abs() { (a.0 - sum) + b.0 } else { (b.0 - sum) + a.0 };
    // Infinities leave no number over.
    let left_over = if sum.is_finite() { a.1 + b.1 + lost } else { 0.0 };
    (sum, left_over)
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn float_sums_keep_what_rounding_would_lose() {
        let parts = [1e16, 1.0, -1e16, 1.0, 0.5];
        let (sum, left_over) =
            parts.iter().map(|&part| (part, 0.0)).reduce(add_compensated).unwrap();
        assert_eq!(sum + left_over, 2.5);
        assert_ne!(parts.iter().sum::<f64>(), 2.5, "plain addition loses it");
        let infinite = add_compensated((f64::INFINITY, 0.0), (1.0, 0.0));
        assert_eq!(infinite.0 + infinite.1, f64::INFINITY);
    }

    #[test]
    fn float_sums_are_the_same_with_and_without_nulls_between() {
        let values = [-0.0, 1e16, 1.0, -1e16, 1.0, f64::INFINITY, 0.5, f64::NAN, -0.0];
        let ends = [1, 5, 6, 7, 8, 9];
        let plain: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let with_nulls: ArrayRef = Arc::new(
            values.iter().flat_map(|value| [Some(*value), None]).collect::<Float64Array>(),
        );
        let rests = |of: &ArrayRef| new_null_array(&DataType::Float64, of.len());
        let doubled = ends.map(|end| 2 * end);
        let add = |ends: &[u32], values: &ArrayRef| {
            let groups = Groups::of_neighbours(ends);
            let (sums, left_over) = Sums { groups: &groups }.add_floats(values, &rests(values));
            let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
                array.as_primitive::<Float64Type>().iter().map(|of| of.map(f64::to_bits)).collect()
            };
            (bits(&sums), bits(&left_over))
        };
        let (sums, left_over) = add(&ends, &plain);
        assert_eq!(
            (&sums, &left_over),
            (&add(&doubled, &with_nulls).0, &add(&doubled, &with_nulls).1)
        );
        assert_eq!(sums[0], Some((-0.0f64).to_bits()));
        assert_eq!((sums[1], left_over[1]), (Some(1.0f64.to_bits()), Some(1.0f64.to_bits())));
    }

    #[test]
    fn counts_of_values_are_kept_where_they_differ_from_the_events() {
        let counts = |of: &[Option<u64>]| -> ArrayRef { Arc::new(UInt64Array::from(of.to_vec())) };
        let groups = Groups::of_neighbours(&[2, 4, 5]);
        let sums = Sums { groups: &groups };
        let events = counts(&[1, 1, 2, 3, 5].map(Some));
        let added = sums.add_counts(&events).unwrap();
        let add = |values: &ArrayRef| sums.add_differing(values, &events, &added).unwrap();
        let kept = add(&counts(&[None, Some(0), None, None, Some(2)]));
        assert_eq!(&kept, &counts(&[Some(1), None, Some(2)]));
        assert_eq!(&add(&counts(&[None; 5])), &counts(&[None; 3]));
        let events = differing(&kept, &added).collect::<Vec<_>>();
        assert_eq!(events, [1, 5, 2]);
    }

    #[test]
    fn nan_of_either_sign_is_above_all_numbers() {
        for nan in [f64::NAN, -f64::NAN] {
            let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, nan, -2.0]));
            let sums = Sums { groups: &Groups::of_neighbours(&[3]) };
            let least = sums.extreme(&values, true);
            assert_eq!(least.as_primitive::<Float64Type>().value(0), -2.0);
            let greatest = sums.extreme(&values, false);
            assert!(greatest.as_primitive::<Float64Type>().value(0).is_nan());
        }
    }

    #[test]
    fn the_values_of_a_nullable_input_are_counted_once_whatever_is_made_of_them() {
        let fields = ["id", "delay", "unused", "weight"];
        let field = |name: &str| Field::new(name, DataType::Int64, name != "weight");
        let events = Arc::new(Schema::new(fields.map(field).to_vec()));
        let metric = |kind, input| StoredMetric { kind, input: Some(input) };
        let (least, most) = (metric(MetricKind::Min, 1), metric(MetricKind::Max, 1));
        let mean = metric(MetricKind::Avg, 3);
        let rollup = Rollup {
            events: events.clone(),
            time: None,
            granularity: StoredGranularity::None,
            metrics: vec![least, most, mean],
            declared: 1,
            discovers: false,
        };
        let shown = ["id", "least", "most", "mean"].map(field);
        let layout = Layout::new(&TableSchema {
            merge: MergePolicy::Rollup(rollup.clone()),
            ..TableSchema::new(Arc::new(Schema::new(shown.to_vec())), vec![0])
        });
        let numbers = |values: [Option<i64>; 4]| Arc::new(Int64Array::from(values.to_vec()));
        let columns: Vec<ArrayRef> = vec![
            numbers([Some(1); 4]),
            numbers([Some(5), None, None, Some(7)]),
            numbers([None; 4]),
            numbers([Some(2); 4]),
        ];
        let events = RecordBatch::try_new(events, columns).unwrap();
        let rows = partial_rows(&layout, &rollup, &events, &BatchCoder::default());
        let fold = |rows: &Rows, ends: &[u32]| {
            fold(&layout, &rollup, rows, &Groups::of_neighbours(ends)).unwrap()
        };
        let folded = fold(&fold(&rows, &[3, 4]), &[2]);
        let count = |at: usize| folded.value(at).as_primitive::<UInt64Type>().value(0);
        assert_eq!((count(0), count(1)), (4, 2));
        assert_eq!(folded.values().len(), 2 + 3, "events, delays, and three metrics");
    }

    #[test]
    fn time_is_rounded_down_before_and_after_1970() {
        let seconds: ArrayRef =
            Arc::new(arrow_array::TimestampSecondArray::from(vec![0, 3599, 3600, -1, i64::MIN]));
        let truncated = truncate(&seconds, StoredGranularity::Seconds(3600));
        let expected = arrow_array::TimestampSecondArray::from(vec![0, 0, 3600, -3600, i64::MIN]);
        assert_eq!(truncated.as_ref(), &expected as &dyn Array);
    }
}
