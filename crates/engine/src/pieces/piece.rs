//! A piece: one sorted, immutable array of rows, in memory or on disk.
//!
//! Everything that can be read is a list of pieces, and every question to one is answered in ordinals.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use drillcore_format::block::RowsBuilder;
use drillcore_format::ids::{LsnRange, SegmentId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::Bound;
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::statistics_page::Zones;
use drillcore_storage::postings::set_postings::{SegmentMembers, SetPostings};
use drillcore_storage::segments::fetch;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::sequence::{BlocksAhead, End};

use crate::calls::interrupt::{Asked, Interrupt};
use crate::error::{Error, Result};
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::live_rows::LiveRows;
use crate::pieces::liveness::KnownLiveness;
use crate::pieces::member_weights::KeptWeights;
use crate::pieces::run::Run;

/// Sets that are looked up together: a page each is held of their directories.
const SETS_AT_ONCE: usize = 1024;

/// A run or a segment, which of its rows were erased, and what is known of which are alive.
#[derive(Clone)]
pub struct Piece {
    pub array: SortedArray,
    pub erased: Option<Arc<ErasedRows>>,
    pub liveness: Arc<KnownLiveness>,
    /// Whether its segment is no part of the table, but holds the rows of a run that was spilled.
    pub is_spilled_run: bool,
}

/// Where the rows of a piece lie.
#[derive(Clone)]
pub enum SortedArray {
    Run(Arc<Run>),
    Segment(Arc<Segment>),
}

/// The rows of one set in one piece: ascending ordinals that are reached by position.
#[derive(Clone)]
pub enum Members {
    /// Positions in the run's set index.
    Run(Range<u32>),
    Segment(SegmentMembers),
    /// Ordinals found one by one, of a run or a segment.
    Listed(Arc<[u32]>),
    Unindexed(UnindexedSet),
    /// All rows but some.
    Live(LiveRows),
}

/// The rows of a set that is not indexed in a segment, among those of a range.
#[derive(Clone)]
pub struct UnindexedSet {
    /// Encoded.
    pub value: Arc<[u8]>,
    pub range: Range<u64>,
    pub ordinals: Arc<[u32]>,
}

/// Rows of one piece that are wanted: their ordinals ascend, or they descend.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub piece: &'a Piece,
    pub ordinals: &'a [u32],
}

impl SortedArray {
    /// Which one it is: no other has the address while this one is held.
    pub fn address(&self) -> usize {
        match self {
            SortedArray::Run(run) => Arc::as_ptr(run).addr(),
            SortedArray::Segment(segment) => Arc::as_ptr(segment).addr(),
        }
    }
}

impl From<Arc<Run>> for Piece {
    fn from(run: Arc<Run>) -> Piece {
        Piece::of(SortedArray::Run(run))
    }
}

impl From<Arc<Segment>> for Piece {
    fn from(segment: Arc<Segment>) -> Piece {
        Piece::of(SortedArray::Segment(segment))
    }
}

impl Piece {
    fn of(array: SortedArray) -> Piece {
        Piece { array, erased: None, liveness: Arc::default(), is_spilled_run: false }
    }

    /// Whether it was in memory when it was shown first: it is in no segment of the table.
    pub fn is_of_run(&self) -> bool {
        self.is_spilled_run || self.run().is_some()
    }

    /// Whether it is a run of which a file has the rows, too.
    pub fn is_spilled(&self) -> bool {
        self.run().is_some_and(|run| run.spilled().is_some())
    }

    /// The same rows from the file that a run was spilled to, if it was: else this one.
    pub fn where_it_lies(&self) -> Piece {
        let spilled = self.run().and_then(|run| run.spilled()).cloned();
        match spilled.map(SortedArray::Segment) {
            Some(array) => Piece { array, is_spilled_run: true, ..self.clone() },
            None => self.clone(),
        }
    }

    /// Rows that it stores, also those that were erased.
    pub fn rows(&self) -> u64 {
        match &self.array {
            SortedArray::Run(run) => run.rows(),
            SortedArray::Segment(segment) => segment.rows(),
        }
    }

    pub fn lsns(&self) -> LsnRange {
        match &self.array {
            SortedArray::Run(run) => run.lsns(),
            SortedArray::Segment(segment) => segment.lsns(),
        }
    }

