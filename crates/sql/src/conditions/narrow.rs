//! From conditions to what indexes answer: a key range and sets.
//!
//! Equalities on the first key columns and then comparisons on the next one become a key range; equalities
//! and lists on the set column become sets. A condition is *taken* if the range and the sets mean exactly
//! it; otherwise it stays to be tested.

use std::ops::Deref;

use arrow_array::{ArrayRef, new_empty_array, new_null_array};
use arrow_schema::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::Dialect;
use drillcore::{Between, Closed, TableSchema};

use crate::functions::checked_arithmetic::as_written;

/// Conditions, taken apart.
#[derive(Debug, Default)]
pub struct Narrowed {
    pub between: Option<Between>,
    pub sets: Option<ArrayRef>,
    /// Key columns that have one value in the range.
    pub fixed: Vec<String>,
    /// The conditions behind the range, those behind the sets ...
    pub by_range: Vec<Expr>,
    pub by_sets: Vec<Expr>,
    /// ... and all that must be tested, perhaps some of those above.
    pub tested: Vec<Expr>,
}

/// Takes apart conditions that must all hold. They are coerced and simplified: a comparison has a column on
/// one side and a value of its type on the other.
pub fn narrow(schema: &TableSchema, mut conditions: Vec<Expr>) -> Narrowed {
    let mut narrowed = Narrowed::default();
    if conditions.iter().any(is_never) {
        narrowed.between = Some(nothing(schema));
        narrowed.by_range = conditions.extract_if(.., |condition| is_never(condition)).collect();
        return narrowed;
    }
    conditions.retain(|condition| !is_always(condition));
    narrow_range(schema, &mut conditions, &mut narrowed);
    narrow_sets(schema, &mut conditions, &mut narrowed);
    narrowed.tested.append(&mut conditions);
    narrowed
}

fn is_never(condition: &Expr) -> bool {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => *value != Some(true),
        Expr::Literal(ScalarValue::Null, _) => true,
        _ => false,
    }
}

fn is_always(condition: &Expr) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

/// A range that no key lies in: above and below null.
fn nothing(schema: &TableSchema) -> Between {
    let null = new_null_array(schema.columns.field(schema.key[0]).data_type(), 1);
    Between { low: Some(vec![null.clone()]), high: Some(vec![null]), closed: Closed::Neither }
}

fn narrow_range(schema: &TableSchema, conditions: &mut Vec<Expr>, narrowed: &mut Narrowed) {
    let mut prefix: Vec<ArrayRef> = Vec::new();
    let mut low: Option<(ArrayRef, bool)> = None;
    let mut high: Option<(ArrayRef, bool)> = None;
    for &column in &schema.key {
        let field = schema.columns.field(column);
        if let Some(value) = take(conditions, narrowed, field, &[Operator::Eq]) {
            prefix.push(value.array);
            narrowed.fixed.push(field.name().clone());
            continue;
        }
        low = take(conditions, narrowed, field, &[Operator::Gt, Operator::GtEq])
            .map(|value| (value.array, value.operator == Operator::GtEq));
        high = take(conditions, narrowed, field, &[Operator::Lt, Operator::LtEq])
            .map(|value| (value.array, value.operator == Operator::LtEq));
        if let (None, Some(_)) = (&low, &high) {
            // Nulls come first and are below nothing.
            low = Some((new_null_array(field.data_type(), 1), false));
        }
        break;
    }
    if prefix.is_empty() && low.is_none() && high.is_none() {
        return;
    }
    let end = |end: Option<(ArrayRef, bool)>| match end {
        None => (prefix.clone(), true),
        Some((value, is_closed)) => (prefix.iter().cloned().chain([value]).collect(), is_closed),
    };
    let ((low, from_low), (high, to_high)) = (end(low), end(high));
    let closed = match (from_low, to_high) {
        (true, true) => Closed::Both,
        (true, false) => Closed::Left,
        (false, true) => Closed::Right,
        (false, false) => Closed::Neither,
    };
    let open_if_empty = |end: Vec<ArrayRef>| (!end.is_empty()).then_some(end);
    narrowed.between = Some(Between { low: open_if_empty(low), high: open_if_empty(high), closed });
}

/// A comparison that becomes an end of the range.
struct End {
    array: ArrayRef,
    operator: Operator,
}

