//! Decimals beside floats, and beside decimals of another scale, compared as the numbers that they are.
//!
//! DataFusion 55.2 casts floats to decimals to compare the two, which fails for a whole column where one value is NaN, or
//! has more digits than decimals hold, and drops digits of small ones; and it casts two decimals to one type that may not
//! have the digits of both. Here a decimal and a float are compared by their place among all numbers: a float stands for the
//! shortest decimal that reads as it, as a number in the text of a query does, NaN for more than all. Where
//! one of the two is chosen (`CASE`, `coalesce`, `UNION`), the result is a float, as in arithmetic.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinConstraint, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Union, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rules::compared_literals::is_comparison;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{change_parts, change_plans_up, change_up};

/// Digits of a decimal of 128 bits.
const DIGITS_MAX: u8 = 38;
/// The place of a number in the order of all, as a decimal of `DIGITS_MAX` digits.
const PLACE: DataType = DataType::Decimal128(DIGITS_MAX, 0);

/// Functions whose result is one of their arguments.
const CHOICES: [&str; 6] = ["coalesce", "greatest", "least", "nullif", "nvl", "nvl2"];

/// Applies [`with_decimals_as_numbers`] to whole plans; to be run before types are brought together.
#[derive(Debug)]
pub struct ComparedDecimals;

impl AnalyzerRule for ComparedDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            let schema = schema_of_expressions(&plan);
            let changed = change_parts(plan, &mut |part| as_numbers(part, &schema))?;
            let changed = changed.map_data(inputs_together)?;
            changed.map_data(LogicalPlan::recompute_schema)
        })
    }

    fn name(&self) -> &str {
        "compared_decimals"
    }
}

/// The expression, before its types are brought together, with its comparisons of decimals made exact.
pub fn with_decimals_as_numbers(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(change_up(expr, &mut |part| as_numbers(part, schema))?.data)
}

/// What has to be done to both sides of a comparison.
#[derive(Debug, Clone, PartialEq)]
enum Meeting {
    /// A decimal and a float are compared by their places.
    Places,
    /// Decimals are compared as such with the digits of both.
    Digits(DataType),
}

impl Meeting {
    /// `None` where DataFusion does well.
    fn of(left: &DataType, right: &DataType) -> Option<Meeting> {
        let types = [left, right];
        let has_decimal = types.iter().any(|data_type| data_type.is_decimal());
        if has_decimal && types.iter().any(|data_type| data_type.is_floating()) {
            return Some(Meeting::Places);
        }
        if !types.iter().any(|data_type| matches!(data_type, DataType::Decimal128(..))) {
            return None;
        }
        let [(digits, scale), (other_digits, other_scale)] = [digits(left)?, digits(right)?];
        let all_scale = scale.max(other_scale);
        let whole = (digits - scale).max(other_digits - other_scale);
        let wide = DataType::Decimal256((whole + all_scale) as u8, all_scale as i8);
        (whole + all_scale > i16::from(DIGITS_MAX)).then_some(Meeting::Digits(wide))
    }

    fn between(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Meeting> {
        // What has no type is refused with a better message later on.
        Meeting::of(&left.get_type(schema).ok()?, &right.get_type(schema).ok()?)
    }

    fn side(&self, side: Expr) -> Expr {
        match self {
            Meeting::Places => ScalarUDF::new_from_impl(Place::new()).call(vec![side]),
            Meeting::Digits(wide) => Expr::Cast(Cast::new(Box::new(side), wide.clone())),
        }
    }
}

/// The most digits of a number of a type, and how many of them stand behind the point.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType::*;
    let whole = |digits: u8| Some((i16::from(digits), 0));
    match data_type {
        Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale) => {
            Some((i16::from(*digits), i16::from(*scale)))
        }
        Int8 | UInt8 => whole(3),
        Int16 | UInt16 => whole(5),
        Int32 | UInt32 => whole(10),
        Int64 | UInt64 => whole(20),
        _ => None,
    }
}

fn as_numbers(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            match Meeting::between(&left, &right, schema) {
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                Some(_) => Transformed::yes(compared(&left, op, &right, schema)),
            }
        }
        Expr::Between(range) if meets_in_range(&range, schema) => {
            Transformed::yes(range_as_numbers(range, schema))
        }
        Expr::InList(list) if meets_in_list(&list, schema) => {
            Transformed::yes(list_as_numbers(list, schema))
        }
        Expr::InSubquery(within) => subquery_as_numbers(within, schema)?,
        Expr::SetComparison(comparison) => set_as_numbers(comparison, schema)?,
        Expr::Case(case) => Transformed::yes(case_as_numbers(case, schema)),
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if CHOICES.contains(&func.name()) =>
        {
            let condition = usize::from(func.name() == "nvl2").min(args.len());
            together(args[condition..].iter_mut().collect(), schema);
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        expr => Transformed::no(expr),
    })
}

