//! `from t` without a select list is `select * from t`, as in DuckDB.
//!
//! DataFusion 55.2 parses it, with an empty list, and would give rows without columns.

use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{SelectFlavor, SelectItem, WildcardAdditionalOptions};

use crate::trees::{Parsed, each_parsed};

/// Gives every `from` without a select list, also in subqueries, the list `*`.
pub fn with_all_columns(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            each_parsed(statement, &mut list_all_columns).expect("it does not fail");
        }
        Statement::Explain(explain) => with_all_columns(&mut explain.statement),
        // Others are no queries.
        _ => {}
    }
}

fn list_all_columns(part: Parsed) -> Result<()> {
    if let Parsed::Select(select) = part
        && select.flavor == SelectFlavor::FromFirstNoSelect
    {
        let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        select.projection.push(all);
        select.flavor = SelectFlavor::FromFirst;
    }
    Ok(())
}
