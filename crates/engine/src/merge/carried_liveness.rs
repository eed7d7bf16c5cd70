//! Carrying through a merge what is known of which rows are alive.
//!
//! A merge drops rows that die in it. Of the others it is known of the pieces that are merged which of them newer pieces have
//! replaced, so that no read has to look for them a second time.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray};
use drillcore_format::ids::Lsn;
use drillcore_format::rows::{Layout, Rows};

use crate::error::Result;
use crate::merge::merger::RowSource;
use crate::merge::piece_source::PieceSource;
use crate::pieces::alive_rows::RowBits;
use crate::pieces::liveness::Liveness;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::policy::tombstones::flags;

/// What comes of a merge of some pieces, as its rows come: which of these are alive.
pub struct CarriedLiveness {
    carried: Option<Carried>,
}

struct Carried {
    alive: RowBits,
    through: Lsn,
    since: Lsn,
}

/// Rows of a piece; if something is carried, with one value more, that says which of them are alive.
pub struct CarryingSource {
    source: PieceSource,
    layout: Layout,
    carried: Option<Option<Liveness>>,
}

impl CarriedLiveness {
    /// What is known of the pieces, whose rows are merged whole, and the sources to merge, each given with the number of its
    /// piece. Nothing is carried where nothing is known.
    pub fn of(
        layout: &Layout,
        pieces: &[Piece],
        sources: impl Iterator<Item = (usize, PieceSource)>,
    ) -> (CarriedLiveness, Vec<CarryingSource>) {
        let known: Vec<Option<Liveness>> =
            pieces.iter().map(|piece| piece.liveness.at(Lsn(u64::MAX))).collect();
        let is_carried = known.iter().any(Option::is_some);
        let carried = is_carried.then(|| {
            let through = pieces.iter().zip(&known).map(|(piece, known)| match known {
                Some(known) => known.through,
                None => Lsn(piece.lsns().first.0.saturating_sub(1)),
            });
            let through = through.min().expect("something is known of one");
            let since = known.iter().flatten().map(|known| known.since).max().unwrap_or(through);
            Carried { alive: RowBits::none(0), through, since }
        });
        let carrying = |(piece, source): (usize, PieceSource)| CarryingSource {
            source,
            layout: layout.clone(),
            carried: is_carried.then(|| known[piece].clone()),
        };
        (CarriedLiveness { carried }, sources.map(carrying).collect())
    }

    /// Whether nothing is carried.
    pub fn is_nothing(&self) -> bool {
        self.carried.is_none()
    }

    /// Takes from merged rows what says which of them are alive.
    pub fn take(&mut self, rows: Rows) -> Rows {
        let Some(carried) = &mut self.carried else { return rows };
        let (alive, values) = rows.values().split_last().expect("a value was added");
        alive.as_boolean().values().iter().for_each(|is_alive| carried.alive.push(is_alive));
        let values = values.to_vec();
        rows.with_values(values)
    }

    /// What was taken, counted in `meter`.
    pub fn finish(self, meter: &MemoryMeter) -> Option<Liveness> {
        let Carried { alive, through, since } = self.carried?;
        Some(Liveness { alive: Arc::new(alive.counted(meter)), through, since })
    }
}

impl RowSource for CarryingSource {
    fn next_rows(&mut self) -> Result<Option<Rows>> {
        let Some(known) = &self.carried else { return self.source.next_rows() };
        let Some((rows, ordinals)) = self.source.next_placed()? else { return Ok(None) };
        let alive: BooleanArray = match known {
            Some(known) => {
                let is_alive = |&ordinal: &u32| Some(known.alive.contains(ordinal));
                ordinals.iter().map(is_alive).collect()
            }
            // Nothing is newer, as far as that goes, but tombstones are dead.
            None => match flags(&self.layout, &rows) {
                Some(deleted) => BooleanArray::new(!deleted.values(), None),
                None => BooleanArray::from(vec![true; rows.len()]),
            },
        };
        let values = rows.values().iter().cloned().chain([Arc::new(alive) as ArrayRef]).collect();
        Ok(Some(rows.with_values(values)))
    }

    fn read_ahead<'s>(sources: impl Iterator<Item = &'s mut CarryingSource>) -> Result<bool> {
        PieceSource::read_ahead(sources.map(|carrying| &mut carrying.source))
    }
}
