//! Arithmetic of decimals that is an error where a result has more digits than its type.
//!
//! Arrow 59 checks that a result fits the bits of a decimal, which hold some numbers of 39 digits. So what computes decimals
//! of the most digits is put into a function that checks.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

/// The rule, to be run once types have been brought together.
#[derive(Debug)]
pub struct CheckedDecimals;

impl AnalyzerRule for CheckedDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            change_parts(plan, &mut |part| checked(part, &schema))
        })
    }

    fn name(&self) -> &str {
        "checked_decimals"
    }
}

/// The expression, of coerced types, such that its decimals are checked.
pub fn fitting(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| checked(part, schema))?.data)
}

fn checked(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let may_overflow = match &part {
        // The type of a long chain of conditions takes a walk through it.
        Expr::BinaryExpr(BinaryExpr { op, .. }) if op.is_numerical_operators() => {
            has_most_digits(&part.get_type(schema)?)
        }
        _ => false,
    };
    match may_overflow {
        true => Ok(Transformed::yes(ScalarUDF::new_from_impl(Fitting::new()).call(vec![part]))),
        false => Ok(Transformed::no(part)),
    }
}

fn has_most_digits(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)
            | DataType::Decimal256(DECIMAL256_MAX_PRECISION, _)
    )
}

/// The expression without what checks it, as it is shown.
pub fn without_checks(expr: Expr) -> Result<Expr> {
    let shown = change_up(expr, &mut |part| match part {
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if func.inner().downcast_ref::<Fitting>().is_some() =>
        {
            Ok(Transformed::yes(args.remove(0)))
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(shown.data)
}

/// The decimals that it is given, if none has more digits than their type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fitting {
    signature: Signature,
}

impl Fitting {
    fn new() -> Fitting {
        Fitting { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Fitting {
    fn name(&self) -> &str {
        "fitting"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].to_string())
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
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
        let given = args.args.remove(0);
        let values = given.to_array(1)?;
        let fits = match values.data_type() {
            DataType::Decimal128(digits, _) => {
                values.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)
            }
            DataType::Decimal256(digits, _) => {
                values.as_primitive::<Decimal256Type>().validate_decimal_precision(*digits)
            }
            _ => Ok(()),
        };
        match fits {
            Ok(()) => Ok(given),
            Err(_) => {
                let digits =
                    if matches!(values.data_type(), DataType::Decimal128(..)) { 38 } else { 76 };
                let message = format!(
                    "{}: a result has more than {digits} digits; cast to double if an approximation will do",
                    as_written(args.return_field.name()),
                );
                Err(to_datafusion(Error::new(ErrorKind::OutOfRange, message)))
            }
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[0].sort_properties)
    }
}

/// The name of what is computed, without the numbers of columns behind their names.
fn as_written(name: &str) -> String {
    let mut parts = name.split('@');
    let mut written = parts.next().unwrap_or_default().to_string();
    for part in parts {
        written.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    written
}
