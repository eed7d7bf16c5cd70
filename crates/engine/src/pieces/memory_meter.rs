//! Bytes in memory: of rows, counted from the arrays that exist, of what reads found out and leave for later ones, and of lists of sets
//! that are being made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that all live [`Charge`]s hold. Clones share the counts. By default nothing is kept for draws.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    rows: AtomicU64,
    unpublished: AtomicU64,
    times: AtomicU64,
    sums: AtomicU64,
    lists: AtomicU64,
    alive: AtomicU64,
    set_lists: AtomicU64,
    sums_max: u64,
}

/// Bytes held by one object; given back on drop.
#[derive(Debug)]
pub struct Charge {
    counts: Arc<Counts>,
    of: fn(&Counts) -> &AtomicU64,
    bytes: u64,
}

impl MemoryMeter {
    /// Counts from zero, and has draws keep sums until these take `sums_max` bytes.
    pub fn with_sums(sums_max: u64) -> MemoryMeter {
        MemoryMeter(Arc::new(Counts { sums_max, ..Counts::default() }))
    }

    /// Counts `bytes` of rows that are not [published](Charge::publish) yet, for as long as the charge lives.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.charge_as(|counts| &counts.unpublished, bytes)
    }

    /// Counts `bytes` of the times at which rows expire next.
    pub fn charge_times(&self, bytes: u64) -> Charge {
        self.charge_as(|counts| &counts.times, bytes)
    }

    /// Counts `bytes` of running sums that draws by weight leave with runs.
    pub fn charge_sums(&self, bytes: u64) -> Charge {
        self.charge_as(|counts| &counts.sums, bytes)
    }

    /// Counts `bytes` of lists of rows.
    pub fn charge_list(&self, bytes: u64) -> Charge {
        self.charge_as(|counts| &counts.lists, bytes)
    }

    /// Counts `bytes` of bitmaps of the rows that are alive.
    pub fn charge_alive(&self, bytes: u64) -> Charge {
        self.charge_as(|counts| &counts.alive, bytes)
    }

    /// Counts the bytes of lists of sets that are being made, as they [grow](Charge::resize).
    pub fn charge_set_lists(&self) -> Charge {
        self.charge_as(|counts| &counts.set_lists, 0)
    }

    fn charge_as(&self, of: fn(&Counts) -> &AtomicU64, bytes: u64) -> Charge {
        of(&self.0).fetch_add(bytes, Ordering::Relaxed);
        Charge { counts: self.0.clone(), of, bytes }
    }

    /// The bytes of rows that were published, and are held now.
    pub fn row_bytes(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// Those of all rows.
    pub fn all_row_bytes(&self) -> u64 {
        self.row_bytes() + self.0.unpublished.load(Ordering::Relaxed)
    }

    /// The bytes of the times at which rows expire next.
    pub fn time_bytes(&self) -> u64 {
        self.0.times.load(Ordering::Relaxed)
    }

    /// Whether more sums may be kept.
    pub fn has_room_for_sums(&self) -> bool {
        self.0.sums.load(Ordering::Relaxed) < self.0.sums_max
    }

    /// The bytes of sums and lists held now.
    pub fn list_bytes(&self) -> u64 {
        self.0.sums.load(Ordering::Relaxed) + self.lists()
    }

    /// The bytes of lists alone.
    pub fn lists(&self) -> u64 {
        self.0.lists.load(Ordering::Relaxed)
    }

    /// The bytes of bitmaps held now.
    pub fn alive_bytes(&self) -> u64 {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// The bytes of lists of sets that are being made.
    pub fn set_list_bytes(&self) -> u64 {
        self.0.set_lists.load(Ordering::Relaxed)
    }

    /// All bytes that are not of rows.
    pub fn bytes_beside_rows(&self) -> u64 {
        self.list_bytes() + self.alive_bytes() + self.time_bytes() + self.set_list_bytes()
    }
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts this many bytes from now on.
    pub fn resize(&mut self, bytes: u64) {
        let count = (self.of)(&self.counts);
        // At once: in between, others would see more or less than there is.
        match bytes.checked_sub(self.bytes) {
            Some(more) => count.fetch_add(more, Ordering::Relaxed),
            None => count.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// Snapshots may hold the rows from now on.
    pub fn publish(&mut self) {
        self.counts.rows.fetch_add(self.bytes, Ordering::Relaxed);
        (self.of)(&self.counts).fetch_sub(self.bytes, Ordering::Relaxed);
        self.of = |counts| &counts.rows;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        (self.of)(&self.counts).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_counts_what_it_was_resized_to_until_it_is_dropped() {
        let meter = MemoryMeter::default();
        let (mut one, mut other) = (meter.charge_set_lists(), meter.charge_set_lists());
        one.resize(7);
        other.resize(100);
        assert_eq!((meter.set_list_bytes(), meter.bytes_beside_rows()), (107, 107));
        other.resize(3);
        assert_eq!((meter.set_list_bytes(), other.bytes()), (10, 3));
        drop(other);
        drop(one);
        assert_eq!(meter.bytes_beside_rows(), 0);
    }
}
