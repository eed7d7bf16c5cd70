//! Names of what a query inside a query computes.
//!
//! A cast has the name of the column that it casts. Where a query looks at the row of the one around it, DataFusion
//! selects the columns that it compares with that row, to join by them, and refuses a column beside a cast of it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::replace_col;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::{change_parts, change_plans_up};

/// Gives each value that such a query computes a name of its own; to be run once types have been brought together,
/// which adds casts.
#[derive(Debug)]
pub struct SubqueryNames;

impl AnalyzerRule for SubqueryNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| change_parts(plan, &mut with_names))
    }

    fn name(&self) -> &str {
        "subquery_names"
    }
}

fn with_names(mut expr: Expr) -> Result<Transformed<Expr>> {
    let (Expr::InSubquery(InSubquery { subquery, .. })
    | Expr::SetComparison(SetComparison { subquery, .. })
    | Expr::Exists(Exists { subquery, .. })
    | Expr::ScalarSubquery(subquery)) = &mut expr
    else {
        return Ok(Transformed::no(expr));
    };
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(expr));
    }
    *subquery = subquery.with_plan(Arc::new(with_named_values(&subquery.subquery, 0)?));
    Ok(Transformed::yes(expr))
}

fn with_named_values(plan: &LogicalPlan, depth: usize) -> Result<LogicalPlan> {
    if !matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Distinct(Distinct::All(_))
    ) {
        return Ok(plan.clone());
    }
    let before = plan.inputs()[0];
    let input = with_named_values(before, depth + 1)?;
    let named: HashMap<Column, Column> =
        before.schema().columns().into_iter().zip(input.schema().columns()).collect();
    let expressions = plan.expressions().into_iter().enumerate().map(|(place, expr)| {
        let expr = replace_col(expr, &named.iter().collect())?;
        let is_computed = !matches!(expr, Expr::Column(_));
        Ok(match plan {
            LogicalPlan::Projection(_) if is_computed => {
                expr.unalias().alias(format!("value {place} at depth {depth}"))
            }
            _ => expr,
        })
    });
    plan.with_new_exprs(expressions.collect::<Result<_>>()?, vec![input])
}
