//! Moments: `now()`, and how far two of them are apart.
//!
//! In DataFusion 55.2 what `now()` gives has no zone. Its digits are those of UTC, and beside a column with a zone they are read as a
//! clock's there. Here it is a moment. (The setting of a zone would give one to `to_timestamp`, too, which then fails on columns of
//! text.) And moments in two zones have no difference there; here the second is taken in the zone of the first.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::datetime::now::NowFunc;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// `now()` as a moment; any other function as it is.
pub fn with_moment(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "now" => Arc::new(ScalarUDF::new_from_impl(Now::new())),
        _ => function,
    }
}

/// Keeps its zone, whatever the settings say.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    inner: NowFunc,
}

impl Now {
    fn new() -> Now {
        let mut in_utc = ConfigOptions::default();
        in_utc.execution.time_zone = Some("+00:00".into());
        Now { inner: NowFunc::new_with_config(&in_utc) }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }
}

/// Plans differences of moments.
#[derive(Debug)]
pub struct MomentsApart;

impl ExprPlanner for MomentsApart {
    fn plan_binary_op(
        &self,
        binary: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if binary.op != BinaryOperator::Minus {
            return Ok(PlannerResult::Original(binary));
        }
        let types = [&binary.left, &binary.right].map(|operand| operand.get_type(schema).ok());
        let [
            Some(DataType::Timestamp(_, Some(zone))),
            Some(DataType::Timestamp(unit, Some(other))),
        ] = types
        else {
            return Ok(PlannerResult::Original(binary));
        };
        if zone == other {
            return Ok(PlannerResult::Original(binary));
        }
        let in_zone = DataType::Timestamp(unit, Some(zone));
        let right = Expr::Cast(Cast::new(Box::new(binary.right), in_zone));
        Ok(PlannerResult::Original(RawBinaryExpr { right, ..binary }))
    }
}
