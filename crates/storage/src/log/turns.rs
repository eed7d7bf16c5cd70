//! Work on the log that one thread does for all who wait for it.

use drillcore_format::ids::Lsn;

use crate::error::Result;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, thread};

/// How often a thread that does not wait looks whether another one's turn is over.
const TRIES_AT_ONCE: u32 = 32;

/// How far a step of the log has come, and whose turn it is to take it further.
///
/// The first thread does the work for all commits that are there. Threads that come meanwhile wait, and go on together once
/// their commit is done. If it is not, one of them takes the next turn.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    is_over: Condvar,
    reached: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    waiting: usize,
}

struct Turn<'a>(&'a Turns);

impl Turns {
    pub fn new(reached: Lsn) -> Turns {
        Turns { reached: AtomicU64::new(reached.0), ..Turns::default() }
    }

    /// All commits up to this one are done.
    pub fn reached(&self) -> Lsn {
        Lsn(self.reached.load(Ordering::Acquire))
    }

    /// Returns once commit `lsn` is done: by `work`, which says how far it came, or by other threads.
    pub fn reach(&self, lsn: Lsn, work: impl Fn() -> Result<Lsn>) -> Result<()> {
        while let Some(turn) = self.take(lsn) {
            turn.note(work()?);
        }
        Ok(())
    }

    /// [`Turns::reach`] without waiting: `false`, and nothing done, while other threads are at work, or where `work` says
    /// `None`.
    pub fn try_reach(&self, lsn: Lsn, work: impl FnOnce() -> Result<Option<Lsn>>) -> Result<bool> {
        for _ in 0..TRIES_AT_ONCE {
            if self.reached() >= lsn {
                return Ok(true);
            }
            let Some(turn) = self.try_take() else {
                // It takes microseconds.
                thread::yield_now();
                continue;
            };
            // Another thread may have done it before the turn was taken.
            if self.reached() < lsn {
                let Some(reached) = work()? else { return Ok(false) };
                turn.note(reached);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// `None` once commit `lsn` is done.
    fn take(&self, lsn: Lsn) -> Option<Turn<'_>> {
        if self.reached() >= lsn {
            return None;
        }
        let mut state = self.state.lock();
        while self.reached() < lsn {
            if !state.is_taken {
                state.is_taken = true;
                return Some(Turn(self));
            }
            state.waiting += 1;
            state = self.is_over.wait(state);
            state.waiting -= 1;
        }
        None
    }

    fn try_take(&self) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        if state.is_taken {
            return None;
        }
        state.is_taken = true;
        Some(Turn(self))
    }
}

impl Turn<'_> {
    fn note(self, reached: Lsn) {
        self.0.reached.store(reached.0, Ordering::Release);
    }
}

impl Drop for Turn<'_> {
    /// Also after an error or a panic: one of those who wait is next, and finds out itself.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_taken = false;
        if state.waiting > 0 {
            self.0.is_over.notify_all();
        }
    }
}
