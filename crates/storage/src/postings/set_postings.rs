//! The set index of a segment: for each indexed set the ordinals of its rows, a page at a time.
//!
//! It lies in the segment's own file, written with it, or in a file beside it, written later.

use std::ops::Range;
use std::sync::Arc;

use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::page::{PAGE_BYTES, PageKind};
use drillcore_format::postings::{DirectoryPage, ListPlace, SetDirectorySummary, SetEntry};
use drillcore_format::postings_footer::PostingsFooter;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{PageRequest, PagedFile, file_name};

/// Postings that are open. A few resident bytes; everything else goes through the cache.
pub struct SetPostings {
    file: Arc<PagedFile>,
    summary: SetDirectorySummary,
    /// Where the summary lies: it stands for the pages that it names when damage has no place of its own.
    summary_offset: u64,
    indexed: IndexedSets,
    /// Those of the segment, below which all ordinals lie.
    rows: u64,
    cache: Arc<PageCache>,
}

/// The members of one set in one segment: ascending ordinals that are reached by position.
#[derive(Clone)]
pub struct SegmentMembers {
    postings: Arc<SetPostings>,
    /// `None` of a set without rows.
    entry: Option<SetEntry>,
}

/// What can go wrong in a search of postings: a page that cannot be read, or one that does not decode.
enum SearchFault {
    Page(StorageError),
    Content(FormatError),
}

impl From<FormatError> for SearchFault {
    fn from(error: FormatError) -> SearchFault {
        SearchFault::Content(error)
    }
}

impl SetPostings {
    /// Opens postings in a file by reading the page that sums up their directory.
    pub(crate) fn open(
        file: Arc<PagedFile>,
        summary: (u64, u32),
        indexed: IndexedSets,
        rows: u64,
        cache: Arc<PageCache>,
    ) -> Result<SetPostings> {
        let payload = file.read_whole_page(summary, PageKind::SetSummary)?;
        let directory = SetDirectorySummary::decode(&payload)
            .map_err(|error| file.damaged(summary.0, error))?;
        let summary_offset = summary.0;
        Ok(SetPostings { file, summary: directory, summary_offset, indexed, rows, cache })
    }

    /// Opens the postings file of a segment, if it is the one that the manifest describes.
    pub(crate) fn open_file(
        directory: &dyn Directory,
        meta: PostingsMeta,
        segment: SegmentId,
        rows: u64,
        set_column: Option<u32>,
        cache: Arc<PageCache>,
    ) -> Result<SetPostings> {
        let (file, footer) = PagedFile::open(directory, FileKind::Postings, meta.file)?;
        let found = PostingsFooter::decode(&footer.payload)
            .map_err(|error| file.damaged(footer.offset, error))?;
        let is_described = file.bytes() == meta.bytes && found.file == meta.file;
        if !is_described || found.segment != segment || found.rows != rows {
            let detail = format!("not the file that the manifest describes for segment {segment}");
            return Err(file.inconsistent(detail));
        }
        if Some(found.set_column) != set_column {
            let detail = format!("lists sets of column {}, not {set_column:?}", found.set_column);
            return Err(file.inconsistent(detail));
        }
        SetPostings::open(Arc::new(file), found.set_directory, found.indexed, rows, cache)
    }

    /// The name of a postings file.
    pub fn file_name(id: SegmentId) -> String {
        file_name(FileKind::Postings, id)
    }

    /// The number of the file that they lie in.
    pub fn file(&self) -> SegmentId {
        self.file.id()
    }

    /// The length of that file.
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Which sets are listed: one of them that has no entry has no rows.
    pub fn indexed(&self) -> &IndexedSets {
        &self.indexed
    }

    /// Has the file removed once the last handle is dropped and no reader process needs it.
    pub fn remove_when_unused(
        &self,
        removals: &Arc<DeferredRemovals>,
        removed_at: ManifestVersion,
    ) {
        self.file.remove_when_unused(removals, removed_at);
    }

    /// Holds a lease that the file needs; see [`PagedFile::keep_leased`].
    pub(crate) fn keep_leased(&self, lease: &Arc<Lease>) {
        self.file.keep_leased(lease);
    }

    /// Bytes held in memory for as long as they are open.
    pub fn resident_bytes(&self) -> u64 {
        (self.summary.allocated_bytes() + size_of::<SetPostings>()) as u64
    }

