//! Members of a set of a segment in proportion to a weight, by what its index says of groups of them.
//!
//! A group is found by running sums. Then any member of it is drawn, its weight alone is read, and it is accepted with that
//! weight over the largest of its group, or else drawn anew: so members come in proportion to their weights, at the cost of
//! a few rows each, however many there are (as in the sampling index WIRS of Dynamic Extension, with exact sums in place
//! of an alias structure). The members at the ends of a key range, which cuts groups, are weighed one by one.
//!
//! The members of a set without an index are all weighed, and drawn from in the same groups: whether there is an index changes no
//! draw of a seed.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use drillcore_format::postings::{GroupWeight, WEIGHT_GROUP, WeightGroup};
use drillcore_format::rows::Projection;
use drillcore_format::weight::stored_units;
use drillcore_sample::rng::Rng;
use drillcore_storage::postings::set_postings::SegmentMembers;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::pieces::piece::{Piece, Wanted, fetch_together};
use crate::pieces::weight_index::no_weight;

/// Draws of a member after which its whole group is weighed: only where one member has most of the weight. Those of a round are read
/// together: few rounds, and at most twice as many members as if each waited for the one before.
const TRIES: [usize; 3] = [1, 2, 5];
/// The stream of a draw's seed that gives a member of its group.
const MEMBERS: u64 = 1;
/// Groups whose members are weighed together.
const GROUPS_AT_ONCE: usize = 32;
/// Sets that are weighed together, each with up to two groups cut by a key range.
const SETS_AT_ONCE: usize = 256;

/// A row, by its ordinal, and its units.
pub type Weighed = (u64, u128);

/// What is needed to weigh rows.
#[derive(Clone, Copy)]
pub struct Scale<'a> {
    /// The number of the weight column.
    pub weight: usize,
    /// That column alone.
    pub projection: &'a Projection,
    pub interrupt: &'a Interrupt,
}

/// Some members in a row of a set of a segment.
pub struct GroupedMembers {
    piece: Piece,
    members: SetMembers,
    /// Members before the first whole group, one by one.
    head: Ends,
    /// The sum over all members of the set before that group, and over the whole groups.
    before: u128,
    inner: u128,
    /// Members behind the last whole group.
    tail: Ends,
}

/// Members at some positions of a set of a segment, which are to be weighed.
pub struct ToWeigh {
    pub piece: Piece,
    pub members: SetMembers,
    pub positions: Range<u64>,
}

/// All members of a set of a segment, in groups.
pub enum SetMembers {
    Indexed(SegmentMembers),
    Weighed(WeighedMembers),
}

/// The members of a set that is not indexed, of which those in a row were weighed.
pub struct WeighedMembers {
    /// Of those that were weighed.
    ordinals: Arc<[u32]>,
    units: Vec<u64>,
    /// The position of the first of them.
    first: u64,
    /// How many members the set has.
    len: u64,
    /// The groups that were weighed whole, whose sums begin with the first of them.
    groups: Vec<WeightGroup>,
}

/// Running sums of some members, one a member.
struct Ends {
    first_position: u64,
    sums: Vec<u128>,
}

impl GroupedMembers {
    /// Weighs members of several sets: two pages of postings, and up to 127 rows at each end, of each. What has to be read is read
    /// together.
    pub fn of_each(sets: Vec<ToWeigh>, scale: Scale<'_>) -> Result<Vec<GroupedMembers>> {
        let mut grouped = Vec::with_capacity(sets.len());
        let mut sets = sets.into_iter();
        while sets.len() > 0 {
            let some = sets.by_ref().take(SETS_AT_ONCE).collect();
            grouped.extend(GroupedMembers::of_some(some, scale)?);
        }
        Ok(grouped)
    }

