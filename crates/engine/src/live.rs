//! Which rows of a table whose keys fold stand for their key.
//!
//! A piece of an upsert table holds a key once, as a row or as a tombstone, and newer pieces win. So a row
//! is alive if it is no tombstone and no newer piece has its key. *Resolving* a selection lists its live
//! rows; from then on it is counted, drawn from and scanned like any other. In a rollup table the newest
//! partial row stands for its key.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, BooleanArray, UInt32Array};
use drillcore_format::rows::{Layout, Projection, Rows};

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::merge::{Direction, Fold, Merger, RowSource};
use crate::piece::Piece;
use crate::piece_source::PieceSource;
use crate::select::{Filter, Part, Place, Selected};

/// Rows of a merge handled at once, and members looked at between two looks at the interrupt.
const CHUNK_ROWS: usize = 4096;

/// Keys and, where there are tombstones, their flags.
fn flags(layout: &Layout) -> Projection {
    Projection { keys: true, values: if layout.has_tombstones() { vec![0] } else { Vec::new() } }
}

/// Lists the live rows of a selection. By key: one merge of the range's keys. By set: each member is
/// looked for in the newer pieces.
pub fn resolve(
    layout: &Layout,
    filter: &Filter,
    pieces: Arc<[Piece]>,
    interrupt: &Interrupt,
) -> Result<Selected> {
    let candidates = filter.select(pieces.clone())?;
    let live = if filter.is_by_set() {
        live_members(layout, &candidates, interrupt)?
    } else {
        live_in_range(layout, &candidates, interrupt)?
    };
    Ok(Selected::listed(pieces, live))
}

/// Which of some rows are alive.
pub fn are_live(layout: &Layout, pieces: &[Piece], places: &[Place]) -> Result<Vec<bool>> {
    let mut live = Vec::with_capacity(places.len());
    for place in places {
        let rows = pieces[place.piece].fetch(&[place.ordinal], &flags(layout))?;
        live.push(is_live(layout, pieces, place.piece, &rows, 0)?);
    }
    Ok(live)
}

/// The rows that are no tombstones, of rows whose first value says so.
pub fn without_tombstones(rows: Rows) -> Rows {
    let deleted: &BooleanArray = rows.value(0).as_boolean();
    if deleted.true_count() == 0 {
        return rows;
    }
    let kept: Vec<u32> =
        (0..rows.len() as u32).filter(|&row| !deleted.value(row as usize)).collect();
    rows.take(&kept)
}

/// What must be read to keep the newest rows and drop tombstones: the projection, keys and flags.
pub fn with_flags(layout: &Layout, projection: &Projection) -> Projection {
    let mut values = projection.values.clone();
    if layout.has_tombstones() && values.first() != Some(&0) {
        values.insert(0, 0);
    }
    Projection { keys: true, values }
}

fn is_live(
    layout: &Layout,
    pieces: &[Piece],
    piece: usize,
    rows: &Rows,
    row: usize,
) -> Result<bool> {
    if layout.has_tombstones() && rows.value(0).as_boolean().value(row) {
        return Ok(false);
    }
    for newer in &pieces[piece + 1..] {
        if newer.has_key(rows.key(row))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn live_members(
    layout: &Layout,
    candidates: &Selected,
    interrupt: &Interrupt,
) -> Result<Vec<Vec<u32>>> {
    let pieces = candidates.pieces();
    let mut live = vec![Vec::new(); pieces.len()];
    for part in candidates.parts() {
        let piece = &pieces[part.piece];
        let mut from = part.from;
        while from < part.to {
            interrupt.check()?;
            let to = part.to.min(from + CHUNK_ROWS as u64);
            let ordinals: Vec<u32> = (from..to)
                .map(|position| Ok(part.ordinal(piece, position)? as u32))
                .collect::<Result<_>>()?;
            let rows = piece.fetch(&ordinals, &flags(layout))?;
            for (row, &ordinal) in ordinals.iter().enumerate() {
                if is_live(layout, pieces, part.piece, &rows, row)? {
                    live[part.piece].push(ordinal);
                }
            }
            from = to;
        }
    }
    live.iter_mut().for_each(|ordinals| ordinals.sort_unstable());
    Ok(live)
}

fn live_in_range(
    layout: &Layout,
    candidates: &Selected,
    interrupt: &Interrupt,
) -> Result<Vec<Vec<u32>>> {
    let pieces = candidates.pieces();
    let sources =
        candidates.parts().iter().map(|part| PlacedSource::new(layout, pieces, part)).collect();
    let mut merger = Merger::new(sources, Direction::Forward, Fold::KeepNewest, CHUNK_ROWS)?;
    let mut live = vec![Vec::new(); pieces.len()];
    while let Some(rows) = merger.next_rows()? {
        interrupt.check()?;
        let (flags, places) = rows.values().split_at(rows.values().len() - 2);
        let deleted = flags.first().map(|flags| flags.as_boolean());
        let piece = places[0].as_primitive::<UInt32Type>().values();
        let ordinal = places[1].as_primitive::<UInt32Type>().values();
        let is_deleted = |row: usize| deleted.is_some_and(|deleted| deleted.value(row));
        for row in (0..rows.len()).filter(|&row| !is_deleted(row)) {
            live[piece[row] as usize].push(ordinal[row]);
        }
    }
    Ok(live)
}

/// Keys and flags of an interval, with the place of each row as two more values.
struct PlacedSource {
    source: PieceSource,
    piece: u32,
    next: u32,
}

impl PlacedSource {
    fn new(layout: &Layout, pieces: &[Piece], part: &Part) -> PlacedSource {
        let piece = pieces[part.piece].clone();
        let source =
            PieceSource::selected(piece, vec![part.clone()], flags(layout), Direction::Forward);
        PlacedSource { source, piece: part.piece as u32, next: part.from as u32 }
    }
}

impl RowSource for PlacedSource {
    fn next_rows(&mut self) -> Result<Option<Rows>> {
        let Some(rows) = self.source.next_rows()? else { return Ok(None) };
        let len = rows.len();
        let ordinals = UInt32Array::from_iter_values(self.next..self.next + len as u32);
        self.next += len as u32;
        let places: [ArrayRef; 2] =
            [Arc::new(UInt32Array::from(vec![self.piece; len])), Arc::new(ordinals)];
        let values = rows.values().iter().cloned().chain(places).collect();
        Ok(Some(Rows::new(len, Some(rows.keys().clone()), values)))
    }
}
