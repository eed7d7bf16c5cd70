//! Waiting in tests without waiting for ever.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` on a thread of its own and gives its result.
///
/// # Panics
/// If the work panics, or is not done within `limit`: it is left behind then, as a hung thread cannot be
/// ended.
pub fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        // The receiver is gone if the deadline has passed; the result is not wanted then.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what} took longer than {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a thread that ends well has sent its result"),
        },
    }
}

/// Waits until `is_true`, looking every millisecond.
///
/// # Panics
/// If it is not true within `limit`.
pub fn wait_until(limit: Duration, what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < limit, "waited {limit:?} in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
