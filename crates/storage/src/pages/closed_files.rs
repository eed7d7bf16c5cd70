//! Files that were closed, whose pages a cache may still have.

use std::collections::HashSet;

use drillcore_format::ids::SegmentId;

use crate::sync::Mutex;

/// The numbers of the files that were closed since pages were last dropped.
#[derive(Default)]
pub(crate) struct ClosedFiles(Mutex<HashSet<SegmentId>>);

impl ClosedFiles {
    pub fn add(&self, file: SegmentId) {
        self.0.lock().insert(file);
    }

    /// It is open again.
    pub fn remove(&self, file: SegmentId) {
        self.0.lock().remove(&file);
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// All of them, for who drops their pages.
    pub fn take(&self) -> HashSet<SegmentId> {
        std::mem::take(&mut *self.0.lock())
    }
}
