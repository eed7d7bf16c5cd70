//! `TABLESAMPLE`, and the table function `sample`.
//!
//! `FROM t TABLESAMPLE (k ROWS) WHERE ...` gives k rows of those that the conditions leave of `t`: the SQL
//! standard would sample first and so give fewer, by chance. Which conditions these are is settled on the
//! plan as it was written, before any optimiser sees it: the parts of the same query's `WHERE`, joined by
//! `AND`, that are about columns of `t` alone. Where `t` stands on the side of an outer join that may be
//! filled with nulls, there are none. `sample('t', k)` samples first.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, SubqueryAlias, TableScan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit,
};
use drillcore::{Error, ErrorKind, Unit, fresh_seed};

use crate::error::to_datafusion;
use crate::tables::scan_exec::Wanted;
use crate::tables::subqueries;
use crate::tables::table::{Table, Tables};
use crate::trees::{change_plans_down, change_up};

/// Plans relations that have a `TABLESAMPLE` clause.
#[derive(Debug)]
pub struct SamplePlanner;

/// Moves conditions into the samples that they are about.
#[derive(Debug)]
pub struct FilterBeforeSample;

/// `sample('table', rows [, seed])`: rows of the table, whatever the query asks of them later. Of a rollup
/// table events are drawn.
#[derive(Debug)]
pub struct SampleFunction {
    pub tables: Arc<Tables>,
}

impl RelationPlanner for SamplePlanner {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let sample = match &mut relation {
            TableFactor::Table { sample, .. } => sample.take(),
            TableFactor::Derived { sample: Some(_), .. } => {
                return Err(invalid(
                    "TABLESAMPLE needs a table, not a query; put it inside the query",
                ));
            }
            _ => None,
        };
        let Some(sample) = sample else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample;
        let TableFactor::Table { alias, .. } = &mut relation else {
            unreachable!("only tables have samples here")
        };
        let alias = alias.take();
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(invalid(
                "a table with TABLESAMPLE cannot rename columns; rename them in the select list",
            ));
        }
        let wanted = wanted(&sample)?;
        let LogicalPlan::TableScan(scan) = context.plan(relation)? else {
            return Err(invalid("TABLESAMPLE needs a table, not a query or a view"));
        };
        let plan = with_table(scan, |table| table.wanted = wanted)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// What a clause asks for.
fn wanted(sample: &TableSample) -> Result<Wanted> {
    if let Some(method @ (TableSampleMethod::System | TableSampleMethod::Block)) = &sample.name {
        return Err(invalid(format!(
            "TABLESAMPLE {method} draws whole blocks, which is not a fair sample; leave {method} out, or use \
             BERNOULLI"
        )));
    }
    if sample.bucket.is_some() || sample.offset.is_some() {
        return Err(invalid(
            "TABLESAMPLE does not support BUCKET and OFFSET; use (k ROWS) or (p PERCENT)",
        ));
    }
    let Some(quantity) = &sample.quantity else {
        return Err(invalid("TABLESAMPLE needs (k ROWS) or (p PERCENT)"));
    };
    let number = quantity.value.to_string();
    let seed = match &sample.seed {
        None => fresh_seed(),
        Some(seed) => {
            parse(&seed.value.to_string(), "the seed must be a whole number of at least 0")?
        }
    };
    let is_bernoulli = sample.name == Some(TableSampleMethod::Bernoulli);
    match quantity.unit {
        Some(TableSampleUnit::Rows) if is_bernoulli => Err(invalid(
            "TABLESAMPLE BERNOULLI needs a percentage; for a number of rows, leave BERNOULLI out",
        )),
        Some(TableSampleUnit::Rows) => {
            let n = parse(&number, "TABLESAMPLE (k ROWS) needs a whole number of at least 0")?;
            Ok(Wanted::Rows { n, unit: Unit::Rows, seed })
        }
        None if !is_bernoulli => Err(invalid(format!(
            "TABLESAMPLE ({number}) has no unit; use {number} ROWS or {number} PERCENT"
        ))),
        Some(TableSampleUnit::Percent) | None => {
            let percent: f64 = parse(&number, "TABLESAMPLE (p PERCENT) needs a number")?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(invalid(format!(
                    "a percentage must be between 0 and 100, got {percent}"
                )));
            }
            Ok(Wanted::Share { share: percent / 100.0, seed })
        }
    }
}

fn parse<T: std::str::FromStr>(text: &str, expected: &str) -> Result<T> {
    text.trim().parse().map_err(|_| invalid(format!("{expected}, got {text}")))
}

fn invalid(message: impl Into<String>) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}

/// The scan of a table that differs a little.
fn with_table(scan: TableScan, change: impl FnOnce(&mut Table)) -> Result<LogicalPlan> {
    let Some(mut table) = table_of(&scan) else {
        return Err(invalid(format!(
            "TABLESAMPLE needs a table, and {} is not a table",
            scan.table_name
        )));
    };
    change(&mut table);
    let source = provider_as_source(Arc::new(table));
    Ok(LogicalPlan::TableScan(TableScan { source, ..scan }))
}

