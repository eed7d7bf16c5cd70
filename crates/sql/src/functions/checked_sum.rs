//! `sum`, and `avg` of durations, in 128 bits: an error where the result does not fit its type.
//!
//! DataFusion 55.2 adds in the type of the result and wraps. Here no order of rows and no split among threads wraps on
//! the way, and what is shown at the end is checked.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, DecimalType,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Int64Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::arrow::compute::{and, is_not_null, not, nullif};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use datafusion::physical_expr::NullState;
use drillcore::{Error, ErrorKind, type_name};

use crate::error::to_datafusion;
use crate::functions::checked_arithmetic::named;
use crate::functions::sliding_floats::SlidingFloats;

/// Digits of a decimal of 128 bits.
const DIGITS_MAX: u8 = 38;

/// `sum` of integers, floats, decimals and durations.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    sum: Sum,
}

/// `avg`, which divides such a sum where it is of durations. Other types are averaged as floats and wider decimals
/// already.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckedAvg {
    avg: Avg,
}

/// Calls `$with::<T>(...)` with the Arrow type of a result that is summed up in 128 bits.
macro_rules! with_type {
    ($data_type:expr, $with:ident, $($arg:expr),*) => {
        match $data_type {
            DataType::Int64 => $with::<Int64Type>($($arg),*),
            DataType::UInt64 => $with::<UInt64Type>($($arg),*),
            DataType::Decimal32(..) => $with::<Decimal32Type>($($arg),*),
            DataType::Decimal64(..) => $with::<Decimal64Type>($($arg),*),
            DataType::Decimal128(..) => $with::<Decimal128Type>($($arg),*),
            DataType::Duration(TimeUnit::Second) => $with::<DurationSecondType>($($arg),*),
            DataType::Duration(TimeUnit::Millisecond) => $with::<DurationMillisecondType>($($arg),*),
            DataType::Duration(TimeUnit::Microsecond) => $with::<DurationMicrosecondType>($($arg),*),
            DataType::Duration(TimeUnit::Nanosecond) => $with::<DurationNanosecondType>($($arg),*),
            other => internal_err!("{other} is not summed up in 128 bits"),
        }
    };
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.sum.name()
    }

    fn signature(&self) -> &Signature {
        self.sum.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match &arg_types[0] {
            refused @ (DataType::Decimal256(..) | DataType::Interval(_)) => plan_err!(
                "sum does not support {refused}; it supports numbers of up to {DIGITS_MAX} digits, and durations"
            ),
            _ => self.sum.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let shown = Shown::of(&args);
        match (args.return_type(), args.is_distinct) {
            (DataType::Float64, _) => self.sum.accumulator(args),
            (data_type, false) => with_type!(data_type, total, shown),
            (data_type, true) => {
                let values = self.sum.accumulator(args.clone())?;
                with_type!(data_type, distinct, values, shown)
            }
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.return_type() {
            data_type if !args.is_distinct && *data_type != DataType::Float64 => {
                let name = format_state_name(args.name, "sum");
                Ok(vec![Field::new(name, total_type(data_type), true).into()])
            }
            _ => self.sum.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.sum.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_type() {
            DataType::Float64 => self.sum.create_groups_accumulator(args),
            data_type => with_type!(data_type, totals, Shown::of(&args)),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let shown = Shown::of(&args);
        match (args.return_type(), args.is_distinct) {
            (DataType::Float64, false) => Ok(Box::new(SlidingFloats::sum())),
            (DataType::Float64, true) => self.sum.create_sliding_accumulator(args),
            (_, false) => self.accumulator(args),
            (data_type, true) => {
                let values = self.sum.create_sliding_accumulator(args.clone())?;
                with_type!(data_type, distinct, values, shown)
            }
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.sum.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.sum.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.sum.set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.sum.documentation()
    }
}

impl AggregateUDFImpl for CheckedAvg {
    fn name(&self) -> &str {
        self.avg.name()
    }

    fn aliases(&self) -> &[String] {
        self.avg.aliases()
    }

    fn signature(&self) -> &Signature {
        self.avg.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match &arg_types[0] {
            refused @ DataType::Decimal256(..) => plan_err!(
                "avg does not support {refused}; it supports numbers of up to {DIGITS_MAX} digits, and durations"
            ),
            _ => self.avg.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_type() {
            data_type @ DataType::Duration(_) if !args.is_distinct => {
                with_type!(data_type, mean, Shown::of(&args))
            }
            _ => self.avg.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.return_type() {
            data_type @ DataType::Duration(_) if !args.is_distinct => {
                let field = |name, data_type| {
                    Field::new(format_state_name(args.name, name), data_type, true).into()
                };
                Ok(vec![field("count", DataType::UInt64), field("sum", total_type(data_type))])
            }
            _ => self.avg.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !matches!(args.return_type(), DataType::Duration(_))
            && self.avg.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.avg.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (args.return_type(), args.is_distinct) {
            (DataType::Float64, false) => Ok(Box::new(SlidingFloats::average())),
            _ => self.accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.avg.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.avg.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.avg.documentation()
    }
}

/// The type of a sum on its way.
fn total_type(shown: &DataType) -> DataType {
    DataType::Decimal128(DIGITS_MAX, scale(shown))
}

fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// What a result is called, and its type.
#[derive(Debug)]
struct Shown {
    name: String,
    data_type: DataType,
}

impl Shown {
    fn of(args: &AccumulatorArgs) -> Shown {
        Shown { name: args.name.to_string(), data_type: args.return_type().clone() }
    }

    /// The sum in the type of the result.
    fn narrow<T: Summed>(&self, total: i128) -> Result<T::Native> {
        let has_digits = match self.data_type {
            DataType::Decimal32(digits, _)
            | DataType::Decimal64(digits, _)
            | DataType::Decimal128(digits, _) => total.unsigned_abs() < 10_u128.pow(digits.into()),
            _ => true,
        };
        let narrowed = T::Native::try_from(total).ok().filter(|_| has_digits);
        narrowed.ok_or_else(|| self.out_of_range(Some(total)))
    }

    fn out_of_range(&self, total: Option<i128>) -> DataFusionError {
        let scale = scale(&self.data_type);
        let total = match total {
            Some(total) => Decimal128Type::format_decimal(total, DIGITS_MAX, scale),
            None => format!("longer than {DIGITS_MAX} digits"),
        };
        let (name, data_type) = (&self.name, &self.data_type);
        let message = match data_type.is_integer() {
            true => format!(
                "{name} is {total}, which does not fit {}; cast the values to decimal(38, 0), or to double if an \
                 approximation will do",
                named(data_type)
            ),
            false => {
                format!("{name} is {total}, which does not fit {}", type_name(data_type))
            }
        };
        to_datafusion(Error::new(ErrorKind::OutOfRange, message))
    }
}

/// Arrow types of values that are summed up in 128 bits.
trait Summed:
    ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> + fmt::Debug + Send + Sync
{
}

impl<T> Summed for T where
    T: ArrowPrimitiveType<Native: Into<i128> + TryFrom<i128>> + fmt::Debug + Send + Sync
{
}

/// One sum, of a table, a group or a window.
#[derive(Debug)]
struct Total<T> {
    shown: Shown,
    total: i128,
    /// How many values are in it; without one it is null.
    count: u64,
    summed: PhantomData<T>,
}

fn total<T: Summed>(shown: Shown) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Total::<T>::new(shown)))
}

impl<T: Summed> Total<T> {
    fn new(shown: Shown) -> Total<T> {
        Total { shown, total: 0, count: 0, summed: PhantomData }
    }

    fn add<V: Summed>(&mut self, values: &PrimitiveArray<V>) -> Result<()> {
        let sum = sum_of(values).and_then(|sum| self.total.checked_add(sum));
        self.total = sum.ok_or_else(|| self.shown.out_of_range(None))?;
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn total(&self) -> ScalarValue {
        let total = (self.count > 0).then_some(self.total);
        ScalarValue::Decimal128(total, DIGITS_MAX, scale(&self.shown.data_type))
    }

    fn shown(&self, value: impl FnOnce(i128, u64) -> i128) -> Result<ScalarValue> {
        let value = match self.count {
            0 => None,
            count => Some(self.shown.narrow::<T>(value(self.total, count))?),
        };
        ScalarValue::new_primitive::<T>(value, &self.shown.data_type)
    }
}

/// The sum of all values but nulls; `None` if 128 bits do not hold it.
fn sum_of<T: Summed>(values: &PrimitiveArray<T>) -> Option<i128> {
    match values.null_count() {
        0 => values.values().iter().try_fold(0_i128, |sum, &value| sum.checked_add(value.into())),
        _ => values.iter().flatten().try_fold(0_i128, |sum, value| sum.checked_add(value.into())),
    }
}

impl<T: Summed> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive::<T>())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        let sum = sum_of(values).and_then(|sum| self.total.checked_sub(sum));
        self.total = sum.ok_or_else(|| self.shown.out_of_range(None))?;
        self.count -= (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.total()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states[0].as_primitive::<Decimal128Type>())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.shown(|total, _| total)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.shown.name.capacity()
    }
}

/// A sum of different values, which DataFusion collects.
#[derive(Debug)]
struct Distinct<T> {
    values: Box<dyn Accumulator>,
    sum: Total<T>,
}

fn distinct<T: Summed>(values: Box<dyn Accumulator>, shown: Shown) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Distinct::<T> { values, sum: Total::new(shown) }))
}

