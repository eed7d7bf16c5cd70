//! Casts that are part of a column's name.
//!
//! DataFusion 55.2 leaves a cast out of the name of an expression, and refuses two expressions of one name in one place, as in
//! `select max(k), max(cast(k as double))`, though the result calls them differently. Where that happens, each type that is
//! cast to gets calls of `coalesce` around it, which say nothing of one value, and another number of them for each type.

use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, SelectItem,
};

use crate::trees::{Parsed, each_parsed};

/// This number of types get names of their own.
const TYPES_MAX: usize = 8;

/// Whether an error of planning is that two expressions have one name.
pub fn is_about_names(message: &str) -> bool {
    [
        "duplicate unqualified field name",
        "duplicate qualified field name",
        "unique expression names",
    ]
    .iter()
    .any(|part| message.contains(part))
}

/// Has the names of casts tell by which type they are to. False if nothing is cast.
pub fn name_casts(statement: &mut Statement) -> Result<bool> {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return name_casts(&mut explain.statement),
        _ => return Ok(false),
    };
    let mut types: Vec<(CastKind, DataType)> = Vec::new();
    each_parsed(statement.as_mut(), &mut |part| {
        let expr = match part {
            // Comes before its expressions.
            Parsed::Select(select) => return select.projection.iter_mut().try_for_each(keep_name),
            Parsed::Expr(expr) => expr,
            Parsed::Query(_) => return Ok(()),
        };
        let Expr::Cast { kind, data_type, .. } = expr else { return Ok(()) };
        // `::` is the same as `cast`.
        let kind = if *kind == CastKind::DoubleColon { CastKind::Cast } else { kind.clone() };
        let cast = (kind, data_type.clone());
        let number = types.iter().position(|known| *known == cast).unwrap_or(types.len());
        if number == types.len() {
            types.push(cast);
        }
        for _ in 0..=number.min(TYPES_MAX) {
            *expr = coalesce(expr.clone());
        }
        Ok(())
    })?;
    Ok(!types.is_empty())
}

/// Calls a column of a result what stands in the query, if that is a cast or has one.
fn keep_name(column: &mut SelectItem) -> Result<()> {
    let SelectItem::UnnamedExpr(expr) = column else { return Ok(()) };
    let mut has_cast = false;
    each_parsed(&mut expr.clone(), &mut |part| {
        has_cast |= matches!(part, Parsed::Expr(Expr::Cast { .. }));
        Ok(())
    })?;
    if has_cast {
        let alias = Ident::with_quote('"', expr.to_string());
        *column = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
    Ok(())
}

fn coalesce(expr: Expr) -> Expr {
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument],
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
