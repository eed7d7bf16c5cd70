//! Which rows that were drawn among candidates stay. Where all that can drop one is a newer row of its key, it is read once,
//! both to see whether it is alive and to show it.

use std::sync::Arc;

use arrow_array::RecordBatch;
use drillcore_format::pick::Pick;
use drillcore_format::rows::{Projection, Rows};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::known_dead::KnownDead;
use crate::merge::resolving::{are_live, rows_alive};
use crate::policy::table_policy::TablePolicy;
use crate::policy::tombstones::with_flags;
use crate::read::request::SampleRequest;
use crate::read::shown::{rows_pass, threads_of};
use crate::read::snapshot::TableSnapshot;
use crate::select::fetch::{fetch, gather, no_rows};
use crate::select::predicate::Test;
use crate::select::selection::{Place, Selected};

/// Tells the rows that stay from those that are dropped, and keeps what it read of them.
pub struct Staying<'t> {
    table: &'t TableSnapshot,
    candidates: &'t Selected,
    test: Option<&'t Test>,
    interrupt: &'t Interrupt,
    known: Arc<KnownDead>,
    kept: Option<KeptRows<'t>>,
}

impl<'t> Staying<'t> {
    pub fn new(
        table: &'t TableSnapshot,
        candidates: &'t Selected,
        columns: &'t [usize],
        test: Option<&'t Test>,
        request: &'t SampleRequest,
    ) -> Result<Staying<'t>> {
        let interrupt = table.interrupt();
        let known = if TablePolicy::of(&table.table().layout).deletes() {
            let steps_per_row = table.known_dead().steps_per_draw(candidates.pieces());
            if steps_per_row > 0 {
                let steps_without = request.n.saturating_mul(steps_per_row);
                table.alive_if_worth(steps_without, interrupt)?;
            }
            table.known_dead()
        } else {
            Arc::new(KnownDead::none())
        };
        // What must be tested drops more, and several threads read what stays faster than it is read along the way. Nothing
        // has to be read to see whether a row is alive where that is known.
        let is_kept = test.is_none()
            && !known.is_complete(candidates.pieces())
            && threads_of(request.threads, request.n)? == 1;
        let kept = is_kept.then(|| KeptRows::new(table, candidates, columns));
        Ok(Staying { table, candidates, test, interrupt, known, kept })
    }

    /// What stops the draws.
    pub fn interrupt(&self) -> &Interrupt {
        self.interrupt
    }

    /// Leaves of some places those whose rows stay.
    pub fn retain(&mut self, places: &mut Vec<Place>) -> Result<()> {
        let stays = match &mut self.kept {
            Some(kept) => kept.keep(places, &self.known, self.interrupt)?,
            None if self.test.is_none() && self.known.is_complete(self.candidates.pieces()) => {
                self.known.retain_alive(places);
                return Ok(());
            }
            None => self.alive_and_passing(places)?,
        };
        let mut stays = stays.into_iter();
        places.retain(|_| stays.next().expect("one answer per place"));
        Ok(())
    }

    /// The rows that stayed, in the order drawn, if they were read along the way.
    pub fn shown(self) -> Result<Option<RecordBatch>> {
        self.kept.map(KeptRows::shown).transpose()
    }

    /// Which of the rows at some places are live and pass.
    fn alive_and_passing(&self, places: &[Place]) -> Result<Vec<bool>> {
        let Staying { table, candidates, test, interrupt, ref known, .. } = *self;
        let layout = &table.table().layout;
        let mut stays = are_live(layout, candidates.pieces(), known, places, interrupt)?;
        if let Some(test) = test {
            // Tombstones have no values that could be tested.
            let live = places.iter().zip(&stays).filter(|(_, stays)| **stays);
            let live: Vec<Place> = live.map(|(place, _)| *place).collect();
            let passes = rows_pass(table, candidates, test, &live, interrupt)?;
            let tested = stays.iter_mut().filter(|stays| **stays);
            tested.zip(passes).for_each(|(stays, passes)| *stays = passes);
        }
        Ok(stays)
    }
}

