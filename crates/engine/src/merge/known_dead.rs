//! What is known of which rows of a table are dead at one commit, and what has to be looked for.

use std::sync::OnceLock;

use drillcore_format::ids::Lsn;
use drillcore_format::rows::Layout;

use crate::pieces::liveness::Liveness;
use crate::pieces::piece::Piece;
use crate::policy::table_policy::TablePolicy;
use crate::select::selection::Place;

/// Of more pieces it is not listed which hold keys that may be in which others: that takes as many looks as there are pairs.
const LISTED_MAX: usize = 512;

/// Steps that it takes to see whether a row that was drawn is a tombstone, in a run or where that is known, ...
const READ_STEPS: u64 = 1;
/// ... in a segment, of which a block is decoded, ...
const BLOCK_STEPS: u64 = 64;
/// ... and to look for its key in a newer piece, by the measure of what is found out of whole pieces.
const LOOKUP_STEPS: u64 = 2;

/// What is known of the pieces of a table whose keys fold, oldest first.
pub struct KnownDead {
    of: Vec<Option<Liveness>>,
    /// In what was committed up to there nothing newer than the rows of each piece is left to be found.
    through: Vec<Lsn>,
    pending: Option<Pending>,
    /// What it takes to look for that, once asked for.
    pub steps: OnceLock<u64>,
}

/// What is left to be looked for.
#[derive(Debug, Default)]
pub struct Pending {
    /// Each piece whose keys may be in older ones, with these.
    pub keys: Vec<(usize, Vec<usize>)>,
    /// Pieces on disk of which it is not known which rows are tombstones.
    pub tombstones: Vec<usize>,
}

impl KnownDead {
    /// What the pieces know at a commit, `is_kept` unless nothing is noted with them.
    pub fn of(layout: &Layout, pieces: &[Piece], lsn: Lsn, is_kept: bool) -> KnownDead {
        let known = |piece: &Piece| piece.liveness.at(lsn).filter(|_| is_kept);
        let of: Vec<Option<Liveness>> = pieces.iter().map(known).collect();
        // Nothing in a piece is replaced by what was committed before its first row.
        let own = |piece: &Piece| Lsn(piece.lsns().first.0.saturating_sub(1));
        let through = pieces.iter().zip(&of).map(|(piece, known)| {
            known.as_ref().map_or_else(|| own(piece), |known| known.through.max(own(piece)))
        });
        let (through, steps) = (through.collect(), OnceLock::new());
        let mut dead = KnownDead { through, of, pending: None, steps };
        dead.pending = (pieces.len() <= LISTED_MAX).then(|| dead.list_pending(layout, pieces));
        dead
    }

    /// All that there is to know.
    pub fn complete(found: Vec<Liveness>) -> KnownDead {
        let through = found.iter().map(|found| found.through).collect();
        let of = found.into_iter().map(Some).collect();
        KnownDead { of, through, pending: Some(Pending::default()), steps: OnceLock::new() }
    }

    /// Of a table in which no newer row takes the place of an older one.
    pub fn none() -> KnownDead {
        KnownDead::complete(Vec::new())
    }

    /// Reads nothing. Of a piece that all older ones know O(1), of another O(pieces).
    fn list_pending(&self, layout: &Layout, pieces: &[Piece]) -> Pending {
        let mut pending = Pending::default();
        let ends: Vec<_> = pieces.iter().map(Piece::key_ends).collect();
        // Up to there all older pieces know.
        let mut all_know = Lsn(u64::MAX);
        for newer in 0..pieces.len() {
            let may_have = |&older: &usize| {
                self.is_pending(pieces, older, newer) && overlap(ends[older], ends[newer])
            };
            let is_known = pieces[newer].lsns().last <= all_know;
            let looked_at = if is_known { 0..0 } else { 0..newer };
            let older: Vec<usize> = looked_at.filter(may_have).collect();
            all_know = all_know.min(self.through[newer]);
            if !older.is_empty() {
                pending.keys.push((newer, older));
            }
            if self.of[newer].is_none()
                && TablePolicy::of(layout).deletes()
                && !pieces[newer].is_of_run()
            {
                pending.tombstones.push(newer);
            }
        }
        pending
    }

