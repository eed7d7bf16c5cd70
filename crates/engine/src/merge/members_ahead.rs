//! The members of sets of a piece, in key order or against it, looked up as they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use drillcore_storage::postings::set_postings::SegmentMembers;

use crate::error::Result;
use crate::merge::merger::Direction;
use crate::pieces::piece::{Members, Piece};
use crate::select::selection::Part;

/// Columns are read of sets that have at least one row in this many: then nearly every block has a member ...
pub const DENSE_SHARE: u64 = 16;
/// ... but more columns than this are read only of sets with one row in fewer, because all their rows are unpacked.
const FEW_COLUMNS: usize = 8;
const DENSE_SHARE_OF_MANY: u64 = 2;
/// Members that are worth a look at how dense they lie.
pub const DENSE_MIN: u64 = 1024;
/// Members of a set that are looked up at once, of several sets that are merged.
const MEMBERS_AHEAD: u64 = 256;

/// What has not been read yet of the members of one part; the next ones have been looked up.
pub struct MembersAhead {
    part: Part,
    /// Positions that have not been looked up.
    unseen: Range<u64>,
    /// The next ordinal is the last.
    ordinals: Vec<u32>,
}

impl MembersAhead {
    pub fn new(part: Part) -> MembersAhead {
        MembersAhead { unseen: part.from..part.to, part, ordinals: Vec::new() }
    }

    /// How many members there were at first.
    pub fn len(&self) -> u64 {
        self.part.len()
    }

    /// Lists what has not been looked up of a run, so that it need not be held.
    pub fn let_go_of(&mut self, piece: &Piece) -> Result<()> {
        if matches!(self.part.members, Some(Members::Run(_))) {
            let mut listed = Vec::new();
            self.part.ordinals(piece, self.unseen.clone(), &mut listed)?;
            self.unseen = 0..listed.len() as u64;
            (self.part.from, self.part.to) = (0, self.unseen.end);
            self.part.members = Some(Members::Listed(listed.into()));
        }
        Ok(())
    }

    /// Looks up all that is listed in postings of some sets, together, each with the direction in which it is read.
    pub fn look_up_all<'s>(
        sets: impl Iterator<Item = (&'s mut MembersAhead, Direction)>,
    ) -> Result<()> {
        let (mut wanted, mut known) = (Vec::new(), Vec::new());
        for (MembersAhead { part, unseen, ordinals }, direction) in sets {
            if let Some(members) = part.members.as_ref().and_then(Members::in_segment) {
                wanted.push((members, unseen.clone()));
                known.push((unseen, ordinals, direction));
            }
        }
        let found = SegmentMembers::ordinals_in_each(&wanted)?;
        for ((unseen, ordinals, direction), found) in known.into_iter().zip(found) {
            *ordinals = found;
            if direction == Direction::Forward {
                ordinals.reverse();
            }
            unseen.start = unseen.end;
        }
        Ok(())
    }

    /// The next ordinal, unless there is none. Those behind it are looked up with it, `ahead` at once.
    fn peek(&mut self, piece: &Piece, direction: Direction, ahead: u64) -> Result<Option<u32>> {
        if self.ordinals.is_empty() && !self.unseen.is_empty() {
            let positions = direction.take_next(&mut self.unseen, ahead);
            self.part.ordinals(piece, positions, &mut self.ordinals)?;
            if direction == Direction::Forward {
                self.ordinals.reverse();
            }
        }
        Ok(self.ordinals.last().copied())
    }

    /// Takes the next ordinals, as many as `limit` and as there are: what [`next_ordinals`] does of one set.
    fn take_ordinals(
        &mut self,
        piece: &Piece,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        while taken.len() < limit && self.peek(piece, direction, limit as u64)?.is_some() {
            let rest = self.ordinals.len().saturating_sub(limit - taken.len());
            taken.extend(self.ordinals.drain(rest..).rev());
        }
        Ok(taken)
    }
}

/// Takes the next ordinals off some sets of a piece, merged; sets are disjoint, so none comes twice.
pub fn next_ordinals(
    piece: &Piece,
    sets: &mut [MembersAhead],
    direction: Direction,
    limit: usize,
) -> Result<Vec<u32>> {
    if let [set] = sets {
        return set.take_ordinals(piece, direction, limit);
    }
    // Against the key order the largest ordinal comes first, so its complement is the smallest.
    let rank = |ordinal: u32| if direction == Direction::Forward { ordinal } else { !ordinal };
    let mut heads = BinaryHeap::with_capacity(sets.len());
    for (number, set) in sets.iter_mut().enumerate() {
        heads.extend(
            set.peek(piece, direction, MEMBERS_AHEAD)?.map(|head| Reverse((rank(head), number))),
        );
    }
    let mut ordinals = Vec::new();
    while ordinals.len() < limit {
        let Some(Reverse((head, number))) = heads.pop() else { break };
        ordinals.push(rank(head));
        sets[number].ordinals.pop();
        let next = sets[number].peek(piece, direction, MEMBERS_AHEAD)?;
        heads.extend(next.map(|head| Reverse((rank(head), number))));
    }
    Ok(ordinals)
}

/// Whether the members lie so densely between the first and the last that reading columns of all rows there costs less than
/// reading the members' blocks. Two pages of postings for each end of each set.
pub fn are_dense(sets: &[MembersAhead], columns: usize, piece: &Piece) -> Result<bool> {
    let members: u64 = sets.iter().map(|set| set.part.len()).sum();
    if members < DENSE_MIN {
        return Ok(false);
    }
    let (mut first, mut last) = (u64::MAX, 0);
    for MembersAhead { part, .. } in sets {
        first = first.min(part.ordinal(piece, part.from)?);
        last = last.max(part.ordinal(piece, part.to - 1)?);
    }
    let share = if columns <= FEW_COLUMNS { DENSE_SHARE } else { DENSE_SHARE_OF_MANY };
    Ok(members >= (last - first) / share)
}
