//! Reading a segment: a few resident bytes, everything else a page at a time through the cache.
//!
//! Rows come from it by their keys ([`lookup`](crate::segments::lookup)), by their ordinals
//! ([`fetch`](crate::segments::fetch)), or in sequence.
//! What was read is verified before it is used; damage is an error that names file and offset.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use drillcore_format::block::{BlockView, RowsBuilder};
use drillcore_format::dictionary::Dictionaries;
use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{BlockPlace, Summary};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::{PostingsMeta, SegmentMeta};
use drillcore_format::page::{PAGE_BYTES, PageKind};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::{Zones, ZonesBuilder};
use drillcore_format::streams::directory::StreamDirectory;

use crate::error::{Result, StorageError};
use crate::few::Few;
use crate::files::directory::Directory;
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::files::reads::ReadBytes;
use crate::pages::files_ahead::FilesAhead;
use crate::pages::held_dictionary::HeldDictionary;
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest, PagedFile, file_name, file_of};
use crate::postings::set_postings::SetPostings;
use crate::segments::fit;
use crate::segments::resident_index::ResidentIndex;
use crate::sync::Mutex;

/// Statistics pages that are read together: about a MiB.
const STATISTICS_PAGES_AT_ONCE: usize = 256;

/// An open segment.
pub struct Segment {
    file: Arc<PagedFile>,
    layout: Layout,
    pub(super) footer: SegmentFooter,
    pub(super) summary: Summary,
    /// Those of the file, or newer ones beside it.
    postings: Mutex<Option<Arc<SetPostings>>>,
    pub(super) index: ResidentIndex,
    /// The directory of the streams, once it was asked for.
    pub(super) streams: OnceLock<Arc<StreamDirectory>>,
    /// One for each of those that the footer names.
    pub(super) held_dictionaries: Box<[HeldDictionary]>,
    cache: Arc<PageCache>,
}

impl Segment {
    /// The name of a segment's file.
    pub fn file_name(id: SegmentId) -> String {
        file_name(FileKind::Segment, id)
    }

    /// The segment whose file has that name.
    pub fn id_of(file_name: &str) -> Option<SegmentId> {
        file_of(file_name).and_then(|(kind, id)| (kind == FileKind::Segment).then_some(id))
    }

    /// Opens a segment: reads its tail, footer and summaries, and its index pages unless those of all segments are many.
    pub fn open(
        directory: &dyn Directory,
        id: SegmentId,
        layout: &Layout,
        cache: Arc<PageCache>,
    ) -> Result<Segment> {
        let segment = Segment::open_next(&mut FilesAhead::none(directory), id, layout, cache)?;
        Segment::hold_indexes_early(&[&segment]);
        Ok(segment)
    }

    /// Opens one of several segments that are opened one after the other. Index pages that do not lie at the end of the file are not
    /// read: [`Segment::hold_indexes_early`] reads those of all together.
    pub fn open_next(
        files: &mut FilesAhead<'_>,
        id: SegmentId,
        layout: &Layout,
        cache: Arc<PageCache>,
    ) -> Result<Segment> {
        let (file, footer, end) = open_file(files, id)?;
        let payload = end.page(&file, footer.summary, PageKind::Summary)?;
        let summary =
            Summary::decode(&payload).map_err(|error| file.damaged(footer.summary.0, error))?;
        fit::check_resident(&footer, &summary, layout)
            .map_err(|detail| file.inconsistent(detail))?;
        let (file, sizes) = (Arc::new(file), (footer.rows, layout.weight_count()));
        cache.serve(&file);
        let indexed = || footer.indexed.clone();
        let open =
            |place| SetPostings::open(file.clone(), &end, place, indexed(), sizes, cache.clone());
        let postings = footer.set_directory.map(open).transpose()?;
        let postings = Mutex::new(postings.map(Arc::new));
        let (layout, index) = (layout.clone(), ResidentIndex::default());
        let streams = OnceLock::new();
        let held_dictionaries =
            footer.dictionaries.iter().map(|_| HeldDictionary::default()).collect();
        let segment = Segment {
            file,
            layout,
            footer,
            summary,
            postings,
            index,
            streams,
            held_dictionaries,
            cache,
        };
        segment.hold_index_at(&end);
        Ok(segment)
    }

