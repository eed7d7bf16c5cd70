//! Where the rows of segments begin that lie past a bound.

use drillcore_format::index_page::BlockPlace;
use drillcore_format::key::Bound;

use crate::error::Result;
use crate::few::Few;
use crate::segments::resident_index::HeldIndexPage;
use crate::segments::segment::Segment;
use crate::segments::windows::block_windows;

/// Bounds whose index pages are looked at together.
const BOUNDS_AT_ONCE: usize = 1024;

impl Segment {
    /// The ordinal of the first row at or past `bound`. At most one index page and one block.
    pub fn rank(&self, bound: &Bound) -> Result<u64> {
        let mut ranks = Segment::ranks(&[(self, bound)])?;
        Ok(ranks.pop().expect("one was asked for"))
    }

    /// The ordinals of the first rows at or past some bounds, each in its segment; these share a page cache. At most one index page and one
    /// block each: the index pages are read together, then the blocks.
    pub fn ranks(wanted: &[(&Segment, &Bound)]) -> Result<Few<u64>> {
        let mut ranks: Few<u64> = Few::new();
        let mut within: Few<usize> = Few::new();
        for (at, (segment, bound)) in wanted.iter().enumerate() {
            let is_behind = !bound.lies_before(&segment.footer.last_key);
            ranks.push(if is_behind { segment.rows() } else { 0 });
            if !is_behind && !bound.lies_before(&segment.footer.first_key) {
                within.push(at);
            }
        }
        let Some(&first) = within.first() else { return Ok(ranks) };
        let cache = wanted[first].0.cache();
        for within in within.chunks(BOUNDS_AT_ONCE) {
            let page_of = |&at: &usize| {
                let (segment, bound) = wanted[at];
                (segment, segment.summary.page_of_bound(bound))
            };
            let pages: Few<_> = within.iter().map(page_of).collect();
            let pages = Segment::index_pages_of(cache, &pages).into_iter();
            let place = |(page, &at): (Result<HeldIndexPage<'_>>, &usize)| {
                Ok((at, page?.block_of_bound(wanted[at].1)))
            };
            let places =
                pages.zip(within).map(place).collect::<Result<Few<(usize, BlockPlace)>>>()?;
            for window in block_windows(&places, |(_, place)| place.bytes) {
                let request =
                    |(at, place): &(usize, BlockPlace)| wanted[*at].0.block_request(place);
                let requests: Few<_> = window.iter().map(request).collect();
                for ((at, place), payload) in window.iter().zip(cache.payloads(&requests)) {
                    let (segment, bound) = wanted[*at];
                    let rank = segment.view(place, &payload?, &[])?.rank(bound);
                    let rank = rank.map_err(|error| segment.damaged(place.offset, error))?;
                    ranks[*at] = place.first_ordinal + rank as u64;
                }
            }
        }
        Ok(ranks)
    }
}
