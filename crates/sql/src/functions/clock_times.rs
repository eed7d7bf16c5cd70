//! Moments cast to timestamps without a zone: what a clock shows in theirs.
//!
//! Arrow 59 reads a timestamp without a zone in the zone that it is cast to, and the date and the time of day of a moment are those of its
//! zone. Only cast to a timestamp it keeps the digits in UTC, and would not be the same moment when it is cast back.

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions::datetime::expr_fn::to_local_time;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use datafusion::optimizer::AnalyzerRule;

use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

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
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = &part else {
        return Ok(Transformed::no(part));
    };
    let loses_zone = matches!(field.data_type(), DataType::Timestamp(_, None))
        && matches!(expr.get_type(schema)?, DataType::Timestamp(_, Some(_)));
    if !loses_zone {
        return Ok(Transformed::no(part));
    }
    let clock = |moment: Box<Expr>| Box::new(to_local_time(vec![*moment]));
    Ok(Transformed::yes(match part {
        Expr::Cast(Cast { expr, field }) => Expr::Cast(Cast { expr: clock(expr), field }),
        Expr::TryCast(TryCast { expr, field }) => {
            Expr::TryCast(TryCast { expr: clock(expr), field })
        }
        part => part,
    }))
}