    /// How many of its rows were erased.
    pub fn erased_rows(&self) -> u64 {
        self.erased.as_ref().map_or(0, |erased| erased.len().into())
    }

    /// The rows that were not erased, if some were.
    pub fn unerased(&self) -> Option<LiveRows> {
        let erased = self.erased.clone()?;
        Some(LiveRows::Unerased { rows: self.rows(), erased })
    }

    /// The number of the segment, if it is one, with its rows that were erased, if there are some.
    pub fn erased_of_segment(&self) -> Option<(SegmentId, OrdinalIntervals)> {
        Some((self.segment()?.id(), self.erased.as_ref()?.ordinals().clone()))
    }

    /// The run, if it is one.
    pub fn run(&self) -> Option<&Arc<Run>> {
        match &self.array {
            SortedArray::Run(run) => Some(run),
            SortedArray::Segment(_) => None,
        }
    }

    /// The segment, if it is one.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.array {
            SortedArray::Run(_) => None,
            SortedArray::Segment(segment) => Some(segment),
        }
    }

    /// Bytes of a row on average, encoded where it lies.
    pub fn mean_row_bytes(&self) -> u64 {
        match &self.array {
            SortedArray::Run(run) => run.mean_row_bytes(),
            SortedArray::Segment(segment) => segment.bytes() / segment.rows().max(1),
        }
    }

    /// The ordinal of the first row at or past `bound`. On disk: one index page and one block at most.
    pub fn rank(&self, bound: &Bound) -> Result<u64> {
        match &self.array {
            SortedArray::Run(run) => Ok(run.rank(bound)),
            SortedArray::Segment(segment) => Ok(segment.rank(bound)?),
        }
    }

    /// [`Piece::rank`] of some bounds. On disk the index pages are read together, then the blocks.
    pub fn ranks(&self, bounds: &[Bound]) -> Result<Vec<u64>> {
        match &self.array {
            SortedArray::Run(run) => Ok(bounds.iter().map(|bound| run.rank(bound)).collect()),
            SortedArray::Segment(segment) => {
                let wanted: Vec<_> = bounds.iter().map(|bound| (&**segment, bound)).collect();
                Ok(Segment::ranks(&wanted)?.into_vec())
            }
        }
    }

    /// The first key and the last. Reads nothing. There is a row at least.
    pub fn key_ends(&self) -> (&[u8], &[u8]) {
        match &self.array {
            SortedArray::Run(run) => run.key_ends(),
            SortedArray::Segment(segment) => segment.key_ends(),
        }
    }

    /// Whether the key lies between the piece's first key and its last: else no row has it. Reads nothing.
    pub fn spans(&self, key: &[u8]) -> bool {
        match &self.array {
            SortedArray::Run(run) => run.spans(key),
            SortedArray::Segment(segment) => segment.spans(key),
        }
    }

    /// The sets whose rows are listed.
    pub fn indexed(&self) -> IndexedSets {
        match &self.array {
            SortedArray::Run(run) => run.indexed(),
            SortedArray::Segment(segment) => segment.indexed(),
        }
    }

    /// The members of each set in each of some pieces; `None` of a set that is not indexed there. On disk: one page of the set directory
    /// for each at most, which are read together.
    pub fn members_in_each(
        pieces: &[Piece],
        sets: &[Vec<u8>],
        interrupt: &Interrupt,
    ) -> Result<Vec<Vec<Option<Members>>>> {
        let of_piece = |piece: &Piece| match piece.run() {
            Some(run) => sets.iter().map(|set| run.members(set).map(Members::Run)).collect(),
            None => vec![None; sets.len()],
        };
        let mut members: Vec<Vec<Option<Members>>> = pieces.iter().map(of_piece).collect();
        let postings = |piece: &Piece| piece.segment().and_then(|segment| segment.postings());
        let postings: Vec<Option<Arc<SetPostings>>> = pieces.iter().map(postings).collect();
        let wanted: Vec<(usize, usize, &Arc<SetPostings>)> = postings
            .iter()
            .enumerate()
            .filter_map(|(piece, postings)| Some((piece, postings.as_ref()?)))
            .flat_map(|(piece, postings)| (0..sets.len()).map(move |set| (piece, set, postings)))
            .collect();
        for wanted in wanted.chunks(SETS_AT_ONCE) {
            interrupt.check()?;
            let asked: Vec<_> = wanted.iter().map(|&(_, set, p)| (p, &*sets[set])).collect();
            for (&(piece, set, _), found) in
                wanted.iter().zip(SetPostings::members_of_each(&asked)?)
            {
                members[piece][set] = found.map(Members::Segment);
            }
        }
        Ok(members)
    }

    /// How many of some members have an ordinal below one each, of the piece that they are from. What has to be read is read together.
    pub fn member_ranks(wanted: &[(&Piece, &Members, u64)]) -> Result<Vec<u64>> {
        let on_disk: Vec<(&SegmentMembers, u64)> = wanted
            .iter()
            .filter_map(|(_, members, ordinal)| Some((members.in_segment()?, *ordinal)))
            .collect();
        let mut ranks = SegmentMembers::ranks_of(&on_disk)?.into_iter();
        let rank = |&(piece, members, ordinal): &(&Piece, &Members, u64)| match members.in_segment()
        {
            Some(_) => Ok(ranks.next().expect("each was asked for")),
            None => piece.member_rank(members, ordinal),
        };
        wanted.iter().map(rank).collect()
    }

    /// The ordinal of the `position`-th member.
    pub fn member(&self, members: &Members, position: u64) -> Result<u64> {
        match (&self.array, members) {
            (_, Members::Listed(ordinals) | Members::Unindexed(UnindexedSet { ordinals, .. })) => {
                Ok(u64::from(ordinals[position as usize]))
            }
            (_, Members::Live(live)) => Ok(live.ordinal(position)),
            (SortedArray::Run(run), Members::Run(range)) => {
                Ok(run.member(range.start + position as u32))
            }
            (_, Members::Segment(members)) => Ok(members.ordinal(position)?),
            _ => unreachable!("members are asked of the piece they came from"),
        }
    }

    /// Appends the ordinals of the members at `positions`.
    pub fn ordinals(
        &self,
        members: &Members,
        positions: Range<u64>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let range = positions.start as usize..positions.end as usize;
        match (&self.array, members) {
            (_, Members::Listed(ordinals) | Members::Unindexed(UnindexedSet { ordinals, .. })) => {
                out.extend_from_slice(&ordinals[range]);
            }
            (_, Members::Live(_)) if positions.is_empty() => {}
            (_, Members::Live(live)) => {
                let (first, last) =
                    (live.ordinal(positions.start), live.ordinal(positions.end - 1));
                live.ordinals_in(first..last + 1, out);
            }
            (SortedArray::Run(run), Members::Run(all)) => {
                let (from, to) = (all.start + range.start as u32, all.start + range.end as u32);
                out.extend_from_slice(run.ordinals(&(from..to)));
            }
            (_, Members::Segment(members)) => members.ordinals(positions, out)?,
            _ => unreachable!("members are asked of the piece they came from"),
        }
        Ok(())
    }

    /// How many members have an ordinal below `ordinal`.
    pub fn member_rank(&self, members: &Members, ordinal: u64) -> Result<u64> {
        match (&self.array, members) {
            (_, Members::Listed(ordinals) | Members::Unindexed(UnindexedSet { ordinals, .. })) => {
                Ok(ordinals.partition_point(|&member| u64::from(member) < ordinal) as u64)
            }
            (_, Members::Live(live)) => Ok(live.rank(ordinal)),
            (SortedArray::Run(run), Members::Run(range)) => Ok(run.member_rank(range, ordinal)),
            (_, Members::Segment(members)) => Ok(members.rank(ordinal)?),
            _ => unreachable!("members are asked of the piece they came from"),
        }
    }

    /// The weights of all members of a set, of which `asked` are drawn from now: of a run, if they are known or worth knowing.
    pub fn member_weights(
        &self,
        members: &Members,
        weight: usize,
        asked: u64,
    ) -> Result<Option<Arc<KeptWeights>>> {
        match (&self.array, members) {
            (SortedArray::Run(run), Members::Run(range)) => {
                run.member_weights(range, weight, asked)
            }
            _ => Ok(None),
        }
    }

    /// The sums of a weight column over the rows before some ordinals, each in its piece. On disk one index page and one block each, which
    /// are read together.
    pub fn weights_before(wanted: &[(&Piece, u64)], weight: usize) -> Result<Vec<u128>> {
        let mut sums = vec![0; wanted.len()];
        let (mut on_disk, mut places) = (Vec::new(), Vec::new());
        for (at, &(piece, ordinal)) in wanted.iter().enumerate() {
            match &piece.array {
                SortedArray::Run(run) => sums[at] = run.weight(weight).before(ordinal),
                SortedArray::Segment(segment) => {
                    on_disk.push((&**segment, ordinal));
                    places.push(at);
                }
            }
        }
        for (at, sum) in places.into_iter().zip(Segment::weights_before(&on_disk, weight)?) {
            sums[at] = sum;
        }
        Ok(sums)
    }

    /// Copies rows, whose ordinals ascend, each block read once. For some rows here and there, and columns whose
    /// values are short.
    pub fn fetch(
        &self,
        ordinals: &[u32],
        projection: &Projection,
        interrupt: &Interrupt,
    ) -> Result<Rows> {
        self.fetch_some(ordinals, projection, usize::MAX, interrupt)
    }

    /// Copies the first of the rows at `ordinals`, which ascend or descend, in that order: all, or those with which
    /// their keys and strings reach `bytes_max`. Each block is read once.
    pub fn fetch_some(
        &self,
        ordinals: &[u32],
        projection: &Projection,
        bytes_max: usize,
        interrupt: &Interrupt,
    ) -> Result<Rows> {
        let mut first = None;
        let wanted = [Wanted { piece: self, ordinals }];
        fetch_together(&wanted, projection, bytes_max, interrupt, |_, rows| {
            first = Some(rows);
            Ok(ControlFlow::Break(()))
        })?;
        match first {
            Some(rows) => Ok(rows),
            None => Ok(RowsBuilder::new(projection, 0).finish()?),
        }
    }

    /// The last rows of a range that can be [read](Piece::read) at once: as many as take `bytes_max` where they lie, up to `rows_max`;
    /// at least one, and those of a block.
    pub fn last_portion(
        &self,
        ordinals: Range<u64>,
        projection: &Projection,
        bytes_max: usize,
        rows_max: u64,
    ) -> Result<Range<u64>> {
        match &self.array {
            SortedArray::Run(run) => {
                let first = ordinals.start.max(ordinals.end.saturating_sub(rows_max));
                Ok(run.portion(first..ordinals.end, End::Last, projection, bytes_max))
            }
            SortedArray::Segment(segment) => {
                let bytes_max = bytes_max as u64;
                Ok(segment.portion(ordinals, End::Last, projection, bytes_max, rows_max)?)
            }
        }
    }

    /// The rows `from..to` in sequence, past the cache. For many rows in a row.
    pub fn read(&self, from: u64, to: u64, projection: &Projection) -> Result<Rows> {
        self.read_some(from..to, projection, usize::MAX)
    }

    /// The first of these rows, about as many as have `bytes_max` of keys and strings, at least one.
    pub fn read_some(
        &self,
        ordinals: Range<u64>,
        projection: &Projection,
        bytes_max: usize,
    ) -> Result<Rows> {
        match &self.array {
            SortedArray::Run(run) => {
                let portion = run.portion(ordinals, End::First, projection, bytes_max);
                Ok(run.slice(portion.start, portion.end, projection))
            }
            SortedArray::Segment(segment) => {
                let (end, mut ahead) = (ordinals.end, BlocksAhead::default());
                Ok(segment.read_some(ordinals, projection, bytes_max, &mut ahead, end)?)
            }
        }
    }

    /// The zones that hold one of `ordinals`, with some columns of the table, which `layout` has; `None` of
    /// a run, which has none. On disk: one statistics page for each index page that the ordinals lie in.
    pub fn zones(
        &self,
        layout: &Layout,
        ordinals: Range<u64>,
        columns: &[usize],
    ) -> Result<Option<Zones>> {
        match &self.array {
            SortedArray::Run(_) => Ok(None),
            SortedArray::Segment(segment) => Ok(Some(segment.zones(layout, ordinals, columns)?)),
        }
    }

    /// [`Piece::zones`] of each of some pieces, none of which is a run: the pages are read together.
    pub fn zones_of_each(
        wanted: &[(&Piece, Range<u64>)],
        layout: &Layout,
        columns: &[usize],
    ) -> Result<Vec<Zones>> {
        let mut of_segments = Vec::with_capacity(wanted.len());
        for (piece, ordinals) in wanted {
            of_segments.push((&**piece.segment().expect("it is no run"), ordinals.clone()));
        }
        Ok(Segment::zones_of_each(&of_segments, layout, columns)?)
    }

    /// The error of a row whose key is not found.
    ///
    /// # Panics
    /// If the piece is a run, in which every key is found.
    pub fn hides(&self, ordinal: u32) -> Error {
        let segment = self.segment().expect("a run finds its keys");
        segment.inconsistent(format!("row {ordinal} is not found by its key")).into()
    }

    /// Calls `each` with every set and its number of rows, in value order; or says no, and does nothing, if not
    /// all sets are listed, or not all rows count.
    pub fn list_sets(
        &self,
        interrupt: &Interrupt,
        mut each: impl FnMut(&[u8], u64),
    ) -> Result<bool> {
        if self.erased.is_some() {
            return Ok(false);
        }
        let asked = Asked::new(interrupt);
        let mut listed = |value: &[u8], rows| {
            each(value, rows);
            asked.go_on_shortly()
        };
        match &self.array {
            SortedArray::Run(run) if run.indexed().is_all() => {
                run.sets().all(|(value, rows)| listed(value, rows));
            }
            SortedArray::Run(_) => return Ok(false),
            SortedArray::Segment(segment) => {
                match segment.postings().filter(|postings| postings.indexed().is_all()) {
                    Some(postings) => postings.sets(listed)?,
                    None => return Ok(false),
                }
            }
        }
        asked.answer()?;
        Ok(true)
    }
}

