//! Queries inside the conditions of a sample, answered before it is drawn.
//!
//! A condition can be tested before the draw only if it needs nothing but the row. A query in it that does not
//! look at the row has one answer for all rows, which takes its place here: a value, a list of values, or
//! whether there are any.

use std::collections::HashSet;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit};
use datafusion::physical_plan::execute_stream;
use drillcore::{Error, ErrorKind};
use futures::TryStreamExt;

use crate::error::to_datafusion;
use crate::trees::{change_up, each_part};

/// The most different values that the answer of a query in an `IN` may have: they are all held.
const VALUES_MAX: usize = 1 << 20;

/// The columns that a condition is about, those that its queries look at among them.
pub fn columns(condition: &Expr) -> HashSet<Column> {
    let mut columns: HashSet<Column> = condition.column_refs().into_iter().cloned().collect();
    for query in queries(condition) {
        let outer = query.outer_ref_columns.iter().filter_map(|column| match column {
            Expr::OuterReferenceColumn(_, column) => Some(column.clone()),
            _ => None,
        });
        columns.extend(outer);
    }
    columns
}

/// Why the queries in a condition cannot be answered before its rows are known, if one cannot.
pub fn check_answerable(condition: &Expr) -> Result<()> {
    let mut fault = None;
    each_part(condition, &mut |part| {
        fault = match (part, query_of(part)) {
            (_, Some(query)) if !query.outer_ref_columns.is_empty() => Some(
                "has a subquery that refers to the sampled row; write it without, as in k in (select k from ...)",
            ),
            (Expr::SetComparison(_), _) => {
                Some("compares with ANY or ALL of a subquery; use IN, min or max")
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    match fault {
        None => Ok(()),
        Some(fault) => Err(invalid(format!(
            "TABLESAMPLE cannot use the condition {}, because it {fault}",
            condition.human_display()
        ))),
    }
}

/// The condition with the answers of its queries in their place.
pub async fn answered(condition: Expr, session: &dyn Session) -> Result<Expr> {
    let mut answers = Vec::new();
    // Parts come in the order in which they are replaced below.
    for part in parts_with_queries(&condition) {
        answers.push(answer(part, session).await?);
    }
    let mut answers = answers.into_iter();
    let answered = change_up(condition, &mut |part| match query_of(&part) {
        None => Ok(Transformed::no(part)),
        Some(_) => {
            let answer = answers.next().expect("each query was answered");
            Ok(Transformed::yes(match part {
                Expr::InSubquery(InSubquery { expr, negated, .. }) => match answer {
                    Answer::Values(values) if values.is_empty() => lit(negated),
                    Answer::Values(values) => expr.in_list(values, negated),
                    Answer::Value(_) => unreachable!("IN has a list"),
                },
                _ => match answer {
                    Answer::Value(value) => value,
                    Answer::Values(_) => unreachable!("only IN has a list"),
                },
            }))
        }
    })?;
    Ok(answered.data)
}

enum Answer {
    Value(Expr),
    Values(Vec<Expr>),
}

async fn answer(part: Expr, session: &dyn Session) -> Result<Answer> {
    match part {
        Expr::ScalarSubquery(query) => {
            let plan = LogicalPlanBuilder::from(plan(&query)).limit(0, Some(2))?.build()?;
            let data_type = plan.schema().field(0).data_type().clone();
            let mut values = first_column(plan, session).await?;
            match (values.pop(), values.pop()) {
                (None, _) => Ok(Answer::Value(lit(ScalarValue::try_new_null(&data_type)?))),
                (Some(value), None) => Ok(Answer::Value(lit(value))),
                (Some(_), Some(_)) => Err(invalid(
                    "a subquery that must have one row has several; add LIMIT 1, or use IN",
                )),
            }
        }
        Expr::Exists(Exists { subquery, negated }) => {
            let plan = LogicalPlanBuilder::from(plan(&subquery)).limit(0, Some(1))?.build()?;
            let any = !first_column(plan, session).await?.is_empty();
            Ok(Answer::Value(lit(any != negated)))
        }
        Expr::InSubquery(InSubquery { subquery, .. }) => {
            let plan = LogicalPlanBuilder::from(plan(&subquery)).distinct()?.build()?;
            let values = first_column(plan, session).await?;
            Ok(Answer::Values(values.into_iter().map(lit).collect()))
        }
        other => unreachable!("{other} was checked to hold no such query"),
    }
}

/// The values of a query's first column.
async fn first_column(plan: LogicalPlan, session: &dyn Session) -> Result<Vec<ScalarValue>> {
    let plan = session.create_physical_plan(&plan).await?;
    let mut batches = execute_stream(plan, session.task_ctx())?;
    let mut values = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        if values.len() + batch.num_rows() > VALUES_MAX {
            return Err(invalid(format!(
                "a subquery in a condition of TABLESAMPLE has more than {VALUES_MAX} different values; \
             select fewer"
            )));
        }
        for row in 0..batch.num_rows() {
            values.push(ScalarValue::try_from_array(batch.column(0), row)?);
        }
    }
    Ok(values)
}

fn plan(query: &Subquery) -> LogicalPlan {
    query.subquery.as_ref().clone()
}

/// The query that an expression itself is, whatever lies beneath it.
fn query_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

/// The parts that are queries, from the bottom up.
fn parts_with_queries(condition: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    let collected = change_up(condition.clone(), &mut |part| {
        if query_of(&part).is_some() {
            found.push(part.clone());
        }
        Ok(Transformed::no(part))
    });
    collected.expect("collecting does not fail");
    found
}

fn queries(condition: &Expr) -> Vec<Subquery> {
    let parts = parts_with_queries(condition);
    parts.iter().filter_map(query_of).cloned().collect()
}

fn invalid(message: impl Into<String>) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message.into()))
}
