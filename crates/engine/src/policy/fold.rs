//! What becomes of equal keys where sorted sources of rows are merged.

use drillcore_format::rows::{Groups, Layout, Projection, Rows};

use crate::error::Result;
use crate::policy::rollup;
use crate::policy::tombstones::{with_flags, without_tombstones};

/// What becomes of equal keys.
#[derive(Debug, Clone)]
pub enum Fold {
    /// All stay, in the order of their sources.
    KeepAll,
    /// The newest stays. Each source has a key once.
    KeepNewest,
    /// They are folded into one partial row of a rollup table; sources have all values.
    Combine(Layout),
}

/// What a merge does with a row that has the key of the row before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Leaves it out.
    Skip,
    /// Takes it instead of the one before.
    Replace,
    /// Takes it into the group of the one before.
    Combine,
}

impl Fold {
    /// What must be read of rows that are merged to give `needed` of those that stay.
    pub fn read(&self, layout: &Layout, needed: &Projection) -> Projection {
        match self {
            Fold::KeepNewest => with_flags(layout, needed),
            Fold::KeepAll | Fold::Combine(_) => needed.clone(),
        }
    }

    /// Of merged rows that were read with [`Fold::read`] those that are no tombstones, with what is needed of them.
    pub fn live(
        &self,
        layout: &Layout,
        rows: Rows,
        read: &Projection,
        needed: &Projection,
    ) -> Rows {
        match self {
            Fold::KeepNewest => without_tombstones(layout, rows).narrow(read, needed),
            Fold::KeepAll | Fold::Combine(_) => rows,
        }
    }

    /// Whether rows with equal keys become one, which is made of them and their keys once a merge has gathered them.
    #[inline]
    pub fn combines(&self) -> bool {
        matches!(self, Fold::Combine(_))
    }

    /// Whether a merge looks for equal keys.
    #[inline]
    pub fn compares_keys(&self) -> bool {
        !matches!(self, Fold::KeepAll)
    }

    /// How many rows come of those that a merge picked, in groups of equal keys.
    #[inline]
    pub fn rows_out(&self, picked: usize, groups: usize) -> usize {
        match self {
            Fold::Combine(_) => groups,
            Fold::KeepAll | Fold::KeepNewest => picked,
        }
    }

    /// What a merge does with a row that has the key of the row before it, where the newest source comes first among equals,
    /// or last.
    #[inline]
    pub fn again(&self, is_newest_first: bool) -> Again {
        match self {
            Fold::KeepAll => unreachable!("equal keys are not looked for"),
            Fold::KeepNewest if is_newest_first => Again::Skip,
            Fold::KeepNewest => Again::Replace,
            Fold::Combine(_) => Again::Combine,
        }
    }

    /// Folds the groups of equal keys that a merge gathered: group `i` ends before row `ends[i]`, with its newest row. A merge
    /// gathers only what stays, unless rows are combined. Rows may have values beside those that are stored.
    ///
    /// # Errors
    /// `Corrupt` if a count or a sum of integers does not fit its type.
    pub fn combine(&self, rows: Rows, ends: &[u32]) -> Result<Rows> {
        match self {
            Fold::KeepAll | Fold::KeepNewest => Ok(rows),
            Fold::Combine(_) if ends.len() == rows.len() => Ok(rows),
            Fold::Combine(layout) => {
                let rollup = layout.rollup().expect("only rollup tables combine");
                let groups = Groups::of_neighbours(ends);
                let (stored, beside) = rows.values().split_at(layout.all().values.len());
                if beside.is_empty() {
                    return rollup::fold(layout, rollup, &rows, &groups);
                }
                let stored = rows.with_values(stored.to_vec());
                let folded = rollup::fold(layout, rollup, &stored, &groups)?;
                // What is said of a row beside what is stored of it holds for the newest.
                let beside = Rows::new(rows.len(), None, beside.to_vec());
                let beside = beside.take(groups.representatives());
                let values = folded.values().iter().chain(beside.values()).cloned().collect();
                Ok(folded.with_values(values))
            }
        }
    }
}
