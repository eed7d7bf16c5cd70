//! What a job made, on its way into the table: rows may have been erased since it began, and it does not know of that.

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::MutexGuard;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::erasing::erased_by;
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::piece::Piece;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::slots::Slot;
use crate::state::table_state::TableState;

/// Pieces that a job made.
pub struct FreshPieces<'a> {
    core: &'a Core,
    table: TableId,
    /// The erasures up to here are known.
    since: Lsn,
    pub pieces: Vec<Piece>,
}

impl<'a> FreshPieces<'a> {
    /// Pieces made of those that knew of erasures up to `since`.
    pub fn new(core: &'a Core, table: TableId, since: Lsn, pieces: Vec<Piece>) -> FreshPieces<'a> {
        FreshPieces { core, table, since, pieces }
    }

    /// Erases what was erased of the table since the job began, and returns once nothing is newer, with the state.
    ///
    /// A job that takes the manifest's lock calls it before as well: what is erased meanwhile is little.
    pub fn catch_up(&mut self) -> Result<MutexGuard<'a, State>> {
        let mut state = self.core.state();
        loop {
            state.check_flushable()?;
            let Some(table) = state.tables.get_mut(&self.table) else { return Ok(state) };
            table.settle(self.core.visible());
            if table.erasures.first_unsettled().is_some() {
                // Its place in the log is being written.
                state = self.core.wait(state);
                continue;
            }
            let newer = table.erasures.settled_since(self.since);
            let Some(last) = newer.last() else { return Ok(state) };
            self.since = last.lsn;
            drop(state);
            for erasure in newer {
                for piece in &mut self.pieces {
                    let (question, layout) = (&erasure.question, &erasure.layout);
                    let ordinals = erased_by(question, layout, piece, &Interrupt::never())?;
                    piece.erased = ErasedRows::with(piece.erased.as_ref(), &ordinals);
                }
            }
            state = self.core.state();
        }
    }

    /// What was erased of segments, for the manifest, and the newest commit that did it.
    pub fn erased(&self) -> (Vec<(SegmentId, OrdinalIntervals)>, Lsn) {
        (self.pieces.iter().filter_map(Piece::erased_of_segment).collect(), self.since)
    }

    /// The segments as they go into their table. Of what was erased of them the manifest names what commits up to `noted`
    /// erased.
    pub fn into_slots(self, entry: &mut TableState, noted: Lsn) -> Vec<Slot<Segment>> {
        let FreshPieces { since, pieces, .. } = self;
        let slot = |piece: Piece| {
            let segment = piece.segment().expect("a job writes segments").clone();
            if let Some(erased) = piece.erased.as_ref().filter(|_| since > noted) {
                entry.unnoted.add(segment.id(), erased.ordinals(), Lsn(noted.0 + 1));
            }
            Slot::new(segment, piece.erased)
        };
        pieces.into_iter().map(slot).collect()
    }
}
