//! Several threads that scan partitions ahead of who reads them, in key order. One of them is the reader's own.
//!
//! The reader hands out partitions in order, never more than [`PARTITIONS_PER_THREAD`] for each thread, and each
//! has a queue of its own of at most [`BATCHES_AHEAD`] batches. No more are read once those of all scans together have
//! [`BYTES_AHEAD`] for each thread of this one, but for [`CROWDED_BYTES_AHEAD`] of each scan, and for the partition that the reader
//! is at, of which all scans share [`FRONT_BYTES_AHEAD`]. So memory is bounded however slow readers are, and however many: by these and
//! two batches for each thread. Many scans at once have as many partitions together as a few have, and each has one at least
//! ([`ReadMemory`]). Partitions are begun in order, so a thread always works on the one that the reader waits for.
//!
//! Instead of waiting, the reader scans partitions itself, unless rows are tested: then a batch may be long in coming, while
//! those that it waited for are ready. Rows of few columns are read about as fast as they are handed from core to core, so a
//! thread that did nothing but wait for others would take more of a core than it saves.
//!
//! Nothing that is logged or visible depends on these threads, so they and their queues are the standard library's.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use arrow_array::RecordBatch;
use drillcore_format::value_bytes::batch_bytes;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::read::held_scan::HeldScan;
use crate::read::partition::KeyPartition;
use crate::select::read_memory::{Ahead, ReadMemory};

/// Partitions handed out and not read to their end. Two, so that a thread need not wait for the reader.
const PARTITIONS_PER_THREAD: usize = 2;
/// Batches of a partition that wait for the reader: of most partitions all, so that its thread goes on to the next.
const BATCHES_AHEAD: usize = 64;
/// No more are read while the batches of all scans that wait for readers have this many bytes for each thread of the scan, ...
const BYTES_AHEAD: usize = 16 << 20;
/// ... and at least these, ...
const BYTES_AHEAD_MIN: usize = 64 << 20;
/// ... and its own have these, so that scans whose readers rest leave others some, ...
const CROWDED_BYTES_AHEAD: usize = 2 << 20;
/// ... and those of the partition that its reader is at have their part of these.
const FRONT_BYTES_AHEAD: usize = 8 << 20;
/// How often a thread looks whether they have fewer.
const ROOM_POLL: Duration = Duration::from_millis(1);
/// Larger partitions are cut again before they are handed out ...
const WORTH_CUTTING: usize = 4;
/// ... into at most this number at once, so that the first rows need not wait until all cuts are made.
const PARTITIONS_AT_ONCE: usize = 64;
/// How often a waiting reader's interrupt is asked.
const POLL: Duration = Duration::from_millis(20);
/// The stack of a thread: tests of deep conditions take a stack of their own where less than 4 MiB are left.
const STACK_BYTES: usize = 8 << 20;

/// A batch of a partition, or its end.
type Message = Result<Option<RecordBatch>>;

/// What the batches of a scan that wait for its reader take.
#[derive(Debug)]
struct Waiting {
    /// Bytes, of all its partitions.
    bytes: AtomicUsize,
    /// How many there may be, of all scans.
    bytes_max: usize,
    /// The number of the partition that the reader is at.
    front: AtomicU64,
    of_all: Arc<ReadMemory>,
}

impl Waiting {
    fn new(threads: usize, of_all: Arc<ReadMemory>) -> Waiting {
        let bytes_max = threads.saturating_mul(BYTES_AHEAD).max(BYTES_AHEAD_MIN);
        of_all.scan_begins();
        Waiting { bytes: AtomicUsize::new(0), bytes_max, front: AtomicU64::new(0), of_all }
    }

    fn has_room(&self) -> bool {
        self.of_all.bytes_ahead() < self.bytes_max
            || self.bytes.load(Ordering::Relaxed) < CROWDED_BYTES_AHEAD
    }

    /// Whether the partition that the reader is at has room for one more batch.
    fn front_has_room(&self, own_bytes: usize) -> bool {
        own_bytes == 0 || own_bytes < FRONT_BYTES_AHEAD / self.of_all.scans()
    }

    fn add(&self, message: &Message) {
        let bytes = message_bytes(message);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.of_all.add_ahead(bytes);
    }

    fn remove(&self, message: &Message) {
        let bytes = message_bytes(message);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.of_all.remove_ahead(bytes);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.of_all.remove_ahead(*self.bytes.get_mut());
        self.of_all.scan_ends();
    }
}

fn message_bytes(message: &Message) -> usize {
    message.as_ref().map_or(0, |batch| batch.as_ref().map_or(0, batch_bytes))
}

/// A scan under way. Dropping it ends its threads.
pub struct ScanAhead {
    /// What has not been handed out, in order.
    left: VecDeque<KeyPartition>,
    /// Rows that a partition should have.
    partition_rows: Option<u64>,
    /// What was handed out and not read to its end, in order.
    handed_out: VecDeque<HandedOut>,
    /// How many may be, and how many were.
    handed_out_max: usize,
    numbers: u64,
    memory: Arc<ReadMemory>,
    waiting: Arc<Waiting>,
    /// `None` once nothing more is handed out.
    scans: Option<Sender<PartitionToScan>>,
    /// Where threads take partitions.
    to_scan: Arc<Mutex<Receiver<PartitionToScan>>>,
    /// Those that the reader scans itself.
    own: Vec<OwnScan>,
    /// Whether it does.
    helps: bool,
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The reader's own.
    interrupt: Interrupt,
}