    fn of_some(sets: Vec<ToWeigh>, scale: Scale<'_>) -> Result<Vec<GroupedMembers>> {
        let (mut ends, mut groups) = (Vec::with_capacity(2 * sets.len()), Vec::new());
        for ToWeigh { piece, members, positions } in &sets {
            let whole = whole_groups(positions, members.len());
            let set = Set { piece, members };
            if whole.is_empty() {
                ends.extend([(set, positions.clone()), (set, 0..0)]);
                continue;
            }
            let head_end = whole.start * WEIGHT_GROUP;
            let tail_start = positions.end.min(whole.end * WEIGHT_GROUP);
            ends.extend([(set, positions.start..head_end), (set, tail_start..positions.end)]);
            groups.extend([(members, whole.start), (members, whole.end - 1)]);
        }
        let mut ends = Ends::of_each(&ends, scale)?.into_iter();
        let mut groups = groups_of_numbers(&groups, scale.weight)?.into_iter();
        let mut grouped = Vec::with_capacity(sets.len());
        for ToWeigh { piece, members, positions } in sets {
            let mut next = || ends.next().expect("both ends of each set were weighed");
            let (head, tail) = (next(), next());
            let (mut before, mut inner) = (0, 0);
            if !whole_groups(&positions, members.len()).is_empty() {
                let mut next = || groups.next().expect("both groups of each set were looked up");
                let (first, last) = (next(), next());
                (before, inner) = (first.before, last.before + last.weight.sum - first.before);
            }
            grouped.push(GroupedMembers { piece, members, head, before, inner, tail });
        }
        Ok(grouped)
    }

    /// The units of all.
    pub fn total(&self) -> u128 {
        self.head.total() + self.inner + self.tail.total()
    }

    fn set(&self) -> Set<'_> {
        Set { piece: &self.piece, members: &self.members }
    }

    fn positions(&self, group: &WeightGroup) -> Range<u64> {
        let first = group.number * WEIGHT_GROUP;
        first..self.members.len().min(first + WEIGHT_GROUP)
    }

    fn disagrees(&self, group: &WeightGroup) -> Error {
        let segment = self.piece.segment().expect("its members are on disk");
        let detail = format!("a set's group {} does not weigh {}", group.number, group.weight.sum);
        segment.inconsistent(detail).into()
    }
}

/// The members that hold some units of several sets, each below the total of its set. With a random seed for each, each is a member
/// of the group with the unit, drawn in proportion to its weight; so drawn units give drawn members, and groups are not weighed. What
/// has to be read is read together.
pub fn find(
    wanted: &[(&GroupedMembers, u128)],
    seeds: Option<&[u64]>,
    scale: Scale<'_>,
) -> Result<Vec<Weighed>> {
    let mut found = vec![(0, 0); wanted.len()];
    let (mut ends, mut inner) = (Vec::new(), Vec::new());
    for (number, &(of, unit)) in wanted.iter().enumerate() {
        let within = unit.checked_sub(of.head.total());
        let behind = within.and_then(|within| within.checked_sub(of.inner));
        match (within, behind) {
            (None, _) => ends.push((number, of.head.find(unit))),
            (_, Some(behind)) => ends.push((number, of.tail.find(behind))),
            (Some(within), None) => inner.push((number, of, of.before + within)),
        }
    }
    let at_ends: Vec<(Set<'_>, u64)> =
        ends.iter().map(|(number, (position, _))| (wanted[*number].0.set(), *position)).collect();
    for ((number, (_, units)), ordinal) in ends.into_iter().zip(ordinals(&at_ends)?) {
        found[number] = (u64::from(ordinal), units);
    }
    let units: Vec<(&SetMembers, u128)> =
        inner.iter().map(|(_, of, unit)| (&of.members, *unit)).collect();
    let groups = groups_of_units(&units, scale.weight)?;
    let sought = |((number, of, unit), group): ((usize, _, u128), WeightGroup)| Sought {
        number,
        of,
        rest: unit - group.before,
        group,
    };
    let mut open: Vec<Sought<'_>> = inner.into_iter().zip(groups).map(sought).collect();
    if let Some(seeds) = seeds {
        open = draw_members(open, seeds, scale, &mut found)?;
    }
    find_in_groups(open, scale, &mut found)?;
    Ok(found)
}

/// Draws a member of each group. Gives those that were not accepted, with new units of their groups.
fn draw_members<'m>(
    open: Vec<Sought<'m>>,
    seeds: &[u64],
    scale: Scale<'_>,
    found: &mut [Weighed],
) -> Result<Vec<Sought<'m>>> {
    let with_rng = |sought: Sought<'m>| {
        let rng = Rng::keyed(seeds[sought.number], MEMBERS);
        (sought, rng)
    };
    let mut open: Vec<(Sought<'m>, Rng)> = open.into_iter().map(with_rng).collect();
    for tries in TRIES {
        let (mut positions, mut rolls) = (Vec::new(), Vec::new());
        for (sought, rng) in &mut open {
            let of_group = sought.of.positions(&sought.group);
            for _ in 0..tries {
                let position = of_group.start + rng.below(of_group.end - of_group.start);
                positions.push((sought.of.set(), position));
                rolls.push(rng.below_u128(u128::from(sought.group.weight.max)));
            }
        }
        let drawn = weigh(&positions, scale)?;
        let mut drawn = drawn.chunks(tries).zip(rolls.chunks(tries));
        open.retain(|(sought, _)| {
            let (drawn, rolls) = drawn.next().expect("some were drawn for each");
            let accepted = drawn.iter().zip(rolls).find(|(weighed, roll)| **roll < weighed.1);
            if let Some((weighed, _)) = accepted {
                found[sought.number] = *weighed;
            }
            accepted.is_none()
        });
        if open.is_empty() {
            break;
        }
    }
    let with_new_unit = |(mut sought, mut rng): (Sought<'m>, Rng)| {
        sought.rest = rng.below_u128(sought.group.weight.sum);
        sought
    };
    Ok(open.into_iter().map(with_new_unit).collect())
}

