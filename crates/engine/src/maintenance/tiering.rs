//! Which neighbours to merge, so that a list of pieces stays short at a bounded cost per row.
//!
//! Pieces are ranked into size classes of geometric width. As soon as `fanout` neighbours lie in class c
//! or below they are merged, unless one of them outweighs the rest: it would be rewritten for little. So
//! a list of n rows holds O(fanout · log n) pieces, and a row's piece grows by half of `fanout` each time
//! it is rewritten. Published as tiering: O'Neil and others, "The log-structured merge-tree", 1996, and
//! Bentley and Saxe's logarithmic method, 1980.

use std::ops::Range;

use drillcore_format::ids::Lsn;
use drillcore_storage::segments::segment::Segment;

use crate::pieces::run::Run;
use crate::state::slots::Slot;

/// Rows whose merging counts as much as one search of a piece. A search takes about half a microsecond ...
const ROWS_PER_SEARCH: u64 = 4;
/// ... and bytes whose merging counts as much as that of one row.
const BYTES_PER_ROW: u64 = 64;
/// At rest a piece is rewritten together with others that have one part of this many of its size, or more: rows of two pieces are
/// scanned in order a tenth as fast as those of one.
const REST_SHARE: u64 = 4;

/// Sizes and fan-out of a list of pieces.
#[derive(Debug, Clone, Copy)]
pub struct Tiering {
    /// Neighbours that are merged at once, and the ratio of one class to the next.
    pub fanout: usize,
    /// Pieces up to this size are of the lowest class.
    pub smallest: u64,
    /// No merged piece may be larger.
    pub largest: u64,
}

/// One piece as the tiering sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Bytes.
    pub size: u64,
    pub rows: u64,
    /// Taken by another job, or not yet visible.
    pub taken: bool,
}

