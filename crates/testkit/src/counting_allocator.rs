//! An allocator that counts what each thread asks for, so a test can say what a call allocates, and what all hold.
//!
//! A test binary installs it with `#[global_allocator]`. What is asked for is counted by thread: what background threads do beside
//! a call is not charged to it.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static LARGEST_REQUEST: Cell<u64> = const { Cell::new(0) };
}

/// What all threads hold: asked for, and not given back.
static HELD_BYTES: AtomicU64 = AtomicU64::new(0);
/// The most that they have held.
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
pub struct CountingAllocator;

impl CountingAllocator {
    /// The bytes that this thread has asked for since it began; what it gave back is not taken off.
    pub fn allocated_bytes() -> u64 {
        ALLOCATED_BYTES.get()
    }

    /// How often this thread has asked for memory since it began.
    pub fn requests() -> u64 {
        REQUESTS.get()
    }

    /// The bytes that the process holds.
    pub fn held_bytes() -> u64 {
        HELD_BYTES.load(Ordering::Relaxed)
    }

    /// The most bytes that the process has held since it began, or since this was forgotten.
    pub fn peak_bytes() -> u64 {
        PEAK_BYTES.load(Ordering::Relaxed)
    }

    /// Begins anew with [`CountingAllocator::peak_bytes`].
    pub fn forget_peak() {
        PEAK_BYTES.store(CountingAllocator::held_bytes(), Ordering::Relaxed);
    }

    /// What `work` gives, and the bytes that this thread asked for in it.
    pub fn measure<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let before = CountingAllocator::allocated_bytes();
        let result = work();
        (result, CountingAllocator::allocated_bytes() - before)
    }

    /// The most bytes that this thread has asked for at once since it began, or since they were forgotten.
    pub fn largest_request() -> u64 {
        LARGEST_REQUEST.get()
    }

    /// Begins anew with [`CountingAllocator::largest_request`].
    pub fn forget_largest_request() {
        LARGEST_REQUEST.set(0);
    }
}

fn count(bytes: usize) {
    let held = HELD_BYTES.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    if held > PEAK_BYTES.load(Ordering::Relaxed) {
        PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
    }
    // A thread that is ending has lost its counter, and nothing can ask for it any more.
    let _ = ALLOCATED_BYTES.try_with(|counter| counter.set(counter.get() + bytes as u64));
    let _ = REQUESTS.try_with(|counter| counter.set(counter.get() + 1));
    let _ = LARGEST_REQUEST.try_with(|largest| largest.set(largest.get().max(bytes as u64)));
}

// SAFETY: every call is handed on to `System` as it came, which keeps the contract; counting touches
// only a number and thread-local cells without a destructor, and allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        HELD_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: `block` came from `System` by one of these functions, with this layout.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: `block` came from `System` by one of these functions, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
