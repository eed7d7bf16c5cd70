//! What can go wrong with files.

use std::io;

use drillcore_format::error::FormatError;
use thiserror::Error;

/// A failed file operation or damaged bytes, with the file's name.
#[derive(Debug, Error)]
pub enum StorageError {
    #[error("cannot {action} {file}: {source}")]
    Io { action: &'static str, file: String, source: io::Error },
    #[error("{file}, at byte {offset}: {source}")]
    Damaged { file: String, offset: u64, source: FormatError },
    #[error("{file}: {detail}")]
    Inconsistent { file: String, detail: String },
    #[error(
        "another process has this database open for writing; wait for it to close the database, or open it \
         for reading only"
    )]
    Locked,
    #[error(
        "this process has this database open for writing already; use that handle, or close it first"
    )]
    LockedHere,
    /// A reader may not make the file that tells the writer what it reads.
    #[error(
        "cannot leave a lease in the database folder: {source}; a reader needs write permission on the folder \
         (with the sticky bit it can remove nothing else there), or a copy of the database"
    )]
    LeaseDenied { source: io::Error },
    /// An earlier write failed, so what the file holds is unknown and nothing more may follow it.
    #[error("the log is closed for writing since an earlier failure: {first}")]
    LogFailed { first: String },
}

/// A result whose error is about files.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Adds what was being done, and to which file, to an error of the operating system.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, file: &str) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, file: &str) -> Result<T> {
        self.map_err(|source| StorageError::Io { action, file: file.to_string(), source })
    }
}
