//! The directory of a backup: what is put into it, and what makes it one.
//!
//! A backup is a database whose manifest says what it is a backup of. Its manifest is written last, so a new backup
//! is none until it is whole, and an earlier one stays what it is until the next has taken its place. Nothing in it
//! is ever changed: files come and go.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drillcore_format::ids::Lsn;
use drillcore_format::manifest_edit::BackupMark;
use drillcore_storage::error::Lack;
use drillcore_storage::files::directory::{Directory, Lock};
use drillcore_storage::files::lease::{DeferredRemovals, ManifestVersion};
use drillcore_storage::files::links::{Stored, copy_as, is_same, is_shared, store};
use drillcore_storage::files::local_directory::LocalDirectory;
use drillcore_storage::log::log_files::is_log_file;
use drillcore_storage::log::recovery::write_log;
use drillcore_storage::manifest::{self, Manifest, ManifestFound, ManifestState};
use drillcore_storage::pages::paged_file::file_of;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};

/// The file whose lock is held by what writes into the directory.
const LOCK_FILE: &str = "LOCK";
/// What the name of a directory ends in until it is whole.
const UNFINISHED: &str = ".unfinished";
const NO_BACKUP: &str = "exists and is not a backup";

/// What a backup, or a restored database, is made of.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("flights.backup");
/// let backup = flights.database().backup(&path, false)?;
/// println!("{} files, of which {} are new", backup.files, backup.new_files);
/// assert_eq!(flights.database().backup(&path, false)?.new_files, 0);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BackupResult {
    /// The newest commit in it.
    pub lsn: Lsn,
    /// The files of rows in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were not there before.
    pub new_files: u64,
    /// Of the new ones, the bytes of those that the two databases share.
    pub linked_bytes: u64,
    /// Of the new ones, the bytes of those that were copied.
    pub copied_bytes: u64,
}

/// What is to be stored.
pub struct Contents<'a> {
    pub source: &'a dyn Directory,
    pub state: ManifestState,
    /// Segments and postings, by name and length.
    pub files: Vec<(String, u64)>,
    /// The commits that the segments lack.
    pub log: Vec<(Lsn, Vec<u8>)>,
    pub lsn: Lsn,
}

/// A directory that is locked for being written into.
pub struct BackupTarget {
    directory: Arc<dyn Directory>,
    earlier: Option<ManifestFound>,
    /// Set until it is whole, if it is new.
    beside: Option<Beside>,
    _lock: Box<dyn Lock>,
}

