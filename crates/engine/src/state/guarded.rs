//! What a database holds at this moment, behind one short lock.
//!
//! The lock guards lists of shared, immutable pieces; it is held to look, to append one piece or to swap
//! a few for one, never while rows are encoded, sorted, merged, read or written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, LsnRange, SegmentId, TableId};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_storage::segments::segment::Segment;

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::tiering::Rung;
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::select::resolved_selections::ResolvedSelections;
use crate::select::selection::Selected;
use crate::state::put_off::PutOff;

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
    /// Calls that write, and jobs that were picked, that are not done yet: closing waits for them.
    pub underway: u32,
    /// Bytes of all runs in `tables`, of appends about to join them, and of joins under way.
    pub buffered_bytes: u64,
    pub stall: Duration,
    pub counts: MaintenanceCounts,
    /// Snapshots kept for good, by name.
    pub named: BTreeMap<String, Arc<Version>>,
    /// The newest snapshot, while it is current.
    version: Option<Arc<Version>>,
    /// Tables as they were handed out in snapshots, oldest first; those that nobody holds any more among them.
    handed_out: Vec<Weak<TableVersion>>,
}

/// How often which background work was done.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaintenanceCounts {
    pub joins: u64,
    pub spills: u64,
    pub merges: u64,
    pub segments_indexed: u64,
    pub rows_written: u64,
}

/// One table's pieces. Segments hold the commits up to `flushed`, runs those above; both lists are
/// ordered by commit, oldest first.
pub struct TableState {
    pub name: Arc<str>,
    pub layout: Layout,
    pub schema: Arc<TableSchema>,
    pub flushed: Lsn,
    pub segments: Vec<Slot<Segment>>,
    pub runs: Vec<Slot<Run>>,
    /// Of the segments, those whose postings are being written.
    pub indexing: Vec<Indexing>,
    /// Nothing has changed since no segment lacked postings.
    pub is_indexed: bool,
    /// Why a segment's postings could not be written. Nothing is tried again until sets are switched, or the
    /// database is opened anew.
    pub index_fault: Option<Error>,
    /// Since the last spill succeeded.
    pub spill_put_off: Option<PutOff>,
    /// As `spill_put_off`, of merges and of writing postings.
    pub merge_put_off: Option<PutOff>,
    pub appended_rows: u64,
    pub appended_batches: u64,
}

/// A piece in its list; `taken` while somebody makes a larger one of it.
pub struct Slot<T> {
    pub piece: Arc<T>,
    pub taken: bool,
}

/// A segment whose postings are being written.
pub struct Indexing {
    pub segment: Arc<Segment>,
    pub rows_done: Arc<AtomicU64>,
}

/// All tables at one LSN. Immutable; holding it keeps its pieces alive.
pub struct Version {
    pub lsn: Lsn,
    pub tables: BTreeMap<Arc<str>, Arc<TableVersion>>,
}

/// One table in a version: its pieces, oldest first.
pub struct TableVersion {
    pub id: TableId,
    pub name: Arc<str>,
    pub lsn: Lsn,
    pub layout: Layout,
    pub schema: Arc<TableSchema>,
    pub pieces: Arc<[Piece]>,
    /// The selection of everything, made when first asked for.
    pub whole: OnceLock<Arc<Selected>>,
    pub resolved: ResolvedSelections,
    /// Rows of sets without an index that were looked for.
    pub passed: ResolvedSelections,
    /// Whether all pieces listed all sets when somebody wanted to know.
    pub lists_every_set: OnceLock<bool>,
}

impl State {
    pub fn new(next_lsn: Lsn) -> State {
        State {
            tables: BTreeMap::new(),
            next_lsn,
            next_table: TableId(1),
            closing: false,
            closed: false,
            is_shut: false,
            failure: None,
            holds: 0,
            underway: 0,
            buffered_bytes: 0,
            stall: Duration::ZERO,
            counts: MaintenanceCounts::default(),
            named: BTreeMap::new(),
            version: None,
            handed_out: Vec::new(),
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
        self.check_spillable()
    }

    /// Whether rows that are in memory may be written out, which closing does, too.
    pub fn check_spillable(&self) -> Result<()> {
        self.check_open()?;
        match &self.failure {
            None => Ok(()),
            Some(first) => Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "the database is read-only since a write failed ({first}); mend the cause and reopen it"
                ),
            )),
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

