//! `percentile_cont` and `median` of floats: between two values to the last digit, and never beyond them.
//!
//! DataFusion 55.2 rounds how far a percentile lies between two values down to millionths, so that of 0 and 1e9, say, the result
//! is wrong by up to 1,000; and it adds up the two values of a median, which may be infinite then. It gathers the values
//! here, and the percentile is taken from what it hands on.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, ListArray, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion::arrow::compute::cast;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::median::Median;
use datafusion::functions_aggregate::percentile_cont::PercentileCont;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, Expr,
    GroupsAccumulator, Signature,
};

use crate::functions::float_extremes::{FloatMax, FloatMin};

/// `percentile_cont` or `median`. Whole numbers are floats of 64 bits here; medians of decimals are as DataFusion has them.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct ExactPercentile<T> {
    inner: T,
}

pub type ExactPercentileCont = ExactPercentile<PercentileCont>;
pub type ExactMedian = ExactPercentile<Median>;

/// An aggregate that is one percentile of its values.
trait OnePercentile: AggregateUDFImpl {
    /// From 0 to 1, from the least value on. Of arguments that DataFusion has checked.
    fn percentile(args: &AccumulatorArgs) -> Result<f64>;
}

impl OnePercentile for PercentileCont {
    fn percentile(args: &AccumulatorArgs) -> Result<f64> {
        let no_rows = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let ColumnarValue::Scalar(ScalarValue::Float64(Some(percentile))) =
            args.exprs[1].evaluate(&no_rows)?
        else {
            return internal_err!("the percentile is not a number");
        };
        let is_descending = args.order_bys.first().is_some_and(|by| by.options.descending);
        Ok(if is_descending { 1.0 - percentile } else { percentile })
    }
}

impl OnePercentile for Median {
    fn percentile(_: &AccumulatorArgs) -> Result<f64> {
        Ok(0.5)
    }
}

impl<T: OnePercentile> AggregateUDFImpl for ExactPercentile<T>
where
    ExactPercentile<T>: PartialEq + Eq + std::hash::Hash,
{
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let values = self.inner.accumulator(args.clone())?;
        match Shown::of::<T>(&args)? {
            None => Ok(values),
            Some(shown) => {
                Ok(Box::new(Percentile { values, shown, keeps_values: args.is_distinct }))
            }
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let values = self.inner.create_groups_accumulator(args.clone())?;
        Ok(match Shown::of::<T>(&args)? {
            None => values,
            Some(shown) => Box::new(Percentiles { values, shown }),
        })
    }

    /// The percentiles 0 and 1 are a minimum and a maximum, but ours.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let simplify = self.inner.simplify()?;
        Some(Box::new(move |function, info| {
            let mut simplified = simplify(function, info)?;
            if let Expr::AggregateFunction(function) = &mut simplified {
                match function.func.name() {
                    "min" => {
                        function.func = Arc::new(AggregateUDF::new_from_impl(FloatMin::default()))
                    }
                    "max" => {
                        function.func = Arc::new(AggregateUDF::new_from_impl(FloatMax::default()))
                    }
                    _ => {}
                }
            }
            Ok(simplified)
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Which percentile is shown, and its type.
#[derive(Debug)]
struct Shown {
    /// From 0 to 1, from the least value on.
    percentile: f64,
    data_type: DataType,
}

impl Shown {
    /// `None` for decimals and nulls, whose percentile is as DataFusion has it.
    fn of<T: OnePercentile>(args: &AccumulatorArgs) -> Result<Option<Shown>> {
        let data_type = args.expr_fields[0].data_type();
        if !data_type.is_floating() {
            return Ok(None);
        }
        Ok(Some(Shown { percentile: T::percentile(args)?, data_type: data_type.clone() }))
    }

    /// The percentile of each of the lists, null for those without a value.
    fn of_lists(&self, lists: &ListArray) -> Result<ArrayRef> {
        let mut values = floats(lists.values())?;
        let percentiles: Float64Array = lists
            .offsets()
            .windows(2)
            .map(|ends| {
                percentile_of(&mut values[ends[0] as usize..ends[1] as usize], self.percentile)
            })
            .collect();
        Ok(cast(&percentiles, &self.data_type)?)
    }
}

/// The floats in a column that has no nulls.
fn floats(column: &ArrayRef) -> Result<Vec<f64>> {
    let floats = cast(column, &DataType::Float64)?;
    Ok(floats.as_primitive::<Float64Type>().values().to_vec())
}

/// The percentile of values in any order, linear between the two around it. Orders them anew. Takes time by their number.
fn percentile_of(values: &mut [f64], percentile: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let place = percentile * last as f64;
    let below = place.floor() as usize;
    let (_, &mut lower, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let share = place - below as f64;
    match above.iter().copied().min_by(f64::total_cmp) {
        Some(upper) if share > 0.0 => Some(between(lower, upper, share)),
        _ => Some(lower),
    }
}

/// What lies between two values, a share of the way from the lower one on.
fn between(lower: f64, upper: f64, share: f64) -> f64 {
    match upper - lower {
        // Rounded once.
        _ if share == 0.5 => lower.midpoint(upper),
        // Of equal infinities there is no distance.
        _ if lower == upper => lower,
        // A distance across zero loses digits, and may be beyond all floats.
        distance if distance.is_finite() && (lower < 0.0) == (upper < 0.0) => {
            lower + distance * share
        }
        _ => lower * (1.0 - share) + upper * share,
    }
}

/// The percentile of all rows, or of those in a window.
#[derive(Debug)]
struct Percentile {
    values: Box<dyn Accumulator>,
    shown: Shown,
    /// Whether it still has the values once it has handed them on. In DataFusion 55.2, those of `distinct` are copied, and
    /// others taken.
    keeps_values: bool,
}

impl Accumulator for Percentile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.values.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let [ScalarValue::List(list)] = &state[..] else {
            return internal_err!("values are not handed on as a list");
        };
        let mut values = floats(list.values())?;
        let percentile = percentile_of(&mut values, self.shown.percentile);
        let as_given = |floats: Float64Array| cast(&floats, &self.shown.data_type);
        if !self.keeps_values {
            // The next row of a window asks again, and finds it sooner in values that are in order by half.
            self.values.update_batch(&[as_given(values.into())?])?;
        }
        ScalarValue::try_from_array(&as_given(Float64Array::from(vec![percentile]))?, 0)
    }

    fn size(&self) -> usize {
        self.values.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }
}

/// The percentiles of many groups.
struct Percentiles {
    values: Box<dyn GroupsAccumulator>,
    shown: Shown,
}

impl GroupsAccumulator for Percentiles {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.values.update_batch(values, groups, filter, group_count)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.values.merge_batch(states, groups, group_count)
    }

    fn evaluate(&mut self, groups: EmitTo) -> Result<ArrayRef> {
        let state = self.values.state(groups)?;
        self.shown.of_lists(state[0].as_list())
    }

    fn state(&mut self, groups: EmitTo) -> Result<Vec<ArrayRef>> {
        self.values.state(groups)
    }

    /// Each row as a group of its own.
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        // DataFusion 55.2 hands in the percentile, too, and panics if it gets it back.
        self.values.convert_to_state(&values[..1], filter)
    }

    fn size(&self) -> usize {
        self.values.size()
    }
}
