//! The locks, atomics and threads of everything that decides what is logged and what is visible.
//!
//! They are those of the standard library. Under `cfg(shuttle)` they are shuttle's, which runs one thread at
//! a time and chooses at each use which one goes on, so that a test can try many orders of the same
//! code (`crates/engine/tests/publication.rs`). Locks that are held only over code without such a use
//! (folders in memory, the page cache, counters) need none of this and stay with the standard library.

#[cfg(not(shuttle))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(shuttle)]
pub use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
