//! `drillcore delete`: rows by key, or those that a selection takes.

use drillcore::{Interrupt, OnError, Table};
use indicatif::HumanCount;

use crate::arguments::altering::Delete;
use crate::arguments::shared_options::Selection;
use crate::files::batches::{Reading, Taken};
use crate::files::input;
use crate::printing::output::print_line;
use crate::process::fault::{Fault, report};
use crate::process::opening::open;
use crate::verbs::selection::{key, selection};

/// Keys of one commit.
const BATCH_KEYS: usize = 8192;

/// Deletes rows, and prints how many there were.
pub fn delete(arguments: &Delete, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(&arguments.source.database, interrupt)?;
    let table = db.table(&arguments.source.table)?;
    let mut deleted = 0;
    let done = match &arguments.keys {
        Some(file) => delete_keys_of(file, &table, arguments, interrupt, &mut deleted),
        None => delete_at_once(&table, arguments, interrupt).map(|rows| deleted = rows),
    };
    if let Err(fault) = done {
        if deleted > 0 {
            report(format_args!("deleted {} rows before the error", HumanCount(deleted)));
        }
        return Err(fault);
    }
    db.close()?;
    print_line(&format!("{} rows deleted from {}", HumanCount(deleted), arguments.source.table))
}

/// Deletes one key or a selection, in one commit.
fn delete_at_once(table: &Table, arguments: &Delete, interrupt: &Interrupt) -> Result<u64, Fault> {
    let Selection { from, to, set, null_set, condition } = &arguments.selection;
    let selects =
        from.is_some() || to.is_some() || !set.is_empty() || *null_set || condition.is_some();
    let deleted = if !arguments.key.is_empty() {
        table.delete(&key(&table.schema(), &arguments.key)?)?
    } else if arguments.all {
        table.truncate()?
    } else if selects {
        let selection = selection(&table.schema(), &arguments.selection, interrupt)?;
        table.interrupted_by(interrupt.clone()).delete_selected(&selection)?
    } else {
        return Err(Fault::wrong_call(
            "no rows are selected; give a key, --keys, --from, --to, --set, --null-set or --where, or --all to delete all \
             rows",
        ));
    };
    Ok(deleted.rows)
}

fn delete_keys_of(
    file: &str,
    table: &Table,
    arguments: &Delete,
    interrupt: &Interrupt,
    deleted: &mut u64,
) -> Result<(), Fault> {
    let schema = table.schema();
    let columns = schema.columns.project(&schema.key).expect("a key is made of columns");
    let taken = Taken {
        columns: columns.into(),
        skips_others: true,
        adds_others: false,
        spelled_out: Vec::new(),
    };
    let on_error = OnError::Raise;
    let (format, batch_rows, records_before) = (arguments.format, BATCH_KEYS, 0);
    let (separator, given) = (None, None);
    let reading =
        Reading { format, separator, batch_rows, on_error, given, records_before, interrupt };
    let input = input::open(file, Some(&taken), &reading)?;
    for batch in input.batches() {
        interrupt.check()?;
        let keys = batch?.rows;
        let done = table.delete(keys.columns());
        *deleted += done.map_err(|error| Fault::from(error).at(file))?.rows;
    }
    Ok(())
}
