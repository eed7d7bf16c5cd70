//! The clock by which rows expire.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The system's time in whole seconds since 1970, but that it never goes back: what has expired does not come back either.
#[derive(Debug, Default)]
pub struct Clock {
    latest: AtomicU64,
}

impl Clock {
    /// The time now.
    pub fn now(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since_1970.map_or(0, |passed| passed.as_secs());
        // Mostly it is known, and a load leaves the line with all threads that read it.
        let latest = self.latest.load(Ordering::Acquire);
        if latest >= now {
            return latest;
        }
        self.latest.fetch_max(now, Ordering::AcqRel).max(now)
    }
}
