//! Which rows of a table whose keys fold stand for their key.
//!
//! A piece of an upsert table holds a key once, as a row or as a tombstone, and newer pieces win. So a row
//! is alive if it is no tombstone and no newer piece has its key. *Resolving* a selection lists its live
//! rows; from then on it is counted, drawn from and scanned like any other. In a rollup table the newest
//! partial row stands for its key.

use std::cell::LazyCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, UInt32Array};
use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_storage::segments::lookup::{Ask, Searched, Which};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::key_table::KeyTable;
use crate::merge::known_dead::KnownDead;
use crate::merge::merger::{Direction, Merger, RowSource};
use crate::merge::piece_source::PieceSource;
use crate::pieces::key_lookup::KeyLookup;
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::policy::fold::Fold;
use crate::policy::tombstones::{flagged, flags, keys_and_flags};
use crate::select::fetch::fetch;
use crate::select::pruning::Pruning;
use crate::select::selection::{Place, Selected};

/// Rows of a merge handled at once, and members looked at between two looks at the interrupt.
const CHUNK_ROWS: usize = 4096;
/// Rows whose keys are worth a table.
const MANY_ROWS: usize = 16;
/// Keys of a piece that are looked at in the time in which one row's key is looked for in it.
const KEYS_PER_ROW: usize = 2;

/// Lists the live rows of those that indexes found. By key: one merge of the range's keys. By set: each member is
/// looked for in the newer pieces.
pub fn resolve(
    layout: &Layout,
    candidates: &Selected,
    is_by_set: bool,
    known: &KnownDead,
    interrupt: &Interrupt,
) -> Result<Selected> {
    let live = if is_by_set {
        live_members(layout, candidates, known, interrupt)?
    } else {
        live_in_range(layout, candidates, interrupt)?
    };
    Ok(Selected::listed(candidates.pieces().clone(), live))
}

/// Which of some stored rows are alive. Of a table without tombstones all are, though some may be partial.
pub fn are_live(
    layout: &Layout,
    pieces: &[Piece],
    known: &KnownDead,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    let Some(projection) = flagged(layout, &layout.stored(true, Vec::new())) else {
        return Ok(vec![true; places.len()]);
    };
    let mut live: Vec<bool> = places.iter().map(|place| !known.is_dead(*place)).collect();
    if known.is_complete(pieces) {
        return Ok(live);
    }
    let unsure: Vec<usize> = (0..places.len()).filter(|&place| live[place]).collect();
    // Few enough that their keys fit a batch, however long they are.
    for unsure in unsure.chunks(CHUNK_ROWS) {
        let places: Vec<Place> = unsure.iter().map(|&place| places[place]).collect();
        let rows = fetch(pieces, &places, &projection, interrupt)?;
        let alive =
            rows_alive(layout, pieces, known, &rows, |row| places[row].piece as usize, interrupt)?;
        unsure.iter().zip(alive).for_each(|(&place, is_alive)| live[place] = is_alive);
    }
    Ok(live)
}

/// Which of some rows are alive, that were read with their keys and flags, and are not known to be dead. Their keys are looked
/// for in the newer pieces that may have them: in runs first, of few rows one by one, of many by a look at
/// each key between the least and the greatest where there are few; then in all segments together.
pub fn rows_alive(
    layout: &Layout,
    pieces: &[Piece],
    known: &KnownDead,
    rows: &Rows,
    piece_of: impl Fn(usize) -> usize,
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    let mut alive: Vec<bool> = match flags(layout, rows) {
        Some(deleted) => deleted.values().iter().map(|deleted| !deleted).collect(),
        None => vec![true; rows.len()],
    };
    let mut rows_of = vec![0; pieces.len()];
    (0..rows.len()).for_each(|row| rows_of[piece_of(row)] += 1);
    let nothing = layout.stored(false, Vec::new());
    let among = LazyCell::new(|| KeysAmong::new(rows.keys()));
    let held: Vec<usize> = (0..pieces.len()).filter(|&piece| rows_of[piece] > 0).collect();
    let lookup =
        KeyLookup { keys: rows.keys(), projection: &nothing, bytes_max: usize::MAX, interrupt };
    let mut on_disk = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let has_older = |older: usize| known.is_pending(pieces, older, number);
        let older = held.iter().take_while(|older| **older < number);
        let older_rows: usize =
            older.filter(|older| has_older(**older)).map(|&older| rows_of[older]).sum();
        if older_rows == 0 {
            continue;
        }
        if piece.segment().is_some() {
            on_disk.push(number);
            continue;
        }
        if older_rows >= MANY_ROWS
            && let Some(run) = piece.run().filter(|_| piece.erased_rows() == 0)
            && let Some(keys) = among.few_keys_of(run, KEYS_PER_ROW * older_rows)
        {
            interrupt.check()?;
            let kills = |row: usize| alive[row] &= !has_older(piece_of(row));
            among.for_each_row(&keys, kills);
            continue;
        }
        let is_older = |row: &u32| {
            let at = *row as usize;
            alive[at] && has_older(piece_of(at)) && piece.spans(rows.key(at))
        };
        let mut older: Vec<u32> = (0..rows.len() as u32).filter(is_older).collect();
        older.sort_unstable_by_key(|&row| rows.key(row as usize));
        if older.is_empty() {
            continue;
        }
        for hits in lookup.in_piece(piece, &older, Ask::Filter)? {
            hits.found.iter().for_each(|(row, _)| alive[*row as usize] = false);
        }
    }
    if !on_disk.is_empty() {
        let mut asked: Vec<u32> =
            (0..rows.len() as u32).filter(|&row| alive[row as usize]).collect();
        asked.sort_unstable_by_key(|&row| rows.key(row as usize));
        let ask = |of: usize, row: u32| match known.is_pending(
            pieces,
            piece_of(row as usize),
            on_disk[of],
        ) {
            true => Ask::Filter,
            false => Ask::Not,
        };
        let searched = |&number: &usize| lookup.searched(number, &pieces[number], &asked);
        let searched: Vec<Searched<'_>> = on_disk.iter().filter_map(searched).collect();
        for hits in lookup.in_segments(&searched, &asked, Which::First, &ask)? {
            hits.found.iter().for_each(|(row, _)| alive[*row as usize] = false);
        }
    }
    Ok(alive)
}

