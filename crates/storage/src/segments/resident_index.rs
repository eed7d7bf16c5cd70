//! The index pages of a segment that stay in memory.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use drillcore_format::index_page::IndexPage;

use crate::error::Result;
use crate::pages::page_cache::{PageCache, ResidentShare};
use crate::sync::Mutex;

/// Bytes that come in about the time that a read of one page takes by itself ...
const READ_WORTH_BYTES: u64 = 64 << 10;
/// ... and as one of many that are read together.
const READ_TOGETHER_WORTH_BYTES: u64 = 8 << 10;

/// All index pages of a segment, once reading them was worth it.
#[derive(Default)]
pub(super) struct ResidentIndex {
    held: OnceLock<Held>,
    /// What the pages that were asked for since the last attempt to read them all were worth, in bytes.
    asked: AtomicU64,
    loading: Mutex<()>,
}

struct Held {
    pages: Box<[IndexPage]>,
    _share: ResidentShare,
}

/// An index page in the hands of a reader.
pub(crate) enum HeldIndexPage<'a> {
    Resident(&'a IndexPage),
    Cached(Arc<IndexPage>),
}

impl Deref for HeldIndexPage<'_> {
    type Target = IndexPage;

    fn deref(&self) -> &IndexPage {
        match self {
            HeldIndexPage::Resident(page) => page,
            HeldIndexPage::Cached(page) => page,
        }
    }
}

impl ResidentIndex {
    /// A page, if all are here.
    pub fn page(&self, number: usize) -> Option<&IndexPage> {
        self.held.get().map(|held| &held.pages[number])
    }

    /// Whether all are here.
    pub fn is_held(&self) -> bool {
        self.held.get().is_some()
    }

    /// Reads all pages once the pages that were asked for make that worth it, and if they fit the cache's share. `asked` is the
    /// number of pages of this call; the two sizes are those in the file and in memory. Only one thread reads; others go on page
    /// by page. If the read fails, the reads of single pages report why.
    pub fn want(
        &self,
        asked: u64,
        (file_bytes, held_bytes): (u64, u64),
        cache: &Arc<PageCache>,
        read: impl FnOnce() -> Result<Box<[IndexPage]>>,
    ) {
        if self.held.get().is_some() {
            return;
        }
        let worth = READ_WORTH_BYTES + (asked - 1) * READ_TOGETHER_WORTH_BYTES;
        if self.asked.fetch_add(worth, Ordering::Relaxed) + worth < file_bytes {
            return;
        }
        let Some(_loading) = self.loading.try_lock() else { return };
        if self.held.get().is_some() {
            return;
        }
        self.asked.store(0, Ordering::Relaxed);
        let Some(share) = PageCache::reserve(cache, held_bytes) else { return };
        self.hold(share, read);
    }

    /// Has all pages read now, for a share of the cache.
    pub fn hold(&self, share: ResidentShare, read: impl FnOnce() -> Result<Box<[IndexPage]>>) {
        if let Ok(pages) = read() {
            self.held.get_or_init(|| Held { pages, _share: share });
        }
    }
}
