//! A run: rows in memory, sorted by key, that never change.
//!
//! The write buffer of a table is a list of runs. A batch becomes a run outside any lock; neighbouring
//! runs are merged into larger ones, so a buffer holds few, and every question about it is a few binary
//! searches. A run covers one interval of commits, as a segment does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::BooleanArray;
use arrow_schema::DataType;
use drillcore_format::ids::{Lsn, LsnRange};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::key::{Bound, KeyFences, Keys, RankSearch};
use drillcore_format::rows::{CodedTexts, Layout, Projection, Rows};
use drillcore_storage::few::Few;
use drillcore_storage::segments::lookup::Hits;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::sequence::End;
use parking_lot::Mutex;

use crate::error::Result;
use crate::pieces::extremes::Extremes;
use crate::pieces::member_weights::{KeptWeights, MemberWeights, SetWeight};
use crate::pieces::memory_meter::{Charge, MemoryMeter};
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::set_index::SetIndex;
use crate::pieces::times::{first_time, times};
use crate::pieces::weight_index::WeightIndex;
use crate::policy::tombstones::flags;

/// The first key and the last.
type KeyEnds = (Box<[u8]>, Box<[u8]>);

/// Sorted rows in memory; ties in commit order, oldest first.
#[derive(Debug)]
pub struct Run {
    /// They are [narrowed](Rows::narrowed). Keys may be [by code](drillcore_format::key::KeyCodes), and columns of
    /// [texts](drillcore_format::texts_by_code).
    rows: Rows,
    spelled: Spelled,
    /// Without codes, if keys are by code.
    spelled_ends: Option<KeyEnds>,
    fences: KeyFences,
    sets: Option<SetIndex>,
    /// One a weight column.
    weights: Vec<WeightIndex>,
    /// How many of the rows say that their key is deleted.
    tombstones: u64,
    lsns: LsnRange,
    charge: Charge,
    examined: RowsExamined,
    earliest: Option<Earliest>,
    /// Of the columns that were asked for, by their stored numbers: what a table calls a column may come to be another one.
    extremes: Mutex<BTreeMap<usize, Extremes>>,
    /// Of the sets that were drawn from by weight.
    member_weights: MemberWeights,
    meter: MemoryMeter,
    /// In which its rows were laid out.
    layout: Layout,
    spilled: Spilled,
}

/// The segment with the same rows, once there is one; `None` where none can be had.
#[derive(Default)]
struct Spilled(OnceLock<Option<Arc<Segment>>>);

impl fmt::Debug for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spilled")
            .field(&self.0.get().and_then(|of| Some(of.as_ref()?.id())))
            .finish()
    }
}

/// The earliest time in a run.
#[derive(Debug, Clone, Copy)]
pub struct Earliest {
    /// The number of the column among those that are stored.
    pub stored: usize,
    /// No row has an earlier time there.
    pub time: i64,
}

/// What rows by code, and with narrow numbers, take as they are read.
#[derive(Debug, Clone, Copy, Default)]
struct Spelled {
    /// Bytes that a row has more than as it is held, on average.
    more_per_row: u64,
    /// Bytes of the lists that codes stand for, which are read of no row.
    lists: u64,
    /// Bytes of all keys and strings, or more.
    strings: usize,
    /// Bytes of all numbers outside of keys.
    numbers: usize,
}

/// A run before it has its place in the commit order.
pub struct UncommittedRun {
    run: Arc<Run>,
}

