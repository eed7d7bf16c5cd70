//! Calls that write and jobs that were picked, as closing waits for them.

use drillcore_storage::sync::atomic::{AtomicU64, Ordering};

/// The bit that says that no call may begin any more; those below it count.
const REFUSED: u64 = 1 << 63;

/// How many calls write, and whether more may begin: one word, so that a call begins and ends without a lock.
pub struct CallsUnderway(AtomicU64);

impl CallsUnderway {
    /// None yet, and any may begin.
    pub fn none() -> CallsUnderway {
        CallsUnderway(AtomicU64::new(0))
    }

    /// Counts a call, if it may begin, and says whether it may.
    #[must_use]
    pub fn begin(&self) -> bool {
        let one_more = |calls: u64| (calls & REFUSED == 0).then_some(calls + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// Counts what has to be done also while no call may begin any more.
    pub fn go_on(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// No call may begin any more.
    pub fn refuse(&self) {
        self.0.fetch_or(REFUSED, Ordering::AcqRel);
    }

    /// Calls may begin again.
    pub fn accept(&self) {
        self.0.fetch_and(!REFUSED, Ordering::AcqRel);
    }

    /// Counts one call less, and says whether closing may wait for that.
    #[must_use]
    pub fn end(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & REFUSED != 0
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire) & !REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_until_they_are_refused() {
        let calls = CallsUnderway::none();
        assert!(calls.begin());
        assert!(calls.begin());
        assert!(!calls.end(), "nothing waits for it");
        calls.refuse();
        calls.refuse();
        assert!(!calls.begin());
        assert_eq!(calls.count(), 1);
        calls.go_on();
        assert!(calls.end() && calls.end());
        assert_eq!(calls.count(), 0);
        calls.accept();
        assert!(calls.begin());
    }
}
