//! Numbers with a point, compared with decimals, are the decimals that they spell.
//!
//! DataFusion reads `99999.99` as a float and compares a decimal with what that float is exactly,
//! 99999.990000000005 and so on, which it never equals. Where a decimal is on the other side, the shortest
//! decimal that reads as that float takes its place: it is what was written, up to 15 digits. Numbers of more
//! digits have to be written in quotes.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use arrow_schema::DataType;

/// Digits of a decimal of 128 bits.
const DIGITS_MAX: usize = 38;

/// Applies [`with_decimal_literals`] to whole plans; to be run before types are brought together.
#[derive(Debug)]
pub struct DecimalLiterals;

impl AnalyzerRule for DecimalLiterals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let schema = match &plan {
                // Conditions of a scan are about its table's columns.
                LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
                plan => merge_schema(&plan.inputs()),
            };
            // Columns without a name of their own keep the one that the text gives them.
            let names = NamePreserver::new(&plan);
            let changed = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| Ok(spelled(expr, &schema)))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })?;
            changed.map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "decimal_literals"
    }
}

/// The expression with numbers as decimals where they are compared with decimals.
pub fn with_decimal_literals(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.transform_up(|expr| Ok(spelled(expr, schema)))?.data)
}

fn spelled(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_decimal = |expr: &Expr| {
        matches!(expr.get_type(schema), Ok(DataType::Decimal128(..) | DataType::Decimal256(..)))
    };
    let decimal = |expr: Expr| Box::new(as_decimal(&expr).unwrap_or(expr));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (of_left, of_right) = (is_decimal(&left), is_decimal(&right));
            match (of_left, of_right) {
                (true, false) => Transformed::yes(Expr::BinaryExpr(BinaryExpr {
                    left,
                    op,
                    right: decimal(*right),
                })),
                (false, true) => Transformed::yes(Expr::BinaryExpr(BinaryExpr {
                    left: decimal(*left),
                    op,
                    right,
                })),
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::InList(InList { expr, list, negated }) if is_decimal(&expr) => {
            let list = list.into_iter().map(|item| *decimal(item)).collect();
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_decimal(&expr) => {
            let (low, high) = (decimal(*low), decimal(*high));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        expr => Transformed::no(expr),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The decimal that a literal float spells, if it is one and has few enough digits.
fn as_decimal(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Float64(Some(value)), metadata) = expr else { return None };
    if !value.is_finite() {
        return None;
    }
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    let precision = digits.trim_start_matches('-').len();
    if precision > DIGITS_MAX {
        return None;
    }
    let number = digits.parse::<i128>().ok()?;
    let decimal = ScalarValue::Decimal128(Some(number), precision as u8, fraction.len() as i8);
    Some(Expr::Literal(decimal, metadata.clone()))
}
