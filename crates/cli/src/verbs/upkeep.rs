//! `drillcore stats`, `verify` and `compact`.

use std::path::Path;

use drillcore::{ErrorKind, Interrupt};
use indicatif::{HumanBytes, HumanCount, ProgressBar};

use crate::printing::output::print_line;
use crate::printing::progress;
use crate::process::fault::{Fault, NO};
use crate::process::opening::{open, open_to_read, reader};

pub fn stats(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    print_line(&open_to_read(database, interrupt)?.stats()?.to_json())
}

/// Checks the log, as opening does, and every segment; `NO` if something is damaged.
pub fn verify(database: &Path, interrupt: &Interrupt) -> Result<u8, Fault> {
    let db = match reader(database, interrupt) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            print_line(&format!("damaged: {error}"))?;
            return Ok(NO);
        }
        opened => opened?,
    };
    let bar = ProgressBar::new(0);
    bar.set_style(progress::style("{wide_bar} {percent} % of {total_bytes}, {eta} left"));
    let report = progress::shown(&bar, |progress| db.verify_with(progress))?;
    let [segments, rows] = [report.segments, report.rows].map(HumanCount);
    let [bytes, of_log] = [report.bytes, db.stats()?.wal_bytes].map(HumanBytes);
    let noun = if report.segments == 1 { "segment" } else { "segments" };
    print_line(&format!(
        "checked {segments} {noun} with {rows} stored rows (named snapshots included), {bytes}; log {of_log}"
    ))?;
    for fault in &report.faults {
        print_line(&format!("damaged: {fault}"))?;
    }
    if report.faults.is_empty() {
        return Ok(0);
    }
    print_line("restore the database from an undamaged backup")?;
    Ok(NO)
}

pub fn compact(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(database, interrupt)?;
    let bar = ProgressBar::new(0);
    bar.set_style(progress::style("{wide_bar} {percent} % of {human_len} rows, {eta} left"));
    progress::shown(&bar, |progress| db.compact_with(progress))?;
    Ok(db.close()?)
}
