//! Floats in SQL: one NaN, above all numbers, and one zero.
//!
//! Keys and sets are so by their encoding. Arrow and DataFusion 55.2 compare, sort and hash floats by their bits, in which
//! a NaN with its sign set (x86 computes such for 0.0 / 0.0) lies below all numbers, each of its signs is a value of its
//! own, and so, in some places, is each zero. So no plan gets to see other bits: columns are normalised where
//! tables are read, literals where they stand, and what is computed where it is computed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

/// Aggregates and window functions that hand on one of their inputs, or all.
const HAND_ON: [&str; 8] =
    ["min", "max", "first_value", "last_value", "nth_value", "array_agg", "lag", "lead"];

/// Normalises what whole plans compute; to be run once types have been brought together.
#[derive(Debug)]
pub struct OneNan;

impl AnalyzerRule for OneNan {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            let plan = change_parts(plan, &mut |part| with(part, &schema))?;
            plan.map_data(LogicalPlan::recompute_schema)?.map_data(with_aggregates)
        })
    }

    fn name(&self) -> &str {
        "one_nan"
    }
}

/// The expression, of coerced types, with what it computes of floats normalised.
pub fn with_one_nan(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| with(part, schema))?.data)
}

/// The expression as it is written; undoes [`with_one_nan`], but for literals.
pub fn without_one_nan(expr: Expr) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| Ok(computed(part)))?.data)
}

fn with(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let computes = match &expr {
        Expr::Literal(value, _) if holds_floats(&value.data_type()) => {
            let Expr::Literal(value, metadata) = expr else { unreachable!("it was matched") };
            return Ok(Transformed::yes(Expr::Literal(normalised_value(value)?, metadata)));
        }
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.is_numerical_operators(),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            let (from, to) = (expr.get_type(schema)?, field.data_type());
            // What a float becomes in more bits is normal, if it was.
            let widens = from.is_floating() && from.primitive_width() <= to.primitive_width();
            !(from.is_integer() || from.is_decimal() || widens)
        }
        Expr::ScalarFunction(function) => !function.func.inner().is::<Normalise>(),
        Expr::Negative(_) | Expr::HigherOrderFunction(_) => true,
        _ => false,
    };
    if !(computes && holds_floats(&type_of(&expr, schema)?)) {
        return Ok(Transformed::no(expr));
    }
    let call = ScalarUDF::new_from_impl(Normalise::new()).call(vec![as_operands(expr)]);
    Ok(Transformed::yes(call))
}

/// The type of an expression. Both operands of arithmetic of floats have that of the result, so one is looked at: types
/// of deep trees would take time by the square of the depth otherwise.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, .. }) if op.is_numerical_operators() => {
            match type_of(left, schema)? {
                float if float.is_floating() => Ok(float),
                _ => expr.get_type(schema),
            }
        }
        Expr::Negative(operand) => type_of(operand, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.inner().is::<Normalise>() => {
            type_of(&args[0], schema)
        }
        expr => expr.get_type(schema),
    }
}

/// The same with its operands as they are computed, where it makes no difference to its own result, normalised: only
/// division tells the zeros apart.
fn as_operands(expr: Expr) -> Expr {
    let bare = |operand: Box<Expr>| Box::new(computed(*operand).data);
    match expr {
        Expr::Negative(operand) => Expr::Negative(bare(operand)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let right = if op == Operator::Divide { right } else { bare(right) };
            Expr::BinaryExpr(BinaryExpr { left: bare(left), op, right })
        }
        expr => expr,
    }
}

/// What is normalised, if that is what the expression does.
fn computed(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if func.inner().is::<Normalise>() =>
        {
            Transformed::yes(args.remove(0))
        }
        expr => Transformed::no(expr),
    }
}

