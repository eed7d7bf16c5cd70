//! The parts of an open database and how they hang together; shared by handles, snapshots and workers.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::schema::ExpiryLimit;
use drillcore_storage::files::directory::{Directory, Lock};
use drillcore_storage::files::lease::{DeferredRemovals, Lease};
use drillcore_storage::files::process::Process;
use drillcore_storage::log::wal::Wal;
use drillcore_storage::manifest::Manifest;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use drillcore_storage::sync::{Condvar, Mutex, MutexGuard, thread};

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind};
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::pieces::rows_examined::RowsExamined;
use crate::state::clock::Clock;
use crate::state::expiring::Expiring;
use crate::state::guarded::State;
use crate::state::newest_version::ShownVersion;
use crate::state::options::{Durability, Options};
use crate::state::plenty::Plenty;
#[cfg(feature = "shuttle")]
use crate::state::publication_fault::PublicationFault;
use crate::state::underway::CallsUnderway;
use crate::state::version::Version;
use crate::state::work_signal::WorkSignal;

/// Lists of sets that are being made, of all segments, have this share of `memory_bytes`, ...
const SET_LIST_SHARE: u64 = 8;
/// ... but those of one segment no less than this: else small databases would list few sets at a time.
const SET_LIST_BYTES_MIN: u64 = 4 << 20;
/// How often a fork tries to take the state's lock, which its own threads hold for moments only ...
const FORK_TRIES: u32 = 100;
/// ... and how long it waits in between.
const FORK_PAUSE: Duration = Duration::from_millis(10);

/// An open database. Locks are taken in the order manifest, state.
pub struct Core {
    pub directory: Arc<dyn Directory>,
    pub options: Options,
    pub cache: Arc<PageCache>,
    pub removals: Arc<DeferredRemovals>,
    pub meter: MemoryMeter,
    pub rows_examined: RowsExamined,
    /// By which rows expire.
    pub clock: Clock,
    pub manifest: Mutex<Manifest>,
    /// Set once recovery has read it; absent with durability `none`.
    pub wal: OnceLock<Wal>,
    state: Mutex<State>,
    /// How often it was locked.
    #[cfg(test)]
    pub locked: std::sync::atomic::AtomicU64,
    /// The one that opened the database, and has the threads for it.
    process: Process,
    /// Signalled to calls that wait when pieces, holds or failures change; ...
    state_changed: Condvar,
    /// ... how many there are, counted under the lock; ...
    calls_waiting: AtomicU32,
    /// ... and to workers, when there may be more to do.
    pub work: Arc<WorkSignal>,
    visible: AtomicU64,
    shown: Arc<ShownVersion>,
    /// Calls that write, and jobs that were picked, that are not done yet: closing waits for them.
    pub underway: CallsUnderway,
    next_segment: AtomicU64,
    /// The segments that may be held, also those that left their table.
    segments: parking_lot::Mutex<Vec<Weak<Segment>>>,
    /// Whether the disk has room for them without asking it.
    pub plenty: Plenty,
    /// Bytes of commits that are about to be logged.
    pub unlogged_bytes: std::sync::atomic::AtomicU64,
    /// The files go with the last handle, so closing leaves in memory what is there.
    dies_with_handles: OnceLock<()>,
    /// Held while the database is open for writing; freed by `close`.
    pub lock: Mutex<Option<Box<dyn Lock>>>,
}

/// A call that writes, until dropped.
pub struct Underway<C: Borrow<Core>>(C);

impl Underway<Arc<Core>> {
    /// What is left of a call under way, which may end before it.
    pub fn rest_of_call(core: Arc<Core>) -> Underway<Arc<Core>> {
        core.underway.go_on();
        Underway(core)
    }
}

impl<C: Borrow<Core>> Deref for Underway<C> {
    type Target = Core;

    fn deref(&self) -> &Core {
        self.0.borrow()
    }
}

impl<C: Borrow<Core>> Drop for Underway<C> {
    fn drop(&mut self) {
        self.0.borrow().end_underway();
    }
}