/// Copies the wanted rows, and gives them to `each` with the number of what they were wanted by: those of one piece in
/// the order of its ordinals, as many at once as reach `bytes_max` with their keys and strings. The blocks of all
/// segments are read together, each once. If `each` breaks off, the rest is not read.
pub fn fetch_together(
    wanted: &[Wanted<'_>],
    projection: &Projection,
    bytes_max: usize,
    interrupt: &Interrupt,
    mut each: impl FnMut(usize, Rows) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut on_disk = Vec::new();
    for (number, Wanted { piece, ordinals }) in wanted.iter().enumerate() {
        match &piece.array {
            SortedArray::Segment(segment) => {
                on_disk.push((number, fetch::Wanted { segment, ordinals }))
            }
            SortedArray::Run(run) => {
                let mut rest = *ordinals;
                while !rest.is_empty() {
                    interrupt.check()?;
                    let rows = run.fetch_some(rest, projection, bytes_max);
                    rest = &rest[rows.len()..];
                    if each(number, rows)?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
    }
    let (numbers, on_disk): (Vec<usize>, Vec<fetch::Wanted<'_>>) = on_disk.into_iter().unzip();
    let asked = Asked::new(interrupt);
    let mut failure = None;
    let mut take = |number: usize, rows| match each(numbers[number], rows) {
        Ok(flow) => flow.is_continue(),
        Err(error) => {
            failure = Some(error);
            false
        }
    };
    let go_on = || asked.go_on_shortly();
    fetch::fetch(&on_disk, projection, bytes_max, &go_on, &mut take)?;
    failure.map_or(Ok(()), Err)?;
    asked.answer()
}

impl Members {
    /// Those that postings list.
    pub fn in_segment(&self) -> Option<&SegmentMembers> {
        match self {
            Members::Segment(members) => Some(members),
            _ => None,
        }
    }

    pub fn len(&self) -> u64 {
        match self {
            Members::Run(range) => u64::from(range.end - range.start),
            Members::Segment(members) => members.len(),
            Members::Listed(ordinals) | Members::Unindexed(UnindexedSet { ordinals, .. }) => {
                ordinals.len() as u64
            }
            Members::Live(live) => live.len(),
        }
    }
}
