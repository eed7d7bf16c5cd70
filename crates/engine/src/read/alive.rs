//! Which rows of a snapshot are alive, where keys fold.
//!
//! It is found out once calls have taken as many steps for want of knowing it as it takes: so they take at most twice as many as
//! would have been enough. What is found stays with the pieces, and the next snapshot has to find out no more than what was
//! committed in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::finding_dead::{find_dead, steps};
use crate::merge::known_dead::KnownDead;
use crate::pieces::alive_rows::AliveRows;
use crate::pieces::liveness::Liveness;
use crate::pieces::piece::Piece;
use crate::read::snapshot::TableSnapshot;
use crate::state::version::TableVersion;

impl TableSnapshot {
    /// What is known of which rows are dead.
    pub(crate) fn known_dead(&self) -> Arc<KnownDead> {
        let TableVersion { layout, pieces, lsn, liveness, .. } = self.table();
        let find = || Arc::new(KnownDead::of(layout, pieces, *lsn, self.keeps_liveness()));
        liveness.known.lock().get_or_insert_with(find).clone()
    }

    /// Which rows of each piece are alive and were not erased, `None` for all; or nothing, if that is not known and would take more
    /// steps than calls have taken for want of it, this one with some.
    pub(crate) fn alive_if_worth(
        &self,
        steps_here: u64,
        interrupt: &Interrupt,
    ) -> Result<Option<&[Option<Arc<AliveRows>>]>> {
        let TableVersion { layout, pieces, lsn, liveness, .. } = self.table();
        if let Some(alive) = liveness.alive.get() {
            return Ok(Some(alive));
        }
        let known = self.known_dead();
        let before = liveness.steps_taken.fetch_add(steps_here.min(1 << 40), Ordering::Relaxed);
        if steps(pieces, &known) > before.saturating_add(steps_here) {
            return Ok(None);
        }
        let found = find_dead(layout, pieces, &known, *lsn, interrupt)?;
        liveness.steps_taken.store(0, Ordering::Relaxed);
        let alive =
            pieces.iter().zip(&found).map(|(piece, found)| unerased(piece, found)).collect();
        if self.keeps_liveness() {
            pieces.iter().zip(&found).for_each(|(piece, found)| piece.liveness.note(found.clone()));
        }
        *liveness.known.lock() = Some(Arc::new(KnownDead::complete(found)));
        Ok(Some(liveness.alive.get_or_init(|| alive)))
    }

    /// Whether what is found out holds for other snapshots. Not where rows expire: those at another time may show more of them.
    fn keeps_liveness(&self) -> bool {
        self.table().schema.ttl.is_none()
    }
}

/// The rows of a piece that are alive and were not erased; `None` for all.
fn unerased(piece: &Piece, found: &Liveness) -> Option<Arc<AliveRows>> {
    let Some(erased) = &piece.erased else {
        return (!found.alive.is_all()).then(|| found.alive.clone());
    };
    let mut bits = found.alive.bits();
    erased.iter().flatten().for_each(|ordinal| bits.clear(ordinal));
    Some(Arc::new(bits.counted()))
}
