//! The batch that threads fill, and the thread that commits it.
//!
//! While one batch is committed, the next fills. An add that finds that one full waits, so there are never more rows in
//! memory than in two batches. What could not be stored is reported once, by the next call of any thread.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::Lsn;
use drillcore_storage::sync::thread::{self, JoinHandle};
use drillcore_storage::sync::{Condvar, Mutex, MutexGuard};

use crate::calls::interrupt::Interrupt;
use crate::database::background_writer::add::Add;
use crate::database::background_writer::batch_commit::{Outcome, commit_adds, is_about_the_rows};
use crate::database::background_writer::failed_rows::FailedRows;
use crate::database::background_writer::open_batch::OpenBatch;
use crate::database::background_writer::writer_options::Limits;
use crate::database::handles::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::conform::OnError;

/// What a writer has done: [`TableWriter::stats`](crate::TableWriter::stats).
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// let writer = flights.writer(Default::default())?;
/// writer.add(&batch)?;
/// writer.flush()?;
/// let stats = writer.stats();
/// assert_eq!((stats.rows, stats.commits, stats.waiting_rows), (100, 1, 0));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AddStats {
    /// Rows stored.
    pub rows: u64,
    /// Commits made.
    pub commits: u64,
    /// Rows that were taken and could not be stored, and with `OnError::Skip` those that did not fit.
    pub failed_rows: u64,
    /// Rows that wait for their commit, or are in one under way.
    pub waiting_rows: u64,
    /// Calls of `add` that waited, because a batch was full and the one before it was not committed yet.
    pub waits: u64,
    /// How long they waited together.
    pub wait: Duration,
}

/// What threads share.
struct Queue {
    database: Database,
    limits: Limits,
    /// Whether an add is stored as a whole or not at all.
    keeps_adds_whole: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    filling: OpenBatch,
    /// Adds taken so far, and of these, those that are committed or failed.
    added: u64,
    done: u64,
    /// Adds that are to be committed without waiting for more.
    wanted: u64,
    is_closing: bool,
    has_ended: bool,
    lsn: Option<Lsn>,
    stats: AddStats,
    /// Why rows failed, until a call reports it.
    unreported: Option<Error>,
    failed: Vec<FailedRows>,
}

