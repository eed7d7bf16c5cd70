//! The resident level above the index pages: where each begins and lies.

use crate::cursor::{Cursor, put_bytes, put_varint, put_varint_u128};
use crate::error::Result;
use crate::index_page::search::last_before;
use crate::key::Bound;
use crate::weight::WEIGHTS_MAX;

/// First separator, first ordinal and place of every index page of a segment.
///
/// Held in flat arrays. A search costs O(log pages) and reads no page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The separators back to back; number `i` ends at `separator_ends[i]`.
    separators: Vec<u8>,
    separator_ends: Vec<usize>,
    first_ordinals: Vec<u64>,
    /// Where the index pages lie in the file, one behind the other ...
    offset: u64,
    /// ... and where each ends there, counted from the first.
    page_ends: Vec<u64>,
    /// The statistics pages, one for each index page.
    statistics: Vec<(u64, u32)>,
    /// Per weight column, its sum over all rows before each page, then over all rows.
    weight_sums: Vec<Vec<u128>>,
}

impl Summary {
    /// A summary of no pages.
    pub fn new() -> Summary {
        Summary::default()
    }

    /// Adds the next index page: its first separator and ordinal and its bytes, and where its statistics page lies.
    ///
    /// The first page has ordinal 0; ordinals and places rise, separators do not fall.
    pub fn push(
        &mut self,
        first_separator: &[u8],
        first_ordinal: u64,
        bytes: u32,
        statistics: (u64, u32),
    ) {
        if let Err(detail) = self.check_next(first_separator, first_ordinal, bytes, statistics) {
            panic!("index page {}: {detail}", self.len());
        }
        self.separators.extend_from_slice(first_separator);
        self.separator_ends.push(self.separators.len());
        self.first_ordinals.push(first_ordinal);
        self.page_ends.push(self.area_bytes() + u64::from(bytes));
        self.statistics.push(statistics);
    }

    /// Says where in the file the first index page lies. The others follow it without a gap.
    pub fn place_at(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Adds the sums of the weight columns over the rows of the page just pushed.
    pub fn push_weights(&mut self, sums: &[u128]) {
        if self.len() == 1 {
            self.weight_sums = vec![vec![0]; sums.len()];
        }
        assert_eq!(sums.len(), self.weight_sums.len(), "every page has the same weights");
        for (ends, sum) in self.weight_sums.iter_mut().zip(sums) {
            let end = ends[ends.len() - 1].checked_add(*sum).expect("weights fit 128 bits");
            ends.push(end);
        }
    }

    /// The sum of a weight column over all rows before a page; over all rows for the page behind the
    /// last one.
    pub fn weight_before(&self, weight: usize, page: usize) -> u128 {
        self.weight_sums[weight][page]
    }

    /// The page that holds the `target`-th unit of a weight column, which must be below its sum.
    pub fn page_of_weight(&self, weight: usize, target: u128) -> usize {
        self.weight_sums[weight].partition_point(|&before| before <= target) - 1
    }

    /// The number of weight columns.
    pub fn weights(&self) -> usize {
        self.weight_sums.len()
    }

    fn check_next(
        &self,
        separator: &[u8],
        ordinal: u64,
        bytes: u32,
        (statistics, _): (u64, u32),
    ) -> std::result::Result<(), &'static str> {
        if bytes == 0 {
            return Err("it has no bytes");
        }
        let Some(last) = self.len().checked_sub(1) else {
            return if ordinal == 0 { Ok(()) } else { Err("the first ordinal is not 0") };
        };
        if separator < self.separator(last) {
            return Err("a separator is less than the one before");
        }
        if ordinal <= self.first_ordinals[last] {
            return Err("an ordinal is not ascending");
        }
        if statistics <= self.statistics[last].0 {
            return Err("an offset is not ascending");
        }
        Ok(())
    }

