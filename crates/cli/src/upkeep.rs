//! `drillcore stats`, `verify` and `compact`.

use std::path::Path;
use std::time::Duration;

use drillcore::Interrupt;
use indicatif::{HumanBytes, ProgressBar};

use crate::fault::{Fault, NO};
use crate::opening::{open, open_to_read};
use crate::output::print_line;
use crate::progress;

/// How often what has no measure shows that it goes on.
const TICK: Duration = Duration::from_millis(100);

pub fn stats(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    print_line(&open_to_read(database, interrupt)?.stats()?.to_json())
}

/// Checks every segment; `NO` if one is damaged.
pub fn verify(database: &Path, interrupt: &Interrupt) -> Result<u8, Fault> {
    let db = open_to_read(database, interrupt)?;
    let bytes = db.stats()?.tables.iter().map(|table| table.segment_bytes).sum();
    let bar = ProgressBar::new(bytes);
    bar.set_style(progress::style("{wide_bar} {bytes} of {total_bytes}, {eta} left"));
    let report = db.verify_with(|done| bar.set_position(done.bytes));
    bar.finish_and_clear();
    let report = report?;
    let (segments, rows, bytes) = (report.segments, report.rows, report.bytes);
    print_line(&format!("{segments} segments, {rows} rows, {bytes} bytes"))?;
    for fault in &report.faults {
        print_line(&format!("damaged: {fault}"))?;
    }
    Ok(if report.faults.is_empty() { 0 } else { NO })
}

pub fn compact(database: &Path, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = open(database, interrupt)?;
    let bar = ProgressBar::new_spinner();
    bar.set_style(progress::style("{spinner} merging {msg}, {elapsed}"));
    let stored = db.stats()?.tables.iter().map(|table| table.segment_bytes).sum();
    bar.set_message(HumanBytes(stored).to_string());
    bar.enable_steady_tick(TICK);
    let compacted = db.compact();
    bar.finish_and_clear();
    compacted?;
    Ok(db.close()?)
}
