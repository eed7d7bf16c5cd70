//! Running sums of a weight column over the rows of a piece that were not erased.

/// For each interval of erased rows, where its units begin, and how many such units lie before it. So the units of live rows
/// are numbered through, and the unit of the piece that has a number is one binary search.
#[derive(Debug, Default)]
pub struct LiveWeights {
    /// The units of the piece before each interval.
    starts: Vec<u128>,
    /// The erased units before each interval, and at the end in all.
    before: Vec<u128>,
}

impl LiveWeights {
    /// The units before each interval of erased rows and up to its end, in their order.
    pub fn new(intervals: impl IntoIterator<Item = (u128, u128)>) -> LiveWeights {
        let mut weights = LiveWeights { starts: Vec::new(), before: vec![0] };
        let mut erased = 0;
        for (start, end) in intervals {
            erased += end - start;
            weights.starts.push(start);
            weights.before.push(erased);
        }
        weights
    }

    /// The live units before a row, of all `units` of the piece that lie before it. The row is live, or the first of all
    /// behind an interval; `intervals` lie before it.
    pub fn live_before(&self, units: u128, intervals: usize) -> u128 {
        units - self.before[intervals]
    }

    /// The unit of the piece that is the live unit of some number.
    pub fn unit(&self, live: u128) -> u128 {
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.starts[middle] - self.before[middle] <= live {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        live + self.before[low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_units_are_numbered_around_those_that_were_erased() {
        // Rows of 2, 3, 0, 4, 1 and 5 units; the second, the third and the fifth were erased.
        let weights = LiveWeights::new([(2, 5), (9, 10)]);
        let units: Vec<u128> = (0..11).map(|live| weights.unit(live)).collect();
        assert_eq!(units, [0, 1, 5, 6, 7, 8, 10, 11, 12, 13, 14]);
        assert_eq!(
            [(0, 0), (5, 1), (10, 2), (15, 2)].map(|(u, n)| weights.live_before(u, n)),
            [0, 2, 6, 11]
        );
        // Erased rows without units hide none.
        let weights = LiveWeights::new([(0, 0), (3, 3)]);
        assert_eq!((0..5).map(|live| weights.unit(live)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
