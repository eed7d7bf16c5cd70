//! What statistics pages say, as arrays with one element a zone.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array, make_array, new_null_array};
use arrow_select::zip::zip;

use crate::block::{BlockView, RowsBuilder};
use crate::error::{FormatError, Result};
use crate::rows::{Layout, Projection, Rows};
use crate::statistics_page::statistics_layout::{
    BLOCKS, ColumnPlace, ROWS, StatisticsLayout, ZoneSpan,
};
use crate::widening::widen;

/// Some consecutive zones of a segment, for pruning with vectorised comparisons.
///
/// A zone holds the rows `ordinals(zone)` of its segment and reaches over whole blocks. Every array has one
/// element a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Zones {
    first_ordinals: UInt64Array,
    rows: UInt64Array,
    blocks: UInt64Array,
    /// Ascending by the number that a column is asked for with.
    columns: Vec<(usize, ColumnZones)>,
}

/// What is known of one column.
#[derive(Debug, Clone)]
pub struct ColumnZones {
    /// Of the column's type; null where unknown. Every value that is not null is at least this, in the order
    /// of numbers and in the total order of floats alike.
    pub mins: ArrayRef,
    /// Every value that is not null is at most this.
    pub maxes: ArrayRef,
    /// Rows that store null, tombstones among them.
    pub null_counts: UInt64Array,
}

impl PartialEq for ColumnZones {
    fn eq(&self, other: &ColumnZones) -> bool {
        *self.mins == *other.mins
            && *self.maxes == *other.maxes
            && self.null_counts == other.null_counts
    }
}

impl Zones {
    /// The zones of rows that follow each other and hold all columns, computed from the rows; with every
    /// column of the table. `first_ordinal` is that of the first row.
    pub fn measure(
        table: &Layout,
        rows: &Rows,
        first_ordinal: u64,
        spans: &[ZoneSpan],
    ) -> Result<Zones> {
        let layout = StatisticsLayout::new(table);
        let measured = layout.measure(&table.stored_columns(rows)?, 0, spans);
        let columns: Vec<usize> = (0..layout.columns.len()).collect();
        Ok(Zones::new(&layout, &layout.page.all(), &measured, first_ordinal, &columns))
    }

    fn new(
        layout: &StatisticsLayout,
        projection: &Projection,
        read: &Rows,
        first_ordinal: u64,
        columns: &[usize],
    ) -> Zones {
        let value = |index: usize| {
            let at = projection.values.binary_search(&index).expect("the value was read");
            read.value(at)
        };
        let rows = value(ROWS).as_primitive::<UInt64Type>().clone();
        let starts = rows.values().iter().scan(first_ordinal, |next, rows| {
            let start = *next;
            *next += rows;
            Some(start)
        });
        let column = |column: usize| {
            let place = layout.columns[column];
            // The column was added after a page without its null count was written.
            let schema = layout.table.schema();
            let data_type = schema.columns.field(column).data_type();
            let counts = |place: ColumnPlace| value(place.nulls).as_primitive::<UInt64Type>();
            let mut null_counts = counts(place).clone();
            let bound = |side: usize| match place.has_bounds {
                true => value(place.nulls + side).clone(),
                false => new_null_array(data_type, read.len()),
            };
            let mut sides = [bound(1), bound(2)];
            for earlier in layout.earlier_places(column) {
                // Pages have a count where the column was when they were written, and null elsewhere.
                let is_here = is_null(&null_counts);
                null_counts = choose(&is_here, counts(earlier), &null_counts)
                    .as_primitive::<UInt64Type>()
                    .clone();
                for (side, bound) in sides.iter_mut().enumerate() {
                    let narrow = value(earlier.nulls + side + 1);
                    *bound = choose(&is_here, &widen(narrow, data_type), bound);
                }
            }
            // The column was added after a page without its null count was written.
            let null_counts = null_counts.iter().zip(rows.values());
            let null_counts = null_counts.map(|(count, &rows)| count.unwrap_or(rows));
            let null_counts = UInt64Array::from_iter_values(null_counts);
            let [mins, maxes] = sides;
            ColumnZones { mins, maxes, null_counts }
        };
        Zones {
            first_ordinals: starts.collect::<Vec<u64>>().into(),
            blocks: value(BLOCKS).as_primitive::<UInt64Type>().clone(),
            columns: columns.iter().map(|&number| (number, column(number))).collect(),
            rows,
        }
    }

    /// The number of zones.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of each zone, at least 1.
    pub fn rows(&self) -> &UInt64Array {
        &self.rows
    }

    /// The blocks of each zone, at least 1.
    pub fn blocks(&self) -> &UInt64Array {
        &self.blocks
    }

    /// The ordinal of each zone's first row.
    pub fn first_ordinals(&self) -> &UInt64Array {
        &self.first_ordinals
    }

    /// The ordinals of a zone's rows.
    pub fn ordinals(&self, zone: usize) -> Range<u64> {
        let first = self.first_ordinals.value(zone);
        first..first + self.rows.value(zone)
    }

    /// The rows and blocks of a zone. Panics if there is no such zone.
    pub fn span(&self, zone: usize) -> ZoneSpan {
        ZoneSpan { rows: self.rows.value(zone), blocks: self.blocks.value(zone) }
    }

