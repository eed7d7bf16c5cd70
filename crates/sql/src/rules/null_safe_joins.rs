//! Joins by `is not distinct from`, whose keys are equal also where both are null.
//!
//! In DataFusion 55.2 whether nulls are equal is a property of a join, not of each of its keys. A join that was given
//! such keys is offered further ones by later passes of the optimizer, which `=` compares, and takes them over: `on a
//! is not distinct from b where c = d` then joins rows whose `c` and `d` are null. So while a plan is optimized, what
//! `is not distinct from` compares stays a condition; it becomes the keys of joins that have no others once nothing
//! is moved any more.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerContext, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::trees::change_plans_up;

/// Makes keys of what `=` compares, and of nothing else.
#[derive(Debug)]
pub struct EqualKeys;

impl OptimizerRule for EqualKeys {
    fn name(&self) -> &str {
        ExtractEquijoinPredicate {}.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        ExtractEquijoinPredicate {}.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(&plan, LogicalPlan::Join(join) if join.filter.is_some())
            || has_null_safe_keys(&plan)
        {
            return Ok(Transformed::no(plan));
        }
        let with_keys = ExtractEquijoinPredicate {}.rewrite(plan.clone(), config)?;
        Ok(if has_null_safe_keys(&with_keys.data) { Transformed::no(plan) } else { with_keys })
    }
}

fn has_null_safe_keys(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}

/// Makes keys of what `is not distinct from` compares, in joins without other keys, then plans as ever.
#[derive(Debug)]
pub struct NullSafeKeys;

#[async_trait]
impl QueryPlanner for NullSafeKeys {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = OptimizerContext::new();
        let with_keys = change_plans_up(plan.clone(), &mut |plan| match &plan {
            LogicalPlan::Join(join) if join.on.is_empty() && join.filter.is_some() => {
                ExtractEquijoinPredicate {}.rewrite(plan, &config)
            }
            _ => Ok(Transformed::no(plan)),
        })?;
        DefaultPhysicalPlanner::default().create_physical_plan(&with_keys, session).await
    }
}
