//! Lists of pieces, and taking some out of play to make larger ones of them.

use std::sync::Arc;
use std::time::Instant;

use drillcore_format::ids::LsnRange;
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;
use drillcore_format::schema::ExpiryLimit;

use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::liveness::KnownLiveness;
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::state::expiring::Expiring;
use crate::state::put_off::PutOff;

/// A piece in its list; `taken` while a job makes a larger one of it.
pub struct Slot<T> {
    pub piece: Arc<T>,
    pub taken: bool,
    /// Why it could not be read when it was to be merged or indexed: until it is tried again, it is left out of both.
    pub unreadable: Option<PutOff>,
    /// Its rows that were erased.
    pub erased: Option<Arc<ErasedRows>>,
    /// What is known of which are alive.
    pub liveness: Arc<KnownLiveness>,
    /// Of those that were not, which expire next; `None` if that has to be found out.
    pub expiring: Option<Expiring>,
}

impl<T> Slot<T> {
    /// A piece in play.
    pub fn new(piece: Arc<T>, erased: Option<Arc<ErasedRows>>) -> Slot<T> {
        let (liveness, expiring) = (Arc::default(), None);
        Slot { piece, taken: false, unreadable: None, erased, liveness, expiring }
    }

    /// Whether nothing can be made of it now.
    pub fn is_out(&self, now: Instant) -> bool {
        self.taken || self.unreadable.as_ref().is_some_and(|put_off| !put_off.is_due(now))
    }

    /// Whether it is known which rows have expired at `limit`.
    pub fn knows(&self, limit: ExpiryLimit) -> bool {
        self.expiring.as_ref().is_some_and(|expiring| expiring.is_known_to(limit.before))
    }

    /// Notes what has expired, and what expires next.
    pub fn note_expiring(&mut self, gone: &OrdinalIntervals, next: Expiring) {
        self.erased = ErasedRows::with(self.erased.as_ref(), gone);
        self.expiring = Some(next);
    }
}

impl<T> Slot<T>
where
    Piece: for<'s> From<&'s Slot<T>>,
{
    /// Erases what has expired; returns the piece if that is not known.
    pub fn expire(&mut self, layout: &Layout, limit: ExpiryLimit) -> Option<Piece> {
        if !self.knows(limit)
            && let Some(known) = Expiring::known(&Piece::from(&*self), layout, limit)
        {
            self.expiring = Some(known);
        }
        let Some(gone) = self.expiring.as_mut().and_then(|known| known.take(limit.before)) else {
            return Some(Piece::from(&*self));
        };
        self.erased = ErasedRows::with(self.erased.as_ref(), &gone);
        None
    }
}

impl Slot<Run> {
    /// A piece in play, with what is known of it, if it is a run.
    pub fn of_run(piece: &Piece) -> Option<Slot<Run>> {
        let Piece { erased, liveness, .. } = piece;
        Some(Slot { liveness: liveness.clone(), ..Slot::new(piece.run()?.clone(), erased.clone()) })
    }
}

impl<T> From<&Slot<T>> for Piece
where
    Piece: From<Arc<T>>,
{
    fn from(slot: &Slot<T>) -> Piece {
        let (erased, liveness) = (slot.erased.clone(), slot.liveness.clone());
        Piece { erased, liveness, ..Piece::from(slot.piece.clone()) }
    }
}

/// Takes pieces out of play and hands out what they hold.
pub fn take<'a, T: 'a>(slots: impl IntoIterator<Item = &'a mut Slot<T>>) -> Vec<Arc<T>> {
    slots
        .into_iter()
        .map(|slot| {
            assert!(!slot.taken, "a piece is taken once");
            slot.taken = true;
            slot.piece.clone()
        })
        .collect()
}

/// Puts taken pieces back into play.
pub fn release<T>(slots: &mut [Slot<T>], taken: &[Arc<T>]) {
    for slot in slots.iter_mut().filter(|slot| taken.iter().any(|t| Arc::ptr_eq(t, &slot.piece))) {
        slot.taken = false;
    }
}

/// Taken pieces, which are in the order of the list, without what of them was erased. O(pieces).
pub fn pieces_of<T>(slots: &[Slot<T>], taken: &[Arc<T>]) -> Vec<Piece>
where
    Piece: From<Arc<T>>,
{
    let mut rest = taken.iter().peekable();
    let is_next = |slot: &&Slot<T>| rest.next_if(|piece| Arc::ptr_eq(piece, &slot.piece)).is_some();
    let pieces: Vec<Piece> = slots.iter().filter(is_next).map(|slot| slot.into()).collect();
    assert_eq!(pieces.len(), taken.len(), "taken pieces stay in their list");
    pieces
}

/// Replaces taken pieces by what was made of them, which stands where the first of them stood. O(pieces).
pub fn replace<T>(slots: &mut Vec<Slot<T>>, taken: &[Arc<T>], by: Vec<Slot<T>>) {
    let is_taken = |slot: &Slot<T>| taken.iter().any(|piece| Arc::ptr_eq(piece, &slot.piece));
    let first = slots.iter().position(is_taken).expect("taken pieces stay in their list");
    let before = slots.len();
    slots.retain(|slot| !is_taken(slot));
    assert_eq!(slots.len() + taken.len(), before, "taken pieces stay in their list");
    slots.splice(first..first, by);
}

/// The commits that pieces cover together.
pub fn covered(lsns: impl IntoIterator<Item = LsnRange>) -> LsnRange {
    lsns.into_iter().reduce(LsnRange::join).expect("at least one piece")
}
