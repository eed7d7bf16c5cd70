//! Leaves conditions where the optimizer of plans put them.
//!
//! Once a plan has its operators, DataFusion 55.2 moves conditions down again, and there finds a column by its name
//! alone. Of two columns of one name, as in `select a.s, b.s` from a join, it takes the first, and tests that instead.
//! The optimizer before it has moved the same conditions by the full names of columns, and no scan of ours takes more.

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

/// The rules for plans of operators, but for those that move conditions.
pub fn physical_optimizer_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let moving = [FilterPushdown::new(), FilterPushdown::new_post_optimization()];
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| moving.iter().all(|moving| moving.name() != rule.name()));
    rules
}
