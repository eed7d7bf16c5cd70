//! Reading a segment: a few resident bytes, everything else a page at a time through the cache.
//!
//! Rows come from it by their keys ([`lookup`](crate::segments::lookup)), by their ordinals
//! ([`fetch`](crate::segments::fetch)), or in sequence.
//! What was read is verified before it is used; damage is an error that names file and offset.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::dictionary::Dictionaries;
use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::index_page::{BlockPlace, Summary};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::{PostingsMeta, SegmentMeta};
use drillcore_format::page::{PAGE_BYTES, PageKind};
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::segment_footer::SegmentFooter;
use drillcore_format::statistics_page::{Zones, ZonesBuilder};
use drillcore_format::streams::directory::StreamDirectory;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::files::reads::ReadBytes;
use crate::pages::held_dictionary::HeldDictionary;
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest, PagedFile, file_name, file_of};
use crate::postings::set_postings::SetPostings;
use crate::segments::fit;
use crate::segments::resident_index::ResidentIndex;
use crate::sync::Mutex;

/// Bytes that a sequential read asks the file for at once, unless a block is longer: enough that the device takes longer for them
/// than for the request, and few enough to stay in the processor's cache until they are decoded.
const READ_AHEAD_BYTES: u64 = 256 << 10;
/// The least that it asks for once few bytes are still wanted. What it reads and does not decode is wasted.
const READ_AT_END_BYTES: u64 = 64 << 10;
/// Bytes of rows for each byte of the file, at most, unless they are compressed very well.
const BYTES_PER_STORED: u64 = 4;

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

/// From where on rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// From the least key up.
    First,
    /// From the greatest key down.
    Last,
}

