//! Frames of windows over a range of values.
//!
//! A window that names no frame reaches to the current row and those that are equal to it. DataFusion 55.2 has it as a range of
//! values, which is an internal error for types that it cannot subtract. Groups of equal rows are the same where a
//! frame begins and ends at the current row, or at the first or last of all.
//!
//! A distance is brought to the type of the sorted column there. One that is too large for it reached to the end of all
//! rows, and one that is finer was rounded, so that an hour from a day was the day itself. Here the column is brought
//! to a type that has the distance, in the same order: windows that share a sort still do.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind, type_name};

use crate::error::to_datafusion;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up};

/// The rule, to be run before types are brought together.
#[derive(Debug)]
pub struct RangeFrames;

impl AnalyzerRule for RangeFrames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            if !matches!(plan, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(plan));
            }
            let schema = schema_of_expressions(&plan);
            change_parts(plan, &mut |part| with_exact_frame(part, &schema))
        })
    }

    fn name(&self) -> &str {
        "range_frames"
    }
}

fn with_exact_frame(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(function) = &mut part else { return Ok(Transformed::no(part)) };
    let params = &mut function.params;
    let frame = &params.window_frame;
    let is_range = frame.units == WindowFrameUnits::Range;
    let Some(first) = params.order_by.first_mut().filter(|_| is_range) else {
        return Ok(Transformed::no(part));
    };
    let data_type = first.expr.get_type(schema)?;
    let distances: Vec<&ScalarValue> =
        [&frame.start_bound, &frame.end_bound].into_iter().filter_map(distance).collect();
    if !distances.is_empty() {
        let with_distances = type_with(&data_type, &distances)?;
        let is_same = with_distances == data_type;
        if !is_same {
            first.expr = cast(first.expr.clone(), with_distances);
        }
        return Ok(if is_same { Transformed::no(part) } else { Transformed::yes(part) });
    }
    if is_subtracted(&data_type) {
        return Ok(Transformed::no(part));
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Ok(Transformed::yes(part))
}

/// How far a frame reaches from the current row, if that is neither to its equals nor to the end.
fn distance(bound: &WindowFrameBound) -> Option<&ScalarValue> {
    match bound {
        WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) => {
            Some(far).filter(|far| !far.is_null())
        }
        WindowFrameBound::CurrentRow => None,
    }
}

/// Whether DataFusion has frames of a range of such values.
fn is_subtracted(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Null | Boolean | Date32 | Date64 | Timestamp(..) => true,
        List(_) | LargeList(_) | FixedSizeList(..) => true,
        Dictionary(_, values) => is_subtracted(values),
        other => other.is_numeric() || other.is_string(),
    }
}

/// The most digits of a decimal: whole numbers have 20, which leaves room for sums and for a fraction.
const DECIMAL_DIGITS: u8 = 38;

/// A whole number of 64 bits and this fraction have no more digits.
const DECIMAL_SCALE_MAX: i8 = 18;

/// A type that has values of `data_type` and sums of them and `distances`.
fn type_with(data_type: &DataType, distances: &[&ScalarValue]) -> Result<DataType> {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => type_with(values, distances),
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32
            if distances.iter().all(|far| is_short(far)) =>
        {
            Ok(Int64)
        }
        other if other.is_integer() => decimal_with(0, distances),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => {
            decimal_with(*scale, distances)
        }
        Date32 => Ok(match finest_unit(distances)? {
            Some(unit) => Timestamp(unit, None),
            None => Date32,
        }),
        Timestamp(unit, zone) => Ok(Timestamp(
            finest_unit(distances)?.map_or(*unit, |finest| finest.max(*unit)),
            zone.clone(),
        )),
        Float16 | Float32 | Float64 | Decimal256(..) => {
            distances.iter().try_for_each(|far| checked_number(far).map(drop))?;
            Ok(data_type.clone())
        }
        Null | Date64 => Ok(data_type.clone()),
        other => Err(invalid(format!(
            "a window over a range of distances cannot be in the order of {}; use ROWS or GROUPS instead of RANGE",
            type_name(other)
        ))),
    }
}

/// Whether a distance is a whole number of 32 bits. As far from one of these there is room in 64.
fn is_short(far: &ScalarValue) -> bool {
    text_of(far).parse::<u32>().is_ok()
}

fn decimal_with(scale: i8, distances: &[&ScalarValue]) -> Result<DataType> {
    let mut scale = scale;
    for far in distances {
        let text = checked_number(far)?;
        if text.contains(['e', 'E']) || scale_of(&text) > DECIMAL_SCALE_MAX {
            let what = "a number without an exponent and with at most 18 digits after the point";
            return Err(invalid(format!(
                "the distance of a window by RANGE must be {what}, got {text}"
            )));
        }
        scale = scale.max(scale_of(&text));
    }
    Ok(DataType::Decimal128(DECIMAL_DIGITS, scale))
}

/// A distance between numbers as it is written.
fn checked_number(far: &ScalarValue) -> Result<String> {
    let text = text_of(far);
    let number: f64 = text.parse().map_err(|_| {
        invalid(format!("a window over a range of numbers cannot reach to {text:?}; use a number"))
    })?;
    if number.is_finite() && number >= 0.0 {
        return Ok(text);
    }
    let what = "the distance of a window by RANGE must be finite and not negative, got";
    Err(invalid(format!("{what} {text}; choose between PRECEDING and FOLLOWING")))
}

/// The digits after the point of a number as it is written.
fn scale_of(number: &str) -> i8 {
    let fraction = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    i8::try_from(fraction).unwrap_or(i8::MAX)
}

/// The unit that distances in time need, where one is not of whole days.
fn finest_unit(distances: &[&ScalarValue]) -> Result<Option<TimeUnit>> {
    let units = distances.iter().map(|far| unit_of(far)).collect::<Result<Vec<_>>>()?;
    Ok(units.into_iter().flatten().max())
}

fn unit_of(far: &ScalarValue) -> Result<Option<TimeUnit>> {
    let text = text_of(far);
    let of_words = || {
        let example = "use an interval, as in INTERVAL '1 day'";
        invalid(format!("a window over a range of times cannot reach to {text:?}; {example}"))
    };
    // A number alone would be of months.
    if text.trim().parse::<f64>().is_ok() {
        return Err(of_words());
    }
    let interval = far.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
    let Ok(ScalarValue::IntervalMonthDayNano(Some(interval))) = interval else {
        return Err(of_words());
    };
    if interval.months < 0 || interval.days < 0 || interval.nanoseconds < 0 {
        let what = "the distance of a window by RANGE must not be negative, got";
        return Err(invalid(format!("{what} {text:?}; choose between PRECEDING and FOLLOWING")));
    }
    let units = [
        (1_000_000_000, TimeUnit::Second),
        (1_000_000, TimeUnit::Millisecond),
        (1_000, TimeUnit::Microsecond),
    ];
    let whole = units.into_iter().find(|(nanoseconds, _)| interval.nanoseconds % nanoseconds == 0);
    let unit = whole.map_or(TimeUnit::Nanosecond, |(_, unit)| unit);
    Ok((interval.nanoseconds != 0).then_some(unit))
}

fn text_of(far: &ScalarValue) -> String {
    far.try_as_str().flatten().map_or_else(|| far.to_string(), str::to_owned)
}

fn invalid(message: String) -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}
