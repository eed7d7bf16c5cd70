//! `in (select ...)` where nulls make the answer unknown.
//!
//! `x in (select y ...)` is unknown if no `y` equals `x`, but one of them is null, or `x` is and there is any row. In
//! DataFusion 55.2 it is false then, and `not in` true, but for one form: `x not in` as a condition joined to others
//! by `and`, where `x` has a column, a column on either side may be null, and the query does not look at the row. The
//! other forms are written with `exists` here, which knows nothing of nulls.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue, Spans};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::rules::plan_schema::schema_of_expressions;
use crate::trees::{any_part, change_expressions, change_plans_up, change_up, each_expression};

/// The rule, to be run once types have been brought together.
#[derive(Debug)]
pub struct UnknownMemberships;

impl AnalyzerRule for UnknownMemberships {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            if !plan.expressions().iter().any(has_membership) {
                return Ok(Transformed::no(plan));
            }
            let LogicalPlan::Filter(filter) = plan else {
                // Optimisers make conditions of what joins and other queries compute.
                let schema = schema_of_expressions(&plan);
                return change_expressions(plan, &mut |expr| {
                    Ok(Transformed::yes(of_three_values(expr, &schema)?))
                });
            };
            let schema = Arc::clone(filter.input.schema());
            let conditions = split_conjunction_owned(filter.predicate).into_iter();
            let conditions = conditions.map(|condition| passing(condition, &schema));
            let condition = conjunction(conditions.collect::<Result<Vec<_>>>()?);
            let condition = condition.expect("there was one");
            let filter = Filter::try_new(condition, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        })
    }

    fn name(&self) -> &str {
        "unknown_memberships"
    }
}

fn has_membership(expr: &Expr) -> bool {
    any_part(expr, &|part| matches!(part, Expr::InSubquery(_)))
}

/// A condition that passes the same rows: for those, unknown is the same as false.
fn passing(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    match condition {
        Expr::InSubquery(within) if within.negated => not_among(Membership::of(within, schema)?),
        Expr::Not(negated) => match *negated {
            Expr::InSubquery(within) if !within.negated => {
                not_among(Membership::of(within, schema)?)
            }
            condition => of_three_values(!condition, schema),
        },
        // What is unknown does not pass, nor what is false.
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let expr = Box::new(of_three_values(*expr, schema)?);
            Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        condition => of_three_values(condition, schema),
    }
}

/// The expression with each membership in it true, false or unknown.
fn of_three_values(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let told = change_up(expr, &mut |part| match part {
        Expr::InSubquery(within) => {
            let negated = within.negated;
            let membership = Membership::of(within, schema)?;
            if !membership.may_be_unknown() {
                return Ok(Transformed::no(membership.as_written(negated)));
            }
            membership.check_same_each_time()?;
            let unknown = membership.unknown()?;
            let unknown_value = lit(ScalarValue::Boolean(None));
            when(membership.as_written(false), lit(!negated))
                .when(unknown, unknown_value)
                .otherwise(lit(negated))
                .map(Transformed::yes)
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(told.data)
}

/// `x not in (select y ...)` as a condition: whether it is true.
fn not_among(membership: Membership) -> Result<Expr> {
    let membership =
        Membership { value: of_three_values(membership.value, membership.schema)?, ..membership };
    let may_be_unknown = membership.may_be_unknown();
    // Of a query that looks at the row, DataFusion refuses some that cannot be unknown.
    if membership.is_correlated() || may_be_unknown && !membership.value.any_column_refs() {
        let same = membership.member().eq(membership.value_inside()?);
        let in_the_way = match may_be_unknown {
            true => same.or(membership.null_inside()?),
            false => same,
        };
        return Ok(!membership.exists(Some(in_the_way))?);
    }
    if !may_be_unknown {
        return Ok(membership.as_written(true));
    }
    if membership.member_is_nullable || membership.has_nullable_column()? {
        return Ok(membership.as_written(true));
    }
    // No column may be null, but what is computed of them.
    let may_pass = membership.value.clone().is_not_null().or(!membership.exists(None)?);
    Ok(membership.as_written(true).and(may_pass))
}

/// `x in (select y ...)`.
struct Membership<'a> {
    /// `x`, and the columns that it may name.
    value: Expr,
    schema: &'a DFSchema,
    value_is_nullable: bool,
    query: Subquery,
    member_is_nullable: bool,
}

impl<'a> Membership<'a> {
    fn of(within: InSubquery, schema: &'a DFSchema) -> Result<Membership<'a>> {
        let query = within.subquery;
        Ok(Membership {
            value_is_nullable: within.expr.nullable(schema)?,
            member_is_nullable: query.subquery.schema().field(0).is_nullable(),
            value: *within.expr,
            schema,
            query,
        })
    }

    fn as_written(&self, negated: bool) -> Expr {
        let expr = Box::new(self.value.clone());
        Expr::InSubquery(InSubquery { expr, subquery: self.query.clone(), negated })
    }

    fn may_be_unknown(&self) -> bool {
        self.value_is_nullable || self.member_is_nullable
    }

    /// Whether the query looks at the row.
    fn is_correlated(&self) -> bool {
        !self.query.outer_ref_columns.is_empty()
    }

    fn has_nullable_column(&self) -> Result<bool> {
        for column in self.value.column_refs() {
            if self.schema.field_from_column(column)?.is_nullable() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a query that would give other values where it is asked twice.
    fn check_same_each_time(&self) -> Result<()> {
        let mut is_volatile = false;
        each_expression(&self.query.subquery, &mut |expr| {
            is_volatile |= expr.is_volatile();
            Ok(())
        })?;
        match is_volatile {
            false => Ok(()),
            true => {
                let message = "IN with a subquery whose values change in each call must be a condition by itself: \
                               join it to others with AND, and without NOT";
                let error = Error::new(ErrorKind::InvalidArgument, message.to_string());
                Err(to_datafusion(error))
            }
        }
    }

    /// Where no member equals the value: whether it is unknown if one does.
    fn unknown(&self) -> Result<Expr> {
        if self.is_correlated() {
            return self.exists(Some(self.null_inside()?));
        }
        let mut reasons = Vec::new();
        if self.member_is_nullable {
            reasons.push(self.exists(Some(self.member().is_null()))?);
        }
        if self.value_is_nullable {
            reasons.push(self.value.clone().is_null().and(self.exists(None)?));
        }
        Ok(disjunction(reasons).expect("one of the two may be null"))
    }

    /// `y`, as a column of the query.
    fn member(&self) -> Expr {
        Expr::Column(Column::from(self.query.subquery.schema().qualified_field(0)))
    }

    /// `x`, as the query may name it.
    fn value_inside(&self) -> Result<Expr> {
        let inside = change_up(self.value.clone(), &mut |part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(self.schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(inside.data)
    }

    /// Whether a member makes the answer unknown, as a condition of the query.
    fn null_inside(&self) -> Result<Expr> {
        let value = self.value_is_nullable.then(|| self.value_inside()).transpose()?;
        let nullable = self.member_is_nullable.then(|| self.member()).into_iter().chain(value);
        Ok(disjunction(nullable.map(Expr::is_null)).expect("one of the two may be null"))
    }

    /// Whether the query has a row of which the condition is true.
    fn exists(&self, condition: Option<Expr>) -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(self.query.subquery.as_ref().clone());
        let plan = match condition {
            None => plan,
            Some(condition) => plan.filter(condition)?,
        };
        let plan = plan.build()?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery =
            Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    }
}
