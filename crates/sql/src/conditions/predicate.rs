//! Conditions in SQL as predicates of the engine.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast;
use drillcore::{
    Between, Error, ErrorKind, Interrupt, Predicate, Result, TableSchema, Zones, aside, type_name,
};

use crate::conditions::narrow::{Narrowed, joined, narrow};
use crate::conditions::zones::ZoneTest;
use crate::error::{from_datafusion, to_datafusion, with_quotes_told, without_panic};
use crate::functions::checked_arithmetic::{as_written, with_checks};
use crate::parsing::syntax;
use crate::rules::clock_times::with_clock_times;
use crate::rules::compared_decimals::with_decimals_as_numbers;
use crate::rules::compared_literals::with_literals_as_compared;
use crate::rules::computed_lists::with_computed_lists;
use crate::rules::constants::constant_bytes;
use crate::rules::exact_lists::{passing, with_exact_lists};
use crate::rules::one_nan::{normalised_rows, with_one_nan};
use crate::session;
use crate::trees::{Parsed, change_up, each_parsed, each_part};

const NO_SUBQUERY: &str = "a condition cannot contain a subquery; run it as a query first, and write its values into \
                           the condition, as in x in (1, 2)";

/// A condition on the rows of one table.
#[derive(Debug)]
pub struct Condition {
    narrowed: Narrowed,
    columns: Vec<String>,
    /// What is tested; `None` if the range and the sets say it all.
    test: Option<Arc<dyn PhysicalExpr>>,
    /// What of the test blocks can be skipped by.
    zones: Option<ZoneTest>,
    text: String,
}

/// Reads a SQL condition on a table's columns, such as `dep_delay > 15 and carrier in ('UA', 'DL')`.
///
/// Comparisons with the first key columns, and with the set column, are answered by indexes. Conditions that
/// give another answer when asked again (`random()`), aggregates and subqueries are errors.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::Selection;
/// use drillcore_sql::predicate;
///
/// let condition = predicate(&flights.schema(), "carrier = 'UA' and delay > 15")?;
/// let late = Selection { predicate: Some(condition), ..Selection::default() };
/// assert_eq!(flights.snapshot()?.count(&late)?, 14);
/// # drillcore::Result::Ok(())
/// ```
///
/// The text may be as long as it likes, and then takes seconds: see [`predicate_interruptibly`].
pub fn predicate(schema: &TableSchema, condition: &str) -> Result<Arc<dyn Predicate>> {
    let parse = || {
        let mut expr = syntax::expression(condition)?;
        // Its tables would be looked for among none.
        each_parsed(&mut expr.expr, &mut check_not_query)?;
        let columns = DFSchema::try_from(schema.columns.clone())?;
        let state = session::expressions();
        let expr = state.create_logical_expr_from_sql_expr(expr, &columns)?;
        check_plain(&expr)?;
        let expr = simplified_condition(state, expr, &columns)?;
        check_constants(&expr)?;
        let data_type = expr.get_type(&columns)?;
        if !matches!(data_type, DataType::Boolean | DataType::Null) {
            let message = format!(
                "a condition must be true or false, but {condition:?} has type {}",
                type_name(&data_type)
            );
            return Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message)));
        }
        Condition::new(schema, split_conjunction_owned(expr), state)
    };
    match session::with_stack(|| without_panic(parse)) {
        Ok(condition) => Ok(Arc::new(condition)),
        Err(error) => {
            let error = with_quotes_told(from_datafusion(&error), condition);
            Err(Error::new(error.kind(), format!("where: {error}")))
        }
    }
}

/// [`predicate`] for a caller that may want out while a long condition is read.
pub fn predicate_interruptibly(
    schema: &TableSchema,
    condition: &str,
    interrupt: &Interrupt,
) -> Result<Arc<dyn Predicate>> {
    let (schema, condition) = (schema.clone(), condition.to_string());
    // What reads it looks for no interrupt, so it is left behind.
    aside(interrupt, move |_| predicate(&schema, &condition))
}

impl Condition {
    /// Compiles a condition of a query that was planned; columns are unqualified.
    pub fn of(
        schema: &TableSchema,
        condition: Expr,
        state: &SessionState,
    ) -> std::result::Result<Condition, DataFusionError> {
        let columns = DFSchema::try_from(schema.columns.clone())?;
        let condition = simplified_condition(state, condition, &columns)?;
        Condition::new(schema, split_conjunction_owned(condition), state)
    }