impl Core {
    pub fn new(
        directory: Arc<dyn Directory>,
        lock: Box<dyn Lock>,
        options: Options,
        cache: Arc<PageCache>,
        manifest: Manifest,
        next_segment: SegmentId,
        state: State,
    ) -> Core {
        Core {
            removals: Arc::new(DeferredRemovals::new(directory.clone())),
            directory,
            meter: state.reads.meter.clone(),
            options,
            cache,
            rows_examined: RowsExamined::default(),
            clock: Clock::default(),
            manifest: Mutex::new(manifest),
            wal: OnceLock::new(),
            visible: AtomicU64::new(state.next_lsn.0 - 1),
            shown: state.shown_version().clone(),
            work: state.work.clone(),
            state: Mutex::new(state),
            #[cfg(test)]
            locked: std::sync::atomic::AtomicU64::new(0),
            process: Process::current(),
            state_changed: Condvar::new(),
            calls_waiting: AtomicU32::new(0),
            underway: CallsUnderway::none(),
            next_segment: AtomicU64::new(next_segment.0),
            segments: parking_lot::Mutex::default(),
            plenty: Plenty::unknown(),
            unlogged_bytes: std::sync::atomic::AtomicU64::new(0),
            dies_with_handles: OnceLock::new(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Has closing write nothing out: the files go with the last handle.
    pub fn die_with_handles(&self) {
        let _ = self.dies_with_handles.set(());
    }

    /// Whether closing has to write out what is in memory, as nothing else keeps it.
    pub fn is_kept_by_closing(&self) -> bool {
        self.options.durability == Durability::None && self.dies_with_handles.get().is_none()
    }

    /// What rows may take of the budget: all that is not filled with what reads found out and with lists of sets, and half of it at
    /// least.
    pub fn memory_for_rows(&self) -> u64 {
        let all = self.options.memory_bytes;
        all - self.meter.bytes_beside_rows().min(all / 2)
    }

    /// Whether the lists of a segment that is written have no room any more, as far as they take `own` bytes.
    pub fn lacks_room_for_set_lists(&self, own: u64) -> bool {
        let share = self.options.memory_bytes / SET_LIST_SHARE;
        own > SET_LIST_BYTES_MIN && self.meter.set_list_bytes() > share
    }

    /// What the lists of a segment may take that was written without, of which `own` bytes are counted: half of the share, so that
    /// segments which are written have the other half.
    pub fn room_for_later_set_lists(&self, own: u64) -> u64 {
        let others = self.meter.set_list_bytes().saturating_sub(own);
        let half = self.options.memory_bytes / SET_LIST_SHARE / 2;
        half.saturating_sub(others).max(SET_LIST_BYTES_MIN)
    }

    /// The bytes of rows in memory that no table has any more, as snapshots hold them. What is about to be freed does not count.
    pub fn held_row_bytes(&self, state: &State) -> u64 {
        self.meter.row_bytes().saturating_sub(state.row_bytes() + state.retired.free_bytes())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.note_locked();
        self.state.lock()
    }

    fn note_locked(&self) {
        #[cfg(test)]
        self.locked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// The state of a database that is open.
    ///
    /// # Errors
    /// `Closed`; in a fork of the process that opened the database `ReadOnly`, if a thread there held the lock at
    /// the fork: no thread here will free it.
    pub fn open_state(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state_unless_lost()?;
        state.check_open()?;
        Ok(state)
    }

    /// The state, also of a closed database; in a fork an error if it can never be had.
    pub fn state_unless_lost(&self) -> Result<MutexGuard<'_, State>, Error> {
        // The process is checked only where the lock is held: that is a system call.
        if let Some(state) = self.state.try_lock() {
            self.note_locked();
            return Ok(state);
        }
        match self.check_process() {
            Ok(()) => Ok(self.state()),
            Err(forked) => self.state_in_fork().ok_or(forked),
        }
    }

    /// Refuses to write in a fork of the process that opened the database. To be called before any lock is taken.
    pub fn check_process(&self) -> Result<(), Error> {
        let forked = |error: std::io::Error| {
            Error::new(ErrorKind::ReadOnly, error.to_string()).with_source(error)
        };
        self.process.check().map_err(forked)
    }

    fn state_in_fork(&self) -> Option<MutexGuard<'_, State>> {
        for _ in 0..FORK_TRIES {
            if let Some(state) = self.state.try_lock() {
                return Some(state);
            }
            thread::sleep(FORK_PAUSE);
        }
        None
    }

    /// Begins a call that writes. Closing waits for it.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`.
    pub fn begin(&self) -> Result<Underway<&Core>, Error> {
        self.check_process()?;
        if self.underway.begin() {
            return Ok(Underway(self));
        }
        let why = self.state().check_writable();
        Err(why.expect_err("why calls are refused is noted before they are"))
    }

    /// Ends a call or a job that was counted as under way.
    pub fn end_underway(&self) {
        if self.underway.end() {
            // Closing has either counted it, and waits by now, or has not counted yet.
            drop(self.state());
            self.wake_all();
        }
    }

    /// [`Core::wait`], but for moments only, and not if the caller wants out.
    pub fn wait_or_stop<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        interrupt: &Interrupt,
    ) -> Result<MutexGuard<'a, State>, Error> {
        if !interrupt.may_stop() {
            return Ok(self.wait(state));
        }
        let waited =
            self.counted_as_waiting(|| self.state_changed.wait_timeout(state, Interrupt::POLL));
        // Not under the lock: the interrupt may wait for a thread that wants it.
        drop(waited);
        interrupt.check()?;
        Ok(self.state())
    }

