//! Finding which rows of all pieces are alive.
//!
//! Either the keys of all pieces are merged, or those of newer pieces are looked for in the older ones that do not know of them
//! yet: whichever takes fewer steps. The second is what a few commits on a large table cost.

use std::sync::Arc;

use drillcore_format::ids::Lsn;
use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::{Layout, Projection};
use drillcore_storage::segments::lookup::Ask;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::known_dead::{KnownDead, Pending};
use crate::merge::merger::Direction;
use crate::merge::piece_source::PieceSource;
use crate::merge::resolving::for_each_live;
use crate::pieces::alive_rows::{AliveRows, RowBits};
use crate::pieces::key_lookup::KeyLookup;
use crate::pieces::liveness::Liveness;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::{Piece, SortedArray};
use crate::policy::tombstones::{flagged, flags};
use crate::select::selection::Selected;

/// Rows whose bits are copied and counted in a step.
const ROWS_PER_STEP: u64 = 512;
/// Steps of the merge of one key, of the search of one in a run, and of one in a segment.
const MERGE_STEPS: u64 = 4;
const RUN_STEPS: u64 = 2;
const SEGMENT_STEPS: u64 = 32;

/// How many steps it takes to find which rows are alive.
pub fn steps(pieces: &[Piece], known: &KnownDead) -> u64 {
    let count = || {
        let lookups =
            known.pending().map_or(u64::MAX, |pending| lookup_steps(pieces, known, pending));
        lookups.min(merge_steps(pieces))
    };
    *known.steps.get_or_init(count)
}

fn merge_steps(pieces: &[Piece]) -> u64 {
    pieces.iter().map(Piece::rows).sum::<u64>().saturating_mul(MERGE_STEPS)
}

fn lookup_steps(pieces: &[Piece], known: &KnownDead, pending: &Pending) -> u64 {
    if !pending.tombstones.is_empty() {
        return u64::MAX;
    }
    let of_older = |&older: &usize| match &pieces[older].array {
        SortedArray::Run(_) => RUN_STEPS,
        SortedArray::Segment(_) => SEGMENT_STEPS,
    };
    let of_newer = |(newer, older): &(usize, Vec<usize>)| {
        let steps: u64 = older.iter().map(of_older).sum();
        pieces[*newer].rows().saturating_mul(steps)
    };
    let mut is_copied: Vec<bool> = (0..pieces.len())
        .map(|piece| pieces[piece].erased.is_some() || known.of_piece(piece).is_none())
        .collect();
    pending.keys.iter().flat_map(|(_, older)| older).for_each(|&older| is_copied[older] = true);
    let copied = pieces.iter().zip(is_copied).filter(|(_, is_copied)| *is_copied);
    let copied: u64 = copied.map(|(piece, _)| piece.rows()).sum();
    pending.keys.iter().map(of_newer).fold(copied / ROWS_PER_STEP, u64::saturating_add)
}

/// Finds which rows of each piece are alive at a commit; of erased rows it may say either.
pub fn find_dead(
    layout: &Layout,
    pieces: &Arc<[Piece]>,
    known: &KnownDead,
    lsn: Lsn,
    meter: &MemoryMeter,
    interrupt: &Interrupt,
) -> Result<Vec<Liveness>> {
    let is_less = |pending: &&Pending| lookup_steps(pieces, known, pending) <= merge_steps(pieces);
    let alive = match known.pending().filter(is_less) {
        Some(pending) => by_lookups(layout, pieces, known, pending, meter, interrupt)?,
        None => by_merge(layout, pieces, meter, interrupt)?,
    };
    let found = |alive| Liveness { alive, through: lsn, since: lsn };
    Ok(alive.into_iter().map(found).collect())
}