    /// Compiles conditions that must all hold, coerced and simplified; columns are unqualified.
    fn new(
        schema: &TableSchema,
        conditions: Vec<Expr>,
        state: &SessionState,
    ) -> std::result::Result<Condition, DataFusionError> {
        let text = identity(&conditions)?;
        let narrowed = narrow(schema, conditions);
        let Some(tested) = conjunction(narrowed.tested.iter().cloned()) else {
            return Ok(Condition { narrowed, columns: Vec::new(), test: None, zones: None, text });
        };
        let names = tested.column_refs();
        let is_read = |index: &usize| {
            names.iter().any(|column| column.name == *schema.columns.field(*index).name())
        };
        let indexes: Vec<usize> = (0..schema.columns.fields().len()).filter(is_read).collect();
        let columns = DFSchema::try_from(schema.columns.project(&indexes)?)?;
        let context = PhysicalPlanningContext::default();
        let test = create_physical_expr(&tested, &columns, state.execution_props(), &context)?;
        let zones = ZoneTest::new(&test, columns.inner().clone());
        let columns = columns.fields().iter().map(|field| field.name().clone()).collect();
        Ok(Condition { narrowed, columns, test: Some(test), zones, text })
    }

    /// Key columns that have one value in all rows that pass.
    pub fn fixed(&self) -> &[String] {
        &self.narrowed.fixed
    }

    /// What is answered by the key range, by sets, and by testing rows, as a plan shows it.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Narrowed { by_range, by_sets, tested, .. } = &self.narrowed;
        [("range", by_range), ("sets", by_sets), ("test", tested)]
            .into_iter()
            .filter(|(_, conditions)| !conditions.is_empty())
            .map(|(name, conditions)| (name, joined(conditions)))
    }
}

/// Deep trees are taken down on a deep stack too.
impl Drop for Condition {
    fn drop(&mut self) {
        session::with_stack(|| {
            self.narrowed = Narrowed::default();
            self.test = None;
            self.zones = None;
        });
    }
}

impl Predicate for Condition {
    fn between(&self) -> Option<&Between> {
        self.narrowed.between.as_ref()
    }

    fn sets(&self) -> Option<&ArrayRef> {
        self.narrowed.sets.as_ref()
    }

    fn is_exact(&self) -> bool {
        self.test.is_none()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let len = rows.num_rows();
        let Some(test) = &self.test else {
            return Ok(BooleanArray::from(vec![true; len]));
        };
        let rows = &normalised_rows(rows.clone());
        let evaluate = || test.evaluate(rows).and_then(|value| value.into_array(len));
        let passes = session::with_stack(|| without_panic(evaluate));
        let passes = match passes.map_err(|error| from_datafusion(&error)) {
            Ok(passes) => passes,
            // What one expression makes of all these rows is too much: it may not be of half of them.
            Err(error) if error.kind() == ErrorKind::OutOfMemory && len > 1 => {
                let half = len / 2;
                let halves = [rows.slice(0, half), rows.slice(half, len - half)];
                let [first, second] = halves.map(|rows| self.select(&rows));
                let (first, second) = (first?, second?);
                return Ok(first.iter().chain(second.iter()).collect());
            }
            Err(error) => return Err(error),
        };
        Ok(match passes.as_boolean_opt() {
            Some(passes) => passes.clone(),
            // Null as a type of its own.
            None => BooleanArray::new_null(len),
        })
    }

    fn zone_columns(&self) -> &[String] {
        self.zones.as_ref().map_or(&[], ZoneTest::columns)
    }

    fn may_match(&self, zones: &Zones) -> Result<BooleanArray> {
        match &self.zones {
            None => Ok(BooleanArray::from(vec![true; zones.len()])),
            Some(test) => {
                let may_match = session::with_stack(|| without_panic(|| test.may_match(zones)));
                may_match.map_err(|error| from_datafusion(&error))
            }
        }
    }

    fn text(&self) -> &str {
        &self.text
    }
}

