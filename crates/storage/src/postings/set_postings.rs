//! The set index of a segment: for each indexed set the ordinals of its rows, a page at a time.
//!
//! It lies in the segment's own file, written with it, or in a file beside it, written later.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::page::{PAGE_BYTES, PageKind};
use drillcore_format::postings::{
    DirectoryPage, ListPlace, SetDirectorySummary, SetEntry, TABLE_MEMBERS, WeightGroup,
    WeightTables,
};
use drillcore_format::postings_footer::PostingsFooter;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest, PagedFile, file_name};

/// Members whose ordinals are looked up together.
const POSITIONS_AT_ONCE: usize = 1024;

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
    /// Opens postings in a file by reading the page that sums up their directory. The segment has `rows` rows, and its table `weights` weight
    /// columns.
    pub(crate) fn open(
        file: Arc<PagedFile>,
        end: &FileEnd,
        summary: (u64, u32),
        indexed: IndexedSets,
        (rows, weights): (u64, usize),
        cache: Arc<PageCache>,
    ) -> Result<SetPostings> {
        let payload = end.page(&file, summary, PageKind::SetSummary)?;
        let directory = SetDirectorySummary::decode(&payload)
            .map_err(|error| file.damaged(summary.0, error))?;
        if directory.weights() != weights {
            let found = directory.weights();
            let detail = format!("sets with {found} weight columns, but the table has {weights}");
            return Err(file.inconsistent(detail));
        }
        let summary_offset = summary.0;
        cache.serve(&file);
        Ok(SetPostings { file, summary: directory, summary_offset, indexed, rows, cache })
    }

    /// Opens the postings file of a segment, if it is the one that the manifest describes.
    pub(crate) fn open_file(
        directory: &dyn Directory,
        meta: PostingsMeta,
        segment: SegmentId,
        (rows, weights): (u64, usize),
        set_column: Option<u32>,
        cache: Arc<PageCache>,
    ) -> Result<SetPostings> {
        let (file, end) = PagedFile::open(directory, FileKind::Postings, meta.file)?;
        let found = PostingsFooter::decode(&end.footer)
            .map_err(|error| file.damaged(end.footer_offset, error))?;
        let is_described = file.bytes() == meta.bytes && found.file == meta.file;
        if !is_described || found.segment != segment || found.rows != rows {
            let detail = format!("not the file that the manifest describes for segment {segment}");
            return Err(file.inconsistent(detail));
        }
        if Some(found.set_column) != set_column {
            let detail = format!("lists sets of column {}, not {set_column:?}", found.set_column);
            return Err(file.inconsistent(detail));
        }
        SetPostings::open(
            Arc::new(file),
            &end,
            found.set_directory,
            found.indexed,
            (rows, weights),
            cache,
        )
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
                let entry = DirectoryPage::parse(&payload, self.summary.weights())
                    .and_then(|page| page.find(set));
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
            for entry in
                DirectoryPage::parse(&payload, self.summary.weights()).map_err(damaged)?.entries()
            {
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

    fn postings_request(&self, offset: u64) -> PageRequest<'_> {
        let (bytes, kind) = (PAGE_BYTES as u32, PageKind::Postings);
        PageRequest { file: &self.file, offset, bytes, kind }
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

/// Pages of postings that were read together.
struct PagesAhead<'a> {
    postings: &'a SetPostings,
    read: HashMap<u64, Arc<[u8]>>,
}

impl PagesAhead<'_> {
    fn read(&mut self, offsets: impl Iterator<Item = u64>) -> Result<()> {
        let mut offsets: Vec<u64> =
            offsets.filter(|offset| !self.read.contains_key(offset)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let requests: Vec<_> =
            offsets.iter().map(|&offset| self.postings.postings_request(offset)).collect();
        for (offset, payload) in offsets.iter().zip(self.postings.cache.payloads(&requests)) {
            self.read.insert(*offset, payload?);
        }
        Ok(())
    }

    /// A page that was read, or else from the cache.
    fn get(&self, offset: u64) -> std::result::Result<Arc<[u8]>, SearchFault> {
        match self.read.get(&offset) {
            Some(page) => Ok(page.clone()),
            None => self.postings.postings_page(offset),
        }
    }
}

impl SegmentMembers {
    /// The number of rows in the set. Reads nothing.
    pub fn len(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.count)
    }

    /// Whether the segment has no row of the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all members weigh by a weight column. Reads nothing.
    pub fn weight(&self, weight: usize) -> u128 {
        self.entry.as_ref().map_or(0, |entry| entry.weights[weight].total())
    }

    /// The groups of members that hold some units of a weight column, which lie below the sum of all: a page of postings each
    /// at most, of which those of many are read together.
    pub fn groups_of_units(&self, weight: usize, units: &[u128]) -> Result<Vec<WeightGroup>> {
        let mut groups = Vec::with_capacity(units.len());
        for units in units.chunks(POSITIONS_AT_ONCE) {
            let tables = self.weight_tables(weight);
            let of_units = units.iter().map(|&unit| tables.table_of_unit(unit));
            let mut pages = PagesAhead { postings: &self.postings, read: HashMap::new() };
            pages.read(of_units.clone().map(|table| tables.place(table).page_offset))?;
            for (table, &unit) in of_units.zip(units) {
                let page = pages.get(tables.place(table).page_offset);
                let page = page.map_err(|fault| self.postings.search_fault(fault))?;
                let group = tables.group_of_unit(table, &page, unit);
                groups.push(group.map_err(|error| self.damaged_weights(tables, table, error))?);
            }
        }
        Ok(groups)
    }

    /// The group of a number, with the positions from 128 times that on: a page of postings.
    pub fn weight_group(&self, weight: usize, number: u64) -> Result<WeightGroup> {
        let tables = self.weight_tables(weight);
        let table = tables.table_of_group(number);
        let page = self.weight_page(tables, table)?;
        let group = tables.group_of_number(table, &page, number);
        group.map_err(|error| self.damaged_weights(tables, table, error))
    }

    fn weight_tables(&self, weight: usize) -> &WeightTables {
        &self.entry.as_ref().expect("a set without members has no groups").weights[weight]
    }

    fn weight_page(&self, tables: &WeightTables, table: usize) -> Result<Arc<[u8]>> {
        let offset = tables.place(table).page_offset;
        self.postings.page(offset, PAGE_BYTES as u32, PageKind::Postings)
    }

    fn damaged_weights(
        &self,
        tables: &WeightTables,
        table: usize,
        error: FormatError,
    ) -> StorageError {
        self.postings.file.damaged(tables.place(table).page_offset, error)
    }

    /// Appends the ordinals of the members at some positions, which ascend: two pages of postings each at most, of which those
    /// of many are read together.
    pub fn ordinals_at(&self, positions: &[u64], out: &mut Vec<u32>) -> Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        for positions in positions.chunks(POSITIONS_AT_ONCE) {
            let mut pages = PagesAhead { postings: &self.postings, read: HashMap::new() };
            if let ListPlace::Skips(root) = &entry.place {
                let tables = positions.iter().map(|position| position / TABLE_MEMBERS);
                pages.read(tables.map(|table| root.table(table as usize).page_offset))?;
            }
            let mut chunks = Vec::with_capacity(positions.len());
            for &position in positions {
                let place = entry.chunk_of_member(position, |offset| pages.get(offset));
                chunks.extend(
                    place.map_err(|fault| self.postings.search_fault(fault))?.map(|(at, _)| at),
                );
            }
            pages.read(chunks.iter().map(|chunk| chunk.page_offset))?;
            for &position in positions {
                let ordinal = entry.select(position, |offset| pages.get(offset));
                let ordinal = ordinal.and_then(|ordinal| {
                    self.postings.check_ordinal(Some(ordinal)).map(|()| ordinal)
                });
                out.push(ordinal.map_err(|fault| self.postings.search_fault(fault))?);
            }
        }
        Ok(())
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
