//! Which rows of a table whose keys fold stand for their key.
//!
//! A piece of an upsert table holds a key once, as a row or as a tombstone, and newer pieces win. So a row
//! is alive if it is no tombstone and no newer piece has its key. *Resolving* a selection lists its live
//! rows; from then on it is counted, drawn from and scanned like any other. In a rollup table the newest
//! partial row stands for its key.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, UInt32Array};
use drillcore_format::rows::{Layout, Rows};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::merger::{Direction, Merger, RowSource};
use crate::merge::piece_source::PieceSource;
use crate::pieces::piece::Piece;
use crate::policy::fold::Fold;
use crate::policy::tombstones::{flags, keys_and_flags};
use crate::select::fetch::fetch;
use crate::select::pruning::Pruning;
use crate::select::selection::{Place, Scope, Selected};

/// Rows of a merge handled at once, and members looked at between two looks at the interrupt.
const CHUNK_ROWS: usize = 4096;

/// Lists the live rows of a selection. By key: one merge of the range's keys. By set: each member is
/// looked for in the newer pieces.
pub fn resolve(
    layout: &Layout,
    scope: &Scope,
    pieces: Arc<[Piece]>,
    interrupt: &Interrupt,
) -> Result<Selected> {
    let candidates = scope.select(layout, pieces.clone(), interrupt)?;
    let live = if scope.is_by_set() {
        live_members(layout, &candidates, interrupt)?
    } else {
        live_in_range(layout, &candidates, interrupt)?
    };
    Ok(Selected::listed(pieces, live))
}

/// Which of some stored rows are alive. Of a table without tombstones all are, though some may be partial.
pub fn are_live(
    layout: &Layout,
    pieces: &[Piece],
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    if !layout.has_tombstones() {
        return Ok(vec![true; places.len()]);
    }
    let projection = keys_and_flags(layout);
    let mut live = Vec::with_capacity(places.len());
    // Few enough that their keys fit a batch, however long they are.
    for places in places.chunks(CHUNK_ROWS) {
        let rows = fetch(pieces, places, &projection, interrupt)?;
        for (row, place) in places.iter().enumerate() {
            live.push(is_live(layout, pieces, place.piece, &rows, row)?);
        }
    }
    Ok(live)
}

fn is_live(
    layout: &Layout,
    pieces: &[Piece],
    piece: usize,
    rows: &Rows,
    row: usize,
) -> Result<bool> {
    if flags(layout, rows).is_some_and(|deleted| deleted.value(row)) {
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
        let (mut from, mut ordinals) = (part.from, Vec::new());
        while from < part.to {
            let to = part.to.min(from + CHUNK_ROWS as u64);
            ordinals.clear();
            part.ordinals(piece, from..to, &mut ordinals)?;
            let rows = piece.fetch(&ordinals, &keys_and_flags(layout), interrupt)?;
            for (row, &ordinal) in ordinals.iter().enumerate() {
                // Each row looks for its key in every newer piece.
                interrupt.check()?;
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
    let sources = PlacedSource::of(layout, candidates, None, interrupt);
    let mut merger = Merger::new(sources, Direction::Forward, Fold::KeepNewest, CHUNK_ROWS)?;
    let mut live = vec![Vec::new(); pieces.len()];
    while let Some(rows) = merger.next_rows()? {
        interrupt.check()?;
        let deleted = flags(layout, &rows);
        let (piece, ordinal) = places(&rows);
        let is_deleted = |row: usize| deleted.is_some_and(|deleted| deleted.value(row));
        for row in (0..rows.len()).filter(|&row| !is_deleted(row)) {
            live[piece[row] as usize].push(ordinal[row]);
        }
    }
    Ok(live)
}

/// Keys and flags of a piece's rows, with the place of each row as two more values.
pub struct PlacedSource {
    source: PieceSource,
    piece: u32,
}

impl PlacedSource {
    /// One for each piece with rows selected, oldest first, without what is pruned.
    pub fn of(
        layout: &Layout,
        selected: &Selected,
        pruning: Option<&Pruning>,
        interrupt: &Interrupt,
    ) -> Vec<PlacedSource> {
        let read = keys_and_flags(layout);
        PieceSource::of(selected, &read, Direction::Forward, pruning, interrupt)
            .map(|(piece, source)| PlacedSource { source, piece: piece as u32 })
            .collect()
    }
}

impl RowSource for PlacedSource {
    fn next_rows(&mut self) -> Result<Option<Rows>> {
        let Some((rows, ordinals)) = self.source.next_placed()? else { return Ok(None) };
        let places: [ArrayRef; 2] = [
            Arc::new(UInt32Array::from(vec![self.piece; rows.len()])),
            Arc::new(UInt32Array::from(ordinals)),
        ];
        let values = rows.values().iter().cloned().chain(places).collect();
        Ok(Some(Rows::new(rows.len(), Some(rows.keys().clone()), values)))
    }
}

/// The places that a [`PlacedSource`] put behind the other values: pieces and ordinals.
pub fn places(rows: &Rows) -> (&[u32], &[u32]) {
    let places = &rows.values()[rows.values().len() - 2..];
    (
        places[0].as_primitive::<UInt32Type>().values(),
        places[1].as_primitive::<UInt32Type>().values(),
    )
}
