//! The dictionary of a column of a segment, for as long as it is used.

use std::sync::{Arc, OnceLock, Weak};

use drillcore_format::dictionary::Dictionary;

use crate::error::Result;
use crate::few::Few;
use crate::pages::page_cache::{PageCache, ResidentShare, WithPayloads};
use crate::pages::paged_file::PageRequest;
use crate::sync::Mutex;

/// The part of a cache's budget up to which dictionaries stay, index pages that stay included: the rest of what may stay is for
/// index pages alone, which every read needs.
const RESIDENT_SHARE: u64 = 4;

/// A dictionary in memory. A block or a stream says nothing without it, so each read needs the whole of it, and it is up to
/// 256 times as long as other pages. It stays while this does, if it fits what the cache has for that. If not, it is found here
/// while anyone uses it, and is a page of the cache like others.
#[derive(Default)]
pub(crate) struct HeldDictionary {
    resident: OnceLock<(Arc<Dictionary>, ResidentShare)>,
    used: Mutex<Weak<Dictionary>>,
}

impl HeldDictionary {
    /// Some dictionaries, each with the request for its page, and the payloads of some row blocks. What is not in memory is read together;
    /// `check` gets the payloads of the dictionaries' pages, with their positions.
    pub fn get_many(
        cache: &Arc<PageCache>,
        wanted: &[(&HeldDictionary, PageRequest<'_>)],
        blocks: &[PageRequest<'_>],
        check: impl Fn(usize, &[u8]) -> Result<Dictionary>,
    ) -> WithPayloads<Few<Arc<Dictionary>>> {
        let found: Few<Option<Arc<Dictionary>>> =
            wanted.iter().map(|(dictionary, _)| dictionary.find()).collect();
        if found.iter().all(Option::is_some) {
            return (Ok(found.into_iter().flatten().collect()), cache.payloads(blocks));
        }
        let requests: Few<PageRequest<'_>> = wanted.iter().map(|(_, request)| *request).collect();
        let find = |at: usize| wanted[at].0.find();
        let take = |at: usize, read: &Arc<Dictionary>| wanted[at].0.take(cache, read);
        cache.dictionaries_with_blocks(&requests, blocks, check, find, take)
    }

    /// What is in memory, if it is.
    pub fn find(&self) -> Option<Arc<Dictionary>> {
        match self.resident.get() {
            Some((entries, _)) => Some(entries.clone()),
            None => self.used.lock().upgrade(),
        }
    }

    /// Takes entries that were read. Says whether they stay.
    fn take(&self, cache: &Arc<PageCache>, entries: &Arc<Dictionary>) -> bool {
        let bytes = entries.allocated_bytes() as u64;
        let most = cache.budget_bytes() / RESIDENT_SHARE;
        if let Some(share) = PageCache::reserve_within(cache, bytes, most) {
            self.resident.get_or_init(|| (entries.clone(), share));
            return true;
        }
        *self.used.lock() = Arc::downgrade(entries);
        false
    }
}
