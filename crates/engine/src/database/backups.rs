//! Backing up a database, and making a new one of a backup.

use std::path::Path;
use std::sync::Arc;

use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::local_directory::LocalDirectory;

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::catalog::backup::{back_up, back_up_beside, restore as restore_into};
use crate::catalog::backup_target::{BackupResult, BackupTarget};
use crate::database::handles::{Database, Opened};
use crate::error::{Error, Result};
use crate::read::fresh_seed::fresh_seed;
use crate::roles::opening::database_path::check_path;

impl Database {
    /// Makes a backup: a copy of all tables at one commit, and of the named snapshots, beside writers, flushes and merges.
    /// It is on stable storage when the call returns. A backup can be opened for reading, and restored with
    /// [`restore`](crate::restore).
    ///
    /// Its files are hard links to those of the database where the file system can make them, so that it takes hardly
    /// any room or time; then a bit that flips on the disk flips in both. With `copy`, and on another file system, they
    /// are copied. If there is an earlier backup of this database at the path, only new files are stored, and the
    /// earlier backup is whole until the new one is.
    ///
    /// A reader backs up the newest complete commit, with what is in no segment yet as a log, and to a new path only.
    ///
    /// # Errors
    /// `AlreadyExists` if there is something else at the path, or what was a backup until it was opened for writing,
    /// `InvalidArgument` for a backup of another database, `Locked` while another call writes to it, `ReadOnly` of a reader
    /// if there is a backup already, `StorageFull`, `Closed`, `Io`. What was at the path is there still.
    pub fn backup(&self, path: impl AsRef<Path>, copy: bool) -> Result<BackupResult> {
        let path = path.as_ref().to_path_buf();
        check_path(&path)?;
        let of_target = path.clone();
        let done = self.back_up(copy, move || BackupTarget::of_backup(&of_target));
        done.map_err(|error| {
            error.during(format_args!("cannot back up to {}", path.display()), &path)
        })
    }

    /// [`Database::backup`] into any [`Directory`], which is empty or holds an earlier backup.
    pub fn backup_in(&self, directory: Arc<dyn Directory>, copy: bool) -> Result<BackupResult> {
        self.back_up(copy, move || BackupTarget::in_backup(directory))
    }

    fn back_up(
        &self,
        copy: bool,
        target: impl FnOnce() -> Result<BackupTarget> + Send + 'static,
    ) -> Result<BackupResult> {
        match &self.opened {
            Opened::Writing(_) => {
                let core = self.core()?.clone();
                aside(&self.interrupt, move |interrupt| back_up(&core, target()?, copy, interrupt))
            }
            Opened::Reading(reader) => {
                let source = reader.directory()?;
                aside(&self.interrupt, move |interrupt| {
                    back_up_beside(&source, target()?, copy, fresh_seed(), interrupt)
                })
            }
        }
    }
}

/// Makes a new database at `path` of a backup, which stays as it is. Their files are shared or copied as those of
/// [`Database::backup`]. What the backup holds is on stable storage when the call returns.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// # let folder = tempfile::tempdir().unwrap();
/// use drillcore::{Database, Interrupt, Options, restore};
///
/// let (backup, path) = (folder.path().join("flights.backup"), folder.path().join("again.drill"));
/// flights.database().backup(&backup, false)?;
/// restore(&backup, &path, false, &Interrupt::never())?;
/// let restored = Database::open(&path, Options::default())?;
/// assert_eq!(restored.table("flights")?.snapshot()?.rows()?, 100);
/// # drillcore::Result::Ok(())
/// ```
///
/// # Errors
/// `NotFound` if there is no backup, `InvalidArgument` if there is something else in its place or it was opened for
/// writing since, `AlreadyExists` if there is something at `path`, `StorageFull`, `Corrupt`, `Io`. Nothing is left at
/// `path`.
pub fn restore(
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    copy: bool,
    interrupt: &Interrupt,
) -> Result<BackupResult> {
    let (backup, path) = (backup.as_ref().to_path_buf(), path.as_ref().to_path_buf());
    check_path(&backup)?;
    check_path(&path)?;
    let (source, target) = (backup.clone(), path.clone());
    let done = aside(interrupt, move |interrupt| {
        let backup =
            LocalDirectory::open(&source).map_err(|error| Error::cannot_open(&source, error))?;
        let backup: Arc<dyn Directory> = Arc::new(backup);
        let target = BackupTarget::new(&target)?;
        restore_into(&backup, &source, target, copy, fresh_seed(), interrupt)
    });
    done.map_err(|error| match error.to_string().contains(&path.display().to_string()) {
        true => error,
        false => error.during(format_args!("cannot restore {}", backup.display()), &backup),
    })
}
