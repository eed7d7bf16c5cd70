//! What a moment that others hold is of: the manifest as it was, and perhaps a named snapshot.

use drillcore_format::ids::Lsn;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::lease::is_held;
use drillcore_storage::manifest::{Manifest, ManifestFound, ManifestState};

use crate::error::{Error, Result};
use crate::roles::load_fault::LoadFault;
use crate::state::moment::Moment;

/// The manifest at a moment that some reader holds, or that is now. A lease on everything is held.
pub fn manifest_at(
    directory: &dyn Directory,
    moment: &Moment,
) -> std::result::Result<ManifestFound, LoadFault> {
    let version = moment.manifest();
    let (found, now) = Manifest::read_at(directory, version)?;
    let identity = found.as_ref().and_then(|found| found.state.identity);
    if moment.database().zip(identity).is_some_and(|(asked, here)| asked != here) {
        return Err(moment.gone("there is another database in its directory now").into());
    }
    if version > now || version.file == 0 {
        let newest = Moment::of(now, Lsn(0))?.version();
        return Err(Error::invalid(format!(
            "{moment} does not belong to this database, whose newest version is {newest}; use a moment from one of its readers"
        ))
        .into());
    }
    // The writer may be removing the files of a moment that no reader holds.
    if version != now && !is_held(directory, version, moment.lsn())? {
        let why = "the database has changed since, and no reader holds it";
        return Err(moment.gone(why).into());
    }
    Ok(found.ok_or_else(|| moment.gone("its manifest was removed"))?)
}

/// The named snapshot that a moment is of; `None` where it is of the tables.
pub fn snapshot_of(moment: &Moment, found: &ManifestState) -> Result<Option<String>> {
    if let Some(name) = moment.snapshot() {
        return Ok(Some(name.to_string()));
    }
    let of_segments = found.tables.values().map(|table| table.flushed);
    let first = of_segments.chain([Lsn(found.next_lsn.0 - 1)]).max().unwrap_or_default();
    if moment.lsn() >= first {
        return Ok(None);
    }
    let mut named = found.snapshots.iter().filter(|(_, pinned)| pinned.lsn == moment.lsn());
    match named.next() {
        Some((name, _)) => Ok(Some(name.clone())),
        None => Err(Error::invalid(format!(
            "{moment} does not belong to this database: at that version its segments already have commits up to {first}; \
             use a moment from one of its readers"
        ))),
    }
}