/// Weighs whole groups, each once, and finds the members that hold some units of them.
fn find_in_groups(
    mut open: Vec<Sought<'_>>,
    scale: Scale<'_>,
    found: &mut [Weighed],
) -> Result<()> {
    open.sort_by_key(Sought::group);
    let of_groups: Vec<&[Sought<'_>]> = open.chunk_by(|a, b| a.group() == b.group()).collect();
    for together in of_groups.chunks(GROUPS_AT_ONCE) {
        let mut all = Vec::with_capacity(GROUPS_AT_ONCE * WEIGHT_GROUP as usize);
        for of_group in together {
            let Sought { of, group, .. } = of_group[0];
            all.extend(of.set().at_each(of.positions(&group)));
        }
        let weighed = weigh(&all, scale)?;
        let mut rest = weighed.as_slice();
        for of_group in together {
            let Sought { of, group, .. } = of_group[0];
            let range = of.positions(&group);
            let members;
            (members, rest) = rest.split_at((range.end - range.start) as usize);
            let ends = running(members.iter().map(|(_, units)| *units));
            if ends.last() != Some(&group.weight.sum) {
                return Err(of.disagrees(&group));
            }
            for sought in *of_group {
                let member = ends.partition_point(|&end| end <= sought.rest);
                found[sought.number] = members[member];
            }
        }
    }
    Ok(())
}

/// A unit of weight that is looked for in a group.
#[derive(Clone, Copy)]
struct Sought<'m> {
    /// Its number among those asked for.
    number: usize,
    of: &'m GroupedMembers,
    group: WeightGroup,
    /// How many units of the group lie before it.
    rest: u128,
}

impl Sought<'_> {
    /// Which group it is, of all groups of all sets.
    fn group(&self) -> (usize, u64) {
        (std::ptr::from_ref(self.of).addr(), self.group.number)
    }
}

/// A set of a piece.
#[derive(Clone, Copy)]
struct Set<'m> {
    piece: &'m Piece,
    members: &'m SetMembers,
}

impl<'m> Set<'m> {
    /// Each of some positions in it.
    fn at_each(self, positions: Range<u64>) -> impl Iterator<Item = (Set<'m>, u64)> {
        positions.map(move |position| (self, position))
    }

