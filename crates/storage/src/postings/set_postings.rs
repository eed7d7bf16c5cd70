//! The set index of a segment: for each indexed set the ordinals of its rows, a page at a time.
//!
//! It lies in the segment's own file, written with it, or in a file beside it, written later.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use drillcore_format::error::FormatError;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::overlap::overlap;
use drillcore_format::page::{PAGE_BYTES, PageKind};
use drillcore_format::postings::{
    CHUNK, DirectoryPage, ListPlace, SetDirectorySummary, SetEntry, SetWeights, WeightGroup,
    WeightTables,
};
use drillcore_format::postings_footer::PostingsFooter;
use foldhash::fast::RandomState;

use crate::error::{Result, StorageError};
use crate::few::Few;
use crate::files::lease::{DeferredRemovals, Lease, ManifestVersion};
use crate::pages::files_ahead::FilesAhead;
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest, PagedFile, file_name};

/// Lookups that are made together: a page each at most is held of them.
const LOOKUPS_AT_ONCE: usize = 1024;

/// Pages of a directory that are read together when all sets are listed, at most. A page is longer than 4 KiB only where it has a set with
/// a long value, alone.
const DIRECTORY_PAGES_AT_ONCE: usize = 16;

/// Pages of a directory that are read when postings are opened, at most: some hundreds of sets.
const EARLY_PAGES_MAX: usize = 4;

/// Postings that are open. Of each page of the directory the first value and some 24 bytes are resident; everything else goes through
/// the cache.
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
    /// `None` of a set without rows. Shared, as it may have a list.
    entry: Option<Arc<SetEntry>>,
}

