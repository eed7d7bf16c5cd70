//! Lists of pieces, and taking some out of play to make larger ones of them.

use std::sync::Arc;

use drillcore_format::ids::LsnRange;

/// A piece in its list; `taken` while somebody makes a larger one of it.
pub struct Slot<T> {
    pub piece: Arc<T>,
    pub taken: bool,
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

/// Replaces taken pieces by what was made of them, which stands where the first of them stood. O(pieces).
pub fn replace<T>(slots: &mut Vec<Slot<T>>, taken: &[Arc<T>], by: Vec<Arc<T>>) {
    let is_taken = |slot: &Slot<T>| taken.iter().any(|piece| Arc::ptr_eq(piece, &slot.piece));
    let first = slots.iter().position(is_taken).expect("taken pieces stay in their list");
    let before = slots.len();
    slots.retain(|slot| !is_taken(slot));
    assert_eq!(slots.len() + taken.len(), before, "taken pieces stay in their list");
    slots.splice(first..first, by.into_iter().map(|piece| Slot { piece, taken: false }));
}

/// The commits that pieces cover together.
pub fn covered(lsns: impl IntoIterator<Item = LsnRange>) -> LsnRange {
    lsns.into_iter().reduce(LsnRange::join).expect("at least one piece")
}