    /// Why rows cannot leave memory, if it was tried often enough: waiting for it may be in vain.
    pub fn check_spills_go_on(&self) -> Result<()> {
        let put_off = self.tables.values().filter_map(|table| table.spill_put_off.as_ref());
        match put_off.into_iter().find(|put_off| put_off.is_lasting()) {
            Some(put_off) => Err(put_off.why().clone()),
            None => Ok(()),
        }
    }

    /// When the first work that was put off is to be tried, of what is not due yet.
    pub fn next_try(&self, now: Instant) -> Option<Instant> {
        let tables = self.tables.values();
        let put_off = tables.flat_map(|table| [&table.spill_put_off, &table.merge_put_off]);
        put_off.flatten().map(PutOff::until).filter(|until| *until > now).min()
    }

    /// Gives up all pieces of a closed database; what snapshots hold lives on. Dropping them may take long, so
    /// that is the caller's, without the lock.
    pub fn take_pieces(&mut self) -> impl Sized + use<> {
        let of_tables: Vec<_> = self
            .tables
            .values_mut()
            .map(|table| (std::mem::take(&mut table.segments), std::mem::take(&mut table.runs)))
            .collect();
        (of_tables, std::mem::take(&mut self.named), self.version.take())
    }

    /// To be called after any change to `tables`.
    pub fn changed(&mut self) {
        self.version = None;
    }

    /// The log is needed from this commit on once the `spilled` oldest runs of `table` are in a segment.
    pub fn needed_from(&self, table: TableId, spilled: usize) -> Lsn {
        let oldest = self.tables.iter().filter_map(|(id, entry)| {
            let gone = if *id == table { spilled } else { 0 };
            entry.runs.get(gone).map(|slot| slot.piece.lsns().first)
        });
        oldest.min().unwrap_or(self.next_lsn)
    }

    /// All tables as of `visible`. O(pieces) after a change, else O(1).
    pub fn version(&mut self, visible: Lsn) -> Arc<Version> {
        if let Some(version) = self.version.as_ref().filter(|version| version.lsn == visible) {
            return version.clone();
        }
        let tables = self
            .tables
            .iter()
            .map(|(id, table)| (table.name.clone(), Arc::new(table.version(*id, visible))));
        let version = Arc::new(Version { lsn: visible, tables: tables.collect() });
        self.version = Some(version.clone());
        if self.handed_out.len() + version.tables.len() > self.handed_out.capacity() {
            // Not at each snapshot: a look at all for as many new ones.
            self.handed_out.retain(|table| table.strong_count() > 0);
            self.handed_out.reserve(self.handed_out.len() + version.tables.len());
        }
        self.handed_out.extend(version.tables.values().map(Arc::downgrade));
        version
    }

    /// The tables of the oldest snapshot that somebody holds, if it is not the newest.
    pub fn oldest_snapshot(&self) -> Option<Vec<Arc<TableVersion>>> {
        let newest = self.version.as_ref().map(|version| version.lsn);
        let held = || self.handed_out.iter().filter_map(Weak::upgrade);
        let oldest = held().map(|table| table.lsn).min().filter(|lsn| Some(*lsn) != newest)?;
        Some(held().filter(|table| table.lsn == oldest).collect())
    }
}

impl Version {
    /// The segments of all tables.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let pieces = self.tables.values().flat_map(|table| table.pieces.iter());
        pieces.filter_map(Piece::segment)
    }
}

impl TableVersion {
    /// A table at one LSN.
    pub fn new(
        id: TableId,
        name: Arc<str>,
        layout: Layout,
        lsn: Lsn,
        pieces: Arc<[Piece]>,
    ) -> TableVersion {
        let schema = Arc::new(layout.schema().clone());
        let (whole, resolved) = (OnceLock::new(), ResolvedSelections::default());
        let passed = ResolvedSelections::default();
        let lists_every_set = OnceLock::new();
        TableVersion {
            id,
            name,
            lsn,
            layout,
            schema,
            pieces,
            whole,
            resolved,
            passed,
            lists_every_set,
        }
    }
}

