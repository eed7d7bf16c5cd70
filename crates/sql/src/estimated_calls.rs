//! `approx_avg_ci(x)` and its like in queries: estimates from a sample of 10,000 rows, each a struct of `value`, `low` and `high`.
//!
//! A sample is drawn from a table, not from what a plan makes of it. So a `select` with such a call must be a plain aggregate over
//! one table: groups and calls, `from` the table, `where` and `group by`. It is answered by the engine before the rest is planned,
//! and what it gives takes its place, for `order by`, `limit` and queries around it.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::Expr as LogicalExpr;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
    visit_expressions, visit_expressions_mut,
};
use drillcore::{Error, ErrorKind, EstimateRequest, Selection};

use crate::aggregates::aggregates;
use crate::error::to_datafusion;
use crate::predicate::predicate;
use crate::syntax;
use crate::table::Tables;

/// Functions, and the aggregates that they estimate.
const FUNCTIONS: [(&str, &str); 5] = [
    ("approx_avg_ci", "avg"),
    ("approx_sum_ci", "sum"),
    ("approx_count_ci", "count"),
    ("approx_quantile_ci", "quantile"),
    ("approx_median_ci", "median"),
];

/// The table function that stands for what was estimated.
pub const ESTIMATED: &str = "estimated_rows";

const USAGE: &str = "a query with approx_..._ci must be an aggregate over one table: groups and such calls, from a table, with \
                     `where` and `group by` at most; put what else there is into a query around it";

/// What the calls of a query gave, one after the other.
#[derive(Debug, Default)]
pub struct EstimatedRows {
    batches: Mutex<Vec<RecordBatch>>,
}

/// Answers every `select` that estimates, and puts the answer in its place.
pub fn with_estimates(
    statement: &mut Statement,
    tables: &Tables,
    rows: &EstimatedRows,
) -> Result<(), DataFusionError> {
    match statement {
        Statement::Statement(statement) if estimates(statement.as_ref()) => {
            let mut answers = Answers { tables, rows };
            match statement.visit(&mut answers) {
                ControlFlow::Continue(()) if estimates(statement.as_ref()) => Err(invalid(USAGE)),
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(error) => Err(error),
            }
        }
        Statement::Explain(explain) => with_estimates(&mut explain.statement, tables, rows),
        _ => Ok(()),
    }
}

struct Answers<'a> {
    tables: &'a Tables,
    rows: &'a EstimatedRows,
}

impl VisitorMut for Answers<'_> {
    type Break = DataFusionError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let SetExpr::Select(select) = query.body.as_mut() else {
            return ControlFlow::Continue(());
        };
        if !select.projection.iter().any(|item| called(item).is_some()) {
            return ControlFlow::Continue(());
        }
        match self.answer(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Answers<'_> {
    fn answer(&self, select: &mut Select) -> Result<(), DataFusionError> {
        let template = template("select 1 from t")?;
        let blank = |select: &Select| Select {
            projection: Vec::new(),
            from: Vec::new(),
            selection: None,
            group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
            ..select.clone()
        };
        let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else {
            return Err(invalid(USAGE));
        };
        if blank(select) != blank(&template) || !modifiers.is_empty() {
            return Err(invalid(USAGE));
        }
        let name = plain_table(&select.from)?;
        let mut projection = select.projection.clone();
        let mut groups = groups.clone();
        let mut condition = select.selection.clone();
        let qualifiers = qualifiers(&select.from);
        without_qualifiers(&mut projection, &qualifiers);
        without_qualifiers(&mut groups, &qualifiers);
        without_qualifiers(&mut condition, &qualifiers);
        let table = self.tables.find(&name).map_err(to_datafusion)?.table;
        let schema = table.schema().clone();
        for group in &mut groups {
            *group = group_meant(group, &projection)?;
        }
        // The text of each group, in the order of `group by`, and of each call.
        let by: Vec<String> = groups.iter().map(text_of_group).collect();
        let mut asked: Vec<(String, String)> = Vec::new();
        let mut shown = Vec::new();
        for item in &projection {
            let (expr, alias) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
                _ => return Err(invalid(USAGE)),
            };
            let named = alias.unwrap_or_else(|| Ident::with_quote('"', name_of(expr)));
            let column = match called(item) {
                Some((function, aggregate)) => {
                    asked.push((format!("e{}", asked.len()), aggregate_text(function, aggregate)?));
                    asked[asked.len() - 1].0.clone()
                }
                None => match groups.iter().position(|group| group == expr) {
                    Some(at) => format!("g{at}"),
                    None => {
                        return Err(invalid(&format!(
                            "{expr} is neither a group nor an estimate: {USAGE}"
                        )));
                    }
                },
            };
            let column = Expr::Identifier(Ident::with_quote('"', column));
            shown.push(SelectItem::ExprWithAlias { expr: column, alias: named });
        }
        let interrupt = self.tables.interrupt();
        let read = aggregates(&schema, &asked, &by, interrupt).map_err(to_datafusion)?;
        let condition = condition.map(|condition| predicate(&schema, &condition.to_string()));
        let request = EstimateRequest {
            aggregates: read.aggregates,
            by: read.by,
            computed: read.computed,
            selection: Selection {
                predicate: condition.transpose().map_err(to_datafusion)?,
                ..Selection::default()
            },
            interrupt: interrupt.clone(),
            ..EstimateRequest::default()
        };
        let found = table.estimate(&request).map_err(to_datafusion)?.to_batch();
        let at = {
            let mut batches = self.rows.batches.lock().expect("no panic while held");
            batches.push(with_structs(&found, groups.len(), asked.len())?);
            batches.len() - 1
        };
        let rest = self::template(&format!("select 1 from {ESTIMATED}({at})"))?;
        select.projection = shown;
        select.from = rest.from;
        select.selection = None;
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
        Ok(())
    }
}

