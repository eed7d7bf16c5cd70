//! Splitting a selection into key partitions: consecutive intervals of keys that threads read side by side.
//!
//! Splits lie between keys, so rows with equal keys, which fold across pieces, stay together. Where to split is
//! judged by the keys of a few rows at even distances; how many rows come to lie on each side is then a search
//! in each piece.

use std::sync::Arc;

use drillcore_format::key::Bound;
use drillcore_format::rows::Projection;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::select::fetch::fetch;
use crate::select::selection::{Part, Selected};

/// Rows of a partition that is worth a thread's while ...
pub const PARTITION_ROWS: u64 = 32 << 10;
/// ... or bytes, where rows are long.
const PARTITION_BYTES: u64 = 4 << 20;
/// Keys looked at for each partition: it is off by an eighth of its rows or so, more where sets lie unevenly.
const KEYS_PER_PARTITION: u64 = 8;

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

/// Splits a selection into up to `count` partitions of about equally many rows, none of them empty, in key order.
/// They are fewer where many rows have one key.
///
/// On disk, a partition costs up to eight reads of an index page and a block, and then one of each for every piece.
pub fn split_by_keys(
    selected: &Selected,
    count: usize,
    interrupt: &Interrupt,
) -> Result<Vec<Selected>> {
    let mut partitions = Vec::with_capacity(count);
    let mut rest = selected.parts().to_vec();
    for bound in bounds(selected, count, interrupt)? {
        interrupt.check()?;
        let before = take_before(selected.pieces(), &mut rest, &bound)?;
        partitions.push(Selected::of_parts(selected.pieces().clone(), before));
    }
    partitions.push(Selected::of_parts(selected.pieces().clone(), rest));
    partitions.retain(|partition| partition.len() > 0);
    Ok(partitions)
}

/// Where to split, ascending.
fn bounds(selected: &Selected, count: usize, interrupt: &Interrupt) -> Result<Vec<Bound>> {
    let rows = selected.len();
    let looked_at = (count as u64).saturating_mul(KEYS_PER_PARTITION).min(rows);
    if count < 2 || looked_at < 2 {
        return Ok(Vec::new());
    }
    let middle =
        |nth: u64| (u128::from(2 * nth + 1) * u128::from(rows) / u128::from(2 * looked_at)) as u64;
    let numbers: Vec<u64> = (0..looked_at).map(middle).collect();
    let places = selected.places(&numbers, interrupt)?;
    let only_keys = Projection { keys: true, ..Default::default() };
    let found = fetch(selected.pieces(), &places, &only_keys, interrupt)?;
    let mut keys: Vec<&[u8]> = (0..found.len()).map(|row| found.key(row)).collect();
    keys.sort_unstable();
    let mut splits: Vec<&[u8]> = (1..count).map(|nth| keys[nth * keys.len() / count]).collect();
    splits.dedup();
    Ok(splits.into_iter().map(Bound::at_key).collect())
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
