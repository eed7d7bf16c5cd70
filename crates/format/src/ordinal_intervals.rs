//! Ordinals of one segment, as intervals: which of its rows were erased.
//!
//! What is erased by key lies side by side, so that a few intervals hold any number of rows. Beside the start of each
//! interval lies how many ordinals the intervals before it hold. So both the rank of an ordinal and the ordinal at a
//! position among those outside are one binary search.

use std::ops::Range;

use crate::cursor::{Cursor, put_varint};
use crate::error::Result;

/// Ordinals in disjoint intervals that do not touch. Eight bytes per interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrdinalIntervals {
    starts: Vec<u32>,
    /// How many ordinals lie in the intervals before each, and at the end in all.
    before: Vec<u32>,
}

impl OrdinalIntervals {
    /// The intervals given, in order; those that are empty are left out, those that touch are joined.
    ///
    /// # Panics
    /// If one begins before the end of the one before it.
    pub fn new(intervals: impl IntoIterator<Item = Range<u32>>) -> OrdinalIntervals {
        let mut made = OrdinalIntervals { starts: Vec::new(), before: vec![0] };
        let mut end = 0;
        for interval in intervals.into_iter().filter(|interval| !interval.is_empty()) {
            let len = interval.end - interval.start;
            assert!(interval.start >= end, "intervals ascend");
            if interval.start == end && !made.starts.is_empty() {
                *made.before.last_mut().expect("it has one more than starts") += len;
            } else {
                made.starts.push(interval.start);
                made.before.push(made.len() + len);
            }
            end = interval.end;
        }
        made
    }

    /// One interval, which may be empty.
    pub fn of_range(interval: Range<u32>) -> OrdinalIntervals {
        OrdinalIntervals::new(std::iter::once(interval))
    }

    /// Some ordinals, which ascend.
    pub fn of(ordinals: &[u32]) -> OrdinalIntervals {
        OrdinalIntervals::new(ordinals.iter().map(|&ordinal| ordinal..ordinal + 1))
    }