/// A queue and its thread. Dropping it commits what was added.
pub struct RowQueue {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl RowQueue {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io` if no thread can be had.
    pub fn start(database: &Database, limits: Limits, keeps_adds_whole: bool) -> Result<RowQueue> {
        let database = database.interrupted_by(Interrupt::never());
        let (state, changed) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { database, limits, keeps_adds_whole, state, changed });
        let worker = queue.clone();
        let thread = thread::Builder::new().name("drillcore-writer".into());
        let thread = thread
            .spawn(move || worker.commit_all())
            .map_err(|error| Error::io("cannot start a thread for the writer", error))?;
        Ok(RowQueue { queue, thread: Mutex::new(Some(thread)) })
    }

    pub fn limits(&self) -> &Limits {
        &self.queue.limits
    }

    /// Takes rows, of which the oldest has waited for some time already. Waits while there is no room.
    ///
    /// # Errors
    /// Why rows taken earlier failed, if no call has reported that yet; `Interrupted`; `Closed`; `ReadOnly` in a fork. The
    /// rows of this call are not taken.
    pub fn add(&self, add: Add, waited: Duration, interrupt: &Interrupt) -> Result<()> {
        let queue = &*self.queue;
        queue.check_process()?;
        let bytes = add.bytes();
        let mut wait_began = None;
        let mut state = queue.state.lock();
        loop {
            if let Err(error) = state.check() {
                state.note_wait(wait_began);
                return Err(error);
            }
            if state.filling.has_room(&add, bytes, &queue.limits) {
                break;
            }
            wait_began.get_or_insert_with(Instant::now);
            // So that a batch that is not full is committed, too, if this does not fit beside what it has.
            state.wanted = state.added;
            queue.changed.notify_all();
            state = queue.wait(state, interrupt).inspect_err(|_| {
                queue.state.lock().note_wait(wait_began);
            })?;
        }
        state.note_wait(wait_began);
        let was_empty = state.filling.is_empty();
        state.stats.waiting_rows += add.rows() as u64;
        state.filling.push(add, bytes, waited, queue.keeps_adds_whole);
        state.added += 1;
        let is_news = was_empty || state.filling.is_full(&queue.limits);
        drop(state);
        if is_news {
            queue.changed.notify_all();
        }
        Ok(())
    }

    /// Counts rows that an add left out.
    pub fn note_rejected(&self, rows: usize) {
        self.queue.state.lock().stats.failed_rows += rows as u64;
    }

    /// See [`TableWriter::flush`](crate::TableWriter::flush).
    pub fn flush(&self, interrupt: &Interrupt) -> Result<Lsn> {
        let queue = &*self.queue;
        queue.check_process()?;
        let mut state = queue.state.lock();
        let target = state.added;
        state.wanted = target;
        queue.changed.notify_all();
        while state.done < target {
            state = queue.wait(state, interrupt)?;
        }
        state.reported()?;
        let lsn = state.lsn;
        drop(state);
        lsn.map_or_else(|| queue.database.refresh(), Ok)
    }

    /// See [`TableWriter::close`](crate::TableWriter::close).
    pub fn close(&self, interrupt: &Interrupt) -> Result<Lsn> {
        let queue = &*self.queue;
        queue.check_process()?;
        let mut state = queue.state.lock();
        state.is_closing = true;
        queue.changed.notify_all();
        while !state.has_ended {
            state = queue.wait(state, interrupt)?;
        }
        drop(state);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // It has no more to do but to end.
            let _ = thread.join();
        }
        let mut state = queue.state.lock();
        state.reported()?;
        let lsn = state.lsn;
        drop(state);
        lsn.map_or_else(|| queue.database.refresh(), Ok)
    }

    pub fn stats(&self) -> AddStats {
        self.queue.state.lock().stats
    }

    pub fn take_failed(&self) -> Vec<FailedRows> {
        mem::take(&mut self.queue.state.lock().failed)
    }
}

impl Drop for RowQueue {
    fn drop(&mut self) {
        if self.queue.check_process().is_err() {
            // In a fork there is no thread, and a lock may have been held when it was forked.
            if let Some(thread) = self.thread.get_mut().take() {
                mem::forget(thread);
            }
            return;
        }
        // No caller is left for an error.
        let _ = self.close(&Interrupt::never());
    }
}

impl Queue {
    fn check_process(&self) -> Result<()> {
        self.database.core()?.check_process()
    }

    /// The work of the thread.
    fn commit_all(&self) {
        while let Some(batch) = self.next_due() {
            let mut outcome = Outcome::default();
            let (calls, rows) = (batch.calls, batch.rows);
            commit_adds(&batch.into_adds(), self.keeps_adds_whole, &mut outcome);
            self.state.lock().note(outcome, calls, rows, &self.limits);
            self.changed.notify_all();
        }
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// The batch, once it is to be committed; `None` once no more will come.
    fn next_due(&self) -> Option<OpenBatch> {
        let mut state = self.state.lock();
        loop {
            let is_wanted = state.is_closing || state.wanted > state.done;
            let time_left = state.filling.time_left(&self.limits);
            let is_due =
                state.filling.is_full(&self.limits) || time_left.is_some_and(|left| left.is_zero());
            if !state.filling.is_empty() && (is_wanted || is_due) {
                let batch = mem::take(&mut state.filling);
                drop(state);
                self.changed.notify_all();
                return Some(batch);
            }
            if state.is_closing {
                return None;
            }
            state = match time_left {
                None => self.changed.wait(state),
                Some(left) => self.changed.wait_timeout(state, left),
            };
        }
    }

    /// Waits for a change, and asks now and then whether the caller wants out.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        interrupt: &Interrupt,
    ) -> Result<MutexGuard<'a, State>> {
        if !interrupt.may_stop() {
            return Ok(self.changed.wait(state));
        }
        // Not under the lock: the interrupt may wait for a thread that wants it.
        drop(self.changed.wait_timeout(state, Interrupt::POLL));
        interrupt.check()?;
        Ok(self.state.lock())
    }
}

impl State {
    /// Whether rows can be taken.
    fn check(&mut self) -> Result<()> {
        self.reported()?;
        match self.is_closing {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Closed, "the writer is closed; open a new writer")),
        }
    }

    /// Why rows failed since the last report.
    fn reported(&mut self) -> Result<()> {
        self.unreported.take().map_or(Ok(()), Err)
    }

    fn note_wait(&mut self, began: Option<Instant>) {
        if let Some(began) = began {
            self.stats.waits += 1;
            self.stats.wait += began.elapsed();
        }
    }

    /// Counts what became of a batch: of its rows, and of the calls that had added them.
    fn note(&mut self, outcome: Outcome, calls: u64, batch_rows: usize, limits: &Limits) {
        let Outcome { rows, commits, lsn, failed } = outcome;
        self.done += calls;
        self.lsn = self.lsn.max(lsn);
        self.stats.rows += rows;
        self.stats.commits += commits;
        self.stats.waiting_rows -= batch_rows as u64;
        let failed_rows: usize = failed.iter().map(|failed| failed.rows.num_rows()).sum();
        self.stats.failed_rows += failed_rows as u64;
        let grave = failed.iter().find(|failed| !is_about_the_rows(&failed.error));
        let first = grave.or_else(|| failed.first().filter(|_| limits.on_error == OnError::Raise));
        if let (Some(first), None) = (first, &self.unreported) {
            let rows = if failed_rows == 1 { "row" } else { "rows" };
            let message = format!(
                "{failed_rows} {rows} added earlier could not be stored: {}; take the failed rows from the writer, and add \
                 them again once the cause is fixed",
                first.error
            );
            let error = Error::new(first.error.kind(), message);
            self.unreported = Some(error.with_source(first.error.clone()));
        }
        self.keep(failed, 2 * limits.rows);
    }

    /// Keeps failed rows until they are taken: those of one more failure after as many as a call may have caused.
    fn keep(&mut self, failed: Vec<FailedRows>, rows_max: usize) {
        let mut kept: usize = self.failed.iter().map(|failed| failed.rows.num_rows()).sum();
        for failed in failed {
            if kept >= rows_max {
                return;
            }
            kept += failed.rows.num_rows();
            self.failed.push(failed);
        }
    }
}
