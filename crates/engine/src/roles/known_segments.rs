//! The segments that a reader process reads, each opened once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use drillcore_format::ids::SegmentId;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::rows::Layout;
use drillcore_storage::files::directory::Directory;
use drillcore_storage::files::lease::Lease;
use drillcore_storage::pages::files_ahead::FilesAhead;
use drillcore_storage::pages::page_cache::PageCache;
use drillcore_storage::segments::segment::Segment;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::roles::opening::recovery::{files_ahead, hold_indexes};

/// Segments that are open.
#[derive(Default)]
pub struct KnownSegments(Mutex<HashMap<SegmentId, Weak<Segment>>>);

/// Segments being opened that a lease holds, with the postings that go with them.
pub struct Opening<'r> {
    known: &'r KnownSegments,
    files: FilesAhead<'r>,
    cache: &'r Arc<PageCache>,
    postings: &'r BTreeMap<SegmentId, PostingsMeta>,
    lease: &'r Arc<Lease>,
    opened: Vec<Arc<Segment>>,
}

impl KnownSegments {
    /// Prepares to open some segments, in about that order.
    pub fn opening<'r>(
        &'r self,
        directory: &'r dyn Directory,
        cache: &'r Arc<PageCache>,
        postings: &'r BTreeMap<SegmentId, PostingsMeta>,
        lease: &'r Arc<Lease>,
        segments: impl Iterator<Item = SegmentId>,
    ) -> Opening<'r> {
        let unknown = {
            let known = self.0.lock();
            let is_read = |id: &SegmentId| known.get(id).is_some_and(|of| of.strong_count() > 0);
            files_ahead(directory, segments.filter(|id| !is_read(id)), postings)
        };
        Opening { known: self, files: unknown, cache, postings, lease, opened: Vec::new() }
    }
}

impl Opening<'_> {
    /// A segment with its postings. Both hold the lease: whatever is read next, a snapshot that needs them may outlive it.
    pub fn segment(&mut self, id: SegmentId, layout: &Layout) -> Result<Arc<Segment>> {
        let known = self.known.0.lock().get(&id).and_then(Weak::upgrade);
        let segment = match &known {
            Some(segment) => segment.clone(),
            None => Segment::open_next(&mut self.files, id, layout, self.cache.clone())?.into(),
        };
        if let Some(postings) = self.postings.get(&id)
            && let Some(newer) = segment.open_newer_postings(&mut self.files, *postings)?
        {
            segment.attach_postings(newer);
        }
        segment.keep_leased(self.lease);
        if known.is_none() {
            self.known.0.lock().insert(id, Arc::downgrade(&segment));
            self.opened.push(segment.clone());
        }
        Ok(segment)
    }

    /// Has the index pages of what was opened read together, and forgets segments that are read no more.
    pub fn finish(self, interrupt: &Interrupt) -> Result<()> {
        hold_indexes(&self.opened, interrupt)?;
        self.known.0.lock().retain(|_, segment| segment.strong_count() > 0);
        Ok(())
    }
}
