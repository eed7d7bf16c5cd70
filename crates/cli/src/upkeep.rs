//! `drillcore stats`, `verify` and `compact`.

use std::path::Path;

use drillcore::Interrupt;

use crate::fault::{Fault, NO};
use crate::opening::open;
use crate::output::print_line;

pub fn stats(database: &Path) -> Result<(), Fault> {
    let db = open(database)?;
    let stats = db.stats()?.to_json();
    db.close()?;
    print_line(&stats)
}

/// Checks every segment; `NO` if one is damaged.
pub fn verify(database: &Path, interrupt: &Interrupt) -> Result<u8, Fault> {
    let db = open(database)?;
    let report = db.verify(interrupt)?;
    db.close()?;
    let (segments, rows, bytes) = (report.segments, report.rows, report.bytes);
    print_line(&format!("{segments} segments, {rows} rows, {bytes} bytes"))?;
    for fault in &report.faults {
        print_line(&format!("damaged: {fault}"))?;
    }
    Ok(if report.faults.is_empty() { 0 } else { NO })
}

pub fn compact(database: &Path) -> Result<(), Fault> {
    let db = open(database)?;
    db.compact()?;
    Ok(db.close()?)
}
