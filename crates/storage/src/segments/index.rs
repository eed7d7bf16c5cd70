//! The index pages of a segment: where its blocks lie.
//!
//! They lie side by side in the file. They are read together when the segment is opened, unless there are many, or else once as
//! many of them were asked for as make reading all of them worth its time; and they stay as long as the segment is open, if they fit
//! the share of the page cache that is for this. Until then, and else, they come through the cache one by one.

use std::ops::Range;

use drillcore_format::error::FormatError;
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::key::Bound;
use drillcore_format::page::PageKind;

use crate::error::Result;
use crate::few::Few;
use crate::files::reads::ReadBytes;
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest, PagedFile};
use crate::postings::set_postings::SetPostings;
use crate::segments::fit;
use crate::segments::resident_index::HeldIndexPage;
use crate::segments::segment::Segment;

/// Bytes that are asked for at once.
const PORTION_BYTES: u64 = 256 << 10;
/// Index pages of all segments together that are read when segments are opened: less than a tenth of a second where a second brings
/// a gigabyte.
const EARLY_BYTES_MAX: u64 = 64 << 20;
/// Portions that are under way at the same time, and their bytes.
const PORTIONS_AT_ONCE: usize = 128;
const TOGETHER_BYTES: u64 = 4 << 20;

impl Segment {
    pub(super) fn index_page(&self, number: usize) -> Result<HeldIndexPage<'_>> {
        if let Some(page) = self.index.page(number) {
            return Ok(HeldIndexPage::Resident(page));
        }
        let mut pages = Segment::index_pages_of(self.cache(), &[(self, number)]);
        pages.pop().expect("one page was asked for")
    }

    /// Index pages of some segments, read together where they have to be read.
    pub(super) fn index_pages_of<'s>(
        cache: &PageCache,
        wanted: &[(&'s Segment, usize)],
    ) -> Few<Result<HeldIndexPage<'s>>> {
        for of_segment in wanted.chunk_by(|one, next| std::ptr::eq(one.0, next.0)) {
            of_segment[0].0.make_resident(of_segment.len() as u64);
        }
        let resident = |&(segment, number): &(&'s Segment, usize)| {
            segment.index.page(number).map(|page| Ok(HeldIndexPage::Resident(page)))
        };
        let mut pages: Few<Option<Result<HeldIndexPage<'s>>>> =
            wanted.iter().map(resident).collect();
        if pages.iter().any(Option::is_none) {
            let missing: Few<usize> = (0..pages.len()).filter(|&at| pages[at].is_none()).collect();
            let request = |&at: &usize| wanted[at].0.index_page_request(wanted[at].1);
            let requests: Few<PageRequest<'_>> = missing.iter().map(request).collect();
            let loaded = cache.index_pages(&requests, |position, payload| {
                let (segment, number) = wanted[missing[position]];
                segment.checked_index_page(number, payload)
            });
            for (at, page) in missing.into_iter().zip(loaded) {
                pages[at] = Some(page.map(HeldIndexPage::Cached));
            }
        }
        pages.into_iter().flatten().collect()
    }

    /// The block with an ordinal, and its index page.
    pub(super) fn place_of_ordinal(&self, ordinal: u64) -> Result<(HeldIndexPage<'_>, BlockPlace)> {
        let page = self.index_page(self.summary.page_of_ordinal(ordinal))?;
        let place = page.block_of_ordinal(ordinal);
        Ok((page, place))
    }

    /// The block with the first row at or past `bound`, or whose end it is, and its index page.
    pub(crate) fn block_of_bound(&self, bound: &Bound) -> Result<(HeldIndexPage<'_>, BlockPlace)> {
        let page = self.index_page(self.summary.page_of_bound(bound))?;
        let place = page.block_of_bound(bound);
        Ok((page, place))
    }

    /// All index pages, in order. For verification.
    pub(crate) fn index_pages(&self) -> impl Iterator<Item = Result<HeldIndexPage<'_>>> + '_ {
        (0..self.summary.len()).map(|number| self.index_page(number))
    }

    /// The rows of an index page.
    pub(super) fn ordinals_of_page(&self, number: usize) -> Range<u64> {
        self.first_ordinal(number)..self.first_ordinal(number + 1)
    }

    /// The first ordinal of an index page; of the page behind the last one the number of rows.
    pub(super) fn first_ordinal(&self, page: usize) -> u64 {
        match page == self.summary.len() {
            true => self.rows(),
            false => self.summary.first_ordinal(page),
        }
    }

    fn make_resident(&self, asked: u64) {
        let sizes = (self.summary.area().1, self.held_index_bytes());
        let read = || Segment::read_index_pages(&[self]).pop().expect("those of one are read");
        self.index.want(asked, sizes, self.shared_cache(), read);
    }

    /// Takes all index pages of a segment that is being opened from the end of its file, if they lie there: it was read already.
    pub(super) fn hold_index_at(&self, end: &FileEnd) {
        let (offset, bytes) = self.summary.area();
        let Some(taken) = end.bytes_at(offset, bytes) else { return };
        let held_bytes = self.held_index_bytes();
        let Some(share) = PageCache::reserve(self.shared_cache(), held_bytes) else { return };
        self.index.hold(share, || {
            let mut pages = Vec::with_capacity(self.summary.len());
            self.take_pages(0..self.summary.len(), offset, taken, &mut pages)?;
            Ok(pages.into())
        });
    }

    /// Reads all index pages of segments that were just opened, together, as long as those of all segments are few, and so take little
    /// time. Others are read when they are asked for, and so are those whose read fails. Then the directories of their sets, where they are
    /// short.
    pub fn hold_indexes_early(segments: &[&Segment]) {
        Segment::hold_index_pages_early(segments);
        let postings: Vec<_> = segments.iter().filter_map(|segment| segment.postings()).collect();
        SetPostings::read_directories_early(&postings);
    }

    fn hold_index_pages_early(segments: &[&Segment]) {
        let share_of = |segment: &&Segment| {
            let held_bytes = segment.held_index_bytes();
            PageCache::reserve_within(segment.shared_cache(), held_bytes, EARLY_BYTES_MAX)
        };
        let with_share = |segment| share_of(&segment).map(|share| (segment, share));
        let missing = segments.iter().copied().filter(|segment| !segment.index.is_held());
        let (segments, shares): (Vec<&Segment>, Vec<_>) = missing.filter_map(with_share).unzip();
        let read = Segment::read_index_pages(&segments);
        for ((segment, share), pages) in segments.into_iter().zip(shares).zip(read) {
            segment.index.hold(share, || pages);
        }
    }

    fn held_index_bytes(&self) -> u64 {
        self.summary.area().1 + (self.summary.len() * size_of::<IndexPage>()) as u64
    }

    /// All index pages of each of some segments, which share a page cache.
    fn read_index_pages(segments: &[&Segment]) -> Vec<Result<Box<[IndexPage]>>> {
        let Some(first) = segments.first() else { return Vec::new() };
        let cache = first.shared_cache();
        let mut portions: Vec<(usize, Range<usize>, Range<u64>)> = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            for number in 0..segment.summary.len() {
                let (offset, bytes) = segment.summary.place(number);
                let end = offset + u64::from(bytes);
                match portions.last_mut() {
                    Some((of, pages, range)) if *of == at && end - range.start <= PORTION_BYTES => {
                        (pages.end, range.end) = (number + 1, end);
                    }
                    _ => portions.push((at, number..number + 1, offset..end)),
                }
            }
        }
        let mut read: Vec<Result<Vec<IndexPage>>> =
            segments.iter().map(|segment| Ok(Vec::with_capacity(segment.summary.len()))).collect();
        let mut rest = portions.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, _, range): &&(usize, Range<usize>, Range<u64>)| {
                bytes += range.end - range.start;
                bytes <= TOGETHER_BYTES
            };
            let count = rest.iter().take(PORTIONS_AT_ONCE).take_while(fits).count().max(1);
            let (together, later) = rest.split_at(count);
            let range = |(at, _, range): &(usize, Range<usize>, Range<u64>)| {
                cache.counts().count(PageKind::Index, range.end - range.start);
                (segments[*at].file(), range.clone())
            };
            let ranges: Vec<(&PagedFile, Range<u64>)> = together.iter().map(range).collect();
            for ((at, pages, range), bytes) in together.iter().zip(cache.read_ranges(&ranges)) {
                let Ok(taken) = &mut read[*at] else { continue };
                let take = |bytes: ReadBytes| {
                    segments[*at].take_pages(pages.clone(), range.start, bytes.as_slice(), taken)
                };
                if let Err(error) = bytes.and_then(take) {
                    read[*at] = Err(error);
                }
            }
            rest = later;
        }
        read.into_iter().map(|pages| Ok(pages?.into())).collect()
    }

    /// Takes index pages out of bytes of the file, which begin at `start`.
    fn take_pages(
        &self,
        numbers: Range<usize>,
        start: u64,
        bytes: &[u8],
        pages: &mut Vec<IndexPage>,
    ) -> Result<()> {
        for number in numbers {
            let (offset, len) = self.summary.place(number);
            let at = (offset - start) as usize;
            let payload =
                self.file().payload(&bytes[at..at + len as usize], PageKind::Index, offset)?;
            pages.push(self.checked_index_page(number, payload)?);
        }
        Ok(())
    }

    fn index_page_request(&self, number: usize) -> PageRequest<'_> {
        let (offset, bytes) = self.summary.place(number);
        PageRequest { file: self.file(), offset, bytes, kind: PageKind::Index }
    }

    fn checked_index_page(&self, number: usize, payload: &[u8]) -> Result<IndexPage> {
        let (offset, _) = self.summary.place(number);
        let page = IndexPage::parse(payload).map_err(|error| self.damaged(offset, error))?;
        let ordinals = self.ordinals_of_page(number);
        fit::check_index_page(&page, number, &self.summary, ordinals, self.bytes())
            .map_err(|detail| self.damaged(offset, FormatError::malformed("index page", detail)))?;
        Ok(page)
    }
}
