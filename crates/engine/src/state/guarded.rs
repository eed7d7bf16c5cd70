//! What a database holds at this moment, behind one short lock.
//!
//! The lock guards lists of shared, immutable pieces; it is held to look, to append one piece or to swap
//! a few for one, never while rows are encoded, sorted, merged, read or written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::schema::ExpiryLimit;

use crate::error::{Error, ErrorKind, Result};
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::select::read_memory::ReadMemory;
use crate::state::compaction::Compaction;
use crate::state::newest_version::{NewestVersion, OldestSnapshot, Replaced, ShownVersion};
use crate::state::positions::Positions;
use crate::state::put_off::PutOff;
use crate::state::resting::Resting;
use crate::state::retired::Retired;
use crate::state::slots::release;
use crate::state::spilling::{Held, Spilling};
use crate::state::table_state::TableState;
use crate::state::version::{TableVersion, Version};
use crate::state::work_signal::WorkSignal;
use crate::state::worklist::Worklist;

/// The guarded part of a database.
pub struct State {
    pub tables: BTreeMap<TableId, TableState>,
    pub next_lsn: Lsn,
    pub next_table: TableId,
    /// No commit, table or merge begins any more; what is under way goes on.
    pub closing: bool,
    pub closed: bool,
    /// Nothing is written any more, and the lock is free.
    pub is_shut: bool,
    /// The first failed write; nothing is written after it.
    pub failure: Option<Error>,
    /// While above zero, background work does not start.
    pub holds: u32,
    /// Bytes of all runs in `tables`, of appends about to be among them, and of compactions under way.
    pub buffered_bytes: u64,
    /// Of those, what compactions under way take beside their runs.
    pub reserved_bytes: u64,
    /// Of those of all runs, what flushes under way have written already.
    pub flushed_bytes: u64,
    /// How long appends were made to wait, and how long of that for merges.
    pub stall: Duration,
    pub merge_stall: Duration,
    pub counts: MaintenanceCounts,
    /// Snapshots kept for good, by name.
    pub named: BTreeMap<String, Arc<Version>>,
    /// How far sources of rows have been read.
    pub positions: Positions,
    newest: NewestVersion,
    /// The latest time as of which snapshots know what has expired, in seconds since 1970.
    clock: u64,
    /// When rows that expire are looked for again, if some table has such.
    pub next_expiry: Instant,
    /// A thread does that now.
    pub is_expiring: bool,
    /// Which tables workers look at, and what they wait for.
    pub worklist: Worklist,
    pub resting: Resting,
    pub spilling: Spilling,
    pub retired: Retired,
    /// How many workers wait for something to do.
    pub workers_waiting: usize,
    /// How many compact runs.
    pub workers_compacting: usize,
    /// Commits that wait for memory.
    pub waiting_for_memory: u32,
    pub work: Arc<WorkSignal>,
    /// What reads may hold in memory together.
    pub reads: Arc<ReadMemory>,
}

/// How often which background work was done.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaintenanceCounts {
    pub memory_compactions: u64,
    pub flushes: u64,
    pub merges: u64,
    pub segments_indexed: u64,
    pub snapshot_spills: u64,
    pub rows_written: u64,
}

impl State {
    pub fn new(next_lsn: Lsn, reads: Arc<ReadMemory>) -> State {
        State {
            tables: BTreeMap::new(),
            next_lsn,
            next_table: TableId(1),
            closing: false,
            closed: false,
            is_shut: false,
            failure: None,
            holds: 0,
            buffered_bytes: 0,
            reserved_bytes: 0,
            flushed_bytes: 0,
            stall: Duration::ZERO,
            merge_stall: Duration::ZERO,
            counts: MaintenanceCounts::default(),
            named: BTreeMap::new(),
            positions: Positions::default(),
            newest: NewestVersion::default(),
            worklist: Worklist::default(),
            resting: Resting::default(),
            spilling: Spilling::default(),
            retired: Retired::default(),
            workers_waiting: 0,
            workers_compacting: 0,
            waiting_for_memory: 0,
            work: Arc::default(),
            reads,
            clock: 0,
            next_expiry: Instant::now(),
            is_expiring: false,
        }
    }

    /// Whether a named snapshot needs a segment.
    pub fn is_pinned(&self, id: SegmentId) -> bool {
        let segments = self.named.values().flat_map(|version| version.segments());
        segments.into_iter().any(|segment| segment.id() == id)
    }

    pub fn check_open(&self) -> Result<()> {
        if self.closed { Err(closed()) } else { Ok(()) }
    }

    /// Whether what was begun should be finished.
    pub fn check_not_closing(&self) -> Result<()> {
        if self.closing { Err(closed()) } else { Ok(()) }
    }

    /// Whether something new may be written.
    pub fn check_writable(&self) -> Result<()> {
        self.check_not_closing()?;
        self.check_flushable()
    }