/// The table of ours that a scan reads.
fn table_of(scan: &TableScan) -> Option<Table> {
    let provider = source_as_provider(&scan.source).ok()?;
    let provider: &dyn std::any::Any = provider.as_ref();
    provider.downcast_ref::<Table>().cloned()
}

impl AnalyzerRule for FilterBeforeSample {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_down(plan, &mut |plan| match plan {
            LogicalPlan::Filter(filter) if has_sample(&filter.input)? => {
                let mut conditions = split_conjunction_owned(filter.predicate);
                let input = Arc::unwrap_or_clone(filter.input);
                let input = move_into_samples(input, &mut conditions)?;
                Ok(Transformed::yes(match conjunction(conditions) {
                    None => input,
                    Some(rest) => LogicalPlan::Filter(Filter::try_new(rest, Arc::new(input))?),
                }))
            }
            plan => Ok(Transformed::no(plan)),
        })
    }

    fn name(&self) -> &str {
        "filter_before_sample"
    }
}

fn has_sample(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            found |= table_of(scan).is_some_and(|table| is_sampled_later(&table));
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether conditions come before the sample.
fn is_sampled_later(table: &Table) -> bool {
    !matches!(table.wanted, Wanted::All | Wanted::Rows { unit: Unit::Events, .. })
}

/// Takes the conditions that are about one sampled table alone off the list.
fn move_into_samples(plan: LogicalPlan, conditions: &mut Vec<Expr>) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::TableScan(scan)
            if table_of(&scan).is_some_and(|table| is_sampled_later(&table)) =>
        {
            let own = take_own(conditions, &scan.projected_schema)?;
            with_table(scan, |table| {
                table.conditions.extend(own.into_iter().map(unnormalize_col));
            })
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, schema, .. })
            if matches!(*input, LogicalPlan::TableScan(_)) =>
        {
            let LogicalPlan::TableScan(scan) = Arc::unwrap_or_clone(input) else {
                unreachable!("it was matched")
            };
            let mut own = match table_of(&scan) {
                Some(table) if is_sampled_later(&table) => take_own(conditions, &schema)?,
                _ => Vec::new(),
            };
            for condition in &mut own {
                *condition = requalified(condition.clone(), &scan.table_name)?;
            }
            let scan = move_into_samples(LogicalPlan::TableScan(scan), &mut own)?;
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(scan), alias)?))
        }
        LogicalPlan::Join(join) => {
            let (left, right) = match join.join_type {
                JoinType::Inner => (true, true),
                JoinType::Left => (true, false),
                JoinType::Right => (false, true),
                _ => (false, false),
            };
            let side = |plan: Arc<LogicalPlan>, is_kept: bool, conditions: &mut Vec<Expr>| {
                if !is_kept {
                    return Ok(plan);
                }
                move_into_samples(Arc::unwrap_or_clone(plan), conditions).map(Arc::new)
            };
            let left = side(join.left, left, conditions)?;
            let right = side(join.right, right, conditions)?;
            Ok(LogicalPlan::Join(Join { left, right, ..join }))
        }
        plan => Ok(plan),
    }
}

/// Takes the conditions that are about these columns alone.
fn take_own(conditions: &mut Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let is_own = |condition: &Expr| {
        let columns = subqueries::columns(condition);
        !columns.is_empty()
            && columns.iter().all(|column| schema.has_column(column))
            && !condition.contains_outer()
    };
    let own: Vec<Expr> = conditions
        .extract_if(.., |condition| is_own(condition) && !condition.is_volatile())
        .collect();
    own.iter().try_for_each(subqueries::check_answerable)?;
    Ok(own)
}

fn requalified(condition: Expr, relation: &TableReference) -> Result<Expr> {
    let renamed = change_up(condition, &mut |expr| match expr {
        Expr::Column(column) => {
            Ok(Transformed::yes(Expr::Column(Column::new(Some(relation.clone()), column.name))))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    Ok(renamed.data)
}

impl TableFunctionImpl for SampleFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "sample needs the name of a table, a number of rows and optionally a seed, such as \
                     sample('flights', 100) or sample('flights', 100, 7)";
        let (name, n, seed) = match arguments.exprs() {
            [name, n] => (name, n, None),
            [name, n, seed] => (name, n, Some(seed)),
            _ => return Err(invalid(usage)),
        };
        let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = name else {
            return Err(invalid(usage));
        };
        let whole = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => u64::try_from(*value).ok(),
            Expr::Literal(ScalarValue::UInt64(Some(value)), _) => Some(*value),
            _ => None,
        };
        let n = whole(n).ok_or_else(|| invalid(usage))?;
        let seed = match seed {
            None => fresh_seed(),
            Some(seed) => whole(seed).ok_or_else(|| invalid(usage))?,
        };
        let mut table = self.tables.find(name).map_err(to_datafusion)?;
        table.wanted = Wanted::Rows { n, unit: Unit::Events, seed };
        Ok(Arc::new(table))
    }
}
