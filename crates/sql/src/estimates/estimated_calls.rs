//! `approx_avg_ci(x)` and its like in queries: estimates from a sample, each a struct of `value`, `low`, `high` and `note`.
//!
//! A sample is drawn from a table, not from what a plan makes of it. So a `select` with such a call must be a plain aggregate over
//! one table: groups and calls, `from` the table, `where` and `group by`. It is answered by the engine before the rest is planned,
//! and what it gives takes its place, for `order by`, `limit` and queries around it.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use datafusion::common::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TableWithJoins, Value, VisitMut,
};
use drillcore::{Error, ErrorKind, EstimateRequest, Selection};

use crate::conditions::aggregates::aggregates;
use crate::conditions::predicate::predicate;
use crate::error::to_datafusion;
use crate::estimates::estimate_options::EstimateOptions;
use crate::parsing::syntax;
use crate::tables::table::Tables;
use crate::trees::{Parsed, each_parsed};

/// Functions, and the aggregates that they estimate.
const FUNCTIONS: [(&str, &str); 8] = [
    ("approx_avg_ci", "avg"),
    ("approx_sum_ci", "sum"),
    ("approx_count_ci", "count"),
    ("approx_quantile_ci", "quantile"),
    ("approx_median_ci", "median"),
    ("approx_ratio_ci", "ratio"),
    ("approx_variance_ci", "variance"),
    ("approx_stddev_ci", "stddev"),
];

const USAGE: &str = "a query with approx_..._ci can have only such calls and groups, from one table, with WHERE and GROUP BY; move \
                     everything else into a query around it";

/// Answers every `select` that estimates, and puts the answer in its place.
pub fn with_estimates(statement: &mut Statement, tables: &Tables) -> Result<(), DataFusionError> {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return with_estimates(&mut explain.statement, tables),
        _ => return Ok(()),
    };
    if !estimates(statement)? {
        return Ok(());
    }
    let answers = Answers { tables };
    each_parsed(statement.as_mut(), &mut |part| match part {
        Parsed::Query(query) => answers.put_into(query),
        _ => Ok(()),
    })?;
    match estimates(statement)? {
        true => Err(invalid(USAGE)),
        false => Ok(()),
    }
}

struct Answers<'a> {
    tables: &'a Tables,
}

impl Answers<'_> {
    fn put_into(&self, query: &mut Query) -> Result<(), DataFusionError> {
        match query.body.as_mut() {
            SetExpr::Select(select)
                if select.projection.iter().any(|item| called(item).is_some()) =>
            {
                self.answer(select)
            }
            _ => Ok(()),
        }
    }

    fn answer(&self, select: &mut Select) -> Result<(), DataFusionError> {
        let mut groups = plain_groups(select)?;
        let name = plain_table(&select.from)?;
        let mut projection = select.projection.clone();
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
        let by: Vec<String> = groups.iter().map(text_of_group).collect();
        let asked = Asked::of(&projection, &groups)?;
        let as_called = |error: Error| to_datafusion(as_called(&error, &asked.called_as));
        let interrupt = self.tables.interrupt();
        let read = aggregates(&schema, &asked.aggregates, &by, interrupt).map_err(as_called)?;
        let condition = condition.map(|condition| predicate(&schema, &condition.to_string()));
        let request = EstimateRequest {
            aggregates: read.aggregates,
            by: read.by,
            computed: read.computed,
            selection: Selection {
                predicate: condition.transpose().map_err(to_datafusion)?,
                ..Selection::default()
            },
            ..asked.options.request()
        };
        let found = table.estimate(&request).map_err(as_called)?;
        // Under a name that says what it is, called as the table is in the query: errors and plans show both.
        let stored = self.tables.add_estimates(&name, with_structs(&found, &asked.columns)?)?;
        let [stored, alias] =
            [&stored, qualifiers.first().unwrap_or(&name)].map(|name| quoted(name));
        let rest = template(&format!("select 1 from {stored} as {alias}"))?;
        select.projection = asked.shown;
        select.from = rest.from;
        select.selection = None;
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
        Ok(())
    }
}