    /// The commits whose rows a file holds, of whatever table.
    pub fn commits_in(directory: &dyn Directory, id: SegmentId) -> Result<LsnRange> {
        Ok(open_file(&mut FilesAhead::none(directory), id)?.1.lsns)
    }

    /// The same file, opened anew behind an empty cache of its own: what is read of it comes from the file
    /// at least once.
    pub(crate) fn reopen(
        &self,
        directory: Arc<dyn Directory>,
        cache_bytes: u64,
    ) -> Result<Segment> {
        let cache = Arc::new(PageCache::new(directory.clone(), cache_bytes));
        let directory = directory.as_ref();
        let reopened = Segment::open(directory, self.id(), &self.layout, cache)?;
        // Held meanwhile, so that the file stays.
        let postings = self.postings();
        if let Some(meta) = postings.as_deref().and_then(|held| self.beside(held)) {
            let files = &mut FilesAhead::none(directory);
            reopened.attach_postings(reopened.open_postings(files, meta)?);
        }
        Ok(reopened)
    }

    /// The number that its file's name contains.
    pub fn id(&self) -> SegmentId {
        self.footer.segment
    }

    /// The table that its rows belong to.
    pub fn table(&self) -> TableId {
        self.footer.table
    }

    /// The row versions in the file, erased ones and tombstones included.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// The commits that its rows come from.
    pub fn lsns(&self) -> LsnRange {
        self.footer.lsns
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// The length of the file, and of that of the set index where it has one of its own.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes() + self.postings_file().map_or(0, |postings| postings.bytes)
    }

    /// The blocks that the rows lie in.
    pub fn blocks(&self) -> u64 {
        self.footer.blocks
    }

    /// Bytes held in memory for as long as the segment is open.
    pub fn resident_bytes(&self) -> u64 {
        let postings = self.postings().map_or(0, |postings| postings.resident_bytes());
        let streams = self.streams.get().map_or(0, |streams| streams.allocated_bytes());
        postings + (self.summary.allocated_bytes() + streams + size_of::<Segment>()) as u64
    }

    /// What the manifest keeps of the segment.
    pub fn meta(&self) -> SegmentMeta {
        SegmentMeta {
            id: self.id(),
            rows: self.rows(),
            bytes: self.bytes(),
            fingerprint: self.file.fingerprint(),
            lsns: self.lsns(),
            blocks: self.footer.blocks,
        }
    }

    /// Has the file removed once the last handle is dropped and no reader process needs it. `removed_at` is
    /// the first version of the manifest without it.
    pub fn remove_when_unused(
        &self,
        removals: &Arc<DeferredRemovals>,
        removed_at: ManifestVersion,
    ) {
        self.file.remove_when_unused(removals, removed_at);
        if let Some(postings) = self.postings() {
            postings.remove_when_unused(removals, removed_at);
        }
    }

    /// Holds a lease under which the segment and its set index may be read, for as long as they are, or
    /// until it is given another one.
    pub fn keep_leased(&self, lease: &Arc<Lease>) {
        self.file.keep_leased(lease);
        if let Some(postings) = self.postings() {
            postings.keep_leased(lease);
        }
    }

    /// Whether [`Segment::remove_when_unused`] was called.
    pub fn is_to_be_removed(&self) -> bool {
        self.removals().is_some()
    }

    /// What was given to [`Segment::remove_when_unused`], if it was called.
    pub fn removals(&self) -> Option<&Arc<DeferredRemovals>> {
        self.file.removals()
    }

    /// Opens a postings file of this segment, to be attached; `None` if it, or a newer one, is already.
    pub fn open_newer_postings(
        &self,
        files: &mut FilesAhead<'_>,
        meta: PostingsMeta,
    ) -> Result<Option<SetPostings>> {
        // Numbers rise, and a segment's own is below those of its postings files.
        if self.postings().is_some_and(|present| present.file() >= meta.file) {
            return Ok(None);
        }
        self.open_postings(files, meta).map(Some)
    }

    /// Opens a postings file of this segment, to be attached.
    pub fn open_postings(
        &self,
        files: &mut FilesAhead<'_>,
        meta: PostingsMeta,
    ) -> Result<SetPostings> {
        let (id, set_column) = (self.id(), self.footer.set_column);
        let sizes = (self.rows(), self.layout.weight_count());
        SetPostings::open_file(files, meta, id, sizes, set_column, self.cache.clone())
    }

