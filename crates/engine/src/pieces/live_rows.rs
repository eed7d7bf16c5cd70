//! The rows of a piece but some: those that are alive, or that were not erased.

use std::ops::Range;
use std::sync::Arc;

use crate::pieces::alive_rows::AliveRows;
use crate::pieces::erased_rows::ErasedRows;

/// Rows of one piece, numbered through in the order of their ordinals.
#[derive(Clone)]
pub enum LiveRows {
    /// All `rows` rows but those that were erased.
    Unerased { rows: u64, erased: Arc<ErasedRows> },
    /// In a table whose keys fold those that no newer row replaces.
    Alive(Arc<AliveRows>),
}

impl LiveRows {
    pub fn len(&self) -> u64 {
        match self {
            LiveRows::Unerased { rows, erased } => rows - u64::from(erased.len()),
            LiveRows::Alive(alive) => alive.len(),
        }
    }

    /// The ordinal of the row at a position. O(log rows).
    pub fn ordinal(&self, position: u64) -> u64 {
        match self {
            LiveRows::Unerased { erased, .. } => erased.outside(position),
            LiveRows::Alive(alive) => alive.ordinal(position),
        }
    }

    /// How many of the rows lie before an ordinal.
    pub fn rank(&self, ordinal: u64) -> u64 {
        match self {
            LiveRows::Unerased { erased, .. } => erased.live_before(ordinal),
            LiveRows::Alive(alive) => alive.rank(ordinal),
        }
    }

    /// Whether all rows of an interval are among them.
    pub fn are_all(&self, ordinals: &Range<u64>) -> bool {
        self.rank(ordinals.end) - self.rank(ordinals.start) == ordinals.end - ordinals.start
    }

    /// Appends the ordinals of those that lie in an interval.
    pub fn ordinals_in(&self, ordinals: Range<u64>, out: &mut Vec<u32>) {
        match self {
            LiveRows::Unerased { erased, .. } => {
                out.extend(erased.outside_in(ordinals).flatten().map(|ordinal| ordinal as u32));
            }
            LiveRows::Alive(alive) => alive.ordinals_in(ordinals, out),
        }
    }

    /// The smallest interval with all of them that lie in one; `None` if none does.
    pub fn trimmed(&self, ordinals: Range<u64>) -> Option<Range<u64>> {
        let (from, to) = (self.rank(ordinals.start), self.rank(ordinals.end));
        (from < to).then(|| self.ordinal(from)..self.ordinal(to - 1) + 1)
    }
}
