//! What can go wrong while measuring.

use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("drillcore: {0}")]
    Engine(#[from] drillcore::Error),
    #[error("sqlite: {0}")]
    Peer(#[from] rusqlite::Error),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {0}")]
    Print(io::Error),
    /// Figures of answers that differ would say nothing.
    #[error("{bench}, {case}: {engine} answered {found}, expected {expected}")]
    Disagreement {
        bench: &'static str,
        case: String,
        engine: &'static str,
        found: String,
        expected: String,
    },
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }
}