/// What a `select` asks for, and what takes its place.
#[derive(Default)]
struct Asked {
    /// Each call as the text of an aggregate, with a name.
    aggregates: Vec<(String, String)>,
    /// Of each call the aggregate, and the function that was called.
    called_as: Vec<(&'static str, &'static str)>,
    options: EstimateOptions,
    /// What is shown, by its name.
    columns: Vec<(String, Shown)>,
    /// The columns of the result, as they are selected of it.
    shown: Vec<SelectItem>,
}

impl Asked {
    fn of(projection: &[SelectItem], groups: &[Expr]) -> Result<Asked, DataFusionError> {
        let mut asked = Asked::default();
        projection.iter().try_for_each(|item| asked.add(item, groups))?;
        Ok(asked)
    }

    fn add(&mut self, item: &SelectItem, groups: &[Expr]) -> Result<(), DataFusionError> {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            _ => return Err(invalid(USAGE)),
        };
        let named = alias.unwrap_or_else(|| Ident::with_quote('"', name_of(expr)));
        let column = match called(item) {
            Some((function, name, aggregate)) => {
                let text = aggregate_text(function, aggregate, &mut self.options)?;
                self.aggregates.push((format!("e{}", self.aggregates.len()), text));
                self.called_as.push((aggregate, name));
                Shown::Estimate(self.aggregates.len() - 1)
            }
            None => match groups.iter().position(|group| group == expr) {
                Some(at) => Shown::Group(at),
                None => {
                    return Err(invalid(&format!(
                        "{expr} is neither a group nor an estimate: {USAGE}"
                    )));
                }
            },
        };
        if self.columns.iter().any(|(name, _)| *name == named.value) {
            return Err(invalid(&format!(
                "the query would have two columns {:?}; give one another name with `as`",
                named.value
            )));
        }
        self.columns.push((named.value.clone(), column));
        let column = Expr::Identifier(Ident::with_quote('"', named.value.clone()));
        self.shown.push(SelectItem::ExprWithAlias { expr: column, alias: named });
        Ok(())
    }
}

/// What a column of the result shows: a group or an estimate, by its number.
enum Shown {
    Group(usize),
    Estimate(usize),
}

/// The columns of the result, estimates as structs.
fn with_structs(
    found: &drillcore::Estimate,
    columns: &[(String, Shown)],
) -> Result<RecordBatch, DataFusionError> {
    let batch = found.to_batch();
    let members = |data_type: &DataType| -> Fields {
        let ends = ["value", "low", "high"].map(|end| Field::new(end, data_type.clone(), true));
        [ends.to_vec(), vec![Field::new("note", DataType::Utf8, true)]].concat().into()
    };
    let mut fields: Vec<Field> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (name, shown) in columns {
        let array: ArrayRef = match shown {
            Shown::Group(at) => batch.column(*at).clone(),
            Shown::Estimate(at) => {
                let first = found.groups.len() + 3 * at;
                let mut of_members = batch.columns()[first..first + 3].to_vec();
                let note = note(found, *at);
                of_members.push(Arc::new(StringArray::from(vec![note; batch.num_rows()])));
                let members = members(&found.aggregates[*at].data_type);
                Arc::new(StructArray::try_new(members, of_members, None)?)
            }
        };
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// What a reader of an estimate should know: the notes on it, and those on the whole result.
fn note(found: &drillcore::Estimate, at: usize) -> Option<String> {
    let of = |at: usize| format!("{}: ", found.aggregates[at].name);
    let of_one = |note: &String| {
        let others = (0..found.aggregates.len()).filter(|other| *other != at);
        match note.strip_prefix(&of(at)) {
            Some(note) => Some(note.to_string()),
            None if others.into_iter().any(|other| note.starts_with(&of(other))) => None,
            None => Some(note.clone()),
        }
    };
    let notes: Vec<String> = found.notes.iter().filter_map(of_one).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// An error as one of the calls that the query has, not of the aggregates that they stand for.
fn as_called(error: &Error, called: &[(&str, &str)]) -> Error {
    let mut message = error.to_string();
    for (aggregate, function) in called {
        for after in ["(", " needs"] {
            message =
                with_word(&message, &format!("{aggregate}{after}"), &format!("{function}{after}"));
        }
    }
    Error::new(error.kind(), message)
}

/// A text with another word wherever one stands by itself.
fn with_word(text: &str, word: &str, other: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let before = rest[..at].chars().next_back().or(replaced.chars().next_back());
        let is_part = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
        replaced.push_str(&rest[..at]);
        replaced.push_str(if is_part { word } else { other });
        rest = &rest[at + word.len()..];
    }
    replaced + rest
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The call that is all of an item, its function, and the aggregate that this estimates.
fn called(item: &SelectItem) -> Option<(&Function, &'static str, &'static str)> {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => {
            aggregate_of(function).map(|(name, aggregate)| (function, name, aggregate))
        }
        _ => None,
    }
}

fn aggregate_of(function: &Function) -> Option<(&'static str, &'static str)> {
    let name = function.name.to_string();
    FUNCTIONS.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known))
}

