//! Counting rows and events.

use crate::error::Result;
use crate::policy::table_policy::TablePolicy;
use crate::read::resolved::count_passing;
use crate::read::snapshot::TableSnapshot;
use crate::read::weighted::Weighted;
use crate::schema::unit::Unit;
use crate::select::selection::Selection;
use crate::state::version::TableVersion;

impl TableSnapshot {
    /// The number of rows. O(1) in an append table. Where keys fold, O(pieces) once it is known which rows are alive: the first
    /// call merges the keys of all pieces, and later ones look for the keys of what was committed since in what is older.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn rows(&self) -> Result<u64> {
        self.count(&Selection::default())
    }

    /// The exact number of selected rows, from indexes alone; in an upsert or rollup table from what is known of which rows are
    /// alive, or the keys of the selection, once a snapshot. With a predicate that indexes do not answer, from the columns that
    /// it reads.
    ///
    /// # Errors
    /// `InvalidArgument` for a selection that does not fit the table, `NotFound` for a column of the predicate that the table lacks,
    /// what the predicate returns, `OutOfRange` if it reads a sum of a rollup table that does not fit its type, `Corrupt`, `Io`.
    pub fn count(&self, selection: &Selection) -> Result<u64> {
        let (question, interrupt) = (self.question(selection)?, self.interrupt());
        // But for the test.
        let indexes_suffice = self.indexes_suffice(None);
        match &question.test {
            None if indexes_suffice && question.scope.takes_a_pass(&self.table().pieces.now()) => {
                let TableVersion { layout, pieces, passed, .. } = self.table();
                let pieces = pieces.now();
                match passed.get(&question) {
                    Some(known) => Ok(known.len()),
                    // Only the number was asked for, so the list of rows is not kept.
                    None => {
                        Ok(question.scope.select(layout, pieces.all().clone(), interrupt)?.len())
                    }
                }
            }
            // Listing what passes would take memory, and counting it does not.
            Some(test) if indexes_suffice && self.table().resolved.get(&question).is_none() => {
                let candidates = self.candidates(&question.scope, interrupt)?;
                count_passing(&candidates, &self.table().layout, test, interrupt)
            }
            _ => Ok(self.resolved(question, interrupt)?.len()),
        }
    }

    /// Whether indexes say how many rows are selected: in an append table, where no predicate is left to test. Sets without an
    /// index take a pass over the set column.
    pub fn counts_by_indexes(&self, selection: &Selection) -> Result<bool> {
        let question = selection.check(&self.table().schema)?;
        Ok(self.indexes_suffice(question.test.as_ref()))
    }

    /// At least as many rows as are selected, from indexes alone: what a predicate tests, and in an upsert or rollup table
    /// versions of rows that newer ones replace, are counted as if they passed. `None` if only a pass over the rows could tell.
    pub fn count_at_most(&self, selection: &Selection) -> Result<Option<u64>> {
        let TableVersion { layout, pieces, schema, .. } = self.table();
        let pieces = pieces.now();
        let scope = selection.check(schema)?.scope;
        if scope.takes_a_pass(&pieces) {
            return Ok(None);
        }
        Ok(Some(scope.select(layout, pieces.all().clone(), self.interrupt())?.len()))
    }

    /// The exact number of events folded into the selected rows of a rollup table, from running sums unless
    /// rows have to be tested; in another table, of rows.
    pub fn count_events(&self, selection: &Selection) -> Result<u64> {
        let (layout, interrupt) = (&self.table().layout, self.interrupt());
        if TablePolicy::of(layout).unit(Unit::Events) == Unit::Rows {
            return self.count(selection);
        }
        let question = self.question(selection)?;
        let partials = self.partials(&question, interrupt)?;
        let events = Weighted::by_events(partials, layout, interrupt)?;
        events.events()
    }
}
