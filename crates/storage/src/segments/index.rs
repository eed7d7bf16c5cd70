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
use crate::pages::page_cache::PageCache;
use crate::pages::paged_file::{FileEnd, PageRequest};
use crate::segments::fit;
use crate::segments::resident_index::HeldIndexPage;
use crate::segments::segment::Segment;

/// Bytes that are asked for at once.
const PORTION_BYTES: u64 = 256 << 10;
/// Index pages of all segments together that are read when segments are opened: less than a tenth of a second where a second brings
/// a gigabyte.
const EARLY_BYTES_MAX: u64 = 64 << 20;
/// Of portions that are under way at the same time.
const PORTIONS_AT_ONCE: usize = 16;

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
        self.index.want(asked, sizes, self.shared_cache(), || self.read_index_pages());
    }

    /// Reads all index pages of a segment that is being opened, or takes them from the end of its file, which was read
    /// already: as long as those of all segments are few, and so take little time. Others are read when they are asked for.
    pub(super) fn hold_index_early(&self, end: &FileEnd) {
        let (offset, bytes) = self.summary.area();
        let taken = end.bytes_at(offset, bytes);
        let most = if taken.is_some() { u64::MAX } else { EARLY_BYTES_MAX };
        let held_bytes = self.held_index_bytes();
        let Some(share) = PageCache::reserve_within(self.shared_cache(), held_bytes, most) else {
            return;
        };
        self.index.hold(share, || match taken {
            None => self.read_index_pages(),
            Some(bytes) => {
                let mut pages = Vec::with_capacity(self.summary.len());
                self.take_pages(0..self.summary.len(), offset, bytes, &mut pages)?;
                Ok(pages.into())
            }
        });
    }

    fn held_index_bytes(&self) -> u64 {
        self.summary.area().1 + (self.summary.len() * size_of::<IndexPage>()) as u64
    }

    fn read_index_pages(&self) -> Result<Box<[IndexPage]>> {
        let mut portions: Vec<(Range<usize>, Range<u64>)> = Vec::new();
        for number in 0..self.summary.len() {
            let (offset, bytes) = self.summary.place(number);
            let end = offset + u64::from(bytes);
            match portions.last_mut() {
                Some((pages, range)) if end - range.start <= PORTION_BYTES => {
                    (pages.end, range.end) = (number + 1, end);
                }
                _ => portions.push((number..number + 1, offset..end)),
            }
        }
        let mut read = Vec::with_capacity(self.summary.len());
        for together in portions.chunks(PORTIONS_AT_ONCE) {
            let ranges: Vec<Range<u64>> = together.iter().map(|(_, range)| range.clone()).collect();
            let loaded = self.cache().read_ranges(self.file(), &ranges, PageKind::Index);
            for ((pages, range), bytes) in together.iter().zip(loaded) {
                self.take_pages(pages.clone(), range.start, bytes?.as_slice(), &mut read)?;
            }
        }
        Ok(read.into())
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
