//! Opening a database that is there already.

use std::path::Path;

use drillcore::{Database, Interrupt, Options, ReadOptions, Snapshot};

use crate::process::fault::Fault;

/// Cached pages of a command that reads.
const CACHE_BYTES: u64 = 64 << 20;

/// The database, for writing. The interrupt stops the opening, and each call.
pub fn open(database: &Path, interrupt: &Interrupt) -> Result<Database, Fault> {
    let interrupt = interrupt.clone();
    Ok(Database::open(database, Options { create: false, interrupt, ..Options::default() })?)
}

/// The database as of now, beside the process that writes, if one does.
pub fn open_to_read(database: &Path, interrupt: &Interrupt) -> Result<Database, Fault> {
    Ok(reader(database, interrupt)?)
}

/// [`open_to_read`] with the engine's error.
pub fn reader(database: &Path, interrupt: &Interrupt) -> drillcore::Result<Database> {
    let options = ReadOptions {
        cache_bytes: CACHE_BYTES,
        interrupt: interrupt.clone(),
        ..ReadOptions::default()
    };
    Database::open_read_only(database, options)
}

/// All tables as of now, or as of a named snapshot.
pub fn moment(database: &Path, at: Option<&str>, interrupt: &Interrupt) -> Result<Snapshot, Fault> {
    let reader = open_to_read(database, interrupt)?;
    Ok(match at {
        None => reader.snapshot()?,
        Some(name) => reader.named_snapshot(name)?,
    })
}
