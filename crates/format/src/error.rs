//! What can be wrong with bytes.

use thiserror::Error;

/// Bytes that do not decode. The floor above adds the file and the offset.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum FormatError {
    /// The bytes are not the ones that were written.
    #[error("{what} has checksum {found:#010x}, expected {expected:#010x}")]
    Checksum { what: &'static str, found: u32, expected: u32 },
    /// The checksum holds, but the content breaks a rule of the format.
    #[error("{what} is malformed: {detail}")]
    Malformed { what: &'static str, detail: String },
    /// Written by another version.
    #[error("{what} has format version {found}; this build reads version {supported}")]
    Version { what: &'static str, found: u32, supported: u32 },
}

impl FormatError {
    /// Shorthand for [`FormatError::Malformed`].
    pub fn malformed(what: &'static str, detail: impl Into<String>) -> FormatError {
        FormatError::Malformed { what, detail: detail.into() }
    }
}

/// A result whose error is about bytes.
pub type Result<T> = std::result::Result<T, FormatError>;
