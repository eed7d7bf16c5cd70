//! What becomes of equal keys where sorted sources of rows are merged.

use drillcore_format::rows::{Layout, Rows};

use crate::error::Result;
use crate::policy::rollup;

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

impl Fold {
    /// Folds the groups of equal keys that a merge gathered: group `i` ends before row `ends[i]`. A merge gathers
    /// only what stays, unless rows are combined.
    ///
    /// # Errors
    /// `Corrupt` if a count or a sum of integers does not fit its type.
    pub fn combine(&self, rows: Rows, ends: &[u32]) -> Result<Rows> {
        match self {
            Fold::KeepAll | Fold::KeepNewest => Ok(rows),
            Fold::Combine(layout) => {
                let rollup = layout.rollup().expect("only rollup tables combine");
                rollup::fold(layout, rollup, &rows, ends)
            }
        }
    }
}
