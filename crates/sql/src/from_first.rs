//! `from t` without a select list is `select * from t`, as in DuckDB.
//!
//! DataFusion 55.2 parses it, with an empty list, and would give rows without columns.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Select, SelectFlavor, SelectItem, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

/// Gives every `from` without a select list, also in subqueries, the list `*`.
pub fn with_all_columns(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let ControlFlow::Continue(()) = statement.visit(&mut AllColumns);
        }
        Statement::Explain(explain) => with_all_columns(&mut explain.statement),
        // Others are no queries.
        _ => {}
    }
}

struct AllColumns;

impl VisitorMut for AllColumns {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
            select.projection.push(all);
            select.flavor = SelectFlavor::FromFirst;
        }
        ControlFlow::Continue(())
    }
}
