//! The page cache: one per database, shared by everyone who reads segments.
//!
//! Loads are shared while under way (`SharedLoads`): of several threads that miss the same page, one reads it and the
//! others wait for the result, an error too. What is *kept* is a byte budget, split between resident index pages, other
//! pages that describe rows, and blocks of rows (`Shares`). Who may *fill* it with blocks is the reader's choice: point
//! reads and samples do, columns do while there is room, scans of blocks and merges pass by it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drillcore_format::dictionary::Dictionary;
use drillcore_format::ids::SegmentId;
use drillcore_format::index_page::IndexPage;
use drillcore_format::page::PageKind;
use foldhash::fast::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::error::Result;
use crate::few::Few;
use crate::files::directory::Directory;
use crate::files::reads::ReadBytes;
use crate::pages::closed_files::ClosedFiles;
use crate::pages::io_counts::IoCounts;
use crate::pages::paged_file::{PageRequest, PagedFile};
use crate::pages::shared_loads::{Beside, EndLoad, SharedLoads};
use crate::pages::shares::Shares;
use crate::sync::Mutex;

/// Where a page lies, and as what it is read: a damaged file may name one place for two kinds.
type PageKey = (SegmentId, u64, PageKind);

/// Bytes that an entry costs beyond its page: key, reference count and the cache's own slots.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// The part of the share for pages that describe rows which may be taken before anything asks for one.
const EARLY_SHARE: u64 = 4;
/// The most entries that the cache makes room for beforehand, whatever the budget; it may come to have
/// more.
const ENTRIES_FORESEEN_MAX: u64 = 1 << 20;
/// The cache is cut into shards of at least this size, which have a lock each, so that readers seldom meet at one: not even
/// where the system takes the processor from one who holds it. A shard keeps no page that is longer than it, so those for what
/// describes rows, where dictionaries are, are larger ...
const BLOCK_SHARD_BYTES_MIN: u64 = 1 << 20;
const INDEX_SHARD_BYTES_MIN: u64 = 8 << 20;
/// ... but into no more of them.
const SHARDS_MAX: u64 = 256;
/// A pass leaves this part of the room for blocks free: the cache is cut into shards, of which some are full sooner.
const ROOM_LEFT_SHARE: u64 = 8;
/// Pages of more closed files are dropped even where there is room.
const CLOSED_FILES_MAX: usize = 1024;
/// Every eighth call that reads balances the shares.
const BALANCED_EVERY: u64 = 8;

/// A byte budget of verified pages of the files of one directory.
pub struct PageCache {
    directory: Arc<dyn Directory>,
    /// Index pages, and what else is smaller than the rows that it describes.
    index: Pages,
    blocks: Pages,
    counts: IoCounts,
    budget_bytes: u64,
    shares: Mutex<Shares>,
    /// How many calls have read something.
    loads: AtomicU64,
    closed_files: Arc<ClosedFiles>,
}

/// A part of a cache's budget for index pages that are held elsewhere, given back when this is dropped.
pub(crate) struct ResidentShare {
    cache: Arc<PageCache>,
    bytes: u64,
}

/// The payloads of pages, in the order of the requests.
pub(crate) type Payloads = Few<Result<Arc<[u8]>>>;

/// Something, and the payloads that were read with it.
pub(crate) type WithPayloads<T> = (Result<T>, Payloads);

/// What ends the loads of pages, each by its number among those that are loaded.
type End<'a> = EndLoad<'a, Page>;

/// A verified page as it is used.
#[derive(Clone)]
enum Page {
    Index(Arc<IndexPage>),
    Dictionary(Arc<Dictionary>),
    Payload(Arc<[u8]>),
}

/// Pages that share a budget: those that are kept, and those that are being loaded.
struct Pages {
    kept: Cache<PageKey, Page, PageWeighter, RandomState>,
    loads: SharedLoads<PageKey, Page>,
}

#[derive(Clone)]
struct PageWeighter;

