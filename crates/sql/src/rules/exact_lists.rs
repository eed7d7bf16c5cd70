//! Lists of `in` that stay what they are when they are put together.
//!
//! DataFusion 55.2 makes one list of two on the same value that `and` or `or` joins, and loses nulls: with one in the second list,
//! `x in (1, 2) and x not in (3, null)` becomes `x in (1, 2)`, and `x not in (1) or x not in (2)` becomes true, also where `x`
//! is null. It takes items for equal only if they are written alike, so a column in one list equals nothing in the other. So here
//! lists come to have literals only, none of them null, and are put together with their nulls before DataFusion sees them.

use std::collections::HashSet;

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, binary_expr, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::{change_down, change_parts, change_plans_up, change_up, each_part};

/// Parts of a value that is looked for in a list and may be repeated.
const PARTS_MAX: usize = 16;

/// The rule, for whole plans; to be run once types have been brought together.
#[derive(Debug)]
pub struct ExactLists;

impl AnalyzerRule for ExactLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        change_plans_up(plan, &mut |plan| {
            if let LogicalPlan::Filter(filter) = plan {
                let condition = passing(with_exact_lists(filter.predicate)?)?;
                let filter = Filter::try_new(condition, filter.input)?;
                return Ok(Transformed::yes(LogicalPlan::Filter(filter)));
            }
            change_parts(plan, &mut exact)
        })
    }

    fn name(&self) -> &str {
        "exact_lists"
    }
}

/// The expression, of coerced types, with lists that may be put together.
pub fn with_exact_lists(expr: Expr) -> Result<Expr> {
    Ok(change_up(expr, &mut exact)?.data)
}

/// A condition that passes the same rows and says so more plainly: what is unknown does not pass.
pub fn passing(condition: Expr) -> Result<Expr> {
    let passing = change_down(condition, &mut |part| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => {
                Transformed::no(part)
            }
            Expr::Literal(ScalarValue::Boolean(None), _) => Transformed::yes(lit(false)),
            other => Transformed::new(other, false, TreeNodeRecursion::Jump),
        })
    })?;
    Ok(passing.data)
}

fn exact(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::InList(list) if !list.expr.is_volatile() => split(list),
        Expr::Not(negated) => match *negated {
            Expr::InList(list) => {
                Transformed::yes(Expr::InList(InList { negated: !list.negated, ..list }))
            }
            other => Transformed::no(Expr::Not(Box::new(other))),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let of_left = listed(&left, op);
            match of_left.is_some() && of_left == listed(&right, op) {
                true => Transformed::yes(joined(into_list(*left), op, into_list(*right))),
                false => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        other => Transformed::no(other),
    })
}

/// A list with nothing but literals in it, none of them null, and tests for whatever else it has.
#[allow(clippy::mutable_key_type, reason = "expressions have nothing in them that changes")]
fn split(InList { expr, list, negated }: InList) -> Transformed<Expr> {
    if list.iter().all(is_plain) {
        return Transformed::no(Expr::InList(InList { expr, list, negated }));
    }
    // A test repeats the value: lists within values would grow with each.
    let may_repeat = is_short(&expr);
    let (mut plain, mut others, mut has_null) = (Vec::new(), Vec::new(), false);
    let mut seen: HashSet<Expr> = HashSet::new();
    for item in list {
        match item {
            Expr::Literal(value, _) if value.is_null() => has_null = true,
            item if is_plain(&item) || is_constant(&item) || !may_repeat => plain.push(item),
            item if seen.insert(item.clone()) => others.push(item),
            _again => {}
        }
    }
    let test = |item| match negated {
        true => expr.as_ref().clone().not_eq(item),
        false => expr.as_ref().clone().eq(item),
    };
    let mut tests: Vec<Expr> = others.into_iter().map(test).collect();
    if has_null {
        tests.push(unknown());
    }
    if tests.is_empty() {
        return Transformed::no(Expr::InList(InList { expr, list: plain, negated }));
    }
    if !plain.is_empty() {
        tests.insert(0, Expr::InList(InList { expr, list: plain, negated }));
    }
    Transformed::yes(balanced(tests, if negated { Operator::And } else { Operator::Or }))
}

/// Tests joined as a tree that is as low as it can be: what works through it goes down once per level.
fn balanced(mut tests: Vec<Expr>, op: Operator) -> Expr {
    while tests.len() > 1 {
        let mut rest = tests.into_iter();
        let mut joined = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        tests = joined;
    }
    tests.pop().expect("there is a test")
}

/// Whether a value has few parts.
fn is_short(value: &Expr) -> bool {
    let mut parts = 0;
    let counted = each_part(value, &mut |_| {
        parts += 1;
        let goes_on = parts <= PARTS_MAX;
        Ok(if goes_on { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    counted.is_ok() && parts <= PARTS_MAX
}

fn is_plain(item: &Expr) -> bool {
    matches!(item, Expr::Literal(value, _) if !value.is_null())
}

/// Whether an item is a literal of another type, as `date '2013-01-01'` is.
fn is_constant(item: &Expr) -> bool {
    match item {
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Negative(of) => is_constant(of),
        item => is_plain(item),
    }
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}

/// The value that is looked for in a list of plain items; for `or` also the column that is compared with one, as DataFusion makes
/// lists of such.
fn listed(expr: &Expr, op: Operator) -> Option<&Expr> {
    match expr {
        Expr::InList(list) => {
            let is_exact = list.list.iter().all(is_plain) && !list.expr.is_volatile();
            is_exact.then_some(&*list.expr)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if op == Operator::Or => {
            match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), item) | (item, column @ Expr::Column(_)) => {
                    is_plain(item).then_some(column)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What [`listed`] has found to be a list, as one.
fn into_list(expr: Expr) -> InList {
    match expr {
        Expr::InList(list) => list,
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            let (expr, item) = match *right {
                Expr::Column(_) => (right, *left),
                item => (left, item),
            };
            InList { expr, list: vec![item], negated: false }
        }
        other => unreachable!("{other} is no list"),
    }
}

/// Two lists of plain items on one value, joined by `and` or `or`.
fn joined(one: InList, op: Operator, other: InList) -> Expr {
    let InList { expr, list, negated } = one;
    // `x in A or x not in B` is not `x not in A and x in B`; so `and` is all that has to be looked at.
    let is_or = op == Operator::Or;
    let (list, negated) = match (negated != is_or, other.negated != is_or) {
        (false, false) => (common(list, &other.list), false),
        (true, true) => (all(list, other.list), true),
        (false, true) => (without(list, &other.list), false),
        (true, false) => (without(other.list, &list), false),
    };
    let negated = negated != is_or;
    match list.is_empty() {
        false => Expr::InList(InList { expr, list, negated }),
        // In no list, or outside of none: known of what is not null.
        true if negated => expr.is_not_null().or(unknown()),
        true => expr.is_null().and(unknown()),
    }
}

fn all(mut list: Vec<Expr>, more: Vec<Expr>) -> Vec<Expr> {
    list.extend(more);
    list
}

#[allow(clippy::mutable_key_type, reason = "literals have nothing in them that changes")]
fn common(mut list: Vec<Expr>, other: &[Expr]) -> Vec<Expr> {
    let other: HashSet<&Expr> = other.iter().collect();
    list.retain(|item| other.contains(item));
    list
}

#[allow(clippy::mutable_key_type, reason = "literals have nothing in them that changes")]
fn without(mut list: Vec<Expr>, other: &[Expr]) -> Vec<Expr> {
    let other: HashSet<&Expr> = other.iter().collect();
    list.retain(|item| !other.contains(item));
    list
}