    /// The members of a set; `None` if the set is not indexed. One page of the set directory at most.
    pub fn members(self: &Arc<SetPostings>, set: &[u8]) -> Result<Option<SegmentMembers>> {
        if !self.indexed.contains(set) {
            return Ok(None);
        }
        let entry = match self.summary.page_of_value(set) {
            None => None,
            Some(page) => {
                let (offset, bytes) = self.summary.place(page);
                let payload = self.page(offset, bytes, PageKind::SetDirectory)?;
                let entry = DirectoryPage::parse(&payload).and_then(|page| page.find(set));
                let entry = entry.and_then(|entry| entry.map(|e| self.checked(e)).transpose());
                entry.map_err(|error| self.file.damaged(offset, error))?
            }
        };
        Ok(Some(SegmentMembers { postings: self.clone(), entry }))
    }

    /// Calls `each` with every listed set that has rows and their number, in value order.
    pub fn sets(&self, mut each: impl FnMut(&[u8], u64) -> bool) -> Result<()> {
        for page in 0..self.summary.len() {
            let (offset, bytes) = self.summary.place(page);
            let payload = self.page(offset, bytes, PageKind::SetDirectory)?;
            let damaged = |error| self.file.damaged(offset, error);
            for entry in DirectoryPage::parse(&payload).map_err(damaged)?.entries() {
                let entry = entry.and_then(|entry| self.checked(entry)).map_err(damaged)?;
                if !each(&entry.value, entry.count) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// An entry of the directory, if its set has no more rows than the segment.
    fn checked(&self, entry: SetEntry) -> std::result::Result<SetEntry, FormatError> {
        let fits = match entry.place {
            ListPlace::All => entry.count == self.rows,
            ListPlace::Chunk(_) | ListPlace::Skips(_) => entry.count <= self.rows,
        };
        if fits {
            return Ok(entry);
        }
        let detail = format!("{} members of a segment of {} rows", entry.count, self.rows);
        Err(FormatError::malformed("set directory entry", detail))
    }

    /// Fails on an ordinal past the rows of the segment.
    fn check_ordinal(&self, ordinal: Option<u32>) -> std::result::Result<(), SearchFault> {
        match ordinal.map(u64::from).filter(|ordinal| *ordinal >= self.rows) {
            None => Ok(()),
            Some(ordinal) => {
                let detail = format!("row {ordinal} of a segment of {} rows", self.rows);
                Err(FormatError::malformed("posting chunk", detail).into())
            }
        }
    }

    fn postings_page(&self, offset: u64) -> std::result::Result<Arc<[u8]>, SearchFault> {
        self.page(offset, PAGE_BYTES as u32, PageKind::Postings).map_err(SearchFault::Page)
    }

    fn page(&self, offset: u64, bytes: u32, kind: PageKind) -> Result<Arc<[u8]>> {
        self.cache.payload(PageRequest { file: &self.file, offset, bytes, kind })
    }

    /// The search does not say on which page it failed, so the directory stands for all.
    fn search_fault(&self, fault: SearchFault) -> StorageError {
        match fault {
            SearchFault::Page(error) => error,
            SearchFault::Content(error) => self.file.damaged(self.summary_offset, error),
        }
    }
}

impl SegmentMembers {
    pub fn len(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.count)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ordinal of the `position`-th member: two pages of postings at most.
    pub fn ordinal(&self, position: u64) -> Result<u64> {
        let entry = self.entry.as_ref().expect("a position lies below the length");
        let postings = &self.postings;
        let ordinal = entry.select(position, |offset| postings.postings_page(offset));
        let ordinal = ordinal
            .and_then(|ordinal| postings.check_ordinal(Some(ordinal)).map(|()| u64::from(ordinal)));
        ordinal.map_err(|fault| postings.search_fault(fault))
    }

    /// Appends the ordinals of the members at `positions`, ascending: two pages of postings for each 256 of
    /// them.
    pub fn ordinals(&self, positions: Range<u64>, out: &mut Vec<u32>) -> Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        let postings = &self.postings;
        let listed = entry.ordinals(positions, |offset| postings.postings_page(offset), out);
        // They ascend, so the last is the greatest.
        let checked = listed.and_then(|()| postings.check_ordinal(out.last().copied()));
        checked.map_err(|fault| postings.search_fault(fault))
    }

    /// How many members have an ordinal below `ordinal`: two pages of postings at most.
    pub fn rank(&self, ordinal: u64) -> Result<u64> {
        let Some(entry) = &self.entry else { return Ok(0) };
        match u32::try_from(ordinal) {
            Ok(ordinal) => entry
                .rank(ordinal, |offset| self.postings.postings_page(offset))
                .map_err(|fault| self.postings.search_fault(fault)),
            Err(_) => Ok(entry.count),
        }
    }
}
