//! `drillcore add-column`: a nullable column behind the others of a table.

use drillcore::Interrupt;

use crate::arguments::AddColumn;
use crate::fault::Fault;
use crate::opening::open;
use crate::output::print_line;

pub fn add_column(arguments: &AddColumn, interrupt: &Interrupt) -> Result<(), Fault> {
    let AddColumn { source, name, column_type } = arguments;
    let db = open(&source.database, interrupt)?;
    db.table(&source.table)?.add_column(name, column_type)?;
    db.close()?;
    print_line(&format!("{name} added to {}", source.table))
}
