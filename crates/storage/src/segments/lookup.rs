//! Rows of a segment by their keys.
//!
//! A key costs one index page and one block; or, where it may as well be in another piece, one page of the filter, and the
//! block unless that excludes it. Of many keys the index pages are read together, then the filters, then the blocks.

use std::sync::atomic::Ordering;

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::byte_bounds;
use drillcore_format::index_page::{BlockPlace, FilterPlace, key_hash, may_contain};
use drillcore_format::key::{Bound, Keys};
use drillcore_format::rows::{Projection, Rows};
use smallvec::smallvec;

use crate::error::Result;
use crate::few::Few;
use crate::segments::dictionaries;
use crate::segments::extents::ExtentsAhead;
use crate::segments::resident_index::HeldIndexPage;
use crate::segments::segment::Segment;
use crate::segments::windows::{block_windows, read_ahead};

/// Keys that are looked up together.
const KEYS_AT_ONCE: usize = 4096;
/// Bounds whose index pages are looked at together.
const BOUNDS_AT_ONCE: usize = 1024;

/// The newest rows of some keys.
pub struct Hits {
    /// The number of each key, in the order that was asked for, and of its row in `rows`.
    pub found: Vec<(u32, u32)>,
    /// The rows that were found, with the columns that were asked for.
    pub rows: Rows,
}

