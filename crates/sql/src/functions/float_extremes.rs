//! `min` and `max` with groups of floats: NaN above all numbers, and infinities as they are.
//!
//! DataFusion 55.2 starts each group at the greatest or least finite float, which is the answer then for a group of
//! infinities, and takes whatever it compares with NaN. Without groups, and for all other types, it does well.

use std::mem::size_of;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::{and, is_not_null, not, nullif};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::physical_expr::NullState;

/// `min` or `max`.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct FloatExtreme<T> {
    extreme: T,
}

pub type FloatMin = FloatExtreme<Min>;
pub type FloatMax = FloatExtreme<Max>;

impl<T: AggregateUDFImpl> AggregateUDFImpl for FloatExtreme<T>
where
    FloatExtreme<T>: PartialEq + Eq + std::hash::Hash,
{
    fn name(&self) -> &str {
        self.extreme.name()
    }

    fn signature(&self) -> &Signature {
        self.extreme.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.extreme.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.extreme.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let is_short = *args.return_type() == DataType::Float16;
        !is_short && self.extreme.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let is_min = self.name() == "min";
        Ok(match args.return_type() {
            DataType::Float32 if is_min => {
                extremes::<Float32Type>(f32::NAN, |new, old| new < old || old.is_nan())
            }
            DataType::Float64 if is_min => {
                extremes::<Float64Type>(f64::NAN, |new, old| new < old || old.is_nan())
            }
            DataType::Float32 => {
                extremes::<Float32Type>(f32::NEG_INFINITY, |new, old| new > old || new.is_nan())
            }
            DataType::Float64 => {
                extremes::<Float64Type>(f64::NEG_INFINITY, |new, old| new > old || new.is_nan())
            }
            _ => self.extreme.create_groups_accumulator(args)?,
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.extreme.create_sliding_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.extreme.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.extreme.order_sensitivity()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.extreme.coerce_types(arg_types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.extreme.reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.extreme.value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.extreme.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.extreme.set_monotonicity(data_type)
    }
}

/// The least or greatest floats of many groups.
struct Extremes<T: ArrowPrimitiveType + Send> {
    extremes: Vec<T::Native>,
    /// Which groups have a value.
    seen: NullState,
    /// What no value is beyond.
    first: T::Native,
    is_beyond: fn(T::Native, T::Native) -> bool,
}

fn extremes<T: ArrowPrimitiveType + Send>(
    first: T::Native,
    is_beyond: fn(T::Native, T::Native) -> bool,
) -> Box<dyn GroupsAccumulator> {
    let (extremes, seen) = (Vec::new(), NullState::new());
    Box::new(Extremes::<T> { extremes, seen, first, is_beyond })
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for Extremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.extremes.resize(group_count, self.first);
        let (extremes, is_beyond) = (&mut self.extremes[..], self.is_beyond);
        let values = values[0].as_primitive::<T>();
        self.seen.accumulate(groups, values, filter, group_count, |group, value| {
            if is_beyond(value, extremes[group]) {
                extremes[group] = value;
            }
        });
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, None, group_count)
    }

    fn evaluate(&mut self, groups: EmitTo) -> Result<ArrayRef> {
        let extremes = groups.take_needed(&mut self.extremes);
        Ok(Arc::new(PrimitiveArray::<T>::new(extremes.into(), self.seen.build(groups))))
    }

    fn state(&mut self, groups: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    /// Each row as a group of its own.
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(vec![match filter {
            None => Arc::clone(&values[0]),
            Some(filter) => {
                let is_left_out = not(&and(filter, &is_not_null(filter)?)?)?;
                nullif(&values[0], &is_left_out)?
            }
        }])
    }

    fn size(&self) -> usize {
        self.extremes.capacity() * size_of::<T::Native>() + self.seen.size()
    }
}