impl UncommittedRun {
    /// Indexes rows that are sorted by key.
    pub fn new(
        layout: &Layout,
        rows: Rows,
        meter: &MemoryMeter,
        examined: &RowsExamined,
    ) -> Result<UncommittedRun> {
        let rows = rows.narrowed();
        let indexed = layout.schema().set.as_ref().map(|set| &set.indexed);
        let sets = match indexed.filter(|indexed| !indexed.is_none()) {
            None => None,
            Some(indexed) => {
                layout.set_codes(&rows)?.map(|codes| SetIndex::new(codes, indexed.clone()))
            }
        };
        let set_bytes = sets.as_ref().map_or(0, SetIndex::allocated_bytes);
        let weights: Vec<WeightIndex> = layout
            .weight_values()
            .map(|value| WeightIndex::new(rows.value(value)))
            .collect::<Result<_>>()?;
        let weight_bytes: usize = weights.iter().map(WeightIndex::allocated_bytes).sum();
        let fences = KeyFences::new(rows.keys());
        let spelled_ends = spelled_ends(&rows);
        let end_bytes = spelled_ends.as_ref().map_or(0, |(first, last)| first.len() + last.len());
        let index_bytes = fences.allocated_bytes() + end_bytes + set_bytes + weight_bytes;
        let bytes = rows.allocated_bytes() + index_bytes + size_of::<Run>();
        let charge = meter.charge(bytes as u64);
        let first = spelled_ends.as_ref().map_or_else(|| rows.key(0), |(first, _)| first);
        let earliest = earliest(layout, &rows, first)?;
        let tombstones = flags(layout, &rows).map_or(0, BooleanArray::true_count) as u64;
        let run = Run {
            spelled: Spelled::of(&rows, layout.value_types()),
            rows,
            spelled_ends,
            fences,
            sets,
            weights,
            tombstones,
            lsns: LsnRange { first: Lsn(0), last: Lsn(0) },
            charge,
            examined: examined.clone(),
            earliest,
            extremes: Mutex::default(),
            member_weights: MemberWeights::default(),
            meter: meter.clone(),
            layout: layout.clone(),
            spilled: Spilled::default(),
        };
        Ok(UncommittedRun { run: Arc::new(run) })
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.run.rows()
    }

    /// The rows, as they will be logged.
    pub fn logged_rows(&self) -> Rows {
        self.run.rows.project(&self.run.layout.all(), 0..self.run.rows.len())
    }

    pub fn bytes(&self) -> u64 {
        self.run.bytes()
    }

    /// Bytes of the run, or of its keys and values as they are logged, whichever is more. O(rows) if these may exceed `limit`.
    pub fn bytes_or_logged(&self, limit: u64) -> u64 {
        let Run { rows, spelled, .. } = &*self.run;
        let most = spelled.strings;
        let strings = match (most + spelled.numbers) as u64 > limit {
            true => rows.string_bytes_by_row().into_iter().sum::<usize>(),
            false => most,
        };
        self.bytes().max((strings + spelled.numbers) as u64)
    }

    /// Gives the run its place. O(1), without memory being asked for.
    pub fn commit(mut self, lsns: LsnRange) -> Arc<Run> {
        let run = Arc::get_mut(&mut self.run).expect("it has one owner");
        run.lsns = lsns;
        run.charge.publish();
        self.run
    }
}

/// Rows whose keys are looked at for a mean.
const SPELLED_ROWS: usize = 64;

impl Spelled {
    fn of(rows: &Rows, types: &[DataType]) -> Spelled {
        let CodedTexts { more, lists, strings } = rows.coded_texts();
        let lists_of_keys = rows.key_codes().map_or(0, |codes| codes.allocated_bytes());
        let numbers = rows.number_bytes(types);
        let held: Vec<DataType> =
            rows.values().iter().map(|array| array.data_type().clone()).collect();
        let more = more + numbers.saturating_sub(rows.number_bytes(&held));
        Spelled {
            more_per_row: more_per_key(rows) + (more / rows.len().max(1)) as u64,
            lists: (lists_of_keys + lists) as u64,
            strings,
            numbers,
        }
    }
}

/// Bytes that the keys of some rows have more without codes, on average of some.
fn more_per_key(rows: &Rows) -> u64 {
    let Some(codes) = rows.key_codes() else { return 0 };
    let looked_at = (0..rows.len()).step_by(rows.len().div_ceil(SPELLED_ROWS));
    let more = |row: usize| {
        let key = rows.key(row);
        codes.spelled_len(key).saturating_sub(key.len()) as u64
    };
    looked_at.clone().map(more).sum::<u64>() / looked_at.count() as u64
}

/// The first key and the last of some rows without codes, if they have some.
fn spelled_ends(rows: &Rows) -> Option<KeyEnds> {
    let codes = rows.key_codes()?;
    let spelled = |row: usize| codes.spelled_key(rows.key(row)).into_boxed_slice();
    Some((spelled(0), spelled(rows.len() - 1)))
}

