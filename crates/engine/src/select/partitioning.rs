//! Partitioning a selection by keys: into key partitions, which threads read side by side, and into splits, which other
//! processes read.
//!
//! Cuts lie between keys, so rows with equal keys, which fold across pieces, stay together. Where to cut is
//! judged by the keys of a few rows at even distances; how many rows come to lie on each side is then a search
//! in each piece.

use std::mem;
use std::sync::Arc;

use drillcore_format::key::Bound;
use drillcore_format::rows::Projection;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::select::fetch::fetch;
use crate::select::key_range::SplitRange;
use crate::select::selection::{Part, Selected};

/// Rows of a partition that is worth a thread's while ...
pub const PARTITION_ROWS: u64 = 32 << 10;
/// ... or bytes, where rows are long.
pub const PARTITION_BYTES: u64 = 4 << 20;
/// Keys looked at for each partition: it is off by an eighth of its rows or so, more where sets lie unevenly.
const KEYS_PER_PARTITION: u64 = 8;
/// The same for each that becomes a segment: writing takes long, and all threads wait for the last.
const KEYS_PER_SEGMENT: u64 = 128;
/// The same for each split, which other processes read.
const KEYS_PER_SPLIT: u64 = 16;

/// How many partitions the selection is worth, at least one: each of `rows`, if that is given.
pub fn partitions_worth(selected: &Selected, rows: Option<u64>) -> usize {
    let partitions = match rows {
        Some(rows) => selected.len() / rows.max(1),
        None => {
            let bytes_of =
                |part: &Part| part.len() * selected.pieces()[part.piece].mean_row_bytes();
            let bytes: u64 = selected.parts().iter().map(bytes_of).sum();
            (selected.len() / PARTITION_ROWS).max(bytes / PARTITION_BYTES)
        }
    };
    usize::try_from(partitions).unwrap_or(usize::MAX).max(1)
}

/// Cuts a selection into up to `count` partitions of about equally many rows, none of them empty, in key order.
/// They are fewer where many rows have one key.
///
/// On disk, a partition costs up to eight reads of an index page and a block, and then one of each for every piece.
pub fn partition_by_keys(
    selected: &Selected,
    count: usize,
    interrupt: &Interrupt,
) -> Result<Vec<Selected>> {
    let cuts = cut_keys(selected, count, KEYS_PER_PARTITION, interrupt)?;
    partition_at(selected, cuts, interrupt)
}

/// Cuts a selection into up to about `count` partitions of about equally many rows, none of them empty, wherever in its pieces: rows with
/// equal keys need not stay together. Reads nothing.
pub fn partition_by_places(selected: &Selected, count: usize) -> Vec<Selected> {
    let rows = (selected.len() / count.max(1) as u64).max(1).next_multiple_of(PARTITION_ROWS);
    let mut partitions = Vec::new();
    let (mut parts, mut len) = (Vec::new(), 0);
    for part in selected.parts() {
        let mut from = part.from;
        while from < part.to {
            // At multiples, so that a group of rows in streams is read for one: of intervals these are its ends.
            let to = (from + rows - len).div_ceil(PARTITION_ROWS) * PARTITION_ROWS;
            let some = Part { from, to: to.min(part.to), ..part.clone() };
            (from, len) = (some.to, len + some.len());
            parts.push(some);
            if len >= rows {
                partitions
                    .push(Selected::of_parts(selected.pieces().clone(), mem::take(&mut parts)));
                len = 0;
            }
        }
    }
    if !parts.is_empty() {
        partitions.push(Selected::of_parts(selected.pieces().clone(), parts));
    }
    partitions
}

/// [`partition_by_keys`] for what becomes segments: more equal, for sixteen times as many reads.
pub fn partition_into_segments(
    selected: &Selected,
    count: usize,
    interrupt: &Interrupt,
) -> Result<Vec<Selected>> {
    let cuts = cut_keys(selected, count, KEYS_PER_SEGMENT, interrupt)?;
    partition_at(selected, cuts, interrupt)
}