/// A partition to scan, by its number, and where its batches go.
struct PartitionToScan {
    number: u64,
    partition: KeyPartition,
    batches: SyncSender<Message>,
    /// The bytes of its batches that wait for the reader, and those of all.
    own_bytes: Arc<AtomicUsize>,
    waiting: Arc<Waiting>,
}

/// Where the batches of a partition come from, unless the reader scans it itself.
struct HandedOut {
    number: u64,
    batches: Receiver<Message>,
    own_bytes: Arc<AtomicUsize>,
    waiting: Arc<Waiting>,
    _ahead: Ahead,
}

impl HandedOut {
    /// Notes that a batch does not wait any more.
    fn taken(&self, message: &Message) {
        self.own_bytes.fetch_sub(message_bytes(message), Ordering::Relaxed);
        self.waiting.remove(message);
    }
}

/// A partition that the reader scans itself.
struct OwnScan {
    number: u64,
    scan: HeldScan,
    /// What it has scanned while it waited for an earlier one.
    ready: VecDeque<Message>,
    waiting: Arc<Waiting>,
    is_scanned: bool,
}

impl OwnScan {
    fn next(&mut self) -> Message {
        match self.ready.pop_front() {
            Some(message) => {
                self.waiting.remove(&message);
                message
            }
            None => self.scan.next_batch(),
        }
    }

    /// Scans one more batch ahead, if there is one and room for it. Says whether it did.
    ///
    /// # Errors
    /// `Interrupted`: that is of the whole scan. Others come after the rows before them.
    fn scan_ahead(&mut self) -> Result<bool> {
        if self.is_scanned || self.ready.len() == BATCHES_AHEAD {
            return Ok(false);
        }
        let message = self.scan.next_batch();
        if let Err(error) = &message
            && error.kind() == ErrorKind::Interrupted
        {
            return Err(error.clone());
        }
        self.is_scanned = !matches!(message, Ok(Some(_)));
        self.waiting.add(&message);
        self.ready.push_back(message);
        Ok(true)
    }
}

impl ScanAhead {
    /// Starts to scan a partition with some threads, of which one is the caller's: two at least.
    pub fn start(
        whole: &KeyPartition,
        partition_rows: Option<u64>,
        threads: usize,
    ) -> Result<ScanAhead> {
        let stop = Arc::new(AtomicBool::new(false));
        let few_bytes = whole.rows_worth(threads).filter(|_| partition_rows.is_none());
        let partition_rows = partition_rows.or(few_bytes);
        let helps = whole.shows_all();
        let interrupt = whole.interrupt().clone();
        let (asked, stopped) = (interrupt.clone(), stop.clone());
        let workers_stop = move || stopped.load(Ordering::Relaxed) || asked.check().is_err();
        let whole = whole.interrupted_by(Interrupt::new(Arc::new(workers_stop)));
        let (sender, scans) = channel();
        let scans = Arc::new(Mutex::new(scans));
        let mut scan = ScanAhead {
            left: whole
                .partition_by_keys(whole.worth(partition_rows).min(PARTITIONS_AT_ONCE))?
                .into(),
            partition_rows,
            handed_out: VecDeque::new(),
            handed_out_max: threads * PARTITIONS_PER_THREAD,
            numbers: 0,
            memory: whole.memory().clone(),
            waiting: Arc::new(Waiting::new(threads, whole.memory().clone())),
            scans: Some(sender),
            to_scan: scans.clone(),
            own: Vec::new(),
            helps,
            workers: Vec::with_capacity(threads),
            stop,
            interrupt,
        };
        for _ in usize::from(helps)..threads {
            let scans = scans.clone();
            let worker = Builder::new()
                .name("drillcore-scan".into())
                .stack_size(STACK_BYTES)
                .spawn(move || work(&scans))
                .map_err(|error| Error::io("cannot start a thread", error))?;
            scan.workers.push(worker);
        }
        scan.hand_out()?;
        Ok(scan)
    }

