//! Background work that lacked room on the disk or file descriptors, or could not read its input, and is tried again later.
//!
//! Nothing is lost by waiting: the inputs are as they were. Flushes and merges of a table are put off separately, so
//! that rows still leave memory where only a merge does not fit.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The pause after the first try; it doubles with each ...
const PAUSE: Duration = Duration::from_millis(50);
/// ... up to this, ...
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// ... or up to this for a segment that cannot be read: most of these cannot be read later either.
const UNREADABLE_PAUSE_MAX: Duration = Duration::from_secs(600);
/// After this many tries in vain, a call that waits for the work fails with the reason why it is not done.
const TRIES_IN_VAIN: u32 = 5;

/// What became of a job.
#[derive(Debug)]
#[must_use]
pub enum Done {
    /// Its result is installed, or not wanted any more.
    Installed,
    /// There was no room for its result, or no file descriptor, or its input could not be read. Nothing has changed, and it will
    /// be tried again.
    PutOff(Error),
    /// It ended without a result, for something more urgent. Nothing has changed.
    GaveWay,
    /// It is half done, and any thread may go on with it.
    Paused,
}

impl Done {
    /// An error for a caller who wants it done now.
    pub fn or_error(self) -> Result<()> {
        match self {
            Done::Installed | Done::GaveWay | Done::Paused => Ok(()),
            Done::PutOff(why) => Err(why),
        }
    }
}

/// Why some work is not done, and when it is tried next.
#[derive(Debug, Clone)]
pub struct PutOff {
    why: Error,
    tries: u32,
    until: Instant,
}

impl PutOff {
    /// Puts work off that may have been put off before.
    pub fn again(before: Option<&PutOff>, why: Error, now: Instant) -> PutOff {
        PutOff::again_within(before, why, now, PAUSE_MAX)
    }

    /// The same for what is to be done with a segment that could not be read.
    pub fn unreadable(before: Option<&PutOff>, why: Error, now: Instant) -> PutOff {
        PutOff::again_within(before, why, now, UNREADABLE_PAUSE_MAX)
    }

    fn again_within(
        before: Option<&PutOff>,
        why: Error,
        now: Instant,
        pause_max: Duration,
    ) -> PutOff {
        let tries = before.map_or(0, |before| before.tries).saturating_add(1);
        let pause = PAUSE.saturating_mul(1 << (tries - 1).min(16)).min(pause_max);
        PutOff { why, tries, until: now + pause }
    }

    /// Has it tried once more at once, before a caller fails for it: there may be room by now.
    pub fn hurry(&mut self, now: Instant) {
        if self.is_lasting() {
            (self.tries, self.until) = (TRIES_IN_VAIN - 1, now);
        }
    }

    pub fn why(&self) -> &Error {
        &self.why
    }

    pub fn until(&self) -> Instant {
        self.until
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// Whether it was tried so often that waiting for it may be in vain.
    pub fn is_lasting(&self) -> bool {
        self.tries >= TRIES_IN_VAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn pauses_double_up_to_the_longest_and_a_few_tries_in_vain_are_no_accident() {
        let now = Instant::now();
        let why = || Error::new(ErrorKind::Io, "no room");
        let mut put_off = PutOff::again(None, why(), now);
        let mut pauses = Vec::new();
        for tries in 1..=100 {
            assert_eq!(put_off.is_lasting(), tries >= TRIES_IN_VAIN);
            assert!(!put_off.is_due(now) && put_off.is_due(put_off.until()));
            pauses.push(put_off.until() - now);
            put_off = PutOff::again(Some(&put_off), why(), now);
        }
        put_off.hurry(now);
        assert!(!put_off.is_lasting() && put_off.is_due(now));
        assert!(PutOff::again(Some(&put_off), why(), now).is_lasting());
        assert_eq!(pauses[..3], [PAUSE, 2 * PAUSE, 4 * PAUSE]);
        assert_eq!(pauses[99], PAUSE_MAX);
    }
}
