//! What can be wrong with bytes.

use thiserror::Error;

/// Bytes that do not decode. The floor above adds the file and the offset.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum FormatError {
    /// The bytes are not the ones that were written.
    #[error("{what} has checksum {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The part that was read, such as "block".
        what: &'static str,
        /// The checksum of the bytes that were read.
        found: u32,
        /// The checksum that was stored with them.
        expected: u32,
    },
    /// The checksum holds, but the content breaks a rule of the format.
    #[error("{what} is malformed: {detail}")]
    Malformed {
        /// The part that was read, such as "block".
        what: &'static str,
        /// The rule that is broken, with the values that break it.
        detail: String,
    },
    /// Written by another version.
    #[error("{what} has format version {found}; this build reads version {supported}")]
    Version {
        /// The part that was read, such as "block".
        what: &'static str,
        /// The version that it was written with.
        found: u32,
        /// The one version that this build reads.
        supported: u32,
    },
}

impl FormatError {
    /// Shorthand for [`FormatError::Malformed`].
    pub fn malformed(what: &'static str, detail: impl Into<String>) -> FormatError {
        FormatError::Malformed { what, detail: detail.into() }
    }
}

/// A result whose error is about bytes.
pub type Result<T> = std::result::Result<T, FormatError>;
