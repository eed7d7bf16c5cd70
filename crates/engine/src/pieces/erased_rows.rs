//! Rows of a piece that were erased. They stay where they are until the piece is merged, and nothing shows them.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use drillcore_format::ordinal_intervals::OrdinalIntervals;

use crate::error::Result;
use crate::pieces::live_weights::LiveWeights;

/// The erased rows of one piece, at one moment.
#[derive(Debug)]
pub struct ErasedRows {
    ordinals: OrdinalIntervals,
    /// By weight column, once asked for.
    weights: OnceLock<Vec<OnceLock<Arc<LiveWeights>>>>,
}

impl ErasedRows {
    /// Some rows; `None` if there are none.
    pub fn new(ordinals: OrdinalIntervals) -> Option<Arc<ErasedRows>> {
        let erased = ErasedRows { ordinals, weights: OnceLock::new() };
        (!erased.is_empty()).then(|| Arc::new(erased))
    }

    /// These and more.
    pub fn with(
        known: Option<&Arc<ErasedRows>>,
        more: &OrdinalIntervals,
    ) -> Option<Arc<ErasedRows>> {
        match known {
            None => ErasedRows::new(more.clone()),
            Some(known) if more.is_empty() => Some(known.clone()),
            Some(known) => ErasedRows::new(known.union(more)),
        }
    }

    /// The ordinals.
    pub fn ordinals(&self) -> &OrdinalIntervals {
        &self.ordinals
    }

    /// How many live rows lie before an ordinal.
    pub fn live_before(&self, ordinal: u64) -> u64 {
        ordinal - self.rank(ordinal)
    }

    /// The running sums of one of `columns` weight columns, which `find` makes when they are first asked for.
    pub fn weights(
        &self,
        weight: usize,
        columns: usize,
        find: impl FnOnce() -> Result<LiveWeights>,
    ) -> Result<Arc<LiveWeights>> {
        let all = self.weights.get_or_init(|| (0..columns).map(|_| OnceLock::new()).collect());
        if let Some(known) = all[weight].get() {
            return Ok(known.clone());
        }
        let found = Arc::new(find()?);
        Ok(all[weight].get_or_init(|| found).clone())
    }
}

impl Deref for ErasedRows {
    type Target = OrdinalIntervals;

    fn deref(&self) -> &OrdinalIntervals {
        &self.ordinals
    }
}
