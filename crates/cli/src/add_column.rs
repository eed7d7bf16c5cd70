//! `drillcore add-column`: a nullable column behind the others of a table.

use crate::arguments::AddColumn;
use crate::fault::Fault;
use crate::opening::open;
use crate::output::print_line;

pub fn add_column(arguments: &AddColumn) -> Result<(), Fault> {
    let AddColumn { source, name, column_type } = arguments;
    let db = open(&source.database)?;
    db.table(&source.table)?.add_column(name, column_type)?;
    db.close()?;
    print_line(&format!("{name} added to {}", source.table))
}
