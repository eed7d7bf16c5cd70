//! Pieces that are held for long: those of a version of a table, and those of a selection.
//!
//! A snapshot would keep the rows in memory that were there when it was taken, however long it is held. Where that is
//! too much, runs are [spilled](Run::spill_to): a file has the same rows in the same order, so each question has the same answer,
//! and what was found by ordinal stays right. A read takes the list once, and goes on with what it took.

use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::{ArcSwap, Guard};

use crate::pieces::piece::Piece;
#[cfg(doc)]
use crate::pieces::run::Run;
use crate::select::read_memory::{HoldsPieces, ReadMemory};
use crate::select::selection::Selected;

/// The pieces of one version, oldest first.
pub struct HeldPieces(ArcSwap<PieceList>);

/// What was selected, held until it is read.
pub struct HeldSelected(ArcSwap<Selected>);

/// Some pieces, which never change.
pub struct PieceList {
    pieces: Arc<[Piece]>,
    /// The selection of everything, made when first asked for.
    whole: OnceLock<Arc<Selected>>,
}

impl HeldPieces {
    /// Holds some pieces.
    pub fn new(pieces: Arc<[Piece]>) -> HeldPieces {
        HeldPieces(ArcSwap::from_pointee(PieceList::new(pieces)))
    }

    /// What is held now.
    pub fn now(&self) -> Guard<Arc<PieceList>> {
        self.0.load()
    }

    /// Holds the files of runs that were spilled in place of these, and hands out what was held until then, if there are such runs.
    pub fn let_go_of_spilled(&self) -> Option<Arc<PieceList>> {
        let now = self.0.load_full();
        if !now.iter().any(Piece::is_spilled) {
            return None;
        }
        let pieces = now.iter().map(Piece::where_it_lies).collect();
        // Two that do this side by side come to the same list.
        Some(self.0.swap(Arc::new(PieceList::new(pieces))))
    }

    /// Holds nothing any more, and hands out what was held.
    pub fn take(&mut self) -> Arc<PieceList> {
        self.0.swap(Arc::new(PieceList::new(Arc::new([]))))
    }
}

impl HeldSelected {
    /// Holds a selection, and notes that in `memory`.
    pub fn new(selected: Arc<Selected>, memory: &ReadMemory) -> Arc<HeldSelected> {
        let held = Arc::new(HeldSelected(ArcSwap::new(selected)));
        if held.now().pieces().iter().any(|piece| piece.run().is_some()) {
            let holder: Weak<HeldSelected> = Arc::downgrade(&held);
            memory.note_holder(holder);
            // What was spilled before that was noted.
            held.let_go_of_spilled();
        }
        held
    }

    /// What is held now.
    pub fn now(&self) -> Guard<Arc<Selected>> {
        self.0.load()
    }
}

impl HoldsPieces for HeldSelected {
    fn let_go_of_spilled(&self) {
        if let Some(selected) = self.now().where_it_lies() {
            self.0.store(Arc::new(selected));
        }
    }
}

impl PieceList {
    fn new(pieces: Arc<[Piece]>) -> PieceList {
        PieceList { pieces, whole: OnceLock::new() }
    }

    /// All of them.
    pub fn all(&self) -> &Arc<[Piece]> {
        &self.pieces
    }

    /// The selection of all their rows.
    pub fn whole(&self) -> &Arc<Selected> {
        self.whole.get_or_init(|| Arc::new(Selected::whole(self.pieces.clone())))
    }
}

impl Deref for PieceList {
    type Target = [Piece];

    fn deref(&self) -> &[Piece] {
        &self.pieces
    }
}
