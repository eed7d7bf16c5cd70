//! Which pieces share keys, and so have to be merged, and which lie one behind the other.
//!
//! Rows that arrive in key order, as events keyed by time do, make pieces whose keys do not overlap. To read these in
//! order takes no comparisons: they are read one after the other.

/// Numbers of intervals, given by their ends, in groups: no interval of a group overlaps one of another, or touches it.
/// Groups come in the order of their keys, the numbers of each rise. O(intervals * log intervals).
pub fn disjoint_groups(ends: &[(&[u8], &[u8])]) -> Vec<Vec<usize>> {
    let mut by_first: Vec<usize> = (0..ends.len()).collect();
    by_first.sort_by_key(|&number| ends[number].0);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last: &[u8] = &[];
    for number in by_first {
        let (first, end) = ends[number];
        match groups.last_mut() {
            Some(group) if first <= last => group.push(number),
            _ => groups.push(vec![number]),
        }
        last = last.max(end);
    }
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn groups(ends: &[Range<u8>]) -> Vec<Vec<usize>> {
        let ends: Vec<[[u8; 1]; 2]> = ends.iter().map(|ends| [[ends.start], [ends.end]]).collect();
        let ends: Vec<(&[u8], &[u8])> = ends.iter().map(|[a, b]| (&a[..], &b[..])).collect();
        disjoint_groups(&ends)
    }

    #[test]
    fn intervals_that_overlap_or_touch_are_together_and_groups_rise() {
        assert_eq!(groups(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(groups(&[5..9, 5..9]), [[0, 1]]);
        assert_eq!(groups(&[5..9, 1..4]), [[1], [0]]);
        assert_eq!(groups(&[5..9, 1..5]), [[0, 1]]);
        assert_eq!(groups(&[0..100, 7..8, 101..102, 50..60]), vec![vec![0, 1, 3], vec![2]]);
        // The last key seen is not that of the last interval.
        assert_eq!(groups(&[0..50, 1..2, 40..60, 70..71]), vec![vec![0, 1, 2], vec![3]]);
    }
}
