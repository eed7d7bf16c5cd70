//! What the rows of a segment weigh.
//!
//! Index pages have the running sums of their blocks. So a sum over rows in a row, and the row with some unit of weight, cost
//! an index page and a block; those of many units are read together.

use drillcore_format::error::FormatError;
use drillcore_format::index_page::{BlockPlace, IndexPage};
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::weight::stored_units;

use crate::error::Result;
use crate::few::Few;
use crate::segments::segment::Segment;
use crate::segments::windows::block_windows;

/// Units that are looked for together.
const UNITS_AT_ONCE: usize = 1024;

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
        if ordinal == 0 {
            return Ok(0);
        }
        if ordinal == self.rows() {
            return Ok(self.summary.weight_before(weight, self.summary.len()));
        }
        let number = self.summary.page_of_ordinal(ordinal);
        let page = self.index_page(number)?;
        let place = page.block_of_ordinal(ordinal);
        let before =
            self.summary.weight_before(weight, number) + page.weight_before(weight, place.number);
        let rows_before = (ordinal - place.first_ordinal) as usize;
        if rows_before == 0 {
            return Ok(before);
        }
        let payload = self.block(&place)?;
        let of_block = self.view(&place, &payload, &[])?;
        let of_block = of_block.weight_before(&self.weight_alone(weight), rows_before);
        Ok(before + of_block.map_err(|error| self.damaged(place.offset, error))?)
    }

    /// The rows that hold some units of a weight column, counted from 0 over all rows, each with its units. They must lie
    /// below the sum of all rows. One index page and one block each; what has to be read is read together.
    pub fn rows_of_weight(&self, weight: usize, units: &[u128]) -> Result<Vec<(u64, u128)>> {
        let mut found = vec![(0, 0); units.len()];
        let projection = self.weight_alone(weight);
        // By place, so that what is read lies together.
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_unstable_by_key(|&number| units[number]);
        for order in order.chunks(UNITS_AT_ONCE) {
            let sought = self.blocks_of_weight(weight, units, order)?;
            for window in block_windows(&sought, |sought| sought.place.bytes) {
                let requests: Few<_> =
                    window.iter().map(|sought| self.block_request(&sought.place)).collect();
                let payloads = self.cache().payloads(&requests).into_iter();
                let payloads = payloads.collect::<Result<Few<_>>>()?;
                for (sought, payload) in window.iter().zip(payloads) {
                    found[sought.number] = self.row_of_unit(&projection, sought, &payload)?;
                }
            }
        }
        Ok(found)
    }

    /// The blocks that hold some of the units.
    fn blocks_of_weight(
        &self,
        weight: usize,
        units: &[u128],
        order: &[usize],
    ) -> Result<Vec<Sought>> {
        let page_of = |&number: &usize| self.summary.page_of_weight(weight, units[number]);
        let mut wanted: Vec<(&Segment, usize)> =
            order.iter().map(page_of).map(|page| (self, page)).collect();
        wanted.dedup_by_key(|(_, page)| *page);
        let pages = Segment::index_pages_of(self.cache(), &wanted);
        let pages = pages.into_iter().collect::<Result<Few<_>>>()?;
        let mut sought = Vec::with_capacity(order.len());
        let mut at = 0;
        for number in order {
            while wanted[at].1 != page_of(number) {
                at += 1;
            }
            let page: &IndexPage = &pages[at];
            let in_page = units[*number] - self.summary.weight_before(weight, wanted[at].1);
            let place = page.block_of_weight(weight, in_page);
            sought.push(Sought {
                number: *number,
                place,
                rest: in_page - page.weight_before(weight, place.number),
            });
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