    fn is(&self, other: &Set<'_>) -> bool {
        std::ptr::eq(self.members, other.members)
    }
}

impl Ends {
    /// Those of members at some positions of a set each.
    fn of_each(wanted: &[(Set<'_>, Range<u64>)], scale: Scale<'_>) -> Result<Vec<Ends>> {
        let mut all = Vec::new();
        for (set, positions) in wanted {
            all.extend(set.at_each(positions.clone()));
        }
        let mut weighed = weigh(&all, scale)?.into_iter().map(|(_, units)| units);
        let ends = |(_, positions): &(Set<'_>, Range<u64>)| Ends {
            first_position: positions.start,
            sums: running(weighed.by_ref().take((positions.end - positions.start) as usize)),
        };
        Ok(wanted.iter().map(ends).collect())
    }

    fn total(&self) -> u128 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// The position of the member with a unit, and its units.
    fn find(&self, unit: u128) -> (u64, u128) {
        let member = self.sums.partition_point(|&end| end <= unit);
        let before = member.checked_sub(1).map_or(0, |previous| self.sums[previous]);
        (self.first_position + member as u64, self.sums[member] - before)
    }
}

impl SetMembers {
    fn len(&self) -> u64 {
        match self {
            SetMembers::Indexed(members) => members.len(),
            SetMembers::Weighed(members) => members.len,
        }
    }
}

/// The groups of some numbers, each of a set.
fn groups_of_numbers(wanted: &[(&SetMembers, u64)], weight: usize) -> Result<Vec<WeightGroup>> {
    let weighed = |members: &WeighedMembers, number| {
        members.groups[(number - members.groups[0].number) as usize]
    };
    let indexed = |wanted: &[_]| Ok(SegmentMembers::groups_of_numbers(wanted, weight)?);
    looked_up(wanted.iter().copied(), weighed, indexed)
}

/// The groups with some units, each of a set, counted as [`WeightGroup::before`] counts what lies before a group.
fn groups_of_units(wanted: &[(&SetMembers, u128)], weight: usize) -> Result<Vec<WeightGroup>> {
    let weighed = |WeighedMembers { groups, .. }: &WeighedMembers, unit| {
        groups[groups.partition_point(|group| group.before <= unit) - 1]
    };
    let indexed = |wanted: &[_]| Ok(SegmentMembers::groups_of_units(wanted, weight)?);
    looked_up(wanted.iter().copied(), weighed, indexed)
}

/// The ordinals of the members at some positions, each of a set.
fn ordinals(wanted: &[(Set<'_>, u64)]) -> Result<Vec<u32>> {
    let weighed = |WeighedMembers { ordinals, first, .. }: &WeighedMembers, position: u64| {
        ordinals[(position - first) as usize]
    };
    let indexed = |wanted: &[_]| {
        let mut ordinals = Vec::with_capacity(wanted.len());
        SegmentMembers::ordinals_of(wanted, &mut ordinals)?;
        Ok(ordinals)
    };
    looked_up(wanted.iter().map(|(set, position)| (set.members, *position)), weighed, indexed)
}

/// An answer for each question to a set: those about members that were weighed one by one, those about indexed ones together.
fn looked_up<'m, Q: Copy, A: Copy + Default>(
    wanted: impl ExactSizeIterator<Item = (&'m SetMembers, Q)>,
    weighed: impl Fn(&WeighedMembers, Q) -> A,
    indexed: impl FnOnce(&[(&'m SegmentMembers, Q)]) -> Result<Vec<A>>,
) -> Result<Vec<A>> {
    let mut answers = vec![A::default(); wanted.len()];
    let (mut on_disk, mut places) = (Vec::new(), Vec::new());
    for (at, (members, question)) in wanted.enumerate() {
        match members {
            SetMembers::Weighed(members) => answers[at] = weighed(members, question),
            SetMembers::Indexed(members) => {
                on_disk.push((members, question));
                places.push(at);
            }
        }
    }
    for (at, answer) in places.into_iter().zip(indexed(&on_disk)?) {
        answers[at] = answer;
    }
    Ok(answers)
}

/// The members at some positions, each of a set, with their units. Their blocks are read together.
fn weigh(wanted: &[(Set<'_>, u64)], scale: Scale<'_>) -> Result<Vec<Weighed>> {
    let ordinals = ordinals(wanted)?;
    let mut weighed: Vec<Weighed> =
        ordinals.iter().map(|&ordinal| (u64::from(ordinal), 0)).collect();
    // By set and ordinal, of those that are to be read.
    let mut to_read: Vec<usize> = Vec::new();
    for (at, (set, position)) in wanted.iter().enumerate() {
        match set.members {
            SetMembers::Weighed(WeighedMembers { units, first, .. }) => {
                weighed[at].1 = u128::from(units[(position - first) as usize]);
            }
            SetMembers::Indexed(_) => to_read.push(at),
        }
    }
    let address = |at: usize| std::ptr::from_ref(wanted[at].0.members).addr();
    to_read.sort_by_key(|&at| (address(at), ordinals[at]));
    let of_sets: Vec<&[usize]> = to_read.chunk_by(|&a, &b| wanted[a].0.is(&wanted[b].0)).collect();
    let distinct = |of_set: &&[usize]| {
        let mut distinct: Vec<u32> = of_set.iter().map(|&at| ordinals[at]).collect();
        distinct.dedup();
        distinct
    };
    let distinct: Vec<Vec<u32>> = of_sets.iter().map(distinct).collect();
    let wanted_rows: Vec<Wanted<'_>> = of_sets
        .iter()
        .zip(&distinct)
        .map(|(of_set, ordinals)| Wanted { piece: wanted[of_set[0]].0.piece, ordinals })
        .collect();
    let Scale { projection, interrupt, .. } = scale;
    fetch_together(&wanted_rows, projection, usize::MAX, interrupt, |number, rows| {
        let units = stored_units(rows.value(0)).map_err(no_weight)?;
        let (of_set, distinct) = (of_sets[number], &distinct[number]);
        let mut row = 0;
        for &at in of_set {
            while distinct[row] != ordinals[at] {
                row += 1;
            }
            weighed[at].1 = u128::from(units[row]);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(weighed)
}

impl WeighedMembers {
    /// Members in a row with their units: the position of the first of them, and how many the set has.
    pub fn new(ordinals: Arc<[u32]>, units: Vec<u64>, first: u64, len: u64) -> WeighedMembers {
        assert_eq!(ordinals.len(), units.len(), "a weight for each member");
        let mut before = 0;
        let group = |number: u64| {
            let begin = number * WEIGHT_GROUP;
            let of_group = begin - first..len.min(begin + WEIGHT_GROUP) - first;
            let mut weight = GroupWeight::default();
            units[of_group.start as usize..of_group.end as usize]
                .iter()
                .for_each(|&units| weight.add(units));
            before += weight.sum;
            WeightGroup { number, before: before - weight.sum, weight }
        };
        let positions = first..first + units.len() as u64;
        let groups = whole_groups(&positions, len).map(group).collect();
        WeighedMembers { ordinals, units, first, len, groups }
    }

    /// The positions of those that were weighed.
    pub fn positions(&self) -> Range<u64> {
        self.first..self.first + self.units.len() as u64
    }
}

/// The groups of a set's members that lie whole among some positions.
fn whole_groups(positions: &Range<u64>, members: u64) -> Range<u64> {
    let end = match positions.end == members {
        true => members.div_ceil(WEIGHT_GROUP),
        false => positions.end / WEIGHT_GROUP,
    };
    positions.start.div_ceil(WEIGHT_GROUP)..end
}

fn running(units: impl Iterator<Item = u128>) -> Vec<u128> {
    let mut sum = 0;
    units
        .map(|units| {
            sum += units;
            sum
        })
        .collect()
}
