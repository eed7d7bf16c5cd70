//! Several threads that scan partitions ahead of who reads them, in key order.
//!
//! The reader hands out partitions in order, never more than [`PARTITIONS_PER_THREAD`] for each thread, and each
//! has a queue of its own of at most [`BATCHES_AHEAD`] batches. So memory is bounded however slow the reader is; of many
//! scans at once, it is bounded for all together, and each gets one partition at least ([`ReadMemory`]). And the partition that the reader waits for is always somebody's work. Nothing that is logged or visible
//! depends on these threads, so they and their queues are the standard library's.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use arrow_array::RecordBatch;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::read::partition::KeyPartition;
use crate::select::read_memory::{Ahead, ReadMemory};

/// Partitions handed out and not read to their end. Two, so that a thread need not wait for the reader.
const PARTITIONS_PER_THREAD: usize = 2;
/// Batches of a partition that wait for the reader: of most partitions all, so that its thread goes on to the next.
const BATCHES_AHEAD: usize = 16;
/// Larger partitions are cut again before they are handed out ...
const WORTH_CUTTING: usize = 4;
/// ... into up to so many, so that the first rows need not wait until all cuts are made.
const PARTITIONS_AT_ONCE: usize = 64;
/// How often a waiting reader's interrupt is asked.
const POLL: Duration = Duration::from_millis(20);
/// The stack of a thread: tests of deep conditions take a stack of their own where less than 4 MiB are left.
const STACK_BYTES: usize = 8 << 20;

/// A batch of a partition, or its end.
type Message = Result<Option<RecordBatch>>;

/// A scan under way. Dropping it ends its threads.
pub struct ScanAhead {
    /// What has not been handed out, in order.
    left: VecDeque<KeyPartition>,
    /// Rows that a partition should have.
    partition_rows: Option<u64>,
    /// What was handed out and not read to its end, in order.
    queues: VecDeque<(Receiver<Message>, Ahead)>,
    /// How many may be.
    queues_max: usize,
    memory: Arc<ReadMemory>,
    /// `None` once nothing more is handed out.
    scans: Option<Sender<PartitionToScan>>,
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The reader's own.
    interrupt: Interrupt,
}

/// A partition to scan, and where its batches go.
struct PartitionToScan {
    partition: KeyPartition,
    batches: SyncSender<Message>,
}

impl ScanAhead {
    /// Starts to scan a partition with some threads.
    pub fn start(
        whole: &KeyPartition,
        partition_rows: Option<u64>,
        threads: usize,
    ) -> Result<ScanAhead> {
        let stop = Arc::new(AtomicBool::new(false));
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
            queues: VecDeque::new(),
            queues_max: threads * PARTITIONS_PER_THREAD,
            memory: whole.memory().clone(),
            scans: Some(sender),
            workers: Vec::with_capacity(threads),
            stop,
            interrupt,
        };
        for _ in 0..threads {
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
        while let Some((queue, _)) = self.queues.front() {
            match queue.recv_timeout(POLL) {
                Ok(Ok(None)) => {
                    self.queues.pop_front();
                    self.hand_out()?;
                }
                Ok(batch) => return batch,
                Err(RecvTimeoutError::Timeout) => self.interrupt.check()?,
                Err(RecvTimeoutError::Disconnected) => self.break_off(),
            }
        }
        Ok(None)
    }

    /// Hands out the next partitions, as many as there may be.
    fn hand_out(&mut self) -> Result<()> {
        while self.queues.len() < self.queues_max {
            let Some(ahead) = self.memory.read_ahead(!self.queues.is_empty()) else { break };
            let Some(partition) = self.next_partition()? else { break };
            let (batches, queue) = sync_channel(BATCHES_AHEAD);
            let scans = self.scans.as_ref().expect("open until it is dropped");
            // Nobody takes it if all threads panicked, which the reader learns from its queue.
            let _ = scans.send(PartitionToScan { partition, batches });
            self.queues.push_back((queue, ahead));
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
            let cut = partition.partition_by_keys(worth.min(PARTITIONS_AT_ONCE))?;
            if cut.len() == 1 {
                return Ok(Some(partition));
            }
            cut.into_iter().rev().for_each(|partition| self.left.push_front(partition));
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
        self.queues.clear();
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
        let Ok(PartitionToScan { partition, batches }) = scan else { return };
        // An error is the reader's, who may be gone.
        if let Err(error) = scan_into(&partition, &batches) {
            let _ = batches.send(Err(error));
        }
    }
}

/// Sends the batches of a partition, then its end; stops when the receiver is gone.
fn scan_into(partition: &KeyPartition, batches: &SyncSender<Message>) -> Result<()> {
    let mut scan = partition.start();
    loop {
        let batch = scan.next_batch()?;
        let is_end = batch.is_none();
        if batches.send(Ok(batch)).is_err() || is_end {
            return Ok(());
        }
    }
}
