//! Memory for lists of rows that reads leave for later ones.
//!
//! To find rows by a test, or by a set that is not indexed, takes a pass; the list of what it found takes four bytes a row. It
//! is worth keeping with the version of the table, as long as all such lists of a database do not take too much.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::pieces::memory_meter::{Charge, MemoryMeter};
use crate::select::selection::{Question, Selected};

/// What all lists of a database may take together. Beyond it those that were kept first are forgotten, but never the last.
#[derive(Debug)]
pub struct ListMemory {
    limit: u64,
    held: MemoryMeter,
    /// In the order in which they were kept.
    lists: Mutex<VecDeque<Weak<KeptList>>>,
}

/// A list, until it is forgotten.
pub struct KeptList {
    question: Question,
    list: Mutex<Option<(Arc<Selected>, Charge)>>,
}

impl ListMemory {
    pub fn new(limit: u64) -> Arc<ListMemory> {
        let (held, lists) = (MemoryMeter::default(), Mutex::default());
        Arc::new(ListMemory { limit, held, lists })
    }

    /// The bytes of all lists that are kept.
    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Keeps a list, in place of older ones of any table if all are too long. O(1), and O(lists) once for as many.
    pub fn keep(&self, question: Question, selected: Arc<Selected>) -> Arc<KeptList> {
        let charge = self.held.charge(selected.list_bytes());
        let kept = Arc::new(KeptList { question, list: Mutex::new(Some((selected, charge))) });
        let mut forgotten = Vec::new();
        let mut lists = self.lists.lock();
        while self.held.bytes() > self.limit {
            let Some(oldest) = lists.pop_front() else { break };
            let oldest = oldest.upgrade().and_then(|oldest| oldest.list.lock().take());
            // The rows' pieces may go with a list, so that is dropped without the lock.
            forgotten.extend(oldest.map(|(selected, _charge)| selected));
        }
        if lists.len() == lists.capacity() {
            lists.retain(|list| list.strong_count() > 0);
            let len = lists.len();
            lists.reserve(len + 1);
        }
        lists.push_back(Arc::downgrade(&kept));
        drop(lists);
        kept
    }
}

impl KeptList {
    /// The list, if it answers the question and was not forgotten.
    pub fn get(&self, question: &Question) -> Option<Arc<Selected>> {
        let list = self.list.lock();
        list.as_ref().filter(|_| self.question == *question).map(|(selected, _)| selected.clone())
    }
}

impl std::fmt::Debug for KeptList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptList").field("question", &self.question).finish_non_exhaustive()
    }
}