/// Whether a statement has such a call anywhere.
///
/// # Errors
/// `NotFound` for a function that is called like these and is none of them.
fn estimates(statement: &mut SqlStatement) -> Result<bool, DataFusionError> {
    let mut has_one = false;
    each_parsed(statement, &mut |part| {
        let Parsed::Expr(Expr::Function(function)) = part else { return Ok(()) };
        if aggregate_of(function).is_some() {
            has_one = true;
            return Ok(());
        }
        unknown(&function.name.to_string()).map_or(Ok(()), Err)
    })?;
    Ok(has_one)
}

/// Why there is no such function, if it is called like those that there are.
fn unknown(name: &str) -> Option<DataFusionError> {
    let lower = name.to_ascii_lowercase();
    let aggregate = lower.strip_prefix("approx_")?.strip_suffix("_ci")?;
    let reason = match aggregate {
        "min" | "max" => format!(
            "any row that is not drawn may have a {} value, so a sample gives no interval; use {aggregate}(x), which reads all rows",
            if aggregate == "min" { "smaller" } else { "larger" }
        ),
        "distinct" => "a sample gives only a lower bound of the number of different values; use count(distinct x), which reads all \
                       rows, or approx_distinct(x)"
            .to_string(),
        _ => "it is unknown".to_string(),
    };
    let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    let message = format!("there is no {lower}: {reason}. There are {}", names.join(", "));
    Some(to_datafusion(Error::new(ErrorKind::NotFound, message)))
}

/// The call as the text of an aggregate, without the options, which are taken.
fn aggregate_text(
    function: &Function,
    aggregate: &str,
    options: &mut EstimateOptions,
) -> Result<String, DataFusionError> {
    let arguments = match &function.args {
        FunctionArguments::List(list) => {
            let mut list = list.clone();
            options.take(&mut list)?;
            let arguments_max = if matches!(aggregate, "quantile" | "ratio") { 2 } else { 1 };
            if list.args.len() > arguments_max {
                return Err(invalid(&format!(
                    "{function} has {} arguments, and {} takes {arguments_max}; options follow by name, as in \
                     {}(delay, confidence => 0.99)",
                    list.args.len(),
                    function.name,
                    function.name
                )));
            }
            list.to_string()
        }
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

/// The groups of a `select` that is plain, but for its table and its condition.
fn plain_groups(select: &Select) -> Result<Vec<Expr>, DataFusionError> {
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
    match blank(select) == blank(&template) && modifiers.is_empty() {
        true => Ok(groups.clone()),
        false => Err(invalid(USAGE)),
    }
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

fn without_qualifiers(tree: &mut impl VisitMut, qualifiers: &[String]) {
    let without = each_parsed(tree, &mut |part| {
        if let Parsed::Expr(expr) = part
            && let Expr::CompoundIdentifier(names) = expr
            && let [table, column] = &names[..]
            && qualifiers.contains(&table.value)
        {
            *expr = Expr::Identifier(column.clone());
        }
        Ok(())
    });
    without.expect("renaming does not fail");
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

fn invalid(message: &str) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}
