//! `drillcore backup` and `restore`: a copy of a whole database, and a database of a copy.

use drillcore::{BackupResult, Database, ErrorKind, Interrupt, Options};
use indicatif::{HumanBytes, HumanCount};

use crate::arguments::backup::{Backup, Restore};
use crate::printing::output::print_line;
use crate::process::fault::Fault;
use crate::process::opening::open_to_read;

pub fn backup(arguments: &Backup, interrupt: &Interrupt) -> Result<(), Fault> {
    let Backup { database, path, copy } = arguments;
    let options = Options { create: false, interrupt: interrupt.clone(), ..Options::default() };
    let db = match Database::open(database, options) {
        // Beside the process that writes.
        Err(error) if error.kind() == ErrorKind::Locked => open_to_read(database, interrupt)?,
        db => db?,
    };
    let stored = db.backup(path, *copy)?;
    db.close()?;
    print_line(&format!("backup of commit {} in {}: {}", stored.lsn, path.display(), said(&stored)))
}

pub fn restore(arguments: &Restore, interrupt: &Interrupt) -> Result<(), Fault> {
    let Restore { backup, path, copy } = arguments;
    let stored = drillcore::restore(backup, path, *copy, interrupt)?;
    print_line(&format!("restored commit {} to {}: {}", stored.lsn, path.display(), said(&stored)))
}

fn said(stored: &BackupResult) -> String {
    let BackupResult { files, bytes, new_files, linked_bytes, copied_bytes, .. } = stored;
    let [files, new_files] = [*files, *new_files].map(HumanCount);
    let [bytes, linked, copied] = [*bytes, *linked_bytes, *copied_bytes].map(HumanBytes);
    format!("{files} files, {bytes}; {new_files} new files, {linked} linked, {copied} copied")
}
