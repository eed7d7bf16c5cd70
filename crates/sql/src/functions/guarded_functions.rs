//! Functions of DataFusion behind a look at their arguments and at their results.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use crate::functions::bounded_functions::{check_bytes, is_bounded};
use crate::functions::checked_results::{check_arguments, checked, is_checked};
use crate::functions::plain_arguments::{is_with_plain_arguments, with_plain_arguments};

/// The guarded form of a function whose results can outgrow its arguments or be silently wrong, or that panics at some arguments;
/// of others, the function itself. `limit_bytes` is what one result may take.
pub fn guarded(function: Arc<ScalarUDF>, limit_bytes: u64) -> Arc<ScalarUDF> {
    let name = function.name();
    match is_bounded(name) || is_checked(name) || is_with_plain_arguments(name) {
        true => Arc::new(ScalarUDF::new_from_impl(GuardedFunction { function, limit_bytes })),
        false => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GuardedFunction {
    function: Arc<ScalarUDF>,
    limit_bytes: u64,
}

impl ScalarUDFImpl for GuardedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.return_field_from_args(arguments)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arguments)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let simplified = self.function.simplify(arguments, info)?;
        Ok(match simplified {
            // With fewer arguments it is still the function that has to be guarded.
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(mut call))
                if call.func.name() == self.name() =>
            {
                call.func = guarded(call.func, self.limit_bytes);
                ExprSimplifyResult::Simplified(Expr::ScalarFunction(call))
            }
            other => other,
        })
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        with_plain_arguments(self.name(), &mut arguments.args)?;
        check_bytes(self.name(), &arguments, self.limit_bytes)?;
        check_arguments(self.name(), &arguments.args)?;
        let (given, rows) = (arguments.args.clone(), arguments.number_rows);
        let result = self.function.invoke_with_args(arguments)?;
        checked(self.name(), &given, rows, result)
    }
}
