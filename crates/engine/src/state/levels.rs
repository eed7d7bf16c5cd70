//! Levels: neighbouring segments whose keys do not overlap. They read like one segment, however many they are.
//!
//! What one merge writes is a level, cut into several files. Rows that arrive in key order make one level, too, which
//! nothing has to rewrite: published as *trivial moves* of sorted files, here without even an edit.

use std::collections::BTreeMap;
use std::ops::Range;

use drillcore_storage::segments::segment::Segment;

use crate::merge::disjoint::disjoint_groups;
use crate::state::slots::Slot;

/// The levels of a list of segments, oldest first, each as long as it can be from the oldest on.
/// O(segments · log segments).
pub fn levels<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Vec<Range<usize>> {
    levels_of(segments.into_iter().map(Segment::key_ends))
}

fn levels_of<'a>(ends: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<Range<usize>> {
    let mut levels: Vec<Range<usize>> = Vec::new();
    // The last key of each segment of the level, by its first.
    let mut keys: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    for (number, (first, last)) in ends.enumerate() {
        let before = keys.range(..=last).next_back();
        let overlaps = before.is_some_and(|(_, last_before)| *last_before >= first);
        match levels.last_mut() {
            Some(level) if !overlaps => level.end = number + 1,
            _ => {
                keys.clear();
                levels.push(number..number + 1);
            }
        }
        keys.insert(first, last);
    }
    levels
}

/// The segments of a level in the order of their keys.
pub fn in_key_order(segments: &[Slot<Segment>], level: Range<usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = level.collect();
    numbers.sort_by_key(|&number| segments[number].piece.key_ends().0);
    numbers
}

/// What of neighbouring segments has to be rewritten so that they become one level: each group's keys overlap, or lie side
/// by side in segments that take `small` bytes together. The numbers of each group ascend.
pub fn groups_to_merge(
    segments: &[Slot<Segment>],
    window: Range<usize>,
    small: u64,
) -> Vec<Vec<usize>> {
    let ends: Vec<_> = segments[window.clone()].iter().map(|slot| slot.piece.key_ends()).collect();
    let groups = disjoint_groups(&ends).into_iter();
    let groups = groups
        .map(|group| group.into_iter().map(|number| window.start + number).collect::<Vec<_>>());
    let size = |group: &[usize]| -> u64 {
        group.iter().map(|&number| segments[number].piece.disk_bytes()).sum()
    };
    grouped(groups, size, small)
}

/// Whether an older segment, which is not of the group, may have keys that these have, so that a tombstone of theirs hides
/// its row. The numbers of the group ascend.
pub fn hides_older(segments: &[Slot<Segment>], group: &[usize]) -> bool {
    let ends = || group.iter().map(|&number| segments[number].piece.key_ends());
    let (first, last) = (ends().map(|ends| ends.0).min(), ends().map(|ends| ends.1).max());
    let newest = group.last().copied().unwrap_or(0);
    let others = (0..newest).filter(|number| group.binary_search(number).is_err());
    others.map(|number| segments[number].piece.key_ends()).any(|(from, to)| {
        first.is_some_and(|first| to >= first) && last.is_some_and(|last| from <= last)
    })
}

/// Puts neighbours up to `small` together, and leaves out groups of one.
fn grouped(
    groups: impl Iterator<Item = Vec<usize>>,
    size: impl Fn(&[usize]) -> u64,
    small: u64,
) -> Vec<Vec<usize>> {
    let mut grouped: Vec<Vec<usize>> = Vec::new();
    for group in groups {
        match grouped.last_mut() {
            Some(last) if size(last) + size(&group) <= small => last.extend(group),
            _ => grouped.push(group),
        }
    }
    grouped.retain(|group| group.len() > 1);
    grouped.iter_mut().for_each(|group| group.sort_unstable());
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ends: &[[u8; 2]]) -> Vec<Range<usize>> {
        levels_of(
            ends.iter()
                .map(|[first, last]| (std::slice::from_ref(first), std::slice::from_ref(last))),
        )
    }

    #[test]
    fn a_level_ends_where_keys_overlap() {
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[[5, 9]]), vec![0..1; 1]);
        assert_eq!(of(&[[5, 9], [10, 12], [0, 4], [20, 20]]), vec![0..4; 1]);
        assert_eq!(of(&[[5, 9], [9, 12]]), [0..1, 1..2], "one key is in both");
        assert_eq!(of(&[[5, 9], [0, 5]]), [0..1, 1..2]);
        assert_eq!(of(&[[5, 9], [6, 7]]), [0..1, 1..2], "one lies in the other");
        assert_eq!(of(&[[6, 7], [5, 9]]), [0..1, 1..2]);
        // The second level begins anew: what overlaps the first only goes on.
        assert_eq!(of(&[[0, 9], [10, 19], [12, 15], [0, 11], [15, 20]]), [0..2, 2..4, 4..5]);
    }

    #[test]
    fn segments_that_overlap_nothing_stay_unless_they_are_small() {
        let sizes = [10, 10, 1, 1, 1, 50, 3];
        let size = |group: &[usize]| group.iter().map(|&number| sizes[number]).sum();
        let groups = || vec![vec![1, 0], vec![2], vec![4], vec![3], vec![5], vec![6]].into_iter();
        assert_eq!(grouped(groups(), size, 0), [[0, 1]]);
        assert_eq!(grouped(groups(), size, 3), vec![vec![0, 1], vec![2, 3, 4]]);
        assert_eq!(grouped(groups(), size, 21), vec![vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(grouped(groups(), size, 100), vec![vec![0, 1, 2, 3, 4, 5, 6]]);
    }
}