impl Weighter<PageKey, Page> for PageWeighter {
    fn weight(&self, _key: &PageKey, page: &Page) -> u64 {
        let bytes = match page {
            Page::Index(page) => page.allocated_bytes(),
            Page::Dictionary(entries) => entries.allocated_bytes(),
            Page::Payload(payload) => payload.len(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl PageCache {
    /// A cache that keeps at most `budget_bytes` of pages.
    pub fn new(directory: Arc<dyn Directory>, budget_bytes: u64) -> PageCache {
        let shares = Shares::of(budget_bytes);
        PageCache {
            directory,
            index: Pages::new(shares.index(), INDEX_SHARD_BYTES_MIN),
            blocks: Pages::new(shares.blocks(), BLOCK_SHARD_BYTES_MIN),
            counts: IoCounts::default(),
            budget_bytes,
            shares: Mutex::new(shares),
            loads: AtomicU64::new(0),
            closed_files: Arc::default(),
        }
    }

    /// Has the pages of a file make room for others once it is closed.
    pub(crate) fn serve(&self, file: &PagedFile) {
        file.note_closing(&self.closed_files);
    }

    /// Drops the pages of files that were closed, and says whether there were any such files.
    fn drop_closed(&self) -> bool {
        let closed = self.closed_files.take();
        if !closed.is_empty() {
            for pages in [&self.index, &self.blocks] {
                pages.kept.retain(|(file, _, _), _| !closed.contains(file));
            }
        }
        !closed.is_empty()
    }

    /// Takes a part of the budget for index pages that the caller will hold, if they fit the share for that.
    pub(crate) fn reserve(cache: &Arc<PageCache>, bytes: u64) -> Option<ResidentShare> {
        PageCache::reserve_within(cache, bytes, u64::MAX)
    }

    /// The same, if no more than `most` are taken in all then.
    pub(crate) fn reserve_within(
        cache: &Arc<PageCache>,
        bytes: u64,
        most: u64,
    ) -> Option<ResidentShare> {
        let mut shares = cache.shares.lock();
        if shares.resident().saturating_add(bytes) > most || !shares.reserve(bytes) {
            return None;
        }
        cache.apply(&shares);
        Some(ResidentShare { cache: cache.clone(), bytes })
    }

    fn apply(&self, shares: &Shares) {
        self.index.kept.set_capacity(shares.index());
        self.blocks.kept.set_capacity(shares.blocks());
    }

    /// Once in a while gives what one kind of pages does not use to the other.
    fn balance(&self) {
        if !self.loads.fetch_add(1, Ordering::Relaxed).is_multiple_of(BALANCED_EVERY) {
            return;
        }
        if let Some(mut shares) = self.shares.try_lock()
            && shares.balance(self.index.kept.weight(), self.blocks.kept.weight())
        {
            self.apply(&shares);
        }
        if self.closed_files.len() > CLOSED_FILES_MAX {
            self.drop_closed();
        }
    }

    /// Index pages, in the order of the requests. Those that are neither here nor on their way are read together;
    /// `check` gets their payloads, with their positions.
    pub(crate) fn index_pages(
        &self,
        wanted: &[PageRequest<'_>],
        check: impl Fn(usize, &[u8]) -> Result<IndexPage>,
    ) -> Few<Result<Arc<IndexPage>>> {
        let load = |positions: &[usize], end: End<'_>| {
            let page = |page| Page::Index(Arc::new(page));
            let take = |at, payload: &[u8]| check(positions[at], payload).map(page);
            self.read(wanted, positions, take, end);
        };
        let index_page = |page| match page {
            Page::Index(page) => page,
            _ => unreachable!("its key says what it is"),
        };
        let pages = self.index.get_many(wanted, load).into_iter();
        pages.map(|page| page.map(index_page)).collect()
    }

    /// Dictionaries, in the order of the requests, and the payloads of row blocks as [`PageCache::payloads`] has them. What is not in memory is
    /// read together. `check` gets the payloads of the dictionaries' pages; `find` may have one since, and `take` says whether it
    /// holds what was read: if not, it is kept here. All get the number of the request.
    pub(super) fn dictionaries_with_blocks(
        &self,
        wanted: &[PageRequest<'_>],
        blocks: &[PageRequest<'_>],
        check: impl Fn(usize, &[u8]) -> Result<Dictionary>,
        find: impl Fn(usize) -> Option<Arc<Dictionary>>,
        take: impl Fn(usize, &Arc<Dictionary>) -> bool,
    ) -> WithPayloads<Few<Arc<Dictionary>>> {
        let Pages { kept, loads } = &self.index;
        let keys: Few<PageKey> = wanted.iter().map(key_of).collect();
        let number = |key: &PageKey| {
            keys.iter().position(|of| of == key).expect("it is one of those that were asked for")
        };
        let are_together = wanted.len() > 1 || !blocks.is_empty();
        let mut pages_of_blocks = None;
        let load = |positions: &[usize], end: End<'_>| {
            let dictionary = |at: usize, payload: &[u8]| {
                check(positions[at], payload).map(|entries| Page::Dictionary(Arc::new(entries)))
            };
            if pages_of_blocks.is_some() {
                return self.read(wanted, positions, dictionary, end);
            }
            // Both are read before others are waited for, so no two callers wait for each other here, either.
            let is_read = Cell::new(false);
            let end = RefCell::new(end);
            let read_alone = || {
                if !is_read.replace(true) {
                    self.read(wanted, positions, dictionary, &mut **end.borrow_mut());
                }
            };
            let load_blocks = |of_blocks: &[usize], end_block: End<'_>| {
                if is_read.replace(true) {
                    return self.read(blocks, of_blocks, block_page, end_block);
                }
                let end = &mut **end.borrow_mut();
                let of_wanted = positions.iter().map(|&at| wanted[at]);
                let missing: Few<PageRequest<'_>> =
                    of_wanted.chain(of_blocks.iter().map(|&at| blocks[at])).collect();
                let all: Few<usize> = (0..missing.len()).collect();
                let take = |at: usize, payload: &[u8]| match at < positions.len() {
                    true => dictionary(at, payload),
                    false => block_page(at, payload),
                };
                self.read(&missing, &all, take, &mut |at, page| match at < positions.len() {
                    true => end(at, page),
                    false => end_block(at - positions.len(), page),
                });
            };
            let beside =
                Beside { come_together: are_together, before_waiting: Some(&mut &read_alone) };
            pages_of_blocks = Some(self.blocks.get_many_if(blocks, load_blocks, |_| true, beside));
            read_alone();
        };
        let find =
            |key: &PageKey| find(number(key)).map(Page::Dictionary).or_else(|| kept.get(key));
        let keep = |key, page| match &page {
            Page::Dictionary(entries) if take(number(&key), entries) => {}
            _ => kept.insert(key, page),
        };
        let dictionary = |page| match page {
            Page::Dictionary(entries) => entries,
            _ => unreachable!("its key says what it is"),
        };
        let beside = Beside { come_together: are_together, before_waiting: None };
        let pages = loads.get_many(&keys, find, load, keep, beside).into_iter();
        let dictionaries = pages.map(|page| page.map(dictionary)).collect();
        let payloads = match pages_of_blocks {
            Some(pages) => pages.into_iter().map(|page| page.map(payload_of)).collect(),
            None => self.payloads(blocks),
        };
        (dictionaries, payloads)
    }

    /// The payloads of other pages, in the order of the requests, which are all for row blocks, all for extents, or for none of
    /// these. Those that
    /// are neither here nor on their way are read together.
    pub(crate) fn payloads(&self, wanted: &[PageRequest<'_>]) -> Payloads {
        let Some(first) = wanted.first() else { return Few::new() };
        let load = |positions: &[usize], end: End<'_>| {
            self.read(wanted, positions, block_page, end);
        };
        let pages = self.pages_of(first.kind).get_many(wanted, load).into_iter();
        pages.map(|page| page.map(payload_of)).collect()
    }

    fn pages_of(&self, kind: PageKind) -> &Pages {
        match kind {
            PageKind::Block | PageKind::Extent => &self.blocks,
            _ => &self.index,
        }
    }

    /// The payloads of pages of which a pass reads all: they are kept while there is room for more blocks, and drive out
    /// nothing. Otherwise as [`PageCache::payloads`].
    pub(crate) fn payloads_if_room(&self, wanted: &[PageRequest<'_>]) -> Payloads {
        let load = |positions: &[usize], end: End<'_>| {
            self.read(wanted, positions, block_page, end);
        };
        let is_kept = |kept: &Cache<PageKey, Page, PageWeighter, RandomState>| {
            let has_room = || kept.weight() + kept.capacity() / ROOM_LEFT_SHARE < kept.capacity();
            has_room() || self.drop_closed() && has_room()
        };
        let beside = Beside::nothing(wanted.len());
        let pages = self.blocks.get_many_if(wanted, load, is_kept, beside);
        pages.into_iter().map(|page| page.map(payload_of)).collect()
    }

    /// The payload of one such page.
    pub(crate) fn payload(&self, page: PageRequest<'_>) -> Result<Arc<[u8]>> {
        if let Some(kept) = self.pages_of(page.kind).kept.get(&key_of(&page)) {
            return Ok(payload_of(kept));
        }
        self.payloads(&[page]).pop().expect("one page was asked for")
    }

    /// Reads the pages at some positions of a list of requests, and ends the read of each, by its number among these, with what
    /// `take` makes of its payload.
    fn read<T>(
        &self,
        wanted: &[PageRequest<'_>],
        positions: &[usize],
        take: impl Fn(usize, &[u8]) -> Result<T>,
        end: &mut dyn FnMut(usize, Result<T>),
    ) {
        self.balance();
        let missing: Few<PageRequest<'_>> = positions.iter().map(|&at| wanted[at]).collect();
        missing.iter().for_each(|page| self.counts.count(page.kind, u64::from(page.bytes)));
        PageRequest::read_each(&*self.directory, &missing, |at, payload| {
            end(at, payload.and_then(|payload| take(at, payload)));
        });
    }

    /// Ranges of files, read together and not kept. The caller counts the pages that they hold.
    pub(crate) fn read_ranges(
        &self,
        ranges: &[(&PagedFile, Range<u64>)],
    ) -> Vec<Result<ReadBytes>> {
        PagedFile::read_ranges(&*self.directory, ranges)
    }

    /// How many portions of a file a read in sequence is best asked for at once.
    pub(crate) fn reads_in_sequence(&self) -> u64 {
        self.directory.reads_in_sequence().max(1)
    }

    /// How reads of several pages are made: a word for statistics.
    pub fn reads_by(&self) -> &'static str {
        self.directory.reads_by()
    }

    /// Whether pages come past the cache of the system, as far as is known.
    pub fn reads_past_cache(&self) -> bool {
        self.directory.reads_past_cache()
    }

    /// The bytes held.
    pub fn bytes(&self) -> u64 {
        self.index_bytes() + self.index.kept.weight() + self.blocks.kept.weight()
    }

    /// Those of index pages that stay while their segments are open.
    pub fn index_bytes(&self) -> u64 {
        self.shares.lock().resident()
    }

    /// Bytes of pages that describe rows which may be read before anything asks for them: a part of the share for such pages, most of
    /// which is left.
    pub(crate) fn early_room(&self) -> u64 {
        let share = self.shares.lock().index() / EARLY_SHARE;
        let room = || share.saturating_sub(self.index.kept.weight());
        match room() {
            0 if self.drop_closed() => room(),
            room => room,
        }
    }

    /// Keeps the payload of a page that was read in another way.
    pub(crate) fn keep(&self, page: &PageRequest<'_>, payload: &[u8]) {
        let payload = Page::Payload(Arc::from(payload));
        self.pages_of(page.kind).kept.insert(key_of(page), payload);
    }

    /// The most bytes that it keeps.
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
        self.blocks.kept.clear();
    }
}

impl Drop for ResidentShare {
    fn drop(&mut self) {
        let mut shares = self.cache.shares.lock();
        shares.release(self.bytes);
        self.cache.apply(&shares);
    }
}

impl Pages {
    fn new(budget_bytes: u64, shard_bytes_min: u64) -> Pages {
        let foreseen = (budget_bytes / 4096).clamp(16, ENTRIES_FORESEEN_MAX) as usize;
        let options = OptionsBuilder::new()
            .shards((budget_bytes / shard_bytes_min).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity(foreseen)
            .weight_capacity(budget_bytes)
            .build()
            .expect("both capacities are given");
        let kept = Cache::with_options(
            options,
            PageWeighter,
            RandomState::default(),
            DefaultLifecycle::default(),
        );
        Pages { kept, loads: SharedLoads::new() }
    }

    fn get_many(
        &self,
        wanted: &[PageRequest<'_>],
        load: impl FnMut(&[usize], End<'_>),
    ) -> Few<Result<Page>> {
        self.get_many_if(wanted, load, |_| true, Beside::nothing(wanted.len()))
    }

    /// Keeps a page that was loaded if `is_kept` says so of those that are kept already.
    fn get_many_if(
        &self,
        wanted: &[PageRequest<'_>],
        load: impl FnMut(&[usize], End<'_>),
        is_kept: impl Fn(&Cache<PageKey, Page, PageWeighter, RandomState>) -> bool,
        beside: Beside<'_>,
    ) -> Few<Result<Page>> {
        let keys: Few<PageKey> = wanted.iter().map(key_of).collect();
        let find = |key: &PageKey| self.kept.get(key);
        let keep = |key, page| {
            if is_kept(&self.kept) {
                self.kept.insert(key, page);
            }
        };
        self.loads.get_many(&keys, find, load, keep, beside)
    }
}

fn key_of(page: &PageRequest<'_>) -> PageKey {
    (page.file.id(), page.offset, page.kind)
}

/// A page that is kept as it is, whatever its number among those that are read.
fn block_page(_: usize, payload: &[u8]) -> Result<Page> {
    Ok(Page::Payload(Arc::from(payload)))
}

fn payload_of(page: Page) -> Arc<[u8]> {
    match page {
        Page::Payload(payload) => payload,
        _ => unreachable!("its key says what it is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use drillcore_format::file_tail::FileKind;

    use crate::files::directory::{Lock, ReadFile, WriteFile};
    use crate::files::memory_directory::MemoryDirectory;
    use crate::files::reads::{ReadRequest, TakeRead};
    use crate::pages::page_writer::PageWriter;
    use crate::pages::paged_file::PagedFile;

    const PAGES: usize = 600;
    const PAYLOAD_BYTES: usize = 4000;

    /// Files in memory that are read in calls which take some time, and which are counted.
    #[derive(Clone, Default)]
    struct Slow {
        files: MemoryDirectory,
        calls: Arc<AtomicUsize>,
        pages: Arc<AtomicUsize>,
    }

    impl Directory for Slow {
        fn list(&self) -> io::Result<Vec<String>> {
            self.files.list()
        }
        fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
            self.files.open(name)
        }
        fn read_each(&self, requests: &[ReadRequest], take: TakeRead<'_>) {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let pages = requests.iter().map(|request| request.len.div_ceil(4096)).sum();
            self.pages.fetch_add(pages, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.files.read_each(requests, take);
        }
        fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
            self.files.create(name)
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.files.rename(from, to)
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.files.remove(name)
        }
        fn sync(&self) -> io::Result<()> {
            self.files.sync()
        }
        fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
            self.files.lock(name)
        }
    }

    /// A file of blocks whose payloads are their numbers.
    fn file_of_blocks() -> (Slow, PagedFile) {
        file_of(|_| PageKind::Block)
    }

    /// A file of pages of some kinds, whose payloads are their numbers.
    fn file_of(kind: impl Fn(usize) -> PageKind) -> (Slow, PagedFile) {
        let directory = Slow::default();
        let id = SegmentId(1);
        let mut writer =
            PageWriter::create(Arc::new(directory.clone()), FileKind::Segment, id).unwrap();
        for number in 0..PAGES {
            writer.put_page(kind(number), &[number as u8; PAYLOAD_BYTES], true);
            writer.write_portion().unwrap();
        }
        writer.finish(b"footer").unwrap();
        let (file, _) = PagedFile::open(&directory, FileKind::Segment, id).unwrap();
        (directory, file)
    }

    fn block(file: &PagedFile, number: usize) -> PageRequest<'_> {
        PageRequest { file, offset: number as u64 * 4096, bytes: 4096, kind: PageKind::Block }
    }

    fn cache(directory: &Slow, budget_bytes: u64) -> PageCache {
        PageCache::new(Arc::new(directory.clone()), budget_bytes)
    }

    #[test]
    fn readers_that_miss_together_share_one_load() {
        let (directory, file) = file_of_blocks();
        let cache = cache(&directory, 1 << 20);
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let payload = cache.payloads(&[block(&file, 7)]).pop().unwrap().unwrap();
                    assert_eq!(*payload, [7; PAYLOAD_BYTES]);
                });
            }
        });
        assert_eq!(directory.pages.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn pages_of_one_call_are_read_at_once_and_once_each() {
        let (directory, file) = file_of_blocks();
        let cache = cache(&directory, 1 << 20);
        let numbers = [9, 3, 200, 3, 50];
        for calls in [1, 1] {
            let wanted: Vec<_> = numbers.iter().map(|&number| block(&file, number)).collect();
            for (number, payload) in numbers.iter().zip(cache.payloads(&wanted)) {
                assert_eq!(*payload.unwrap(), [*number as u8; PAYLOAD_BYTES]);
            }
            assert_eq!(directory.calls.load(Ordering::SeqCst), calls);
            assert_eq!(directory.pages.load(Ordering::SeqCst), 4);
        }
    }

    #[test]
    fn a_pass_fills_what_is_free_and_drives_out_nothing() {
        let (directory, file) = file_of_blocks();
        let cache = cache(&directory, 2 << 20);
        let reads = || directory.pages.swap(0, Ordering::SeqCst);
        let all: Vec<_> = (0..PAGES).map(|number| block(&file, number)).collect();
        let pass = || {
            for (number, payload) in cache.payloads_if_room(&all).into_iter().enumerate() {
                assert_eq!(*payload.unwrap(), [number as u8; PAYLOAD_BYTES]);
            }
        };
        assert!(cache.payloads(&all[500..550]).iter().all(Result::is_ok));
        reads();
        pass();
        let (of_first, held) = (reads(), cache.bytes());
        assert_eq!(of_first, PAGES - 50, "what is kept is not read again");
        pass();
        let of_second = reads();
        assert!(of_second < of_first - 100, "{of_second} after {of_first}: some stay");
        assert!(cache.payloads(&all[500..550]).iter().all(Result::is_ok));
        assert_eq!(reads(), 0, "a pass drives out nothing");
        assert!(held < cache.budget_bytes());
    }

    #[test]
    fn a_page_that_is_not_there_fails_alone_and_leaves_no_trace() {
        let (directory, file) = file_of_blocks();
        let cache = cache(&directory, 1 << 20);
        let results = cache.payloads(&[block(&file, 1), block(&file, PAGES + 9), block(&file, 2)]);
        let is_there: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(is_there, [true, false, true]);
        let held = cache.bytes();
        assert!(cache.payloads(&[block(&file, PAGES + 9)])[0].is_err());
        assert_eq!(cache.bytes(), held);
    }

    #[test]
    fn blocks_alone_have_the_budget_until_pages_that_describe_rows_want_their_share() {
        const DESCRIBING: usize = 150;
        let kind = |number| if number < DESCRIBING { PageKind::Postings } else { PageKind::Block };
        let (directory, file) = file_of(kind);
        let budget_bytes = 1 << 20;
        let cache = PageCache::new(Arc::new(directory.files), budget_bytes);
        let read = |numbers: Range<usize>| {
            for number in numbers {
                let page = PageRequest { kind: kind(number), ..block(&file, number) };
                assert_eq!(*cache.payload(page).unwrap(), [number as u8; PAYLOAD_BYTES]);
            }
        };
        let percent = |bytes: u64| bytes * 100 / budget_bytes;
        read(DESCRIBING..PAGES);
        read(DESCRIBING..PAGES);
        let blocks = percent(cache.blocks.kept.weight());
        assert!(blocks > 90, "{blocks} percent");
        // Both are wanted now, and more of each than there is room for.
        for round in 0..10 {
            read(0..DESCRIBING);
            read(DESCRIBING + round * 45..DESCRIBING + (round + 1) * 45);
        }
        let index = percent(cache.index.kept.weight());
        assert!((35..=40).contains(&index), "{index} percent");
        let blocks = percent(cache.blocks.kept.weight());
        assert!((50..=60).contains(&blocks), "{blocks} percent");
    }

    #[test]
    fn any_budget_makes_a_cache_and_is_kept() {
        let (directory, file) = file_of_blocks();
        for budget_bytes in [0, 1, 1 << 20, u64::MAX / 2, u64::MAX] {
            let cache = cache(&directory, budget_bytes);
            let wanted: Vec<_> = (0..PAGES).map(|number| block(&file, number)).collect();
            for window in wanted.chunks(100) {
                assert!(cache.payloads(window).iter().all(Result::is_ok));
                assert!(cache.bytes() <= budget_bytes);
            }
            if budget_bytes >= 1 << 20 {
                assert!(cache.bytes() > 300_000, "the budget is used: {}", cache.bytes());
            }
        }
    }
}
