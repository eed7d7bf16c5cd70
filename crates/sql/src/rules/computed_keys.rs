//! Keys of sorts, windows and ordered aggregates as columns.
//!
//! DataFusion 55.2 asks for bounds of what a key is computed from, to find out whether rows are in its order. Where
//! that fails, it takes rows that it has just sorted for unsorted, and refuses its own plan: for `sqrt(x)`, as `x`
//! might be negative, and for any comparison of what a function or `case` gives (`length(s) < 3`), whose bounds have no
//! type.
//! And where rows of several threads are merged, their keys are computed again, which gives other values of
//! `random()`: a shuffle took as many rows from each thread, however many that had. So each such key is computed once,
//! by a projection beneath.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Sort, Window};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::trees;

/// The rule, to be run after those that make sorts, windows and aggregates of something else.
#[derive(Debug)]
pub struct ComputedKeys;

impl OptimizerRule for ComputedKeys {
    fn name(&self) -> &str {
        "computed_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let mut keys = Keys { found: Vec::new(), config };
        let mut of_functions = |exprs: &[Expr]| {
            let exprs = exprs.iter().map(|expr| {
                let name = names.save(expr);
                Ok(name.restore(keys.of_functions(expr.clone())?))
            });
            exprs.collect::<Result<Vec<_>>>()
        };
        let node: Option<Result<LogicalPlan>> = match &plan {
            LogicalPlan::Sort(Sort { expr, input, fetch }) => {
                let expr = expr.iter().cloned().map(|key| keys.sorted(key)).collect();
                keys.beneath(input)?
                    .map(|input| Ok(LogicalPlan::Sort(Sort { expr, input, fetch: *fetch })))
            }
            LogicalPlan::Window(Window { input, window_expr, .. }) => {
                let exprs = of_functions(window_expr)?;
                keys.beneath(input)?
                    .map(|input| Ok(LogicalPlan::Window(Window::try_new(exprs, input)?)))
            }
            LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
                let (groups, exprs) = (group_expr.clone(), of_functions(aggr_expr)?);
                keys.beneath(input)?.map(|input| {
                    Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, groups, exprs)?))
                })
            }
            _ => None,
        };
        let Some(node) = node else { return Ok(Transformed::no(plan)) };
        let without = columns(plan.schema()).collect();
        let projection = Projection::try_new(without, Arc::new(node?))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    }
}

/// All columns of a schema.
fn columns(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    schema.iter().map(|field| Expr::Column(Column::from(field)))
}

/// What is computed beneath a node, each under a name of its own.
struct Keys<'a> {
    found: Vec<Expr>,
    config: &'a dyn OptimizerConfig,
}

impl Keys<'_> {
    /// The expression with the keys of its functions as columns.
    fn of_functions(&mut self, expr: Expr) -> Result<Expr> {
        let with_keys = trees::change_down(expr, &mut |part| match part {
            Expr::WindowFunction(mut function) => {
                let params = &mut function.params;
                params.partition_by =
                    params.partition_by.drain(..).map(|key| self.column(key)).collect();
                params.order_by = params.order_by.drain(..).map(|key| self.sorted(key)).collect();
                Ok(Transformed::yes(Expr::WindowFunction(function)))
            }
            // Where the order is an argument (`within group`), it is among the arguments, too.
            Expr::AggregateFunction(mut function)
                if !function.func.inner().supports_within_group_clause() =>
            {
                let order_by = &mut function.params.order_by;
                *order_by = order_by.drain(..).map(|key| self.sorted(key)).collect();
                Ok(Transformed::yes(Expr::AggregateFunction(function)))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(with_keys.data)
    }

    /// What computes the keys from the rows of a plan, if there are any.
    fn beneath(self, input: &Arc<LogicalPlan>) -> Result<Option<Arc<LogicalPlan>>> {
        if self.found.is_empty() {
            return Ok(None);
        }
        let with_keys = columns(input.schema()).chain(self.found).collect();
        let projection = Projection::try_new(with_keys, Arc::clone(input))?;
        Ok(Some(Arc::new(LogicalPlan::Projection(projection))))
    }

    fn sorted(&mut self, key: SortKey) -> SortKey {
        SortKey { expr: self.column(key.expr), ..key }
    }

    /// The column of a key, unless it is one, or a constant.
    fn column(&mut self, key: Expr) -> Expr {
        let key = key.unalias();
        if matches!(key, Expr::Column(_)) || !(key.any_column_refs() || key.is_volatile()) {
            return key;
        }
        let name = self.config.alias_generator().next("__key");
        self.found.push(key.alias(&name));
        Expr::Column(Column::new_unqualified(name))
    }
}