    /// Waits for a signal, giving up the lock meanwhile.
    pub fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.counted_as_waiting(|| self.state_changed.wait(state))
    }

    fn counted_as_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.calls_waiting.fetch_add(1, Ordering::AcqRel);
        let waited = wait();
        self.calls_waiting.fetch_sub(1, Ordering::AcqRel);
        waited
    }

    /// Waits, as a worker, until there may be more to do, or until a moment at most.
    pub fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let Some(until) = until else { return self.work.came.wait(state) };
        let timeout = until.saturating_duration_since(Instant::now());
        self.work.came.wait_timeout(state, timeout)
    }

    /// Wakes the calls that wait, after what gives workers nothing to do, or nothing yet. What they wait for was changed under
    /// the lock, and a call is counted under it before it waits. Where none waits, no signal is sent, which saves a system call.
    pub fn wake_calls(&self) {
        if self.calls_waiting.load(Ordering::Acquire) > 0 {
            self.state_changed.notify_all();
        }
    }

    pub fn wake_workers(&self) {
        self.work.came.notify_all();
    }

    pub fn wake_all(&self) {
        self.wake_calls();
        self.wake_workers();
    }

    pub fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock()
    }

    /// The highest LSN below which every commit is published and logged.
    pub fn visible(&self) -> Lsn {
        Lsn(self.visible.load(Ordering::Acquire))
    }

    /// Makes all commits up to `lsn` visible.
    pub fn show(&self, lsn: Lsn) {
        self.visible.fetch_max(lsn.0, Ordering::AcqRel);
    }

    pub fn new_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }

    /// The first number that no segment was given yet.
    pub fn next_segment(&self) -> SegmentId {
        SegmentId(self.next_segment.load(Ordering::Relaxed))
    }

    /// Notes a segment that was opened.
    pub fn note_segment(&self, segment: &Arc<Segment>) {
        let mut segments = self.segments.lock();
        if segments.len() == segments.capacity() {
            segments.retain(|segment| segment.strong_count() > 0);
            let len = segments.len();
            segments.reserve(len + 1);
        }
        segments.push(Arc::downgrade(segment));
    }

    /// Has the files of all segments that are still held leased, as those of a reader are: once this
    /// database is closed, another process may write to it. To be called before it may. Where no lease can be
    /// had, files that another process removes are gone for snapshots, too.
    pub fn lease_segments(&self, nonce: u64) {
        let segments = self.segments.lock();
        let held: Vec<Arc<Segment>> = segments.iter().filter_map(Weak::upgrade).collect();
        drop(segments);
        if held.is_empty() {
            return;
        }
        let version = self.manifest().version();
        if let Ok(lease) = Lease::take(self.directory.clone(), version, nonce).map(Arc::new) {
            held.iter().for_each(|segment| segment.keep_leased(&lease));
        }
    }

    /// All tables at the visible LSN and the time of day. Finds what has expired, which takes a look at the pieces where that
    /// was not found before.
    pub fn version(&self) -> Result<Arc<Version>, Error> {
        self.version_interruptibly(&Interrupt::never())
    }

    /// [`Core::version`] that can be stopped while it reads a column.
    pub fn version_interruptibly(&self, interrupt: &Interrupt) -> Result<Arc<Version>, Error> {
        let clock = self.clock.now();
        // Most calls find it so, and none waits for another then.
        if let Some(version) = self.shown.at(self.visible(), clock) {
            return Ok(version);
        }
        loop {
            if let Some(version) = self.version_if_known(clock)? {
                return Ok(version);
            }
            let unknown = self.open_state()?.expire(self.visible(), clock);
            self.find_expired(unknown, interrupt)?;
        }
    }

    /// Finds what has expired of some pieces, and what will next.
    pub fn find_expired(
        &self,
        unknown: Vec<(TableId, ExpiryLimit, Piece)>,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        for (id, limit, piece) in unknown {
            let layout = match self.open_state()?.tables.get(&id) {
                Some(table) => table.layout.clone(),
                None => continue,
            };
            let ttl = layout.schema().ttl;
            if ttl.is_none_or(|ttl| ttl.column != limit.column) {
                continue;
            }
            let (gone, next) = Expiring::find(&piece, &layout, limit, &self.meter, interrupt)?;
            let mut state = self.open_state()?;
            // Under another time to live, other rows are gone.
            if let Some(table) = state.tables.get_mut(&id).filter(|table| table.schema.ttl == ttl) {
                table.note_expiring(&piece.array, &gone, next);
            }
        }
        Ok(())
    }

    /// All tables at the visible LSN, if it is known of all their rows whether they have expired at `clock`.
    fn version_if_known(&self, clock: u64) -> Result<Option<Arc<Version>>, Error> {
        #[cfg(feature = "shuttle")]
        let too_early = PublicationFault::LookBeforeLocking.is_injected().then(|| self.visible());
        let mut state = self.open_state()?;
        // Read under the lock, so that every run up to it is in the lists, and no run has been compacted with a
        // later one.
        let visible = self.visible();
        #[cfg(feature = "shuttle")]
        let visible = too_early.unwrap_or(visible);
        if let Some(known) = state.known_version(visible, clock) {
            return Ok(Some(known));
        }
        let is_known = state.expire(visible, clock).is_empty();
        if !is_known {
            return Ok(None);
        }
        let (version, replaced) = state.version(visible);
        drop(state);
        drop(replaced);
        Ok(Some(version))
    }

    /// Turns the database read-only and wakes those who wait. Work that was stopped has not failed.
    pub fn fail(&self, error: &Error) {
        if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Closed) {
            return;
        }
        let mut state = self.state();
        state.fail(error);
        if state.failure.is_some() {
            self.underway.refuse();
        }
        drop(state);
        self.wake_all();
    }
}
