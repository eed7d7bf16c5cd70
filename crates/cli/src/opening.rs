//! Opening a database that is there already.

use std::path::Path;

use drillcore::{Database, Options, Reader, Snapshot};

use crate::fault::Fault;

/// Cached pages of a command that reads.
const CACHE_BYTES: u64 = 64 << 20;

/// The database, for writing.
pub fn open(database: &Path) -> Result<Database, Fault> {
    Ok(Database::open(database, Options { create: false, ..Options::default() })?)
}

/// The database as of now, beside whoever writes.
pub fn open_to_read(database: &Path) -> Result<Reader, Fault> {
    Ok(Reader::open(database, CACHE_BYTES)?)
}

/// All tables as of now, or as of a named snapshot.
pub fn moment(database: &Path, at: Option<&str>) -> Result<Snapshot, Fault> {
    let reader = open_to_read(database)?;
    Ok(match at {
        None => reader.snapshot()?,
        Some(name) => reader.named_snapshot(name)?,
    })
}