/// Takes the first comparison of a column with one of the operators off the conditions.
fn take(
    conditions: &mut Vec<Expr>,
    narrowed: &mut Narrowed,
    field: &Field,
    operators: &[Operator],
) -> Option<End> {
    let found = conditions.iter().enumerate().find_map(|(at, condition)| {
        let (operator, value) = comparison(condition, field)?;
        operators.contains(&operator).then_some((at, operator, value))
    });
    let (at, operator, value) = found?;
    let array = value.to_array().ok()?;
    narrowed.by_range.push(conditions.remove(at));
    Some(End { array, operator })
}

/// The comparison of a column with a value of its type, if a condition is one; `IS NULL` is one with null.
fn comparison(condition: &Expr, field: &Field) -> Option<(Operator, ScalarValue)> {
    match condition {
        Expr::IsNull(operand) if is_column(operand, field) => {
            Some((Operator::Eq, ScalarValue::try_new_null(field.data_type()).ok()?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (operator, value) = match (left.deref(), right.deref()) {
                (column, Expr::Literal(value, _)) if is_column(column, field) => (*op, value),
                (Expr::Literal(value, _), column) if is_column(column, field) => {
                    (op.swap()?, value)
                }
                _ => return None,
            };
            let fits = value.data_type() == *field.data_type() && !value.is_null();
            // The engine takes no NaN for an end of a range.
            let fits = fits && !is_nan(value);
            fits.then(|| (operator, value.clone()))
        }
        // A condition that is a boolean column itself.
        column if *field.data_type() == DataType::Boolean && is_column(column, field) => {
            Some((Operator::Eq, ScalarValue::from(true)))
        }
        Expr::Not(column)
            if *field.data_type() == DataType::Boolean && is_column(column, field) =>
        {
            Some((Operator::Eq, ScalarValue::from(false)))
        }
        _ => None,
    }
}

fn is_column(expr: &Expr, field: &Field) -> bool {
    matches!(expr, Expr::Column(column) if column.name == *field.name())
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn narrow_sets(schema: &TableSchema, conditions: &mut Vec<Expr>, narrowed: &mut Narrowed) {
    let Some(column) = schema.set_column() else { return };
    let field = schema.columns.field(column);
    let found = conditions
        .iter()
        .enumerate()
        .find_map(|(at, condition)| set_values(condition, field).map(|values| (at, values)));
    let Some((at, values)) = found else { return };
    let sets = match values.is_empty() {
        true => Ok(new_empty_array(field.data_type())),
        false => ScalarValue::iter_to_array(values),
    };
    let Ok(sets) = sets else { return };
    debug_assert_eq!(sets.data_type(), field.data_type());
    narrowed.by_sets.push(conditions.remove(at));
    narrowed.sets = Some(sets);
}

/// The values of a column that a condition says to be the only ones to pass, if that is what it says.
fn set_values(condition: &Expr, field: &Field) -> Option<Vec<ScalarValue>> {
    if let Some((Operator::Eq, value)) = comparison(condition, field) {
        return Some(vec![value]);
    }
    match condition {
        Expr::InList(InList { expr, list, negated: false }) if is_column(expr, field) => {
            let mut values = Vec::with_capacity(list.len());
            for element in list {
                match element {
                    // Nothing equals null.
                    Expr::Literal(value, _) if value.is_null() => {}
                    Expr::Literal(value, _) if value.data_type() == *field.data_type() => {
                        values.push(value.clone());
                    }
                    _ => return None,
                }
            }
            Some(values)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut values = set_values(left, field)?;
            values.extend(set_values(right, field)?);
            Some(values)
        }
        _ => None,
    }
}

/// Quotes names as DataFusion's dialect does, which compiles a regular expression for each name that it looks at:
/// half of the time of a short `explain`.
struct NameQuoting;

impl Dialect for NameQuoting {
    fn identifier_quote_style(&self, name: &str) -> Option<char> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
        let is_word = name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit());
        let upper = name.to_uppercase();
        let is_keyword = upper != "ID" && ALL_KEYWORDS.binary_search(&upper.as_str()).is_ok();
        (!is_word || is_keyword || name.is_empty()).then_some('"')
    }
}

/// Some conditions as one text, in SQL.
pub fn joined(conditions: &[Expr]) -> String {
    let unparser = Unparser::new(&NameQuoting).with_pretty(true);
    let text = |condition: &Expr| {
        let condition = as_written(condition.clone()).unwrap_or_else(|_| condition.clone());
        match unparser.expr_to_sql(&condition) {
            Ok(sql) => sql.to_string(),
            Err(_) => condition.human_display().to_string(),
        }
    };
    conditions.iter().map(text).collect::<Vec<_>>().join(" AND ")
}
