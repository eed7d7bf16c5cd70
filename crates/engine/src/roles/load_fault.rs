//! What goes wrong while a reader reads what the writer goes on changing.

use std::io;

use drillcore_format::ids::Lsn;
use drillcore_storage::error::StorageError;

use crate::error::{Error, ErrorKind};

/// An error of loading, and whether the writer may have caused it by moving on.
pub struct LoadFault {
    pub error: Error,
    pub may_pass: bool,
}

impl LoadFault {
    pub fn of_newer_segments(lsn: Lsn) -> LoadFault {
        let message = format!("commit {lsn} erased rows of segments made meanwhile");
        LoadFault { error: Error::new(ErrorKind::Io, message), may_pass: true }
    }

    pub fn of_changed_columns() -> LoadFault {
        let message = "columns were dropped or widened meanwhile";
        LoadFault { error: Error::new(ErrorKind::Io, message), may_pass: true }
    }

    pub fn of_added_column(lsn: Lsn, table: &str) -> LoadFault {
        let message = format!("commit {lsn} has a column added to {table:?} meanwhile");
        LoadFault { error: Error::new(ErrorKind::Io, message), may_pass: true }
    }
}

impl From<StorageError> for LoadFault {
    fn from(error: StorageError) -> LoadFault {
        let may_pass = match &error {
            StorageError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            StorageError::Inconsistent { .. } | StorageError::Locked => true,
            _ => false,
        };
        LoadFault { error: error.into(), may_pass }
    }
}

impl From<Error> for LoadFault {
    fn from(error: Error) -> LoadFault {
        // Opening a segment reports a missing file as an error of the operating system.
        let may_pass = error.kind() == ErrorKind::Io;
        LoadFault { error, may_pass }
    }
}
