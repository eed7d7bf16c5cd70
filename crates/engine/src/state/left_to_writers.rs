//! For how long the compactions of a table's runs are left to the threads that append to it.

use std::time::{Duration, Instant};

/// How long they are left the first time, which doubles with each time that soon follows, ...
const PAUSE: Duration = Duration::from_millis(200);
/// ... up to this.
const PAUSE_MAX: Duration = Duration::from_millis(1600);

/// Workers leave the compactions of a table to its writers for a while once they had to wait for a processor: where all processors are
/// busy, a worker takes them from those who append and read, for a slice of time that is long for them.
#[derive(Debug, Default)]
pub struct LeftToWriters {
    until: Option<Instant>,
    pause: Duration,
}

impl LeftToWriters {
    /// A worker had to wait. Another one that did so at the same time changes nothing.
    pub fn begin(&mut self, now: Instant) {
        if self.until(now).is_some() {
            return;
        }
        let is_again = self.until.is_some_and(|until| now < until + self.pause);
        self.pause = if is_again { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE };
        self.until = Some(now + self.pause);
    }

    /// Until when workers compact none; `None` if they may.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_workers_have_to_wait_and_begin_anew_after_that() {
        let mut left = LeftToWriters::default();
        let mut now = Instant::now();
        assert_eq!(left.until(now), None);
        for millis in [200, 400, 800, 1600, 1600] {
            left.begin(now);
            let until = left.until(now).unwrap();
            assert_eq!(until - now, Duration::from_millis(millis));
            left.begin(now);
            assert_eq!(left.until(now), Some(until));
            assert_eq!(left.until(until), None);
            now = until + Duration::from_millis(100);
        }
        now += Duration::from_millis(1600);
        left.begin(now);
        assert_eq!(left.until(now), Some(now + PAUSE));
    }
}