/// A new directory that is not whole. It goes when dropped.
struct Beside {
    folder: PathBuf,
    /// Where it is to lie once it is whole.
    path: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It is locked, and holds nothing of others. What stays is taken over by the next call for this path.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl BackupTarget {
    /// The backup that there is at a path, or a new directory for one.
    ///
    /// # Errors
    /// `AlreadyExists` if there is something else, or what was a backup until it was opened for writing; `Locked`.
    pub fn of_backup(path: &Path) -> Result<BackupTarget> {
        if fs::symlink_metadata(path).is_err() {
            return BackupTarget::new(path);
        }
        let shown = path.display();
        let exists = |what: &str| {
            let message = format!("{shown} {what}; give a path where there is nothing yet");
            Error::new(ErrorKind::AlreadyExists, message)
        };
        let found = path.is_dir().then(|| LocalDirectory::open(path)).transpose();
        let found = found.map_err(|error| Error::cannot_open(path, error))?;
        let Some(directory) = found else { return Err(exists(NO_BACKUP)) };
        if !manifest::exists(&directory)? {
            return Err(exists(NO_BACKUP));
        }
        BackupTarget::in_backup(Arc::new(directory)).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&error.to_string()),
            _ => error,
        })
    }

    /// A backup in any directory, to be replaced by a later one; or a directory with nothing, or with what a call left that
    /// did not get to its end.
    pub fn in_backup(directory: Arc<dyn Directory>) -> Result<BackupTarget> {
        let refused = |what: &str| Error::new(ErrorKind::AlreadyExists, what);
        if !manifest::exists(directory.as_ref())? {
            return BackupTarget::emptied(directory);
        }
        let found = Manifest::read(directory.as_ref())?;
        match found.state.backup {
            None => return Err(refused("is a database and not a backup")),
            Some(BackupMark { was_opened: true, .. }) => {
                return Err(refused(
                    "was opened for writing since it was made, and is a database of its own now",
                ));
            }
            Some(_) => {}
        }
        let target = BackupTarget::locked(directory)?;
        // Who had the lock may have changed it.
        let earlier = Manifest::read(target.directory.as_ref())?;
        match earlier.state.backup {
            Some(mark) if !mark.was_opened => Ok(BackupTarget { earlier: Some(earlier), ..target }),
            _ => Err(refused("was opened for writing since it was made")),
        }
    }

    /// A new directory, which gets its name once it is whole.
    ///
    /// # Errors
    /// `AlreadyExists` if there is something at the path, `Locked` while another call makes it.
    pub fn new(path: &Path) -> Result<BackupTarget> {
        if fs::symlink_metadata(path).is_ok() {
            let message = format!("{} already exists; give a new path", path.display());
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let Some(name) = path.file_name() else {
            let message = format!(
                "{:?} is not the path of a directory; give one that ends in a name",
                path.display()
            );
            return Err(Error::invalid(message));
        };
        // Who removes the database should not lose its backups.
        let parent = path.parent().map(LocalDirectory::open);
        if let Some(Ok(parent)) = &parent
            && manifest::exists(parent)?
        {
            return Err(Error::invalid(format!(
                "{:?} lies in the directory of a database; give a path outside of it",
                path.display()
            )));
        }
        let mut unfinished = name.to_os_string();
        unfinished.push(UNFINISHED);
        let beside = path.with_file_name(unfinished);
        let directory =
            LocalDirectory::create(&beside).map_err(|error| Error::cannot_open(&beside, error))?;
        let target = BackupTarget::emptied(Arc::new(directory)).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let (folder, path) = (beside.display(), path.display());
                let message = format!(
                    "cannot create {path}: {folder} exists and {error}; move {folder} away, or give another path"
                );
                Error::new(ErrorKind::AlreadyExists, message)
            }
            _ => error,
        })?;
        let beside = Beside { folder: beside, path: path.to_path_buf() };
        Ok(BackupTarget { beside: Some(beside), ..target })
    }

    /// A directory that holds nothing but what this module makes, which goes.
    fn emptied(directory: Arc<dyn Directory>) -> Result<BackupTarget> {
        let target = BackupTarget::locked(directory)?;
        let names = list(target.directory.as_ref())?;
        if let Some(name) = names.iter().find(|name| !is_ours(name)) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("it has {name}")));
        }
        for name in names.iter().filter(|name| *name != LOCK_FILE) {
            target.directory.remove(name).map_err(|error| stored_io(name, error))?;
        }
        Ok(target)
    }

    fn locked(directory: Arc<dyn Directory>) -> Result<BackupTarget> {
        let lock = directory
            .lock(LOCK_FILE)
            .map_err(|error| Error::io("cannot lock the backup", error))?;
        let Some(lock) = lock else {
            let message = "another call writes to this directory, or has it open for writing; wait until it ends";
            return Err(Error::new(ErrorKind::Locked, message));
        };
        Ok(BackupTarget { directory, earlier: None, beside: None, _lock: lock })
    }

    /// The number of the database that the earlier backup is of.
    pub fn backup_of(&self) -> Option<u128> {
        self.earlier.as_ref()?.state.backup.map(|mark| mark.database)
    }

    /// Puts everything there, in the place of what there was. What is there then is on stable storage.
    ///
    /// # Errors
    /// `StorageFull`, `Io`, `Interrupted`; `Corrupt` if a file has not the length that the manifest says. What was there is
    /// there still.
    pub fn fill(
        mut self,
        contents: &Contents<'_>,
        copy: bool,
        interrupt: &Interrupt,
    ) -> Result<BackupResult> {
        let directory = self.directory.as_ref();
        let mut result = BackupResult { lsn: contents.lsn, ..BackupResult::default() };
        let before = self.earlier.as_ref().map(|earlier| file_names(&earlier.state));
        let before = before.unwrap_or_default();
        let present: BTreeSet<String> = list(directory)?.into_iter().collect();
        for (name, bytes) in &contents.files {
            interrupt.check()?;
            check_length(contents.source, name, *bytes)?;
            (result.files, result.bytes) = (result.files + 1, result.bytes + bytes);
            let stored = match before.contains(name) && present.contains(name) {
                true => self.keep(contents.source, name, copy, interrupt)?,
                false => {
                    if present.contains(name) {
                        directory.remove(name).map_err(|error| stored_io(name, error))?;
                    }
                    let go_on = || interrupt.check().map_err(io::Error::other);
                    let stored = store(contents.source, name, directory, copy, &go_on);
                    Some(stored.map_err(|error| not_stored(name, error, interrupt))?)
                }
            };
            match stored {
                None => continue,
                Some(Stored::Linked) => result.linked_bytes += bytes,
                Some(Stored::Copied) => result.copied_bytes += bytes,
            }
            result.new_files += 1;
        }
        interrupt.check()?;
        let log: Vec<(Lsn, &[u8])> =
            contents.log.iter().map(|(lsn, payload)| (*lsn, payload.as_slice())).collect();
        write_log(directory, 1, &log).map_err(without_lack)?;
        directory.sync().map_err(|error| stored_io("the directory", error))?;
        let number = self.earlier.as_ref().map_or(1, |earlier| earlier.version.file + 1);
        let mut manifest = Manifest::begin(self.directory.clone(), number, &contents.state)
            .map_err(without_lack)?;
        manifest.close();
        self.remove_others(&contents.files, manifest.version(), present);
        if let Some(Beside { folder, path }) = &self.beside {
            let shown = path.display().to_string();
            fs::rename(folder, path).map_err(|error| stored_io(&shown, error))?;
            sync_parent(path).map_err(|error| stored_io(&shown, error))?;
        }
        // There is nothing under its first name any more.
        self.beside = None;
        Ok(result)
    }

    /// What becomes of a file that the earlier backup has, too.
    fn keep(
        &self,
        source: &dyn Directory,
        name: &str,
        copy: bool,
        interrupt: &Interrupt,
    ) -> Result<Option<Stored>> {
        let directory = self.directory.as_ref();
        let io = |error| stored_io(name, error);
        if !is_same(source, directory, name).map_err(io)? {
            return Err(Error::invalid(format!(
                "{name} of the backup differs from that of the database: it is a backup of another copy of the \
                 database, or one of them is damaged; give a new path, and verify both"
            )));
        }
        if !copy || !is_shared(source, directory, name).map_err(io)? {
            return Ok(None);
        }
        let fresh = format!("{name}.new");
        let _ = directory.remove(&fresh);
        let go_on = || interrupt.check().map_err(io::Error::other);
        copy_as(source, name, directory, &fresh, &go_on)
            .and_then(|()| directory.rename(&fresh, name))
            .map_err(|error| not_stored(name, error, interrupt))?;
        Ok(Some(Stored::Copied))
    }

    /// Removes what only the earlier backup needed, once its readers have gone. Files that stay are tried again by the
    /// next backup.
    fn remove_others(
        &self,
        files: &[(String, u64)],
        version: ManifestVersion,
        present: BTreeSet<String>,
    ) {
        let needed: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
        let removals = DeferredRemovals::new(self.directory.clone());
        for name in present {
            let is_paged = file_of(name.trim_end_matches(".new")).is_some();
            let is_manifest = name.starts_with("manifest-");
            if is_manifest || (is_paged || is_log_file(&name)) && !needed.contains(&name) {
                removals.defer(name, 0, version);
            }
        }
        removals.sweep();
    }
}