fn partition_at(
    selected: &Selected,
    cuts: Vec<Vec<u8>>,
    interrupt: &Interrupt,
) -> Result<Vec<Selected>> {
    let mut partitions = Vec::with_capacity(cuts.len() + 1);
    let mut rest = selected.parts().to_vec();
    for key in cuts {
        interrupt.check()?;
        let before = take_before(selected.pieces(), &mut rest, &Bound::at_key(&key))?;
        partitions.push(Selected::of_parts(selected.pieces().clone(), before));
    }
    partitions.push(Selected::of_parts(selected.pieces().clone(), rest));
    partitions.retain(|partition| partition.len() > 0);
    Ok(partitions)
}

/// Cuts a selection into up to `count` key ranges, none of them without rows, that together are `within`; with the
/// number of rows of each.
pub fn split_by_keys(
    selected: &Selected,
    count: usize,
    within: &SplitRange,
    interrupt: &Interrupt,
) -> Result<Vec<(SplitRange, u64)>> {
    let mut splits: Vec<(SplitRange, u64)> = Vec::new();
    let mut low = within.low.clone();
    let mut rest = selected.parts().to_vec();
    let mut counted = 0;
    for key in cut_keys(selected, count, KEYS_PER_SPLIT, interrupt)? {
        interrupt.check()?;
        let before = take_before(selected.pieces(), &mut rest, &Bound::at_key(&key))?;
        let rows: u64 = before.iter().map(Part::len).sum();
        // What is between two cuts and empty goes to the next.
        if rows > 0 && counted + rows < selected.len() {
            splits.push((SplitRange { low: low.replace(key.clone()), high: Some(key) }, rows));
            counted += rows;
        }
    }
    if counted < selected.len() {
        splits.push((SplitRange { low, high: within.high.clone() }, selected.len() - counted));
    }
    Ok(splits)
}

/// The keys to cut before, ascending, from looks at some keys for each partition.
fn cut_keys(
    selected: &Selected,
    count: usize,
    keys_per_partition: u64,
    interrupt: &Interrupt,
) -> Result<Vec<Vec<u8>>> {
    let rows = selected.len();
    let looked_at = (count as u64).saturating_mul(keys_per_partition).min(rows);
    if count < 2 || looked_at < 2 {
        return Ok(Vec::new());
    }
    // The first of as many equal shares: where there is one piece, a key is as far along as it is among these.
    let first = |nth: u64| (u128::from(nth) * u128::from(rows) / u128::from(looked_at)) as u64;
    let numbers: Vec<u64> = (0..looked_at).map(first).collect();
    let places = selected.places(&numbers, interrupt)?;
    let only_keys = Projection { keys: true, ..Default::default() };
    let found = fetch(selected.pieces(), &places, &only_keys, interrupt)?;
    let mut keys: Vec<&[u8]> = (0..found.len()).map(|row| found.key(row)).collect();
    keys.sort_unstable();
    let count = count.min(keys.len());
    let mut cuts: Vec<Vec<u8>> = (1..count)
        .map(|nth| {
            let place = nth * keys.len() / count;
            let key = keys[place];
            // All rows of a key stay together: on the side that leaves the smaller difference.
            let before = keys.partition_point(|other| *other < key);
            let past = keys.partition_point(|other| *other <= key);
            match place - before <= past - place {
                true => key.to_vec(),
                // The least of what is greater.
                false => [key, &[0]].concat(),
            }
        })
        .collect();
    cuts.dedup();
    Ok(cuts)
}

/// Takes what lies before `bound` off the front of some parts.
fn take_before(pieces: &Arc<[Piece]>, rest: &mut [Part], bound: &Bound) -> Result<Vec<Part>> {
    let mut before = Vec::with_capacity(rest.len());
    for parts in rest.chunk_by_mut(|a, b| a.piece == b.piece) {
        let piece = &pieces[parts[0].piece];
        if parts.iter().all(|part| part.len() == 0) {
            continue;
        }
        let ordinal = piece.rank(bound)?;
        for part in parts {
            let position = match &part.members {
                None => ordinal,
                Some(members) => piece.member_rank(members, ordinal)?,
            };
            let to = position.clamp(part.from, part.to);
            before.push(Part { to, ..part.clone() });
            part.from = to;
        }
    }
    Ok(before)
}