impl<T: Summed> Accumulator for Distinct<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.values.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        (self.sum.total, self.sum.count) = (0, 0);
        for state in self.values.state()? {
            let ScalarValue::List(values) = state else {
                return internal_err!("different values come as a list");
            };
            self.sum.add(values.values().as_primitive::<T>())?;
        }
        self.sum.evaluate()
    }

    fn size(&self) -> usize {
        self.values.size() + self.sum.size()
    }
}

/// An average of durations: a sum, divided.
#[derive(Debug)]
struct Mean<T> {
    sum: Total<T>,
}

fn mean<T: Summed>(shown: Shown) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Mean::<T> { sum: Total::new(shown) }))
}

impl<T: Summed> Accumulator for Mean<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.sum.count)), self.sum.total()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let before = self.sum.count;
        self.sum.merge_batch(&states[1..])?;
        let counts = states[0].as_primitive::<UInt64Type>();
        self.sum.count = before + counts.iter().flatten().sum::<u64>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.sum.shown(|total, count| total / i128::from(count))
    }

    fn size(&self) -> usize {
        self.sum.size()
    }
}

/// The sums of many groups.
struct Totals<T> {
    shown: Shown,
    totals: Vec<i128>,
    /// Which groups have a value.
    seen: NullState,
    summed: PhantomData<T>,
}