/// A key and the block that holds its newest row, if the segment has one.
struct Candidate<'a> {
    number: u32,
    key: &'a [u8],
    place: BlockPlace,
    /// The filter was asked, and does not exclude the key.
    is_let_through: bool,
}

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

    /// The newest row of each key that `asked` names by number, and that the segment has: best in the order of the keys. For each
    /// key one index page and one block; for a key that `may_be_elsewhere`, a page of the filter, and the block unless
    /// that excludes it. `go_on` is asked before some keys; if it
    /// says no, what was found so far is returned. Rows whose keys and strings take more than `bytes_max` are not
    /// all looked for: the caller has no use for some of them.
    pub fn get(
        &self,
        keys: &Keys,
        asked: &[u32],
        projection: &Projection,
        bytes_max: usize,
        may_be_elsewhere: &dyn Fn(&[u8]) -> bool,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Hits>> {
        let mut hits = Vec::new();
        let mut hit_bytes = 0;
        let mut found = Vec::new();
        let mut builder: Option<RowsBuilder> = None;
        let has_extents = projection.has_strings();
        // Those of a wave stay until the next has come, which so finds them.
        let mut held = None;
        for asked in asked.chunks(KEYS_AT_ONCE) {
            if !go_on() {
                break;
            }
            let keys = asked.iter().map(|&number| (number, keys.value(number as usize)));
            let candidates = self.candidates(keys, may_be_elsewhere)?;
            if candidates.is_empty() {
                continue;
            }
            let read = |window: &[Candidate<'_>]| {
                let block = |candidate: &Candidate<'_>| self.block_request(&candidate.place);
                let blocks: Few<_> = window.iter().map(block).collect();
                dictionaries::of_each(self.shared_cache(), &[self], projection, &blocks)
            };
            let bytes = |candidate: &Candidate<'_>| candidate.place.bytes;
            let wants_more =
                read_ahead(&candidates, bytes, read, |window, (dictionaries, payloads)| {
                    let dictionaries = &held.insert(dictionaries?)[0];
                    let payloads = payloads.into_iter().collect::<Result<Few<_>>>()?;
                    // Of each key the block and the row in it, if it is there.
                    let found_in = |(candidate, payload): (&Candidate<'_>, _)| {
                        let view = self.view(&candidate.place, payload, dictionaries)?;
                        Ok((self.newest(&view, candidate)?, view))
                    };
                    let views = window.iter().zip(payloads.iter().map(AsRef::as_ref)).map(found_in);
                    let views = views.collect::<Result<Few<_>>>()?;
                    let has_extents =
                        has_extents && window.iter().any(|found| found.place.extent_bytes > 0);
                    let mut ahead = ExtentsAhead::default();
                    for (number, (candidate, (row, view))) in window.iter().zip(&views).enumerate()
                    {
                        if !go_on() {
                            return Ok(false);
                        }
                        let place = &candidate.place;
                        let extents = match has_extents {
                            false => Vec::new(),
                            true => ahead.next(self.cache(), |further| {
                                let at = number + further;
                                let Some((row, view)) = views.get(at) else { return Ok(None) };
                                let places = match (row, window[at].place.extent_bytes) {
                                    (None, _) | (_, 0) => Vec::new(),
                                    (Some(row), _) => {
                                        let (offset, row) =
                                            (window[at].place.offset, [*row as u32]);
                                        self.extents_of(
                                            offset,
                                            view,
                                            projection,
                                            Picked::Rows(&row),
                                        )?
                                    }
                                };
                                Ok(Some((self, places)))
                            })?,
                        };
                        let Some(row) = *row else { continue };
                        let view = view.clone().with_extents(&extents);
                        let builder_here =
                            builder.get_or_insert_with(|| RowsBuilder::new(projection, 1));
                        builder_here
                            .append_rows(&view, &[row as u32])
                            .map_err(|error| self.damaged(place.offset, error))?;
                        found.push((candidate.number, found.len() as u32));
                        let is_full = |builder: &mut RowsBuilder| {
                            builder.string_bytes() >= byte_bounds::batch()
                        };
                        if let Some(full) = builder.take_if(is_full) {
                            hit_bytes += full.string_bytes();
                            let rows = self.finish(full)?;
                            hits.push(Hits { found: std::mem::take(&mut found), rows });
                            if hit_bytes > bytes_max {
                                return Ok(false);
                            }
                        }
                    }
                    Ok(true)
                });
            if !wants_more? && hit_bytes > bytes_max {
                return Ok(hits);
            }
        }
        if let Some(builder) = builder {
            hits.push(Hits { found, rows: self.finish(builder)? });
        }
        Ok(hits)
    }

    /// Whether any row has this key: the cost of [`Segment::get`] for a key that may be elsewhere.
    pub fn has_key(&self, key: &[u8]) -> Result<bool> {
        let Some(candidate) = self.candidates([(0, key)], &|_| true)?.pop() else {
            return Ok(false);
        };
        let payload = self.block(&candidate.place)?;
        let view = self.view(&candidate.place, &payload, &[])?;
        Ok(self.newest(&view, &candidate)?.is_some())
    }

    /// Whether the key lies between the first key and the last: else no row has it. Reads nothing.
    pub fn spans(&self, key: &[u8]) -> bool {
        *self.footer.first_key <= *key && *key <= *self.footer.last_key
    }

    /// The blocks in which keys may be. The filter is asked of those keys that may also be elsewhere.
    fn candidates<'k>(
        &self,
        keys: impl IntoIterator<Item = (u32, &'k [u8])>,
        may_be_elsewhere: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Few<Candidate<'k>>> {
        let within: Few<(u32, &[u8])> =
            keys.into_iter().filter(|(_, key)| self.spans(key)).collect();
        let page_of = |key| (self, self.summary.page_of_bound(&Bound::past_key(key)));
        let wanted: Few<_> = within.iter().map(|(_, key)| page_of(key)).collect();
        let pages = Segment::index_pages_of(self.cache(), &wanted);
        let pages = pages.into_iter().collect::<Result<Few<_>>>()?;
        // Which keys the filter is asked of, and where.
        let mut asked: Few<(usize, u64, FilterPlace)> = Few::new();
        for (at, ((_, key), page)) in within.iter().zip(&pages).enumerate() {
            if may_be_elsewhere(key) {
                let hash = key_hash(key);
                asked.extend(page.filter_place(hash).map(|place| (at, hash, place)));
            }
        }
        let requests: Few<_> = asked
            .iter()
            .map(|(at, _, place)| self.filter_request(wanted[*at].1, place.page))
            .collect();
        // Whether a key passes the filter, of those that it was asked of.
        let mut passes: Few<Option<bool>> = smallvec![None; within.len()];
        for ((at, hash, place), (request, payload)) in
            asked.into_iter().zip(requests.iter().zip(self.cache().payloads(&requests)))
        {
            let may_be_here = may_contain(&payload?, place, hash);
            passes[at] = Some(may_be_here.map_err(|error| self.damaged(request.offset, error))?);
        }
        let mut candidates = Few::with_capacity(within.len());
        for (at, ((number, key), page)) in within.into_iter().zip(pages).enumerate() {
            if passes[at] != Some(false) {
                let place = page.block_of_bound(&Bound::past_key(key));
                let is_let_through = passes[at] == Some(true);
                candidates.push(Candidate { number, key, place, is_let_through });
            }
        }
        Ok(candidates)
    }

    /// The newest row with a key, if there is one, in its block.
    ///
    /// The separator of the block after is above the key, and the one of this block is not: so the row lies in this one.
    fn newest(&self, view: &BlockView<'_>, candidate: &Candidate<'_>) -> Result<Option<usize>> {
        let damaged = |error| self.damaged(candidate.place.offset, error);
        let past = view.rank(&Bound::past_key(candidate.key)).map_err(damaged)?;
        match past.checked_sub(1) {
            Some(newest) if view.compare_key(newest, candidate.key).map_err(damaged)?.is_eq() => {
                Ok(Some(newest))
            }
            _ => {
                let in_vain = u64::from(candidate.is_let_through);
                self.cache().counts().filter_false_positives.fetch_add(in_vain, Ordering::Relaxed);
                Ok(None)
            }
        }
    }
}