impl TableState {
    pub fn new(name: &str, schema: TableSchema, flushed: Lsn) -> TableState {
        TableState {
            name: Arc::from(name),
            layout: Layout::new(&schema),
            schema: Arc::new(schema),
            flushed,
            segments: Vec::new(),
            runs: Vec::new(),
            indexing: Vec::new(),
            is_indexed: false,
            index_fault: None,
            spill_put_off: None,
            merge_put_off: None,
            appended_rows: 0,
            appended_batches: 0,
        }
    }

    /// Changes the table's shape. Its pieces stay as they are: what they lack reads as null.
    pub fn set_schema(&mut self, schema: TableSchema) {
        self.layout = Layout::new(&schema);
        self.schema = Arc::new(schema);
        self.is_indexed = false;
        self.index_fault = None;
    }

    /// Rows of segments whose postings are not all there yet, without those that were read for them.
    pub fn rows_to_index(&self) -> u64 {
        let rows = rows_to_index(&self.schema, self.segments.iter().map(|slot| &*slot.piece));
        let done = self.indexing.iter().map(|indexing| {
            let lacking = rows_to_index(&self.schema, std::iter::once(&*indexing.segment));
            // Until the list is attached at least a row is left.
            indexing.rows_done.load(Ordering::Relaxed).min(lacking.saturating_sub(1))
        });
        rows.saturating_sub(done.sum())
    }

    pub fn run_bytes(&self) -> u64 {
        self.runs.iter().map(|slot| slot.piece.bytes()).sum()
    }

    /// The runs as the ladder sees them; those not yet visible cannot be joined.
    pub fn run_rungs(&self, visible: Lsn) -> Vec<Rung> {
        let rung = |slot: &Slot<Run>| Rung {
            size: slot.piece.bytes(),
            taken: slot.taken || slot.piece.lsns().last > visible,
        };
        self.runs.iter().map(rung).collect()
    }

    pub fn segment_rungs(&self) -> Vec<Rung> {
        self.segments
            .iter()
            .map(|slot| Rung { size: slot.piece.disk_bytes(), taken: slot.taken })
            .collect()
    }

    fn version(&self, id: TableId, visible: Lsn) -> TableVersion {
        let segments = self.segments.iter().map(|slot| Piece::Segment(slot.piece.clone()));
        let runs = self.runs.iter().filter(|slot| slot.piece.lsns().last <= visible);
        let pieces = segments.chain(runs.map(|slot| Piece::Run(slot.piece.clone()))).collect();
        TableVersion::new(id, self.name.clone(), self.layout.clone(), visible, pieces)
    }
}

/// Rows of segments whose postings are not all there.
pub fn rows_to_index<'a>(schema: &TableSchema, segments: impl Iterator<Item = &'a Segment>) -> u64 {
    let Some(set) = &schema.set else { return 0 };
    segments.filter(|segment| !segment.indexed().cover(&set.indexed)).map(Segment::rows).sum()
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}

/// Takes neighbours out of play and hands out what they hold.
pub fn take<T>(slots: &mut [Slot<T>]) -> Vec<Arc<T>> {
    slots
        .iter_mut()
        .map(|slot| {
            assert!(!slot.taken, "a piece is taken once");
            slot.taken = true;
            slot.piece.clone()
        })
        .collect()
}

/// Puts taken neighbours back into play.
pub fn release<T>(slots: &mut [Slot<T>], taken: &[Arc<T>]) {
    for slot in slots.iter_mut().filter(|slot| taken.iter().any(|t| Arc::ptr_eq(t, &slot.piece))) {
        slot.taken = false;
    }
}

/// Replaces taken neighbours by what was made of them; `None` removes them.
pub fn replace<T>(slots: &mut Vec<Slot<T>>, taken: &[Arc<T>], by: Option<Arc<T>>) {
    let first = slots.iter().position(|slot| Arc::ptr_eq(&slot.piece, &taken[0]));
    let first = first.expect("taken pieces stay in their list");
    let range = first..first + taken.len();
    for (slot, piece) in slots[range.clone()].iter().zip(taken) {
        assert!(Arc::ptr_eq(&slot.piece, piece), "taken pieces stay neighbours");
    }
    slots.splice(range, by.map(|piece| Slot { piece, taken: false }));
}

/// The commits that neighbours cover together.
pub fn covered(lsns: impl IntoIterator<Item = LsnRange>) -> LsnRange {
    lsns.into_iter().reduce(LsnRange::join).expect("at least one piece")
}