/// The plan, and above it a projection that normalises what aggregates and windows compute.
fn with_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let results = match &plan {
        LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
        LogicalPlan::Window(window) => &window.window_expr,
        _ => return Ok(plan),
    };
    // They stand behind the columns of the groups, or of the input.
    let first = plan.schema().fields().len() - results.len();
    let computes = |at: usize, field: &FieldRef| {
        at.checked_sub(first).is_some_and(|at| !hands_on(&results[at]))
            && holds_floats(field.data_type())
    };
    let fields = || plan.schema().iter().enumerate();
    if !fields().any(|(at, (_, field))| computes(at, field)) {
        return Ok(plan);
    }
    let columns = fields().map(|(at, (relation, field))| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        match computes(at, field) {
            false => column,
            true => ScalarUDF::new_from_impl(Normalise::new())
                .call(vec![column])
                .alias_qualified(relation.cloned(), field.name()),
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn hands_on(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => hands_on(&alias.expr),
        Expr::AggregateFunction(function) => HAND_ON.contains(&function.func.name()),
        Expr::WindowFunction(function) => HAND_ON.contains(&function.fun.name()),
        _ => false,
    }
}

/// Floats with one NaN and one zero, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Normalise {
    signature: Signature,
}

impl Normalise {
    fn new() -> Normalise {
        Normalise { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Normalise {
    fn name(&self) -> &str {
        "one_nan"
    }

    /// Columns are called what they are called without it. A cast is called what is cast, so as a key of a join it needs
    /// another name beside that column.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match &args[0] {
            cast @ (Expr::Cast(_) | Expr::TryCast(_)) => format!("{}({cast})", self.name()),
            expr => expr.schema_name().to_string(),
        })
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
        Ok(match args.args.remove(0) {
            ColumnarValue::Array(values) => ColumnarValue::Array(normalised(&values)),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(normalised_value(value)?),
        })
    }
}

/// The same rows with one NaN and one zero. Costs a look at each float, and a copy of columns with another NaN or
/// zero.
pub fn normalised_rows(rows: RecordBatch) -> RecordBatch {
    if !rows.schema_ref().fields().iter().any(|field| holds_floats(field.data_type())) {
        return rows;
    }
    let columns = rows.columns().iter().map(normalised).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options)
        .expect("each column keeps its type and its nulls")
}

/// Floats of a type with one NaN and one zero.
macro_rules! normalised_floats {
    ($values:expr, $Type:ty) => {{
        type Float = <$Type as ArrowPrimitiveType>::Native;
        // Shifted out, the sign makes no difference.
        let is_zero = |value: Float| value.to_bits() << 1 == 0;
        let is_other = |value: Float| {
            (value.is_nan() & (value.to_bits() != Float::NAN.to_bits()))
                | (is_zero(value) & (value.to_bits() != 0))
        };
        let one = |value: Float| match () {
            () if value.is_nan() => Float::NAN,
            () if is_zero(value) => Float::from_bits(0),
            () => value,
        };
        let floats = $values.as_primitive::<$Type>();
        // Without a branch, so that a look is all that most arrays cost.
        match floats.values().iter().fold(false, |found, &value| found | is_other(value)) {
            false => Arc::clone($values),
            true => Arc::new(floats.unary::<_, $Type>(one)),
        }
    }};
}

/// The same values with one NaN and one zero.
fn normalised(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => normalised_floats!(values, Float16Type),
        DataType::Float32 => normalised_floats!(values, Float32Type),
        DataType::Float64 => normalised_floats!(values, Float64Type),
        nested if holds_floats(nested) => {
            let data = values.to_data();
            let of_child = |child| normalised(&make_array(child)).to_data();
            let children = data.child_data().iter().cloned().map(of_child).collect();
            let data = data.into_builder().child_data(children).build();
            make_array(data.expect("each child keeps its type, its length and its nulls"))
        }
        _ => Arc::clone(values),
    }
}

fn normalised_value(value: ScalarValue) -> Result<ScalarValue> {
    match holds_floats(&value.data_type()) {
        true => ScalarValue::try_from_array(&normalised(&value.to_array()?), 0),
        false => Ok(value),
    }
}

fn holds_floats(data_type: &DataType) -> bool {
    let holds = |field: &FieldRef| holds_floats(field.data_type());
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds(field),
        DataType::Struct(fields) => fields.iter().any(holds),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| holds(field)),
        DataType::RunEndEncoded(_, values) => holds(values),
        DataType::Dictionary(_, values) => holds_floats(values),
        _ => false,
    }
}
