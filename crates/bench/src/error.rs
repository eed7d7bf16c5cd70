//! What can go wrong while measuring.

use std::io;
use std::path::{Path, PathBuf};

/// The result of a bench.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a bench ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine that is measured failed.
    #[error("drillcore: {0}")]
    Engine(#[from] drillcore::Error),
    /// SQLite failed.
    #[error("sqlite: {0}")]
    Peer(#[from] rusqlite::Error),
    /// A file could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The report could not be printed.
    #[error("cannot write to standard output: {0}")]
    Print(io::Error),
    /// Figures of answers that differ would say nothing.
    #[error("{bench}, {case}: {engine} answered {found}, expected {expected}")]
    Disagreement {
        /// The bench.
        bench: &'static str,
        /// Its case.
        case: String,
        /// Who answered.
        engine: &'static str,
        /// The answer.
        found: String,
        /// The answer of the others.
        expected: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }
}
