//! The index pages of a segment: where its blocks lie.
//!
//! They lie side by side in the file. Once as many of them were asked for as make reading all of them worth its time, they are
//! read together and stay as long as the segment is open, if they fit the share of the page cache that is for this. Until then,
//! and else, they come through the cache one by one.

use std::ops::Range;

use drillcore_format::error::FormatError;
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::key::Bound;
use drillcore_format::page::PageKind;

use crate::error::Result;
use crate::pages::page_cache::{Few, PageCache};
use crate::pages::paged_file::PageRequest;
use crate::segments::fit;
use crate::segments::resident_index::HeldIndexPage;
use crate::segments::segment::Segment;

/// Bytes that are asked for at once.
const PORTION_BYTES: u64 = 256 << 10;
/// Of portions that are under way at the same time.
const PORTIONS_AT_ONCE: usize = 16;

impl Segment {
    pub(super) fn index_page(&self, number: usize) -> Result<HeldIndexPage<'_>> {
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
        let bytes = self.summary.area().1;
        let held_bytes = bytes + (self.summary.len() * size_of::<IndexPage>()) as u64;
        let read = || self.read_index_pages();
        self.index.want(asked, (bytes, held_bytes), self.shared_cache(), read);
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
                let bytes = bytes?;
                for number in pages.clone() {
                    let (offset, len) = self.summary.place(number);
                    let at = (offset - range.start) as usize;
                    let page = &bytes.as_slice()[at..at + len as usize];
                    let payload = self.file().payload(page, PageKind::Index, offset)?;
                    read.push(self.checked_index_page(number, payload)?);
                }
            }
        }
        Ok(read.into())
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
