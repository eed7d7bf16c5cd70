//! The rules of both optimizers of DataFusion 55.2, that of plans and that of their operators, without those that change
//! answers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::equivalence::{AcrossPartitions, ConstExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_optimizer::topk_aggregation::TopKAggregation;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use crate::rules::correlated_subqueries::has_total;
use crate::rules::null_safe_joins::EqualKeys;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules for plans. Those that make keys of joins and that move conditions are replaced, as they change answers.
pub fn rules() -> Vec<Rule> {
    let replaced: [(&str, Rule); 2] = [
        (ExtractEquijoinPredicate {}.name(), Arc::new(EqualKeys)),
        (PushDownFilter {}.name(), Arc::new(FilterAboveTotals)),
    ];
    let replace = |rule: Rule| {
        let found = replaced.iter().find(|(name, _)| *name == rule.name());
        found.map_or(rule, |(_, other)| other.clone())
    };
    Optimizer::new().rules.into_iter().map(replace).collect()
}

/// The rules for operators, but for
///
/// - those that move conditions. They find a column by its name alone. Of two columns of one name, as in `select a.s, b.s` from a
///   join, they take the first, and test that instead. The optimizer of plans has moved the same conditions by the full names of
///   columns, and no scan of ours takes more;
/// - one that keeps the first groups only, where floats are compared. It takes NaN for less than all numbers, and panics at it.
pub fn physical_rules() -> Vec<PhysicalRule> {
    let without = [FilterPushdown::new(), FilterPushdown::new_post_optimization()];
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| without.iter().all(|other| other.name() != rule.name()));
    let top_k = TopKAggregation::new();
    if let Some(first) = rules.iter_mut().find(|rule| rule.name() == top_k.name()) {
        *first = Arc::new(FirstGroups(top_k));
    }
    let check = rules.iter().position(|rule| rule.name() == SanityCheckPlan::new().name());
    rules.insert(check.unwrap_or(rules.len()), Arc::new(SortedAsMerged));
    rules
}

/// Moves conditions down, but not
///
/// - those without a column below an aggregate without keys: it has its row also of no rows, as where the condition is false;
/// - those with another value in each call, as `random() < 0.5` has, below what makes one row of several, or several of one.
#[derive(Debug)]
struct FilterAboveTotals;

impl OptimizerRule for FilterAboveTotals {
    fn name(&self) -> &str {
        PushDownFilter {}.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        PushDownFilter {}.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut below = &plan;
        let (mut has_constant, mut is_volatile) = (false, false);
        while let LogicalPlan::Filter(filter) = below {
            let conditions = split_conjunction(&filter.predicate);
            has_constant |= conditions.iter().any(|condition| condition.column_refs().is_empty());
            is_volatile |= filter.predicate.is_volatile();
            below = &filter.input;
        }
        let stays = match below {
            LogicalPlan::Aggregate(aggregate) => {
                is_volatile || has_constant && has_total(aggregate)
            }
            LogicalPlan::Window(_) | LogicalPlan::Distinct(_) | LogicalPlan::Join(_) => is_volatile,
            _ => false,
        };
        if stays { Ok(Transformed::no(plan)) } else { PushDownFilter {}.rewrite(plan, config) }
    }
}

/// Keeps only the first groups where these are asked for, if no aggregate has floats.
#[derive(Debug)]
struct FirstGroups(TopKAggregation);

impl PhysicalOptimizerRule for FirstGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let has_floats = plan.exists(|plan| {
            let schema = plan.schema();
            let mut fields = schema.fields().iter();
            Ok(plan.is::<AggregateExec>() && fields.any(|field| field.data_type().is_floating()))
        })?;
        if has_floats { Ok(plan) } else { self.0.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Has the streams of a sort that keep their first rows only sort by all that they are merged by. They share a bound: what is
/// behind as many rows of one stream is left out of all. A column that has one value within each stream is left out of the keys,
/// and the bound is wrong where streams differ in it. Where something else stands between sort and merge, all rows are kept.
#[derive(Debug)]
struct SortedAsMerged;

impl PhysicalOptimizerRule for SortedAsMerged {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = plan.transform_up(|plan| {
            if let Some(sort) = plan.downcast_ref::<SortExec>() {
                return Ok(match sort.fetch().is_some() && differs_by_stream(sort) {
                    true => Transformed::yes(Arc::new(sort.with_fetch(None)) as _),
                    false => Transformed::no(plan),
                });
            }
            let merge = plan.downcast_ref::<SortPreservingMergeExec>();
            let sort = merge.and_then(|merge| merge.input().downcast_ref::<SortExec>());
            let (Some(merge), Some(sort)) = (merge, sort) else { return Ok(Transformed::no(plan)) };
            let keeps_first = sort.preserve_partitioning() && merge.fetch().is_some();
            if !keeps_first || sort.expr() == merge.expr() && sort.fetch().is_some() {
                return Ok(Transformed::no(plan));
            }
            let sort = SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
                .with_preserve_partitioning(true)
                .with_fetch(merge.fetch());
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(plan.replace_children(vec![Arc::new(sort)], options)?))
        })?;
        Ok(sorted.data)
    }

    fn name(&self) -> &str {
        "sorted_as_merged"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a column has one value within each of several streams that are sorted, and not one in all.
fn differs_by_stream(sort: &SortExec) -> bool {
    let constants = sort.input().equivalence_properties().constants();
    let differs =
        |constant: &ConstExpr| constant.across_partitions == AcrossPartitions::Heterogeneous;
    sort.preserve_partitioning() && constants.iter().any(differs)
}
