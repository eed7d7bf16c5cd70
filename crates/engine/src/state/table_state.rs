//! One table at this moment: its shape and its pieces.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;
use drillcore_format::schema::{ExpiryLimit, TableSchema, TimeToLive};
use drillcore_storage::postings::set_postings::SetPostings;
use drillcore_storage::segments::segment::Segment;

use crate::error::Error;
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::piece::{Piece, SortedArray};
use crate::pieces::run::Run;
use crate::policy::batch_coder::BatchCoder;
use crate::select::read_memory::ReadMemory;
use crate::state::compaction::Compaction;
use crate::state::erasures::{Erasures, Unnoted};
use crate::state::expiring::Expiring;
use crate::state::left_to_writers::LeftToWriters;
use crate::state::levels::levels;
use crate::state::put_off::PutOff;
use crate::state::run_demand::RunDemand;
use crate::state::slots::Slot;
use crate::state::version::{LivenessDemand, TableVersion};
use crate::state::work_signal::WorkSignal;

/// One table's pieces. Segments hold the commits up to `flushed`, runs those above. Both lists begin with the oldest: where
/// the keys of two pieces overlap, the rows of the later one in the list are newer.
pub struct TableState {
    pub name: Arc<str>,
    pub layout: Layout,
    pub schema: Arc<TableSchema>,
    pub coder: Arc<BatchCoder>,
    pub flushed: Lsn,
    pub segments: Vec<Slot<Segment>>,
    /// How many levels the segments make.
    pub levels: usize,
    /// Of the segments, what is being merged.
    pub merging: Vec<Arc<Merging>>,
    pub runs: Vec<Slot<Run>>,
    /// Compactions of some of them that stopped half way.
    pub paused: Vec<Compaction>,
    pub left_to_writers: LeftToWriters,
    /// Of the segments, those whose postings are being written.
    pub indexing: Vec<Indexing>,
    /// Nothing has changed since no segment lacked postings.
    pub is_indexed: bool,
    /// Why a segment's postings could not be written. Nothing is tried again until sets are switched, or the
    /// database is opened anew.
    pub index_fault: Option<Error>,
    /// What was erased and a snapshot or a job may not know of.
    pub erasures: Erasures,
    /// Erased rows of segments that the manifest does not name yet.
    pub unnoted: Unnoted,
    /// The oldest commit that erased rows which the manifest is about to name.
    noting_since: Option<Lsn>,
    /// While the time to live is changed, nothing expires after this moment.
    pub clock_stopped: Option<u64>,
    /// When the last pass for rows that have expired began, where rows do not tell by themselves.
    pub last_expiry: Option<Instant>,
    /// One call holds the table: no other publishes a commit of it.
    pub is_exclusive: bool,
    /// Since the last flush succeeded.
    pub flush_put_off: Option<PutOff>,
    /// As `flush_put_off`, of merges and of writing postings for which room or descriptors were lacking.
    pub merge_put_off: Option<PutOff>,
    /// Of the segments, one may be unreadable.
    pub has_unreadable: bool,
    /// Calls that are about to flush the runs: meanwhile none are compacted.
    pub flush_calls: u32,
    /// Calls that are about to merge the segments: until they begin, no others merge any.
    pub compact_calls: u32,
    /// How much knowing which rows are alive would have saved reads.
    pub liveness_demand: Arc<LivenessDemand>,
    /// Searches of all runs since reads had some of them compacted last.
    pub searches: Arc<AtomicU64>,
    pub appended_rows: u64,
    pub appended_batches: u64,
}

/// A segment whose postings are being written.
pub struct Indexing {
    pub segment: Arc<Segment>,
    pub rows_done: Arc<AtomicU64>,
}

/// Segments that are being made one level.
pub struct Merging {
    /// How many levels fewer there will be.
    pub levels_less: usize,
    pub rows: u64,
    pub rows_written: AtomicU64,
}

impl Merging {
    /// The levels that it has done away with, as a share of its rows, while they are all still there.
    fn levels_done(&self) -> f64 {
        let written = self.rows_written.load(Ordering::Relaxed).min(self.rows);
        self.levels_less as f64 * written as f64 / self.rows as f64
    }
}

