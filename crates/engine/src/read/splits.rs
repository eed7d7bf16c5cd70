//! Splits: key ranges that share a selection, for processes that read it side by side.

use crate::error::{Error, Result};
use crate::policy::refusals::check_has_weights;
use crate::read::draw::weight_column;
use crate::read::snapshot::TableSnapshot;
use crate::read::weighted::Weighted;
use crate::select::key_range::SplitRange;
use crate::select::partitioning::split_by_keys;
use crate::select::selection::Selection;

/// A share of a selection: the selected rows in one key range.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{ScanRequest, Selection};
///
/// let now = flights.snapshot()?;
/// let splits = now.splits(4, &Selection::default())?;
/// assert_eq!(splits.iter().map(|split| split.rows.unwrap()).sum::<u64>(), 100);
/// // Elsewhere, at the same moment:
/// let selection = Selection { split: Some(splits[0].range.clone()), ..Selection::default() };
/// let batches = now.scan(ScanRequest { selection, ..ScanRequest::default() })?;
/// assert_eq!(batches.map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>(), splits[0].rows.unwrap());
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySplit {
    /// Goes with the selection that was split, as [`Selection::split`].
    pub range: SplitRange,
    /// The number of rows, where indexes say it: not of a predicate that they do not answer, nor in an upsert or rollup
    /// table. [`TableSnapshot::count`] counts those.
    pub rows: Option<u64>,
}

impl TableSnapshot {
    /// Up to `count` key ranges that share the selected rows about equally, in key order: none of them is empty as far
    /// as indexes show, no two share a key, and one after the other they give what a scan gives. They are fewer where many
    /// rows have one key, and none where nothing is selected. In a table whose keys fold, versions of rows are shared
    /// equally, and so are rows that a predicate has yet to test.
    ///
    /// Reads 16 keys for each, each a block on disk at most, and the ends of each in every piece: a page of the index and a
    /// block. The same snapshot is always split alike.
    ///
    /// # Errors
    /// `InvalidArgument` for no splits or a selection that does not fit the table, `NotFound` for a column of the predicate that
    /// the table lacks, `Corrupt`, `Io`, `Interrupted`.
    pub fn splits(&self, count: usize, selection: &Selection) -> Result<Vec<KeySplit>> {
        if count == 0 {
            return Err(Error::invalid("the number of splits must be at least 1, got 0"));
        }
        let question = self.question(selection)?;
        let is_exact = self.indexes_suffice(question.test.as_ref());
        let candidates = self.candidates(&question.scope, self.interrupt())?;
        let within = selection.split.clone().unwrap_or_default();
        let splits = split_by_keys(&candidates, count, &within, self.interrupt())?.into_iter();
        let split = |(range, rows)| KeySplit { range, rows: is_exact.then_some(rows) };
        Ok(splits.map(split).collect())
    }

    /// The sum of a weight column over the selected rows, in units: of an integer column these are ones, of a float column
    /// steps of 2⁻³².
    ///
    /// Costs the ends of the selection in every piece where indexes answer it; a predicate that they do not answer, and an
    /// upsert table, cost a pass over the selection, once per snapshot, and sets without an index one over their members.
    ///
    /// # Errors
    /// `NotFound` if the column is no weight, which none of a rollup table is, and as [`TableSnapshot::count`].
    pub fn weight(&self, column: &str, selection: &Selection) -> Result<u128> {
        let (layout, interrupt) = (&self.table().layout, self.interrupt());
        check_has_weights(layout, "use the number of events instead")?;
        let weight = weight_column(layout, column)?;
        let selected = self.resolved(self.question(selection)?, interrupt)?;
        Ok(Weighted::new(selected, layout, weight, interrupt)?.total())
    }
}
