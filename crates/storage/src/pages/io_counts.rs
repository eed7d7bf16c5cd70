//! How much was really read: counts of loads from files, by kind of page.

use std::sync::atomic::{AtomicU64, Ordering};

use drillcore_format::page::PageKind;

/// Loads since the database was opened. Relaxed counters: they order nothing.
#[derive(Debug, Default)]
pub struct IoCounts {
    pub(crate) index_pages: AtomicU64,
    pub(crate) filter_pages: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) set_pages: AtomicU64,
    pub(crate) statistics_pages: AtomicU64,
    /// Pages of column streams, their dictionaries and directories.
    pub(crate) stream_pages: AtomicU64,
    /// Long values.
    pub(crate) extents: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Blocks that the filter let through for a key that they do not hold.
    pub(crate) filter_false_positives: AtomicU64,
    /// Blocks that a scan left out because no row of their zone could pass.
    pub(crate) blocks_pruned: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoSnapshot {
    /// Index pages read.
    pub index_pages: u64,
    /// Pages of the filters of keys.
    pub filter_pages: u64,
    /// Blocks of rows read.
    pub blocks: u64,
    /// Pages of set directories and of postings.
    pub set_pages: u64,
    /// Pages of statistics, by which scans leave blocks out.
    pub statistics_pages: u64,
    /// Pages of column streams, their dictionaries and directories.
    pub stream_pages: u64,
    /// Pages of long values, which lie apart from their rows.
    pub extents: u64,
    /// Bytes of all these pages as they lie in the files.
    pub bytes: u64,
    /// Blocks that the filter let through for a key that they do not hold.
    pub filter_false_positives: u64,
    /// Blocks that a scan left out because no row of their zone could pass.
    pub blocks_pruned: u64,
}

impl IoCounts {
    /// Counts a page that is read.
    pub(crate) fn count(&self, kind: PageKind, bytes: u64) {
        let pages = match kind {
            PageKind::Block => &self.blocks,
            PageKind::Index => &self.index_pages,
            PageKind::Filter => &self.filter_pages,
            PageKind::Extent => &self.extents,
            PageKind::Statistics => &self.statistics_pages,
            PageKind::Stream | PageKind::Dictionary | PageKind::StreamDirectory => {
                &self.stream_pages
            }
            _ => &self.set_pages,
        };
        pages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counts now. A load that is under way may be counted in part.
    pub fn read(&self) -> IoSnapshot {
        IoSnapshot {
            index_pages: self.index_pages.load(Ordering::Relaxed),
            filter_pages: self.filter_pages.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            set_pages: self.set_pages.load(Ordering::Relaxed),
            statistics_pages: self.statistics_pages.load(Ordering::Relaxed),
            stream_pages: self.stream_pages.load(Ordering::Relaxed),
            extents: self.extents.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            filter_false_positives: self.filter_false_positives.load(Ordering::Relaxed),
            blocks_pruned: self.blocks_pruned.load(Ordering::Relaxed),
        }
    }
}

impl IoSnapshot {
    /// What came after `earlier`.
    pub fn since(self, earlier: IoSnapshot) -> IoSnapshot {
        IoSnapshot {
            index_pages: self.index_pages - earlier.index_pages,
            filter_pages: self.filter_pages - earlier.filter_pages,
            blocks: self.blocks - earlier.blocks,
            set_pages: self.set_pages - earlier.set_pages,
            statistics_pages: self.statistics_pages - earlier.statistics_pages,
            stream_pages: self.stream_pages - earlier.stream_pages,
            extents: self.extents - earlier.extents,
            bytes: self.bytes - earlier.bytes,
            filter_false_positives: self.filter_false_positives - earlier.filter_false_positives,
            blocks_pruned: self.blocks_pruned - earlier.blocks_pruned,
        }
    }
}