fn compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Expr {
    let sides = match Meeting::between(left, right, schema) {
        None => [left.clone(), right.clone()],
        Some(meeting) => [meeting.side(left.clone()), meeting.side(right.clone())],
    };
    let [left, right] = sides.map(Box::new);
    Expr::BinaryExpr(BinaryExpr { left, op, right })
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    }
}

fn meets_in_range(Between { expr, low, high, .. }: &Between, schema: &DFSchema) -> bool {
    let meets = |end: &Expr| Meeting::between(expr, end, schema).is_some();
    meets(low) || meets(high) || is_mixed([&**expr, &**low, &**high].into_iter(), schema)
}

fn range_as_numbers(Between { expr, negated, low, high }: Between, schema: &DFSchema) -> Expr {
    let low = compared(&expr, Operator::GtEq, &low, schema);
    let high = compared(&expr, Operator::LtEq, &high, schema);
    negated_if(negated, low.and(high))
}

fn meets_in_list(InList { expr, list, .. }: &InList, schema: &DFSchema) -> bool {
    list.iter().any(|value| Meeting::between(expr, value, schema).is_some())
        || is_mixed(list.iter(), schema)
}

/// A list for each way in which values are compared.
fn list_as_numbers(InList { expr, list, negated }: InList, schema: &DFSchema) -> Expr {
    // What is compared in one way, and with floats or with others.
    type How = (Option<Meeting>, bool);
    let mut lists: Vec<(How, Vec<Expr>)> = Vec::new();
    for value in list {
        let how = (Meeting::between(&expr, &value, schema), is_float(&value, schema));
        match lists.iter_mut().find(|(met, _)| *met == how) {
            Some((_, values)) => values.push(value),
            None => lists.push((how, vec![value])),
        }
    }
    let within = lists.into_iter().map(|((how, _), values)| {
        let side = |side: Expr| match &how {
            None => side,
            Some(how) => how.side(side),
        };
        let expr = Box::new(side(expr.as_ref().clone()));
        let list = values.into_iter().map(side).collect();
        Expr::InList(InList { expr, list, negated: false })
    });
    negated_if(negated, disjunction(within).expect("a list that meets has a value"))
}

