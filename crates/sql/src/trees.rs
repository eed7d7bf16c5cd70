//! Walks over parsed SQL, plans and expressions, each compiled once.
//!
//! What walks such a tree is generic over what it does there, and there are a hundred kinds of nodes: per closure, the compiler makes up
//! to a megabyte of code. These functions take every closure by reference, so that one copy serves all.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Query, Select, VisitMut, VisitorMut};

/// A part of parsed SQL that may be changed.
pub enum Parsed<'a> {
    /// Comes before its own parts.
    Select(&'a mut Select),
    /// Comes after its own parts.
    Query(&'a mut Query),
    /// Comes after its own parts.
    Expr(&'a mut ast::Expr),
}

/// Shows all parts of parsed SQL.
///
/// # Errors
/// The first one of `visit`, which ends the walk.
pub fn each_parsed(
    tree: &mut impl VisitMut,
    visit: &mut dyn FnMut(Parsed) -> Result<()>,
) -> Result<()> {
    match tree.visit(&mut Visits(visit)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Visits<'a>(&'a mut dyn FnMut(Parsed) -> Result<()>);

impl Visits<'_> {
    fn visit(&mut self, part: Parsed) -> ControlFlow<DataFusionError> {
        match (self.0)(part) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl VisitorMut for Visits<'_> {
    type Break = DataFusionError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        self.visit(Parsed::Select(select))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        self.visit(Parsed::Query(query))
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<DataFusionError> {
        self.visit(Parsed::Expr(expr))
    }
}

/// Changes the parts of an expression, each after its own parts.
pub fn change_up(
    expr: Expr,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    expr.transform_up(change)
}

/// Changes the parts of an expression, each before its own parts.
pub fn change_down(
    expr: Expr,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    expr.transform_down(change)
}

/// Shows the parts of an expression, each before its own parts.
pub fn each_part(
    expr: &Expr,
    visit: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<()> {
    expr.apply(visit).map(|_| ())
}

/// Whether an expression has such a part.
pub fn any_part(expr: &Expr, is_such: &dyn Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let looked = each_part(expr, &mut |part| {
        found = is_such(part);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    looked.expect("looking does not fail");
    found
}

/// Changes the plans in a plan and in its subqueries, each after its own inputs.
pub fn change_plans_up(
    plan: LogicalPlan,
    change: &mut dyn FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(change)?.data)
}

/// Changes the plans in a plan and in its subqueries, each before its own inputs.
pub fn change_plans_down(
    plan: LogicalPlan,
    change: &mut dyn FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    Ok(plan.transform_down_with_subqueries(change)?.data)
}

/// Shows a plan, its inputs and its subqueries.
pub fn each_plan(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&LogicalPlan) -> Result<()>,
) -> Result<()> {
    plan.apply_with_subqueries(|plan| visit(plan).map(|()| TreeNodeRecursion::Continue))?;
    Ok(())
}

/// Shows the expressions of a plan, of its inputs and of its subqueries.
pub fn each_expression(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&Expr) -> Result<()>,
) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| visit(expr).map(|()| TreeNodeRecursion::Continue))
    })?;
    Ok(())
}

/// Changes the expressions of one plan, as wholes. Its columns are called as before.
pub fn change_expressions(
    plan: LogicalPlan,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut change_under_name = |expr: Expr| {
        let name = names.save(&expr);
        Ok(change(expr)?.update_data(|expr| name.restore(expr)))
    };
    map_expressions(plan, &mut |expr| match expr {
        // Its columns are its parts, and it has no name.
        Expr::GroupingSet(_) => expr.map_children(&mut change_under_name),
        expr => change_under_name(expr),
    })
}

/// Changes the parts of the expressions of one plan, each after its own parts. Its columns are called as before.
pub fn change_parts(
    plan: LogicalPlan,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    change_expressions(plan, &mut |expr| change_up(expr, change))
}

/// Changes the expressions of one plan, as wholes. They may get other names.
pub fn map_expressions(
    plan: LogicalPlan,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(change)
}
