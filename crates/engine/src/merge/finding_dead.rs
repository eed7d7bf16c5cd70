//! Finding which rows of all pieces are alive.
//!
//! Either the keys of all pieces are merged, or those of newer pieces are looked for in the older ones that do not know of them
//! yet: whichever takes fewer steps. The second is what a few commits on a large table cost.

use std::sync::Arc;

use drillcore_format::ids::Lsn;
use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::{Layout, Projection};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::known_dead::{KnownDead, Pending};
use crate::merge::merger::Direction;
use crate::merge::piece_source::PieceSource;
use crate::merge::resolving::for_each_live;
use crate::pieces::alive_rows::RowBits;
use crate::pieces::liveness::Liveness;
use crate::pieces::piece::{Piece, SortedArray};
use crate::policy::tombstones::flags;
use crate::select::selection::Selected;

/// Steps of the merge of one key, of the search of one in a run, and of one in a segment.
const MERGE_STEPS: u64 = 4;
const RUN_STEPS: u64 = 2;
const SEGMENT_STEPS: u64 = 32;

/// How many steps it takes to find which rows are alive.
pub fn steps(pieces: &[Piece], known: &KnownDead) -> u64 {
    let lookups = known.pending().map_or(u64::MAX, |pending| steps_of(pieces, pending));
    lookups.min(merge_steps(pieces))
}

fn merge_steps(pieces: &[Piece]) -> u64 {
    pieces.iter().map(Piece::rows).sum::<u64>().saturating_mul(MERGE_STEPS)
}

fn steps_of(pieces: &[Piece], pending: &Pending) -> u64 {
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
    pending.keys.iter().map(of_newer).fold(0, u64::saturating_add)
}

/// Finds which rows of each piece are alive at a commit; of erased rows it may say either.
pub fn find_dead(
    layout: &Layout,
    pieces: &Arc<[Piece]>,
    known: &KnownDead,
    lsn: Lsn,
    interrupt: &Interrupt,
) -> Result<Vec<Liveness>> {
    let pending =
        known.pending().filter(|pending| steps_of(pieces, pending) <= merge_steps(pieces));
    let bits = match pending {
        Some(pending) => by_lookups(layout, pieces, known, pending, interrupt)?,
        None => by_merge(layout, pieces, interrupt)?,
    };
    let found =
        |bits: RowBits| Liveness { alive: Arc::new(bits.counted()), through: lsn, since: lsn };
    Ok(bits.into_iter().map(found).collect())
}

fn by_merge(layout: &Layout, pieces: &Arc<[Piece]>, interrupt: &Interrupt) -> Result<Vec<RowBits>> {
    let mut alive: Vec<RowBits> = pieces.iter().map(|piece| RowBits::none(piece.rows())).collect();
    let all = Selected::whole(pieces.clone());
    for_each_live(layout, &all, interrupt, |piece, ordinal| alive[piece].set(ordinal))?;
    Ok(alive)
}

fn by_lookups(
    layout: &Layout,
    pieces: &[Piece],
    known: &KnownDead,
    pending: &Pending,
    interrupt: &Interrupt,
) -> Result<Vec<RowBits>> {
    let mut alive = Vec::with_capacity(pieces.len());
    for (number, piece) in pieces.iter().enumerate() {
        alive.push(match known.of_piece(number) {
            Some(known) => known.alive.bits(),
            None => without_tombstones(layout, piece),
        });
    }
    let only_keys = Projection { keys: true, ..Projection::default() };
    for (newer, older) in &pending.keys {
        let newer = pieces[*newer].clone();
        let mut source = PieceSource::whole(newer, only_keys.clone(), Direction::Forward);
        let mut starts = vec![0; older.len()];
        while let Some((rows, _)) = source.next_placed()? {
            interrupt.check()?;
            for (&older, start) in older.iter().zip(&mut starts) {
                let dies = |ordinal| alive[older].clear(ordinal);
                match &pieces[older].array {
                    SortedArray::Run(run) => run.find_ascending(rows.keys(), start, dies),
                    SortedArray::Segment(_) => {
                        for_each_found(&pieces[older], rows.keys(), interrupt, dies)?;
                    }
                }
            }
        }
    }
    Ok(alive)
}

/// The rows of a run that are no tombstones.
fn without_tombstones(layout: &Layout, piece: &Piece) -> RowBits {
    let mut alive = RowBits::all(piece.rows());
    let Some(run) = piece.run().filter(|run| run.tombstones() > 0) else { return alive };
    let rows = run.slice(0, run.rows(), &layout.stored(false, vec![0]));
    let deleted = flags(layout, &rows).expect("there are tombstones");
    deleted.values().set_indices().for_each(|row| alive.clear(row as u32));
    alive
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
    for hits in piece.get(keys, &wanted, &|_| true, &nothing, usize::MAX, interrupt)? {
        for (row, _) in hits.found {
            each(piece.rank(&Bound::at_key(keys.value(row as usize)))? as u32);
        }
    }
    Ok(())
}