    /// Takes postings for the set index, unless there are newer ones. What was there is returned if it had a
    /// file of its own; what is being read of it goes on.
    pub fn attach_postings(&self, fresh: SetPostings) -> Option<Arc<SetPostings>> {
        let mut present = self.postings.lock();
        if present.as_ref().is_some_and(|present| present.file() >= fresh.file()) {
            return None;
        }
        let old = present.replace(Arc::new(fresh));
        old.filter(|old| old.file() != self.id())
    }

    /// The set index, if any set is indexed.
    pub fn postings(&self) -> Option<Arc<SetPostings>> {
        self.postings.lock().clone()
    }

    /// The file of the set index, if it has one of its own.
    pub fn postings_file(&self) -> Option<PostingsMeta> {
        self.postings().and_then(|postings| self.beside(&postings))
    }

    /// The set index with its file, if it has one of its own. The file stays while the index is held.
    pub fn postings_beside(&self) -> Option<(Arc<SetPostings>, PostingsMeta)> {
        let postings = self.postings()?;
        let meta = self.beside(&postings)?;
        Some((postings, meta))
    }

    /// The file of postings, if it is not the segment's.
    fn beside(&self, postings: &SetPostings) -> Option<PostingsMeta> {
        (postings.file() != self.id()).then(|| postings.meta())
    }

    /// The sets whose rows are listed.
    pub fn indexed(&self) -> IndexedSets {
        self.postings().map_or(IndexedSets::none(), |postings| postings.indexed().clone())
    }

    /// The zones that hold one of `ordinals`, with some columns of the table, which `layout` has; they may
    /// have been added since. One statistics page for each index page that the ordinals lie in; about 17
    /// bytes of memory a zone and column.
    pub fn zones(&self, layout: &Layout, ordinals: Range<u64>, columns: &[usize]) -> Result<Zones> {
        let mut zones = Segment::zones_of_each(&[(self, ordinals)], layout, columns)?;
        Ok(zones.pop().expect("those of one were asked for"))
    }

    /// The same of each of some segments, which share a page cache: the pages are read together.
    pub fn zones_of_each(
        wanted: &[(&Segment, Range<u64>)],
        layout: &Layout,
        columns: &[usize],
    ) -> Result<Vec<Zones>> {
        let pages = |(segment, ordinals): &(&Segment, Range<u64>)| match ordinals.is_empty() {
            true => 0..0,
            false => {
                let last = segment.summary.page_of_ordinal(ordinals.end - 1);
                segment.summary.page_of_ordinal(ordinals.start)..last + 1
            }
        };
        let pages: Vec<Range<usize>> = wanted.iter().map(pages).collect();
        let builder = |((segment, _), pages): (&(&Segment, _), &Range<usize>)| {
            ZonesBuilder::new(layout, columns, segment.first_ordinal(pages.start))
        };
        let mut zones: Vec<ZonesBuilder> = wanted.iter().zip(&pages).map(builder).collect();
        let all: Vec<(usize, usize)> = pages
            .iter()
            .enumerate()
            .flat_map(|(at, of)| of.clone().map(move |page| (at, page)))
            .collect();
        for together in all.chunks(STATISTICS_PAGES_AT_ONCE) {
            let request = |&(at, page): &(usize, usize)| wanted[at].0.statistics_request(page);
            let requests: Few<PageRequest<'_>> = together.iter().map(request).collect();
            let read = wanted[0].0.cache.payloads(&requests);
            for (&(at, page), payload) in together.iter().zip(read) {
                let (segment, _) = wanted[at];
                let (offset, _) = segment.summary.statistics_place(page);
                let rows = segment.first_ordinal(page + 1) - segment.first_ordinal(page);
                let appended = zones[at].append_page(&payload?, rows);
                appended.map_err(|error| segment.damaged(offset, error))?;
            }
        }
        let of_segment = |((segment, ordinals), zones): (&(&Segment, Range<u64>), ZonesBuilder)| {
            let zones = zones.finish().map_err(|error| segment.inconsistent(error.to_string()))?;
            Ok(zones.overlapping(ordinals.clone()))
        };
        wanted.iter().zip(zones).map(of_segment).collect()
    }