/// Why a search of postings ends without a result: a page that cannot be read, one that does not decode, or one at some place that has
/// not been read yet.
enum SearchFault {
    Page(StorageError),
    Content(FormatError),
    Missing(u64),
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
        let postings =
            SetPostings { file, summary: directory, summary_offset, indexed, rows, cache };
        postings.keep_directory_at(end);
        Ok(postings)
    }

    /// Keeps a short directory that lies at the end of the file, which was read already.
    fn keep_directory_at(&self, end: &FileEnd) {
        let pages = self.early_directory(&mut self.cache.early_room()).unwrap_or_default();
        for page in pages {
            let found = end.bytes_at(page.offset, u64::from(page.bytes));
            // One that is damaged is read again, and reported, once it is asked for.
            let payload = found
                .and_then(|page_bytes| self.file.payload(page_bytes, page.kind, page.offset).ok());
            if let Some(payload) = payload {
                self.cache.keep(&page, payload);
            }
        }
    }

    /// The pages of the directory, if they are few and there is room for them, which they take.
    fn early_directory(&self, room: &mut u64) -> Option<Few<PageRequest<'_>>> {
        let count = Some(self.summary.len()).filter(|count| *count <= EARLY_PAGES_MAX)?;
        let request = |page| {
            let (offset, bytes) = self.summary.place(page);
            self.request(offset, bytes, PageKind::SetDirectory)
        };
        let pages: Few<PageRequest<'_>> = (0..count).map(request).collect();
        *room = room.checked_sub(pages.iter().map(|page| u64::from(page.bytes)).sum())?;
        Some(pages)
    }

    /// Opens the postings file of a segment, if it is the one that the manifest describes.
    pub(crate) fn open_file(
        files: &mut FilesAhead<'_>,
        meta: PostingsMeta,
        segment: SegmentId,
        (rows, weights): (u64, usize),
        set_column: Option<u32>,
        cache: Arc<PageCache>,
    ) -> Result<SetPostings> {
        let (file, end) = files.open(FileKind::Postings, meta.file)?;
        let found = PostingsFooter::decode(&end.footer)
            .map_err(|error| file.damaged(end.footer_offset, error))?;
        let described = (meta.bytes, meta.fingerprint, meta.file);
        let is_described = (file.bytes(), file.fingerprint(), found.file) == described;
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

    /// What the manifest keeps of that file.
    pub fn meta(&self) -> PostingsMeta {
        let (bytes, fingerprint) = (self.file.bytes(), self.file.fingerprint());
        PostingsMeta { file: self.file(), bytes, fingerprint }
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

    /// Reads the short directories of postings that were just opened into their page cache, together, as long as they are a small part of
    /// it: the first lookup of a set would else wait for the device twice. Others are read when they are asked for, and so
    /// are those whose read fails.
    pub fn read_directories_early(opened: &[Arc<SetPostings>]) {
        let Some(first) = opened.first() else { return };
        let mut room = first.cache.early_room();
        let pages = opened.iter().filter_map(|postings| postings.early_directory(&mut room));
        first.cache.payloads(&pages.flatten().collect::<Vec<_>>());
    }

    /// The members of a set; `None` if the set is not indexed. One page of the set directory at most.
    pub fn members(self: &Arc<SetPostings>, set: &[u8]) -> Result<Option<SegmentMembers>> {
        let mut members = SetPostings::members_of_each(&[(self, set)])?;
        Ok(members.pop().expect("one set was asked for"))
    }

    /// The members of some sets, each in some postings, which share a page cache; `None` of a set that is not indexed there. One page
    /// of a set directory each at most, which are read together.
    pub fn members_of_each(
        wanted: &[(&Arc<SetPostings>, &[u8])],
    ) -> Result<Few<Option<SegmentMembers>>> {
        let Some((first, _)) = wanted.first() else { return Ok(Few::new()) };
        let place_of = |(postings, set): &(&Arc<SetPostings>, &[u8])| {
            let is_indexed = postings.indexed.contains(set);
            let page = is_indexed.then(|| postings.summary.page_of_value(set)).flatten();
            page.map(|page| postings.summary.place(page))
        };
        let places: Few<Option<(u64, u32)>> = wanted.iter().map(place_of).collect();
        let requests: Few<PageRequest<'_>> = wanted
            .iter()
            .zip(&places)
            .filter_map(|((postings, _), place)| {
                let (offset, bytes) = (*place)?;
                Some(postings.request(offset, bytes, PageKind::SetDirectory))
            })
            .collect();
        let mut payloads = first.cache.payloads(&requests).into_iter();
        let mut members_of = |((postings, set), place): (&(&Arc<SetPostings>, &[u8]), _)| {
            if !postings.indexed.contains(set) {
                return Ok(None);
            }
            let entry = match place {
                None => None,
                Some((offset, _)) => {
                    let payload = payloads.next().expect("each page was asked for")?;
                    let entry = postings.entry_on(&payload, set);
                    entry.map_err(|error| postings.file.damaged(offset, error))?
                }
            };
            let entry = entry.map(Arc::new);
            Ok(Some(SegmentMembers { postings: Arc::clone(postings), entry }))
        };
        wanted.iter().zip(places).map(&mut members_of).collect()
    }

    /// The entry of a set on the directory page that would have it.
    fn entry_on(
        &self,
        payload: &[u8],
        set: &[u8],
    ) -> std::result::Result<Option<SetEntry>, FormatError> {
        let entry = DirectoryPage::parse(payload, self.summary.weights())?.find(set)?;
        entry.map(|entry| self.checked(entry)).transpose()
    }

    /// Calls `each` with every listed set that has rows and their number, in value order, until it says no. All pages of the directory,
    /// of which more and more are read together.
    pub fn sets(&self, mut each: impl FnMut(&[u8], u64) -> bool) -> Result<()> {
        let (mut next, mut at_once) = (0, 1);
        while next < self.summary.len() {
            let pages = next..self.summary.len().min(next + at_once);
            let places: Vec<(u64, u32)> = pages.map(|page| self.summary.place(page)).collect();
            let request =
                |&(offset, bytes): &(u64, u32)| self.request(offset, bytes, PageKind::SetDirectory);
            let requests: Vec<PageRequest<'_>> = places.iter().map(request).collect();
            for (&(offset, _), payload) in places.iter().zip(self.cache.payloads(&requests)) {
                let (payload, damaged) = (payload?, |error| self.file.damaged(offset, error));
                let page = DirectoryPage::parse(&payload, self.summary.weights());
                for entry in page.map_err(damaged)?.entries() {
                    let entry = entry.and_then(|entry| self.checked(entry)).map_err(damaged)?;
                    if !each(&entry.value, entry.count) {
                        return Ok(());
                    }
                }
            }
            next += places.len();
            at_once = DIRECTORY_PAGES_AT_ONCE.min(2 * at_once);
        }
        Ok(())
    }

    /// An entry of the directory, if its set has no more rows than the segment.
    fn checked(&self, entry: SetEntry) -> std::result::Result<SetEntry, FormatError> {
        let fits = match entry.place {
            ListPlace::All => entry.count == self.rows,
            ListPlace::Inline(_) | ListPlace::Chunk(_) | ListPlace::Skips(_) => {
                entry.count <= self.rows
            }
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

    fn postings_page(&self, offset: u64) -> SearchResult<Arc<[u8]>> {
        self.page(offset, PAGE_BYTES as u32, PageKind::Postings).map_err(SearchFault::Page)
    }

    fn request(&self, offset: u64, bytes: u32, kind: PageKind) -> PageRequest<'_> {
        PageRequest { file: &self.file, offset, bytes, kind }
    }

    fn page(&self, offset: u64, bytes: u32, kind: PageKind) -> Result<Arc<[u8]>> {
        self.cache.payload(self.request(offset, bytes, kind))
    }

    /// The search does not say on which page it failed, so the directory stands for all.
    fn search_fault(&self, fault: SearchFault) -> StorageError {
        match fault {
            SearchFault::Page(error) => error,
            SearchFault::Content(error) => self.file.damaged(self.summary_offset, error),
            SearchFault::Missing(_) => unreachable!("what is missing is read"),
        }
    }
}

type SearchResult<T> = std::result::Result<T, SearchFault>;

/// The page of postings at an offset.
type FindPage<'p> = dyn Fn(u64) -> SearchResult<Arc<[u8]>> + 'p;

/// Pages of postings that were read, by file and offset.
type PagesRead = HashMap<(SegmentId, u64), Arc<[u8]>, RandomState>;

/// Makes a lookup for each item, in the postings of its members, which share a page cache, and gives the results to `each` in order. In
/// rounds: `look_up` gets the pages that were read before, and those that lookups found missing are read together. So it costs the trips
/// to the device of the longest lookup, however many there are.
fn look_up_each<'m, I, T>(
    items: &[I],
    members: impl Fn(&I) -> &'m SegmentMembers,
    look_up: impl Fn(&I, &FindPage<'_>) -> SearchResult<T>,
    mut each: impl FnMut(T),
) -> Result<()> {
    for items in items.chunks(LOOKUPS_AT_ONCE) {
        let mut read = PagesRead::default();
        let mut results: Vec<Option<T>> = items.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..items.len()).collect();
        while !open.is_empty() {
            let mut missing: BTreeMap<(SegmentId, u64), &SetPostings> = BTreeMap::new();
            let mut failed = Ok(());
            open.retain(|&at| {
                let postings = &*members(&items[at]).postings;
                let page = |offset| {
                    let page = read.get(&(postings.file.id(), offset)).cloned();
                    page.ok_or(SearchFault::Missing(offset))
                };
                match look_up(&items[at], &page) {
                    Ok(result) => results[at] = Some(result),
                    Err(SearchFault::Missing(offset)) => {
                        missing.insert((postings.file.id(), offset), postings);
                    }
                    Err(fault) if failed.is_ok() => failed = Err(postings.search_fault(fault)),
                    Err(_) => {}
                }
                results[at].is_none()
            });
            failed?;
            let request = |(&(_, offset), postings): (&(SegmentId, u64), &&'m SetPostings)| {
                postings.request(offset, PAGE_BYTES as u32, PageKind::Postings)
            };
            let requests: Vec<PageRequest<'_>> = missing.iter().map(request).collect();
            let Some(first) = missing.values().next() else { break };
            let payloads = first.cache.payloads(&requests);
            for (&place, payload) in missing.keys().zip(payloads) {
                read.insert(place, payload?);
            }
        }
        results.into_iter().flatten().for_each(&mut each);
    }
    Ok(())
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

    /// The groups of members of some sets that hold some units of a weight column, which lie below the sum of all of the set: a page of
    /// postings each at most, none for a set of one group, of which those of many are read together.
    pub fn groups_of_units(
        wanted: &[(&SegmentMembers, u128)],
        weight: usize,
    ) -> Result<Vec<WeightGroup>> {
        let group_of = |&(members, unit): &(&SegmentMembers, u128), page: &FindPage<'_>| {
            members.group(weight, page, |tables| {
                let table = tables.table_of_unit(unit);
                (table, move |page: &[u8]| tables.group_of_unit(table, page, unit))
            })
        };
        let mut groups = Vec::with_capacity(wanted.len());
        look_up_each(wanted, |(members, _)| members, group_of, |group| groups.push(group))?;
        Ok(groups)
    }

    /// The groups of some numbers, each with the positions from 128 times that on: a page of postings each at most, of which those of
    /// many are read together.
    pub fn groups_of_numbers(
        wanted: &[(&SegmentMembers, u64)],
        weight: usize,
    ) -> Result<Vec<WeightGroup>> {
        let group_of = |&(members, number): &(&SegmentMembers, u64), page: &FindPage<'_>| {
            let group = members.group(weight, page, |tables| {
                let table = tables.table_of_group(number);
                (table, move |page: &[u8]| tables.group_of_number(table, page, number))
            })?;
            if group.number != number {
                let detail = format!("no group {number} of {} members", members.len());
                return Err(FormatError::malformed("set directory entry", detail).into());
            }
            Ok(group)
        };
        let mut groups = Vec::with_capacity(wanted.len());
        look_up_each(wanted, |(members, _)| members, group_of, |group| groups.push(group))?;
        Ok(groups)
    }

    /// The only group of the set, or the one that is found in the page of a table of weights; `search` says in which table, and how.
    fn group<'a, F>(
        &'a self,
        weight: usize,
        page: &FindPage<'_>,
        search: impl FnOnce(&'a WeightTables) -> (usize, F),
    ) -> SearchResult<WeightGroup>
    where
        F: FnOnce(&[u8]) -> std::result::Result<WeightGroup, FormatError>,
    {
        let entry = self.entry.as_ref().expect("a set without members has no groups");
        let tables = match &entry.weights[weight] {
            SetWeights::Group(weight) => {
                return Ok(WeightGroup { weight: *weight, ..WeightGroup::default() });
            }
            SetWeights::Tables(tables) => tables,
        };
        let (table, find) = search(tables);
        let offset = tables.place(table).page_offset;
        let found = find(&page(offset)?);
        found.map_err(|error| SearchFault::Page(self.postings.file.damaged(offset, error)))
    }

    /// Appends the ordinals of members of some sets, each by its position, in the order given: two pages of postings each at most, of
    /// which those of many are read together.
    pub fn ordinals_of(wanted: &[(&SegmentMembers, u64)], out: &mut Vec<u32>) -> Result<()> {
        let ordinal = |(members, position): &(&SegmentMembers, u64), page: &FindPage<'_>| {
            let ordinal = members.entry().select(*position, page)?;
            members.postings.check_ordinal(Some(ordinal)).map(|()| ordinal)
        };
        look_up_each(wanted, |(members, _)| members, ordinal, |ordinal| out.push(ordinal))
    }

    /// The ordinals of the members of some sets at positions each, ascending. What has to be read is read together.
    pub fn ordinals_in_each(wanted: &[(&SegmentMembers, Range<u64>)]) -> Result<Vec<Vec<u32>>> {
        let chunk_of = |position: u64| position / CHUNK as u64;
        let chunks: Vec<(usize, Range<u64>)> = wanted
            .iter()
            .enumerate()
            .filter(|(_, (_, positions))| !positions.is_empty())
            .flat_map(|(number, (_, positions))| {
                let all = chunk_of(positions.start)..chunk_of(positions.end - 1) + 1;
                let within = move |chunk: u64| {
                    let of_chunk = chunk * CHUNK as u64..(chunk + 1) * CHUNK as u64;
                    (number, overlap(&of_chunk, positions))
                };
                all.map(within)
            })
            .collect();
        let in_chunk = |(number, positions): &(usize, Range<u64>), page: &FindPage<'_>| {
            let members = wanted[*number].0;
            let mut ordinals = Vec::with_capacity((positions.end - positions.start) as usize);
            members.entry().ordinals(positions.clone(), page, &mut ordinals)?;
            members.postings.check_ordinal(ordinals.last().copied())?;
            Ok((*number, ordinals))
        };
        let mut found: Vec<Vec<u32>> = vec![Vec::new(); wanted.len()];
        look_up_each(
            &chunks,
            |(number, _)| wanted[*number].0,
            in_chunk,
            |(number, ordinals)| {
                found[number].extend_from_slice(&ordinals);
            },
        )?;
        Ok(found)
    }

    /// How many members of some sets have an ordinal below one each: two pages of postings each at most, of which those of many are read
    /// together.
    pub fn ranks_of(wanted: &[(&SegmentMembers, u64)]) -> Result<Vec<u64>> {
        let mut ranks = Vec::with_capacity(wanted.len());
        let rank = |(members, ordinal): &(&SegmentMembers, u64), page: &FindPage<'_>| {
            let Some(entry) = &members.entry else { return Ok(0) };
            match u32::try_from(*ordinal) {
                Ok(ordinal) => entry.rank(ordinal, page),
                Err(_) => Ok(entry.count),
            }
        };
        look_up_each(wanted, |(members, _)| members, rank, |rank| ranks.push(rank))?;
        Ok(ranks)
    }

    fn entry(&self) -> &SetEntry {
        self.entry.as_ref().expect("a position lies below the length")
    }

    /// The ordinal of the `position`-th member: two pages of postings at most.
    pub fn ordinal(&self, position: u64) -> Result<u64> {
        let postings = &self.postings;
        let ordinal = self.entry().select(position, |offset| postings.postings_page(offset));
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

#[cfg(test)]
mod tests {
    use super::*;

    use drillcore_format::postings::PostingsWriter;

    use crate::files::memory_directory::MemoryDirectory;
    use crate::pages::page_writer::{PageWriter, WrittenFile};

    /// A file that was given another name is damaged in each of its pages. One that says itself that it belongs to other rows is not.
    #[test]
    fn the_postings_of_another_segment_are_refused() {
        let directory = Arc::new(MemoryDirectory::new());
        let (file, segment, rows) = (SegmentId(9), SegmentId(7), 300);
        let mut writer = PageWriter::create(directory.clone(), FileKind::Postings, file).unwrap();
        let mut postings = PostingsWriter::new(file, 0, 0);
        postings.push(b"\x01AA\x00", [3, 5, 8].into_iter(), 3, false, &[], writer.pending());
        let summary = postings.finish(writer.pending());
        let mut payload = Vec::new();
        summary.encode(&mut payload);
        let footer = PostingsFooter {
            file,
            segment,
            rows,
            set_column: 2,
            indexed: IndexedSets::all(),
            set_directory: writer.put_page(PageKind::SetSummary, &payload, false),
        };
        let mut payload = Vec::new();
        footer.encode(&mut payload);
        let WrittenFile { bytes, fingerprint } = writer.finish(&payload).unwrap();
        let cache = Arc::new(PageCache::new(directory.clone(), 1 << 20));
        let open = |bytes, segment, rows, set_column| {
            let meta = PostingsMeta { file, bytes, fingerprint };
            let cache = cache.clone();
            SetPostings::open_file(
                &mut FilesAhead::none(&*directory),
                meta,
                segment,
                (rows, 0),
                set_column,
                cache,
            )
        };
        let postings = Arc::new(open(bytes, segment, rows, Some(2)).unwrap());
        let members = postings.members(b"\x01AA\x00").unwrap().unwrap();
        assert_eq!(members.entry.unwrap().count, 3);
        let refused = |opened: Result<SetPostings>, expected: &str| {
            let error = opened.err().unwrap();
            assert!(matches!(error, StorageError::Inconsistent { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        };
        refused(open(bytes, SegmentId(8), rows, Some(2)), "describes for segment 00000008");
        refused(open(bytes, segment, rows + 1, Some(2)), "describes for segment 00000007");
        refused(open(bytes + 1, segment, rows, Some(2)), "describes for segment 00000007");
        refused(open(bytes, segment, rows, Some(1)), "lists sets of column 2");
        refused(open(bytes, segment, rows, None), "lists sets of column 2");
    }
}
