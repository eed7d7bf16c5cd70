//! Opening a database that is there already.

use std::path::Path;

use drillcore::{Database, Error, Options, Reader, Snapshot};

use crate::fault::Fault;

/// Cached pages of a command that reads.
const CACHE_BYTES: u64 = 64 << 20;

/// The database, for writing.
pub fn open(database: &Path) -> Result<Database, Fault> {
    Ok(Database::open(database, Options { create: false, ..Options::default() })?)
}

/// All tables as of now, read beside whoever writes; or as of a named snapshot, which only a process that
/// could write can open.
pub fn moment(database: &Path, at: Option<&str>) -> Result<Snapshot, Fault> {
    let Some(name) = at else { return Ok(Reader::open(database, CACHE_BYTES)?.snapshot()?) };
    let db = open(database).map_err(|fault| fault.at(&format!("--at {name}")))?;
    let names = db.snapshots()?;
    if names.iter().all(|(known, _)| known != name) {
        let known = names.iter().map(|(known, _)| known.as_str());
        return Err(Error::unknown("snapshot", name, known).into());
    }
    Ok(db.named_snapshot(name)?)
}
