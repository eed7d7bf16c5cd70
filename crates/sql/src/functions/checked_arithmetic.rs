//! Arithmetic of integers that is an error where a result does not fit its type.
//!
//! In DataFusion 55.2 `+`, `-` and `*` of integers wrap, when constants are folded and when rows are computed, and
//! no option of a plan reaches all the places that do it. So functions that check take the operators' places in the logical
//! plan. They bear the names of what they replace, so that columns are called what they were called. Decimals, times
//! and durations are checked by Arrow itself, and so is division.

use std::fmt::{self, Write};

use arrow_schema::{ArrowError, DataType, FieldRef};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::functions::checked_decimals::{fitting, without_checks};
use crate::rules::one_nan::without_one_nan;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_down, change_expressions, change_plans_up, change_up, map_expressions};

/// Longer expressions are not spelled out in an error.
const SHOWN_LEN_MAX: usize = 80;

/// Applies [`with_checks`] to whole plans; to be run once types have been brought together.
#[derive(Debug)]
pub struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            // Windows and ordered aggregates are named by how their parts are displayed, which is not what those are
            // called.
            let is_displayed = matches!(plan, LogicalPlan::Window(_) | LogicalPlan::Aggregate(_));
            let mut checked = |expr| change_down(expr, &mut |part| checked(part, &schema));
            let plan = match is_displayed {
                true => change_expressions(plan, &mut checked)?,
                false => map_expressions(plan, &mut checked)?,
            };
            plan.map_data(LogicalPlan::recompute_schema)
        })
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

/// Plans arithmetic of constants so from the start, for arguments of table functions, which are computed before any
/// rule runs.
#[derive(Debug)]
pub struct CheckedConstants;

impl ExprPlanner for CheckedConstants {
    fn plan_binary_op(
        &self,
        binary: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let operands = [&binary.left, &binary.right];
        let types = operands.map(|operand| match operand.any_column_refs() {
            true => None,
            false => operand.get_type(schema).ok().filter(DataType::is_integer),
        });
        let operation = match binary.op {
            BinaryOperator::Plus => Some(Operation::Add),
            BinaryOperator::Minus => Some(Operation::Subtract),
            BinaryOperator::Multiply => Some(Operation::Multiply),
            _ => None,
        };
        match (operation, types) {
            (Some(operation), [Some(left), Some(right)]) if left == right => {
                let args = vec![binary.left, binary.right];
                Ok(PlannerResult::Planned(operation.call(args)))
            }
            _ => Ok(PlannerResult::Original(binary)),
        }
    }
}

/// The expression, of coerced types, with checked functions for the operators that would wrap, or give too many digits.
pub fn with_checks(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    fitting(change_down(expr, &mut |part| checked(part, schema))?.data, schema)
}

/// The expression with operators again, and nothing around them, as it is shown.
pub fn as_written(expr: Expr) -> Result<Expr> {
    let written = change_up(without_checks(without_one_nan(expr)?)?, &mut |expr| {
        let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let Some(Checked { operation, .. }) = func.inner().downcast_ref() else {
            return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
        };
        let mut next = || Box::new(args.remove(0));
        Ok(Transformed::yes(match operation.operator() {
            Some(op) => Expr::BinaryExpr(BinaryExpr { left: next(), op, right: next() }),
            None => Expr::Negative(next()),
        }))
    })?;
    Ok(written.data)
}

fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_integer = |expr: &Expr| Ok::<_, DataFusionError>(expr.get_type(schema)?.is_integer());
    let (operation, args) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = match op {
                Operator::Plus => Some(Operation::Add),
                Operator::Minus => Some(Operation::Subtract),
                Operator::Multiply => Some(Operation::Multiply),
                _ => None,
            };
            match operation {
                Some(operation) if is_integer(&left)? && is_integer(&right)? => {
                    (operation, vec![*left, *right])
                }
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
        }
        Expr::Negative(operand) => match operand.get_type(schema)?.is_signed_integer() {
            true => (Operation::Negate, vec![*operand]),
            false => return Ok(Transformed::no(Expr::Negative(operand))),
        },
        expr => return Ok(Transformed::no(expr)),
    };
    Ok(Transformed::yes(operation.call(args)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Operation {
    /// The operator between two operands.
    fn operator(self) -> Option<Operator> {
        match self {
            Operation::Add => Some(Operator::Plus),
            Operation::Subtract => Some(Operator::Minus),
            Operation::Multiply => Some(Operator::Multiply),
            Operation::Negate => None,
        }
    }

    /// Writes the name of an operation, and of those inside it, into one text: names of names would take
    /// time by the square of the depth.
    fn write_name(self, args: &[Expr], name: &mut String) -> fmt::Result {
        match (self.operator(), args) {
            (Some(operator), [left, right]) => {
                write_name(left, name)?;
                write!(name, " {operator} ")?;
                write_name(right, name)
            }
            (None, [operand]) => {
                name.push_str("(- ");
                write_name(operand, name)?;
                name.push(')');
                Ok(())
            }
            _ => unreachable!("the signature says how many operands there are"),
        }
    }

    fn call(self, args: Vec<Expr>) -> Expr {
        ScalarUDF::new_from_impl(Checked::new(self)).call(args)
    }

    fn of(self, operands: &[impl fmt::Display]) -> String {
        match (self.operator(), operands) {
            (Some(operator), [left, right]) => format!("{left} {operator} {right}"),
            (None, [operand]) => format!("(- {operand})"),
            _ => unreachable!("the signature says how many operands there are"),
        }
    }
}

fn write_name(expr: &Expr, name: &mut String) -> fmt::Result {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            match func.inner().downcast_ref::<Checked>() {
                Some(checked) => checked.operation.write_name(args, name),
                None => write!(name, "{}", expr.schema_name()),
            }
        }
        expr => write!(name, "{}", expr.schema_name()),
    }
}

/// An operation on integers of one type, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Checked {
        let operands = operation.operator().map_or(1, |_| 2);
        Checked { operation, signature: Signature::any(operands, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "add",
            Operation::Subtract => "subtract",
            Operation::Multiply => "multiply",
            Operation::Negate => "negate",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        self.operation.write_name(args, &mut name)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    /// Named as it is written, for errors further up.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let operands: Vec<String> = args
            .arg_fields
            .iter()
            .zip(args.scalar_arguments)
            .map(|(field, value)| match value {
                Some(value) => value.to_string(),
                None => field.name().clone(),
            })
            .collect();
        let mut name = self.operation.of(&operands);
        if name.len() > SHOWN_LEN_MAX {
            name = "an expression".to_string();
        }
        let field = args.arg_fields[0].as_ref().clone().with_name(name);
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(field.with_nullable(is_nullable).with_metadata(Default::default()).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let computed = match (self.operation, &args.args[..]) {
            (Operation::Add, [left, right]) => apply(left, right, numeric::add),
            (Operation::Subtract, [left, right]) => apply(left, right, numeric::sub),
            (Operation::Multiply, [left, right]) => apply(left, right, numeric::mul),
            (Operation::Negate, [operand]) => {
                let zero = ScalarValue::new_zero(&operand.data_type())?;
                apply(&ColumnarValue::Scalar(zero), operand, numeric::sub)
            }
            _ => internal_err!("{} has other operands", self.name()),
        };
        computed.map_err(|error| out_of_range(error, &args.return_field))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, inputs) {
            (Operation::Add, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operation::Subtract, [left, right]) => {
                left.sort_properties.sub(&right.sort_properties)
            }
            (Operation::Negate, [operand]) => -operand.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

fn out_of_range(error: DataFusionError, field: &FieldRef) -> DataFusionError {
    match error {
        DataFusionError::ArrowError(error, _)
            if matches!(*error, ArrowError::ArithmeticOverflow(_)) =>
        {
            let ArrowError::ArithmeticOverflow(found) = *error else { unreachable!() };
            let found = found.trim_start_matches("Overflow happened on: ");
            let of = match field.name() {
                name if name == found => String::new(),
                name => format!("{name}: "),
            };
            let message = format!(
                "{of}{found} does not fit {}; cast to decimal(38, 0), or to double if an approximation will do",
                named(field.data_type()),
            );
            to_datafusion(Error::new(ErrorKind::OutOfRange, message))
        }
        error => error,
    }
}

/// An integer type in words.
pub fn named(data_type: &DataType) -> String {
    let bits = data_type.primitive_width().unwrap_or_default() * 8;
    let sign = if data_type.is_unsigned_integer() { "unsigned " } else { "" };
    let article = if bits == 8 || !sign.is_empty() { "an" } else { "a" };
    format!("{article} {sign}{bits}-bit integer")
}
