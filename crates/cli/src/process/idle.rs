//! Lets go of what is held while a prompt waits for a line.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// Drops a value once a wait has gone on for some time. What needs it again makes it anew.
pub struct Idle {
    waits: Sender<bool>,
}

impl Idle {
    /// Watches the waits that begin from now on.
    pub fn watch<T: Send + 'static>(held: Arc<Mutex<Option<T>>>, limit: Duration) -> Idle {
        let (waits, changes) = mpsc::channel::<bool>();
        thread::spawn(move || {
            let mut is_waiting = false;
            loop {
                let change = match is_waiting {
                    true => changes.recv_timeout(limit),
                    false => changes.recv().map_err(RecvTimeoutError::from),
                };
                match change {
                    Ok(waits) => is_waiting = waits,
                    Err(RecvTimeoutError::Timeout) => {
                        let dropped = held.lock().take();
                        drop(dropped);
                        is_waiting = false;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Idle { waits }
    }

    /// A wait begins.
    pub fn begin(&self) {
        // The thread lives as long as this.
        let _ = self.waits.send(true);
    }

    /// The wait is over.
    pub fn end(&self) {
        let _ = self.waits.send(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_long_wait_lets_go_and_a_short_one_does_not() {
        let limit = Duration::from_millis(200);
        let held = Arc::new(Mutex::new(Some(7)));
        let idle = Idle::watch(held.clone(), limit);
        idle.begin();
        idle.end();
        thread::sleep(2 * limit);
        assert_eq!(*held.lock(), Some(7));
        idle.begin();
        let begun = Instant::now();
        while held.lock().is_some() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is held for good");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(begun.elapsed() >= limit / 2, "after {:?}", begun.elapsed());
    }
}
