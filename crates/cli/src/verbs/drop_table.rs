//! `drillcore drop-table`: a table with all its rows, once the user has confirmed it.

use std::io::{self, IsTerminal, Read, Write};

use drillcore::Interrupt;

use crate::arguments::altering::DropTable;
use crate::files::source;
use crate::printing::output::print_line;
use crate::process::fault::Fault;
use crate::process::opening::{open, open_to_read};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 << 10;

pub fn drop_table(arguments: &DropTable, interrupt: &Interrupt) -> Result<(), Fault> {
    let DropTable { source, yes } = arguments;
    if !yes {
        // Nothing is locked for writing while the user thinks.
        open_to_read(&source.database, interrupt)?.table(&source.table)?;
        confirm(&source.table, interrupt)?;
    }
    let db = open(&source.database, interrupt)?;
    db.drop_table(&source.table)?;
    db.close()?;
    print_line(&format!("dropped table {}", source.table))
}

/// Asks the user of a terminal for the table's name.
fn confirm(table: &str, interrupt: &Interrupt) -> Result<(), Fault> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let what = format!(
            "this drops table {table:?} with all its rows; use --yes to confirm it without a terminal"
        );
        return Err(Fault::wrong_call(what));
    }
    let mut out = io::stderr();
    // Without a place to ask, no answer can be meant.
    write!(out, "This drops table {table:?} with all its rows. Type its name to go on: ")
        .and_then(|()| out.flush())
        .map_err(|error| Fault::unusable(format!("cannot ask: {error}")))?;
    let answer = read_line(interrupt);
    interrupt.check()?;
    let answer = answer.map_err(|error| Fault::unusable(format!("cannot read: {error}")))?;
    match answer.trim() == table {
        true => Ok(()),
        false => Err(Fault::wrong_call(format!(
            "the answer {:?} is not the name of the table; nothing was dropped",
            answer.trim()
        ))),
    }
}

fn read_line(interrupt: &Interrupt) -> io::Result<String> {
    let mut typed = source::raw("-", interrupt)?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while answer.len() < ANSWER_BYTES_MAX && typed.read(&mut byte)? > 0 && byte != [b'\n'] {
        answer.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
