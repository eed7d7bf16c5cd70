//! Forms of SQL that DataFusion 55.2 takes and answers wrongly, which are refused; and sort keys given twice, which it
//! panics at, and which say nothing the second time.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArgumentClause, FunctionArguments, JoinConstraint, JoinOperator,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableFactor, TableWithJoins, Value, ValueWithSpan, WindowType,
};
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::parsing::grouping_sets::with_grouping_sets;
use crate::trees::{Parsed, each_parsed};

/// Refuses the ones, also in subqueries, and leaves out the others. Writes rollups as what is taken.
pub fn without_wrong_forms(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) => each_parsed(statement, &mut |part| match part {
            Parsed::Select(select) => check_select(select),
            Parsed::Query(query) => check_query(query),
            Parsed::Expr(expr) => {
                sort_once_within(expr);
                Ok(())
            }
        }),
        Statement::Explain(explain) => without_wrong_forms(&mut explain.statement),
        // Others are no queries.
        _ => Ok(()),
    }
}

fn check_select(select: &mut Select) -> Result<()> {
    if let Some(Distinct::On(columns)) = &mut select.distinct {
        keep_first_of_each(columns, |column| column);
    }
    with_grouping_sets(&mut select.group_by);
    select.from.iter().try_for_each(check_joins)
}

/// Of the column that both tables have, those joins give the left table's, which is null where only the right one has a row.
fn check_joins(table: &TableWithJoins) -> Result<()> {
    let factors =
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation));
    for factor in factors {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            check_joins(table_with_joins)?;
        }
    }
    for join in &table.joins {
        let (JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)) = &join.join_operator
        else {
            continue;
        };
        let form = match constraint {
            JoinConstraint::Using(_) => "USING",
            JoinConstraint::Natural => "NATURAL",
            JoinConstraint::On(_) | JoinConstraint::None => continue,
        };
        return Err(refused(format!(
            "a right or full join with {form} is not supported; write the condition with ON, as in a.id = b.id, and \
             coalesce(a.id, b.id) for the column"
        )));
    }
    Ok(())
}

fn check_query(query: &mut Query) -> Result<()> {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        if let SetExpr::Select(select) = &*query.body
            && let Some(Distinct::On(_)) = &select.distinct
        {
            sort_once_by_columns(keys, &select.projection);
        }
        sort_once(keys);
    }
    check_set(&query.body)
}

/// How often a row occurs is not looked at.
fn check_set(body: &SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    let is_all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    if is_all && !matches!(op, SetOperator::Union) {
        return Err(refused(format!(
            "{op} ALL is not supported; number equal rows on both sides with row_number() over (partition by ...), and use {op}"
        )));
    }
    check_set(left)?;
    check_set(right)
}

/// Leaves out the keys that are there before under another name or as a position among the columns of the result.
fn sort_once_by_columns(keys: &mut Vec<OrderByExpr>, columns: &[SelectItem]) {
    let mut spelled: Vec<Expr> = Vec::new();
    keys.retain(|key| {
        let expr = spelled_out(&key.expr, columns).unwrap_or(&key.expr).clone();
        let is_new = !spelled.contains(&expr);
        spelled.push(expr);
        is_new
    });
}

/// The expression of a column of the result that is meant by its name or position.
fn spelled_out<'a>(expr: &Expr, columns: &'a [SelectItem]) -> Option<&'a Expr> {
    let is_counted = |column: &SelectItem| {
        matches!(column, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    // What comes behind a wildcard has no position yet.
    if !columns.iter().all(is_counted) {
        return None;
    }
    columns.iter().enumerate().find_map(|(position, column)| {
        let (meant, name) = match column {
            SelectItem::UnnamedExpr(meant) => (meant, None),
            SelectItem::ExprWithAlias { expr: meant, alias } => (meant, Some(alias)),
            _ => return None,
        };
        let is_meant = match expr {
            Expr::Identifier(named) => name.is_some_and(|name| name.value == named.value),
            other => whole_number(other).is_some_and(|number| number == position as u64 + 1),
        };
        is_meant.then_some(meant)
    })
}

fn whole_number(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.parse().ok(),
        _ => None,
    }
}

fn sort_once_within(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    sort_once(&mut function.within_group);
    if let FunctionArguments::List(arguments) = &mut function.args {
        for clause in &mut arguments.clauses {
            if let FunctionArgumentClause::OrderBy(keys) = clause {
                // A number is no position here, and sorts nothing.
                keys.retain(|key| whole_number(&key.expr).is_none());
                sort_once(keys);
            }
        }
        arguments.clauses.retain(
            |clause| !matches!(clause, FunctionArgumentClause::OrderBy(keys) if keys.is_empty()),
        );
    }
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        sort_once(&mut window.order_by);
    }
}

fn sort_once(keys: &mut Vec<OrderByExpr>) {
    keep_first_of_each(keys, |key| &key.expr);
}

fn keep_first_of_each<T>(list: &mut Vec<T>, expr: fn(&T) -> &Expr) {
    let mut at = 1;
    while at < list.len() {
        match list[..at].iter().any(|before| expr(before) == expr(&list[at])) {
            true => drop(list.remove(at)),
            false => at += 1,
        }
    }
}

fn refused(message: String) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}