impl TableState {
    pub fn new(name: &str, schema: TableSchema, flushed: Lsn) -> TableState {
        let layout = Layout::new(&schema);
        TableState {
            name: Arc::from(name),
            schema: layout.shared_schema().clone(),
            layout,
            coder: Arc::default(),
            flushed,
            segments: Vec::new(),
            levels: 0,
            merging: Vec::new(),
            runs: Vec::new(),
            paused: Vec::new(),
            left_to_writers: LeftToWriters::default(),
            indexing: Vec::new(),
            is_indexed: false,
            index_fault: None,
            erasures: Erasures::default(),
            unnoted: Unnoted::default(),
            noting_since: None,
            clock_stopped: None,
            last_expiry: None,
            is_exclusive: false,
            flush_put_off: None,
            merge_put_off: None,
            has_unreadable: false,
            flush_calls: 0,
            compact_calls: 0,
            liveness_demand: Arc::default(),
            searches: Arc::default(),
            appended_rows: 0,
            appended_batches: 0,
        }
    }

    /// Changes the table's shape. Its pieces stay as they are: what they lack reads as null.
    pub fn set_schema(&mut self, schema: TableSchema) {
        self.layout = Layout::new(&schema);
        self.schema = self.layout.shared_schema().clone();
        self.is_indexed = false;
        self.index_fault = None;
    }

    /// Changes how long rows are kept.
    pub fn set_ttl(&mut self, ttl: Option<TimeToLive>) {
        self.set_schema(self.schema.with_ttl(ttl));
        self.runs.iter_mut().for_each(|slot| slot.expiring = None);
        self.segments.iter_mut().for_each(|slot| slot.expiring = None);
        self.clock_stopped = None;
        self.last_expiry = None;
    }

    /// To be called after any change to `segments`.
    pub fn segments_changed(&mut self) {
        self.is_indexed = false;
        self.levels = levels(self.segments.iter().map(|slot| &*slot.piece)).len();
    }

    /// The oldest commit of which the log alone knows everything.
    pub fn needed_from(&self) -> Option<Lsn> {
        self.needed_without(0).into_iter().chain(self.noting_since).min()
    }

    /// The same, once the `flushed` oldest runs are in a segment.
    pub fn needed_without(&self, flushed: usize) -> Option<Lsn> {
        let of_runs = self.runs.get(flushed).map(|slot| slot.piece.lsns().first);
        let of_erasures = [self.unnoted.since(), self.erasures.first_unsettled()];
        of_erasures.into_iter().chain([of_runs]).flatten().min()
    }

    /// Has the pieces know of the erasures that snapshots at `visible` show. To be called before these are looked at.
    pub fn settle(&mut self, visible: Lsn) {
        if self.erasures.is_empty() {
            return;
        }
        while let Some((lsn, hidden)) = self.erasures.settle_next(visible) {
            self.erase(&hidden, lsn);
        }
        let segments_taken = self.segments.iter().any(|slot| slot.taken);
        if !segments_taken && !self.runs.iter().any(|slot| slot.taken) {
            self.erasures.forget_settled();
        }
    }

    /// Erases rows of pieces, but of those that have left the table: what was made of them knows, or will. `lsn` is the
    /// commit that erased them. O(pieces).
    pub fn erase(&mut self, hidden: &[(SortedArray, OrdinalIntervals)], lsn: Lsn) {
        let hidden: HashMap<usize, &OrdinalIntervals> =
            hidden.iter().map(|(array, ordinals)| (array.address(), ordinals)).collect();
        for slot in &mut self.runs {
            if let Some(ordinals) = hidden.get(&Arc::as_ptr(&slot.piece).addr()) {
                slot.erased = ErasedRows::with(slot.erased.as_ref(), ordinals);
            }
        }
        for slot in &mut self.segments {
            let Some(ordinals) = hidden.get(&Arc::as_ptr(&slot.piece).addr()) else { continue };
            slot.erased = ErasedRows::with(slot.erased.as_ref(), ordinals);
            self.unnoted.add(slot.piece.id(), ordinals, lsn);
        }
    }

    /// Which times have passed at `clock`, where stored rows tell by themselves whether they have expired.
    pub fn expiry_limit(&self, clock: u64) -> Option<ExpiryLimit> {
        self.schema.expiry_limit(self.clock(clock)).filter(|_| self.schema.expires_by_stored_row())
    }

    /// Erases what has expired of the rows that snapshots at `visible` show, and returns the pieces of which that is not known.
    /// O(pieces), and O(1) for each row.
    pub fn expire(&mut self, visible: Lsn, limit: ExpiryLimit) -> Vec<Piece> {
        let mut unknown = Vec::new();
        let runs = self.runs.iter_mut().filter(|slot| slot.piece.lsns().last <= visible);
        runs.for_each(|slot| unknown.extend(slot.expire(&self.layout, limit)));
        let segments = self.segments.iter_mut();
        segments.for_each(|slot| unknown.extend(slot.expire(&self.layout, limit)));
        unknown
    }