fn subquery_as_numbers(within: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(how) = meeting_rows(&within.expr, &within.subquery, schema) else {
        return Ok(Transformed::no(Expr::InSubquery(within)));
    };
    let InSubquery { expr, subquery, negated } = within;
    let (expr, subquery) = (Box::new(how.side(*expr)), rows(&how, subquery)?);
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

fn set_as_numbers(mut comparison: SetComparison, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let SetComparison { expr, subquery, .. } = &mut comparison;
    let how = meeting_rows(expr, subquery, schema);
    if let Some(how) = &how {
        **expr = how.side(expr.as_ref().clone());
        *subquery = rows(how, subquery.clone())?;
    }
    Ok(Transformed::new_transformed(Expr::SetComparison(comparison), how.is_some()))
}

fn case_as_numbers(mut case: Case, schema: &DFSchema) -> Expr {
    let when = case.when_then_expr.iter().map(|(when, _)| when);
    let compares =
        |operand: &Expr| when.clone().any(|when| Meeting::between(operand, when, schema).is_some());
    if let Some(operand) = case.expr.take_if(|operand| compares(operand)) {
        for (when, _) in &mut case.when_then_expr {
            **when = compared(&operand, Operator::Eq, when, schema);
        }
    }
    let Case { when_then_expr, else_expr, .. } = &mut case;
    let results = when_then_expr.iter_mut().map(|(_, then)| then);
    together(results.chain(else_expr).map(Box::as_mut).collect(), schema);
    Expr::Case(case)
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

/// Whether there are floats among the operands and other numbers. DataFusion finds one type for all of them, which may be
/// a decimal.
fn is_mixed<'a>(mut operands: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> bool {
    let mut others = operands.clone();
    let is_other =
        |expr: &Expr| expr.get_type(schema).is_ok_and(|t| t.is_numeric() && !t.is_floating());
    operands.any(|expr| is_float(expr, schema)) && others.any(is_other)
}

/// How a value meets those of a query.
fn meeting_rows(expr: &Expr, subquery: &Subquery, schema: &DFSchema) -> Option<Meeting> {
    let values = subquery.subquery.schema().fields().first()?;
    Meeting::of(&expr.get_type(schema).ok()?, values.data_type())
}

/// The query with its values brought to where they are compared.
fn rows(how: &Meeting, subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery;
    let values = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let plan = LogicalPlan::Projection(Projection::try_new(vec![how.side(values)], plan)?);
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}

/// Makes floats of decimals if the result may be either, and says so at once if it is a decimal, so that comparisons of it
/// are known as such: other than DataFusion's own rule, this one comes before.
fn together(results: Vec<&mut Expr>, schema: &DFSchema) {
    let types = || results.iter().filter_map(|result| result.get_type(schema).ok());
    let common = match () {
        () if types().any(|t| t.is_floating()) && types().any(|t| t.is_decimal()) => {
            Some(DataType::Float64)
        }
        () => {
            let first = types().next();
            let all = types().try_fold(first, |all, t| Some(type_union_coercion(&all?, &t)));
            all.flatten().filter(DataType::is_decimal)
        }
    };
    let Some(common) = common else { return };
    for result in results {
        let casts = |t: DataType| t.is_numeric() && !t.is_floating() && t != common;
        if result.get_type(schema).is_ok_and(casts) {
            *result = Expr::Cast(Cast::new(Box::new(result.clone()), common.clone()));
        }
    }
}

/// The plan with the keys of a join, and the columns of a union, brought together.
fn inputs_together(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                let types =
                    (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
                let (Ok(left_type), Ok(right_type)) = types else { continue };
                if let Some(how) = Meeting::of(&left_type, &right_type) {
                    (*left, *right) = (how.side(left.clone()), how.side(right.clone()));
                    // USING takes columns only; it has named those of the result already.
                    join.join_constraint = JoinConstraint::On;
                }
            }
            Ok(LogicalPlan::Join(join))
        }
        LogicalPlan::Union(Union { inputs, schema }) => {
            let columns = schema.fields().len();
            let has = |at: usize, is: fn(&DataType) -> bool| {
                inputs.iter().any(|input| is(input.schema().field(at).data_type()))
            };
            let is_mixed: Vec<bool> = (0..columns)
                .map(|at| has(at, DataType::is_decimal) && has(at, DataType::is_floating))
                .collect();
            if !is_mixed.contains(&true) {
                return Ok(LogicalPlan::Union(Union { inputs, schema }));
            }
            let inputs = inputs.into_iter().map(|input| with_floats(input, &is_mixed));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
        }
        plan => Ok(plan),
    }
}

/// The plan with floats for the decimals in some columns.
fn with_floats(plan: Arc<LogicalPlan>, columns: &[bool]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(plan.schema());
    let columns = schema.iter().zip(columns).map(|((relation, field), is_mixed)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        match *is_mixed && field.data_type().is_decimal() {
            false => column,
            true => Expr::Cast(Cast::new(Box::new(column), DataType::Float64))
                .alias_qualified(relation.cloned(), field.name()),
        }
    });
    let columns = columns.collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, plan)?)))
}

/// The place of a decimal or a float in the order of all numbers, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    signature: Signature,
}

impl Place {
    fn new() -> Place {
        Place { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Place {
    fn name(&self) -> &str {
        "place_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(PLACE)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_value = matches!(args.args[0], ColumnarValue::Scalar(_));
        let numbers = args.args[0].to_array(args.number_rows)?;
        let places: ArrayRef = Arc::new(places(&numbers)?.with_data_type(PLACE));
        Ok(match is_value {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&places, 0)?),
            false => ColumnarValue::Array(places),
        })
    }
}

fn places(numbers: &ArrayRef) -> Result<Decimal128Array> {
    Ok(match numbers.data_type() {
        DataType::Float64 => numbers.as_primitive::<Float64Type>().unary(place_of_float),
        // As it is spelled, a float of 32 bits is another number than as one of 64.
        DataType::Float32 => numbers.as_primitive::<Float32Type>().unary(|value| {
            place_of_float(value.to_string().parse().expect("a float is spelled as one"))
        }),
        DataType::Float16 => places(&cast(numbers, &DataType::Float32)?)?,
        DataType::Decimal128(digits, scale) => {
            let place = |value| place_of_decimal(value, *digits, *scale);
            numbers.as_primitive::<Decimal128Type>().unary(place)
        }
        DataType::Decimal256(digits, scale) => {
            let place =
                |value| place_of_text(&Decimal256Type::format_decimal(value, *digits, *scale));
            numbers.as_primitive::<Decimal256Type>().unary(place)
        }
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            places(&cast(numbers, &DataType::Decimal128(DIGITS_MAX, *scale))?)?
        }
        other => return internal_err!("{other} has no place among numbers"),
    })
}

