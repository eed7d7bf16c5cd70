//! Members of a set of a segment in proportion to a weight, by what its index says of groups of them.
//!
//! A group is found by running sums. Then any member of it is drawn, its weight alone is read, and it is accepted with that
//! weight over the largest of its group, or else drawn anew: so members come in proportion to their weights, at the cost of
//! a few rows each, however many there are (as in the sampling index WIRS of Dynamic Extension, with exact sums in place
//! of an alias structure). The members at the ends of a key range, which cuts groups, are weighed one by one.
//!
//! The members of a set without an index are all weighed, and drawn from in the same groups: whether there is an index changes no
//! draw of a seed.

use std::ops::Range;
use std::sync::Arc;

use drillcore_format::postings::{GroupWeight, WEIGHT_GROUP, WeightGroup};
use drillcore_format::rows::Projection;
use drillcore_format::weight::stored_units;
use drillcore_sample::rng::Rng;
use drillcore_storage::postings::set_postings::SegmentMembers;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::pieces::weight_index::no_weight;

/// Draws of a member after which its whole group is weighed: only where one member has most of the weight.
const TRIES: usize = 8;
/// The stream of a draw's seed that gives a member of its group.
const MEMBERS: u64 = 1;
/// Groups whose members are weighed together.
const GROUPS_AT_ONCE: usize = 32;

/// A row, by its ordinal, and its units.
pub type Weighed = (u64, u128);

/// What is needed to weigh rows of a piece.
#[derive(Clone, Copy)]
pub struct Scale<'a> {
    pub piece: &'a Piece,
    /// The number of the weight column.
    pub weight: usize,
    /// That column alone.
    pub projection: &'a Projection,
    pub interrupt: &'a Interrupt,
}

/// Some members in a row of a set of a segment.
pub struct GroupedMembers {
    members: SetMembers,
    /// Members before the first whole group, one by one.
    head: Ends,
    /// The sum over all members of the set before that group, and over the whole groups.
    before: u128,
    inner: u128,
    /// Members behind the last whole group.
    tail: Ends,
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
    /// Weighs the members at some positions: two pages of postings, and up to 127 rows at each end.
    pub fn new(
        members: SetMembers,
        positions: Range<u64>,
        scale: Scale<'_>,
    ) -> Result<GroupedMembers> {
        let Range { start: whole, end } = whole_groups(&positions, members.len());
        if whole >= end {
            let head = Ends::new(&members, positions, scale)?;
            let tail = Ends { first_position: 0, sums: Vec::new() };
            return Ok(GroupedMembers { members, head, before: 0, inner: 0, tail });
        }
        let head = Ends::new(&members, positions.start..whole * WEIGHT_GROUP, scale)?;
        let tail = positions.end.min(end * WEIGHT_GROUP)..positions.end;
        let tail = Ends::new(&members, tail, scale)?;
        let before = members.weight_group(scale.weight, whole)?.before;
        let last = members.weight_group(scale.weight, end - 1)?;
        let inner = last.before + last.weight.sum - before;
        Ok(GroupedMembers { members, head, before, inner, tail })
    }

    /// The units of all.
    pub fn total(&self) -> u128 {
        self.head.total() + self.inner + self.tail.total()
    }

