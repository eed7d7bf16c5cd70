//! Leaves rows in key order where nothing gains by their coming in several streams.
//!
//! DataFusion takes as many partitions of a table as it can get, and then merges them by comparing rows, or
//! takes them as they come. Where that is all it does, the scan itself reads with as many threads and gives its
//! rows in key order: no row is compared, and the same query gives the same rows in the same order. Columns are
//! computed in several streams, unless these would be merged: comparing rows costs more than that gains.
//!
//! Groups of the first key columns are merged by key, too. One partition comes after the other there, so the second
//! thread would wait for the first to end, were its groups not put aside meanwhile.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::tables::scan_exec::ScanExec;

/// The rule, to come last.
#[derive(Debug)]
pub struct KeyOrder {
    /// How much of a partition's groups may wait to be merged.
    pub waiting_bytes: usize,
}

impl PhysicalOptimizerRule for KeyOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let merged = plan.transform_down(|plan| {
            let merge = plan.downcast_ref::<SortPreservingMergeExec>();
            let whole =
                merge.map(|merge| in_one(merge.input(), merge.fetch(), true)).transpose()?;
            Ok(whole.flatten().map_or_else(|| Transformed::no(plan), Transformed::yes))
        })?;
        let waiting = merged.data.transform_down(|plan| self.with_groups_put_aside(plan))?;
        let plan = waiting.data;
        Ok(in_one(&plan, None, false)?.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "key_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl KeyOrder {
    fn with_groups_put_aside(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let merge = plan.downcast_ref::<RepartitionExec>();
        let merge = merge.filter(|merge| merge.preserve_order());
        let Some(groups) =
            merge.map(RepartitionExec::input).filter(|input| input.is::<AggregateExec>())
        else {
            return Ok(Transformed::no(plan));
        };
        let waiting = BufferExec::new(Arc::clone(groups), self.waiting_bytes);
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(plan.replace_children(vec![Arc::new(waiting)], options)?))
    }
}

/// The same rows in one partition, up to a limit, if a scan has several and nothing is done to
/// its rows, or only columns are computed where that may be.
fn in_one(
    plan: &Arc<dyn ExecutionPlan>,
    limit: Option<usize>,
    may_compute: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(scan.in_key_order(limit).map(|scan| Arc::new(scan) as _));
    }
    let computes = || plan.benefits_from_input_partitioning() != [false];
    let is_passed = plan.is::<ProjectionExec>() && (may_compute || !computes());
    if !(plan.is::<CooperativeExec>() || is_passed) {
        return Ok(None);
    }
    let Some(input) = in_one(plan.children()[0], limit, may_compute)? else { return Ok(None) };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some(plan.clone().replace_children(vec![input], options)?))
}
