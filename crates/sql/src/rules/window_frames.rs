//! Windows over rows in the order of values that have no distance, such as bytes.
//!
//! A window that names no frame reaches to the current row and those that are equal to it. DataFusion 55.2 has it as a range of
//! values, which is an internal error for types that it cannot subtract. Groups of equal rows are the same where a
//! frame begins and ends at the current row, or at the first or last of all.

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind, type_name};

use crate::error::to_datafusion;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up};

/// The rule, to be run before types are brought together.
#[derive(Debug)]
pub struct GroupFrames;

impl AnalyzerRule for GroupFrames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            if !matches!(plan, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(plan));
            }
            let schema = schema_of_expressions(&plan);
            change_parts(plan, &mut |part| of_groups(part, &schema))
        })
    }

    fn name(&self) -> &str {
        "group_frames"
    }
}

fn of_groups(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(function) = &mut part else { return Ok(Transformed::no(part)) };
    let params = &mut function.params;
    let frame = &params.window_frame;
    let is_range = frame.units == WindowFrameUnits::Range;
    let Some(first) = params.order_by.first().filter(|_| is_range) else {
        return Ok(Transformed::no(part));
    };
    let data_type = first.expr.get_type(schema)?;
    if is_subtracted(&data_type) {
        return Ok(Transformed::no(part));
    }
    if ![&frame.start_bound, &frame.end_bound].into_iter().all(has_no_distance) {
        let message = format!(
            "a window over a range of distances cannot be in the order of {}; use ROWS or GROUPS instead of RANGE",
            type_name(&data_type)
        );
        return Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)));
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Ok(Transformed::yes(part))
}

fn has_no_distance(bound: &WindowFrameBound) -> bool {
    matches!(bound, WindowFrameBound::CurrentRow) || bound.is_unbounded()
}

/// Whether DataFusion has frames of a range of such values.
fn is_subtracted(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Null | Boolean | Date32 | Date64 | Timestamp(..) => true,
        List(_) | LargeList(_) | FixedSizeList(..) => true,
        Dictionary(_, values) => is_subtracted(values),
        other => other.is_numeric() || other.is_string(),
    }
}
