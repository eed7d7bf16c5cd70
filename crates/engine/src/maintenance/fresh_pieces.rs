//! What a job made, on its way into the table: rows may have been erased since it began, and it does not know of that.

use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::schema::TimeToLive;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::MutexGuard;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::piece::Piece;
use crate::state::core::Core;
use crate::state::erasing::erased_by;
use crate::state::expiring::Expiring;
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
    /// Which rows of each expire next, where that was found out, under what time to live.
    expiring: Vec<Option<(OrdinalIntervals, Expiring)>>,
    ttl: Option<TimeToLive>,
}

impl<'a> FreshPieces<'a> {
    /// Pieces made of those that knew of erasures up to `since`.
    pub fn new(core: &'a Core, table: TableId, since: Lsn, pieces: Vec<Piece>) -> FreshPieces<'a> {
        let mut fresh = FreshPieces { core, table, since, pieces, expiring: Vec::new(), ttl: None };
        fresh.look_ahead();
        fresh
    }

    /// Finds out which rows expire next, so that no snapshot has to. What fails here fails there.
    fn look_ahead(&mut self) {
        let (layout, limit) = {
            let state = self.core.state();
            let Some(table) = state.tables.get(&self.table) else { return };
            let Some(limit) = table.expiry_limit(state.clock()) else { return };
            (table.layout.clone(), limit)
        };
        self.ttl = layout.schema().ttl;
        let (meter, never) = (&self.core.meter, Interrupt::never());
        let find = |piece: &Piece| Expiring::find(piece, &layout, limit, meter, &never).ok();
        self.expiring = self.pieces.iter().map(find).collect();
    }

    /// The slot of a piece, whose array is given: with what was erased of it, which rows expire next, and which are alive.
    pub fn slot<T>(&self, piece: usize, array: &Arc<T>, entry: &TableState) -> Slot<T> {
        let Piece { erased, liveness, .. } = &self.pieces[piece];
        let mut slot = Slot::new(array.clone(), erased.clone());
        slot.liveness = liveness.clone();
        if let Some(Some((gone, next))) = self.expiring.get(piece)
            && entry.schema.ttl == self.ttl
        {
            slot.note_expiring(gone, next.clone());
        }
        slot
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
                    let ordinals = erased_by(question, layout, piece, &Interrupt::never())
                        .map_err(Error::of_input)?;
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
        let since = self.since;
        let slot = |(number, piece): (usize, &Piece)| {
            let segment = piece.segment().expect("a job writes segments").clone();
            if let Some(erased) = piece.erased.as_ref().filter(|_| since > noted) {
                entry.unnoted.add(segment.id(), erased.ordinals(), Lsn(noted.0 + 1));
            }
            self.slot(number, &segment, entry)
        };
        self.pieces.iter().enumerate().map(slot).collect()
    }
}
