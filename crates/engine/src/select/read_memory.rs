//! What the reads of a database share: what they may hold in memory together, beside their results, and threads that work for
//! them.
//!
//! To find rows by a test, or by a set that is not indexed, takes a pass; the list of what it found takes four bytes per row. It
//! is worth keeping with the version of the table, as long as all such lists do not take too much. Threads scan partitions
//! ahead of who reads them; of many scans that are read slowly, each gets fewer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;

use crate::calls::threads_beside::ThreadsBeside;
use crate::pieces::memory_meter::{Charge, MemoryMeter};
use crate::pieces::piece::Piece;
use crate::select::selection::{Question, Selected};

/// Threads of a scan past the system's cache, at the least, beside two per core: they wait for the device for most of their
/// time, and many devices reach their full speed only with as many reads at once.
const SCAN_THREADS_MIN: usize = 8;
/// Partitions that all scans together read ahead, by cores, ...
const PARTITIONS_PER_CORE: usize = 4;
/// ... and at the least: two for each thread of one scan.
const PARTITIONS_MIN: usize = 16;

/// Running sums that draws by weight leave with runs have this share of what lists have.
const SUMS_SHARE: u64 = 2;

/// See the module.
#[derive(Debug)]
pub struct ReadMemory {
    /// What all lists may take together. Beyond it those that were kept first are forgotten, but never the last.
    list_bytes_max: u64,
    pub meter: MemoryMeter,
    /// In the order in which they were kept.
    lists: Mutex<VecDeque<Weak<KeptList>>>,
    /// Scans with several threads.
    scans: AtomicUsize,
    /// How many partitions are scanned ahead, and may be.
    partitions: AtomicUsize,
    partitions_max: usize,
    /// The bytes of what was scanned ahead and not read.
    bytes_ahead: AtomicUsize,
    /// Threads of a scan that names no number, where those are not one per core.
    scan_threads: Option<usize>,
    /// Threads that find out what spares later reads work. Closing ends them.
    pub threads: ThreadsBeside,
    /// What holds pieces beside versions.
    holders: Mutex<Vec<Weak<dyn HoldsPieces>>>,
    /// How often these had to let go of runs that were spilled.
    spills: AtomicU64,
}

/// What holds pieces for as long as its user likes.
pub trait HoldsPieces: Send + Sync {
    /// Goes on with the files of runs that were spilled, unless it is in use.
    fn let_go_of_spilled(&self);
}

/// A list, until it is forgotten.
pub struct KeptList {
    question: Question,
    list: Mutex<Option<(Arc<Selected>, Charge)>>,
}

/// A partition that is scanned ahead, until dropped.
#[derive(Debug)]
pub struct Ahead(Arc<ReadMemory>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.partitions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReadMemory {
    /// Memory for some bytes of lists, and for reads past the system's cache or not.
    pub fn new(list_bytes_max: u64, direct_io: bool) -> Arc<ReadMemory> {
        let meter = MemoryMeter::with_sums(list_bytes_max / SUMS_SHARE);
        let lists = Mutex::default();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let [scans, partitions, bytes_ahead] = [const { AtomicUsize::new(0) }; 3];
        let threads = ThreadsBeside::default();
        let scan_threads = direct_io.then_some((2 * cores).max(SCAN_THREADS_MIN));
        let partitions_max = (cores * PARTITIONS_PER_CORE).max(PARTITIONS_MIN);
        Arc::new(ReadMemory {
            list_bytes_max,
            meter,
            lists,
            scans,
            partitions,
            partitions_max,
            bytes_ahead,
            scan_threads,
            threads,
            holders: Mutex::default(),
            spills: AtomicU64::new(0),
        })
    }

    /// How many threads a scan has that names no number; `None` for one per core.
    pub fn scan_threads(&self) -> Option<usize> {
        self.scan_threads
    }

    /// Lets a scan have one more partition read ahead, unless there are as many as there may be and the scan has one.
    pub fn read_ahead(self: &Arc<ReadMemory>, has_one: bool) -> Option<Ahead> {
        let before = self.partitions.fetch_add(1, Ordering::Relaxed);
        let ahead = Ahead(self.clone());
        (!has_one || before < self.partitions_max).then_some(ahead)
    }

    /// Counts one more scan with several threads.
    pub fn scan_begins(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one less.
    pub fn scan_ends(&self) {
        self.scans.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }

    /// Counts what such a scan has read ahead.
    pub fn add_ahead(&self, bytes: usize) {
        self.bytes_ahead.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what no longer waits for a reader.
    pub fn remove_ahead(&self, bytes: usize) {
        self.bytes_ahead.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What all scans have read ahead and not handed on, in bytes.
    pub fn bytes_ahead(&self) -> usize {
        self.bytes_ahead.load(Ordering::Relaxed)
    }

    /// Notes what holds pieces. O(1), and O(holders) once for as many.
    pub fn note_holder(&self, holder: Weak<dyn HoldsPieces>) {
        let mut holders = self.holders.lock();
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
            let len = holders.len();
            holders.reserve(len + 1);
        }
        holders.push(holder);
    }

    /// Has all of these go on with the files of runs that were spilled; what is in use just then learns it from [`ReadMemory::spills`].
    pub fn let_go_of_spilled(&self) {
        self.spills.fetch_add(1, Ordering::SeqCst);
        let holders: Vec<_> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.let_go_of_spilled());
    }

    /// How often that was done.
    pub fn spills(&self) -> u64 {
        self.spills.load(Ordering::SeqCst)
    }

    /// Keeps a list, in place of older ones of any table if all are too long. O(1), and O(lists) once for as many.
    pub fn keep(&self, question: Question, selected: Arc<Selected>) -> Arc<KeptList> {
        let charge = self.meter.charge_list(selected.list_bytes());
        let kept = Arc::new(KeptList { question, list: Mutex::new(Some((selected, charge))) });
        let mut forgotten = Vec::new();
        let mut lists = self.lists.lock();
        while self.meter.lists() > self.list_bytes_max {
            let Some(oldest) = lists.pop_front() else { break };
            // The rows' pieces may go with a list, and a predicate with its question: that is without the lock.
            let Some(oldest) = oldest.upgrade() else { continue };
            let list = oldest.list.lock().take().map(|(selected, _charge)| selected);
            forgotten.push((oldest, list));
        }
        if lists.len() == lists.capacity() {
            lists.retain(|list| list.strong_count() > 0);
            let len = lists.len();
            lists.reserve(len + 1);
        }
        lists.push_back(Arc::downgrade(&kept));
        drop(lists);
        kept
    }
}

impl KeptList {
    /// Whether it is of runs that were spilled.
    pub fn holds_spilled(&self) -> bool {
        let list = self.list.lock();
        list.as_ref().is_some_and(|(selected, _)| selected.pieces().iter().any(Piece::is_spilled))
    }

    /// The list, if it answers the question and was not forgotten.
    pub fn get(&self, question: &Question) -> Option<Arc<Selected>> {
        let list = self.list.lock();
        list.as_ref().filter(|_| self.question == *question).map(|(selected, _)| selected.clone())
    }
}

impl std::fmt::Debug for KeptList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptList").field("question", &self.question).finish_non_exhaustive()
    }
}
