//! What the rows of a segment weigh.
//!
//! Index pages have the running sums of their blocks. So a sum over rows in a row, and the row with some unit of weight, cost
//! an index page and a block; those of many units are read together.

use drillcore_format::error::FormatError;
use drillcore_format::ids::SegmentId;
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::weight::stored_units;

use crate::error::Result;
use crate::few::Few;
use crate::segments::segment::Segment;
use crate::segments::windows::block_windows;

/// Units that are looked for together, and ends of intervals that are weighed together.
const AT_ONCE: usize = 1024;

/// The unit of a weight that is looked for, and the block that has it.
struct Sought {
    /// The number of the unit among those asked for.
    number: usize,
    place: BlockPlace,
    /// How many units of the block lie before this one.
    rest: u128,
}

impl Segment {
    /// The sum of a weight column over the rows before `ordinal`. At most one index page and one block.
    pub fn weight_before(&self, weight: usize, ordinal: u64) -> Result<u128> {
        let mut sums = Segment::weights_before(&[(self, ordinal)], weight)?;
        Ok(sums.pop().expect("one was asked for"))
    }

    /// The sums of a weight column over the rows before some ordinals, each in its segment; these share a page cache. At most one index page
    /// and one block each: the index pages are read together, then the blocks.
    pub fn weights_before(wanted: &[(&Segment, u64)], weight: usize) -> Result<Few<u128>> {
        let mut sums: Few<u128> = Few::new();
        let mut within: Few<(usize, usize)> = Few::new();
        for (at, &(segment, ordinal)) in wanted.iter().enumerate() {
            let page = match ordinal {
                0 => 0,
                ordinal if ordinal == segment.rows() => segment.summary.len(),
                ordinal => {
                    let page = segment.summary.page_of_ordinal(ordinal);
                    within.push((at, page));
                    page
                }
            };
            sums.push(segment.summary.weight_before(weight, page));
        }
        let Some(&(first, _)) = within.first() else { return Ok(sums) };
        let cache = wanted[first].0.cache();
        for within in within.chunks(AT_ONCE) {
            let pages: Few<_> = within.iter().map(|&(at, page)| (wanted[at].0, page)).collect();
            let pages = Segment::index_pages_of(cache, &pages);
            let mut places: Few<(usize, BlockPlace)> = Few::new();
            for (&(at, _), page) in within.iter().zip(pages) {
                let (page, ordinal) = (page?, wanted[at].1);
                let place = page.block_of_ordinal(ordinal);
                sums[at] += page.weight_before(weight, place.number);
                if place.first_ordinal < ordinal {
                    places.push((at, place));
                }
            }
            for window in block_windows(&places, |(_, place)| place.bytes) {
                let request =
                    |(at, place): &(usize, BlockPlace)| wanted[*at].0.block_request(place);
                let requests: Few<_> = window.iter().map(request).collect();
                for ((at, place), payload) in window.iter().zip(cache.payloads(&requests)) {
                    let (segment, ordinal) = wanted[*at];
                    let rows = (ordinal - place.first_ordinal) as usize;
                    let (payload, alone) = (payload?, segment.weight_alone(weight));
                    let of_block = segment.view(place, &payload, &[])?.weight_before(&alone, rows);
                    sums[*at] += of_block.map_err(|error| segment.damaged(place.offset, error))?;
                }
            }
        }
        Ok(sums)
    }

