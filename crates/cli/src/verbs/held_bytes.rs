//! How much of a file is held in memory at once, by the thread that reads it and those that parse it.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Bytes that are held together.
pub struct HeldBytes {
    limit: u64,
    held: Mutex<u64>,
    freed: Condvar,
}

/// Some of them, until dropped.
pub struct Held {
    of: Arc<HeldBytes>,
    bytes: u64,
}

impl HeldBytes {
    pub fn new(limit: u64) -> Arc<HeldBytes> {
        Arc::new(HeldBytes { limit, held: Mutex::new(0), freed: Condvar::new() })
    }

    /// Waits until there is room for `bytes`, or nothing else is held.
    pub fn hold(self: &Arc<HeldBytes>, bytes: u64) -> Held {
        let mut held = self.held.lock();
        while *held > 0 && held.saturating_add(bytes) > self.limit {
            self.freed.wait(&mut held);
        }
        *held = held.saturating_add(bytes);
        drop(held);
        Held { of: self.clone(), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.of.held.lock();
        *held = held.saturating_sub(self.bytes);
        drop(held);
        self.of.freed.notify_all();
    }
}