/// Groups as `g0` and so on, estimates as structs `e0` and so on.
fn with_structs(
    found: &RecordBatch,
    groups: usize,
    estimates: usize,
) -> Result<RecordBatch, DataFusionError> {
    let mut fields: Vec<Field> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for at in 0..groups {
        let column = found.column(at).clone();
        fields.push(Field::new(format!("g{at}"), column.data_type().clone(), true));
        columns.push(column);
    }
    let ends: Fields = ["value", "low", "high"]
        .map(|end| Field::new(end, DataType::Float64, true))
        .to_vec()
        .into();
    for at in 0..estimates {
        let first = groups + 3 * at;
        let of_ends = found.columns()[first..first + 3].to_vec();
        columns.push(Arc::new(StructArray::try_new(ends.clone(), of_ends, None)?));
        fields.push(Field::new(format!("e{at}"), DataType::Struct(ends.clone()), true));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The function of a call that is all of an item, and the aggregate that it estimates.
fn called(item: &SelectItem) -> Option<(&Function, &'static str)> {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => {
            aggregate_of(function).map(|aggregate| (function, aggregate))
        }
        _ => None,
    }
}

fn aggregate_of(function: &Function) -> Option<&'static str> {
    let name = function.name.to_string();
    let known = FUNCTIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    known.map(|(_, aggregate)| *aggregate)
}

/// Whether a statement has such a call anywhere.
fn estimates(statement: &SqlStatement) -> bool {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Function(function) if aggregate_of(function).is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The call as the text of an aggregate.
fn aggregate_text(function: &Function, aggregate: &str) -> Result<String, DataFusionError> {
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.to_string(),
        _ => String::new(),
    };
    if function.over.is_some() || !function.within_group.is_empty() {
        return Err(invalid(&format!("{function} has no window and no order: {USAGE}")));
    }
    Ok(match &function.filter {
        None => format!("{aggregate}({arguments})"),
        Some(filter) => {
            let rows = if arguments.is_empty() { "*" } else { &arguments };
            format!("{aggregate}({rows}) filter (where {filter})")
        }
    })
}

/// A group as it is meant: by number, by the name of what is selected, or as it stands.
fn group_meant(group: &Expr, projection: &[SelectItem]) -> Result<Expr, DataFusionError> {
    if let Expr::Value(value) = group
        && let Value::Number(number, _) = &value.value
    {
        let item = number.to_string().parse::<usize>().ok();
        let item = item.and_then(|number| projection.get(number.checked_sub(1)?));
        return match item {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
                Ok(expr.clone())
            }
            _ => Err(invalid(&format!("group by {number}: the query has no such column"))),
        };
    }
    let Expr::Identifier(name) = group else { return Ok(group.clone()) };
    let named = projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr),
        _ => None,
    });
    Ok(named.unwrap_or(group).clone())
}

/// A column by its name, without quotes; other expressions as text.
fn text_of_group(group: &Expr) -> String {
    match group {
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    }
}

fn name_of(expr: &Expr) -> String {
    text_of_group(expr)
}

fn plain_table(from: &[TableWithJoins]) -> Result<String, DataFusionError> {
    let [TableWithJoins { relation, joins }] = from else { return Err(invalid(USAGE)) };
    match relation {
        TableFactor::Table { name, args: None, sample: None, .. } if joins.is_empty() => {
            let last = name.0.last().and_then(|part| part.as_ident());
            last.map(|name| name.value.clone()).ok_or_else(|| invalid(USAGE))
        }
        _ => Err(invalid(USAGE)),
    }
}

/// What columns may be qualified with: the table's name, or what it is called.
fn qualifiers(from: &[TableWithJoins]) -> Vec<String> {
    let [TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }] = from else {
        return Vec::new();
    };
    match alias {
        Some(alias) => vec![alias.name.value.clone()],
        None => name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(|name| name.value.clone())
            .into_iter()
            .collect(),
    }
}

fn without_qualifiers<V: VisitMut>(part: &mut V, qualifiers: &[String]) {
    let _ = visit_expressions_mut(part, |expr| {
        if let Expr::CompoundIdentifier(names) = expr
            && let [table, column] = &names[..]
            && qualifiers.contains(&table.value)
        {
            *expr = Expr::Identifier(column.clone());
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The `select` of a text of ours.
fn template(text: &str) -> Result<Select, DataFusionError> {
    let (statement, _) = syntax::statement(text, &Default::default())?;
    let Statement::Statement(statement) = statement else { return Err(invalid(USAGE)) };
    let SqlStatement::Query(query) = *statement else { return Err(invalid(USAGE)) };
    match *query.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err(invalid(USAGE)),
    }
}

/// Gives a query what was estimated for it.
#[derive(Debug)]
pub struct EstimatedFunction {
    pub rows: Arc<EstimatedRows>,
}

impl TableFunctionImpl for EstimatedFunction {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let at = match arguments.exprs() {
            [LogicalExpr::Literal(ScalarValue::Int64(Some(at)), _)] => usize::try_from(*at).ok(),
            _ => None,
        };
        let batches = self.rows.batches.lock().expect("no panic while held");
        let batch = at.and_then(|at| batches.get(at)).cloned().ok_or_else(|| {
            invalid(&format!("{ESTIMATED} is not for queries; call approx_avg_ci and its like"))
        })?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

fn invalid(message: &str) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}
