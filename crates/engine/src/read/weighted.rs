//! A selection's rows in proportion to a weight column.
//!
//! Weights are integers, so all units of weight of a selection are numbered through, a unit is drawn
//! uniformly, and the row that holds it is found by running sums: exactly proportional, a few searches a
//! draw. What the draws of one call have to read is read together. Inside a set of a segment, groups of members take
//! the place of members ([`crate::read::grouped_weights`]); of a set in memory the sums are kept with its run
//! once they are worth it; of other sets the members' weights are read and added up once a selection.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use drillcore_format::rows::{Layout, Projection};
use drillcore_format::weight::stored_units;
use drillcore_sample::rng::Rng;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::live_rows::LiveRows;
use crate::pieces::live_weights::LiveWeights;
use crate::pieces::member_weights::KeptWeights;
use crate::pieces::piece::{Members, Piece, UnindexedSet};
use crate::pieces::weight_index::no_weight;
use crate::policy::table_policy::TablePolicy;
use crate::read::arrivals::Arrivals;
use crate::read::grouped_weights::{GroupedMembers, Scale, SetMembers, Weighed, WeighedMembers};
use crate::select::selection::{Part, Place, Selected};
use crate::select::unindexed_sets::count_members;

/// The weight of a rollup table's rows: their numbers of events.
pub(crate) const EVENTS: usize = 0;
/// Tries per row found after which draws by rejection are given up, ...
const TRIES: usize = 16;
/// ... but not after fewer: what a few tries say is chance.
const TRIES_MIN: usize = 64;
/// The stream of a seed for draws behind those by rejection.
const BEHIND_TRIES: u64 = 2;
/// Members whose weights are read at once, and rows that are drawn at once.
const CHUNK: usize = 4096;
/// Rows that can be read one after the other in the time in which the units before one are looked up.
const ROWS_PER_LOOKUP: u64 = 256;

/// A selection with the weights of its parts.
pub struct Weighted {
    selected: Arc<Selected>,
    layout: Layout,
    weight: usize,
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
    Grouped(GroupedMembers),
    Unindexed(Mutex<Unindexed>),
}

