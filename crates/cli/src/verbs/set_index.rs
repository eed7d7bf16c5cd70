//! `drillcore index-sets` and `unindex-sets`: which sets of a table are indexed.

use arrow_array::ArrayRef;
use drillcore::{Database, Interrupt, Table};
use indicatif::ProgressBar;

use crate::arguments::altering::SwitchSets;
use crate::printing::output::print_line;
use crate::printing::progress;
use crate::process::fault::Fault;
use crate::process::opening::open;
use crate::verbs::selection;

/// Indexes sets, and the rows that are there.
pub fn index(arguments: &SwitchSets, interrupt: &Interrupt) -> Result<(), Fault> {
    let (db, table) = table(arguments, interrupt)?;
    match arguments.all {
        true => table.index_all_sets()?,
        false => table.index_sets(&sets(arguments, &table)?)?,
    }
    let bar = if arguments.quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    bar.set_style(progress::style("{wide_bar} {percent} % of {human_len} rows, {eta} left"));
    progress::shown(&bar, |progress| table.wait_for_set_index_with(progress))?;
    db.close()?;
    print_line(&format!("indexed sets of {}", arguments.source.table))
}

/// Indexes sets no more.
pub fn unindex(arguments: &SwitchSets, interrupt: &Interrupt) -> Result<(), Fault> {
    let (db, table) = table(arguments, interrupt)?;
    match arguments.all {
        true => table.unindex_all_sets()?,
        false => table.unindex_sets(&sets(arguments, &table)?)?,
    }
    Ok(db.close()?)
}

fn table(arguments: &SwitchSets, interrupt: &Interrupt) -> Result<(Database, Table), Fault> {
    if arguments.sets.is_empty() && !arguments.all && !arguments.null_set {
        return Err(Fault::wrong_call("no set is given; name sets, or use --all or --null-set"));
    }
    let db = open(&arguments.source.database, interrupt)?;
    let table = db.table(&arguments.source.table)?;
    Ok((db, table))
}

fn sets(arguments: &SwitchSets, table: &Table) -> Result<ArrayRef, Fault> {
    let instead = "use --set when `drillcore ingest` creates a table";
    selection::sets(&table.schema(), &arguments.sets, arguments.null_set, instead)
}
