//! Turns comparisons round so that the column stands on the left.
//!
//! DataFusion 55.2 drops the wrong one of two comparisons of a column with the same constant when the
//! constant stands on the left (`1 <= x and 1 < x` becomes `1 <= x`). Turned round they are kept right.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::{change_plans_up, change_up, map_expressions};

/// The rule, for the conditions of filters and joins.
#[derive(Debug)]
pub struct ColumnsFirst;

impl AnalyzerRule for ColumnsFirst {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                map_expressions(plan, &mut |condition| change_up(condition, &mut turned_round))
            }
            plan => Ok(Transformed::no(plan)),
        })
    }

    fn name(&self) -> &str {
        "columns_first"
    }
}

fn turned_round(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    match op.swap() {
        Some(op)
            if op.supports_propagation() && !left.any_column_refs() && right.any_column_refs() =>
        {
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left })))
        }
        _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
    }
}
