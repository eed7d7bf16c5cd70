//! How long a thread waits for a processor.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Compares the time that has passed with that for which this thread had a processor.
#[derive(Debug)]
pub struct ProcessorWaits {
    passed: Instant,
    had: Duration,
}

impl ProcessorWaits {
    /// Begins to measure. One system call.
    pub fn begin() -> ProcessorWaits {
        let had = clock_gettime(ClockId::ThreadCPUTime);
        // Neither is negative.
        let had = Duration::new(had.tv_sec as u64, had.tv_nsec as u32);
        ProcessorWaits { passed: Instant::now(), had }
    }

    /// How long the thread was ready to run, or slept, since it began to measure or asked last. It is always the same thread that asks.
    pub fn lap(&mut self) -> Duration {
        let now = ProcessorWaits::begin();
        let (passed, had) = (now.passed - self.passed, now.had.saturating_sub(self.had));
        *self = now;
        // The scheduler of the test lets one thread run at a time, and has no clock.
        if cfg!(feature = "shuttle") { Duration::ZERO } else { passed.saturating_sub(had) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_a_wait_and_work_is_none() {
        let mut waits = ProcessorWaits::begin();
        std::thread::sleep(Duration::from_millis(30));
        assert!(waits.lap() >= Duration::from_millis(25));
        let (begun, had) = (waits.passed, waits.had);
        while ProcessorWaits::begin().had < had + Duration::from_millis(30) {}
        assert!(waits.lap() <= begun.elapsed().saturating_sub(Duration::from_millis(29)));
    }
}
