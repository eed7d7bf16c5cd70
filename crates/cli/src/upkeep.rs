//! `drillcore stats`, `verify` and `compact`.

use std::path::Path;

use drillcore::Interrupt;

use crate::fault::{Fault, NO};
use crate::opening::{open, open_to_read};
use crate::output::print_line;

pub fn stats(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    print_line(&open_to_read(database, interrupt)?.stats()?.to_json())
}

/// Checks every segment; `NO` if one is damaged.
pub fn verify(database: &Path, interrupt: &Interrupt) -> Result<u8, Fault> {
    let report = open_to_read(database, interrupt)?.verify()?;
    let (segments, rows, bytes) = (report.segments, report.rows, report.bytes);
    print_line(&format!("{segments} segments, {rows} rows, {bytes} bytes"))?;
    for fault in &report.faults {
        print_line(&format!("damaged: {fault}"))?;
    }
    Ok(if report.faults.is_empty() { 0 } else { NO })
}

pub fn compact(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(database, interrupt)?;
    db.compact()?;
    Ok(db.close()?)
}
