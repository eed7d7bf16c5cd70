//! What is known of which rows of a piece are alive.
//!
//! In a table whose keys fold a row dies with the first newer row of its key, or is a tombstone, and stays dead: what was found
//! out at one commit holds at all later ones, whatever becomes of the other pieces. So it stays with the piece, and a later
//! snapshot looks for the keys of its rows only in what is newer than that.

use std::sync::Arc;

use drillcore_format::ids::Lsn;
use parking_lot::Mutex;

use crate::pieces::alive_rows::AliveRows;
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::memory_meter::MemoryMeter;

/// Which rows of a piece were alive at one commit.
#[derive(Debug, Clone)]
pub struct Liveness {
    pub alive: Arc<AliveRows>,
    /// The commit: no row was replaced up to it but those that are dead here.
    pub through: Lsn,
    /// A later one, or the same, by which all these were.
    pub since: Lsn,
}

/// The newest that is known of a piece, shared by all snapshots and jobs that have it.
#[derive(Debug, Default)]
pub struct KnownLiveness {
    known: Mutex<Option<Liveness>>,
    unerased: Mutex<Option<Unerased>>,
}

/// Rows that are alive and were not erased, and what they were made of.
#[derive(Debug)]
struct Unerased {
    alive: Arc<AliveRows>,
    erased: Arc<ErasedRows>,
    rows: Arc<AliveRows>,
}

impl KnownLiveness {
    /// Keeps what was found out, unless what is known is newer.
    pub fn note(&self, found: Liveness) {
        let mut known = self.known.lock();
        if known.as_ref().is_none_or(|known| known.through < found.through) {
            *known = Some(found);
        }
    }

    /// What is known, if it holds for a snapshot at a commit.
    pub fn at(&self, lsn: Lsn) -> Option<Liveness> {
        self.known.lock().as_ref().filter(|known| known.since <= lsn).cloned()
    }

    /// Those of some rows that were not erased. O(rows / 64) and the intervals erased, unless the last call asked the same.
    pub fn without_erased(
        &self,
        alive: &Arc<AliveRows>,
        erased: &Arc<ErasedRows>,
        meter: &MemoryMeter,
    ) -> Arc<AliveRows> {
        let mut last = self.unerased.lock();
        let is_it =
            |last: &Unerased| Arc::ptr_eq(&last.alive, alive) && Arc::ptr_eq(&last.erased, erased);
        if let Some(same) = last.as_ref().filter(|last| is_it(last)) {
            return same.rows.clone();
        }
        let mut bits = alive.bits();
        erased.iter().for_each(|interval| bits.clear_range(interval));
        let rows = Arc::new(bits.counted(meter));
        let (alive, erased) = (alive.clone(), erased.clone());
        *last = Some(Unerased { alive, erased, rows: rows.clone() });
        rows
    }
}