    /// What is known of one piece.
    pub fn of_piece(&self, piece: usize) -> Option<&Liveness> {
        self.of[piece].as_ref()
    }

    /// Whether it is known that a row is dead.
    #[inline]
    pub fn is_dead(&self, place: Place) -> bool {
        let known = self.of.get(place.piece as usize).and_then(Option::as_ref);
        known.is_some_and(|known| !known.alive.contains(place.ordinal))
    }

    /// Leaves of some places those that are not known to be dead. Without a branch, as no processor guesses which are.
    pub fn retain_alive(&self, places: &mut Vec<Place>) {
        let known = self.of.iter().map(Option::as_ref);
        let alive: Vec<Option<&[u64]>> = known.map(|known| Some(known?.alive.words())).collect();
        let mut kept = 0;
        for at in 0..places.len() {
            let Place { piece, ordinal } = places[at];
            let alive = alive.get(piece as usize).copied().flatten();
            places[kept] = places[at];
            let is_alive = |words: &[u64]| words[ordinal as usize / 64] >> (ordinal % 64) & 1;
            kept += alive.map_or(1, is_alive) as usize;
        }
        places.truncate(kept);
    }

    /// Whether keys of an older piece have to be looked for in a newer one.
    #[inline]
    pub fn is_pending(&self, pieces: &[Piece], older: usize, newer: usize) -> bool {
        older < newer && pieces[newer].lsns().last > self.through[older]
    }

    /// What has to be looked for; `None` if that is not listed.
    pub fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// Steps that it takes to see whether a row that was drawn is alive, where not all dead rows are known.
    pub fn steps_per_draw(&self, pieces: &[Piece]) -> u64 {
        if self.is_complete(pieces) {
            return 0;
        }
        let newer = self.pending().map_or(pieces.len(), |of| of.keys.len());
        let reads_blocks = self.pending().is_none_or(|of| !of.tombstones.is_empty());
        let read_steps = if reads_blocks { BLOCK_STEPS } else { READ_STEPS };
        read_steps + newer as u64 * LOOKUP_STEPS
    }

    /// Whether all dead rows are known.
    pub fn is_complete(&self, pieces: &[Piece]) -> bool {
        let is_known = |(piece, known): (&Piece, &Option<Liveness>)| {
            known.is_some() || piece.run().is_some_and(|run| run.tombstones() == 0)
        };
        self.pending.as_ref().is_some_and(|pending| pending.keys.is_empty())
            && pieces.iter().zip(&self.of).all(is_known)
    }
}

/// Whether keys between the ends of one piece may be between those of another.
fn overlap((a_first, a_last): (&[u8], &[u8]), (b_first, b_last): (&[u8], &[u8])) -> bool {
    a_first <= b_last && b_first <= a_last
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::{Database, Merge, OnError, Options, TableSpec};

    /// As a compaction leaves it that began before it was known which rows are alive, and ended after.
    #[test]
    fn tombstones_that_are_not_known_cost_draws_steps_where_no_key_is_to_be_looked_for() {
        let ids = |of: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(of)) as ArrayRef;
        let rows = RecordBatch::try_from_iter([("id", ids(0..100))]).unwrap();
        let db = Database::in_memory(Options::default()).unwrap();
        let spec = TableSpec::new(rows.schema(), ["id"]).merge(Merge::Upsert);
        let table = db.create_table("t", spec).unwrap();
        table.append(&rows, OnError::Raise).unwrap();
        table.delete(&[ids(10..30)]).unwrap();
        let snapshot = table.snapshot().unwrap();
        let version = snapshot.table();
        let (layout, pieces) = (&version.layout, &version.pieces.now());
        let nothing = KnownDead::of(layout, pieces, version.lsn, false);
        assert_eq!(nothing.steps_per_draw(pieces), READ_STEPS + LOOKUP_STEPS);
        assert_eq!(snapshot.rows().unwrap(), 80);
        let mut known = KnownDead::of(layout, pieces, version.lsn, true);
        assert_eq!(known.steps_per_draw(pieces), 0);
        let newest = pieces.len() - 1;
        known.of[newest] = None;
        known.pending = Some(known.list_pending(layout, pieces));
        assert!(known.pending().unwrap().keys.is_empty());
        assert_eq!(known.steps_per_draw(pieces), READ_STEPS);
    }
}