/// Refuses a file that was cut, or grew: it would make a backup that cannot be opened.
fn check_length(source: &dyn Directory, name: &str, bytes: u64) -> Result<()> {
    let found = source.open(name).and_then(|file| file.byte_len());
    let found = found.map_err(|error| Error::io(format_args!("cannot open {name}"), error))?;
    if found != bytes {
        let found = format!("{name} has {found} bytes, not the {bytes} of the manifest");
        return Err(Error::damaged(found));
    }
    Ok(())
}

/// The files that a manifest names.
pub fn file_names(state: &ManifestState) -> BTreeSet<String> {
    use drillcore_storage::postings::set_postings::SetPostings;
    use drillcore_storage::segments::segment::Segment;
    let postings = state.postings.values().map(|postings| SetPostings::file_name(postings.file));
    state.segments().map(Segment::file_name).chain(postings).collect()
}

fn list(directory: &dyn Directory) -> Result<Vec<String>> {
    directory.list().map_err(|error| Error::io("cannot list the directory of the backup", error))
}

/// Whether a name is one that this module gives.
fn is_ours(name: &str) -> bool {
    let whole = name.trim_end_matches(".new");
    whole == LOCK_FILE
        || file_of(whole).is_some()
        || is_log_file(whole)
        || whole.starts_with("manifest-")
}

fn not_stored(name: &str, error: io::Error, interrupt: &Interrupt) -> Error {
    match interrupt.check() {
        Err(interrupted) => interrupted,
        Ok(()) => stored_io(name, error),
    }
}

fn stored_io(name: &str, error: io::Error) -> Error {
    match Lack::of(&error) {
        Some(lack) => Error::lacking(lack, format_args!("cannot store {name}: {error}")),
        None => Error::io(format_args!("cannot store {name}"), error),
    }
}

/// An error of the new directory, which says nothing of the database.
fn without_lack(error: drillcore_storage::error::StorageError) -> Error {
    let error = Error::from(error);
    error.if_lacking().unwrap_or_else(|error| error)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
