//! A selection's rows in proportion to a weight column.
//!
//! Weights are integers, so all units of weight of a selection are numbered through, a unit is drawn
//! uniformly, and the row that holds it is found by running sums: exactly proportional, a few searches a
//! draw. What the draws of one call have to read is read together. Inside a set of a segment, groups of members take
//! the place of members ([`crate::read::grouped_weights`]); of a set in memory the sums are kept with its run
//! once they are worth it; of other sets the members' weights are read and added up once a selection.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use drillcore_format::rows::{Layout, Projection};
use drillcore_format::weight::stored_units;
use drillcore_sample::rng::Rng;
use drillcore_sample::weight_tree::WeightTree;
use drillcore_storage::segments::segment::Segment;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::live_rows::LiveRows;
use crate::pieces::live_weights::LiveWeights;
use crate::pieces::member_weights::KeptWeights;
use crate::pieces::piece::{Members, Piece, SortedArray, UnindexedSet};
use crate::pieces::weight_index::no_weight;
use crate::read::arrivals::Arrivals;
use crate::read::grouped_weights::{
    self, GroupedMembers, Scale, SetMembers, ToWeigh, Weighed, WeighedMembers,
};
use crate::schema::unit::Unit;
use crate::select::selection::{Part, Place, Selected};
use crate::select::unindexed_sets::{SetColumns, count_members};

/// The weight of a rollup table's rows: their numbers of events.
const EVENTS: usize = 0;
/// Tries per row found after which draws by rejection are given up, ...
const TRIES: usize = 16;
/// ... but not after fewer: what a few tries say is chance.
const TRIES_MIN: usize = 64;
/// The stream of a seed for draws behind those by rejection.
const BEHIND_TRIES: u64 = 2;
/// Members whose weights are read at once, rows that are drawn at once, and intervals of erased rows that are weighed at once.
const CHUNK: usize = 4096;
/// Rows that can be read one after the other in the time in which the units before one are looked up.
const ROWS_PER_LOOKUP: u64 = 256;

/// A selection with the weights of its parts.
pub struct Weighted {
    selected: Arc<Selected>,
    layout: Layout,
    weight: usize,
    /// What is drawn: events are found by their numbers, rows in sets without an index in groups.
    unit: Unit,
    /// How many weight columns there are.
    columns: usize,
    /// The weight column alone.
    projection: Projection,
    interrupt: Interrupt,
    parts: Vec<PartWeight>,
    /// The sum over the parts before each, then over all.
    starts: Vec<u128>,
}

enum PartWeight {
    /// An interval of ordinals, with the units that the piece holds before it.
    Interval {
        before: u128,
    },
    /// An interval with erased rows, with the units of live rows that the piece holds before it.
    Live {
        before: u128,
        weights: Arc<LiveWeights>,
    },
    /// Members of a set of a run, with the units of its members before them.
    Kept {
        before: u128,
        kept: Arc<KeptWeights>,
    },
    /// The running sums of the members, one a member.
    Members {
        ends: Vec<u128>,
    },
    Grouped(Box<GroupedMembers>),
    /// All members of a set that is not indexed in a segment, among those of a range: the units of each, which a sum needs, until they are
    /// in groups.
    Unindexed {
        units: Mutex<Vec<u64>>,
        grouped: OnceLock<Box<GroupedMembers>>,
    },
}

