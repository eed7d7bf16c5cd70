//! How many bytes of rows are collected at once.
//!
//! Rows are collected by the thousand, and a value may have megabytes; but an array of strings ends at 2 GiB, and
//! memory before. So a loop that collects rows also stops by their bytes. The bounds hold for the whole process. A
//! test may make them small before it opens anything: then short strings take the paths of values of megabytes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Arrow's arrays of strings have offsets of 32 bits.
static ARRAY: AtomicUsize = AtomicUsize::new(i32::MAX as usize);
static BATCH: AtomicUsize = AtomicUsize::new(16 << 20);
static CHUNK: AtomicUsize = AtomicUsize::new(4 << 20);
static TRAINING: AtomicUsize = AtomicUsize::new(16 << 10);
static LISTS: AtomicUsize = AtomicUsize::new(64 << 20);

/// Bytes of all strings in one array, at most.
pub fn array() -> usize {
    ARRAY.load(Ordering::Relaxed)
}

/// Bytes of keys and strings at which a batch of rows is closed; the row that reaches it comes on top.
pub fn batch() -> usize {
    BATCH.load(Ordering::Relaxed)
}

/// Bytes at which a source of a merge stops reading ahead; the row that reaches it comes on top. Small, as a
/// merge may have hundreds of sources.
pub fn chunk() -> usize {
    CHUNK.load(Ordering::Relaxed)
}

/// Bytes of strings that a table of symbols is trained with, at least.
pub(crate) fn training() -> usize {
    TRAINING.load(Ordering::Relaxed)
}

/// Bytes of the lists of sets that are made in one pass over a segment's rows; that of one set may have more.
pub fn lists() -> usize {
    LISTS.load(Ordering::Relaxed)
}

/// Sets the bound of lists, for tests.
#[doc(hidden)]
pub fn set_lists(bytes: usize) {
    LISTS.store(bytes, Ordering::Relaxed);
}

/// Sets all other bounds, for tests. Values and commits are not limited by them, so the test has to.
#[doc(hidden)]
pub fn set(array: usize, batch: usize, chunk: usize, training: usize) {
    ARRAY.store(array, Ordering::Relaxed);
    BATCH.store(batch, Ordering::Relaxed);
    CHUNK.store(chunk, Ordering::Relaxed);
    TRAINING.store(training, Ordering::Relaxed);
}
