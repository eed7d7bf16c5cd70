//! `drillcore rename-column`, `drop-column`, `widen`, `rename-table` and `copy-table`.

use drillcore::Interrupt;
use indicatif::HumanCount;

use crate::arguments::altering::{AddColumn, DropColumn, RenameColumn, TwoTables};
use crate::printing::output::print_line;
use crate::process::fault::Fault;
use crate::process::opening::open;

pub fn rename_column(arguments: &RenameColumn, interrupt: &Interrupt) -> Result<(), Fault> {
    let RenameColumn { source, old, new } = arguments;
    let db = open(&source.database, interrupt)?;
    db.table(&source.table)?.rename_column(old, new)?;
    db.close()?;
    print_line(&format!("{old} of {} renamed to {new}", source.table))
}

pub fn drop_column(arguments: &DropColumn, interrupt: &Interrupt) -> Result<(), Fault> {
    let DropColumn { source, name } = arguments;
    let db = open(&source.database, interrupt)?;
    db.table(&source.table)?.drop_column(name)?;
    db.close()?;
    print_line(&format!("{name} dropped from {}", source.table))
}

pub fn widen(arguments: &AddColumn, interrupt: &Interrupt) -> Result<(), Fault> {
    let AddColumn { source, name, column_type } = arguments;
    let db = open(&source.database, interrupt)?;
    db.table(&source.table)?.widen(name, column_type)?;
    db.close()?;
    print_line(&format!("{name} of {} is wider now", source.table))
}

pub fn rename_table(arguments: &TwoTables, interrupt: &Interrupt) -> Result<(), Fault> {
    let TwoTables { source, new } = arguments;
    let db = open(&source.database, interrupt)?;
    db.rename_table(&source.table, new)?;
    db.close()?;
    print_line(&format!("{} renamed to {new}", source.table))
}

pub fn copy_table(arguments: &TwoTables, interrupt: &Interrupt) -> Result<(), Fault> {
    let TwoTables { source, new } = arguments;
    let db = open(&source.database, interrupt)?;
    let rows = db.copy_table(&source.table, new)?.snapshot()?.rows()?;
    db.close()?;
    print_line(&format!("{} copied to {new}: {} rows", source.table, HumanCount(rows)))
}
