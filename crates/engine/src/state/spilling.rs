//! When rows are spilled that only snapshots hold, and what may be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::TableId;

use crate::error::Error;
use crate::pieces::run::Run;
use crate::state::put_off::PutOff;
use crate::state::version::TableVersion;

/// How long is waited where there was nothing to spill, as calls that end soon hold the rows, ...
const PAUSE: Duration = Duration::from_millis(20);
/// ... and how long once that was in vain again and again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub struct Spilling {
    is_under_way: bool,
    put_off: Option<PutOff>,
    not_before: Option<Instant>,
    pause: Duration,
    /// More came while a job was under way.
    looks_again: bool,
}

/// What is held of tables.
pub struct Held {
    /// Tables as they are or were.
    pub versions: Vec<Arc<TableVersion>>,
    /// Runs that have left their tables.
    pub runs: Vec<(TableId, Arc<Run>)>,
}

impl Spilling {
    /// Has one job spill, unless one does or it is too early.
    pub fn begin(&mut self, now: Instant) -> bool {
        if !self.is_due(now) {
            return false;
        }
        self.is_under_way = true;
        true
    }

    /// Whether that may be now.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.is_under_way && self.next_try().is_none_or(|until| until <= now)
    }

    /// There may be more to spill than when nothing was found.
    pub fn look_again(&mut self) {
        self.not_before = None;
        self.looks_again = self.is_under_way;
    }

    /// It has spilled something, or there was nothing to spill.
    pub fn done(&mut self, has_spilled: bool, now: Instant) {
        let pause = (2 * self.pause).clamp(PAUSE, PAUSE_MAX);
        *self = match has_spilled || self.looks_again {
            true => Spilling::default(),
            false => Spilling { not_before: Some(now + pause), pause, ..Spilling::default() },
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn jobs_in_vain_are_further_and_further_apart_until_there_is_more() {
        let (mut spilling, mut now) = (Spilling::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert!(spilling.begin(now));
            assert!(!spilling.begin(now), "one is under way");
            spilling.done(false, now);
            let next = spilling.next_try().unwrap();
            assert!(!spilling.is_due(now) && spilling.is_due(next));
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses[..3], [PAUSE, 2 * PAUSE, 4 * PAUSE]);
        assert_eq!(pauses[9], PAUSE_MAX);
        spilling.look_again();
        assert!(spilling.begin(now));
        spilling.look_again();
        spilling.done(false, now);
        assert!(spilling.begin(now), "more came meanwhile");
        spilling.failed(Some(Error::new(ErrorKind::Io, "no room")), now);
        spilling.look_again();
        assert!(!spilling.begin(now), "it lacks what it lacked");
    }
}
