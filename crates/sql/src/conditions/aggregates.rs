//! What estimates are of, in SQL: `avg(delay * miles) filter (where carrier = 'UA')`, by `date_trunc('hour', ts)`.
//!
//! A plain column is left to the engine. What is not becomes a column that is computed, named by its text. A filter makes its
//! argument null where it does not hold, and aggregates leave nulls out.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, new_empty_array, new_null_array};
use arrow_schema::DataType;
use datafusion::arrow::compute::{cast, concat, nullif};
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, lit, when};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use drillcore::{
    Aggregate, Computed, Error, ErrorKind, Expression, Interrupt, Result, TableSchema, aside,
};

use crate::conditions::predicate::{check_plain, simplified};
use crate::error::{from_datafusion, to_datafusion, with_quotes_told, without_panic};
use crate::notation::{aggregate_of, parse_aggregate};
use crate::parsing::syntax;
use crate::rules::one_nan::normalised_rows;
use crate::session;

/// What an estimate is asked for: see [`drillcore::EstimateRequest`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::{EstimateRequest, Interrupt};
/// use drillcore_sql::{Aggregates, aggregates};
///
/// let texts = [("late".to_string(), "count filter (where delay > 30)".to_string())];
/// let asked: Aggregates = aggregates(&flights.schema(), &texts, &[], &Interrupt::never())?;
/// assert_eq!(asked.computed.len(), 1, "the condition is computed for each row");
/// let request = EstimateRequest {
///     aggregates: asked.aggregates,
///     computed: asked.computed,
///     ..EstimateRequest::default()
/// };
/// assert_eq!(flights.snapshot()?.estimate(&request)?.aggregates[0].name, "late");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Default)]
pub struct Aggregates {
    /// Each with the name that it has in the result.
    pub aggregates: Vec<(String, Aggregate)>,
    /// Columns to group by.
    pub by: Vec<String>,
    /// Columns that the table does not have.
    pub computed: Vec<Computed>,
}

/// The name of any function, while what is in its parentheses is read.
const CALLED: &str = "aggregate_of";

/// Reads aggregates, each with its name in the result, and what to group by: columns, or expressions on them.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::{EstimateRequest, Interrupt};
/// use drillcore_sql::{Aggregates, aggregates};
///
/// let asked = [("hours".to_string(), "avg(delay / 60.0)".to_string())];
/// let by = ["carrier".to_string()];
/// let Aggregates { aggregates, by, computed } =
///     aggregates(&flights.schema(), &asked, &by, &Interrupt::never())?;
/// let request = EstimateRequest { aggregates, by, computed, ..EstimateRequest::default() };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// assert_eq!(estimate.aggregates[0].intervals.len(), 2);
/// # drillcore::Result::Ok(())
/// ```
///
/// # Errors
/// `InvalidArgument` for what is no aggregate of expressions on the table's rows; `NotFound` for unknown aggregates and columns.
pub fn aggregates(
    schema: &TableSchema,
    aggregates: &[(String, String)],
    by: &[String],
    interrupt: &Interrupt,
) -> Result<Aggregates> {
    let mut read = Aggregates::default();
    if aggregates.iter().all(|(_, text)| is_plain(schema, text).is_some())
        && by.iter().all(|by| is_column(schema, by) || is_name(by))
    {
        read.aggregates = aggregates
            .iter()
            .map(|(name, text)| Ok((name.clone(), parse_aggregate(text)?)))
            .collect::<Result<_>>()?;
        read.by = by.to_vec();
        return Ok(read);
    }
    let (schema, aggregates, by) = (schema.clone(), aggregates.to_vec(), by.to_vec());
    // What reads the text looks for no interrupt, so it is left behind.
    aside(interrupt, move |_| {
        for (name, text) in &aggregates {
            let aggregate = match is_plain(&schema, text) {
                Some(aggregate) => aggregate?,
                None => told(text, session::with_stack(|| read.aggregate(&schema, text)))?,
            };
            read.aggregates.push((name.clone(), aggregate));
        }
        for text in &by {
            if !is_column(&schema, text) && !is_name(text) {
                let parse = || read.by_expression(&schema, text);
                told(text, session::with_stack(|| without_panic(parse)))?;
            }
            read.by.push(text.clone());
        }
        Ok(read)
    })
}