/// A text that only these conditions have. Names and strings are shown as they are, and could look like parts
/// of a condition, so they are also listed, in quotes.
fn identity(conditions: &[Expr]) -> std::result::Result<String, DataFusionError> {
    let mut quoted: Vec<String> = Vec::new();
    for condition in conditions {
        each_part(condition, &mut |part| {
            match part {
                Expr::Column(column) => quoted.push(format!("{:?}", column.name)),
                Expr::Literal(value, _) => quoted.push(format!("{:?}", value.to_string())),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let conditions: Vec<String> = conditions.iter().map(Expr::to_string).collect();
    Ok(format!("{} {}", conditions.join(" AND "), quoted.join(" ")))
}

/// Refuses a condition whose constants take more than one may.
fn check_constants(expr: &Expr) -> std::result::Result<(), DataFusionError> {
    let bytes = constant_bytes(expr)?;
    if bytes as u64 <= session::CONDITION_BYTES {
        return Ok(());
    }
    let message = format!(
        "the constants of the condition take {bytes} bytes; the limit is {}. Use shorter texts or fewer of them",
        session::CONDITION_BYTES
    );
    Err(to_datafusion(Error::new(ErrorKind::OutOfMemory, message)))
}

/// Refuses what is no condition on single rows.
pub fn check_plain(expr: &Expr) -> std::result::Result<(), DataFusionError> {
    let mut fault = None;
    each_part(expr, &mut |part| {
        fault = match part {
            Expr::AggregateFunction(function) => Some(format!(
                "a condition applies to one row, so it cannot use {}; use a query",
                function.func.name()
            )),
            Expr::WindowFunction(function) => Some(format!(
                "a condition applies to one row, so it cannot use {}; use a query",
                function.fun.name()
            )),
            Expr::Placeholder(placeholder) => Some(format!(
                "the placeholder {} has no value; write the value instead",
                placeholder.id
            )),
            part if is_subquery(part) => Some(NO_SUBQUERY.to_string()),
            part if part.is_volatile_node() => Some(format!(
                "a condition cannot use {part}, because its value differs between calls; compute it first and write the value"
            )),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    match fault {
        None => Ok(()),
        Some(message) => Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, message))),
    }
}

/// Refuses an expression that has a query in it.
fn check_not_query(part: Parsed) -> std::result::Result<(), DataFusionError> {
    match part {
        Parsed::Expr(
            ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } | ast::Expr::Exists { .. },
        ) => Err(to_datafusion(Error::new(ErrorKind::InvalidArgument, NO_SUBQUERY))),
        _ => Ok(()),
    }
}

/// Whether an expression is itself a query inside the condition.
fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
    )
}

/// [`simplified`] of a condition, which passes the same rows afterwards.
fn simplified_condition(
    state: &SessionState,
    condition: Expr,
    columns: &DFSchema,
) -> std::result::Result<Expr, DataFusionError> {
    let simplifier = simplifier(state, columns);
    simplifier.simplify(passing(coerced(state, &simplifier, condition, columns)?)?)
}

/// Brings the operands of an expression to common types and works out what is constant.
pub fn simplified(
    state: &SessionState,
    expr: Expr,
    columns: &DFSchema,
) -> std::result::Result<Expr, DataFusionError> {
    let simplifier = simplifier(state, columns);
    simplifier.simplify(coerced(state, &simplifier, expr, columns)?)
}

fn simplifier(state: &SessionState, columns: &DFSchema) -> ExprSimplifier {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(columns.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_current_time()
        .build();
    ExprSimplifier::new(context)
}

fn coerced(
    state: &SessionState,
    simplifier: &ExprSimplifier,
    expr: Expr,
    columns: &DFSchema,
) -> std::result::Result<Expr, DataFusionError> {
    // Coercing operators is quicker than coercing functions, where they are many and nested.
    let expr = with_literals_as_compared(as_written(expr)?, columns)?;
    let expr = with_decimals_as_numbers(expr, columns)?;
    let mut expr = simplifier.coerce(expr, columns)?;
    for rewrite in state.analyzer().function_rewrites() {
        let config = state.config_options();
        expr = change_up(expr, &mut |part| rewrite.rewrite(part, columns, config))?.data;
    }
    let expr = with_clock_times(expr, columns)?;
    let expr = with_one_nan(with_checks(expr, columns)?, columns)?;
    with_computed_lists(with_exact_lists(expr)?)
}
