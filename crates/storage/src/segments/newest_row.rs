//! The newest row of one key in one segment: what most calls for a row by its key come down to. Several keys, or segments, are
//! [looked up](crate::segments::lookup) together.

use std::sync::atomic::Ordering;

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::index_page::{BlockPlace, IndexPage, key_hash, may_contain};
use drillcore_format::key::Bound;
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::rows::{Projection, Rows};

use crate::error::Result;
use crate::segments::segment::Segment;

/// What a block says of the rows with a key.
#[derive(Clone, Copy)]
pub(super) enum InBlock {
    /// The newest is this row of it.
    Row(u32),
    /// There is none.
    Nothing,
    /// Those that it has were erased, and there may be more in the blocks before it: the newest is the row with this ordinal, if that
    /// has the key.
    Before(u64),
}

impl Segment {
    /// Whether the key lies between the first key and the last: else no row has it. Reads nothing.
    pub fn spans(&self, key: &[u8]) -> bool {
        *self.footer.first_key <= *key && *key <= *self.footer.last_key
    }

    /// The newest row with a key that the segment [spans](Segment::spans), if there is one that was not erased. An index page, and a block
    /// with the dictionaries that it needs; between them a page of the filter, if that is to be asked, which may spare the block. If all
    /// rows with the key that the block has were erased, and there are more before it, another index page and another block.
    pub fn newest_row(
        &self,
        key: &[u8],
        projection: &Projection,
        erased: Option<&OrdinalIntervals>,
        mut asks_filter: bool,
    ) -> Result<Option<Rows>> {
        let past = Bound::past_key(key);
        let number = self.summary.page_of_bound(&past);
        let page = self.index_page(number)?;
        if asks_filter && !self.passes_filter(&page, number, key)? {
            return Ok(None);
        }
        let mut place = page.block_of_bound(&past);
        loop {
            let (dictionaries, payload) = self.dictionaries_with_block(projection, &place);
            let (dictionaries, payload) = (dictionaries?, payload?);
            let view = self.view(&place, &payload, &dictionaries)?;
            let row = match self.newest_in_block(&view, key, &past, &place, erased, asks_filter)? {
                InBlock::Row(row) => row,
                InBlock::Nothing => return Ok(None),
                InBlock::Before(ordinal) => {
                    (place, asks_filter) = (self.block_of_ordinal(ordinal)?, false);
                    continue;
                }
            };
            let extents = match place.extent_bytes > 0 && projection.has_strings() {
                false => Vec::new(),
                true => {
                    let rows = Picked::Rows(&[row]);
                    self.extents(&self.extents_of(place.offset, &view, projection, rows)?)?
                }
            };
            let mut rows = RowsBuilder::new(projection, 1);
            rows.append_rows(&view.with_extents(&extents), &[row])
                .map_err(|error| self.damaged(place.offset, error))?;
            return self.finish(rows).map(Some);
        }
    }

    /// Where the row with an ordinal lies. An index page.
    pub(super) fn block_of_ordinal(&self, ordinal: u64) -> Result<BlockPlace> {
        let page = self.index_page(self.summary.page_of_ordinal(ordinal))?;
        Ok(page.block_of_ordinal(ordinal))
    }

    /// Whether the filter of an index page lets a key through.
    fn passes_filter(&self, page: &IndexPage, number: usize, key: &[u8]) -> Result<bool> {
        let hash = key_hash(key);
        let Some(place) = page.filter_place(hash) else { return Ok(true) };
        let request = self.filter_request(number, place.page);
        let payload = self.cache().payload(request)?;
        may_contain(&payload, place, hash).map_err(|error| self.damaged(request.offset, error))
    }

    /// The newest row with a key in the block that holds it, if a row has it, but for those that were erased; `past` is the bound behind
    /// it.
    ///
    /// The separator of the block after is above the key, and the one of this block is not: so the row lies in this one.
    pub(super) fn newest_in_block(
        &self,
        view: &BlockView<'_>,
        key: &[u8],
        past: &Bound,
        place: &BlockPlace,
        erased: Option<&OrdinalIntervals>,
        is_let_through: bool,
    ) -> Result<InBlock> {
        let damaged = |error| self.damaged(place.offset, error);
        let has_key = |row: usize| Ok(view.compare_key(row, key).map_err(damaged)?.is_eq());
        let end = view.rank(past).map_err(damaged)?;
        let newest = match end.checked_sub(1) {
            Some(row) if has_key(row)? => Some(row),
            _ => None,
        };
        let Some(newest) = newest else {
            let in_vain = u64::from(is_let_through);
            self.cache().counts().filter_false_positives.fetch_add(in_vain, Ordering::Relaxed);
            return Ok(InBlock::Nothing);
        };
        let Some(erased) = erased else { return Ok(InBlock::Row(newest as u32)) };
        // The last one up to it that was not erased.
        let end = place.first_ordinal + end as u64;
        let Some(position) = (end - erased.rank(end)).checked_sub(1) else {
            return Ok(InBlock::Nothing);
        };
        let ordinal = erased.outside(position);
        Ok(match ordinal.checked_sub(place.first_ordinal) {
            Some(row) if has_key(row as usize)? => InBlock::Row(row as u32),
            None if has_key(0)? => InBlock::Before(ordinal),
            _ => InBlock::Nothing,
        })
    }
}