/// All members of a set that is not indexed in a segment, among those of a range.
enum Unindexed {
    /// The units of each. Their sum asks for no more.
    Weighed(Vec<u64>),
    Grouped(GroupedMembers),
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
        let value = layout.weight_values().nth(weight).expect("the weight was looked up");
        let projection = layout.stored(false, vec![value]);
        let (interrupt, layout) = (interrupt.clone(), layout.clone());
        let (parts, starts) = (Vec::with_capacity(selected.parts().len()), vec![0u128]);
        let columns = layout.weight_values().count();
        let mut weighted =
            Weighted { selected, layout, weight, columns, projection, interrupt, parts, starts };
        for part in weighted.selected.clone().parts() {
            let (part, sum) = weighted.weigh(part)?;
            weighted.starts.push(weighted.total() + sum);
            weighted.parts.push(part);
        }
        Ok(weighted)
    }

    fn weigh(&self, part: &Part) -> Result<(PartWeight, u128)> {
        let piece = &self.selected.pieces()[part.piece];
        Ok(match &part.members {
            None => {
                let before = piece.weight_before(self.weight, part.from)?;
                let sum = piece.weight_before(self.weight, part.to)? - before;
                (PartWeight::Interval { before }, sum)
            }
            Some(Members::Live(LiveRows::Unerased { erased, .. })) => {
                let weights = self.live_weights(piece, erased)?;
                let before = |position: u64| -> Result<u128> {
                    if position == 0 {
                        return Ok(0);
                    }
                    // Behind the last live row, where the intervals before the next one have not begun.
                    let past = erased.outside(position - 1) + 1;
                    let units = piece.weight_before(self.weight, past)?;
                    Ok(weights.live_before(units, erased.intervals_before(past)))
                };
                let (before, to) = (before(part.from)?, before(part.to)?);
                (PartWeight::Live { before, weights }, to - before)
            }
            Some(Members::Segment(members)) => {
                let members = SetMembers::Indexed(members.clone());
                let grouped = GroupedMembers::new(members, part.from..part.to, self.scale(piece))?;
                let sum = grouped.total();
                (PartWeight::Grouped(grouped), sum)
            }
            // Events of a rollup table are found by their numbers, not drawn in groups.
            Some(Members::Unindexed(_)) if !TablePolicy::of(&self.layout).combines() => {
                let mut units = Vec::with_capacity(part.len() as usize);
                self.for_each_weight(part, |_, unit| units.push(unit))?;
                let sum = units.iter().map(|&unit| u128::from(unit)).sum();
                (PartWeight::Unindexed(Mutex::new(Unindexed::Weighed(units))), sum)
            }
            Some(members) => match piece.member_weights(members, self.weight, part.len())? {
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
            },
        })
    }

    /// Puts the members of sets without an index in the groups that an index would have. These begin with the first member in the
    /// segment: where members of a range were weighed, the others are counted, those of all sets in one pass.
    fn group_unindexed(&self) -> Result<()> {
        let mut unindexed: Vec<(usize, &UnindexedSet, &Mutex<Unindexed>)> = Vec::new();
        for (part, weight) in self.selected.parts().iter().zip(&self.parts) {
            if let (Some(Members::Unindexed(set)), PartWeight::Unindexed(state)) =
                (&part.members, weight)
                && matches!(*state.lock(), Unindexed::Weighed(_))
            {
                unindexed.push((part.piece, set, state));
            }
        }
        for of_piece in unindexed.chunk_by(|a, b| a.0 == b.0) {
            let (number, UnindexedSet { range, .. }, _) = of_piece[0];
            let piece = &self.selected.pieces()[number];
            let values: Vec<&[u8]> = of_piece.iter().map(|(_, set, _)| &*set.value).collect();
            let count = |range: Range<u64>| match range.is_empty() {
                true => Ok(vec![0; values.len()]),
                false => count_members(&self.layout, piece, &values, range, &self.interrupt),
            };
            let (before, behind) = (count(0..range.start)?, count(range.end..piece.rows())?);
            for (at, (_, set, state)) in of_piece.iter().enumerate() {
                let mut state = state.lock();
                let Unindexed::Weighed(units) = &mut *state else { continue };
                let units: Vec<u64> = std::mem::take(units);
                let len = before[at] + units.len() as u64 + behind[at];
                let weighed = WeighedMembers::new(set.ordinals.clone(), units, before[at], len);
                let positions = weighed.positions();
                let members = SetMembers::Weighed(weighed);
                let grouped = GroupedMembers::new(members, positions, self.scale(piece))?;
                *state = Unindexed::Grouped(grouped);
            }
        }
        Ok(())
    }

    /// The running sums of a piece's live rows: of few erased intervals from those of all rows, of many in one pass over the
    /// weights, once a piece and erasure.
    fn live_weights(&self, piece: &Piece, erased: &ErasedRows) -> Result<Arc<LiveWeights>> {
        erased.weights(self.weight, self.columns, || {
            if (erased.intervals() as u64) < piece.rows() / ROWS_PER_LOOKUP {
                let before = |ordinal: u32| piece.weight_before(self.weight, ordinal.into());
                let ends =
                    |interval: Range<u32>| Ok((before(interval.start)?, before(interval.end)?));
                return Ok(LiveWeights::new(erased.iter().map(ends).collect::<Result<Vec<_>>>()?));
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

    fn scale<'a>(&'a self, piece: &'a Piece) -> Scale<'a> {
        let Weighted { weight, projection, interrupt, .. } = self;
        Scale { piece, weight: *weight, projection, interrupt }
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
            let message = format!("partial rows have {} events: they are damaged", self.total());
            Error::new(ErrorKind::Corrupt, message)
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

    fn is_grouped(&self) -> bool {
        let is_grouped =
            |part: &PartWeight| matches!(part, PartWeight::Grouped(_) | PartWeight::Unindexed(_));
        self.parts.iter().any(is_grouped)
    }

    /// The rows that hold some units; with a random seed for each, such as are as likely for units that were drawn.
    fn find(&self, units: &[u128], seeds: Option<&[u64]>) -> Result<Vec<(Place, u128)>> {
        self.group_unindexed()?;
        let mut found = vec![(Place { piece: 0, ordinal: 0 }, 0); units.len()];
        let ascending = ascending(units, self.total());
        let mut rest = ascending.as_slice();
        while let Some(&first) = rest.first() {
            let number = self.starts.partition_point(|&start| start <= units[first as usize]) - 1;
            let (start, end) = (self.starts[number], self.starts[number + 1]);
            let of_part;
            (of_part, rest) =
                rest.split_at(rest.partition_point(|&draw| units[draw as usize] < end));
            let within: Vec<u128> =
                of_part.iter().map(|&draw| units[draw as usize] - start).collect();
            let seeds: Option<Vec<u64>> =
                seeds.map(|seeds| of_part.iter().map(|&draw| seeds[draw as usize]).collect());
            let rows = self.find_in_part(number, within, seeds.as_deref())?;
            let piece = self.selected.parts()[number].piece;
            for (&draw, (ordinal, units)) in of_part.iter().zip(rows) {
                found[draw as usize] = (Place { piece, ordinal: ordinal as u32 }, units);
            }
        }
        Ok(found)
    }

    /// The rows of a part that hold some units, which ascend.
    fn find_in_part(
        &self,
        number: usize,
        mut units: Vec<u128>,
        seeds: Option<&[u64]>,
    ) -> Result<Vec<Weighed>> {
        let part = &self.selected.parts()[number];
        let piece = &self.selected.pieces()[part.piece];
        match &self.parts[number] {
            PartWeight::Interval { before } => {
                units.iter_mut().for_each(|unit| *unit += before);
                piece.rows_of_weight(self.weight, &units, part.from..part.to)
            }
            PartWeight::Live { before, weights } => {
                units.iter_mut().for_each(|unit| *unit = weights.unit(*unit + before));
                piece.rows_of_weight(self.weight, &units, 0..piece.rows())
            }
            PartWeight::Kept { before, kept } => {
                units.iter_mut().for_each(|unit| *unit += before);
                let members = kept.sums.rows_of(&units, part.from..part.to).into_iter();
                members
                    .map(|(position, units)| Ok((part.ordinal(piece, position)?, units)))
                    .collect()
            }
            PartWeight::Grouped(members) => members.find(&units, seeds, self.scale(piece)),
            PartWeight::Unindexed(state) => match &*state.lock() {
                Unindexed::Grouped(members) => members.find(&units, seeds, self.scale(piece)),
                Unindexed::Weighed(_) => unreachable!("they are grouped before they are searched"),
            },
            PartWeight::Members { ends } => {
                let member = |unit: u128| {
                    let member = ends.partition_point(|&end| end <= unit);
                    let before = member.checked_sub(1).map_or(0, |previous| ends[previous]);
                    let ordinal = part.ordinal(piece, part.from + member as u64)?;
                    Ok((ordinal, ends[member] - before))
                };
                units.into_iter().map(member).collect()
            }
        }
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
        let mut rest = self.remaining(&drawn)?;
        while places.len() < n && rest.total() > 0 {
            if places.len().is_multiple_of(CHUNK) {
                self.interrupt.check()?;
            }
            let left = rest.total();
            let place = rest.draw(&mut behind);
            arrive(left, place);
            places.push(place);
        }
        Ok(places)
    }

    /// Every row with a weight that was not drawn yet.
    fn remaining(&self, drawn: &HashSet<Place>) -> Result<UnitTree> {
        let mut rest = Vec::new();
        for part in self.selected.parts() {
            self.for_each_weight(part, |place, unit| {
                if unit > 0 && !drawn.contains(&place) {
                    rest.push((place, unit));
                }
            })?;
        }
        Ok(UnitTree::new(rest))
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
                each(Place { piece: part.piece, ordinal }, unit);
            }
            from = to;
        }
        Ok(())
    }
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

/// Places with their units in a Fenwick tree: drawing one and taking it out costs O(log places).
struct UnitTree {
    places: Vec<(Place, u64)>,
    /// `sums[i]` covers the lowest set bit of `i` places up to the `i`-th, counted from 1.
    sums: Vec<u128>,
    total: u128,
}

impl UnitTree {
    fn new(places: Vec<(Place, u64)>) -> UnitTree {
        let mut sums = vec![0u128; places.len() + 1];
        let mut total = 0;
        for (i, (_, unit)) in places.iter().enumerate() {
            total += u128::from(*unit);
            sums[i + 1] += u128::from(*unit);
            let parent = (i + 1) + ((i + 1) & (i + 1).wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[i + 1];
            }
        }
        UnitTree { places, sums, total }
    }

    fn total(&self) -> u128 {
        self.total
    }

    fn draw(&mut self, rng: &mut Rng) -> Place {
        let mut unit = rng.below_u128(self.total);
        let mut at = 0;
        let mut step = (self.sums.len() - 1).next_power_of_two();
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= unit {
                at += step;
                unit -= self.sums[at];
            }
            step /= 2;
        }
        let (place, weight) = self.places[at];
        let mut node = at + 1;
        while node < self.sums.len() {
            self.sums[node] -= u128::from(weight);
            node += node & node.wrapping_neg();
        }
        self.total -= u128::from(weight);
        place
    }
}
