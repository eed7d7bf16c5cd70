//! Bytes of rows in memory, counted from the arrays that exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that all live [`Charge`]s hold. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter {
    bytes: Arc<AtomicU64>,
}

/// Bytes held by one object; given back on drop.
#[derive(Debug)]
pub struct Charge {
    meter: MemoryMeter,
    bytes: u64,
}

impl MemoryMeter {
    /// Counts `bytes` for as long as the charge lives.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Charge { meter: self.clone(), bytes }
    }

    /// The bytes held now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// Counts further bytes in the same meter.
    pub fn beside(&self, bytes: u64) -> Charge {
        self.meter.charge(bytes)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