    /// The members that hold some units below the total. With a random seed for each, each is a member of the group with the
    /// unit, drawn in proportion to its weight; so drawn units give drawn members, and groups are not weighed.
    pub fn find(
        &self,
        units: &[u128],
        seeds: Option<&[u64]>,
        scale: Scale<'_>,
    ) -> Result<Vec<Weighed>> {
        let mut found = vec![(0, 0); units.len()];
        let (mut ends, mut inner) = (Vec::new(), Vec::new());
        for (number, &unit) in units.iter().enumerate() {
            let within = unit.checked_sub(self.head.total());
            let behind = within.and_then(|within| within.checked_sub(self.inner));
            match (within, behind) {
                (None, _) => ends.push((number, self.head.find(unit))),
                (_, Some(behind)) => ends.push((number, self.tail.find(behind))),
                (Some(within), None) => inner.push((number, self.before + within)),
            }
        }
        let mut positions: Vec<u64> = ends.iter().map(|(_, (position, _))| *position).collect();
        let order = ordered(&mut positions);
        let mut ordinals = Vec::with_capacity(positions.len());
        self.members.ordinals_at(&positions, &mut ordinals)?;
        for (&at, ordinal) in order.iter().zip(ordinals) {
            let (number, (_, unit)) = ends[at];
            found[number] = (u64::from(ordinal), unit);
        }
        let wanted: Vec<u128> = inner.iter().map(|(_, unit)| *unit).collect();
        let groups = self.members.groups_of_units(scale.weight, &wanted)?;
        let mut open: Vec<Sought> = (inner.into_iter().zip(groups))
            .map(|((number, unit), group)| Sought { number, rest: unit - group.before, group })
            .collect();
        if let Some(seeds) = seeds {
            open = self.draw(open, seeds, scale, &mut found)?;
        }
        self.find_in_groups(open, scale, &mut found)?;
        Ok(found)
    }

    /// Draws a member of each group. Gives those that were not accepted, with new units of their groups.
    fn draw(
        &self,
        open: Vec<Sought>,
        seeds: &[u64],
        scale: Scale<'_>,
        found: &mut [Weighed],
    ) -> Result<Vec<Sought>> {
        let with_rng = |sought: Sought| {
            let rng = Rng::keyed(seeds[sought.number], MEMBERS);
            (sought, rng)
        };
        let mut open: Vec<(Sought, Rng)> = open.into_iter().map(with_rng).collect();
        for _ in 0..TRIES {
            let mut positions: Vec<u64> = open
                .iter_mut()
                .map(|(sought, rng)| {
                    let of_group = self.positions(&sought.group);
                    of_group.start + rng.below(of_group.end - of_group.start)
                })
                .collect();
            let order = ordered(&mut positions);
            let mut drawn = vec![(0, 0); open.len()];
            for (at, weighed) in order.into_iter().zip(self.weigh(&positions, scale)?) {
                drawn[at] = weighed;
            }
            let mut drawn = drawn.into_iter();
            open.retain_mut(|(sought, rng)| {
                let weighed = drawn.next().expect("one was drawn for each");
                let is_accepted = rng.below_u128(u128::from(sought.group.weight.max)) < weighed.1;
                if is_accepted {
                    found[sought.number] = weighed;
                }
                !is_accepted
            });
            if open.is_empty() {
                break;
            }
        }
        let with_new_unit = |(mut sought, mut rng): (Sought, Rng)| {
            sought.rest = rng.below_u128(sought.group.weight.sum);
            sought
        };
        Ok(open.into_iter().map(with_new_unit).collect())
    }

    /// Weighs whole groups, each once, and finds the members that hold some units of them.
    fn find_in_groups(
        &self,
        mut open: Vec<Sought>,
        scale: Scale<'_>,
        found: &mut [Weighed],
    ) -> Result<()> {
        open.sort_by_key(|sought| sought.group.number);
        let of_groups: Vec<&[Sought]> =
            open.chunk_by(|a, b| a.group.number == b.group.number).collect();
        for together in of_groups.chunks(GROUPS_AT_ONCE) {
            let positions = |of_group: &&[Sought]| self.positions(&of_group[0].group);
            let positions: Vec<u64> = together.iter().flat_map(positions).collect();
            let weighed = self.weigh(&positions, scale)?;
            let mut rest = weighed.as_slice();
            for of_group in together {
                let group = of_group[0].group;
                let range = self.positions(&group);
                let members;
                (members, rest) = rest.split_at((range.end - range.start) as usize);
                let ends = running(members.iter().map(|(_, units)| *units));
                if ends.last() != Some(&group.weight.sum) {
                    return Err(self.disagrees(&group, scale));
                }
                for sought in *of_group {
                    let member = ends.partition_point(|&end| end <= sought.rest);
                    found[sought.number] = members[member];
                }
            }
        }
        Ok(())
    }

