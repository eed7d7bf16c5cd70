//! How long it is trusted that the disk has plenty of room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is plenty. In [`TRUSTED`], a disk that takes 10 GB per second is given a fortieth of it.
const PLENTY_BYTES: u64 = 4 << 30;
/// How much less than that a commit, with those before it, may need.
pub const NEEDED_BYTES_MAX: u64 = 1 << 30;
/// How long.
const TRUSTED: Duration = Duration::from_millis(10);

/// When plenty was found to be free last.
#[derive(Debug)]
pub struct Plenty {
    begun: Instant,
    /// Nanoseconds from `begun`.
    until: AtomicU64,
}

impl Plenty {
    /// Nothing is known.
    pub fn unknown() -> Plenty {
        Plenty { begun: Instant::now(), until: AtomicU64::new(0) }
    }

    /// Whether so much was free a moment ago that up to [`NEEDED_BYTES_MAX`] still are.
    pub fn is_free(&self, now: Instant) -> bool {
        self.since_begun(now) < self.until.load(Ordering::Relaxed)
    }

    /// Notes how much was free at a moment.
    pub fn note(&self, free: u64, now: Instant) {
        let until = if free < PLENTY_BYTES { 0 } else { self.since_begun(now + TRUSTED) };
        self.until.store(until, Ordering::Relaxed);
    }

    fn since_begun(&self, now: Instant) -> u64 {
        (now - self.begun).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plenty_of_room_is_trusted_for_a_moment_and_less_is_not() {
        let (plenty, now) = (Plenty::unknown(), Instant::now());
        assert!(!plenty.is_free(now));
        plenty.note(PLENTY_BYTES, now);
        assert!(plenty.is_free(now) && plenty.is_free(now + TRUSTED / 2));
        assert!(!plenty.is_free(now + TRUSTED));
        plenty.note(PLENTY_BYTES, now + TRUSTED);
        plenty.note(PLENTY_BYTES - 1, now + TRUSTED);
        assert!(!plenty.is_free(now + TRUSTED), "what was found last counts");
    }
}
