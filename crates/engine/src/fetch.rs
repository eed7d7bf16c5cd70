//! Fetching: from places to rows, each block read once, in the order asked for.

use arrow_array::RecordBatch;
use drillcore_format::rows::{Layout, Projection, Rows, string_offsets};

use crate::error::{Error, Result};
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
    gather(parts, &picks)
}

/// Rows, given as part and row, of at least one part: copied, unless they are all of one part in its order.
/// An error if their strings fit no array.
pub fn gather(mut parts: Vec<Rows>, picks: &[(usize, usize)]) -> Result<Rows> {
    if parts.len() == 1 && is_identity(picks, parts[0].len()) {
        return Ok(parts.remove(0));
    }
    check_string_bytes(&parts, picks)?;
    Ok(Rows::interleave(&parts.iter().collect::<Vec<_>>(), picks))
}

/// Refuses rows whose keys, or strings of a column, are more than one array holds.
fn check_string_bytes(parts: &[Rows], picks: &[(usize, usize)]) -> Result<()> {
    // Where each part's strings begin and end, of the keys or a column.
    let bytes = |offsets: &dyn Fn(&Rows) -> Option<&[i32]>| -> Option<usize> {
        let offsets: Vec<&[i32]> = parts.iter().map(offsets).collect::<Option<_>>()?;
        let len = |&(part, row): &(usize, usize)| offsets[part][row + 1] - offsets[part][row];
        Some(picks.iter().map(|pick| len(pick) as usize).sum())
    };
    let keys = bytes(&|part| part.has_keys().then(|| part.keys().value_offsets()));
    let strings =
        (0..parts[0].values().len()).map(|at| bytes(&|part| string_offsets(part.value(at))));
    match strings.chain([keys]).flatten().max() {
        Some(bytes) if bytes > i32::MAX as usize => Err(Error::invalid(format!(
            "{} rows hold {bytes} bytes of strings in one column, but a batch holds 2 GiB; take fewer \
             rows, or fewer columns",
            picks.len()
        ))),
        _ => Ok(()),
    }
}

fn is_identity(picks: &[(usize, usize)], len: usize) -> bool {
    picks.len() == len && picks.iter().enumerate().all(|(i, pick)| pick.1 == i)
}

/// A batch without rows.
pub(crate) fn no_rows(layout: &Layout, columns: &[usize]) -> RecordBatch {
    let schema = layout.schema().columns.project(columns).expect("columns were resolved");
    RecordBatch::new_empty(schema.into())
}
