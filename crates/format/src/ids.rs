//! Names of things that outlive a process: tables, segments, positions in the commit order.

use std::fmt;

/// A table, unique within its database and never used again after a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// A segment file, unique within its database and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u64);

/// A commit's position in the order of all commits of a database: its log sequence number. The first commit has
/// LSN 1, so 0, the default, is before all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lsn(pub u64);

impl TableId {
    /// Files name tables below this one, and at most this one as the next. It lies beyond all that are ever given
    /// out, so that counting on from what a file names does not overflow.
    pub const MAX: TableId = TableId(u32::MAX >> 1);
}

impl SegmentId {
    /// Files name only those below, as with [`TableId::MAX`].
    pub const MAX: SegmentId = SegmentId(u64::MAX >> 1);
}

impl Lsn {
    /// Files name only those below, as with [`TableId::MAX`].
    pub const MAX: Lsn = Lsn(u64::MAX >> 1);
}

/// Commits from `first` to `last`. A run or a segment has rows of these only, and a segment perhaps not all rows of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LsnRange {
    /// The oldest of the commits.
    pub first: Lsn,
    /// The newest of them.
    pub last: Lsn,
}

impl LsnRange {
    /// The smallest interval that covers both.
    pub fn join(self, other: LsnRange) -> LsnRange {
        LsnRange { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

impl From<u64> for Lsn {
    fn from(number: u64) -> Lsn {
        Lsn(number)
    }
}

impl From<Lsn> for u64 {
    fn from(lsn: Lsn) -> u64 {
        lsn.0
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
