//! When rows are spilled that only snapshots hold, and what may be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::TableId;

use crate::error::Error;
use crate::pieces::run::Run;
use crate::state::put_off::PutOff;
use crate::state::version::TableVersion;

/// How long is waited where there was nothing to spill, as calls that end soon hold the rows.
const PAUSE: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Default)]
pub struct Spilling {
    is_under_way: bool,
    put_off: Option<PutOff>,
    not_before: Option<Instant>,
}

/// What somebody holds.
pub struct Held {
    /// Tables as they are or were.
    pub versions: Vec<Arc<TableVersion>>,
    /// Runs that have left their tables.
    pub runs: Vec<(TableId, Arc<Run>)>,
}

impl Spilling {
    /// Has one job spill, unless one does or it is too early.
    pub fn begin(&mut self, now: Instant) -> bool {
        let waits = self.next_try().is_some_and(|until| until > now);
        if self.is_under_way || waits {
            return false;
        }
        self.is_under_way = true;
        true
    }

    /// It has spilled something, or there was nothing to spill.
    pub fn done(&mut self, has_spilled: bool, now: Instant) {
        *self = Spilling::default();
        self.not_before = (!has_spilled).then(|| now + PAUSE);
    }

    /// It could not, or was kept from it.
    pub fn failed(&mut self, why: Option<Error>, now: Instant) {
        let why = why.map(|why| PutOff::again(self.put_off.as_ref(), why, now));
        *self = Spilling { put_off: why, ..Spilling::default() };
    }

    /// When it may be tried again, if it has to wait.
    pub fn next_try(&self) -> Option<Instant> {
        self.not_before.max(self.put_off.as_ref().map(PutOff::until))
    }
}
