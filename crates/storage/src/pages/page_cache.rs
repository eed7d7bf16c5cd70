//! The page cache: one per database, shared by everyone who reads segments.
//!
//! Loads are shared while under way (`SharedLoads`): of several threads that miss the same page, one reads it and the
//! others wait for the result, an error too. What is *kept* is a byte budget, split between index-like pages and data
//! blocks so that neither starves the other. Who may *fill* it with blocks is the reader's choice: point
//! reads and samples do, scans and merges pass by it.

use std::sync::Arc;

use drillcore_format::ids::SegmentId;
use drillcore_format::index_page::IndexPage;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::Result;
use crate::pages::io_counts::IoCounts;
use crate::pages::shared_loads::SharedLoads;

/// Where a page lies: segment and byte offset.
pub type PageKey = (SegmentId, u64);

/// Bytes that an entry costs beyond its page: key, reference count and the cache's own slots.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// The cache makes room for so many entries beforehand at most, whatever the budget; more come in
/// nevertheless.
const ENTRIES_FORESEEN_MAX: u64 = 1 << 20;
/// The share of the budget that index-like pages may hold, in percent.
const INDEX_SHARE_PERCENT: u64 = 40;

/// A byte budget of verified pages.
pub struct PageCache {
    index: Pages<Arc<IndexPage>, IndexWeighter>,
    /// Pages of set indexes and statistics pages: payloads.
    payloads: Pages<Arc<[u8]>, PayloadWeighter>,
    /// Row blocks: payloads.
    blocks: Pages<Arc<[u8]>, PayloadWeighter>,
    counts: IoCounts,
    budget_bytes: u64,
}

/// Pages of one kind: those that are kept, and those that are being loaded.
struct Pages<V, W> {
    kept: Cache<PageKey, V, W>,
    loads: SharedLoads<PageKey, V>,
}

#[derive(Clone)]
struct IndexWeighter;

#[derive(Clone)]
struct PayloadWeighter;

impl Weighter<PageKey, Arc<IndexPage>> for IndexWeighter {
    fn weight(&self, _key: &PageKey, page: &Arc<IndexPage>) -> u64 {
        page.allocated_bytes() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl Weighter<PageKey, Arc<[u8]>> for PayloadWeighter {
    fn weight(&self, _key: &PageKey, payload: &Arc<[u8]>) -> u64 {
        payload.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl PageCache {
    /// A cache that keeps at most `budget_bytes` of pages.
    pub fn new(budget_bytes: u64) -> PageCache {
        let index_bytes = budget_bytes / 100 * INDEX_SHARE_PERCENT;
        let block_bytes = budget_bytes - index_bytes;
        PageCache {
            index: Pages::new(index_bytes / 2, IndexWeighter),
            payloads: Pages::new(index_bytes / 2, PayloadWeighter),
            blocks: Pages::new(block_bytes, PayloadWeighter),
            counts: IoCounts::default(),
            budget_bytes,
        }
    }

    /// The index page at `key`, loaded with `load` unless it is here or on its way.
    pub fn index_page(
        &self,
        key: PageKey,
        load: impl FnOnce() -> Result<IndexPage>,
    ) -> Result<Arc<IndexPage>> {
        self.index.get(key, || load().map(Arc::new))
    }

    /// The payload of another index-like page: of a set index or of statistics.
    pub fn payload(
        &self,
        key: PageKey,
        load: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        self.payloads.get(key, load)
    }

    /// The payload of a row block.
    pub fn block(
        &self,
        key: PageKey,
        load: impl FnOnce() -> Result<Arc<[u8]>>,
    ) -> Result<Arc<[u8]>> {
        self.blocks.get(key, load)
    }

    /// The bytes held.
    pub fn bytes(&self) -> u64 {
        self.index.kept.weight() + self.payloads.kept.weight() + self.blocks.kept.weight()
    }

    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Counts of what was loaded from files.
    pub fn counts(&self) -> &IoCounts {
        &self.counts
    }

    /// Drops every page.
    pub fn clear(&self) {
        self.index.kept.clear();
        self.payloads.kept.clear();
        self.blocks.kept.clear();
    }
}

impl<V: Clone, W: Weighter<PageKey, V> + Clone> Pages<V, W> {
    fn new(budget_bytes: u64, weighter: W) -> Pages<V, W> {
        let foreseen = (budget_bytes / 4096).clamp(16, ENTRIES_FORESEEN_MAX) as usize;
        let kept = Cache::with_weighter(foreseen, budget_bytes, weighter);
        Pages { kept, loads: SharedLoads::new() }
    }

    fn get(&self, key: PageKey, load: impl FnOnce() -> Result<V>) -> Result<V> {
        let find = || self.kept.get(&key);
        self.loads.get(key, find, load, |page| self.kept.insert(key, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StorageError;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn readers_that_miss_together_share_one_load() {
        let cache = PageCache::new(1 << 20);
        let loads = AtomicUsize::new(0);
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let page = cache.block((SegmentId(1), 0), || {
                        loads.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        Ok(Arc::from(vec![7u8; 100]))
                    });
                    assert_eq!(page.unwrap().len(), 100);
                });
            }
        });
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_load_leaves_no_trace() {
        let cache = PageCache::new(1 << 20);
        assert!(cache.block((SegmentId(1), 0), || Err(StorageError::Locked)).is_err());
        assert_eq!(cache.bytes(), 0);
        assert!(cache.block((SegmentId(1), 0), || Ok(Arc::from(vec![1u8]))).is_ok());
    }

    #[test]
    fn any_budget_makes_a_cache() {
        for budget_bytes in [0, 1, u64::MAX / 2, u64::MAX] {
            let cache = PageCache::new(budget_bytes);
            let page = cache.block((SegmentId(1), 0), || Ok(Arc::from(vec![1u8])));
            assert_eq!(page.unwrap().len(), 1);
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let cache = PageCache::new(1 << 20);
        for offset in 0..10_000u64 {
            let page = || Ok(Arc::from(vec![0u8; 4000]));
            cache.block((SegmentId(1), offset * 4096), page).unwrap();
            assert!(cache.bytes() <= 1 << 20);
        }
        assert!(cache.bytes() > 300_000, "the budget is used: {}", cache.bytes());
    }
}
