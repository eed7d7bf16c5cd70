//! Erasures of a table: commits that erase rows, until all pieces of the table know of them.
//!
//! An erasure has its place among the commits like any other, and snapshots from there on do not show the rows. What it
//! erases of each piece is found before. A job that began before it makes a piece that does not know of it, so the question
//! is kept, and asked of that piece, too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;

use crate::pieces::piece::SortedArray;
use crate::select::selection::Question;

/// One commit that erases rows of a table.
pub struct Erasure {
    pub lsn: Lsn,
    pub question: Question,
    pub layout: Layout,
}

/// What is erased of pieces.
pub type Hidden = Vec<(SortedArray, OrdinalIntervals)>;

/// The erasures of one table that a snapshot or a job may not know of, oldest first.
#[derive(Default)]
pub struct Erasures {
    all: Vec<Arc<Erasure>>,
    /// Of those that the pieces do not know of yet, what they erase of the pieces that there were.
    unsettled: VecDeque<(Lsn, Hidden)>,
    /// The pieces know of those up to here.
    settled: Lsn,
}

impl Erasures {
    /// Adds the newest.
    pub fn publish(&mut self, erasure: Erasure, hidden: Hidden) {
        self.unsettled.push_back((erasure.lsn, hidden));
        self.all.push(Arc::new(erasure));
    }

    /// The newest that the pieces know of.
    pub fn settled(&self) -> Lsn {
        self.settled
    }

    /// The newest that is remembered.
    pub fn newest(&self) -> Option<Lsn> {
        self.all.last().map(|erasure| erasure.lsn)
    }

    /// The oldest that the pieces do not know of yet.
    pub fn first_unsettled(&self) -> Option<Lsn> {
        self.unsettled.front().map(|(lsn, _)| *lsn)
    }

    /// Those after `since` that the pieces know of.
    pub fn settled_since(&self, since: Lsn) -> Vec<Arc<Erasure>> {
        let is_newer = |lsn: Lsn| lsn > since && lsn <= self.settled;
        self.all.iter().filter(|erasure| is_newer(erasure.lsn)).cloned().collect()
    }

    /// The next one for the pieces to know of, if snapshots at `visible` show it.
    pub fn settle_next(&mut self, visible: Lsn) -> Option<(Lsn, Hidden)> {
        let next = match self.unsettled.front() {
            Some((lsn, _)) if *lsn <= visible => self.unsettled.pop_front()?,
            _ => return None,
        };
        self.settled = next.0;
        Some(next)
    }

    /// Forgets those that the pieces know of, once no job is under way that began before.
    pub fn forget_settled(&mut self) {
        self.all.retain(|erasure| erasure.lsn > self.settled);
    }

    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Erased rows of segments that the manifest does not name yet.
#[derive(Default)]
pub struct Unnoted {
    segments: BTreeMap<SegmentId, OrdinalIntervals>,
    /// The oldest commit that erased some of them.
    since: Option<Lsn>,
}

impl Unnoted {
    /// Adds rows that the commit `lsn` erased.
    pub fn add(&mut self, segment: SegmentId, ordinals: &OrdinalIntervals, lsn: Lsn) {
        let known = self.segments.entry(segment).or_default();
        *known = known.union(ordinals);
        self.since = Some(self.since.map_or(lsn, |since| since.min(lsn)));
    }

    /// Forgets segments that left their table.
    pub fn forget(&mut self, segments: impl IntoIterator<Item = SegmentId>) {
        for segment in segments {
            self.segments.remove(&segment);
        }
        if self.segments.is_empty() {
            self.since = None;
        }
    }

    /// Adds back what was taken.
    pub fn put_back(&mut self, taken: Unnoted) {
        let Some(since) = taken.since else { return };
        taken.segments.iter().for_each(|(id, ordinals)| self.add(*id, ordinals, since));
    }

    /// The segments and what was erased of them.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentId, OrdinalIntervals)> + '_ {
        self.segments.iter().map(|(id, ordinals)| (*id, ordinals.clone()))
    }

    /// The oldest commit that erased some of the rows; `None` if there are none.
    pub fn since(&self) -> Option<Lsn> {
        self.since
    }
}