/// The earliest of the times that say when rows expire, where stored rows tell.
fn earliest(layout: &Layout, rows: &Rows, first_key: &[u8]) -> Result<Option<Earliest>> {
    let schema = layout.schema();
    let Some(ttl) = schema.ttl.filter(|_| schema.expires_by_stored_row()) else { return Ok(None) };
    let times = if schema.key[0] == ttl.column {
        // Rows without a time come first.
        return Ok(first_time(layout, first_key)?
            .map(|time| Earliest { stored: schema.stored.number(ttl.column), time }));
    } else {
        let only_it = layout.projection(&[ttl.column]);
        times(layout.decode(&rows.narrow(&layout.all(), &only_it), &[ttl.column])?.column(0))
    };
    let time = times.iter().flatten().min().unwrap_or(i64::MAX);
    Ok(Some(Earliest { stored: schema.stored.number(ttl.column), time }))
}

impl Run {
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// How many of the rows are tombstones.
    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }

    pub fn lsns(&self) -> LsnRange {
        self.lsns
    }

    /// The columns that it was made with: those that were added later it lacks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The earliest time, if rows expired when the run was made.
    pub fn earliest(&self) -> Option<Earliest> {
        self.earliest
    }

    /// Bytes of all arrays of the run.
    pub fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Notes a segment with the same rows in the same order. What holds the run for long goes on with that.
    pub fn spill_to(&self, segment: Arc<Segment>) {
        debug_assert_eq!((segment.rows(), segment.lsns()), (self.rows(), self.lsns));
        // Where there is one already, that is as good.
        let _ = self.spilled.0.set(Some(segment));
    }

    /// Notes that there is no such segment.
    pub fn stays_in_memory(&self) {
        let _ = self.spilled.0.set(None);
    }

    /// Whether neither is known.
    pub fn may_be_spilled(&self) -> bool {
        self.spilled.0.get().is_none()
    }

    /// The segment that has its rows, too, if it was [spilled](Run::spill_to).
    pub fn spilled(&self) -> Option<&Arc<Segment>> {
        self.spilled.0.get()?.as_ref()
    }

    /// The ordinal of the first row at or past `bound`. O(log rows).
    pub fn rank(&self, bound: &Bound) -> u64 {
        let mut compared = 0;
        let rank = self.fences.rank(self.rows.keys(), &self.held_bound(bound), &mut compared);
        self.examined.add(compared);
        rank as u64
    }

    /// The place of a bound among the keys as they are held.
    pub fn held_bound<'b>(&self, bound: &'b Bound) -> Cow<'b, Bound> {
        match self.rows.key_codes() {
            None => Cow::Borrowed(bound),
            Some(codes) => Cow::Owned(codes.bound(bound)),
        }
    }

    /// The search of a [`Run::held_bound`], of several that are done together: [`Run::rank`] once it is done.
    pub fn rank_search<'r>(&'r self, held: &'r Bound) -> RankSearch<'r> {
        self.fences.search(self.rows.keys(), held)
    }

    /// A key as it is held, if rows may have it.
    fn held_key<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        match self.rows.key_codes() {
            None => Some(Cow::Borrowed(key)),
            Some(codes) => codes.key(key).map(Cow::Owned),
        }
    }

    /// The ordinal of the newest row with this key.
    pub fn find(&self, key: &[u8]) -> Option<u64> {
        let mut compared = 0;
        let newest = self.fences.last(self.rows.keys(), &self.held_key(key)?, &mut compared);
        self.examined.add(compared);
        newest.map(|newest| newest as u64)
    }

    /// Calls `each` with the ordinals of rows that have some keys, which ascend and each occur once here. None of them lies before
    /// row `start`, which moves on. O(log of the rows between two).
    pub fn find_ascending(&self, keys: &Keys, start: &mut usize, mut each: impl FnMut(u32)) {
        let rows = self.rows.len();
        let mut compared = 0;
        for key in keys.iter() {
            let Some(key) = self.held_key(key) else { continue };
            let mut is_before = |row: usize| {
                compared += 1;
                *self.rows.key(row) < *key
            };
            let (mut low, mut high, mut step) = (*start, *start, 1);
            while high < rows && is_before(high) {
                low = high + 1;
                high += step;
                step *= 2;
            }
            high = high.min(rows);
            while low < high {
                let middle = usize::midpoint(low, high);
                if is_before(middle) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            *start = low;
            if low < rows && *self.rows.key(low) == *key {
                each(low as u32);
            }
        }
        self.examined.add(compared);
    }

    /// The first key and the last.
    pub fn key_ends(&self) -> (&[u8], &[u8]) {
        if let Some((first, last)) = &self.spelled_ends {
            return (first, last);
        }
        (self.rows.key(0), self.rows.key(self.rows.len() - 1))
    }

    /// Whether the key lies between the first key and the last: else no row has it.
    pub fn spans(&self, key: &[u8]) -> bool {
        let (first, last) = self.key_ends();
        *first <= *key && *key <= *last
    }

    /// The members of a set, as positions for [`Run::member`]; `None` if the set is not indexed.
    pub fn members(&self, set: &[u8]) -> Option<Range<u32>> {
        self.sets.as_ref()?.members(set)
    }

    /// The sets whose rows are listed.
    pub fn indexed(&self) -> IndexedSets {
        self.sets.as_ref().map_or(IndexedSets::none(), |sets| sets.indexed().clone())
    }

    /// The ordinal of the member at `position`.
    pub fn member(&self, position: u32) -> u64 {
        u64::from(self.ordinals(&(position..position + 1))[0])
    }

    /// The ordinals of some members.
    pub fn ordinals(&self, members: &Range<u32>) -> &[u32] {
        self.set_index().ordinals(members)
    }

    /// How many of a set's members have an ordinal below `ordinal`. O(log members).
    pub fn member_rank(&self, members: &Range<u32>, ordinal: u64) -> u64 {
        let ordinals = self.set_index().ordinals(members);
        ordinals.partition_point(|&member| u64::from(member) < ordinal) as u64
    }

    /// The running sums of a weight column.
    pub fn weight(&self, weight: usize) -> &WeightIndex {
        &self.weights[weight]
    }

    /// The weights of all members of a set, of which `asked` are drawn from now, if these are known or worth knowing: see
    /// [`MemberWeights`].
    pub fn member_weights(
        &self,
        members: &Range<u32>,
        weight: usize,
        asked: u64,
    ) -> Result<Option<Arc<KeptWeights>>> {
        let of = SetWeight { first: members.start, weight };
        self.member_weights.sums(
            of,
            u64::from(members.end - members.start),
            asked,
            &self.meter,
            || self.weights[weight].of_rows(self.ordinals(members)),
        )
    }

    /// Every listed set with its number of rows, in value order.
    pub fn sets(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.sets.iter().flat_map(SetIndex::sets)
    }

    /// The least and the greatest number of the column stored as number `stored`, found by `measure` when first asked for.
    pub fn extremes(
        &self,
        stored: usize,
        measure: impl FnOnce() -> Result<Extremes>,
    ) -> Result<Extremes> {
        let known = || self.extremes.lock();
        if let Some(extremes) = known().get(&stored) {
            return Ok(*extremes);
        }
        let extremes = measure()?;
        known().insert(stored, extremes);
        Ok(extremes)
    }

    /// All rows in the types in which the run holds them, for another run. Copies none.
    pub fn held(&self, projection: &Projection) -> Rows {
        self.rows.project_held(projection)
    }

    /// The rows, with keys as they are held.
    pub fn held_rows(&self) -> &Rows {
        &self.rows
    }

    /// Bytes of a row on average, as it is read: without codes and the lists that they stand for.
    pub fn mean_row_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.spelled.lists) / self.rows().max(1)
            + self.spelled.more_per_row
    }

    /// Bytes of all keys and strings without codes, or more.
    pub fn string_bytes(&self) -> u64 {
        self.spelled.strings as u64
    }

    /// The same rows in another form for a merge with others that are held in the same way: it only reads them in their order. There are
    /// no indexes, and `rank` and `key_ends` are those of keys as they are held.
    pub fn as_held(&self, rows: Rows) -> Run {
        let added = rows.allocated_beside(&self.rows);
        Run {
            fences: KeyFences::new(rows.keys()),
            spelled: Spelled { strings: self.spelled.strings, ..Spelled::default() },
            rows,
            spelled_ends: None,
            sets: None,
            weights: Vec::new(),
            tombstones: self.tombstones,
            lsns: self.lsns,
            charge: self.meter.charge(added as u64),
            examined: self.examined.clone(),
            earliest: self.earliest,
            extremes: Mutex::default(),
            member_weights: MemberWeights::default(),
            meter: self.meter.clone(),
            layout: self.layout.clone(),
            spilled: Spilled::default(),
        }
    }

    /// All rows as they are held, to look at some that have been found, if that copies none.
    pub fn shared(&self, projection: &Projection) -> Option<Rows> {
        self.rows.shared(projection)
    }

    /// Rows that have been found, each given as the number of its key and the ordinal. What takes more than `bytes_max` is
    /// given in part, with one byte more than that.
    pub fn hits(
        &self,
        mut found: Few<(u32, u32)>,
        projection: &Projection,
        bytes_max: usize,
    ) -> Hits {
        if let Some(rows) = self.shared(projection) {
            return Hits { of: 0, found, rows };
        }
        let ordinals: Vec<u32> = found.iter().map(|(_, ordinal)| *ordinal).collect();
        let rows = self.fetch_some(&ordinals, projection, bytes_max.saturating_add(1));
        found.truncate(rows.len());
        (0..).zip(&mut found).for_each(|(row, (_, ordinal))| *ordinal = row);
        Hits { of: 0, found, rows }
    }

    /// Counts rows that were looked at in [`Run::shared`] or [`Run::rank_search`] of one or more runs.
    pub fn note_examined(&self, rows: usize) {
        self.examined.add(rows);
    }

    /// The rows `from..to`. Copies no more of them than narrow numbers and keys by code.
    pub fn slice(&self, from: u64, to: u64, projection: &Projection) -> Rows {
        self.examined.add((to - from) as usize);
        self.rows.project(projection, from as usize..to as usize)
    }

    /// Whether keys are by code.
    pub fn has_key_codes(&self) -> bool {
        self.rows.key_codes().is_some()
    }

    /// [`Run::slice`], all of it copied, with some columns of the key, by their positions, in place of keys, which need not be spelled then.
    pub fn slice_by_columns(
        &self,
        ordinals: Range<u64>,
        projection: &Projection,
        layout: &Layout,
        key: &[usize],
    ) -> Result<Rows> {
        let range = ordinals.start as usize..ordinals.end as usize;
        self.examined.add(range.len());
        let held = self.rows.slice(range.start, range.len());
        let column = |&at: &usize| Ok((at, layout.decode_key(&held, at)?));
        let key = key.iter().map(column).collect::<Result<_>>()?;
        let values = Projection { keys: false, ..projection.clone() };
        // A batch that shared them would keep all of the run in memory.
        let rows: Vec<u32> = range.map(|row| row as u32).collect();
        let values = self.rows.project_rows(&values, &rows);
        Ok(Rows::of_columns(values.len(), key, values.values().to_vec()))
    }

    /// Copies the first of the rows at `ordinals`: all, or those with which keys and strings reach `bytes_max`.
    pub fn fetch_some(&self, ordinals: &[u32], projection: &Projection, bytes_max: usize) -> Rows {
        if self.spelled.strings <= bytes_max {
            return self.fetch(ordinals, projection);
        }
        let mut bytes = 0;
        let reaches = |&ordinal: &u32| {
            let row = ordinal as usize..ordinal as usize + 1;
            bytes += self.rows.projected_string_bytes_in(projection, row);
            bytes >= bytes_max
        };
        let last = ordinals.iter().position(reaches);
        self.fetch(&ordinals[..last.map_or(ordinals.len(), |last| last + 1)], projection)
    }

    /// As many rows of the one end of a range, or of the other, as have `bytes_max` of the keys and strings that are projected, or one.
    pub fn portion(
        &self,
        ordinals: Range<u64>,
        end: End,
        projection: &Projection,
        bytes_max: usize,
    ) -> Range<u64> {
        if self.spelled.strings <= bytes_max {
            return ordinals;
        }
        let mut len = ordinals.end - ordinals.start;
        loop {
            let from = if end == End::First { ordinals.start } else { ordinals.end - len };
            let rows = from as usize..(from + len) as usize;
            let is_small = || self.rows.projected_string_bytes_in(projection, rows) <= bytes_max;
            if len < 2 || is_small() {
                return from..from + len;
            }
            len = len.div_ceil(2);
        }
    }

    /// Copies the rows at `ordinals`.
    pub fn fetch(&self, ordinals: &[u32], projection: &Projection) -> Rows {
        self.examined.add(ordinals.len());
        self.rows.project_rows(projection, ordinals)
    }

    fn set_index(&self) -> &SetIndex {
        self.sets.as_ref().expect("positions were found in it")
    }
}