    /// What is known of a column, by its number in the table unless renumbered; `None` if nothing is.
    pub fn column(&self, column: usize) -> Option<&ColumnZones> {
        let at = self.columns.binary_search_by_key(&column, |(number, _)| *number).ok()?;
        Some(&self.columns[at].1)
    }

    /// The same zones, whose column `at` is the present column `columns[at]`. Shares the arrays.
    pub fn renumbered(&self, columns: &[usize]) -> Zones {
        let known = |(at, &column)| Some((at, self.column(column)?.clone()));
        Zones { columns: columns.iter().enumerate().filter_map(known).collect(), ..self.clone() }
    }

    /// The zones that hold one of `ordinals`. Shares the arrays.
    pub fn overlapping(&self, ordinals: Range<u64>) -> Zones {
        let ends_before = |zone: &usize| self.ordinals(*zone).end <= ordinals.start;
        let from = (0..self.len()).take_while(ends_before).count();
        let begins_before = |zone: &usize| self.first_ordinals.value(*zone) < ordinals.end;
        let len = match ordinals.is_empty() {
            true => 0,
            false => (from..self.len()).take_while(begins_before).count(),
        };
        let slice = |array: &UInt64Array| array.slice(from, len);
        let column = |(number, zones): &(usize, ColumnZones)| {
            let ColumnZones { mins, maxes, null_counts } = zones;
            let (mins, maxes) = (mins.slice(from, len), maxes.slice(from, len));
            (*number, ColumnZones { mins, maxes, null_counts: slice(null_counts) })
        };
        Zones {
            first_ordinals: slice(&self.first_ordinals),
            rows: slice(&self.rows),
            blocks: slice(&self.blocks),
            columns: self.columns.iter().map(column).collect(),
        }
    }
}

fn is_null(array: &UInt64Array) -> BooleanArray {
    array.iter().map(|value| Some(value.is_none())).collect()
}

/// The one where a mask says so, and the other elsewhere.
fn choose(mask: &BooleanArray, one: &dyn Array, other: &dyn Array) -> ArrayRef {
    zip(mask, &make_array(one.to_data()), &make_array(other.to_data()))
        .expect("they have one type and length")
}

/// Collects the zones of consecutive statistics pages, some columns of them.
pub struct ZonesBuilder {
    layout: StatisticsLayout,
    projection: Projection,
    columns: Vec<usize>,
    first_ordinal: u64,
    read: RowsBuilder,
}

impl ZonesBuilder {
    /// `first_ordinal` is that of the first row that the first page describes. O(columns of the table).
    pub fn new(table: &Layout, columns: &[usize], first_ordinal: u64) -> ZonesBuilder {
        let layout = StatisticsLayout::new(table);
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let mut values = vec![ROWS, BLOCKS];
        for &column in &columns {
            let place = layout.columns[column];
            let count = if place.has_bounds { 3 } else { 1 };
            values.extend(place.nulls..place.nulls + count);
            // Numbers have bounds.
            let earlier = layout.earlier_places(column);
            values.extend(earlier.flat_map(|place| place.nulls..place.nulls + 3));
        }
        values.sort_unstable();
        let projection = layout.page.stored(false, values);
        let read = RowsBuilder::new(&projection, 0);
        ZonesBuilder { layout, projection, columns, first_ordinal, read }
    }

    /// Adds the zones of a page, whose index page has `rows` rows. O(zones * columns).
    pub fn append_page(&mut self, payload: &[u8], rows: u64) -> Result<()> {
        let malformed = |detail: String| FormatError::malformed("statistics page", detail);
        let view = BlockView::parse(payload, &self.layout.page)?;
        let spans = self.layout.page.stored(false, vec![ROWS, BLOCKS]);
        let mut builder = RowsBuilder::new(&spans, view.rows());
        builder.append_range(&view, 0, view.rows())?;
        let spans = builder.finish()?;
        for counts in spans.values() {
            let counts = counts.as_primitive::<UInt64Type>();
            if counts.null_count() > 0 || counts.values().contains(&0) {
                return Err(malformed("a zone without rows or blocks".into()));
            }
        }
        let counts = spans.value(ROWS).as_primitive::<UInt64Type>().values();
        let blocks = spans.value(BLOCKS).as_primitive::<UInt64Type>().values();
        // Each block has rows, so sums of blocks are no larger than those of rows.
        if blocks.iter().zip(counts).any(|(blocks, rows)| blocks > rows) {
            return Err(malformed("a zone with more blocks than rows".into()));
        }
        let found = counts.iter().try_fold(0u64, |sum, &rows| sum.checked_add(rows));
        if found != Some(rows) {
            return Err(malformed(format!("its zones do not have {rows} rows in total")));
        }
        self.read.append_range(&view, 0, view.rows())
    }

    /// The zones. Fails if a bound is not UTF-8.
    pub fn finish(self) -> Result<Zones> {
        let read = self.read.finish()?;
        Ok(Zones::new(&self.layout, &self.projection, &read, self.first_ordinal, &self.columns))
    }
}
