//! Moments and what clocks show in their zone: casts to timestamps without a zone, and the beginning of days.
//!
//! Arrow 59 reads a timestamp without a zone in the zone that it is cast to, and the date and the time of day of a moment are those of its
//! zone. Only cast to a timestamp it keeps the digits in UTC, and would not be the same moment when it is cast back. And it
//! refuses the midnight of days on which clocks skip it, or show it twice.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime_with_timezone;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    ArrowTimestampType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use chrono::{MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone};
use datafusion::arrow::compute::cast;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind, type_name};

use crate::error::to_datafusion;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

/// Zones whose clocks show the digits in UTC.
const UTC: [&str; 5] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "+00:00"];

/// No zone is as far from UTC.
const FARTHEST: TimeDelta = TimeDelta::hours(27);

/// The rule, to be run once types have been brought together.
#[derive(Debug)]
pub struct ClockTimes;

impl AnalyzerRule for ClockTimes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            change_parts(plan, &mut |part| on_clock(part, &schema))
        })
    }

    fn name(&self) -> &str {
        "clock_times"
    }
}

/// The expression, of coerced types, with moments as a clock shows them where it casts them.
pub fn with_clock_times(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| on_clock(part, schema))?.data)
}

fn on_clock(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (moment, to, gives_null) = match &part {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return Ok(Transformed::no(part)),
    };
    let DataType::Timestamp(to, None) = to else { return Ok(Transformed::no(part)) };
    let zone = match moment.get_type(schema)? {
        DataType::Timestamp(_, Some(zone)) if !UTC.contains(&zone.as_ref()) => zone,
        _ => return Ok(Transformed::no(part)),
    };
    // In the unit that is asked for, which may have the clock's time where the moment's has not.
    let in_unit = DataType::Timestamp(*to, Some(zone));
    let moment = match gives_null {
        false => Expr::Cast(Cast::new(moment.clone(), in_unit)),
        true => Expr::TryCast(TryCast::new(moment.clone(), in_unit)),
    };
    Ok(Transformed::yes(ScalarUDF::new_from_impl(ClockTime::new(gives_null)).call(vec![moment])))
}

/// The first moment of a day, or of each of many, in the unit and the zone of a timestamp.
pub fn first_moment(day: Expr, timestamp: &DataType) -> Expr {
    ScalarUDF::new_from_impl(FirstMoment::new(timestamp.clone())).call(vec![day])
}

/// Calls `$with::<T>(...)` with the Arrow type of timestamps of a unit.
macro_rules! with_unit {
    ($unit:expr, $with:ident, $($arg:expr),*) => {
        match $unit {
            TimeUnit::Second => $with::<TimestampSecondType>($($arg),*),
            TimeUnit::Millisecond => $with::<TimestampMillisecondType>($($arg),*),
            TimeUnit::Microsecond => $with::<TimestampMicrosecondType>($($arg),*),
            TimeUnit::Nanosecond => $with::<TimestampNanosecondType>($($arg),*),
        }
    };
}

/// What a clock shows at moments, in their unit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ClockTime {
    /// For a time beyond the type, which else is an error.
    gives_null: bool,
    signature: Signature,
}

impl ClockTime {
    fn new(gives_null: bool) -> ClockTime {
        ClockTime { gives_null, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ClockTime {
    fn name(&self) -> &str {
        "to_local_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match &arg_types[0] {
            DataType::Timestamp(unit, _) => Ok(DataType::Timestamp(*unit, None)),
            other => internal_err!("a clock shows no {other}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        mapped(&args.args[0], |moments| {
            let DataType::Timestamp(unit, Some(zone)) = moments.data_type() else {
                return internal_err!("{} has no zone", moments.data_type());
            };
            with_unit!(unit, shown, moments, zone.parse()?, self.gives_null)
        })
    }
}

fn shown<T: ArrowTimestampType>(
    moments: &ArrayRef,
    zone: Tz,
    gives_null: bool,
) -> Result<ArrayRef> {
    let on_clock = |moment: i64| {
        let moment = as_datetime_with_timezone::<T>(moment, zone)?;
        T::from_naive_datetime(moment.naive_local(), None)
    };
    let clock_times: PrimitiveArray<T> = moments.as_primitive::<T>().unary_opt(on_clock);
    match gives_null || clock_times.null_count() == moments.null_count() {
        true => Ok(Arc::new(clock_times)),
        false => Err(beyond(&T::DATA_TYPE)),
    }
}

/// The first moments of days.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstMoment {
    /// With a zone.
    timestamp: DataType,
    signature: Signature,
}

impl FirstMoment {
    fn new(timestamp: DataType) -> FirstMoment {
        FirstMoment { timestamp, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FirstMoment {
    fn name(&self) -> &str {
        "first_moment"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.timestamp.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Timestamp(unit, Some(zone)) = &self.timestamp else {
            return internal_err!("{} has no zone", self.timestamp);
        };
        mapped(&args.args[0], |days| {
            let days = cast(days, &DataType::Date32)?;
            let days = days.as_primitive::<Date32Type>();
            with_unit!(unit, first_moments, days, zone)
        })
    }
}

fn first_moments<T: ArrowTimestampType>(
    days: &PrimitiveArray<Date32Type>,
    zone: &Arc<str>,
) -> Result<ArrayRef> {
    let in_zone: Tz = zone.parse()?;
    let moment = |day: i32| {
        let first = first_moment_of(Date32Type::to_naive_date_opt(day)?, &in_zone)?;
        T::from_naive_datetime(first, None)
    };
    let moments: PrimitiveArray<T> = days.unary_opt(moment);
    match moments.null_count() == days.null_count() {
        true => Ok(Arc::new(moments.with_timezone(zone.clone()))),
        false => Err(beyond(&T::DATA_TYPE)),
    }
}

/// Midnight in UTC, the first one if clocks show it twice. If they skip it, when they do so. `None` beyond all years.
fn first_moment_of(day: NaiveDate, zone: &Tz) -> Option<NaiveDateTime> {
    let midnight = day.and_time(NaiveTime::MIN);
    match zone.offset_from_local_datetime(&midnight) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
            midnight.checked_sub_offset(offset.fix())
        }
        MappedLocalTime::None => {
            let is_of_day = |moment: NaiveDateTime| {
                let offset = zone.offset_from_utc_datetime(&moment).fix();
                moment.checked_add_offset(offset).is_some_and(|clock| clock >= midnight)
            };
            let mut before = midnight.checked_sub_signed(FARTHEST)?;
            let mut after = midnight.checked_add_signed(FARTHEST)?;
            while after - before > TimeDelta::seconds(1) {
                let half = before + TimeDelta::seconds((after - before).num_seconds() / 2);
                *(if is_of_day(half) { &mut after } else { &mut before }) = half;
            }
            Some(after)
        }
    }
}

fn mapped(
    value: &ColumnarValue,
    map: impl FnOnce(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(map(array)?),
        ColumnarValue::Scalar(scalar) => {
            let one = map(&scalar.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
        }
    })
}

fn beyond(timestamp: &DataType) -> DataFusionError {
    let message = format!(
        "a time is beyond the range of {} in its zone; use a coarser unit, or leave it out",
        type_name(timestamp)
    );
    to_datafusion(Error::new(ErrorKind::OutOfRange, message))
}
