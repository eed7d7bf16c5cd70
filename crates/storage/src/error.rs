//! What can go wrong with files.

use std::io;

use drillcore_format::error::FormatError;
use rustix::io::Errno;
use thiserror::Error;

/// A failed file operation or damaged bytes, with the file's name.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was being done, as a verb: "read", "sync".
        action: &'static str,
        /// The file's name in the directory of the database.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Which entries of the directory are durable is unknown, also of those that others made.
    #[error("cannot sync the directory of {file}: {source}")]
    FolderSync {
        /// The file whose name was to become durable.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Bytes of a file do not decode.
    #[error("{file}, at byte {offset}: {source}")]
    Damaged {
        /// The file's name in the directory of the database.
        file: String,
        /// Where the page, frame or header begins, in bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        source: FormatError,
    },
    /// Each part of a file decodes, but it contradicts another part, or another file.
    #[error("{file}: {detail}")]
    Inconsistent {
        /// The file's name in the directory of the database.
        file: String,
        /// What was found, and what it contradicts.
        detail: String,
    },
    /// Another process holds the lock for writing.
    #[error(
        "another process has this database open for writing; wait until it closes the database, or open it \
         read-only"
    )]
    Locked,
    /// Another handle of this process holds the lock for writing.
    #[error(
        "this process already has this database open for writing; use that handle, or close it first"
    )]
    LockedHere,
    /// A reader may not make the file that tells the writer what it reads.
    #[error(
        "cannot create a lease in the database directory: {source}; give the reader write permission on the \
         directory (with the sticky bit it can only remove its own files), or a copy of the database"
    )]
    LeaseDenied {
        /// What the operating system said.
        source: io::Error,
    },
    /// Nothing was written.
    #[error("{file} needs {needed} more bytes, but the disk has {free} free")]
    NoRoom {
        /// The file that was to be written.
        file: String,
        /// Bytes that it would take, with some to spare.
        needed: u64,
        /// Bytes that the file system has free.
        free: u64,
    },
    /// An earlier write failed, so what the file holds is unknown and nothing more may follow it.
    #[error("the log is closed for writing after an earlier failure: {first}; reopen the database")]
    LogFailed {
        /// The message of that earlier failure.
        first: String,
    },
}

/// What the system had too little of, so that the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Room on the disk, or within a quota.
    Room,
    /// File descriptors, of the process or of the system.
    Descriptors,
}

impl Lack {
    /// What was lacking, if that is what an error of the operating system says.
    pub fn of(error: &io::Error) -> Option<Lack> {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Some(Lack::Room),
            Some(Errno::MFILE | Errno::NFILE) => Some(Lack::Descriptors),
            _ if error.kind() == io::ErrorKind::StorageFull => Some(Lack::Room),
            _ => None,
        }
    }
}

impl StorageError {
    /// What an operation on a file lacked, if that is why it failed.
    pub fn lack(&self) -> Option<Lack> {
        match self {
            StorageError::Io { source, .. } => Lack::of(source),
            StorageError::NoRoom { .. } => Some(Lack::Room),
            _ => None,
        }
    }
}

/// An error once more, for others who wait for the same operation. One of the operating system stays what it was;
/// another one keeps its kind and its message.
pub(crate) fn same_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl Clone for StorageError {
    fn clone(&self) -> StorageError {
        match self {
            StorageError::Io { action, file, source } => {
                StorageError::Io { action, file: file.clone(), source: same_error(source) }
            }
            StorageError::FolderSync { file, source } => {
                StorageError::FolderSync { file: file.clone(), source: same_error(source) }
            }
            StorageError::Damaged { file, offset, source } => StorageError::Damaged {
                file: file.clone(),
                offset: *offset,
                source: source.clone(),
            },
            StorageError::Inconsistent { file, detail } => {
                StorageError::Inconsistent { file: file.clone(), detail: detail.clone() }
            }
            StorageError::Locked => StorageError::Locked,
            StorageError::LockedHere => StorageError::LockedHere,
            StorageError::LeaseDenied { source } => {
                StorageError::LeaseDenied { source: same_error(source) }
            }
            StorageError::NoRoom { file, needed, free } => {
                StorageError::NoRoom { file: file.clone(), needed: *needed, free: *free }
            }
            StorageError::LogFailed { first } => StorageError::LogFailed { first: first.clone() },
        }
    }
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
