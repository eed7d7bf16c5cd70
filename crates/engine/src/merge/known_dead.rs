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
                && pieces[newer].run().is_none()
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
        let mut kept = 0;
        for at in 0..places.len() {
            let place = places[at];
            places[kept] = place;
            kept += usize::from(!self.is_dead(place));
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
