//! Rollups and cubes, written as the groupings that they stand for.
//!
//! DataFusion 55.2 refuses a rollup or a cube that has a value twice, or several values as one step. It takes the same
//! as grouping sets.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr};

/// A cube of more values has too many groupings; it is left to be refused.
const CUBE_MAX: usize = 12;

/// Writes the rollups and cubes out that would be refused.
pub fn with_grouping_sets(groups: &mut GroupByExpr) {
    let GroupByExpr::Expressions(groups, _) = groups else { return };
    for group in groups {
        let sets = match group {
            Expr::Rollup(steps) if !is_plain(steps) => rollup(steps),
            Expr::Cube(steps) if !is_plain(steps) && steps.len() <= CUBE_MAX => cube(steps),
            _ => continue,
        };
        *group = Expr::GroupingSets(sets);
    }
}

/// Whether no step has several values, and no value is there twice.
fn is_plain(steps: &[Vec<Expr>]) -> bool {
    let is_new = |(place, step): (usize, &Vec<Expr>)| !steps[..place].contains(step);
    steps.iter().all(|step| step.len() == 1) && steps.iter().enumerate().all(is_new)
}

fn rollup(steps: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=steps.len()).rev().map(|len| set_of(steps[..len].iter())).collect()
}

fn cube(steps: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let chosen = |choice: usize| {
        let steps = steps.iter().enumerate();
        set_of(steps.filter(|(place, _)| choice >> place & 1 == 0).map(|(_, step)| step))
    };
    (0..1 << steps.len()).map(chosen).collect()
}

fn set_of<'a>(steps: impl Iterator<Item = &'a Vec<Expr>>) -> Vec<Expr> {
    let mut set = Vec::new();
    for value in steps.flatten() {
        if !set.contains(value) {
            set.push(value.clone());
        }
    }
    set
}