    /// Pieces of which it is not known what has expired at `limit`.
    pub fn unknown_at(&self, limit: ExpiryLimit) -> Vec<Piece> {
        let runs = self.runs.iter().filter(|slot| !slot.knows(limit)).map(Piece::from);
        let segments = self.segments.iter().filter(|slot| !slot.knows(limit)).map(Piece::from);
        runs.chain(segments).collect()
    }

    /// Notes of a piece, unless it has left the table, what has expired and what will next.
    pub fn note_expiring(&mut self, array: &SortedArray, gone: &OrdinalIntervals, next: Expiring) {
        let address = array.address();
        if let Some(slot) = self.runs.iter_mut().find(|s| Arc::as_ptr(&s.piece).addr() == address) {
            slot.note_expiring(gone, next);
        } else if let Some(slot) =
            self.segments.iter_mut().find(|s| Arc::as_ptr(&s.piece).addr() == address)
        {
            slot.note_expiring(gone, next);
        }
    }

    /// The moment up to which rows expire.
    fn clock(&self, clock: u64) -> u64 {
        self.clock_stopped.map_or(clock, |stopped| stopped.min(clock))
    }

    /// Where it is noted why flushes, or merges, are put off.
    pub fn put_off(&mut self, is_flush: bool) -> &mut Option<PutOff> {
        if is_flush { &mut self.flush_put_off } else { &mut self.merge_put_off }
    }

