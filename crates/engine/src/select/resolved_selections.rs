//! The last selections of a snapshot that were resolved, so that asking again is free.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::select::selection::{Question, Selected};

/// Selections kept a table and snapshot; each holds four bytes a row.
const KEPT: usize = 4;

/// Resolved selections, newest last.
#[derive(Default)]
pub struct ResolvedSelections {
    kept: Mutex<VecDeque<(Question, Arc<Selected>)>>,
}

impl ResolvedSelections {
    pub fn get(&self, question: &Question) -> Option<Arc<Selected>> {
        let kept = self.kept.lock();
        kept.iter().find(|(known, _)| known == question).map(|(_, selected)| selected.clone())
    }

    /// Keeps a selection in place of the oldest one, and hands it back.
    pub fn keep(&self, question: Question, selected: Arc<Selected>) -> Arc<Selected> {
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((question, selected.clone()));
        selected
    }
}