    fn positions(&self, group: &WeightGroup) -> Range<u64> {
        let first = group.number * WEIGHT_GROUP;
        first..self.members.len().min(first + WEIGHT_GROUP)
    }

    fn weigh(&self, positions: &[u64], scale: Scale<'_>) -> Result<Vec<Weighed>> {
        self.members.weigh(positions, scale)
    }

    fn disagrees(&self, group: &WeightGroup, scale: Scale<'_>) -> crate::error::Error {
        let segment = scale.piece.segment().expect("its members are on disk");
        let detail = format!("a set's group {} does not weigh {}", group.number, group.weight.sum);
        segment.inconsistent(detail).into()
    }
}

/// A unit of weight that is looked for in a group.
struct Sought {
    /// Its number among those asked for.
    number: usize,
    group: WeightGroup,
    /// How many units of the group lie before it.
    rest: u128,
}

impl Ends {
    fn new(members: &SetMembers, positions: Range<u64>, scale: Scale<'_>) -> Result<Ends> {
        let first_position = positions.start;
        let weighed = members.weigh(&positions.collect::<Vec<u64>>(), scale)?;
        let sums = running(weighed.into_iter().map(|(_, units)| units));
        Ok(Ends { first_position, sums })
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

    fn weight_group(&self, weight: usize, number: u64) -> Result<WeightGroup> {
        match self {
            SetMembers::Indexed(members) => Ok(members.weight_group(weight, number)?),
            SetMembers::Weighed(WeighedMembers { groups, .. }) => {
                Ok(groups[(number - groups[0].number) as usize])
            }
        }
    }

    /// The groups with some units, counted as [`SetMembers::weight_group`] counts what lies before a group.
    fn groups_of_units(&self, weight: usize, units: &[u128]) -> Result<Vec<WeightGroup>> {
        match self {
            SetMembers::Indexed(members) => Ok(members.groups_of_units(weight, units)?),
            SetMembers::Weighed(WeighedMembers { groups, .. }) => {
                let group =
                    |&unit: &u128| groups[groups.partition_point(|group| group.before <= unit) - 1];
                Ok(units.iter().map(group).collect())
            }
        }
    }

    fn ordinals_at(&self, positions: &[u64], out: &mut Vec<u32>) -> Result<()> {
        match self {
            SetMembers::Indexed(members) => members.ordinals_at(positions, out)?,
            SetMembers::Weighed(WeighedMembers { ordinals, first, .. }) => {
                out.extend(positions.iter().map(|position| ordinals[(position - first) as usize]));
            }
        }
        Ok(())
    }

    /// The members at positions, which ascend and may repeat, each with its units. Their blocks are read together.
    fn weigh(&self, positions: &[u64], scale: Scale<'_>) -> Result<Vec<Weighed>> {
        let mut ordinals = Vec::with_capacity(positions.len());
        self.ordinals_at(positions, &mut ordinals)?;
        if let SetMembers::Weighed(WeighedMembers { units, first, .. }) = self {
            let units = positions.iter().map(|position| units[(position - first) as usize]);
            return Ok(ordinals.into_iter().map(u64::from).zip(units.map(u128::from)).collect());
        }
        let mut distinct = ordinals.clone();
        distinct.dedup();
        let rows = scale.piece.fetch(&distinct, scale.projection, scale.interrupt)?;
        let units = stored_units(rows.value(0)).map_err(no_weight)?;
        let mut at = 0;
        let weighed = ordinals.into_iter().map(|ordinal| {
            while distinct[at] != ordinal {
                at += 1;
            }
            (u64::from(ordinal), u128::from(units[at]))
        });
        Ok(weighed.collect())
    }
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

/// Sorts numbers, and gives where each of them was.
fn ordered(numbers: &mut [u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by_key(|&at| numbers[at]);
    numbers.sort_unstable();
    order
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
