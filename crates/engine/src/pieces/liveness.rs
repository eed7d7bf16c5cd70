//! What is known of which rows of a piece are alive.
//!
//! In a table whose keys fold a row dies with the first newer row of its key, or is a tombstone, and stays dead: what was found
//! out at one commit holds at all later ones, whatever becomes of the other pieces. So it stays with the piece, and a later
//! snapshot looks for the keys of its rows only in what is newer than that.

use std::sync::Arc;

use drillcore_format::ids::Lsn;
use parking_lot::Mutex;

use crate::pieces::alive_rows::AliveRows;

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
pub struct KnownLiveness(Mutex<Option<Liveness>>);

impl KnownLiveness {
    /// Keeps what was found out, unless what is known is newer.
    pub fn note(&self, found: Liveness) {
        let mut known = self.0.lock();
        if known.as_ref().is_none_or(|known| known.through < found.through) {
            *known = Some(found);
        }
    }

    /// What is known, if it holds for a snapshot at a commit.
    pub fn at(&self, lsn: Lsn) -> Option<Liveness> {
        self.0.lock().as_ref().filter(|known| known.since <= lsn).cloned()
    }
}