impl Aggregates {
    fn aggregate(
        &mut self,
        schema: &TableSchema,
        text: &str,
    ) -> std::result::Result<Aggregate, DataFusionError> {
        let invalid =
            |message: String| to_datafusion(Error::new(ErrorKind::InvalidArgument, message));
        let Some((name, arguments)) = text.split_once('(') else {
            return Err(invalid(format!(
                "{text:?} is not an aggregate; write one such as avg(delay) or count"
            )));
        };
        // The name alone counts rows, with a filter, too.
        let (name, call) = match name.trim().rsplit_once(char::is_whitespace) {
            Some((name, filter)) if filter.eq_ignore_ascii_case("filter") => {
                (name.trim(), format!("{CALLED}() filter ({arguments}"))
            }
            _ => (name.trim(), format!("{CALLED}({arguments}")),
        };
        if !is_name(name) {
            return Err(invalid(format!(
                "{text:?} is not an aggregate; write one such as avg(delay) or count(*) filter (where delay > 15)"
            )));
        }
        let called = syntax::expression(&call)?;
        let ExprWithAlias { expr: SqlExpr::Function(call), alias: None } = called else {
            return Err(invalid(format!(
                "{text:?} is not a single aggregate; put computations inside it, as in avg(delay * 2)"
            )));
        };
        let FunctionArguments::List(list) = &call.args else {
            return Err(invalid(format!(
                "{text:?} has invalid arguments; write an aggregate such as avg(delay) or ratio(delay, miles)"
            )));
        };
        if call.over.is_some()
            || !call.within_group.is_empty()
            || !list.clauses.is_empty()
            || list.duplicate_treatment.is_some()
        {
            return Err(invalid(format!(
                "{text:?}: an estimate takes aggregates of an expression, with `filter (where ...)` at most"
            )));
        }
        let filter = call.filter.as_deref();
        let mut names: Vec<String> = Vec::new();
        for (at, argument) in list.args.iter().enumerate() {
            let is_share = at == 1 && name.eq_ignore_ascii_case("quantile");
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard)
                    if !name.eq_ignore_ascii_case("count") =>
                {
                    return Err(invalid(format!(
                        "{text:?}: only count takes *; {name} needs a column, as in {name}(delay)"
                    )));
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => match filter {
                    None => names.push("*".to_string()),
                    Some(_) => names.push(self.computed(schema, None, filter)?),
                },
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_share => {
                    names.push(expr.to_string());
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    names.push(self.computed(schema, Some(expr), filter)?);
                }
                other => {
                    return Err(invalid(format!(
                        "{text:?}: {other} is neither a column nor an expression; write one of these"
                    )));
                }
            }
        }
        if list.args.is_empty() && filter.is_some() && name.eq_ignore_ascii_case("count") {
            names.push(self.computed(schema, None, filter)?);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        aggregate_of(name, &names).map_err(to_datafusion)
    }

    fn by_expression(
        &mut self,
        schema: &TableSchema,
        text: &str,
    ) -> std::result::Result<(), DataFusionError> {
        let parsed = syntax::expression(text)?;
        let columns = DFSchema::try_from(schema.columns.clone())?;
        let state = session::expressions();
        let expr = state.create_logical_expr_from_sql_expr(parsed, &columns)?;
        let value = RowValue::new(schema, expr, text)?;
        self.add(text, value);
        Ok(())
    }