    /// Whether rows that are in memory may be written out, which closing does, too.
    pub fn check_flushable(&self) -> Result<()> {
        self.check_open()?;
        match &self.failure {
            None => Ok(()),
            Some(first) => {
                let message = format!(
                    "a write failed and the database is now read-only ({first}); fix the cause, then reopen it"
                );
                Err(Error::new(ErrorKind::ReadOnly, message).with_source(first.clone()))
            }
        }
    }

    /// Turns the database read-only, for the first reason that came up, unless the error says that nothing was
    /// changed.
    pub fn fail(&mut self, error: &Error) {
        if error.kind() == ErrorKind::StorageFull {
            return;
        }
        self.failure.get_or_insert_with(|| error.clone());
    }

    /// Takes memory for a compaction.
    pub fn reserve(&mut self, bytes: u64) {
        self.buffered_bytes += bytes;
        self.reserved_bytes += bytes;
    }

    /// Gives back what a compaction took.
    pub fn give_back_reserved(&mut self, bytes: u64) {
        self.buffered_bytes -= bytes;
        self.reserved_bytes -= bytes;
    }

    /// The bytes of rows, those that are about to come included.
    pub fn row_bytes(&self) -> u64 {
        self.buffered_bytes - self.reserved_bytes
    }

    /// Why rows cannot leave memory, if it was tried often enough: waiting for it may be in vain.
    pub fn check_flushes_go_on(&self) -> Result<()> {
        let put_off = self.tables.values().filter_map(|table| table.flush_put_off.as_ref());
        match put_off.into_iter().find(|put_off| put_off.is_lasting()) {
            Some(put_off) => Err(put_off.why().clone()),
            None => Ok(()),
        }
    }

    /// Has flushes that were put off for long tried at once, unless none may begin.
    pub fn hurry_flushes(&mut self, now: Instant) {
        if self.holds == 0 {
            let put_off = self.tables.values_mut().filter_map(|table| table.flush_put_off.as_mut());
            put_off.for_each(|put_off| put_off.hurry(now));
        }
    }

    /// When the first work that was put off or left to writers is to be tried, or a table may be found to rest, of what is not due yet.
    pub fn next_try(&self, now: Instant) -> Option<Instant> {
        let tables = self.worklist.tables(&self.tables).into_iter().map(|id| &self.tables[&id]);
        let of_tables = tables.flat_map(|table| {
            let of_table = [&table.flush_put_off, &table.merge_put_off].into_iter().flatten();
            let put_off = of_table.chain(table.unreadable().map(|(_, put_off)| put_off));
            put_off.map(PutOff::until).chain(table.left_to_writers.until(now))
        });
        of_tables
            .chain(self.resting.next_look())
            .chain(self.spilling.next_try())
            .filter(|until| *until > now)
            .min()
    }

    /// Gives up all pieces of a closed database; what snapshots hold lives on. Dropping them may take long, so
    /// that is the caller's, without the lock.
    pub fn take_pieces(&mut self) -> impl Sized + use<> {
        let of_tables: Vec<_> = self
            .tables
            .values_mut()
            .map(|table| {
                let paused = std::mem::take(&mut table.paused);
                (std::mem::take(&mut table.segments), std::mem::take(&mut table.runs), paused)
            })
            .collect();
        (of_tables, self.retired.take_all(), std::mem::take(&mut self.named), self.newest.take())
    }

    /// To be called after any change to a table's pieces. Returns what snapshots showed of the table until then, for the caller
    /// to drop without the lock: with it may go lists as long as the table. O(log tables).
    #[must_use = "what is no longer shown is dropped once the state is unlocked"]
    pub fn changed(&mut self, table: TableId) -> Option<Arc<TableVersion>> {
        self.worklist.add(table);
        let has_several = self.tables.get(&table).is_some_and(|table| table.runs.len() > 1);
        if has_several || !self.retired.is_empty() {
            self.resting.watch(table);
        }
        self.newest.changed(table)
    }

    /// To be called after a table has come, gone, or got another shape, name or time to live. What it returns is dropped
    /// without the lock, too.
    pub fn reshaped(&mut self) -> Replaced {
        self.worklist.add_all();
        self.newest.reshaped()
    }

    /// The log is needed from this commit on once the `flushed` oldest runs of `table` are in a segment. What the manifest
    /// is about to name of erased rows does not count any more.
    pub fn needed_from(&self, table: TableId, flushed: usize) -> Lsn {
        let oldest = self
            .tables
            .iter()
            .filter_map(|(id, entry)| entry.needed_without(if *id == table { flushed } else { 0 }));
        oldest.min().unwrap_or(self.next_lsn)
    }

    /// The log is needed from this commit on.
    pub fn needed_now(&self) -> Lsn {
        let oldest = self.tables.values().filter_map(|entry| entry.needed_without(0));
        oldest.min().unwrap_or(self.next_lsn)
    }

