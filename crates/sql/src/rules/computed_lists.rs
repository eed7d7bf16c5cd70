//! Lists of `in` whose values are computed from the row.
//!
//! DataFusion 55.2 tries a list on no rows at all: if each of its values then is a single one, it takes them for
//! constants, and tests all rows with them. `case` of no rows is a single null, though, and so is what is computed
//! from it. Here what is computed from a row is an array, however few rows there are.

use arrow_schema::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::{any_part, change_parts, change_plans_up, change_up};

/// The rule, for whole plans.
#[derive(Debug)]
pub struct ComputedLists;

impl AnalyzerRule for ComputedLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| change_parts(plan, &mut computed_of_each_row))
    }

    fn name(&self) -> &str {
        "computed_lists"
    }
}

/// The expression with what its lists compute from a row computed of each row.
pub fn with_computed_lists(expr: Expr) -> Result<Expr> {
    Ok(change_up(expr, &mut computed_of_each_row)?.data)
}

fn computed_of_each_row(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr, list, negated }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let mut is_changed = false;
    let list = list.into_iter().map(|value| {
        if !is_computed(&value) {
            return value;
        }
        is_changed = true;
        ScalarUDF::new_from_impl(OfEachRow::new()).call(vec![value])
    });
    let list = list.collect();
    let expr = Expr::InList(InList { expr, list, negated });
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Whether a value of a list depends on the row, and is more than a column.
fn is_computed(value: &Expr) -> bool {
    if matches!(value, Expr::Column(_) | Expr::Literal(..)) {
        return false;
    }
    any_part(value, &|part| {
        matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::LambdaVariable(_)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        )
    })
}

/// The same value, as an array of as many as there are rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEachRow {
    signature: Signature,
}

impl OfEachRow {
    fn new() -> OfEachRow {
        OfEachRow { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OfEachRow {
    fn name(&self) -> &str {
        "of_each_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.remove(0);
        Ok(ColumnarValue::Array(value.into_array(args.number_rows)?))
    }
}