fn totals<T: Summed>(shown: Shown) -> Result<Box<dyn GroupsAccumulator>> {
    let seen = NullState::new();
    Ok(Box::new(Totals::<T> { shown, totals: Vec::new(), seen, summed: PhantomData }))
}

impl<T: Summed> Totals<T> {
    fn add<V: Summed>(
        &mut self,
        values: &PrimitiveArray<V>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.totals.resize(group_count, 0);
        let totals = &mut self.totals[..];
        let mut is_beyond = false;
        // Narrower values would have to be more than 2^64 to get there.
        let is_wide = size_of::<V::Native>() == size_of::<i128>();
        self.seen.accumulate(groups, values, filter, group_count, |group, value| {
            let total = &mut totals[group];
            let value: i128 = value.into();
            if is_wide {
                is_beyond |= total.checked_add(value).is_none();
            }
            *total = total.wrapping_add(value);
        });
        if is_beyond { Err(self.shown.out_of_range(None)) } else { Ok(()) }
    }

    fn take(&mut self, groups: EmitTo) -> Decimal128Array {
        let totals = groups.take_needed(&mut self.totals);
        let totals = Decimal128Array::new(totals.into(), self.seen.build(groups));
        totals.with_data_type(total_type(&self.shown.data_type))
    }
}

impl<T: Summed> GroupsAccumulator for Totals<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.add(values[0].as_primitive::<T>(), groups, filter, group_count)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.add(states[0].as_primitive::<Decimal128Type>(), groups, None, group_count)
    }

    fn evaluate(&mut self, groups: EmitTo) -> Result<ArrayRef> {
        let totals = self.take(groups);
        let shown: PrimitiveArray<T> = totals.try_unary(|total| self.shown.narrow::<T>(total))?;
        Ok(Arc::new(shown.with_data_type(self.shown.data_type.clone())))
    }

    fn state(&mut self, groups: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(groups))])
    }

    /// Each row as a group of its own.
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let totals: Decimal128Array = values[0].as_primitive::<T>().unary(Into::into);
        let totals = totals.with_data_type(total_type(&self.shown.data_type));
        Ok(vec![match filter {
            None => Arc::new(totals),
            Some(filter) => {
                let is_left_out = not(&and(filter, &is_not_null(filter)?)?)?;
                nullif(&totals, &is_left_out)?
            }
        }])
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<i128>() + self.seen.size()
    }
}
