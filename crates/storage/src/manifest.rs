//! The manifest: which tables and segments make up the database, as a log of atomic edits.
//!
//! Opening folds the log into a [`ManifestState`] and starts a new file with that state as its first
//! frame, so the log stays short. A file gets its name once that frame is on stable storage, and the one before goes
//! once the name is: so the file with the highest number is the manifest, and an edit that was read from the
//! system's cache only, since its sync had failed, is durable before anything is built upon it.

mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use drillcore_format::frame::{FileHeader, FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::SegmentId;
use drillcore_format::manifest_edit::{Edit, decode_edits, encode_edits};

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, WriteFile, read_file};
use crate::files::lease::ManifestVersion;
use crate::files::whole_file::create_whole;

pub use state::{ManifestState, ManifestTable, PinnedSnapshot};

/// An edit is refused where it would leave less of the disk: a file system gives out whole blocks, and needs some
/// itself.
const SLACK_BYTES: u64 = 64 << 10;

/// Files of manifests by number and name, the oldest first.
pub type Files = Vec<(u64, String)>;

/// The manifest's file, open for further edits.
pub struct Manifest {
    directory: Arc<dyn Directory>,
    file: Box<dyn WriteFile>,
    name: String,
    number: u64,
    frames: FrameWriter,
    failure: Option<String>,
    identity: Option<u128>,
}

/// A manifest as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFound {
    /// What all edits up to `version` make.
    pub state: ManifestState,
    /// The last edit that was read.
    pub version: ManifestVersion,
    /// The length of the file then.
    pub bytes: u64,
}

/// Whether a directory holds a database.
pub fn exists(directory: &dyn Directory) -> Result<bool> {
    Ok(!manifest_files(directory)?.is_empty())
}

impl Manifest {
    /// Opens the manifest, or starts one in a directory without. Returns also the files that it replaces, by number and
    /// name, which the caller removes: a newer one is what counts. `fresh` is a random number that becomes the identity of
    /// a database that has none yet. Segments get numbers from `unused` on, at least: so those that lie there and that the
    /// manifest does not name are known to be of no account.
    pub fn open(
        directory: Arc<dyn Directory>,
        fresh: u128,
        unused: SegmentId,
    ) -> Result<(Manifest, ManifestState, Files)> {
        let files = manifest_files(directory.as_ref())?;
        let mut state = newest(directory.as_ref(), &files)?.state;
        state.identity.get_or_insert(fresh);
        state.next_segment = state.next_segment.max(unused);
        if let Some(backup) = &mut state.backup {
            backup.was_opened = true;
        }
        let number = match files.last() {
            None => 1,
            Some((last, name)) => last.checked_add(1).ok_or_else(|| {
                let (file, detail) =
                    (name.clone(), "no number is left for the next manifest file".into());
                StorageError::Inconsistent { file, detail }
            })?,
        };
        let manifest = Manifest::begin(directory, number, &state)?;
        Ok((manifest, state, files))
    }

    /// Starts the file of a number with what a state says. On stable storage, with its name, when this returns.
    pub fn begin(
        directory: Arc<dyn Directory>,
        number: u64,
        state: &ManifestState,
    ) -> Result<Manifest> {
        let name = file_name(number);
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        // Another one than those of the files before.
        let header = FileHeader { kind: LogKind::Manifest, nonce: number as u32 };
        header.put(&mut bytes);
        let mut frames = FrameWriter::new(header, 0, 0);
        encode_edits(&state.as_edits(), &mut payload);
        frames.put(&payload, &mut bytes);
        let file = create_whole(directory.as_ref(), &name, &bytes).context("create", &name)?;
        frames.note_synced();
        let identity = state.identity;
        Ok(Manifest { directory, file, name, number, frames, failure: None, identity })
    }

    /// The database's own number. Only a backup that was not opened has none.
    pub fn identity(&self) -> Option<u128> {
        self.identity
    }

    /// Reads the manifest without touching it; that of a directory without one is empty.
    ///
    /// A writer that starts meanwhile replaces the file: the error is then one of a missing file, and the
    /// caller tries again.
    pub fn read(directory: &dyn Directory) -> Result<ManifestFound> {
        newest(directory, &manifest_files(directory)?)
    }