/// The rows that stay of those that were drawn, with what is shown of them.
///
/// A row that is dropped was read for nothing. Upkeep keeps an upsert table at most half as long again as its rows, so most
/// stay, and reading those once more would cost more.
struct KeptRows<'t> {
    table: &'t TableSnapshot,
    candidates: &'t Selected,
    columns: &'t [usize],
    /// The columns with what says whether a row is alive.
    read: Projection,
    kept: Vec<Rows>,
}

impl<'t> KeptRows<'t> {
    fn new(
        table: &'t TableSnapshot,
        candidates: &'t Selected,
        columns: &'t [usize],
    ) -> KeptRows<'t> {
        let layout = &table.table().layout;
        let shown = TablePolicy::of(layout).projection(columns);
        KeptRows { table, candidates, columns, read: with_flags(layout, &shown), kept: Vec::new() }
    }

    /// Reads rows that are not known to be dead, says which of all are alive, and keeps those.
    fn keep(
        &mut self,
        places: &[Place],
        known: &KnownDead,
        interrupt: &Interrupt,
    ) -> Result<Vec<bool>> {
        let (layout, pieces) = (&self.table.table().layout, self.candidates.pieces());
        let shown = TablePolicy::of(layout).projection(self.columns);
        let mut stays: Vec<bool> = places.iter().map(|place| !known.is_dead(*place)).collect();
        let unsure: Vec<Place> =
            places.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(at, _)| *at).collect();
        if unsure.is_empty() {
            return Ok(stays);
        }
        let rows = fetch(pieces, &unsure, &self.read, interrupt)?;
        let alive =
            rows_alive(layout, pieces, known, &rows, |row| unsure[row].piece as usize, interrupt)?;
        let rows = rows.narrow(&self.read, &shown);
        let kept: Vec<u32> =
            (0..).zip(&alive).filter(|(_, alive)| **alive).map(|(row, _)| row).collect();
        match kept.len() {
            0 => {}
            all if all == alive.len() => self.kept.push(rows),
            _ => self.kept.push(rows.take(&kept)),
        }
        let unsure = stays.iter_mut().filter(|stays| **stays);
        unsure.zip(alive).for_each(|(stays, is_alive)| *stays = is_alive);
        Ok(stays)
    }

    /// The rows that stayed, in the order drawn.
    fn shown(self) -> Result<RecordBatch> {
        let layout = &self.table.table().layout;
        if self.kept.is_empty() {
            return Ok(no_rows(layout, self.columns));
        }
        let picks = Pick::all(self.kept.iter().map(Rows::len));
        TablePolicy::of(layout).shown(&gather(self.kept, &picks)?, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BooleanArray, Int64Array};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::{Database, Merge, OnError, Options, Predicate, Selection, TableSpec};

    #[derive(Debug)]
    struct Even([String; 1]);

    impl Predicate for Even {
        fn columns(&self) -> &[String] {
            &self.0
        }

        fn select(&self, rows: &RecordBatch) -> Result<BooleanArray> {
            let ids = rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            Ok(ids.iter().map(|id| id.map(|id| id % 2 == 0)).collect())
        }

        fn text(&self) -> &str {
            "id % 2 = 0"
        }
    }

    /// A sample by a condition compared the keys of all pieces of an append table with each other, for nothing.
    #[test]
    fn which_rows_newer_ones_replace_is_looked_for_only_where_some_do() {
        let db = Database::in_memory(Options::default()).unwrap();
        let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        for (merge, is_looked_for) in [(Merge::Append, false), (Merge::Upsert, true)] {
            let spec = TableSpec::new(columns.clone(), ["id"]).merge(merge);
            let table =
                db.create_table(if is_looked_for { "newest" } else { "all" }, spec).unwrap();
            for from in [0, 500] {
                let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 1000));
                let batch = RecordBatch::try_new(columns.clone(), vec![ids]).unwrap();
                table.append(&batch, OnError::Raise).unwrap();
            }
            let snapshot = table.snapshot().unwrap();
            let predicate: Arc<dyn Predicate> = Arc::new(Even(["id".to_string()]));
            let selection = Selection { predicate: Some(predicate), ..Selection::default() };
            let request = SampleRequest { n: 10, selection, ..Default::default() };
            assert_eq!(snapshot.sample(&request).unwrap().num_rows(), 10);
            assert_eq!(snapshot.table().liveness.known.lock().is_some(), is_looked_for);
        }
    }
}