    /// Appends the payload of the summary's page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        put_varint(out, self.offset);
        let (mut ordinal, mut offset) = (0, 0);
        for page in 0..self.len() {
            let (statistics, statistics_bytes) = self.statistics[page];
            put_bytes(out, self.separator(page));
            put_varint(out, self.first_ordinals[page] - ordinal);
            put_varint(out, u64::from(self.place(page).1));
            put_varint(out, statistics - offset);
            put_varint(out, u64::from(statistics_bytes));
            (ordinal, offset) = (self.first_ordinals[page], statistics);
        }
        put_varint(out, self.weight_sums.len() as u64);
        for ends in &self.weight_sums {
            for pair in ends.windows(2) {
                put_varint_u128(out, pair[1] - pair[0]);
            }
        }
    }

    /// Reads what [`Summary::encode`] wrote.
    pub fn decode(payload: &[u8]) -> Result<Summary> {
        let mut cursor = Cursor::new(payload, "index summary");
        let count = cursor.varint()?;
        let mut summary = Summary::new();
        summary.place_at(cursor.varint()?);
        let (mut ordinal, mut offset) = (0, 0);
        for _ in 0..count {
            let separator = cursor.bytes()?;
            ordinal = advance(ordinal, &mut cursor)?;
            let bytes = page_bytes(&mut cursor)?;
            offset = advance(offset, &mut cursor)?;
            let statistics = (offset, page_bytes(&mut cursor)?);
            summary
                .check_next(separator, ordinal, bytes, statistics)
                .map_err(|detail| cursor.error(detail))?;
            let end = summary.offset.checked_add(summary.area_bytes() + u64::from(bytes));
            // Its filter lies behind its statistics.
            if end.is_none() || offset > i64::MAX as u64 {
                return Err(cursor.error("a position does not fit 64 bits"));
            }
            summary.push(separator, ordinal, bytes, statistics);
        }
        let weights = cursor.varint()?;
        if weights > WEIGHTS_MAX as u64 {
            return Err(cursor.error(format!("{weights} weight columns")));
        }
        for _ in 0..weights {
            let mut ends = vec![0u128];
            for _ in 0..summary.len() {
                let end = ends[ends.len() - 1].checked_add(cursor.varint_u128()?);
                ends.push(end.ok_or_else(|| cursor.error("a sum of weights does not fit"))?);
            }
            summary.weight_sums.push(ends);
        }
        cursor.finish()?;
        summary.shrink();
        Ok(summary)
    }

    /// Gives back what growing left over; the summary stays resident.
    fn shrink(&mut self) {
        self.separators.shrink_to_fit();
        self.separator_ends.shrink_to_fit();
        self.first_ordinals.shrink_to_fit();
        self.page_ends.shrink_to_fit();
        self.statistics.shrink_to_fit();
        self.weight_sums.iter_mut().for_each(Vec::shrink_to_fit);
    }

    /// The number of index pages.
    pub fn len(&self) -> usize {
        self.page_ends.len()
    }

    /// Whether there is no index page.
    pub fn is_empty(&self) -> bool {
        self.page_ends.is_empty()
    }

    /// The index page that holds `ordinal`, if the segment does. The summary must not be empty.
    pub fn page_of_ordinal(&self, ordinal: u64) -> usize {
        self.first_ordinals.partition_point(|&first| first <= ordinal) - 1
    }

    /// The index page in which the first row behind a bound lies, or at whose end it would: the last
    /// whose first separator is not behind the bound, else the first.
    pub fn page_of_bound(&self, bound: &Bound) -> usize {
        last_before(self.len(), |page| bound.lies_before(self.separator(page)))
    }

    /// File offset and bytes of an index page.
    pub fn place(&self, page: usize) -> (u64, u32) {
        let start = page.checked_sub(1).map_or(0, |previous| self.page_ends[previous]);
        (self.offset + start, (self.page_ends[page] - start) as u32)
    }

    /// Where the index pages lie in the file, and how many bytes they take in all.
    pub fn area(&self) -> (u64, u64) {
        (self.offset, self.area_bytes())
    }

    fn area_bytes(&self) -> u64 {
        self.page_ends.last().copied().unwrap_or(0)
    }

    /// File offset and bytes of the statistics page of an index page's blocks.
    pub fn statistics_place(&self, page: usize) -> (u64, u32) {
        self.statistics[page]
    }

    /// The ordinal of an index page's first row. Panics if there is no such page.
    pub fn first_ordinal(&self, page: usize) -> u64 {
        self.first_ordinals[page]
    }

    /// The first separator of an index page.
    pub fn separator(&self, page: usize) -> &[u8] {
        let start = page.checked_sub(1).map_or(0, |previous| self.separator_ends[previous]);
        &self.separators[start..self.separator_ends[page]]
    }

    /// The heap bytes held.
    pub fn allocated_bytes(&self) -> usize {
        self.separators.capacity()
            + self.separator_ends.capacity() * size_of::<usize>()
            + self.first_ordinals.capacity() * size_of::<u64>()
            + self.page_ends.capacity() * size_of::<u64>()
            + self.statistics.capacity() * size_of::<(u64, u32)>()
            + self.weight_sums.iter().map(|sums| sums.capacity() * size_of::<u128>()).sum::<usize>()
    }
}

