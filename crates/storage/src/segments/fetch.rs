//! Rows of segments by their ordinals.
//!
//! The index pages that are needed are read together, then the blocks: each once, in waves, whatever segment they
//! belong to. So a call costs as many reads as it has blocks, and about as much time as the device takes for them at once.

use std::ops::Range;
use std::sync::Arc;

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::extents::ExtentPlace;
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::rows::{Projection, Rows};

use crate::error::Result;
use crate::few::Few;
use crate::pages::page_cache::{PageCache, WithPayloads};
use crate::pages::paged_file::PageRequest;
use crate::segments::dictionaries;
use crate::segments::extents::ExtentsAhead;
use crate::segments::segment::Segment;
use crate::segments::windows::read_ahead;

/// Index pages that are looked at together: some MiB, where they are not resident.
const PAGES_AT_ONCE: usize = 1024;

/// Rows of one segment that are wanted: their ordinals ascend, or they descend.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The segment to read from.
    pub segment: &'a Segment,
    /// Positions of the rows in the segment, counted from 0 in the order of keys.
    pub ordinals: &'a [u32],
}

/// Ordinals that lie in one index page.
struct InPage {
    wanted: usize,
    page: usize,
    ordinals: Range<usize>,
}

/// Ordinals that lie in one block.
struct InBlock {
    wanted: usize,
    place: BlockPlace,
    ordinals: Range<usize>,
}

/// Where rows are read, and what of them.
struct Source<'a> {
    wanted: &'a [Wanted<'a>],
    projection: &'a Projection,
    /// That of all segments.
    cache: &'a Arc<PageCache>,
}

/// Rows on their way from blocks to the caller.
struct Copying<'a> {
    source: &'a Source<'a>,
    bytes_max: usize,
    each: &'a mut dyn FnMut(usize, Rows) -> bool,
    /// The rows of the current request that were not handed on yet.
    open: Option<RowsBuilder>,
    in_block: Vec<u32>,
}

