//! What the columns of a plan's expressions are, for rules that look at types.

use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::utils::merge_schema;

/// The columns that expressions of this node, not of those beneath it, may name.
pub fn schema_of_expressions(plan: &LogicalPlan) -> DFSchema {
    match plan {
        // Conditions of a scan are about its table's columns.
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        plan => merge_schema(&plan.inputs()),
    }
}