/// Reads how far the next position lies behind the last.
fn advance(position: u64, cursor: &mut Cursor<'_>) -> Result<u64> {
    let delta = cursor.varint()?;
    position.checked_add(delta).ok_or_else(|| cursor.error("a position does not fit 64 bits"))
}

fn page_bytes(cursor: &mut Cursor<'_>) -> Result<u32> {
    let bytes = cursor.varint()?;
    u32::try_from(bytes).map_err(|_| cursor.error(format!("a page of {bytes} bytes")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Page = (Vec<u8>, u64, u64, u32);

    fn any_pages() -> impl Strategy<Value = Vec<Page>> {
        let page = (prop::collection::vec(0u8..4, 0..4), 1u64..500, 1u64..100_000, 1..u32::MAX);
        prop::collection::vec(page, 1..40).prop_map(|mut pages| {
            let mut separators: Vec<Vec<u8>> = pages.iter().map(|page| page.0.clone()).collect();
            separators.sort();
            let (mut ordinal, mut offset) = (0, 0);
            for (page, separator) in pages.iter_mut().zip(separators) {
                offset += page.2;
                let rows = page.1;
                *page = (separator, ordinal, offset, page.3);
                ordinal += rows;
            }
            pages
        })
    }

    fn summary(pages: &[Page]) -> Summary {
        let mut summary = Summary::new();
        for (separator, ordinal, offset, bytes) in pages {
            summary.push(separator, *ordinal, *bytes, (*offset, bytes / 2));
        }
        summary.place_at(77);
        summary
    }

    #[test]
    fn weight_columns_past_all_bounds_are_refused_before_they_take_memory() {
        let mut bytes = Vec::new();
        [0, 0, 1 << 20].into_iter().for_each(|number| put_varint(&mut bytes, number));
        assert!(Summary::decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn a_summary_reads_back_and_every_prefix_of_it_is_an_error(pages in any_pages()) {
            let summary = summary(&pages);
            let mut bytes = Vec::new();
            summary.encode(&mut bytes);
            prop_assert_eq!(Summary::decode(&bytes), Ok(summary));
            for len in 0..bytes.len() {
                prop_assert!(Summary::decode(&bytes[..len]).is_err());
            }
        }

        #[test]
        fn searching_a_summary_agrees_with_a_linear_scan(
            pages in any_pages(), bound in prop::collection::vec(0u8..5, 0..4), ordinal in 0u64..20_000
        ) {
            let summary = summary(&pages);
            let by_bound = pages.iter().rposition(|page| page.0 < bound).unwrap_or(0);
            prop_assert_eq!(summary.page_of_bound(&Bound::at_key(&bound)), by_bound);
            let by_ordinal = pages.iter().rposition(|page| page.1 <= ordinal).unwrap();
            prop_assert_eq!(summary.page_of_ordinal(ordinal), by_ordinal);
            let (offset, bytes) = (pages[by_ordinal].2, pages[by_ordinal].3);
            prop_assert_eq!(summary.statistics_place(by_ordinal), (offset, bytes / 2));
            let before: u64 = pages[..by_ordinal].iter().map(|page| u64::from(page.3)).sum();
            prop_assert_eq!(summary.place(by_ordinal), (77 + before, bytes));
            let all: u64 = pages.iter().map(|page| u64::from(page.3)).sum();
            prop_assert_eq!(summary.area(), (77, all));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Summary::decode(&bytes);
        }
    }
}