impl Tiering {
    /// The neighbours to merge next, lowest class first, the newest among equals. O(pieces · classes).
    pub fn pick(&self, candidates: &[Candidate]) -> Option<Range<usize>> {
        let top = candidates.iter().map(|candidate| self.class(candidate.size)).max()?;
        (0..=top).find_map(|class| self.pick_in_class(candidates, class))
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

    /// All of them, once those above the oldest have half its rows, or half its bytes and are not small: then three are
    /// written for each of theirs, at the most. Rows count because each may stand for one below that is dead, and that of a
    /// deleted key has hardly any bytes. Published as lazy leveling: Dayan and Idreos, "Dostoevsky", 2018.
    pub fn pick_all(&self, candidates: &[Candidate]) -> Option<Range<usize>> {
        let (oldest, newer) = candidates.split_first()?;
        let newer_bytes: u64 = newer.iter().map(|candidate| candidate.size).sum();
        let newer_rows: u64 = newer.iter().map(|candidate| candidate.rows).sum();
        let has_half = newer_bytes >= (oldest.size / 2).max(self.smallest)
            || newer_rows >= oldest.rows.div_ceil(2).max(1);
        let is_due = has_half
            && !newer.is_empty()
            && newer_bytes.saturating_add(oldest.size) <= self.largest
            && candidates.iter().all(|candidate| !candidate.taken);
        is_due.then_some(0..candidates.len())
    }

    /// The neighbours, as many as possible, that would have spared `searches` of all pieces as much work as it takes to merge
    /// them. O(pieces²).
    pub fn pick_for_reads(&self, candidates: &[Candidate], searches: u64) -> Option<Range<usize>> {
        let mut best: Option<(Range<usize>, u64)> = None;
        for start in 0..candidates.len() {
            let (mut size, mut work) = (0u64, 0u64);
            let fits = |candidate: &&Candidate| {
                size += candidate.size;
                !candidate.taken && size <= self.largest
            };
            for (more, candidate) in candidates[start..].iter().take_while(fits).enumerate() {
                work += candidate.rows + candidate.size / BYTES_PER_ROW;
                let spared = searches.saturating_mul(more as u64).saturating_mul(ROWS_PER_SEARCH);
                let is_better = best.as_ref().is_none_or(|(window, least)| {
                    more + 1 > window.len() || more + 1 == window.len() && work < *least
                });
                if more > 0 && work <= spared && is_better {
                    best = Some((start..start + more + 1, work));
                }
            }
        }
        best.map(|(window, _)| window)
    }

    /// The neighbours, as many as possible, of which all but the largest have a share of its size: for workers that have time. A
    /// row's piece grows by that share each time it is rewritten, at the least. O(pieces²).
    pub fn pick_at_rest(&self, candidates: &[Candidate]) -> Option<Range<usize>> {
        let mut best: Option<Range<usize>> = None;
        for start in 0..candidates.len() {
            let (mut size, mut largest) = (0u64, 0u64);
            for (more, candidate) in candidates[start..].iter().enumerate() {
                size += candidate.size;
                largest = largest.max(candidate.size);
                if candidate.taken || size > self.largest {
                    break;
                }
                let is_longer = best.as_ref().is_none_or(|window| more + 1 > window.len());
                if more > 0 && is_longer && (size - largest).saturating_mul(REST_SHARE) >= largest {
                    best = Some(start..start + more + 1);
                }
            }
        }
        best
    }

    /// The newest window of at least `fanout` free neighbours of this class or below.
    fn pick_in_class(&self, candidates: &[Candidate], class: u32) -> Option<Range<usize>> {
        let fits = |candidate: &Candidate| !candidate.taken && self.class(candidate.size) <= class;
        let mut end = candidates.len();
        while end > 0 {
            let (mut start, mut size, mut heaviest) = (end, 0u64, 0u64);
            while start > 0
                && fits(&candidates[start - 1])
                && size + candidates[start - 1].size <= self.largest
            {
                start -= 1;
                size += candidates[start].size;
                heaviest = heaviest.max(candidates[start].size);
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

/// Whether nothing can be made of a segment.
pub type IsOut<'a> = &'a dyn Fn(&Slot<Segment>) -> bool;

/// Runs by size; those not yet visible cannot be merged.
pub fn run_candidates(runs: &[Slot<Run>], visible: Lsn) -> Vec<Candidate> {
    let candidate = |slot: &Slot<Run>| Candidate {
        size: slot.piece.bytes(),
        rows: slot.piece.rows(),
        taken: slot.taken || slot.piece.lsns().last > visible,
    };
    runs.iter().map(candidate).collect()
}

/// Levels as the tiering sees them; a level is taken with any of its segments.
pub fn level_candidates(
    segments: &[Slot<Segment>],
    levels: &[Range<usize>],
    is_out: IsOut<'_>,
) -> Vec<Candidate> {
    let candidate = |level: &Range<usize>| {
        let slots = &segments[level.clone()];
        Candidate {
            size: slots.iter().map(|slot| slot.piece.disk_bytes()).sum(),
            rows: slots.iter().map(|slot| slot.piece.rows()).sum(),
            taken: slots.iter().any(is_out),
        }
    };
    levels.iter().map(candidate).collect()
}

/// Segments of a level, in the order of their keys.
pub fn segment_candidates(
    segments: &[Slot<Segment>],
    numbers: &[usize],
    is_out: IsOut<'_>,
) -> Vec<Candidate> {
    let candidate = |&number: &usize| {
        let slot = &segments[number];
        let (size, rows) = (slot.piece.disk_bytes(), slot.piece.rows());
        Candidate { size, rows, taken: is_out(slot) }
    };
    numbers.iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIERING: Tiering = Tiering { fanout: 4, smallest: 10, largest: 100_000 };

    fn free(sizes: &[u64]) -> Vec<Candidate> {
        sizes.iter().map(|&size| Candidate { size, rows: 0, taken: false }).collect()
    }

    #[test]
    fn fewer_than_fanout_neighbours_are_left_alone() {
        assert_eq!(TIERING.pick(&free(&[5, 5, 5])), None);
        assert_eq!(TIERING.pick(&[]), None);
    }

    #[test]
    fn a_taken_neighbour_parts_the_list() {
        let mut candidates = free(&[5; 7]);
        candidates[3].taken = true;
        assert_eq!(TIERING.pick(&candidates), None);
    }

    #[test]
    fn small_neighbours_are_joined_before_large_ones() {
        assert_eq!(TIERING.pick(&free(&[400, 400, 400, 400, 5, 5, 5, 5])), Some(4..8));
        assert_eq!(TIERING.pick(&free(&[400, 5, 400, 5, 400])), Some(0..5));
    }

    #[test]
    fn a_large_piece_is_not_rewritten_for_a_few_small_ones() {
        assert_eq!(TIERING.pick(&free(&[5_000, 5, 5, 5])), None);
        assert_eq!(TIERING.pick(&free(&[5_000, 5, 5, 5, 5])), Some(1..5));
    }

    #[test]
    fn all_are_merged_once_half_of_them_is_newer_than_the_oldest() {
        assert_eq!(TIERING.pick_all(&[]), None);
        assert_eq!(TIERING.pick_all(&free(&[1_000])), None);
        assert_eq!(TIERING.pick_all(&free(&[1_000, 499])), None);
        assert_eq!(TIERING.pick_all(&free(&[1_000, 300, 200])), Some(0..3));
        assert_eq!(TIERING.pick_all(&free(&[1, 9])), None, "they are small");
        assert_eq!(TIERING.pick_all(&free(&[60_000, 60_000])), None, "they are too large");
        let mut candidates = free(&[1_000, 1_000]);
        candidates[1].taken = true;
        assert_eq!(TIERING.pick_all(&candidates), None);
    }

    #[test]
    fn rows_that_are_short_count_as_much_as_those_they_may_stand_for() {
        let candidate = |size, rows| Candidate { size, rows, taken: false };
        assert_eq!(TIERING.pick_all(&[candidate(1_000, 100), candidate(20, 49)]), None);
        assert_eq!(TIERING.pick_all(&[candidate(1_000, 100), candidate(20, 50)]), Some(0..2));
        assert_eq!(TIERING.pick_all(&[candidate(99_990, 100), candidate(20, 50)]), None);
    }

    #[test]
    fn reads_have_runs_merged_once_they_have_searched_for_as_long_as_that_takes() {
        let runs = |rows: &[u64]| -> Vec<Candidate> {
            rows.iter().map(|&rows| Candidate { size: rows * 16, rows, taken: false }).collect()
        };
        let candidates = runs(&[40_000, 1_000, 1_000, 3_000]);
        let pick = |searches| TIERING.pick_for_reads(&candidates, searches);
        assert_eq!(pick(0), None);
        // The two small ones take 2,500, and one search fewer each time spares 4.
        assert_eq!((pick(624), pick(625)), (None, Some(1..3)));
        // All three small ones take 6,250, and two searches fewer spare 8.
        assert_eq!((pick(781), pick(782)), (Some(1..3), Some(1..4)));
        let largest = Tiering { largest: 10_000_000, ..TIERING };
        assert_eq!(largest.pick_for_reads(&candidates, 4_687), Some(1..4));
        assert_eq!(largest.pick_for_reads(&candidates, 4_688), Some(0..4));
        let mut taken = candidates.clone();
        taken[2].taken = true;
        assert_eq!(largest.pick_for_reads(&taken, u64::MAX), Some(0..2));
        assert_eq!(TIERING.pick_for_reads(&runs(&[5_000, 5_000]), u64::MAX), None, "too large");
    }

    #[test]
    fn at_rest_all_are_merged_but_none_is_rewritten_for_little() {
        let pick = |sizes: &[u64]| TIERING.pick_at_rest(&free(sizes));
        assert_eq!((pick(&[]), pick(&[7])), (None, None));
        assert_eq!(pick(&[5, 7]), Some(0..2));
        assert_eq!((pick(&[1_000, 249]), pick(&[1_000, 250])), (None, Some(0..2)));
        assert_eq!(pick(&[1_000, 49, 100, 100]), Some(1..4));
        assert_eq!(pick(&[50, 1_000, 200]), Some(0..3), "the largest need not be the oldest");
        assert_eq!(pick(&[60_000, 40_001, 30_000]), Some(1..3), "all are too large");
        let mut candidates = free(&[5; 7]);
        candidates[3].taken = true;
        assert_eq!(TIERING.pick_at_rest(&candidates), Some(0..3));
    }

    #[test]
    fn rests_after_each_row_keep_the_list_short_and_rewrite_rows_seldom() {
        let (mut sizes, mut rewritten, mut total) = (Vec::new(), 0u64, 0u64);
        for step in 0..20_000u64 {
            let size = 1 + step % 13 / 12 * 40;
            sizes.push(size);
            total += size;
            while let Some(window) = TIERING.pick_at_rest(&free(&sizes)) {
                let merged: u64 = sizes[window.clone()].iter().sum();
                rewritten += merged;
                sizes.splice(window, [merged]);
            }
            let full = (total / TIERING.largest) as usize * 2;
            assert!(sizes.len() <= 9 + full, "{} pieces after {step}", sizes.len());
        }
        assert!(rewritten / total <= 28, "each row was rewritten {} times", rewritten / total);
    }

    #[test]
    fn nothing_grows_past_the_largest_size() {
        assert_eq!(TIERING.pick(&free(&[40_000; 4])), None);
        assert_eq!(TIERING.pick_at_rest(&free(&[60_000; 4])), None);
    }

    #[test]
    fn any_stream_of_sizes_keeps_the_list_short_and_rewrites_rows_seldom() {
        let (mut sizes, mut rewritten, mut total) = (Vec::new(), 0u64, 0u64);
        for step in 0..20_000u64 {
            let size = if step % 7 == 0 { 300 } else { 1 + step % 13 };
            sizes.push(size);
            total += size;
            while let Some(window) = TIERING.pick(&free(&sizes)) {
                let merged: u64 = sizes[window.clone()].iter().sum();
                rewritten += merged;
                sizes.splice(window, [merged]);
            }
            let full = (total / TIERING.largest) as usize * 4;
            assert!(sizes.len() <= 3 * 8 + full, "{} pieces after {step}", sizes.len());
        }
        assert!(rewritten / total <= 8, "each row was rewritten {} times", rewritten / total);
    }
}