/// Keys of some rows, to be found in pieces that have few others between them.
struct KeysAmong<'k> {
    table: KeyTable<'k>,
    from: Bound,
    to: Bound,
}

impl<'k> KeysAmong<'k> {
    fn new(keys: &'k Keys) -> KeysAmong<'k> {
        let least = keys.iter().min().expect("there are rows");
        let greatest = keys.iter().max().expect("there are rows");
        KeysAmong {
            table: KeyTable::new(keys),
            from: Bound::at_key(least),
            to: Bound::past_key(greatest),
        }
    }

    /// The keys of a run from the least of these to the greatest, if they are no more than `count_max`.
    fn few_keys_of(&self, run: &Run, count_max: usize) -> Option<Keys> {
        let between = run.rank(&self.from)..run.rank(&self.to);
        let is_few = between.end - between.start <= count_max as u64;
        let keys_alone = || Projection { keys: true, ..Projection::default() };
        is_few.then(|| run.slice(between.start, between.end, &keys_alone()).keys().clone())
    }

    /// Calls `each` with the rows that have one of some keys.
    fn for_each_row(&self, keys: &Keys, mut each: impl FnMut(usize)) {
        keys.iter().for_each(|key| self.table.for_each_row(key, &mut each));
    }
}

fn live_members(
    layout: &Layout,
    candidates: &Selected,
    known: &KnownDead,
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
            from = to;
            ordinals.retain(|&ordinal| !known.is_dead(Place::new(part.piece, ordinal)));
            if ordinals.is_empty() {
                continue;
            }
            let rows = piece.fetch(&ordinals, &keys_and_flags(layout), interrupt)?;
            let alive = rows_alive(layout, pieces, known, &rows, |_| part.piece, interrupt)?;
            let alive = ordinals.iter().zip(alive).filter(|(_, is_alive)| *is_alive);
            live[part.piece].extend(alive.map(|(ordinal, _)| ordinal));
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
    let mut live = vec![Vec::new(); candidates.pieces().len()];
    for_each_live(layout, candidates, interrupt, |piece, ordinal| live[piece].push(ordinal))?;
    Ok(live)
}

/// Calls `each` with the pieces and ordinals of the live rows of a key range, by one merge of the keys.
pub fn for_each_live(
    layout: &Layout,
    candidates: &Selected,
    interrupt: &Interrupt,
    mut each: impl FnMut(usize, u32),
) -> Result<()> {
    let sources = PlacedSource::of(layout, candidates, None, interrupt);
    let mut merger = Merger::new(sources, Direction::Forward, Fold::KeepNewest, CHUNK_ROWS)?;
    while let Some(rows) = merger.next_rows()? {
        interrupt.check()?;
        let deleted = flags(layout, &rows);
        let (piece, ordinal) = places(&rows);
        let is_deleted = |row: usize| deleted.is_some_and(|deleted| deleted.value(row));
        for row in (0..rows.len()).filter(|&row| !is_deleted(row)) {
            each(piece[row] as usize, ordinal[row]);
        }
    }
    Ok(())
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

    fn read_ahead<'s>(sources: impl Iterator<Item = &'s mut PlacedSource>) -> Result<bool> {
        PieceSource::read_ahead(sources.map(|placed| &mut placed.source))
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
