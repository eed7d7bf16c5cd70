//! The locks, atomics and threads of everything that decides what is logged and what is visible.
//!
//! They are those of the standard library. Under the feature `shuttle` they are shuttle's, which runs one thread at
//! a time and chooses at each use which one goes on, so that a test can try many orders of the same
//! code (`crates/engine/tests/publication.rs`). Locks that are held only over code without such a use
//! (folders in memory, lists, counters) need none of this: they are `parking_lot`'s. Those here are not: a
//! fork tries locks that a thread may have held there, and `parking_lot` could wait for that thread. Neither are those of the
//! page cache: `parking_lot` yields the processor while it waits, and with many readers a thread then gets it back late.
//!
//! A panic poisons no lock. What a lock guards is whole then, too: each change of it is one assignment or splice.

use std::time::{Duration, Instant};

#[cfg(feature = "shuttle")]
pub use shuttle;
#[cfg(feature = "shuttle")]
use shuttle as library;
#[cfg(not(feature = "shuttle"))]
use std as library;

use library::sync::{self, PoisonError, TryLockError};
pub use library::{
    sync::{MutexGuard, atomic},
    thread,
};

/// The library's lock, without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits until no other thread holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if a thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value without locking, which `&mut` makes needless.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that is set once, and that any number of threads wait for. They go on all at once, without a lock that one has to
/// give to the next. Those that wait until some moment share a lock.
#[derive(Debug)]
#[cfg(not(feature = "shuttle"))]
pub(crate) struct Latch<T> {
    value: sync::OnceLock<T>,
    lock: parking_lot::Mutex<()>,
    is_set: parking_lot::Condvar,
}

#[cfg(not(feature = "shuttle"))]
impl<T> Default for Latch<T> {
    fn default() -> Latch<T> {
        let (lock, is_set) = Default::default();
        Latch { value: sync::OnceLock::new(), lock, is_set }
    }
}

#[cfg(not(feature = "shuttle"))]
impl<T: Clone> Latch<T> {
    /// Sets the value, if it is not set yet.
    pub fn set(&self, value: T) {
        let _ = self.value.set(value);
        // A thread that held the lock and found no value is waiting by now, and is woken.
        drop(self.lock.lock());
        self.is_set.notify_all();
    }

    pub fn get(&self) -> Option<T> {
        self.value.get().cloned()
    }

    pub fn wait(&self) -> T {
        self.value.wait().clone()
    }

    /// The value, unless it is still not set at the end.
    pub fn wait_until(&self, end: Instant) -> Option<T> {
        let mut lock = self.lock.lock();
        while self.value.get().is_none() && !self.is_set.wait_until(&mut lock, end).timed_out() {}
        self.get()
    }
}

#[derive(Debug)]
#[cfg(feature = "shuttle")]
pub(crate) struct Latch<T>(Mutex<Option<T>>, Condvar);

#[cfg(feature = "shuttle")]
impl<T> Default for Latch<T> {
    fn default() -> Latch<T> {
        Latch(Mutex::new(None), Condvar::new())
    }
}

#[cfg(feature = "shuttle")]
impl<T: Clone> Latch<T> {
    pub fn set(&self, value: T) {
        self.0.lock().get_or_insert(value);
        self.1.notify_all();
    }

    pub fn get(&self) -> Option<T> {
        self.0.lock().clone()
    }

    pub fn wait(&self) -> T {
        let mut value = self.0.lock();
        loop {
            match &*value {
                Some(value) => return value.clone(),
                None => value = self.1.wait(value),
            }
        }
    }

    /// As [`Latch::wait`]: the scheduler of the test has no clock.
    pub fn wait_until(&self, _end: Instant) -> Option<T> {
        Some(self.wait())
    }
}

/// The library's condition variable, for a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition that no thread waits for.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Frees the lock until it is woken, and takes it again. May also wake without a reason, so callers check in a
    /// loop.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Condvar::wait`] for `timeout` at most.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes every thread that waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
