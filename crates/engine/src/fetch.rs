//! Fetching: from places to rows, each block read once, in the order asked for.

use drillcore_format::rows::{Projection, Rows};

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::piece::Piece;
use crate::select::Place;

/// Rows fetched between two looks at the interrupt.
const CHUNK_ROWS: usize = 16_384;

/// Fetches the rows at `places`, at least one, in their order; a place may come more than once.
///
/// Places are sorted so that each piece is visited once and each of its blocks read once; the rows are
/// then put back in order in one pass.
pub fn fetch(
    pieces: &[Piece],
    places: &[Place],
    projection: &Projection,
    interrupt: &Interrupt,
) -> Result<Rows> {
    assert!(!places.is_empty());
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_unstable_by_key(|&i| places[i as usize]);

    let mut parts: Vec<Rows> = Vec::new();
    let mut picks = vec![(0usize, 0usize); places.len()];
    let mut ordinals: Vec<u32> = Vec::new();
    let mut rest = order.as_slice();
    while let Some(&first) = rest.first() {
        interrupt.check()?;
        let piece = places[first as usize].piece;
        ordinals.clear();
        let mut taken = 0;
        for &i in rest {
            let place = places[i as usize];
            let is_new = ordinals.last() != Some(&place.ordinal);
            if place.piece != piece || (is_new && ordinals.len() == CHUNK_ROWS) {
                break;
            }
            if is_new {
                ordinals.push(place.ordinal);
            }
            picks[i as usize] = (parts.len(), ordinals.len() - 1);
            taken += 1;
        }
        parts.push(pieces[piece].fetch(&ordinals, projection)?);
        rest = &rest[taken..];
    }
    Ok(match parts.as_slice() {
        [only] if is_identity(&picks, only.len()) => only.clone(),
        _ => Rows::interleave(&parts.iter().collect::<Vec<_>>(), &picks),
    })
}

fn is_identity(picks: &[(usize, usize)], len: usize) -> bool {
    picks.len() == len && picks.iter().enumerate().all(|(i, pick)| pick.1 == i)
}
