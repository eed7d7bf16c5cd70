//! Which rows of a snapshot are alive, where keys fold.
//!
//! It is found out by a call that would take as many steps without, also to draw many rows, or by a thread once calls have taken as
//! many together: so no more than twice as many are taken as would have been enough. What is found stays with the pieces, and the next snapshot has to
//! find out no more than what was committed in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::calls::interrupt::Interrupt;
use crate::error::{ErrorKind, Result};
use crate::merge::finding_dead::{find_dead, steps};
use crate::merge::known_dead::KnownDead;
use crate::pieces::alive_rows::AliveRows;
use crate::pieces::liveness::Liveness;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::read::snapshot::TableSnapshot;
use crate::state::version::TableVersion;

/// How often a call that waits for another looks at its interrupt.
const WAIT: Duration = Duration::from_millis(5);
/// The most steps that one call counts: their sum does not overflow.
const STEPS_MAX: u64 = 1 << 40;

impl TableSnapshot {
    /// What is known of which rows are dead.
    pub(crate) fn known_dead(&self) -> Arc<KnownDead> {
        let TableVersion { layout, pieces, lsn, liveness, .. } = self.table();
        let pieces = pieces.now();
        let find = || Arc::new(KnownDead::of(layout, &pieces, *lsn, self.keeps_liveness()));
        liveness.known.lock().get_or_insert_with(find).clone()
    }

    /// Which rows of each piece are alive and were not erased, `None` for all; or nothing, if that is not known and would take more
    /// steps than `steps_without`, which the call takes otherwise: they count as taken for want of it.
    ///
    /// # Errors
    /// `Interrupted`. If pieces cannot be read it is not known, and the call goes on without.
    pub(crate) fn alive_if_worth(
        &self,
        steps_without: u64,
        interrupt: &Interrupt,
    ) -> Result<Option<&[Option<Arc<AliveRows>>]>> {
        let TableVersion { pieces, liveness, .. } = self.table();
        if let Some(alive) = liveness.alive.get() {
            return Ok(Some(alive));
        }
        if steps(&pieces.now(), &self.known_dead()) > steps_without {
            self.note_steps(steps_without);
            return Ok(None);
        }
        match self.alive(interrupt) {
            Ok(alive) => Ok(Some(alive)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Which rows of each piece are alive and were not erased, `None` for all.
    pub(crate) fn alive(&self, interrupt: &Interrupt) -> Result<&[Option<Arc<AliveRows>>]> {
        let TableVersion { layout, pieces, lsn, liveness, reads, .. } = self.table();
        let (pieces, meter) = (pieces.now(), &reads.meter);
        if let Some(alive) = liveness.alive.get() {
            return Ok(alive);
        }
        // One call finds it out, and others wait for that.
        let _only_one = loop {
            if let Some(only_one) = liveness.finding.try_lock_for(WAIT) {
                break only_one;
            }
            interrupt.check()?;
        };
        if let Some(alive) = liveness.alive.get() {
            return Ok(alive);
        }
        let found = find_dead(layout, pieces.all(), &self.known_dead(), *lsn, meter, interrupt)?;
        liveness.demand.steps.store(0, Ordering::Relaxed);
        let alive =
            pieces.iter().zip(&found).map(|(piece, found)| unerased(piece, found, meter)).collect();
        if self.keeps_liveness() {
            pieces.iter().zip(&found).for_each(|(piece, found)| piece.liveness.note(found.clone()));
        }
        *liveness.known.lock() = Some(Arc::new(KnownDead::complete(found)));
        Ok(liveness.alive.get_or_init(|| alive))
    }

    /// Counts steps that a call takes for want of knowing which rows are alive. Once they are as many as finding it out takes, a
    /// thread does that, beside calls that go on: none has to wait for what it can do without.
    pub(crate) fn note_steps(&self, steps_taken: u64) {
        let TableVersion { pieces, liveness, reads, .. } = self.table();
        let demand = &liveness.demand;
        let before = demand.steps.fetch_add(steps_taken.min(STEPS_MAX), Ordering::Relaxed);
        if liveness.alive.get().is_some()
            || !self.keeps_liveness()
            || before.saturating_add(steps_taken) < steps(&pieces.now(), &self.known_dead())
        {
            return;
        }
        let Some(serving) = demand.serve() else { return };
        let snapshot = self.interrupted_by(Interrupt::never());
        // Whatever keeps the thread from it, it is tried again once calls have taken as many steps more.
        let _ = reads.threads.start("drillcore-liveness", move |interrupt| {
            let _serving = serving;
            let _ = snapshot.alive(interrupt);
        });
    }

    /// Whether what is found out holds for other snapshots. Not where rows expire: those at another time may show more of them.
    fn keeps_liveness(&self) -> bool {
        self.table().schema.ttl.is_none()
    }
}

/// The rows of a piece that are alive and were not erased; `None` for all.
fn unerased(piece: &Piece, found: &Liveness, meter: &MemoryMeter) -> Option<Arc<AliveRows>> {
    match &piece.erased {
        Some(erased) => Some(piece.liveness.without_erased(&found.alive, erased, meter)),
        None => (!found.alive.is_all()).then(|| found.alive.clone()),
    }
}
