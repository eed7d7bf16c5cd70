//! Which tables workers have to look at for something to do, so that a thousand idle ones cost them nothing.

use std::collections::{BTreeMap, BTreeSet};

use drillcore_format::ids::TableId;

use crate::state::table_state::TableState;

/// Tables for which there may be something to do, but for flushes that make room for others: all, or some.
#[derive(Default)]
pub struct Worklist(Option<BTreeSet<TableId>>);

impl Worklist {
    /// Adds a table, whose pieces have changed or are free again. O(log tables).
    pub fn add(&mut self, id: TableId) {
        self.0.iter_mut().for_each(|some| {
            some.insert(id);
        });
    }

    pub fn add_all(&mut self) {
        self.0 = None;
    }

    pub fn tables(&self, all: &BTreeMap<TableId, TableState>) -> BTreeSet<TableId> {
        match &self.0 {
            None => all.keys().copied().collect(),
            Some(some) => some.iter().filter(|id| all.contains_key(id)).copied().collect(),
        }
    }

    /// After a look at all of [`Worklist::tables`] that found nothing: these are left.
    pub fn leave(&mut self, left: BTreeSet<TableId>) {
        self.0 = Some(left);
    }
}
