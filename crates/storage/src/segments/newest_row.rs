//! The newest row of one key in one segment: what most calls for a row by its key come down to. Several keys, or segments, are
//! [looked up](crate::segments::lookup) together.

use std::sync::atomic::Ordering;

use drillcore_format::block::{BlockView, Picked, RowsBuilder};
use drillcore_format::index_page::{BlockPlace, IndexPage, key_hash, may_contain};
use drillcore_format::key::Bound;
use drillcore_format::rows::{Projection, Rows};

use crate::error::Result;
use crate::segments::segment::Segment;

impl Segment {
    /// Whether the key lies between the first key and the last: else no row has it. Reads nothing.
    pub fn spans(&self, key: &[u8]) -> bool {
        *self.footer.first_key <= *key && *key <= *self.footer.last_key
    }

    /// The newest row with a key that the segment [spans](Segment::spans), if there is one. An index page, and a block with the dictionaries that it needs; between them
    /// a page of the filter, if that is to be asked, which may spare the block.
    pub fn newest_row(
        &self,
        key: &[u8],
        projection: &Projection,
        asks_filter: bool,
    ) -> Result<Option<Rows>> {
        let past = Bound::past_key(key);
        let number = self.summary.page_of_bound(&past);
        let page = self.index_page(number)?;
        if asks_filter && !self.passes_filter(&page, number, key)? {
            return Ok(None);
        }
        let place = page.block_of_bound(&past);
        let (dictionaries, payload) = self.dictionaries_with_block(projection, &place);
        let (dictionaries, payload) = (dictionaries?, payload?);
        let view = self.view(&place, &payload, &dictionaries)?;
        let Some(row) = self.newest_in_block(&view, key, &past, &place, asks_filter)? else {
            return Ok(None);
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
        self.finish(rows).map(Some)
    }

    /// Whether the filter of an index page lets a key through.
    fn passes_filter(&self, page: &IndexPage, number: usize, key: &[u8]) -> Result<bool> {
        let hash = key_hash(key);
        let Some(place) = page.filter_place(hash) else { return Ok(true) };
        let request = self.filter_request(number, place.page);
        let payload = self.cache().payload(request)?;
        may_contain(&payload, place, hash).map_err(|error| self.damaged(request.offset, error))
    }

    /// The newest row with a key in the block that holds it, if a row has it; `past` is the bound behind it.
    ///
    /// The separator of the block after is above the key, and the one of this block is not: so the row lies in this one.
    pub(super) fn newest_in_block(
        &self,
        view: &BlockView<'_>,
        key: &[u8],
        past: &Bound,
        place: &BlockPlace,
        is_let_through: bool,
    ) -> Result<Option<u32>> {
        let damaged = |error| self.damaged(place.offset, error);
        let past = view.rank(past).map_err(damaged)?;
        match past.checked_sub(1) {
            Some(newest) if view.compare_key(newest, key).map_err(damaged)?.is_eq() => {
                Ok(Some(newest as u32))
            }
            _ => {
                let in_vain = u64::from(is_let_through);
                self.cache().counts().filter_false_positives.fetch_add(in_vain, Ordering::Relaxed);
                Ok(None)
            }
        }
    }
}