    /// How many statistics pages there are.
    pub fn statistics_page_count(&self) -> u64 {
        self.summary.len() as u64
    }

    /// Counts blocks that a reader left out because of what their zones say.
    pub fn count_pruned(&self, blocks: u64) {
        self.cache.counts().blocks_pruned.fetch_add(blocks, Ordering::Relaxed);
    }

    /// The first key and the last, as the footer says.
    pub fn key_ends(&self) -> (&[u8], &[u8]) {
        (&self.footer.first_key, &self.footer.last_key)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn name(&self) -> &str {
        self.file.name()
    }

    pub(crate) fn damaged(&self, offset: u64, source: FormatError) -> StorageError {
        self.file.damaged(offset, source)
    }

    /// What of the segment does not fit together.
    pub fn inconsistent(&self, detail: String) -> StorageError {
        self.file.inconsistent(detail)
    }

    /// Rows collected from any number of blocks.
    pub(super) fn finish(&self, builder: RowsBuilder) -> Result<Rows> {
        builder.finish().map_err(|error| self.inconsistent(error.to_string()))
    }

    /// What to ask the cache for, for the payload of a page of an index page's filter.
    pub(super) fn filter_request(&self, number: usize, filter_page: usize) -> PageRequest<'_> {
        let (offset, bytes) = self.summary.statistics_place(number);
        let offset = offset + u64::from(bytes) + (filter_page * PAGE_BYTES) as u64;
        PageRequest { file: &self.file, offset, bytes: PAGE_BYTES as u32, kind: PageKind::Filter }
    }

    /// What to ask the cache for, for a page of streams.
    pub(super) fn stream_request(
        &self,
        (offset, bytes): (u64, u32),
        kind: PageKind,
    ) -> PageRequest<'_> {
        PageRequest { file: &self.file, offset, bytes, kind }
    }

    fn statistics_request(&self, page: usize) -> PageRequest<'_> {
        let (offset, bytes) = self.summary.statistics_place(page);
        PageRequest { file: &self.file, offset, bytes, kind: PageKind::Statistics }
    }

    /// What to ask the cache for, for the payload of a block.
    pub(super) fn block_request(&self, place: &BlockPlace) -> PageRequest<'_> {
        let BlockPlace { offset, bytes, .. } = *place;
        PageRequest { file: &self.file, offset, bytes, kind: PageKind::Block }
    }

    pub(super) fn file(&self) -> &PagedFile {
        &self.file
    }

    pub(super) fn cache(&self) -> &PageCache {
        &self.cache
    }

    pub(super) fn shared_cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// A block whose texts are looked up in `dictionaries`.
    pub(super) fn view<'a>(
        &self,
        place: &BlockPlace,
        payload: &'a [u8],
        dictionaries: &'a Dictionaries,
    ) -> Result<BlockView<'a>> {
        let view = BlockView::parse(payload, &self.layout)
            .map_err(|error| self.damaged(place.offset, error))?;
        if view.rows() != place.rows as usize {
            let detail = format!("{} rows, but its index page says {}", view.rows(), place.rows);
            return Err(self.damaged(place.offset, FormatError::malformed("block", detail)));
        }
        Ok(view.with_dictionaries(dictionaries))
    }

    /// Reads bytes of the file, into the memory of an earlier read where that has room for them.
    pub(super) fn read_over(&self, earlier: ReadBytes, offset: u64, len: u64) -> Result<ReadBytes> {
        let bytes = self.file.read_over(earlier, offset, len)?;
        self.cache.counts().bytes.fetch_add(len, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// The file of a segment with what its footer says.
fn open_file(
    files: &mut FilesAhead<'_>,
    id: SegmentId,
) -> Result<(PagedFile, SegmentFooter, FileEnd)> {
    let (file, end) = files.open(FileKind::Segment, id)?;
    let footer = SegmentFooter::decode(&end.footer)
        .map_err(|error| file.damaged(end.footer_offset, error))?;
    if footer.segment != id {
        return Err(file.inconsistent(format!("the file holds segment {}", footer.segment)));
    }
    Ok((file, footer, end))
}