    /// The name of what an aggregate is of: of a column, or of one that is computed. Without an expression, rows are counted.
    fn computed(
        &mut self,
        schema: &TableSchema,
        expr: Option<&SqlExpr>,
        filter: Option<&SqlExpr>,
    ) -> std::result::Result<String, DataFusionError> {
        let columns = DFSchema::try_from(schema.columns.clone())?;
        let state = session::expressions();
        let logical = |expr: &SqlExpr| {
            let expr = ExprWithAlias { expr: expr.clone(), alias: None };
            state.create_logical_expr_from_sql_expr(expr, &columns)
        };
        let value = expr.map_or(Ok(lit(1i64)), logical)?;
        let column = match &value {
            Expr::Column(column) => Some(column.name.clone()),
            _ => None,
        };
        let Some(filter) = filter else {
            if let Some(column) = column {
                return Ok(column);
            }
            let name = expr.map_or("1".to_string(), SqlExpr::to_string);
            let value = RowValue::new(schema, value, &name)?;
            self.add(&name, value);
            return Ok(name);
        };
        let name = match expr {
            Some(expr) => format!("{expr} filter (where {filter})"),
            None => format!("* filter (where {filter})"),
        };
        let condition = logical(filter)?;
        if !matches!(condition.get_type(&columns)?, DataType::Boolean | DataType::Null) {
            let message = format!("the filter {filter} must be true or false");
            return Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)));
        }
        let chosen = when(condition.clone(), value.clone()).end()?;
        let mut chosen = RowValue::new(schema, chosen, &name)?;
        chosen.chooses_from = column;
        // What is constant may need other columns, and needs no haste.
        chosen.parts =
            chosen.physical(schema, value).ok().zip(chosen.physical(schema, condition).ok());
        let value = chosen;
        self.add(&name, value);
        Ok(name)
    }

    fn add(&mut self, name: &str, value: RowValue) {
        if self.computed.iter().all(|known| known.name != name) {
            self.computed.push(Computed { name: name.to_string(), expression: Arc::new(value) });
        }
    }
}

/// An expression on the rows of one table.
#[derive(Debug)]
struct RowValue {
    text: String,
    columns: Vec<String>,
    /// Always there, until it is dropped.
    expr: Option<Arc<dyn PhysicalExpr>>,
    data_type: DataType,
    chooses_from: Option<String>,
    /// With a filter, the value and the condition: to compute the value for all rows takes less time than to choose rows first.
    parts: Option<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
}

impl RowValue {
    fn new(
        schema: &TableSchema,
        expr: Expr,
        text: &str,
    ) -> std::result::Result<RowValue, DataFusionError> {
        check_plain(&expr)?;
        let all = DFSchema::try_from(schema.columns.clone())?;
        let state = session::expressions();
        let expr = simplified(state, expr, &all)?;
        let names = expr.column_refs();
        let is_read = |index: &usize| {
            names.iter().any(|column| column.name == *schema.columns.field(*index).name())
        };
        let mut indexes: Vec<usize> = (0..schema.columns.fields().len()).filter(is_read).collect();
        if indexes.is_empty() {
            // A constant, which each row has.
            indexes.push(0);
        }
        let columns = DFSchema::try_from(schema.columns.project(&indexes)?)?;
        let data_type = match expr.get_type(&all)? {
            DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
            DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Null => DataType::Float64,
            DataType::Dictionary(_, values) => *values,
            other => other,
        };
        let context = PhysicalPlanningContext::default();
        let expr = create_physical_expr(&expr, &columns, state.execution_props(), &context)?;
        let expr = Some(expr);
        let columns = columns.fields().iter().map(|field| field.name().clone()).collect();
        Ok(RowValue {
            text: text.to_string(),
            columns,
            expr,
            data_type,
            chooses_from: None,
            parts: None,
        })
    }

    /// An expression on the columns that this one reads.
    fn physical(
        &self,
        schema: &TableSchema,
        expr: Expr,
    ) -> std::result::Result<Arc<dyn PhysicalExpr>, DataFusionError> {
        let state = session::expressions();
        let expr = simplified(state, expr, &DFSchema::try_from(schema.columns.clone())?)?;
        let index = |name: &String| schema.columns.index_of(name);
        let indexes = self.columns.iter().map(index).collect::<std::result::Result<Vec<_>, _>>()?;
        let columns = DFSchema::try_from(schema.columns.project(&indexes)?)?;
        let context = PhysicalPlanningContext::default();
        create_physical_expr(&expr, &columns, state.execution_props(), &context)
    }