    /// What the manifest said at an earlier version, or says now, and which version it has now. `None` if the file of the
    /// version is gone, or holds no such edit.
    pub fn read_at(
        directory: &dyn Directory,
        version: ManifestVersion,
    ) -> Result<(Option<ManifestFound>, ManifestVersion)> {
        let files = manifest_files(directory)?;
        let now = newest(directory, &files)?;
        if now.version == version {
            return Ok((Some(now), version));
        }
        let Some((number, name)) = files.iter().find(|(number, _)| *number == version.file) else {
            return Ok((None, now.version));
        };
        let found = read_state(directory, *number, name, version.edit)?;
        Ok((Some(found).filter(|found| found.version == version), now.version))
    }

    /// How long the file is now from which a version was read.
    pub fn byte_len(directory: &dyn Directory, version: ManifestVersion) -> Result<u64> {
        let name = file_name(version.file);
        directory.open(&name).and_then(|file| file.byte_len()).context("measure", &name)
    }

    /// The version that the last commit made.
    pub fn version(&self) -> ManifestVersion {
        ManifestVersion { file: self.number, edit: self.frames.next_sequence() - 1 }
    }

    /// Makes a list of edits durable, all or none. After a failure nothing more is accepted.
    ///
    /// # Errors
    /// `NoRoom` is no failure: then nothing was written. Any other error says nothing of what was
    /// [lacking](StorageError::lack), as the file may hold a part of it.
    pub fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(first) = &self.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        encode_edits(edits, &mut payload);
        let needed = payload.len() as u64 + SLACK_BYTES;
        if let Ok(Some(free)) = self.directory.free_bytes()
            && free < needed
        {
            return Err(StorageError::NoRoom { file: self.name.clone(), needed, free });
        }
        self.frames.put(&payload, &mut bytes);
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync());
        let written = written.map_err(|error| io::Error::other(error.to_string()));
        if let Err(error) = written.context("append to", &self.name) {
            self.failure = Some(error.to_string());
            return Err(error);
        }
        self.frames.note_synced();
        Ok(())
    }

    /// Notes behind the last edit that all of them are synced, so that nothing of them can be taken for the end of the
    /// manifest later.
    pub fn close(&mut self) {
        if self.failure.is_none() {
            let mut closing = Vec::new();
            self.frames.put_closing(&mut closing);
            // Without it the manifest says the same.
            let _ = self.file.write_all(&closing);
        }
    }

    /// The directory the database lives in.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }
}

fn file_name(number: u64) -> String {
    format!("manifest-{number:08}.log")
}

fn manifest_files(directory: &dyn Directory) -> Result<Files> {
    let names = directory.list().context("list", "the database directory")?;
    let number = |name: &str| name.strip_prefix("manifest-")?.strip_suffix(".log")?.parse().ok();
    let mut files: Files =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    files.sort_unstable();
    Ok(files)
}

/// What the newest file says.
fn newest(directory: &dyn Directory, files: &[(u64, String)]) -> Result<ManifestFound> {
    match files.last() {
        Some((number, name)) => read_state(directory, *number, name, u64::MAX),
        None => Ok(ManifestFound {
            state: ManifestState::empty(),
            version: ManifestVersion::EVERYTHING,
            bytes: 0,
        }),
    }
}

/// The state that a file's frames add up to, up to an edit.
fn read_state(
    directory: &dyn Directory,
    number: u64,
    name: &str,
    to: u64,
) -> Result<ManifestFound> {
    let bytes = read_file(directory, name).context("read", name)?;
    let damaged = |offset: usize, source| StorageError::Damaged {
        file: name.to_string(),
        offset: offset as u64,
        source,
    };
    let (_, mut frames) =
        FrameReader::new(&bytes, LogKind::Manifest, 0).map_err(|e| damaged(0, e))?;
    // The file got its name with the first one in it.
    frames.expect_synced(1);
    let inconsistent = |detail| StorageError::Inconsistent { file: name.to_string(), detail };
    let mut state = ManifestState::empty();
    let mut last = None;
    while last.is_none_or(|last| last < to) {
        let at = frames.at();
        // What a frame cut short would have said was never acknowledged.
        let Some(frame) = frames.next_frame().map_err(|e| damaged(at, e))? else { break };
        for edit in decode_edits(frame.payload).map_err(|e| damaged(at, e))? {
            state.apply(&edit).map_err(inconsistent)?;
        }
        last = Some(frame.sequence);
    }
    let Some(edit) = last else {
        let detail = "the manifest is cut off: it has no edit".to_string();
        return Err(StorageError::Inconsistent { file: name.to_string(), detail });
    };
    state.check().map_err(inconsistent)?;
    let version = ManifestVersion { file: number, edit };
    Ok(ManifestFound { state, version, bytes: bytes.len() as u64 })
}
