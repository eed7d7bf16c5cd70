//! Unions whose parts call their columns differently.
//!
//! Of a union of which all parts but one are known to be empty, DataFusion 55.2 keeps that part, and takes its columns by
//! the names of the first part. `select k as x, j as y ... union all select y, x ...` gave `x` and `y` of the second part in the
//! wrong order then. Here each part calls its columns as the first does.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::change_plans_up;

/// The rule, to be run once types have been brought together.
#[derive(Debug)]
pub struct UnionNames;

impl AnalyzerRule for UnionNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let LogicalPlan::Union(Union { inputs, schema }) = plan else {
                return Ok(Transformed::no(plan));
            };
            let inputs = inputs.into_iter().map(|input| named(input, &schema));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })))
        })
    }

    fn name(&self) -> &str {
        "union_names"
    }
}

fn named(input: Arc<LogicalPlan>, names: &DFSchema) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().columns();
    if columns == names.columns() {
        return Ok(input);
    }
    let renamed = columns.into_iter().zip(names.iter()).map(|(column, (relation, field))| {
        Expr::Column(column).alias_qualified(relation.cloned(), field.name())
    });
    let projection = Projection::try_new(renamed.collect(), input)?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
