//! Bytes of rows in memory, counted from the arrays that exist, and of running sums that draws leave with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that all live [`Charge`]s hold. Clones share the counts. By default nothing is kept for draws.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter {
    rows: Arc<AtomicU64>,
    sums: Arc<AtomicU64>,
    sums_max: u64,
}

/// Bytes held by one object; given back on drop.
#[derive(Debug)]
pub struct Charge {
    counter: Arc<AtomicU64>,
    bytes: u64,
}

impl MemoryMeter {
    /// Counts from zero, and has draws keep sums until these take `sums_max` bytes.
    pub fn with_sums(sums_max: u64) -> MemoryMeter {
        MemoryMeter { sums_max, ..MemoryMeter::default() }
    }

    /// Counts `bytes` of rows for as long as the charge lives.
    pub fn charge(&self, bytes: u64) -> Charge {
        Charge::new(&self.rows, bytes)
    }

    /// The bytes of rows held now.
    pub fn bytes(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Whether more sums may be kept.
    pub fn has_room_for_sums(&self) -> bool {
        self.sum_bytes() < self.sums_max
    }

    /// Counts `bytes` of sums that are kept.
    pub fn charge_sums(&self, bytes: u64) -> Charge {
        Charge::new(&self.sums, bytes)
    }

    /// The bytes of sums held now.
    pub fn sum_bytes(&self) -> u64 {
        self.sums.load(Ordering::Relaxed)
    }
}

impl Charge {
    fn new(counter: &Arc<AtomicU64>, bytes: u64) -> Charge {
        counter.fetch_add(bytes, Ordering::Relaxed);
        Charge { counter: counter.clone(), bytes }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
