//! Subqueries that use columns of the query around them, in forms that DataFusion would answer wrongly.
//!
//! DataFusion 55.2 joins by the conditions that compare such columns: it takes them out of the subquery, from below what is
//! computed there. An aggregate without GROUP BY then has no row where no row was compared, OFFSET is forgotten, a window
//! spans the rows of all, what an outer join lacks is not filled in, and a constant is null where no row was compared. These
//! forms are refused.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, Join, JoinType, Limit, LogicalPlan, SkipType, Subquery,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::trees::{any_part, each_expression, each_part, each_plan};

/// The rule, to be run before any that changes subqueries.
#[derive(Debug)]
pub struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        each_expression(&plan, &mut |expr| {
            each_part(expr, &mut |part| {
                check_part(part)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        each_plan(&plan, &mut |plan| {
            // Those of expressions are no inputs.
            plan.inputs().into_iter().try_for_each(|input| match input {
                LogicalPlan::Subquery(lateral) => check(lateral, Use::Rows),
                _ => Ok(()),
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "correlated_subqueries"
    }
}

/// What a subquery is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Whether it has a row.
    Exists,
    /// Its values, one of which is compared.
    Members,
    /// Its value, or its rows.
    Rows,
}

fn check_part(part: &Expr) -> Result<()> {
    match part {
        Expr::Exists(Exists { subquery, .. }) => check(subquery, Use::Exists),
        Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => check(subquery, Use::Members),
        Expr::ScalarSubquery(subquery) => check(subquery, Use::Rows),
        _ => Ok(()),
    }
}

fn check(subquery: &Subquery, used: Use) -> Result<()> {
    let Some(Expr::OuterReferenceColumn(_, column)) = subquery.outer_ref_columns.first() else {
        return Ok(());
    };
    match lacking(&subquery.subquery, used) {
        Looked::Wrong(why) => {
            let message = format!(
                "a subquery that uses {column} of the query around it cannot have {why}",
                column = column.flat_name(),
            );
            Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)))
        }
        Looked::Outer | Looked::Plain => Ok(()),
    }
}

/// What was found in a part of a subquery.
enum Looked {
    /// No column of the query around it.
    Plain,
    /// Such a column, and nothing that would be answered wrongly.
    Outer,
    /// Something that would, and what to do instead.
    Wrong(&'static str),
}

fn lacking(plan: &LogicalPlan, used: Use) -> Looked {
    if let LogicalPlan::Subquery(_) = plan {
        // Its columns are those of this one.
        return Looked::Plain;
    }
    let mut below = Vec::new();
    for input in plan.inputs() {
        match lacking(input, used) {
            Looked::Wrong(why) => return Looked::Wrong(why),
            looked => below.push(matches!(looked, Looked::Outer)),
        }
    }
    let is_outer_below = below.contains(&true);
    if is_outer_below && let Some(why) = wrong_above(plan, used, &below) {
        return Looked::Wrong(why);
    }
    if is_outer_below && is_constant_of_total(plan) {
        return Looked::Wrong(
            "a constant beside an aggregate without GROUP BY, such as count(*) is null; use it outside of the subquery",
        );
    }
    let is_outer =
        |expr: &Expr| any_part(expr, &|part| matches!(part, Expr::OuterReferenceColumn(..)));
    let is_outer_here = plan.expressions().iter().any(is_outer);
    match (is_outer_here, is_outer_below) {
        // A table of the same name in the subquery would be taken for the one around it.
        (true, _) if matches!(plan, LogicalPlan::Join(_)) => {
            Looked::Wrong("it in the ON of a join; use it in the WHERE")
        }
        (false, false) => Looked::Plain,
        _ => Looked::Outer,
    }
}

/// Why a node cannot stand above conditions with columns of the query around it, which are `below` some of its inputs.
fn wrong_above(plan: &LogicalPlan, used: Use, below: &[bool]) -> Option<&'static str> {
    match plan {
        LogicalPlan::Window(_) => Some(
            "a window function; compute it in a query of its own, with what is compared in its PARTITION BY, and join that",
        ),
        LogicalPlan::Aggregate(aggregate) => {
            (has_total(aggregate) && used != Use::Rows).then_some(
                "an aggregate without GROUP BY in EXISTS, IN, ANY or ALL; compare its value instead, as in \
                 (select count(*) ...) = 0",
            )
        }
        LogicalPlan::Limit(limit) => may_change_answer(limit, used).then_some(
            "LIMIT or OFFSET here; leave it out, or join with a query that numbers its rows",
        ),
        LogicalPlan::Distinct(Distinct::On(_)) => (used != Use::Exists).then_some(
            "DISTINCT ON; join with a query that has it, and what is compared among its columns",
        ),
        LogicalPlan::Join(Join { join_type, .. }) => {
            let [left, right] = below else { return None };
            let is_filled = match join_type {
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    *right
                }
                JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark => *left,
                JoinType::Full => true,
                JoinType::Inner => false,
            };
            is_filled.then_some("it within the optional side of an outer join; use it in the WHERE")
        }
        _ => None,
    }
}

/// Whether a projection of an aggregate without GROUP BY has a column that is a constant in the end. DataFusion gives null
/// for it where no row was compared.
fn is_constant_of_total(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = plan else { return false };
    if !is_total(&projection.input) {
        return false;
    }
    let columns = Arc::clone(projection.input.schema());
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(columns).build());
    projection.expr.iter().any(|expr| {
        let is_constant = |expr: &Expr| !any_part(expr, &|part| matches!(part, Expr::Column(_)));
        simplifier.simplify(expr.clone()).is_ok_and(|simple| is_constant(&simple))
    })
}

/// Whether an aggregate may have a group without keys, which is there also of no rows.
pub fn has_total(aggregate: &Aggregate) -> bool {
    let groups = &aggregate.group_expr;
    groups.is_empty() || groups.iter().any(|group| matches!(group, Expr::GroupingSet(_)))
}

fn is_total(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => has_total(aggregate),
        LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_total)
        }
        _ => false,
    }
}

/// Whether a limit may leave out what is asked for. Of values that are compared, and of rows, DataFusion refuses some by itself.
fn may_change_answer(limit: &Limit, used: Use) -> bool {
    let takes_all = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
    let takes_one = match limit.get_fetch_type() {
        Ok(FetchType::Literal(Some(rows))) => rows > 0,
        Ok(FetchType::Literal(None)) => true,
        _ => false,
    };
    used != Use::Exists || !takes_all || !takes_one
}
