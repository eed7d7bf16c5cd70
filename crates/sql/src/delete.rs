//! `DELETE FROM table WHERE condition`: the one statement that changes something.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, ObjectName, ObjectNamePart, Statement as SqlStatement, TableFactor,
};
use drillcore::{Database, DeleteResult, Error, ErrorKind, Interrupt, Result, Selection};

use crate::conditions::predicate::predicate_interruptibly;
use crate::error::{from_datafusion, with_quotes_told};
use crate::parsing::parameters::Parameters;
use crate::parsing::syntax;
use crate::session;

/// Runs a text that begins with `DELETE`, behind comments at most, in one commit; of another text returns `None`.
///
/// Its condition is one as [`predicate`](crate::predicate()) takes them. Parameters in it are numbers, strings, booleans and
/// nulls.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::Interrupt;
/// use drillcore_sql::{Parameters, delete};
///
/// let text = "delete from flights where carrier = 'UA'";
/// let deleted = delete(flights.database(), text, &Parameters::None, &Interrupt::never())?;
/// assert!(deleted.is_some());
/// assert_eq!(flights.snapshot()?.rows()?, 70);
/// # drillcore::Result::Ok(())
/// ```
///
/// # Errors
/// `InvalidArgument` for a delete without a condition, with another clause, or of several tables; else as
/// [`Table::delete_selected`](drillcore::Table::delete_selected).
pub fn delete(
    database: &Database,
    text: &str,
    parameters: &Parameters,
    interrupt: &Interrupt,
) -> Result<Option<DeleteResult>> {
    if !syntax::is_delete(text) {
        return Ok(None);
    }
    let parsed = session::with_stack(|| syntax::deleting(text, parameters));
    let statement = parsed.map_err(|error| with_quotes_told(from_datafusion(&error), text))?;
    let (table, condition) = table_and_condition(statement)?;
    let table = database.interrupted_by(interrupt.clone()).table(&table)?;
    let condition = predicate_interruptibly(&table.schema(), &condition.to_string(), interrupt)?;
    let selection = Selection { predicate: Some(condition), ..Selection::default() };
    table.delete_selected(&selection).map(Some)
}

fn table_and_condition(statement: Statement) -> Result<(String, Expr)> {
    let Statement::Statement(statement) = statement else { return Err(only_plain()) };
    let SqlStatement::Delete(delete) = *statement else { return Err(only_plain()) };
    let Delete { tables, from, using, selection, returning, output, order_by, limit, .. } = delete;
    let is_plain = tables.is_empty()
        && using.is_none()
        && returning.is_none()
        && output.is_none()
        && order_by.is_empty()
        && limit.is_none();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    let [from] = &from[..] else { return Err(only_plain()) };
    let TableFactor::Table { name: whole @ ObjectName(name), .. } = &from.relation else {
        return Err(only_plain());
    };
    let [ObjectNamePart::Identifier(name)] = &name[..] else { return Err(only_plain()) };
    // An alias, a sample or whatever else may stand behind the name.
    let is_plain = is_plain && from.relation.to_string() == whole.to_string();
    if !is_plain || !from.joins.is_empty() {
        return Err(only_plain());
    }
    match selection {
        Some(condition) => Ok((name.value.clone(), condition)),
        None => Err(invalid(
            "DELETE without WHERE would delete all rows; give a condition, or call truncate",
        )),
    }
}

fn only_plain() -> Error {
    invalid("only DELETE FROM table WHERE condition is supported; remove the other clauses")
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
