//! `drillcore add-column`: a nullable column behind the others of a table.

use drillcore::Interrupt;

use crate::arguments::altering::AddColumn;
use crate::printing::output::print_line;
use crate::process::fault::Fault;
use crate::process::opening::open;

pub fn add_column(arguments: &AddColumn, interrupt: &Interrupt) -> Result<(), Fault> {
    let AddColumn { source, name, column_type } = arguments;
    let db = open(&source.database, interrupt)?;
    db.table(&source.table)?.add_column(name, column_type)?;
    db.close()?;
    print_line(&format!("{name} added to {}", source.table))
}
