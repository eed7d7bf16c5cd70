//! Rows drawn from an upsert table: read once, both to see whether they are alive and to show them.

use arrow_array::RecordBatch;
use drillcore_format::rows::{Projection, Rows};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::resolving::rows_alive;
use crate::policy::table_policy::TablePolicy;
use crate::policy::tombstones::with_flags;
use crate::read::snapshot::TableSnapshot;
use crate::select::fetch::{fetch, gather, no_rows};
use crate::select::selection::{Place, Selected};

/// The rows that stay of those that were drawn, with what is shown of them.
///
/// A row that is dropped was read for nothing. Upkeep keeps an upsert table at most half as long again as its rows, so most
/// stay, and reading those once more would cost more.
pub struct KeptRows<'t> {
    table: &'t TableSnapshot,
    candidates: &'t Selected,
    columns: &'t [usize],
    /// The columns with what says whether a row is alive.
    read: Projection,
    kept: Vec<Rows>,
}

impl<'t> KeptRows<'t> {
    pub fn new(
        table: &'t TableSnapshot,
        candidates: &'t Selected,
        columns: &'t [usize],
    ) -> KeptRows<'t> {
        let layout = &table.table().layout;
        let shown = TablePolicy::of(layout).projection(columns);
        KeptRows { table, candidates, columns, read: with_flags(layout, &shown), kept: Vec::new() }
    }

    /// Reads rows, says which of them are alive, and keeps those.
    pub fn keep(&mut self, places: &[Place], interrupt: &Interrupt) -> Result<Vec<bool>> {
        let (layout, pieces) = (&self.table.table().layout, self.candidates.pieces());
        let rows = fetch(pieces, places, &self.read, interrupt)?;
        let alive = rows_alive(layout, pieces, &rows, |row| places[row].piece, interrupt)?;
        let shown = TablePolicy::of(layout).projection(self.columns);
        let rows = rows.narrow(&self.read, &shown);
        let kept: Vec<u32> =
            (0..).zip(&alive).filter(|(_, alive)| **alive).map(|(row, _)| row).collect();
        match kept.len() {
            0 => {}
            all if all == alive.len() => self.kept.push(rows),
            _ => self.kept.push(rows.take(&kept)),
        }
        Ok(alive)
    }

    /// The rows that stayed, in the order drawn.
    pub fn shown(self) -> Result<RecordBatch> {
        let layout = &self.table.table().layout;
        if self.kept.is_empty() {
            return Ok(no_rows(layout, self.columns));
        }
        let picks = self.kept.iter().enumerate();
        let picks: Vec<(usize, usize)> =
            picks.flat_map(|(part, rows)| (0..rows.len()).map(move |row| (part, row))).collect();
        TablePolicy::of(layout).shown(&gather(self.kept, &picks)?, self.columns)
    }
}