    /// The next batch in the order of the scan; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.interrupt.check()?;
        while let Some(front) = self.handed_out.front() {
            let own = self.own.iter_mut().find(|own| own.number == front.number);
            let message = match own {
                Some(own) => own.next(),
                None => match front.batches.try_recv() {
                    Ok(message) => {
                        front.taken(&message);
                        message
                    }
                    Err(TryRecvError::Disconnected) => self.break_off(),
                    Err(TryRecvError::Empty) if self.scan_own()? => continue,
                    Err(TryRecvError::Empty) => match self.wait_for_front()? {
                        Some(message) => message,
                        None => continue,
                    },
                },
            };
            let Ok(None) = message else { return message };
            let read = self.handed_out.pop_front().expect("it is at the front");
            self.own.retain(|own| own.number != read.number);
            self.waiting.front.store(read.number + 1, Ordering::Relaxed);
            self.hand_out()?;
        }
        Ok(None)
    }

    /// Waits for a moment for the partition that comes next.
    fn wait_for_front(&mut self) -> Result<Option<Message>> {
        let front = self.handed_out.front().expect("one is waited for");
        match front.batches.recv_timeout(POLL) {
            Ok(message) => {
                front.taken(&message);
                Ok(Some(message))
            }
            Err(RecvTimeoutError::Disconnected) => self.break_off(),
            Err(RecvTimeoutError::Timeout) => self.interrupt.check().map(|()| None),
        }
    }

    /// Scans a batch in this thread, of a partition that no other has begun. Says whether there was one.
    fn scan_own(&mut self) -> Result<bool> {
        if !self.helps || !self.waiting.has_room() {
            return Ok(false);
        }
        if let Some(last) = self.own.last_mut()
            && last.scan_ahead()?
        {
            return Ok(true);
        }
        // A thread that waits for one holds the lock.
        let next = self.to_scan.try_lock().and_then(|to_scan| to_scan.try_recv().ok());
        let Some(PartitionToScan { number, partition, .. }) = next else { return Ok(false) };
        let scan = HeldScan::start(&partition);
        let (ready, waiting) = (VecDeque::new(), self.waiting.clone());
        self.own.push(OwnScan { number, scan, ready, waiting, is_scanned: false });
        Ok(true)
    }

    /// Hands out the next partitions, as many as there may be.
    fn hand_out(&mut self) -> Result<()> {
        while self.handed_out.len() < self.handed_out_max {
            let has_one = !self.handed_out.is_empty();
            let Some(_ahead) = self.memory.read_ahead(has_one) else { break };
            let Some(partition) = self.next_partition()? else { break };
            let (sender, batches) = sync_channel(BATCHES_AHEAD);
            let (scans, number) = (self.scans.as_ref(), self.numbers);
            self.numbers += 1;
            // If all threads panicked, the reader learns that from a queue.
            let (own_bytes, waiting) = (Arc::new(AtomicUsize::new(0)), self.waiting.clone());
            let (batches_sent, own, all) = (sender, own_bytes.clone(), waiting.clone());
            let to_scan = PartitionToScan {
                number,
                partition,
                batches: batches_sent,
                own_bytes: own,
                waiting: all,
            };
            let _ = scans.expect("open until it is dropped").send(to_scan);
            self.handed_out.push_back(HandedOut { number, batches, own_bytes, waiting, _ahead });
        }
        Ok(())
    }

    /// Cuts the next partition off what is left.
    fn next_partition(&mut self) -> Result<Option<KeyPartition>> {
        while let Some(partition) = self.left.pop_front() {
            let worth = partition.worth(self.partition_rows);
            if worth < WORTH_CUTTING {
                return Ok(Some(partition));
            }
            let parts = partition.partition_by_keys(worth.min(PARTITIONS_AT_ONCE))?;
            if parts.len() == 1 {
                return Ok(Some(partition));
            }
            parts.into_iter().rev().for_each(|partition| self.left.push_front(partition));
        }
        Ok(None)
    }

    /// A thread ended in the middle of a partition: its panic becomes the reader's.
    fn break_off(&mut self) -> ! {
        match self.end().pop() {
            Some(panic) => resume_unwind(panic),
            None => unreachable!("a thread ends its partition unless it panics"),
        }
    }

    /// Ends the threads, and says which of them panicked.
    fn end(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.stop.store(true, Ordering::Relaxed);
        // Threads wait for work, or for room in a queue, and go when either is taken away.
        self.scans = None;
        self.handed_out.clear();
        self.workers.drain(..).filter_map(|worker| worker.join().err()).collect()
    }
}

impl Drop for ScanAhead {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a thread does until nothing more is handed out.
fn work(scans: &Mutex<Receiver<PartitionToScan>>) {
    loop {
        let scan = scans.lock().recv();
        let Ok(scan) = scan else { return };
        // An error is the reader's, who may be gone.
        if let Err(error) = scan.scan() {
            let _ = scan.batches.send(Err(error));
        }
    }
}

impl PartitionToScan {
    /// Sends the batches of the partition, then its end; stops when the receiver is gone.
    fn scan(&self) -> Result<()> {
        let mut scan = HeldScan::start(&self.partition);
        loop {
            while !self.has_room() {
                self.partition.interrupt().check()?;
                sleep(ROOM_POLL);
            }
            let message = Ok(scan.next_batch()?);
            let is_end = matches!(message, Ok(None));
            self.own_bytes.fetch_add(message_bytes(&message), Ordering::Relaxed);
            self.waiting.add(&message);
            if self.batches.send(message).is_err() || is_end {
                return Ok(());
            }
        }
    }

    /// Whether one more batch may wait for the reader.
    fn has_room(&self) -> bool {
        self.waiting.has_room()
            || (self.waiting.front.load(Ordering::Relaxed) == self.number
                && self.waiting.front_has_room(self.own_bytes.load(Ordering::Relaxed)))
    }
}
