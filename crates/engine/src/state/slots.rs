//! Lists of pieces, and taking neighbours out of play to make one of them.

use std::sync::Arc;

use drillcore_format::ids::LsnRange;

/// A piece in its list; `taken` while somebody makes a larger one of it.
pub struct Slot<T> {
    pub piece: Arc<T>,
    pub taken: bool,
}

/// Takes neighbours out of play and hands out what they hold.
pub fn take<T>(slots: &mut [Slot<T>]) -> Vec<Arc<T>> {
    slots
        .iter_mut()
        .map(|slot| {
            assert!(!slot.taken, "a piece is taken once");
            slot.taken = true;
            slot.piece.clone()
        })
        .collect()
}

/// Puts taken neighbours back into play.
pub fn release<T>(slots: &mut [Slot<T>], taken: &[Arc<T>]) {
    for slot in slots.iter_mut().filter(|slot| taken.iter().any(|t| Arc::ptr_eq(t, &slot.piece))) {
        slot.taken = false;
    }
}

/// Replaces taken neighbours by what was made of them; `None` removes them.
pub fn replace<T>(slots: &mut Vec<Slot<T>>, taken: &[Arc<T>], by: Option<Arc<T>>) {
    let first = slots.iter().position(|slot| Arc::ptr_eq(&slot.piece, &taken[0]));
    let first = first.expect("taken pieces stay in their list");
    let range = first..first + taken.len();
    for (slot, piece) in slots[range.clone()].iter().zip(taken) {
        assert!(Arc::ptr_eq(&slot.piece, piece), "taken pieces stay neighbours");
    }
    slots.splice(range, by.map(|piece| Slot { piece, taken: false }));
}

/// The commits that neighbours cover together.
pub fn covered(lsns: impl IntoIterator<Item = LsnRange>) -> LsnRange {
    lsns.into_iter().reduce(LsnRange::join).expect("at least one piece")
}