/// Rows that are read one after the other, and how many bytes of keys and strings are enough.
struct InSequence<'a> {
    rows: Range<u64>,
    projection: &'a Projection,
    bytes_max: usize,
    dictionaries: &'a Dictionaries,
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

    /// Opens a segment: reads its tail, footer and summaries.
    pub fn open(
        directory: &dyn Directory,
        id: SegmentId,
        layout: &Layout,
        cache: Arc<PageCache>,
    ) -> Result<Segment> {
        let (file, footer, end) = open_file(directory, id)?;
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
        segment.hold_index_early(&end);
        Ok(segment)
    }

    /// The commits whose rows a file holds, of whatever table.
    pub fn commits_in(directory: &dyn Directory, id: SegmentId) -> Result<LsnRange> {
        Ok(open_file(directory, id)?.1.lsns)
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
            reopened.attach_postings(reopened.open_postings(directory, meta)?);
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

    /// Holds a lease under which the segment and its set index may be read, for as long as somebody does, or
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
        directory: &dyn Directory,
        meta: PostingsMeta,
    ) -> Result<Option<SetPostings>> {
        // Numbers rise, and a segment's own is below those of its postings files.
        if self.postings().is_some_and(|present| present.file() >= meta.file) {
            return Ok(None);
        }
        self.open_postings(directory, meta).map(Some)
    }

    /// Opens a postings file of this segment, to be attached.
    pub fn open_postings(
        &self,
        directory: &dyn Directory,
        meta: PostingsMeta,
    ) -> Result<SetPostings> {
        let (id, set_column) = (self.id(), self.footer.set_column);
        let sizes = (self.rows(), self.layout.weight_count());
        SetPostings::open_file(directory, meta, id, sizes, set_column, self.cache.clone())
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
        let (file, bytes) = (postings.file(), postings.file_bytes());
        (file != self.id()).then_some(PostingsMeta { file, bytes })
    }

    /// The sets whose rows are listed.
    pub fn indexed(&self) -> IndexedSets {
        self.postings().map_or(IndexedSets::none(), |postings| postings.indexed().clone())
    }

    /// As many rows of the one end of a range, or of the other, as lie within `bytes_max` in the file with what is projected, and up to
    /// `rows_max`, or those of one block. This part can be [read](Segment::read) at once, however long its rows are: the rows of a block
    /// are short, but for one. There is a row at least.
    ///
    /// Two index pages where rows are short, else some ten.
    pub fn portion(
        &self,
        ordinals: Range<u64>,
        end: End,
        projection: &Projection,
        bytes_max: u64,
        rows_max: u64,
    ) -> Result<Range<u64>> {
        let portion = |len: u64| match end {
            End::First => ordinals.start..ordinals.start + len,
            End::Last => ordinals.end - len..ordinals.end,
        };
        let block = match end {
            End::First => self.place_of_ordinal(ordinals.start)?.1,
            End::Last => self.place_of_ordinal(ordinals.end - 1)?.1,
        };
        // Less than a block would have it read, and decoded, twice.
        let of_block = match end {
            End::First => block.first_ordinal + u64::from(block.rows) - ordinals.start,
            End::Last => ordinals.end - block.first_ordinal,
        };
        let has_extents = projection.has_strings();
        let mut len = (ordinals.end - ordinals.start).min(rows_max.max(of_block));
        while len > of_block && self.span_bytes(&portion(len), has_extents)? > bytes_max {
            len = (len / 2).max(of_block);
        }
        Ok(portion(len))
    }

    /// The bytes of the file from the first block with one of the rows to the last, with their long values or without; there
    /// is a row at least.
    fn span_bytes(&self, ordinals: &Range<u64>, has_extents: bool) -> Result<u64> {
        let (first_page, first) = self.place_of_ordinal(ordinals.start)?;
        let (last_page, last) = self.place_of_ordinal(ordinals.end - 1)?;
        let bytes = (last.offset + u64::from(last.bytes)).saturating_sub(first.offset);
        // Those of an index page lie before its blocks: so of other pages they are among these bytes.
        let extents = match (has_extents, first_page.first_ordinal() == last_page.first_ordinal()) {
            (false, _) => 0,
            (true, false) => first_page.extent_bytes_from(first.number),
            (true, true) => {
                let behind = first_page.extent_bytes_from(last.number) - last.extent_bytes;
                first_page.extent_bytes_from(first.number) - behind
            }
        };
        Ok(bytes.saturating_add(extents))
    }

    /// The rows `from..to`, read in sequence in large portions, without filling the cache. Their strings must fit
    /// an array; see [`Segment::portion`].
    pub fn read(&self, from: u64, to: u64, projection: &Projection) -> Result<Rows> {
        self.read_some(from, to, projection, usize::MAX)
    }

    /// The first of the rows that [`Segment::read`] gives: up to the block with which their keys and strings have `bytes_max`, at least
    /// one. However long rows are, those of a block are short, but for one.
    pub fn read_some(
        &self,
        from: u64,
        to: u64,
        projection: &Projection,
        bytes_max: usize,
    ) -> Result<Rows> {
        let mut builder = RowsBuilder::new(projection, (to - from) as usize);
        let dictionaries = &self.dictionaries(projection)?;
        let wanted = InSequence { rows: from..to, projection, bytes_max, dictionaries };
        let mut buffer = ReadBytes::default();
        let mut next = from;
        while next < to && builder.string_bytes() < bytes_max {
            let page = self.index_page(self.summary.page_of_ordinal(next))?;
            let places: Vec<BlockPlace> = (page.block_of_ordinal(next).number..page.blocks())
                .map(|number| page.block(number))
                .take_while(|place| place.first_ordinal < to)
                .collect();
            let mut rest = places.as_slice();
            while let Some(first) = rest.first()
                && builder.string_bytes() < bytes_max
            {
                let bytes_left = (bytes_max - builder.string_bytes()) as u64;
                let bytes_at_once =
                    (bytes_left / BYTES_PER_STORED).clamp(READ_AT_END_BYTES, READ_AHEAD_BYTES);
                let near = |place: &BlockPlace| {
                    place.offset + u64::from(place.bytes) - first.offset <= bytes_at_once
                };
                let count = rest.iter().take_while(|place| near(place)).count().max(1);
                let (portion, later) = rest.split_at(count);
                buffer = self.read_portion(portion, &wanted, buffer, &mut builder)?;
                rest = later;
            }
            next = page.first_ordinal() + page.rows();
        }
        self.finish(builder)
    }

    /// The zones that hold one of `ordinals`, with some columns of the table, which `layout` has; they may
    /// have been added since. One statistics page for each index page that the ordinals lie in; about 17
    /// bytes of memory a zone and column.
    pub fn zones(&self, layout: &Layout, ordinals: Range<u64>, columns: &[usize]) -> Result<Zones> {
        let pages = match ordinals.is_empty() {
            true => 0..0,
            false => {
                let last = self.summary.page_of_ordinal(ordinals.end - 1);
                self.summary.page_of_ordinal(ordinals.start)..last + 1
            }
        };
        let mut zones = ZonesBuilder::new(layout, columns, self.first_ordinal(pages.start));
        for page in pages {
            let (offset, bytes) = self.summary.statistics_place(page);
            let payload = self.statistics_page(offset, bytes)?;
            let rows = self.first_ordinal(page + 1) - self.first_ordinal(page);
            zones.append_page(&payload, rows).map_err(|error| self.damaged(offset, error))?;
        }
        let zones = zones.finish().map_err(|error| self.inconsistent(error.to_string()))?;
        Ok(zones.overlapping(ordinals))
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

    fn statistics_page(&self, offset: u64, bytes: u32) -> Result<Arc<[u8]>> {
        let kind = PageKind::Statistics;
        self.cache.payload(PageRequest { file: &self.file, offset, bytes, kind })
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

    /// Reads neighbouring blocks at once, into memory that serves one portion after the other, and appends the rows among them that are
    /// wanted.
    fn read_portion(
        &self,
        places: &[BlockPlace],
        wanted: &InSequence<'_>,
        earlier: ReadBytes,
        builder: &mut RowsBuilder,
    ) -> Result<ReadBytes> {
        let InSequence { rows, projection, bytes_max, dictionaries } = wanted;
        let (first, last) = (places[0], places[places.len() - 1]);
        let len = last.offset + u64::from(last.bytes) - first.offset;
        let bytes = self.read_over(earlier, first.offset, len)?;
        self.cache.counts().blocks.fetch_add(places.len() as u64, Ordering::Relaxed);
        for place in places {
            if builder.string_bytes() >= *bytes_max {
                break;
            }
            let at = (place.offset - first.offset) as usize;
            let payload = self.file.payload(
                &bytes.as_slice()[at..at + place.bytes as usize],
                PageKind::Block,
                place.offset,
            )?;
            let view = self.view(place, payload, dictionaries)?;
            let begin = rows.start.saturating_sub(place.first_ordinal) as usize;
            let end = (rows.end - place.first_ordinal).min(u64::from(place.rows)) as usize;
            let extents = match place.extent_bytes {
                0 => Vec::new(),
                _ => {
                    let rows = Picked::Range(begin, end);
                    let places = self.extents_of(place.offset, &view, projection, rows)?;
                    self.read_extents(&places)?
                }
            };
            builder
                .append_range(&view.with_extents(&extents), begin, end)
                .map_err(|error| self.damaged(place.offset, error))?;
        }
        Ok(bytes)
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
    directory: &dyn Directory,
    id: SegmentId,
) -> Result<(PagedFile, SegmentFooter, FileEnd)> {
    let (file, end) = PagedFile::open(directory, FileKind::Segment, id)?;
    let footer = SegmentFooter::decode(&end.footer)
        .map_err(|error| file.damaged(end.footer_offset, error))?;
    if footer.segment != id {
        return Err(file.inconsistent(format!("the file holds segment {}", footer.segment)));
    }
    Ok((file, footer, end))
}
