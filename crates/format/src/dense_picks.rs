//! Rows that are picked at random, many of a narrow range.
//!
//! A processor waits for the memory of only some rows at a time that come in random order, and fetches what is read in order before it
//! is asked to. So where picks lie densely, the cache lines of their range are read in order first, and then the rows out of
//! the cache: of 10,000 rows of 50,000 that takes half the time.

use std::hint::black_box;
use std::ops::Range;

use crate::pick::Pick;

/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;
/// Fewer picks are not worth a look at how densely they lie ...
const PICKS_MIN: usize = 512;
/// ... and of more no more than twice as many as these are looked at.
const LOOKED_AT: usize = 512;
/// Lines that are read for each pick, at most.
const LINES_PER_PICK: usize = 2;
/// Bytes that are read of all parts, at most: what a core has in its cache until they are picked.
const BYTES_MAX: usize = 1 << 20;

/// The picks of a part that are looked at.
#[derive(Clone)]
struct Seen {
    count: usize,
    /// The rows that they lie between.
    rows: Range<usize>,
    /// Each behind those before it: a processor fetches their lines by itself.
    in_order: bool,
}

/// Reads what lies around picks in order, where they lie densely and in no order, so that it is in the cache afterwards. Of each
/// part `bytes_of` gives the bytes, and how many of them a row has.
pub(crate) fn read_in_order<'a>(
    parts: usize,
    picks: &[Pick],
    bytes_of: impl Fn(usize) -> (&'a [u8], usize),
) {
    for byte in ranges(parts, picks, bytes_of)
        .into_iter()
        .flat_map(|bytes| bytes.iter().step_by(LINE_BYTES))
    {
        black_box(*byte);
    }
}

/// What is worth to be read, of each part.
fn ranges<'a>(
    parts: usize,
    picks: &[Pick],
    bytes_of: impl Fn(usize) -> (&'a [u8], usize),
) -> Vec<&'a [u8]> {
    if picks.len() < PICKS_MIN {
        return Vec::new();
    }
    let step = picks.len() / LOOKED_AT;
    let none = Seen { count: 0, rows: Range { start: usize::MAX, end: 0 }, in_order: true };
    let mut seen = vec![none; parts];
    for pick in picks.iter().step_by(step) {
        let Seen { count, rows, in_order } = &mut seen[pick.part()];
        *count += 1;
        *in_order &= pick.row() >= rows.end.saturating_sub(1);
        *rows = rows.start.min(pick.row())..rows.end.max(pick.row() + 1);
    }
    let range_of = |(part, Seen { count, rows, in_order }): (usize, Seen)| {
        let (bytes, width) = bytes_of(part);
        let bytes = &bytes[rows.start * width..rows.end * width];
        let is_dense = bytes.len() / LINE_BYTES <= LINES_PER_PICK * step * count;
        (is_dense && !in_order).then_some(bytes)
    };
    let seen = seen.into_iter().enumerate().filter(|(_, seen)| seen.count > 0);
    let ranges: Vec<&[u8]> = seen.filter_map(range_of).collect();
    let bytes: usize = ranges.iter().map(|bytes| bytes.len()).sum();
    if bytes <= BYTES_MAX { ranges } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are read of each of three parts, of which the last has no picks, at rows of 8 bytes.
    fn read(picks: usize, row: impl Fn(usize) -> usize) -> Vec<usize> {
        let picks: Vec<Pick> = (0..picks).map(|at| Pick::new(at / 7 % 2, row(at))).collect();
        let rows = picks.iter().map(|pick| pick.row() + 1).max().unwrap_or(0);
        let bytes = vec![0; 8 * rows];
        ranges(3, &picks, |_| (&bytes, 8)).into_iter().map(<[u8]>::len).collect()
    }

    #[test]
    fn ranges_are_read_where_picks_lie_densely_in_no_order() {
        let anywhere = |rows: usize| move |at: usize| at * 7_919 % rows;
        assert_eq!(read(0, anywhere(100)), [0; 0]);
        assert_eq!(read(PICKS_MIN - 1, anywhere(100)), [0; 0], "few");
        for (picks, rows) in [(PICKS_MIN, 100), (10_000, 50_000)] {
            let read = read(picks, anywhere(rows));
            let is_most = |bytes: &usize| (rows * 15 / 2..=rows * 8).contains(bytes);
            assert!(read.len() == 2 && read.iter().all(is_most), "{read:?} of {rows} rows");
        }
        assert_eq!(
            read(10_000, anywhere(1_000_000)),
            [0; 0],
            "a line has a pick only here and there"
        );
        assert_eq!(read(10_000, |at| at), [0; 0], "in order");
        assert_eq!(read(200_000, anywhere(100_000)), [0; 0], "more than the cache holds");
    }
}
