//! What became of the calls that were made with an input.

use std::fmt::Display;

use drillcore::{Error, ErrorKind};
use drillcore_format::error::FormatError;
use drillcore_storage::error::StorageError;

/// How many calls gave an answer, and how many an error.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many calls gave an answer.
    pub answered: u64,
    /// How many gave an error.
    pub refused: u64,
    /// What the first refusal said.
    pub first_refusal: Option<String>,
}

/// An error that damaged bytes may cause.
pub trait OfDamage: Display {
    /// Whether it is one that they may cause: it calls neither the caller nor the disk to account.
    fn is_of_damage(&self) -> bool;
}

impl OfDamage for FormatError {
    fn is_of_damage(&self) -> bool {
        true
    }
}

impl OfDamage for StorageError {
    fn is_of_damage(&self) -> bool {
        matches!(self, StorageError::Damaged { .. } | StorageError::Inconsistent { .. })
    }
}

impl OfDamage for Error {
    fn is_of_damage(&self) -> bool {
        match self.kind() {
            // Rows may be fewer than their number says, and sums as large as they like.
            ErrorKind::Corrupt
            | ErrorKind::Unsupported
            | ErrorKind::OutOfRange
            | ErrorKind::TooFewRows => true,
            // Maintenance came upon the damage first, and later calls report that error.
            ErrorKind::ReadOnly => !self.to_string().contains("panicked"),
            // A file that is named and not there.
            ErrorKind::Io => self.to_string().contains("cannot open"),
            _ => false,
        }
    }
}

impl Outcome {
    /// Counts a call, and gives its answer if there is one.
    ///
    /// # Panics
    /// If it failed for another reason than damaged bytes.
    pub fn note<T, E: OfDamage>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(answer) => {
                self.answered += 1;
                Some(answer)
            }
            Err(error) => {
                assert!(error.is_of_damage(), "not an error of damaged bytes: {error}");
                self.refused += 1;
                self.first_refusal.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }
}
