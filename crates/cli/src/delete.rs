//! `drillcore delete`: rows of an upsert table, by key.

use std::collections::HashSet;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::display::array_value_to_string;
use drillcore::{Interrupt, OnError, Table};

use crate::arguments::Delete;
use crate::batches::{Reading, Taken};
use crate::fault::Fault;
use crate::input;
use crate::opening::open;
use crate::output::print_line;
use crate::selection::key;

/// Keys of one commit.
const BATCH_KEYS: usize = 8192;

/// Deletes rows, and prints how many there were.
pub fn delete(arguments: &Delete, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(&arguments.source.database, interrupt)?;
    let table = db.table(&arguments.source.table)?;
    let mut deleted = 0;
    let done = match &arguments.keys {
        None => {
            let key = key(&table.schema(), &arguments.key)?;
            delete_keys(&table, &key, interrupt).map(|rows| deleted = rows)
        }
        Some(file) => delete_keys_of(file, &table, arguments, interrupt, &mut deleted),
    };
    if let Err(fault) = done {
        eprintln!("deleted {deleted} rows before the error");
        return Err(fault);
    }
    db.close()?;
    print_line(&format!("{deleted} rows deleted from {}", arguments.source.table))
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
    let taken = Taken { columns: columns.into(), skips_others: true, spelled_out: Vec::new() };
    let on_error = OnError::Raise;
    let reading = Reading { format: arguments.format, batch_rows: BATCH_KEYS, on_error, interrupt };
    let input = input::open(file, Some(&taken), &reading)?;
    for batch in input.batches {
        interrupt.check()?;
        let keys = batch?.rows;
        *deleted +=
            delete_keys(table, keys.columns(), interrupt).map_err(|fault| fault.at(file))?;
    }
    Ok(())
}

/// Deletes the rows with some keys, and returns how many there were: nobody else writes meanwhile.
fn delete_keys(table: &Table, keys: &[ArrayRef], interrupt: &Interrupt) -> Result<u64, Fault> {
    let schema = table.schema();
    let names: Vec<String> =
        schema.key.iter().map(|&column| schema.columns.field(column).name().clone()).collect();
    let found = table.snapshot()?.get_interruptibly(keys, Some(&names), interrupt)?;
    table.delete(keys)?;
    Ok(distinct(&found.rows))
}

/// The number of different rows: a key may have been given more than once.
fn distinct(rows: &RecordBatch) -> u64 {
    let text = |row: usize| -> Vec<Option<String>> {
        let value = |column: &ArrayRef| match column.is_null(row) {
            true => None,
            false => Some(array_value_to_string(column, row).expect("keys have a text")),
        };
        rows.columns().iter().map(value).collect()
    };
    (0..rows.num_rows()).map(text).collect::<HashSet<_>>().len() as u64
}
