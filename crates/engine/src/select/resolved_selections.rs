//! The last selections of a snapshot that were resolved, so that asking again is free.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::select::read_memory::{KeptList, ReadMemory};
use crate::select::selection::{Question, Selected};

/// Selections kept per table and snapshot; each holds four bytes per row.
const KEPT: usize = 4;

/// Resolved selections, newest last.
pub struct ResolvedSelections {
    memory: Arc<ReadMemory>,
    kept: Mutex<VecDeque<Arc<KeptList>>>,
}

impl ResolvedSelections {
    /// None yet; those that are kept count in `memory`.
    pub fn new(memory: Arc<ReadMemory>) -> ResolvedSelections {
        ResolvedSelections { memory, kept: Mutex::default() }
    }

    /// All that are kept.
    pub fn take(&self) -> ResolvedSelections {
        let kept = Mutex::new(std::mem::take(&mut *self.kept.lock()));
        ResolvedSelections { memory: self.memory.clone(), kept }
    }

    /// Those that hold runs which were spilled; they are kept no longer. A call that began before may leave such late.
    pub fn take_spilled(&self) -> Vec<Arc<KeptList>> {
        let mut kept = self.kept.lock();
        let (spilled, others) = kept.drain(..).partition(|kept| kept.holds_spilled());
        *kept = others;
        Vec::from(spilled)
    }

    pub fn get(&self, question: &Question) -> Option<Arc<Selected>> {
        self.kept.lock().iter().find_map(|kept| kept.get(question))
    }

    /// Keeps a selection in place of the oldest one, and hands it back.
    pub fn keep(&self, question: Question, selected: Arc<Selected>) -> Arc<Selected> {
        let list = self.memory.keep(question, selected.clone());
        let mut kept = self.kept.lock();
        let oldest = if kept.len() == KEPT { kept.pop_front() } else { None };
        kept.push_back(list);
        drop(kept);
        drop(oldest);
        selected
    }
}