    /// The rows that hold some units of a weight column, counted from 0 over all rows of a segment, each with its units. Units must lie
    /// below the sum of all rows; the segments share a page cache. One index page and one block each; what has to be read is read together.
    pub fn rows_of_weight(wanted: &[(&Segment, u128)], weight: usize) -> Result<Vec<(u64, u128)>> {
        let mut found = vec![(0, 0); wanted.len()];
        // By place, so that what is read lies together.
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_unstable_by_key(|&number| (wanted[number].0.id(), wanted[number].1));
        for order in order.chunks(AT_ONCE) {
            let sought = Segment::blocks_of_weight(wanted, order, weight)?;
            for window in block_windows(&sought, |sought| sought.place.bytes) {
                let segment = |sought: &Sought| wanted[sought.number].0;
                let requests: Few<_> = window
                    .iter()
                    .map(|sought| segment(sought).block_request(&sought.place))
                    .collect();
                let payloads = segment(&window[0]).cache().payloads(&requests).into_iter();
                let payloads = payloads.collect::<Result<Few<_>>>()?;
                let mut projection: Option<(SegmentId, Projection)> = None;
                for (sought, payload) in window.iter().zip(payloads) {
                    let segment = segment(sought);
                    let alone = match &projection {
                        Some((id, alone)) if *id == segment.id() => alone,
                        _ => &projection.insert((segment.id(), segment.weight_alone(weight))).1,
                    };
                    found[sought.number] = segment.row_of_unit(alone, sought, &payload)?;
                }
            }
        }
        Ok(found)
    }

    /// The blocks that hold some of the units, in the order of their numbers in `order`.
    fn blocks_of_weight(
        wanted: &[(&Segment, u128)],
        order: &[usize],
        weight: usize,
    ) -> Result<Vec<Sought>> {
        let page_of = |&number: &usize| {
            let (segment, unit) = wanted[number];
            (segment, segment.summary.page_of_weight(weight, unit))
        };
        let pages_of: Vec<(&Segment, usize)> = order.iter().map(page_of).collect();
        let mut distinct = pages_of.clone();
        distinct.dedup_by_key(|(segment, page)| (segment.id(), *page));
        let pages = Segment::index_pages_of(distinct[0].0.cache(), &distinct);
        let pages = pages.into_iter().collect::<Result<Few<_>>>()?;
        let mut sought = Vec::with_capacity(order.len());
        let mut at = 0;
        for (&number, (segment, page)) in order.iter().zip(pages_of) {
            while (distinct[at].0.id(), distinct[at].1) != (segment.id(), page) {
                at += 1;
            }
            let in_page = wanted[number].1 - segment.summary.weight_before(weight, page);
            let page: &IndexPage = &pages[at];
            let place = page.block_of_weight(weight, in_page);
            let rest = in_page - page.weight_before(weight, place.number);
            sought.push(Sought { number, place, rest });
        }
        Ok(sought)
    }

    /// A weight column and nothing else.
    fn weight_alone(&self, weight: usize) -> Projection {
        let value = self.layout().weight_values().nth(weight).expect("the weight was looked up");
        self.layout().stored(false, vec![value])
    }

    /// The row of a block that has a unit, and its units. `projection` is that of the weight alone.
    fn row_of_unit(
        &self,
        projection: &Projection,
        sought: &Sought,
        payload: &[u8],
    ) -> Result<(u64, u128)> {
        let place = &sought.place;
        let view = self.view(place, payload, &[])?;
        let found = view.row_of_unit(projection, sought.rest).and_then(|found| {
            let less =
                || FormatError::malformed("block", "it weighs less than its index page says");
            found.ok_or_else(less)
        });
        let (row, units) = found.map_err(|error| self.damaged(place.offset, error))?;
        Ok((place.first_ordinal + row as u64, units.into()))
    }
}

/// Of each weight column what each row weighs, of rows that hold the columns of a projection, with all the weights among them.
pub(crate) fn weights_of(
    layout: &Layout,
    rows: &Rows,
    projection: &Projection,
) -> std::result::Result<Vec<Vec<u64>>, FormatError> {
    let units = |value: usize| {
        let position = projection.values.binary_search(&value).expect("it has all weights");
        stored_units(rows.value(position)).map_err(|(row, why)| {
            FormatError::malformed("block", format!("the weight of row {row} is {why:?}"))
        })
    };
    layout.weight_values().map(units).collect()
}
