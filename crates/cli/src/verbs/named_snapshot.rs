//! `drillcore snapshot`, `snapshots` and `drop-snapshot`: all tables at one moment, kept under a name.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use drillcore::Interrupt;

use crate::arguments::verb::{SnapshotName, Snapshots};
use crate::printing::output::{print_line, print_one};
use crate::process::fault::Fault;
use crate::process::opening::{open, open_to_read};

/// Pins the snapshot, or says that it is there already.
pub fn pin(arguments: &SnapshotName, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(&arguments.database, interrupt)?;
    let name = &arguments.name;
    let known = db.snapshots()?.into_iter().find(|(known, _)| known == name);
    let said = match known {
        Some((_, lsn)) => format!("snapshot {name} already exists, as of commit {lsn}"),
        None => format!("created snapshot {name}, as of commit {}", db.named_snapshot(name)?.lsn()),
    };
    db.close()?;
    print_line(&said)
}

pub fn list(arguments: &Snapshots, interrupt: &Interrupt) -> Result<(), Fault> {
    let snapshots = open_to_read(&arguments.database, interrupt)?.snapshots()?;
    let snapshots = snapshots.into_iter().map(|(name, lsn)| (name, u64::from(lsn)));
    let (names, lsns): (Vec<String>, Vec<u64>) = snapshots.unzip();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("snapshot", Arc::new(StringArray::from(names))),
        ("lsn", Arc::new(UInt64Array::from(lsns))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("one commit a name");
    print_one(arguments.output.output, batch)
}

pub fn unpin(arguments: &SnapshotName, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(&arguments.database, interrupt)?;
    db.drop_snapshot(&arguments.name)?;
    db.close()?;
    print_line(&format!("dropped snapshot {}", arguments.name))
}