    /// Segments that could not be read when they were to be merged or indexed, and what is known of that.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Segment, &PutOff)> {
        let segments = if self.has_unreadable { &self.segments[..] } else { &[] };
        segments.iter().filter_map(|slot| Some((&*slot.piece, slot.unreadable.as_ref()?)))
    }

    /// Notes that some segments could not be read: the one whose file an error names, or else all.
    pub fn note_unreadable(&mut self, inputs: &[&Segment], why: &Error, now: Instant) {
        let names_it = |segment: &Segment| {
            let postings = segment.postings_file().map(|meta| SetPostings::file_name(meta.file));
            let own = Segment::file_name(segment.id());
            why.file().is_some_and(|file| file == own || Some(file) == postings.as_deref())
        };
        let named = inputs.iter().copied().find(|segment| names_it(segment)).map(Segment::id);
        let is_it = |id: SegmentId| match named {
            Some(named) => id == named,
            None => inputs.iter().any(|segment| segment.id() == id),
        };
        for slot in self.segments.iter_mut().filter(|slot| is_it(slot.piece.id())) {
            let unreadable = PutOff::unreadable(slot.unreadable.as_ref(), why.clone(), now);
            slot.unreadable = Some(unreadable);
            self.has_unreadable = true;
        }
    }

    /// Has what was put off, of merges and of set indexes, tried at once.
    pub fn hurry_merges(&mut self, now: Instant) {
        let unreadable = self.segments.iter_mut().filter_map(|slot| slot.unreadable.as_mut());
        self.merge_put_off.iter_mut().chain(unreadable).for_each(|put_off| put_off.hurry(now));
    }

    /// Why some segments are not merged, or their sets not indexed.
    pub fn why_not_merged(&self) -> Option<&Error> {
        let of_segments = self.unreadable().next().map(|(_, put_off)| put_off);
        self.merge_put_off.as_ref().or(of_segments).map(PutOff::why)
    }

    /// The levels that are left to merge: those there are, less what merges under way have done.
    pub fn levels_left(&self) -> f64 {
        let done: f64 = self.merging.iter().map(|merging| merging.levels_done()).sum();
        self.levels as f64 - done
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

    /// Whether half of the rows on disk, or more, were deleted in memory alone: then their space is worth a flush.
    pub fn deleted_much_in_memory(&self) -> bool {
        let tombstones: u64 = self.runs.iter().map(|slot| slot.piece.tombstones()).sum();
        let on_disk: u64 = self.segments.iter().map(|slot| slot.piece.rows()).sum();
        on_disk > 0 && tombstones >= on_disk.div_ceil(2)
    }

    pub fn newest_run(&self) -> Option<Lsn> {
        self.runs.last().map(|slot| slot.piece.lsns().last)
    }

    /// Bytes of all runs.
    pub fn run_bytes(&self) -> u64 {
        self.runs.iter().map(|slot| slot.piece.bytes()).sum()
    }

    /// What of erased rows the manifest is to name now. Until it does, or it is put back, the log is needed for them.
    pub fn take_unnoted(&mut self) -> Unnoted {
        self.noting_since = self.unnoted.since();
        std::mem::take(&mut self.unnoted)
    }

    /// The manifest names what was taken.
    pub fn unnoted_is_noted(&mut self) {
        self.noting_since = None;
    }

    /// The manifest could not be written.
    pub fn put_back_unnoted(&mut self, unnoted: Unnoted) {
        self.noting_since = None;
        self.unnoted.put_back(unnoted);
    }

    /// All pieces, also those whose commits are not visible yet.
    pub fn pieces(&self) -> Vec<Piece> {
        self.segments.iter().map(Piece::from).chain(self.runs.iter().map(Piece::from)).collect()
    }

    /// Whether a version shows the same rows as one at `clock` would, that is of the same commits.
    pub fn is_shown_by(&self, version: &TableVersion, before: u64, clock: u64) -> bool {
        let (before, now) = (self.clock(before), self.clock(clock));
        if self.schema.expiry_limit(before) == self.schema.expiry_limit(now) {
            return true;
        }
        let erased = |piece: &Piece| piece.erased.as_ref().map(Arc::as_ptr);
        let slots = self.segments.iter().map(Piece::from).chain(self.runs.iter().map(Piece::from));
        self.schema.expires_by_stored_row()
            && slots
                .zip(version.pieces.now().iter())
                .all(|(now, shown)| erased(&now) == erased(shown))
    }

    /// Whether a version at `visible` shows all commits that there are.
    pub fn is_whole_at(&self, visible: Lsn) -> bool {
        let shows = |slot: &Slot<Run>| slot.piece.lsns().last <= visible;
        self.runs.last().is_none_or(shows) && self.erasures.first_unsettled().is_none()
    }

    pub fn version(
        &self,
        id: TableId,
        visible: Lsn,
        clock: u64,
        work: &Arc<WorkSignal>,
        reads: &Arc<ReadMemory>,
    ) -> TableVersion {
        let segments = self.segments.iter().map(Piece::from);
        let runs = self.runs.iter().filter(|slot| slot.piece.lsns().last <= visible);
        let pieces = segments.chain(runs.map(Piece::from)).collect();
        let (name, layout, clock) = (self.name.clone(), self.layout.clone(), self.clock(clock));
        let mut version =
            TableVersion::new(id, name, layout, visible, clock, pieces, reads.clone());
        version.liveness.demand = self.liveness_demand.clone();
        let has_several =
            version.pieces.now().iter().filter(|piece| piece.run().is_some()).count() > 1;
        let demand = || RunDemand::new(self.searches.clone(), work.clone());
        version.run_demand = has_several.then(demand);
        version
    }
}

/// Rows of segments whose postings are not all there.
pub fn rows_to_index<'a>(schema: &TableSchema, segments: impl Iterator<Item = &'a Segment>) -> u64 {
    let Some(set) = &schema.set else { return 0 };
    segments.filter(|segment| !segment.indexed().cover(&set.indexed)).map(Segment::rows).sum()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn a_merge_counts_for_as_many_of_its_levels_as_it_has_written_of_its_rows() {
        let columns = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        let schema = TableSchema::new(Arc::new(columns), vec![0]);
        let mut table = TableState::new("t", schema, Lsn(0));
        table.levels = 20;
        assert_eq!(table.levels_left(), 20.0);
        let merge = |levels_less, rows_written| {
            let rows_written = AtomicU64::new(rows_written);
            Arc::new(Merging { levels_less, rows: 1_000, rows_written })
        };
        let [fresh, half, done] = [merge(3, 0), merge(6, 500), merge(4, 1_000)];
        table.merging.push(fresh.clone());
        assert_eq!(table.levels_left(), 20.0);
        table.merging.push(half);
        assert_eq!(table.levels_left(), 17.0);
        table.merging.push(done);
        assert_eq!(table.levels_left(), 13.0);
        fresh.rows_written.store(250, Ordering::Relaxed);
        assert_eq!(table.levels_left(), 12.25);
        // Never for more levels than it does away with.
        fresh.rows_written.store(5_000, Ordering::Relaxed);
        assert_eq!(table.levels_left(), 10.0);
    }
}