fn by_merge(
    layout: &Layout,
    pieces: &Arc<[Piece]>,
    meter: &MemoryMeter,
    interrupt: &Interrupt,
) -> Result<Vec<Arc<AliveRows>>> {
    let mut alive: Vec<RowBits> = pieces.iter().map(|piece| RowBits::none(piece.rows())).collect();
    let all = Selected::whole(pieces.clone());
    for_each_live(layout, &all, interrupt, |piece, ordinal| alive[piece].set(ordinal))?;
    Ok(alive.into_iter().map(|bits| Arc::new(bits.counted(meter))).collect())
}

fn by_lookups(
    layout: &Layout,
    pieces: &[Piece],
    known: &KnownDead,
    pending: &Pending,
    meter: &MemoryMeter,
    interrupt: &Interrupt,
) -> Result<Vec<Arc<AliveRows>>> {
    // Of those in which nothing dies, what is known is handed on.
    let unknown = |number: usize| match known.of_piece(number) {
        Some(_) => Ok(None),
        None => without_tombstones(layout, &pieces[number]).map(Some),
    };
    let mut changed: Vec<Option<RowBits>> =
        (0..pieces.len()).map(unknown).collect::<Result<_>>()?;
    let known_bits =
        |piece: usize| known.of_piece(piece).expect("the others have bits").alive.bits();
    let only_keys = Projection { keys: true, ..Projection::default() };
    for (newer, older) in &pending.keys {
        let newer = pieces[*newer].clone();
        let mut source = PieceSource::whole(newer, only_keys.clone(), Direction::Forward);
        let mut starts = vec![0; older.len()];
        while let Some((rows, _)) = source.next_placed()? {
            interrupt.check()?;
            for (&older, start) in older.iter().zip(&mut starts) {
                let mut dies = |ordinal| {
                    if known.of_piece(older).is_none_or(|known| known.alive.contains(ordinal)) {
                        changed[older].get_or_insert_with(|| known_bits(older)).clear(ordinal);
                    }
                };
                match &pieces[older].array {
                    SortedArray::Run(run) => run.find_ascending(rows.keys(), start, &mut dies),
                    SortedArray::Segment(_) => {
                        for_each_found(&pieces[older], rows.keys(), interrupt, &mut dies)?;
                    }
                }
            }
        }
    }
    let alive = changed.into_iter().enumerate().map(|(number, changed)| {
        match (changed, known.of_piece(number)) {
            (None, Some(known)) => known.alive.clone(),
            (changed, _) => {
                let bits = changed.expect("where nothing is known there are bits");
                Arc::new(bits.counted(meter))
            }
        }
    });
    Ok(alive.collect())
}

/// The rows of a run that are no tombstones, also of one that was spilled.
fn without_tombstones(layout: &Layout, piece: &Piece) -> Result<RowBits> {
    let mut alive = RowBits::all(piece.rows());
    let has_none = piece.run().is_some_and(|run| run.tombstones() == 0);
    let Some(only_flags) = flagged(layout, &layout.stored(false, Vec::new())) else {
        return Ok(alive);
    };
    if has_none || !piece.is_of_run() {
        return Ok(alive);
    }
    let rows = piece.read(0, piece.rows(), &only_flags)?;
    let deleted = flags(layout, &rows).expect("they were read");
    deleted.values().set_indices().for_each(|row| alive.clear(row as u32));
    Ok(alive)
}

/// Calls `each` with the ordinals of the rows of a segment that have some keys.
fn for_each_found(
    piece: &Piece,
    keys: &Keys,
    interrupt: &Interrupt,
    mut each: impl FnMut(u32),
) -> Result<()> {
    let spanned = |row: &u32| piece.spans(keys.value(*row as usize));
    let wanted: Vec<u32> = (0..keys.len() as u32).filter(spanned).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let nothing = Projection::default();
    let lookup = KeyLookup { keys, projection: &nothing, bytes_max: usize::MAX, interrupt };
    for hits in lookup.in_piece(piece, &wanted, Ask::Filter)? {
        for (row, _) in hits.found {
            each(piece.rank(&Bound::at_key(keys.value(row as usize)))? as u32);
        }
    }
    Ok(())
}
