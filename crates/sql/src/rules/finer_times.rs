//! Times that are finer than what they are compared with.
//!
//! DataFusion 55.2 brings both to the coarser unit, which drops digits: a column in seconds was not below 9:00:00.5
//! where it is 9:00:00. Here the comparison becomes one with the time in the coarser unit that means the same, so
//! indexes can still answer it. This is about times as values; those in texts are checked where texts are read.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::{Expr, Operator, binary_expr, lit};

/// The comparison `left op right` of something of type `compared` with a time that is finer, with a coarser time;
/// `None` if `right` is not such a time.
pub fn with_coarser_time(
    left: &Expr,
    op: Operator,
    right: &Expr,
    compared: &DataType,
) -> Option<Expr> {
    let below = lit_of(floor(right, compared)?);
    let with = |op, right: Expr| binary_expr(left.clone(), op, right);
    Some(match op {
        Operator::Lt | Operator::LtEq => with(Operator::LtEq, below),
        Operator::Gt | Operator::GtEq => with(Operator::Gt, below),
        // False, or null where there is nothing to compare.
        Operator::Eq => with(Operator::NotEq, left.clone()),
        Operator::NotEq => with(Operator::Eq, left.clone()),
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}

/// `BETWEEN` with ends in the unit of what is compared.
pub fn with_coarser_ends(between: Between, compared: &DataType) -> Between {
    let low = floor(&between.low, compared).and_then(|below| next(&below));
    let high = floor(&between.high, compared);
    Between {
        low: low.map_or(between.low, |low| Box::new(lit_of(low))),
        high: high.map_or(between.high, |high| Box::new(lit_of(high))),
        ..between
    }
}

/// Whether a literal time has more digits than what it is compared with.
pub fn is_finer(expr: &Expr, compared: &DataType) -> bool {
    floor(expr, compared).is_some()
}

fn lit_of(value: ScalarValue) -> Expr {
    Expr::Literal(value, None)
}

/// The last time before a literal one in a coarser unit, if the literal is between two.
fn floor(expr: &Expr, compared: &DataType) -> Option<ScalarValue> {
    let DataType::Timestamp(unit, _) = compared else { return None };
    let Expr::Literal(value, _) = expr else { return None };
    let (of, ticks, zone) = match value {
        ScalarValue::TimestampSecond(Some(ticks), zone) => (TimeUnit::Second, ticks, zone),
        ScalarValue::TimestampMillisecond(Some(ticks), zone) => {
            (TimeUnit::Millisecond, ticks, zone)
        }
        ScalarValue::TimestampMicrosecond(Some(ticks), zone) => {
            (TimeUnit::Microsecond, ticks, zone)
        }
        ScalarValue::TimestampNanosecond(Some(ticks), zone) => (TimeUnit::Nanosecond, ticks, zone),
        _ => return None,
    };
    let ratio = per_second(&of) / per_second(unit);
    if ratio <= 1 || ticks.rem_euclid(ratio) == 0 {
        return None;
    }
    Some(time(unit, ticks.div_euclid(ratio), zone.clone()))
}

/// The time one step later.
fn next(value: &ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::TimestampSecond(Some(ticks), zone) => {
            Some(time(&TimeUnit::Second, ticks.checked_add(1)?, zone.clone()))
        }
        ScalarValue::TimestampMillisecond(Some(ticks), zone) => {
            Some(time(&TimeUnit::Millisecond, ticks.checked_add(1)?, zone.clone()))
        }
        ScalarValue::TimestampMicrosecond(Some(ticks), zone) => {
            Some(time(&TimeUnit::Microsecond, ticks.checked_add(1)?, zone.clone()))
        }
        _ => None,
    }
}

fn time(unit: &TimeUnit, ticks: i64, zone: Option<std::sync::Arc<str>>) -> ScalarValue {
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(Some(ticks), zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(ticks), zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(ticks), zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(ticks), zone),
    }
}

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
