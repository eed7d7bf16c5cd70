//! Numbers with a point and times, as literals, mean what they spell beside decimals and timestamps.
//!
//! DataFusion reads `99999.99` as a float and compares a decimal with what that float is exactly,
//! 99999.990000000005 and so on, which it never equals. Where a decimal is on the other side, the shortest
//! decimal that reads as that float takes its place: it is what was written, up to 15 digits. Numbers with a point and
//! more digits have to be written in quotes.
//!
//! It reads times as nanoseconds, of which 64 bits hold the years 1677 to 2262, and compares dates and timestamps as
//! nanoseconds, too. Beside a timestamp of a coarser unit, a time out of these years is read in that unit, and a date
//! becomes that unit, which hold more years.
//!
//! Of `timestamp '...'` with an offset it keeps the digits in UTC, and reads these as a clock's in the zone of the column. Here the
//! text is read as what it says.
//!
//! Beside a duration, an interval of days and less is one. DataFusion makes an interval of the duration, of nanoseconds only, and
//! takes any of them for shorter than a day.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::rules::clock_times::first_moment;
use crate::rules::finer_times::{is_finer, with_coarser_ends, with_coarser_time};
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

/// Digits of a decimal of 128 bits.
const DIGITS_MAX: usize = 38;
const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;

/// Applies [`with_literals_as_compared`] to whole plans; to be run before types are brought together.
#[derive(Debug)]
pub struct ComparedLiterals;

impl AnalyzerRule for ComparedLiterals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            let changed = change_parts(plan, &mut |part| spelled(part, &schema))?;
            changed.map_data(LogicalPlan::recompute_schema)
        })
    }

    fn name(&self) -> &str {
        "compared_literals"
    }
}

/// The expression with literals of the kind that they are compared with.
pub fn with_literals_as_compared(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| spelled(part, schema))?.data)
}

