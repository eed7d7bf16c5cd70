//! Which rows of a piece an erasure takes.

use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::Layout;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::passing::passing;
use crate::pieces::piece::Piece;
use crate::select::selection::{Question, Selected};

/// The rows of one piece that are about to be erased: those of a key range at the cost of finding its ends, others at
/// that of finding them, without those that were erased before.
///
/// Rows are judged by what is stored of them. So the question of a rollup table is about dimensions only, and that of an
/// upsert table about keys only: then it is the same for all rows that share a key.
pub fn erased_by(
    question: &Question,
    layout: &Layout,
    piece: &Piece,
    interrupt: &Interrupt,
) -> Result<OrdinalIntervals> {
    if let Some(range) = question.key_range() {
        let ordinals = range.ordinals(std::slice::from_ref(piece))?;
        return Ok(OrdinalIntervals::new(
            ordinals.into_iter().map(|range| range.start as u32..range.end as u32),
        ));
    }
    let candidates = question.scope.select(layout, [piece.clone()].into(), interrupt)?;
    match &question.test {
        None => listed(&candidates),
        Some(test) => listed(&passing(&candidates, layout, test, interrupt)?),
    }
}

fn listed(selected: &Selected) -> Result<OrdinalIntervals> {
    let mut ordinals = Vec::with_capacity(selected.len() as usize);
    for part in selected.parts() {
        part.ordinals(&selected.pieces()[part.piece], part.from..part.to, &mut ordinals)?;
    }
    // Each set's rows are in order, but not those of several.
    ordinals.sort_unstable();
    ordinals.dedup();
    Ok(OrdinalIntervals::of(&ordinals))
}