    /// The value of all rows, null where the condition does not hold.
    fn filtered(
        &self,
        (value, condition): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
        rows: &RecordBatch,
    ) -> std::result::Result<ArrayRef, DataFusionError> {
        let len = rows.num_rows();
        let holds = condition.evaluate(rows)?.into_array(len)?;
        let Some(holds) = holds.as_boolean_opt() else {
            return Ok(new_null_array(&self.data_type, len));
        };
        let kept = match holds.nulls() {
            None => holds.values().clone(),
            Some(valid) => holds.values() & valid.inner(),
        };
        let values = cast(&value.evaluate(rows)?.into_array(len)?, &self.data_type)?;
        Ok(nullif(&values, &BooleanArray::new(!&kept, None))?)
    }

    fn try_evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        let rows = &normalised_rows(rows.clone());
        if let Some(parts) = &self.parts
            && let Ok(values) = session::with_stack(|| without_panic(|| self.filtered(parts, rows)))
        {
            return Ok(values);
        }
        // Where the value fails, it may fail on rows that the filter leaves out.
        let evaluate = || {
            let expr = self.expr.as_ref().expect("it is not dropped yet");
            let values = expr.evaluate(rows)?.into_array(rows.num_rows())?;
            Ok(cast(&values, &self.data_type)?)
        };
        let values = session::with_stack(|| without_panic(evaluate));
        values.map_err(|error| from_datafusion(&error))
    }
}

/// Deep trees are taken down on a deep stack too.
impl Drop for RowValue {
    fn drop(&mut self) {
        session::with_stack(|| (self.expr, self.parts) = (None, None));
    }
}

impl Expression for RowValue {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        let len = rows.num_rows();
        if len == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        let error = match self.try_evaluate(rows) {
            Ok(values) => return Ok(values),
            Err(error) => error,
        };
        if len > 1 {
            // What it makes of all these rows may be too much, or one of them is the fault.
            let half = len / 2;
            let first = self.evaluate(&rows.slice(0, half))?;
            let second = self.evaluate(&rows.slice(half, len - half))?;
            return concat(&[&first, &second])
                .map_err(|error| from_datafusion(&DataFusionError::from(error)));
        }
        Err(Error::new(
            error.kind(),
            format!(
                "{}, in the row with {}: {error}; leave such rows out with a condition or a filter",
                self.text,
                shown(rows)
            ),
        ))
    }

    fn chooses_from(&self) -> Option<&str> {
        self.chooses_from.as_deref()
    }
}

/// The values of one row.
fn shown(row: &RecordBatch) -> String {
    let value = |at: usize| {
        let name = row.schema_ref().field(at).name().clone();
        let value = cast(row.column(at), &DataType::Utf8).ok();
        let value = value.and_then(|value| {
            value.as_string_opt::<i32>().map(|texts| {
                if texts.is_null(0) { "null".to_string() } else { texts.value(0).to_string() }
            })
        });
        format!("{name} = {}", value.unwrap_or_else(|| "?".to_string()))
    };
    (0..row.num_columns()).map(value).collect::<Vec<_>>().join(", ")
}

/// What needs no SQL: an aggregate of columns that the table has, or of what is a name at least, so that the
/// engine says which names there are.
fn is_plain(schema: &TableSchema, text: &str) -> Option<Result<Aggregate>> {
    let arguments = match text.split_once('(') {
        None => "",
        Some((_, rest)) => match rest.trim().strip_suffix(')') {
            Some(arguments) => arguments.trim(),
            None if rest.contains(')') => return None,
            None => return Some(parse_aggregate(text)),
        },
    };
    let is_plain = |argument: &str| {
        let argument = argument.trim();
        is_column(schema, argument)
            || is_name(argument)
            || matches!(argument, "" | "*")
            || argument.parse::<f64>().is_ok()
    };
    (is_column(schema, arguments) || arguments.split(',').all(is_plain))
        .then(|| parse_aggregate(text))
}

fn is_column(schema: &TableSchema, name: &str) -> bool {
    schema.columns.index_of(name).is_ok()
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}

fn told<T>(text: &str, read: std::result::Result<T, DataFusionError>) -> Result<T> {
    read.map_err(|error| {
        let error = with_quotes_told(from_datafusion(&error), text);
        Error::new(error.kind(), format!("{text}: {error}"))
    })
}
