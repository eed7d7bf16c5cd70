//! `drillcore stats`, `verify` and `compact`.

use std::path::Path;

use drillcore::Interrupt;
use indicatif::ProgressBar;

use crate::fault::{Fault, NO};
use crate::opening::{open, open_to_read};
use crate::output::print_line;
use crate::progress;

pub fn stats(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    print_line(&open_to_read(database, interrupt)?.stats()?.to_json())
}

/// Checks every segment; `NO` if one is damaged.
pub fn verify(database: &Path, interrupt: &Interrupt) -> Result<u8, Fault> {
    let db = open_to_read(database, interrupt)?;
    let bar = ProgressBar::new(0);
    bar.set_style(progress::style("{wide_bar} {percent} % of {total_bytes}, {eta} left"));
    let report = progress::shown(&bar, |progress| db.verify_with(progress))?;
    let (segments, rows, bytes) = (report.segments, report.rows, report.bytes);
    print_line(&format!("{segments} segments, {rows} rows, {bytes} bytes"))?;
    for fault in &report.faults {
        print_line(&format!("damaged: {fault}"))?;
    }
    Ok(if report.faults.is_empty() { 0 } else { NO })
}

pub fn compact(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(database, interrupt)?;
    let bar = ProgressBar::new(0);
    bar.set_style(progress::style("{wide_bar} {percent} % of {human_len} rows, {eta} left"));
    progress::shown(&bar, |progress| db.compact_with(progress))?;
    Ok(db.close()?)
}
