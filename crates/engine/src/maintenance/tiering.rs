//! Which neighbours to merge, so that a list of pieces stays short at a bounded cost per row.
//!
//! Pieces are ranked into size classes of geometric width. As soon as `fanout` neighbours lie in class c
//! or below they are joined, unless one of them outweighs the rest: it would be rewritten for little. So
//! a list of n rows holds O(fanout · log n) pieces, and a row's piece grows by half of `fanout` each time
//! it is rewritten. Published as tiering: O'Neil and others, "The log-structured merge-tree", 1996, and
//! Bentley and Saxe's logarithmic method, 1980.

use std::ops::Range;

use drillcore_format::ids::Lsn;
use drillcore_storage::segments::segment::Segment;

use crate::pieces::run::Run;
use crate::state::slots::Slot;

/// Sizes and fan-out of a list of pieces.
#[derive(Debug, Clone, Copy)]
pub struct Ladder {
    /// Neighbours that are joined at once, and the ratio of one class to the next.
    pub fanout: usize,
    /// Pieces up to this size are of the lowest class.
    pub smallest: u64,
    /// No joined piece may be larger.
    pub largest: u64,
}

/// One piece as the ladder sees it.
#[derive(Debug, Clone, Copy)]
pub struct Rung {
    pub size: u64,
    /// Taken by somebody else, or not yet visible.
    pub taken: bool,
}

impl Ladder {
    /// The neighbours to join next, lowest class first, the newest among equals. O(pieces · classes).
    pub fn pick(&self, rungs: &[Rung]) -> Option<Range<usize>> {
        let top = rungs.iter().map(|rung| self.class(rung.size)).max()?;
        (0..=top).find_map(|class| self.pick_in_class(rungs, class))
    }

    fn class(&self, size: u64) -> u32 {
        let mut class = 0;
        let mut limit = self.smallest.max(1);
        while size > limit {
            limit = limit.saturating_mul(self.fanout as u64);
            class += 1;
        }
        class
    }

    /// The newest window of at least `fanout` free neighbours of this class or below.
    fn pick_in_class(&self, rungs: &[Rung], class: u32) -> Option<Range<usize>> {
        let fits = |rung: &Rung| !rung.taken && self.class(rung.size) <= class;
        let mut end = rungs.len();
        while end > 0 {
            let (mut start, mut size, mut heaviest) = (end, 0u64, 0u64);
            while start > 0
                && fits(&rungs[start - 1])
                && size + rungs[start - 1].size <= self.largest
            {
                start -= 1;
                size += rungs[start].size;
                heaviest = heaviest.max(rungs[start].size);
            }
            let is_balanced = heaviest.saturating_mul(self.fanout as u64) <= size.saturating_mul(2);
            if end - start >= self.fanout && is_balanced {
                return Some(start..end);
            }
            end -= 1;
        }
        None
    }
}

/// Runs by size; those not yet visible cannot be joined.
pub fn run_rungs(runs: &[Slot<Run>], visible: Lsn) -> Vec<Rung> {
    let rung = |slot: &Slot<Run>| Rung {
        size: slot.piece.bytes(),
        taken: slot.taken || slot.piece.lsns().last > visible,
    };
    runs.iter().map(rung).collect()
}

/// Segments by size on disk.
pub fn segment_rungs(segments: &[Slot<Segment>]) -> Vec<Rung> {
    let rung = |slot: &Slot<Segment>| Rung { size: slot.piece.disk_bytes(), taken: slot.taken };
    segments.iter().map(rung).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: Ladder = Ladder { fanout: 4, smallest: 10, largest: 100_000 };

    fn free(sizes: &[u64]) -> Vec<Rung> {
        sizes.iter().map(|&size| Rung { size, taken: false }).collect()
    }

    #[test]
    fn fewer_than_fanout_neighbours_are_left_alone() {
        assert_eq!(LADDER.pick(&free(&[5, 5, 5])), None);
        assert_eq!(LADDER.pick(&[]), None);
    }

    #[test]
    fn a_taken_neighbour_parts_the_list() {
        let mut rungs = free(&[5; 7]);
        rungs[3].taken = true;
        assert_eq!(LADDER.pick(&rungs), None);
    }

    #[test]
    fn small_neighbours_are_joined_before_large_ones() {
        assert_eq!(LADDER.pick(&free(&[400, 400, 400, 400, 5, 5, 5, 5])), Some(4..8));
        assert_eq!(LADDER.pick(&free(&[400, 5, 400, 5, 400])), Some(0..5));
    }

    #[test]
    fn a_large_piece_is_not_rewritten_for_a_few_small_ones() {
        assert_eq!(LADDER.pick(&free(&[5_000, 5, 5, 5])), None);
        assert_eq!(LADDER.pick(&free(&[5_000, 5, 5, 5, 5])), Some(1..5));
    }

    #[test]
    fn nothing_grows_past_the_largest_size() {
        assert_eq!(LADDER.pick(&free(&[40_000; 4])), None);
    }

    #[test]
    fn any_stream_of_sizes_keeps_the_list_short_and_rewrites_rows_seldom() {
        let (mut sizes, mut rewritten, mut total) = (Vec::new(), 0u64, 0u64);
        for step in 0..20_000u64 {
            let size = if step % 7 == 0 { 300 } else { 1 + step % 13 };
            sizes.push(size);
            total += size;
            while let Some(window) = LADDER.pick(&free(&sizes)) {
                let joined: u64 = sizes[window.clone()].iter().sum();
                rewritten += joined;
                sizes.splice(window, [joined]);
            }
            let full = (total / LADDER.largest) as usize * 4;
            assert!(sizes.len() <= 3 * 8 + full, "{} pieces after {step}", sizes.len());
        }
        assert!(rewritten / total <= 8, "each row was rewritten {} times", rewritten / total);
    }
}
