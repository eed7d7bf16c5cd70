//! [`Progress`]: how far a long call is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a call that takes long is. The caller makes one, gives it to the call, and reads it from other threads meanwhile.
///
/// Each call counts in a unit of its own. The numbers are estimates: work that comes up meanwhile may add to the total.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::thread;
/// use std::time::Duration;
///
/// use drillcore::Progress;
///
/// let db = flights.database();
/// db.flush()?;
/// let progress = Progress::default();
/// let report = thread::scope(|scope| {
///     let verified = scope.spawn(|| db.verify_with(&progress));
///     while !verified.is_finished() {
///         println!("{} of {} bytes", progress.done(), progress.total());
///         thread::sleep(Duration::from_millis(20));
///     }
///     verified.join().unwrap()
/// })?;
/// assert_eq!((progress.done(), progress.share()), (report.bytes, Some(1.0)));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Progress {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// How much is done, in the unit of the call.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// How much there is to do; 0 until that is known.
    pub fn total(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }

    /// The share of it that is done, from 0 to 1; `None` until it is known how much there is to do, or if there is nothing.
    pub fn share(&self) -> Option<f64> {
        let (done, total) = (self.done(), self.total());
        (total > 0).then(|| (done as f64 / total as f64).min(1.0))
    }

    /// Says how much there is to do.
    pub(crate) fn expect(&self, total: u64) {
        self.counts.total.store(total, Ordering::Relaxed);
    }

    /// Says how much is done in all; it never becomes less.
    pub(crate) fn reach(&self, done: u64) {
        self.counts.done.fetch_max(done, Ordering::Relaxed);
    }

    /// Says how much more is done; any thread does.
    pub(crate) fn add(&self, more: u64) {
        self.counts.done.fetch_add(more, Ordering::Relaxed);
    }
}