/// The rows of a part that hold some units.
enum FoundInPart<'w> {
    Rows(Vec<Weighed>),
    /// Those that hold units of a segment, counted over all of its rows.
    OnDisk(&'w Segment, Vec<u128>),
    /// Those that hold units of a set.
    Grouped(&'w GroupedMembers, Vec<u128>),
}

impl Weighted {
    /// Weighs a selection by the `weight`-th weight column of the table. On disk two ends of an interval
    /// cost an index page and a block each, of an indexed set up to 127 rows; another set costs its members.
    pub fn new(
        selected: Arc<Selected>,
        layout: &Layout,
        weight: usize,
        interrupt: &Interrupt,
    ) -> Result<Weighted> {
        Weighted::by(selected, layout, (Unit::Rows, weight), interrupt)
    }

    /// Weighs partial rows of a rollup table by their events. Costs what [`Weighted::new`] does.
    pub fn by_events(
        partials: Arc<Selected>,
        layout: &Layout,
        interrupt: &Interrupt,
    ) -> Result<Weighted> {
        Weighted::by(partials, layout, (Unit::Events, EVENTS), interrupt)
    }

    fn by(
        selected: Arc<Selected>,
        layout: &Layout,
        (unit, weight): (Unit, usize),
        interrupt: &Interrupt,
    ) -> Result<Weighted> {
        let value = layout.weight_values().nth(weight).expect("the weight was looked up");
        let projection = layout.stored(false, vec![value]);
        let columns = layout.weight_values().count();
        let parts = selected.parts().len();
        let mut weighted = Weighted {
            selected,
            layout: layout.clone(),
            weight,
            unit,
            columns,
            projection,
            interrupt: interrupt.clone(),
            parts: Vec::with_capacity(parts),
            starts: Vec::with_capacity(parts + 1),
        };
        weighted.starts.push(0);
        for (part, sum) in weighted.weigh()? {
            weighted.starts.push(weighted.total() + sum);
            weighted.parts.push(part);
        }
        Ok(weighted)
    }

    /// Weighs the parts. What has to be read of all intervals is read together, and that of all sets that are indexed on disk.
    fn weigh(&self) -> Result<Vec<(PartWeight, u128)>> {
        let parts = self.selected.parts();
        let mut ends = Vec::with_capacity(2 * parts.len());
        let (mut live, mut sets) = (Vec::new(), Vec::new());
        for part in parts {
            let piece = self.piece(part);
            match &part.members {
                None => ends.extend([(piece, part.from), (piece, part.to)]),
                Some(Members::Live(LiveRows::Unerased { erased, .. })) => {
                    live.push(self.live_weights(piece, erased)?);
                    ends.extend([part.from, part.to].map(|at| (piece, past(erased, at))));
                }
                Some(Members::Segment(members)) if !piece.is_spilled_run => sets.push(ToWeigh {
                    piece: piece.clone(),
                    members: SetMembers::Indexed(members.clone()),
                    positions: part.from..part.to,
                }),
                Some(_) => {}
            }
        }
        let mut before = Piece::weights_before(&ends, self.weight)?.into_iter();
        let mut grouped = GroupedMembers::of_each(sets, self.scale())?.into_iter();
        let mut live = live.into_iter();
        let mut weighed = Vec::with_capacity(parts.len());
        for part in parts {
            let mut before = || before.next().expect("both ends of each interval were weighed");
            weighed.push(match &part.members {
                None => {
                    let (before, to) = (before(), before());
                    (PartWeight::Interval { before }, to - before)
                }
                Some(Members::Live(LiveRows::Unerased { erased, .. })) => {
                    let weights = live.next().expect("they were weighed for each");
                    let [before, to] = [part.from, part.to].map(|at| {
                        weights.live_before(before(), erased.intervals_before(past(erased, at)))
                    });
                    (PartWeight::Live { before, weights }, to - before)
                }
                Some(Members::Segment(_)) if !self.piece(part).is_spilled_run => {
                    let members = grouped.next().expect("each was weighed");
                    let sum = members.total();
                    (PartWeight::Grouped(Box::new(members)), sum)
                }
                Some(members) => self.weigh_members(part, members)?,
            });
        }
        Ok(weighed)
    }

    /// Weighs members that are neither an interval nor indexed on disk; also of a run that was spilled, whose members were not drawn in
    /// groups before.
    fn weigh_members(&self, part: &Part, members: &Members) -> Result<(PartWeight, u128)> {
        if matches!(members, Members::Unindexed(_)) && self.unit == Unit::Rows {
            let mut units = Vec::with_capacity(part.len() as usize);
            self.for_each_weight(part, |_, unit| units.push(unit))?;
            let sum = units.iter().map(|&unit| u128::from(unit)).sum();
            let (units, grouped) = (Mutex::new(units), OnceLock::new());
            return Ok((PartWeight::Unindexed { units, grouped }, sum));
        }
        Ok(match self.piece(part).member_weights(members, self.weight, part.len())? {
            Some(kept) => {
                let before = kept.sums.before(part.from);
                let sum = kept.sums.before(part.to) - before;
                (PartWeight::Kept { before, kept }, sum)
            }
            None => {
                let ends = self.member_sums(part)?;
                let sum = ends.last().copied().unwrap_or(0);
                (PartWeight::Members { ends }, sum)
            }
        })
    }

    fn piece(&self, part: &Part) -> &Piece {
        &self.selected.pieces()[part.piece]
    }

    /// Puts the members of sets without an index in the groups that an index would have. These begin with the first member in the
    /// segment: where members of a range were weighed, the others are counted, those of all sets in one pass.
    fn group_unindexed(&self) -> Result<()> {
        let mut unindexed = Vec::new();
        for (part, weight) in self.selected.parts().iter().zip(&self.parts) {
            if let (Some(Members::Unindexed(set)), PartWeight::Unindexed { units, grouped }) =
                (&part.members, weight)
                && grouped.get().is_none()
            {
                unindexed.push((part.piece, set, (units, grouped)));
            }
        }
        let by_piece = || unindexed.chunk_by(|a, b| a.0 == b.0);
        let before = by_piece().map(|of_piece| {
            let (number, UnindexedSet { range, .. }, _) = of_piece[0];
            (&self.selected.pieces()[number], 0..range.start)
        });
        let mut columns = SetColumns::new(&self.layout, before);
        for of_piece in by_piece() {
            let (number, UnindexedSet { range, .. }, _) = of_piece[0];
            let piece = &self.selected.pieces()[number];
            let values: Vec<&[u8]> = of_piece.iter().map(|(_, set, _)| &*set.value).collect();
            let column = columns.open_next()?.expect("there is one for each");
            let count = |range: Range<u64>| match range.is_empty() {
                true => Ok(vec![0; values.len()]),
                false => count_members(&column, &values, range, &self.interrupt),
            };
            let (before, behind) = (count(0..range.start)?, count(range.end..piece.rows())?);
            for (at, (_, set, (units, grouped))) in of_piece.iter().enumerate() {
                let mut units = units.lock();
                if grouped.get().is_some() {
                    continue;
                }
                let units: Vec<u64> = std::mem::take(&mut units);
                let len = before[at] + units.len() as u64 + behind[at];
                let weighed = WeighedMembers::new(set.ordinals.clone(), units, before[at], len);
                let positions = weighed.positions();
                let members = SetMembers::Weighed(weighed);
                let to_weigh = ToWeigh { piece: piece.clone(), members, positions };
                let mut weighed = GroupedMembers::of_each(vec![to_weigh], self.scale())?;
                grouped.get_or_init(|| Box::new(weighed.pop().expect("one was weighed")));
            }
        }
        Ok(())
    }

    /// The running sums of a piece's live rows: of few erased intervals from those of all rows, of many in one pass over the
    /// weights, once per piece and erasure.
    fn live_weights(&self, piece: &Piece, erased: &ErasedRows) -> Result<Arc<LiveWeights>> {
        erased.weights(self.weight, self.columns, || {
            if (erased.intervals() as u64) < piece.rows() / ROWS_PER_LOOKUP {
                let mut ends = Vec::with_capacity(erased.intervals());
                let mut intervals = erased.iter();
                while intervals.len() > 0 {
                    self.interrupt.check()?;
                    let some = intervals.by_ref().take(CHUNK);
                    let wanted = some.flat_map(|interval| [interval.start, interval.end]);
                    let wanted: Vec<_> = wanted.map(|end| (piece, u64::from(end))).collect();
                    let before = Piece::weights_before(&wanted, self.weight)?;
                    ends.extend(before.chunks(2).map(|ends| (ends[0], ends[1])));
                }
                return Ok(LiveWeights::new(ends));
            }
            let (mut intervals, mut ends) = (erased.iter().peekable(), Vec::new());
            let (mut sum, mut start) = (0u128, 0u128);
            let all = Part { piece: 0, members: None, from: 0, to: piece.rows() };
            self.for_each_weight_of(piece, &all, |place, unit| {
                let Some(interval) = intervals.peek() else { return };
                if place.ordinal == interval.start {
                    start = sum;
                }
                sum += u128::from(unit);
                if place.ordinal + 1 == interval.end {
                    ends.push((start, sum));
                    intervals.next();
                }
            })?;
            Ok(LiveWeights::new(ends))
        })
    }

    fn scale(&self) -> Scale<'_> {
        let Weighted { weight, projection, interrupt, .. } = self;
        Scale { weight: *weight, projection, interrupt }
    }

    pub fn selected(&self) -> &Selected {
        &self.selected
    }

    /// The units of all rows.
    pub fn total(&self) -> u128 {
        self.starts[self.starts.len() - 1]
    }

    /// The units of all rows of a rollup table, which are events.
    ///
    /// # Errors
    /// `Corrupt` if they are more than there can be.
    pub fn events(&self) -> Result<u64> {
        u64::try_from(self.total()).map_err(|_| {
            let total = self.total();
            Error::damaged(format_args!("partial rows have {total} events: they are damaged"))
        })
    }

    /// Draws rows one after the other, each with the chance of its weight, and says how many units each has. The total must be
    /// above 0.
    pub fn draw(&self, rng: &mut Rng, n: usize) -> Result<Vec<(Place, u128)>> {
        let (total, is_grouped) = (self.total(), self.is_grouped());
        let mut drawn = Vec::with_capacity(n);
        while drawn.len() < n {
            self.interrupt.check()?;
            let round = (n - drawn.len()).min(CHUNK);
            if !is_grouped {
                let units: Vec<u128> = (0..round).map(|_| rng.below_u128(total)).collect();
                drawn.extend(self.find(&units, None)?);
                continue;
            }
            // In this order, so that what is drawn does not depend on how many are drawn at once.
            let draw = |_| (rng.below_u128(total), rng.next_u64());
            let (units, seeds): (Vec<u128>, Vec<u64>) = (0..round).map(draw).unzip();
            drawn.extend(self.find(&units, Some(&seeds))?);
        }
        Ok(drawn)
    }

    /// The rows that hold some units below the total, and how many each has.
    pub fn at(&self, units: &[u128]) -> Result<Vec<(Place, u128)>> {
        self.find(units, None)
    }

    /// The rows of a rollup table that events of some numbers were folded into, in that order.
    pub fn of_events(&self, numbers: &[u64]) -> Result<Vec<Place>> {
        let mut places = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(Interrupt::LOOKUPS) {
            self.interrupt.check()?;
            let units: Vec<u128> = numbers.iter().map(|&number| number.into()).collect();
            places.extend(self.at(&units)?.into_iter().map(|(place, _)| place));
        }
        Ok(places)
    }

    fn is_grouped(&self) -> bool {
        let is_grouped = |part: &PartWeight| {
            matches!(part, PartWeight::Grouped(_) | PartWeight::Unindexed { .. })
        };
        self.parts.iter().any(is_grouped)
    }

    /// The rows that hold some units; with a random seed for each, such as are as likely for units that were drawn. What has to be read of
    /// all parts is read together.
    fn find(&self, units: &[u128], seeds: Option<&[u64]>) -> Result<Vec<(Place, u128)>> {
        self.group_unindexed()?;
        let mut found = vec![(Place::new(0, 0), 0); units.len()];
        let mut put = |draws: &mut dyn Iterator<Item = (usize, usize)>, rows: Vec<Weighed>| {
            for ((draw, piece), (ordinal, units)) in draws.zip(rows) {
                found[draw] = (Place::new(piece, ordinal as u32), units);
            }
        };
        let (mut in_segments, mut in_segments_of) = (Vec::new(), Vec::new());
        let (mut in_sets, mut in_sets_of) = (Vec::new(), Vec::new());
        let ascending = ascending(units, self.total());
        let mut rest = ascending.as_slice();
        while let Some(&first) = rest.first() {
            let number = self.starts.partition_point(|&start| start <= units[first as usize]) - 1;
            let (start, end) = (self.starts[number], self.starts[number + 1]);
            let of_part;
            (of_part, rest) =
                rest.split_at(rest.partition_point(|&draw| units[draw as usize] < end));
            let within = of_part.iter().map(|&draw| units[draw as usize] - start).collect();
            let piece = self.selected.parts()[number].piece;
            let mut draws = of_part.iter().map(|&draw| (draw as usize, piece));
            match self.find_in_part(number, within)? {
                FoundInPart::Rows(rows) => put(&mut draws, rows),
                FoundInPart::OnDisk(segment, units) => {
                    in_segments.extend(units.into_iter().map(|unit| (segment, unit)));
                    in_segments_of.extend(draws);
                }
                FoundInPart::Grouped(members, units) => {
                    in_sets.extend(units.into_iter().map(|unit| (members, unit)));
                    in_sets_of.extend(draws);
                }
            }
        }
        let rows = Segment::rows_of_weight(&in_segments, self.weight)?;
        put(&mut in_segments_of.into_iter(), rows);
        let seeds: Option<Vec<u64>> =
            seeds.map(|seeds| in_sets_of.iter().map(|&(draw, _)| seeds[draw]).collect());
        let rows = grouped_weights::find(&in_sets, seeds.as_deref(), self.scale())?;
        put(&mut in_sets_of.into_iter(), rows);
        Ok(found)
    }

    /// The rows of a part that hold some units, which ascend; or where on disk to look for them.
    fn find_in_part(&self, number: usize, mut units: Vec<u128>) -> Result<FoundInPart<'_>> {
        let part = &self.selected.parts()[number];
        let piece = self.piece(part);
        let in_interval = |units: Vec<u128>, rows| match &piece.array {
            SortedArray::Run(run) => {
                FoundInPart::Rows(run.weight(self.weight).rows_of(&units, rows))
            }
            SortedArray::Segment(segment) => FoundInPart::OnDisk(segment, units),
        };
        Ok(match &self.parts[number] {
            PartWeight::Interval { before } => {
                units.iter_mut().for_each(|unit| *unit += before);
                in_interval(units, part.from..part.to)
            }
            PartWeight::Live { before, weights } => {
                units.iter_mut().for_each(|unit| *unit = weights.unit(*unit + before));
                in_interval(units, 0..piece.rows())
            }
            PartWeight::Kept { before, kept } => {
                units.iter_mut().for_each(|unit| *unit += before);
                let members = kept.sums.rows_of(&units, part.from..part.to).into_iter();
                let rows = members.map(|(at, units)| Ok((part.ordinal(piece, at)?, units)));
                FoundInPart::Rows(rows.collect::<Result<_>>()?)
            }
            PartWeight::Grouped(members) => FoundInPart::Grouped(members, units),
            PartWeight::Unindexed { grouped, .. } => {
                let members = grouped.get().expect("they are grouped before they are searched");
                FoundInPart::Grouped(members, units)
            }
            PartWeight::Members { ends } => {
                let member = |unit: u128| {
                    let member = ends.partition_point(|&end| end <= unit);
                    let before = member.checked_sub(1).map_or(0, |previous| ends[previous]);
                    let ordinal = part.ordinal(piece, part.from + member as u64)?;
                    Ok((ordinal, ends[member] - before))
                };
                FoundInPart::Rows(units.into_iter().map(member).collect::<Result<_>>()?)
            }
        })
    }

    /// Draws up to `n` different rows by successive draws, those in `places` first: each with the chance of its
    /// weight among the rows not drawn yet. Fewer come back where fewer have a weight above 0.
    ///
    /// A row that comes again is drawn anew, which is the same as drawing among the others. Once that
    /// takes too many tries, the weights of all rows are read and drawn from without rejection. Each draw arrives.
    pub fn draw_different(
        &self,
        rng: &mut Rng,
        mut places: Vec<Place>,
        mut arrivals: Option<&mut Arrivals>,
        n: usize,
    ) -> Result<Vec<Place>> {
        let mut arrive = |units: u128, place: Place| {
            arrivals.as_mut().into_iter().for_each(|arrivals| arrivals.arrive(units, place));
        };
        let mut drawn: HashSet<Place> = places.iter().copied().collect();
        if self.total() == 0 {
            return Ok(places);
        }
        // For what comes behind the tries, so that it does not depend on how many were drawn at once.
        let mut behind = Rng::keyed(rng.next_u64(), BEHIND_TRIES);
        // Past as many tries as there are rows, reading all their weights costs less.
        let rows = usize::try_from(self.selected.len()).unwrap_or(usize::MAX);
        let (mut attempts, first) = (0, places.len());
        let goes_on = |attempts: usize, found: usize| {
            attempts < rows.min(TRIES.saturating_mul(found - first).max(TRIES_MIN))
        };
        'tries: while places.len() < n && goes_on(attempts, places.len()) {
            for (place, _) in self.draw(rng, (n - places.len()).min(CHUNK))? {
                if !goes_on(attempts, places.len()) {
                    break 'tries;
                }
                attempts += 1;
                arrive(self.total(), place);
                places.extend(drawn.insert(place).then_some(place));
            }
        }
        if places.len() == n {
            return Ok(places);
        }
        let (rest, weights) = self.remaining(&drawn)?;
        let mut tree = WeightTree::new(weights);
        while places.len() < n && tree.total() > 0 {
            if places.len().is_multiple_of(CHUNK) {
                self.interrupt.check()?;
            }
            let left = tree.total();
            let place = rest[tree.draw(&mut behind)];
            arrive(left, place);
            places.push(place);
        }
        Ok(places)
    }

    /// Every row with a weight that was not drawn yet, and these weights.
    fn remaining(&self, drawn: &HashSet<Place>) -> Result<(Vec<Place>, Vec<u64>)> {
        let (mut rest, mut weights) = (Vec::new(), Vec::new());
        for part in self.selected.parts() {
            self.for_each_weight(part, |place, unit| {
                if unit > 0 && !drawn.contains(&place) {
                    rest.push(place);
                    weights.push(unit);
                }
            })?;
        }
        Ok((rest, weights))
    }

    fn member_sums(&self, part: &Part) -> Result<Vec<u128>> {
        let mut ends = Vec::with_capacity(part.len() as usize);
        let mut sum = 0u128;
        self.for_each_weight(part, |_, unit| {
            sum += u128::from(unit);
            ends.push(sum);
        })?;
        Ok(ends)
    }

    /// Reads the weights of a part's rows, in order.
    fn for_each_weight(&self, part: &Part, mut each: impl FnMut(Place, u64)) -> Result<()> {
        self.for_each_weight_of(&self.selected.pieces()[part.piece], part, &mut each)
    }

    fn for_each_weight_of(
        &self,
        piece: &Piece,
        part: &Part,
        mut each: impl FnMut(Place, u64),
    ) -> Result<()> {
        let (mut from, mut ordinals) = (part.from, Vec::new());
        while from < part.to {
            self.interrupt.check()?;
            let to = part.to.min(from + CHUNK as u64);
            ordinals.clear();
            part.ordinals(piece, from..to, &mut ordinals)?;
            let rows = match part.members {
                None => piece.read(from, to, &self.projection)?,
                Some(_) => piece.fetch(&ordinals, &self.projection, &self.interrupt)?,
            };
            let units = stored_units(rows.value(0)).map_err(no_weight)?;
            for (&ordinal, unit) in ordinals.iter().zip(units) {
                each(Place::new(part.piece, ordinal), unit);
            }
            from = to;
        }
        Ok(())
    }
}

/// The ordinal at which the live rows before a position end: behind the last of them, where the intervals before the next one have not
/// begun.
fn past(erased: &ErasedRows, position: u64) -> u64 {
    position.checked_sub(1).map_or(0, |last| erased.outside(last) + 1)
}

/// The numbers of some units below a total, in the order of these, and of equal ones in their own.
fn ascending(units: &[u128], total: u128) -> Vec<u32> {
    let number_bits = usize::BITS - units.len().leading_zeros();
    if total >> (u64::BITS - number_bits) > 0 {
        let mut order: Vec<(u128, u32)> = units.iter().copied().zip(0..).collect();
        order.sort_unstable();
        return order.into_iter().map(|(_, number)| number).collect();
    }
    // Both fit one word, and words are sorted in less time.
    let word = |(number, &unit): (usize, &u128)| (unit as u64) << number_bits | number as u64;
    let mut order: Vec<u64> = units.iter().enumerate().map(word).collect();
    order.sort_unstable();
    order.into_iter().map(|word| (word & ((1 << number_bits) - 1)) as u32).collect()
}