    /// How many ordinals there are.
    pub fn len(&self) -> u32 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The intervals, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Range<u32>> + '_ {
        (0..self.starts.len()).map(|number| self.interval(number))
    }

    /// How many intervals there are.
    pub fn intervals(&self) -> usize {
        self.starts.len()
    }

    /// How many intervals begin below an ordinal. O(log intervals).
    pub fn intervals_before(&self, ordinal: u64) -> usize {
        self.starts.partition_point(|&start| u64::from(start) < ordinal)
    }

    /// What they take in memory.
    pub fn bytes(&self) -> usize {
        (self.starts.capacity() + self.before.capacity()) * size_of::<u32>()
    }

    /// How many of the ordinals lie below one. O(log intervals).
    pub fn rank(&self, ordinal: u64) -> u64 {
        let number = self.starts.partition_point(|&start| u64::from(start) < ordinal);
        let Some(last) = number.checked_sub(1) else { return 0 };
        let Range { start, end } = self.interval(last);
        u64::from(self.before[last]) + ordinal.min(end.into()) - u64::from(start)
    }

    /// Whether an ordinal is among them. O(log intervals).
    pub fn contains(&self, ordinal: u32) -> bool {
        let number = self.starts.partition_point(|&start| start <= ordinal);
        number.checked_sub(1).is_some_and(|last| ordinal < self.interval(last).end)
    }

    /// How many of the ordinals of an interval are among them.
    pub fn count_in(&self, ordinals: &Range<u64>) -> u64 {
        self.rank(ordinals.end).saturating_sub(self.rank(ordinals.start))
    }

    /// The ordinal at a position among those that are not among them. O(log intervals).
    pub fn outside(&self, position: u64) -> u64 {
        // The number of ordinals outside before each start, which never falls.
        let outside_before = |number: usize| self.starts[number] - self.before[number];
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if u64::from(outside_before(middle)) <= position {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        position + self.before.get(low).map_or(0, |&before| u64::from(before))
    }

    /// The parts of an interval that are not among them, ascending.
    pub fn outside_in(&self, ordinals: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.starts.partition_point(|&start| u64::from(start) < ordinals.start);
        let mut next = first.saturating_sub(1);
        let mut from = ordinals.start;
        std::iter::from_fn(move || {
            while from < ordinals.end {
                let (start, end) = match self.starts.get(next) {
                    None => (u64::MAX, u64::MAX),
                    Some(_) => {
                        let Range { start, end } = self.interval(next);
                        (start.into(), end.into())
                    }
                };
                if start <= from {
                    from = from.max(end);
                    next += 1;
                    continue;
                }
                let part = from..start.min(ordinals.end);
                from = part.end;
                return Some(part);
            }
            None
        })
    }

    /// The ordinals of both. O(intervals).
    pub fn union(&self, other: &OrdinalIntervals) -> OrdinalIntervals {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut end = 0;
        OrdinalIntervals::new(std::iter::from_fn(|| {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if b.start < a.start => right.next(),
                (None, _) => right.next(),
                (Some(_), _) => left.next(),
            }?;
            // What an interval before it has already is left out.
            let fresh = next.start.max(end)..next.end.max(end);
            end = fresh.end;
            Some(fresh)
        }))
    }

    /// Appends them: their number, then of each interval how far it lies behind the one before, and its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.starts.len() as u64);
        let mut end = 0;
        for interval in self.iter() {
            put_varint(out, u64::from(interval.start - end));
            put_varint(out, u64::from(interval.end - interval.start));
            end = interval.end;
        }
    }

    /// Reads what [`OrdinalIntervals::encode`] wrote. Other than that it takes nothing: no interval is empty or touches the
    /// one before.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<OrdinalIntervals> {
        let mut intervals = OrdinalIntervals { starts: Vec::new(), before: vec![0] };
        let mut end = 0u32;
        for number in 0..cursor.varint()? {
            let (gap, len) = (cursor.varint_u32()?, cursor.varint_u32()?);
            let start = end.checked_add(gap).filter(|_| number == 0 || gap > 0);
            let past = start.and_then(|start| start.checked_add(len)).filter(|_| len > 0);
            let (Some(start), Some(past)) = (start, past) else {
                return Err(cursor.error("an interval of ordinals is out of place"));
            };
            intervals.starts.push(start);
            intervals.before.push(intervals.len() + len);
            end = past;
        }
        Ok(intervals)
    }

    /// The ordinal behind the last one.
    pub fn end(&self) -> u32 {
        self.starts.len().checked_sub(1).map_or(0, |last| self.interval(last).end)
    }

    fn interval(&self, number: usize) -> Range<u32> {
        let start = self.starts[number];
        start..start + (self.before[number + 1] - self.before[number])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(is_in: &[bool]) -> OrdinalIntervals {
        let ordinals = (0..is_in.len() as u32).filter(|&ordinal| is_in[ordinal as usize]);
        OrdinalIntervals::of(&ordinals.collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn ranks_positions_and_parts_agree_with_a_list(
            is_in in prop::collection::vec(any::<bool>(), 0..60),
            ends in (0u64..70, 0u64..70),
        ) {
            let intervals = of(&is_in);
            let contains = |ordinal: u64| is_in.get(ordinal as usize).copied().unwrap_or(false);
            prop_assert_eq!(intervals.len() as usize, is_in.iter().filter(|is_in| **is_in).count());
            for ordinal in 0..70 {
                let below = (0..ordinal).filter(|&below| contains(below)).count() as u64;
                prop_assert_eq!(intervals.rank(ordinal), below);
                prop_assert_eq!(intervals.contains(ordinal as u32), contains(ordinal));
            }
            let outside: Vec<u64> = (0..200).filter(|&ordinal| !contains(ordinal)).collect();
            for (position, ordinal) in outside[..100].iter().enumerate() {
                prop_assert_eq!(intervals.outside(position as u64), *ordinal);
            }
            let (from, to) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let parts: Vec<u64> = intervals.outside_in(from..to).flatten().collect();
            let expected: Vec<u64> = (from..to).filter(|&ordinal| !contains(ordinal)).collect();
            prop_assert_eq!(intervals.count_in(&(from..to)), to - from - expected.len() as u64);
            prop_assert_eq!(parts, expected);
        }

        #[test]
        fn a_union_has_what_either_has_and_reads_back(
            a in prop::collection::vec(any::<bool>(), 40),
            b in prop::collection::vec(any::<bool>(), 40),
        ) {
            let either: Vec<bool> = a.iter().zip(&b).map(|(a, b)| *a || *b).collect();
            let union = of(&a).union(&of(&b));
            prop_assert_eq!(&union, &of(&either));
            let mut bytes = Vec::new();
            union.encode(&mut bytes);
            let mut cursor = Cursor::new(&bytes, "test");
            prop_assert_eq!(OrdinalIntervals::decode(&mut cursor).unwrap(), union);
            prop_assert!(cursor.is_empty());
            for len in 0..bytes.len() {
                let mut cursor = Cursor::new(&bytes[..len], "test");
                prop_assert!(OrdinalIntervals::decode(&mut cursor).is_err());
            }
        }
    }

    #[test]
    fn intervals_that_touch_overlap_or_overflow_are_not_taken() {
        for bytes in [&[1, 3, 0][..], &[2, 0, 1, 0, 1], &[1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
            let read = OrdinalIntervals::decode(&mut Cursor::new(bytes, "test"));
            assert!(read.is_err(), "{bytes:?}");
        }
    }
}
