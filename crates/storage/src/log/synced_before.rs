//! How far a log is known to be on stable storage.

use drillcore_format::ids::Lsn;

use crate::error::{IoContext, Result};
use crate::files::directory::{Directory, read_file};
use crate::log::log_files::{frames_of, next_commit};

/// The commit before which all of a log was synced, as far as its newest file tells: by the highest mark in it, or
/// because it was begun. `files` are the log's, oldest first.
///
/// Reads the newest file.
pub fn synced_before(directory: &dyn Directory, files: &[(Lsn, String)]) -> Result<Lsn> {
    let Some((first, name)) = files.last() else { return Ok(Lsn(0)) };
    // What is before the file before it was synced; the oldest of all follows on segments.
    let by_name = files.len().checked_sub(2).map_or(*first, |before| files[before].0);
    let bytes = read_file(directory, name).context("read", name)?;
    let mut frames = frames_of(name, *first, &bytes)?;
    while next_commit(name, 0, None, &mut frames)?.is_some() {}
    Ok(by_name.max(Lsn(frames.synced_before())))
}