/// Three places a float: those beside it are for the decimals nearest to it that lie below and above.
fn place_of_float(value: f64) -> i128 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits() as i64;
    // The bits of negative floats ascend downwards.
    let ordered = if bits < 0 { i64::MIN - bits } else { bits };
    i128::from(ordered) * 3
}

fn place_of_decimal(value: i128, digits: u8, scale: i8) -> i128 {
    const EXACT_DIGITS: u32 = 15;
    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    // Numbers of 15 digits and these powers are floats, so their quotient is the float next to the decimal (Clinger,
    // 1990); and a decimal of 15 digits is the shortest that reads as that.
    let power = usize::try_from(scale).ok().and_then(|scale| POWERS.get(scale));
    match power {
        Some(power) if value.unsigned_abs() < 10_u128.pow(EXACT_DIGITS) => {
            place_of_float(value as f64 / power)
        }
        _ => place_of_text(&Decimal128Type::format_decimal(value, digits, scale)),
    }
}

/// The place of a decimal as text.
fn place_of_text(decimal: &str) -> i128 {
    let nearest: f64 = decimal.parse().expect("a decimal reads as a float");
    let beside = match Spelled::of(decimal).cmp(&Spelled::of(&format!("{nearest:e}"))) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    place_of_float(nearest) + if decimal.starts_with('-') { -beside } else { beside }
}

/// The size of a number: 0.d₁d₂… · 10^exponent, ordered as numbers are. Zero, without digits, has the least exponent.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Spelled {
    exponent: i32,
    digits: Vec<u8>,
}

impl Spelled {
    fn of(text: &str) -> Spelled {
        let text = text.trim_start_matches('-');
        let (number, power) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let power: i32 = power.parse().expect("an exponent is a whole number");
        let exponent = match digits.is_empty() {
            true => i32::MIN,
            false => power + whole.len() as i32 - (all.len() - digits.len()) as i32,
        };
        Spelled { exponent, digits: digits.trim_end_matches('0').into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decimals and floats in ascending order, those on one line equal.
    const ASCENDING: [&[&str]; 17] = [
        &["f-inf"],
        &["f-1e300"],
        &["d-99999999999999999999999999999999999999"],
        &["f-1e22", "d-10000000000000000000000"],
        &["d-9007199254740993"],
        &["f-9007199254740992", "d-9007199254740992.0000"],
        &["d-0.1000000000000000000000000001"],
        &["f-0.1", "d-0.10", "d-0.1"],
        &["f-5e-324"],
        &["f0", "f-0", "d0", "d0.00"],
        &["d0.00000000000000000000000000000000000001"],
        &["f0.1", "d0.1", "d0.100000000000000000000000000000"],
        &["d0.1000000000000000000000000001"],
        &["f0.30000000000000004", "d0.30000000000000004"],
        &["d12345678901234567890123456789012345678"],
        &["f1e300", "f1e300"],
        &["fnan", "f-nan"],
    ];

    fn place(number: &str) -> i128 {
        match number.split_at(1) {
            ("f", text) if text.ends_with("nan") => {
                place_of_float(if text.starts_with('-') { -f64::NAN } else { f64::NAN })
            }
            ("f", text) => place_of_float(text.parse().unwrap()),
            (_, text) => {
                let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
                let value: i128 = text.replace('.', "").parse().unwrap();
                place_of_decimal(value, DIGITS_MAX, scale as i8)
            }
        }
    }

    #[test]
    fn places_have_the_order_of_the_numbers_that_are_spelled() {
        for (at, numbers) in ASCENDING.iter().enumerate() {
            for number in *numbers {
                assert_eq!(place(number), place(numbers[0]), "{number}");
                for greater in ASCENDING[at + 1..].iter().flat_map(|numbers| *numbers) {
                    assert!(place(number) < place(greater), "{number} and {greater}");
                }
            }
        }
    }

    #[test]
    fn the_quick_way_to_a_place_is_the_place() {
        let mut state = 1_u64;
        for at in 0..200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at | 1);
            let value = (state >> 14) as i128 % 10_i128.pow(1 + (at % 16) as u32);
            let value = if state & 1 == 0 { value } else { -value };
            let scale = (state >> 5) as i8 & 31;
            let text = Decimal128Type::format_decimal(value, DIGITS_MAX, scale);
            assert_eq!(place_of_decimal(value, DIGITS_MAX, scale), place_of_text(&text), "{text}");
        }
    }
}