fn spelled(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let beside = |operands, other: &Expr| match other.get_type(schema) {
        Ok(other) => as_compared(operands, &other, schema),
        Err(_) => Ok(operands),
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            if let Some(coarser) = beside_coarser(&left, op, &right, schema) {
                return Ok(Transformed::yes(coarser));
            }
            let mut of_left = beside(vec![left.as_ref().clone()], &right)?;
            let mut of_right = beside(vec![*right], &left)?;
            let [left, right] = [&mut of_left, &mut of_right].map(|one| Box::new(one.remove(0)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = beside(list, &expr)?;
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(between) => {
            let between = match between.expr.get_type(schema) {
                Ok(compared) => with_coarser_ends(between, &compared),
                Err(_) => between,
            };
            let Between { expr, negated, low, high } = between;
            let mut ends = beside(vec![*low, *high], &expr)?;
            let [low, high] = [0, 0].map(|at| Box::new(ends.remove(at)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        expr => Transformed::no(expr),
    })
}

/// A comparison with a time that is finer than the other side, as one with a coarser time.
fn beside_coarser(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of_left = left.get_type(schema).ok()?;
    let of_right = right.get_type(schema).ok()?;
    with_coarser_time(left, op, right, &of_left)
        .or_else(|| with_coarser_time(right, op.swap()?, left, &of_right))
}

/// Operands that are compared with something of a type.
fn as_compared(operands: Vec<Expr>, other: &DataType, schema: &DFSchema) -> Result<Vec<Expr>> {
    let each = |change: &dyn Fn(&Expr) -> Option<Expr>| {
        operands.iter().map(|operand| change(operand).unwrap_or_else(|| operand.clone())).collect()
    };
    Ok(match other {
        DataType::Decimal128(..) | DataType::Decimal256(..) => each(&as_decimal),
        DataType::Duration(_) => each(&|operand| as_duration(operand, other)),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => operands,
        DataType::Timestamp(unit, zone) => {
            operands.iter().try_for_each(|operand| check_digits(operand, unit))?;
            // All or none, so that they are still of one type.
            let is_beyond = operands.iter().any(|operand| is_beyond_nanoseconds(operand, other));
            each(&|operand| match operand.get_type(schema) {
                Ok(DataType::Date32 | DataType::Date64) => Some(as_midnight(operand, other)),
                _ if is_beyond || (zone.is_some() && is_moment(operand)) => as_time(operand, other),
                _ => None,
            })
        }
        _ => operands,
    })
}

/// Whether an operator compares two values.
pub fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The decimal that a literal number spells, if it has few enough digits.
fn as_decimal(expr: &Expr) -> Option<Expr> {
    let (text, metadata) = match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) if value.is_finite() => {
            (value.to_string(), metadata)
        }
        // As long as it is, not as its type may be.
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => (value.to_string(), metadata),
        _ => return None,
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    let precision = digits.trim_start_matches('-').len();
    if precision > DIGITS_MAX {
        return None;
    }
    let number = digits.parse::<i128>().ok()?;
    let decimal = ScalarValue::Decimal128(Some(number), precision as u8, fraction.len() as i8);
    Some(Expr::Literal(decimal, metadata.clone()))
}

/// A literal interval without months as a duration. As an interval, a duration would be nanoseconds only, which come last where
/// intervals are compared.
fn as_duration(expr: &Expr, compared: &DataType) -> Option<Expr> {
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), metadata) = expr else {
        return None;
    };
    if interval.months != 0 {
        return None;
    }
    let nanoseconds = i64::from(interval.days)
        .checked_mul(NANOSECONDS_OF_DAY)?
        .checked_add(interval.nanoseconds)?;
    let duration = ScalarValue::DurationNanosecond(Some(nanoseconds));
    let in_unit = duration.cast_to(compared).ok()?;
    // What is finer than the unit stays as it is.
    let is_exact = in_unit.cast_to(&duration.data_type()).ok()? == duration;
    is_exact.then(|| Expr::Literal(in_unit, metadata.clone()))
}

/// Whether a time, given as text, can be read in the unit of a timestamp and not in nanoseconds.
fn is_beyond_nanoseconds(expr: &Expr, compared: &DataType) -> bool {
    let DataType::Timestamp(_, zone) = compared else { return false };
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
    as_time(expr, &nanoseconds).is_none() && as_time(expr, compared).is_some()
}

/// The time that a text, or a text cast to a timestamp, spells, in the type that it is compared with.
fn as_time(expr: &Expr, compared: &DataType) -> Option<Expr> {
    let DataType::Timestamp(unit, _) = compared else { return None };
    let (text, is_cast) = time_text(expr)?;
    let mut time = ScalarValue::Utf8(Some(text.to_string()));
    if is_cast && !has_offset(text) {
        time = time.cast_to(&DataType::Timestamp(*unit, None)).ok()?;
    }
    Some(Expr::Literal(time.cast_to(compared).ok()?, None))
}

/// Whether it is said of a text that it is a time, and it says how far from UTC.
fn is_moment(expr: &Expr) -> bool {
    time_text(expr).is_some_and(|(text, is_cast)| is_cast && has_offset(text))
}

/// Whether a time is the same wherever it is read.
fn has_offset(text: &str) -> bool {
    let text = ScalarValue::Utf8(Some(text.to_string()));
    let read_in = |zone: &str| {
        let read = text.cast_to(&DataType::Timestamp(TimeUnit::Second, Some(zone.into())));
        match read {
            Ok(ScalarValue::TimestampSecond(time, _)) => time,
            _ => None,
        }
    };
    read_in("+00:00").is_some() && read_in("+00:00") == read_in("+01:00")
}

/// A literal text that is read as a time, and whether that is said.
fn time_text(expr: &Expr) -> Option<(&str, bool)> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some((text, false)),
        Expr::Cast(Cast { expr, field })
            if *field.data_type() == DataType::Timestamp(TimeUnit::Nanosecond, None) =>
        {
            time_text(expr).map(|(text, _)| (text, true))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "to_timestamp" => {
            match args.as_slice() {
                [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Some((text, true)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Refuses times with more digits than the unit has: DataFusion 55.2 drops these, and so takes neighbours for equal.
fn check_digits(expr: &Expr, unit: &TimeUnit) -> Result<()> {
    let compared = DataType::Timestamp(*unit, None);
    let text = match time_text(expr) {
        Some((text, _)) => text,
        None if is_finer(expr, &compared) => {
            let message =
                format!("{expr} is finer than the timestamps that it is compared with; round it");
            return Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)));
        }
        None => return Ok(()),
    };
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let (digits_max, of) = match unit {
        TimeUnit::Second => (0, "seconds"),
        TimeUnit::Millisecond => (3, "milliseconds"),
        TimeUnit::Microsecond => (6, "microseconds"),
        TimeUnit::Nanosecond => return Ok(()),
    };
    if digits.trim_end_matches('0').len() <= digits_max {
        return Ok(());
    }
    let message = format!(
        "'{text}' has more digits than the timestamp in {of} that it is compared with; shorten it"
    );
    Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)))
}

/// A date as its first moment in the unit and the zone of a timestamp.
fn as_midnight(date: &Expr, compared: &DataType) -> Expr {
    match compared {
        DataType::Timestamp(_, Some(_)) => first_moment(date.clone(), compared),
        _ => Expr::Cast(Cast::new(Box::new(date.clone()), compared.clone())),
    }
}