/// Copies the wanted rows, of segments that share a page cache. `each` gets them with the number of the request that
/// they are of, those of one request in its order: as many at once as reach `bytes_max` with their keys and strings. If
/// it says no, the rest is not read. `go_on` is asked before each block.
pub fn fetch(
    wanted: &[Wanted<'_>],
    projection: &Projection,
    bytes_max: usize,
    go_on: &dyn Fn() -> bool,
    each: &mut dyn FnMut(usize, Rows) -> bool,
) -> Result<()> {
    let Some(cache) = wanted.first().map(|wanted| wanted.segment.shared_cache()) else {
        return Ok(());
    };
    let source = &Source { wanted, projection, cache };
    let mut copying = Copying { source, bytes_max, each, open: None, in_block: Vec::new() };
    // Those of a wave stay until the next has come, which so finds them.
    let mut held: Option<dictionaries::Ahead> = None;
    for pages in in_pages(wanted).chunks(PAGES_AT_ONCE) {
        if !go_on() {
            return Ok(());
        }
        let blocks = source.blocks_of(pages)?;
        let goes_on = read_ahead(
            &blocks,
            |block| block.place.bytes,
            |window: &[InBlock]| source.read(window),
            |window, (dictionaries, payloads)| {
                let dictionaries = held.insert(dictionaries?);
                let payloads = payloads.into_iter().collect::<Result<Few<_>>>()?;
                source.copy(window, &payloads, dictionaries, go_on, &mut copying)
            },
        );
        if !goes_on? {
            return Ok(());
        }
    }
    Ok(())
}

impl Source<'_> {
    /// The blocks that hold the ordinals of some index pages, which are read together.
    fn blocks_of(&self, pages: &[InPage]) -> Result<Vec<InBlock>> {
        let numbers: Vec<_> =
            pages.iter().map(|page| (self.wanted[page.wanted].segment, page.page)).collect();
        let mut blocks = Vec::new();
        for (in_page, page) in pages.iter().zip(Segment::index_pages_of(self.cache, &numbers)) {
            in_blocks(self.wanted, in_page, &*page?, &mut blocks);
        }
        Ok(blocks)
    }

    /// A wave of blocks: their payloads, and the dictionaries of the first ones.
    fn read(&self, window: &[InBlock]) -> WithPayloads<dictionaries::Ahead> {
        let request =
            |block: &InBlock| self.wanted[block.wanted].segment.block_request(&block.place);
        self.dictionaries_of(window, &window.iter().map(request).collect::<Vec<_>>())
    }

    fn dictionaries_of(
        &self,
        blocks: &[InBlock],
        requests: &[PageRequest<'_>],
    ) -> WithPayloads<dictionaries::Ahead> {
        let numbers = blocks.iter().map(|block| block.wanted);
        let segment = |number: usize| self.wanted[number].segment;
        dictionaries::Ahead::read(self.cache, numbers, segment, self.projection, requests)
    }

    /// Copies the rows of a wave of blocks. Says whether more is wanted.
    fn copy(
        &self,
        window: &[InBlock],
        payloads: &[Arc<[u8]>],
        dictionaries: &mut dictionaries::Ahead,
        go_on: &dyn Fn() -> bool,
        copying: &mut Copying<'_>,
    ) -> Result<bool> {
        let has_extents = self.projection.has_strings()
            && window.iter().any(|block| block.place.extent_bytes > 0);
        let mut ahead = ExtentsAhead::default();
        for (number, (block, payload)) in window.iter().zip(payloads).enumerate() {
            if !go_on() {
                return Ok(false);
            }
            let extents = match has_extents {
                false => Vec::new(),
                true => ahead.next(self.cache, |further| {
                    let at = number + further;
                    let Some(block) = window.get(at) else { return Ok(None) };
                    let places = self.extents_of(block, &payloads[at])?;
                    Ok(Some((self.wanted[block.wanted].segment, places)))
                })?,
            };
            if dictionaries.of(block.wanted).is_none() {
                *dictionaries = self.dictionaries_of(&window[number..], &[]).0?;
            }
            let of_segment = dictionaries.of(block.wanted).expect("they were read");
            let segment = self.wanted[block.wanted].segment;
            let view = segment.view(&block.place, payload, of_segment)?.with_extents(&extents);
            if !copying.append(block, &view)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where the values of a block lie that are wanted and lie apart.
    fn extents_of(&self, block: &InBlock, payload: &[u8]) -> Result<Vec<ExtentPlace>> {
        if block.place.extent_bytes == 0 {
            return Ok(Vec::new());
        }
        let segment = self.wanted[block.wanted].segment;
        let view = segment.view(&block.place, payload, &[])?;
        let rows = rows_in_block(self.wanted, block).collect::<Vec<_>>();
        segment.extents_of(block.place.offset, &view, self.projection, Picked::Rows(&rows))
    }
}

impl Copying<'_> {
    /// Copies the wanted rows of a block. Those of a request are handed on once they are complete, or many. Says whether
    /// more is wanted.
    fn append(&mut self, block: &InBlock, view: &BlockView<'_>) -> Result<bool> {
        let Source { wanted, projection, .. } = *self.source;
        let Wanted { segment, ordinals } = wanted[block.wanted];
        self.in_block.clear();
        self.in_block.extend(rows_in_block(wanted, block));
        let rest = ordinals.len() - block.ordinals.start;
        let rows = self.open.get_or_insert_with(|| RowsBuilder::new(projection, rest));
        rows.append_rows(view, &self.in_block)
            .map_err(|error| segment.damaged(block.place.offset, error))?;
        let is_last = block.ordinals.end == ordinals.len();
        if (is_last || rows.string_bytes() >= self.bytes_max)
            && let Some(rows) = self.open.take()
        {
            return Ok((self.each)(block.wanted, segment.finish(rows)?));
        }
        Ok(true)
    }
}

/// The rows of a block that are wanted.
fn rows_in_block<'a>(
    wanted: &'a [Wanted<'_>],
    block: &'a InBlock,
) -> impl Iterator<Item = u32> + 'a {
    let ordinals = wanted[block.wanted].ordinals[block.ordinals.clone()].iter();
    ordinals.map(|&ordinal| (u64::from(ordinal) - block.place.first_ordinal) as u32)
}

/// Which index pages hold the ordinals. Reads nothing: the summaries are resident.
fn in_pages(wanted: &[Wanted<'_>]) -> Vec<InPage> {
    let mut pages = Vec::new();
    for (number, Wanted { segment, ordinals }) in wanted.iter().enumerate() {
        let mut at = 0;
        while let Some(&first) = ordinals.get(at) {
            let page = segment.summary.page_of_ordinal(u64::from(first));
            let of_page = segment.ordinals_of_page(page);
            let rest = &ordinals[at..];
            let count = rest.partition_point(|&ordinal| of_page.contains(&u64::from(ordinal)));
            pages.push(InPage { wanted: number, page, ordinals: at..at + count });
            at += count;
        }
    }
    pages
}

/// Which blocks of an index page hold its ordinals.
fn in_blocks(wanted: &[Wanted<'_>], in_page: &InPage, page: &IndexPage, blocks: &mut Vec<InBlock>) {
    let ordinals = wanted[in_page.wanted].ordinals;
    let mut at = in_page.ordinals.start;
    while at < in_page.ordinals.end {
        let place = page.block_of_ordinal(u64::from(ordinals[at]));
        let of_block = place.first_ordinal..place.first_ordinal + u64::from(place.rows);
        let rest = &ordinals[at..in_page.ordinals.end];
        let count = rest.partition_point(|&ordinal| of_block.contains(&u64::from(ordinal)));
        blocks.push(InBlock { wanted: in_page.wanted, place, ordinals: at..at + count });
        at += count;
    }
}