    /// The log is needed from this commit on once a table is dropped.
    pub fn needed_without(&self, dropped: TableId) -> Lsn {
        let others = self.tables.iter().filter(|(id, _)| **id != dropped);
        let oldest = others.filter_map(|(_, entry)| entry.needed_without(0));
        oldest.min().unwrap_or(self.next_lsn)
    }

    /// Has the pieces of all tables know of the erasures that snapshots at `visible` show. O(tables that have changed).
    pub fn settle(&mut self, visible: Lsn) {
        match self.newest.changed_tables() {
            None => self.tables.values_mut().for_each(|table| table.settle(visible)),
            Some(changed) => {
                for id in changed {
                    self.tables.get_mut(id).into_iter().for_each(|table| table.settle(visible));
                }
            }
        }
    }

    /// The newest snapshot, for who has no lock.
    pub fn shown_version(&self) -> &Arc<ShownVersion> {
        self.newest.shown()
    }

    /// Nothing can be asked any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.newest.hide();
    }

    /// The newest snapshot, if it is one at `visible` and `clock`.
    pub fn known_version(&self, visible: Lsn, clock: u64) -> Option<Arc<Version>> {
        self.newest.shown().at(visible, clock)
    }

    /// Erases what has expired at `clock` of the rows that snapshots at `visible` show. Returns the pieces of which that is not
    /// known, with their tables.
    pub fn expire(&mut self, visible: Lsn, clock: u64) -> Vec<(TableId, ExpiryLimit, Piece)> {
        self.clock = self.clock.max(clock);
        self.settle(visible);
        let mut unknown = Vec::new();
        for id in self.expiring_tables() {
            let table = self.tables.get_mut(&id).expect("it is one of them");
            let Some(limit) = table.expiry_limit(self.clock) else { continue };
            let pieces = table.expire(visible, limit);
            unknown.extend(pieces.into_iter().map(|piece| (id, limit, piece)));
        }
        unknown
    }

    /// The latest moment at which something has expired, or may have.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Whether it is time to look for rows that have expired.
    pub fn is_expiry_due(&self, now: Instant) -> bool {
        let is_free = self.holds == 0 && self.check_writable().is_ok();
        is_free && self.expires() && self.next_expiry <= now
    }

    /// Gives up compactions of a table that were paused, of runs that `chosen` says: these are in play again. What it returns is
    /// dropped without the lock.
    pub fn give_up_paused(
        &mut self,
        id: TableId,
        chosen: impl Fn(&Compaction) -> bool,
    ) -> Vec<Compaction> {
        let Some(table) = self.tables.get_mut(&id) else { return Vec::new() };
        let given_up: Vec<Compaction> =
            table.paused.extract_if(.., |paused| chosen(paused)).collect();
        for compaction in &given_up {
            release(&mut table.runs, &compaction.runs);
            self.buffered_bytes -= compaction.reserved;
            self.reserved_bytes -= compaction.reserved;
        }
        if !given_up.is_empty() {
            self.worklist.add(id);
            self.resting.watch(id);
        }
        given_up
    }

    /// Whether rows of some table expire.
    pub fn expires(&self) -> bool {
        !self.expiring_tables().is_empty()
    }

    /// The tables that workers have to look at: what expires of a table is no change of its pieces.
    pub fn tables_to_look_at(&self) -> BTreeSet<TableId> {
        let mut tables = self.worklist.tables(&self.tables);
        tables.extend(self.expiring_tables());
        tables
    }

    /// The tables whose rows expire. O(1) for each of them, or once after a table has come or gone, for each of all.
    fn expiring_tables(&self) -> Vec<TableId> {
        let look = || {
            let expires = |(_, table): &(&TableId, &TableState)| table.schema.ttl.is_some();
            self.tables.iter().filter(expires).map(|(id, _)| *id).collect()
        };
        self.newest.expiring().map_or_else(look, <[TableId]>::to_vec)
    }

    /// All tables as of `visible` and the latest moment, and what is no longer shown, to be dropped without the lock. O(pieces of
    /// tables that have changed), or O(1). What has expired must be erased.
    pub fn version(&mut self, visible: Lsn) -> (Arc<Version>, Replaced) {
        if let Some(version) = self.known_version(visible, self.clock) {
            return (version, Replaced::default());
        }
        self.settle(visible);
        self.newest.make(&self.tables, visible, self.clock, &self.work, &self.reads)
    }

    /// Notes runs that have left their table, as they may still be held.
    pub fn note_left(&mut self, table: TableId, runs: &[Arc<Run>]) {
        self.newest.note_left(table, runs);
        self.retired.add(runs);
    }

    /// What is held of tables as they are or were. O(what is held).
    pub fn held(&self) -> Held {
        Held {
            versions: self.newest.held_tables().collect(),
            runs: self.newest.held_runs().collect(),
        }
    }

    /// The oldest snapshot that is held, if it is not the newest.
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.newest.oldest_held()
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed; open it again")
}
