//! Statistics pages: of each zone of a segment, how many nulls a column has and what bounds its values.
//!
//! A *zone* is one block, or several in a row where blocks are short beside what is said of them; a
//! statistics page describes the zones of one index page and lies right behind it. Its payload is a row
//! block with one row a zone, so numbers that are alike cost little and a reader decodes only the columns
//! it asks for. Scans read these pages to leave zones out, estimates for what bounds a column. Which zones can be left out
//! without changing an answer is left to others. Drawn in `docs/format.md`, section "Statistics pages".

mod bounds;
#[cfg(test)]
mod tests;
mod zones;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field, Schema};

use crate::block;
use crate::key::Keys;
use crate::rows::{Layout, Rows};
use crate::schema::TableSchema;
use bounds::{bounds, width};
pub use zones::{ColumnZones, Zones, ZonesBuilder};

/// A zone covers at least so many bytes of blocks for each byte of its bounds, written plainly: statistics
/// stay a small share of a segment, however many columns there are and however few rows a block has.
const BLOCK_BYTES_PER_BOUND_BYTE: usize = 8;

/// How far a zone reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneSpan {
    pub rows: u64,
    pub blocks: u64,
}

/// Which value of a statistics page tells what.
#[derive(Debug, Clone)]
struct StatisticsLayout {
    table: Layout,
    /// The rows of the page, one a zone, without keys.
    page: Layout,
    /// One a column of the table.
    columns: Vec<ColumnPlace>,
    /// One a column that is stored, or was: the column that it is, its type, and whether it has bounds.
    stored: Vec<(Option<usize>, DataType, bool)>,
    /// Of the columns that got wider types, where older pages describe them; the last one first.
    earlier: Vec<(usize, ColumnPlace)>,
}

/// The page's values about one column of the table.
#[derive(Debug, Clone, Copy)]
struct ColumnPlace {
    nulls: usize,
    /// Whether the minimum and the maximum follow.
    has_bounds: bool,
}

/// The page's first values: rows and blocks of each zone.
const ROWS: usize = 0;
const BLOCKS: usize = 1;

impl StatisticsLayout {
    fn new(table: &Layout) -> StatisticsLayout {
        let mut fields: Vec<Field> =
            ["rows", "blocks"].map(|name| Field::new(name, DataType::UInt64, false)).into();
        let schema = table.schema();
        // Of each stored column.
        let (mut places, mut stored) = (Vec::new(), Vec::new());
        for number in 0..schema.stored_count() {
            let column = schema.stored.column(number);
            let data_type = match column {
                Some(column) => schema.columns.field(column).data_type(),
                None => schema.stored.retired_type(number).expect("it is one or the other"),
            };
            let has_bounds = width(data_type).is_some() && table.is_stored_as_shown(number);
            places.push(ColumnPlace { nulls: fields.len(), has_bounds });
            stored.push((column, data_type.clone(), has_bounds));
            fields.push(Field::new(format!("nulls of {number}"), DataType::UInt64, true));
            if has_bounds {
                for side in ["min", "max"] {
                    fields.push(Field::new(format!("{side} of {number}"), data_type.clone(), true));
                }
            }
        }
        let numbers = (0..schema.columns.fields().len()).map(|column| schema.stored.number(column));
        let columns = numbers.clone().map(|number| places[number]).collect();
        let earlier = numbers.enumerate().flat_map(|(column, number)| {
            let earlier = schema.stored.earlier(number).into_iter();
            earlier.map(move |retired| (column, retired.number))
        });
        let earlier = earlier.map(|(column, number)| (column, places[number])).collect();
        let page = Layout::new(&TableSchema::new(Arc::new(Schema::new(fields)), Vec::new()));
        StatisticsLayout { table: table.clone(), page, columns, stored, earlier }
    }

    /// Where older pages describe a column, whose type was another one then; the last one first.
    fn earlier_places(&self, column: usize) -> impl Iterator<Item = ColumnPlace> {
        let of_column = self.earlier.iter().filter(move |(of, _)| *of == column);
        of_column.map(|(_, place)| *place)
    }

    /// Bytes of a zone's bounds, written plainly.
    fn bound_bytes(&self) -> usize {
        let fields = self.table.schema().columns.fields().iter().zip(&self.columns);
        let bounded = fields.filter(|(_, place)| place.has_bounds);
        bounded.map(|(field, _)| 2 * width(field.data_type()).unwrap_or(0)).sum()
    }

    /// One row of statistics for each of the zones, which follow each other from row `from` on. `columns`
    /// are the table's, as stored.
    fn measure(&self, columns: &[ArrayRef], from: usize, spans: &[ZoneSpan]) -> Rows {
        let mut next = from;
        let zones: Vec<Range<usize>> = spans
            .iter()
            .map(|span| {
                let start = next;
                next += span.rows as usize;
                start..next
            })
            .collect();
        let mut values: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(spans.iter().map(|span| span.rows))),
            Arc::new(UInt64Array::from_iter_values(spans.iter().map(|span| span.blocks))),
        ];
        for (column, data_type, has_bounds) in &self.stored {
            match column {
                Some(column) => {
                    values.push(Arc::new(null_counts(&columns[*column], &zones)));
                    if *has_bounds {
                        values.extend(bounds(&columns[*column], &zones));
                    }
                }
                None => {
                    values.push(new_null_array(&DataType::UInt64, zones.len()));
                    if *has_bounds {
                        let nothing = new_null_array(data_type, zones.len());
                        values.extend([nothing.clone(), nothing]);
                    }
                }
            }
        }
        let keys = Keys::even(zones.len(), 0, Vec::new());
        Rows::new(zones.len(), Some(keys), values)
    }
}

fn null_counts(column: &ArrayRef, zones: &[Range<usize>]) -> UInt64Array {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let count = |zone: &Range<usize>| {
        nulls.map_or(0, |nulls| nulls.slice(zone.start, zone.len()).null_count())
    };
    zones.iter().map(|zone| Some(count(zone) as u64)).collect()
}

/// Collects the zones of one statistics page after the other.
///
/// Holds the statistics of the page under construction and the columns of the present batch.
#[derive(Debug)]
pub struct StatisticsPageBuilder {
    layout: StatisticsLayout,
    zone_bytes_min: usize,
    /// The columns of the rows whose blocks come in.
    batch: Vec<ArrayRef>,
    /// The rows of the batch that have been measured.
    measured: usize,
    /// The zones that have not, and the bytes of the last one's blocks, 0 once it is closed.
    spans: Vec<ZoneSpan>,
    open_bytes: usize,
    /// What was measured for the page.
    zones: Vec<Rows>,
}

impl StatisticsPageBuilder {
    pub fn new(table: &Layout) -> StatisticsPageBuilder {
        let layout = StatisticsLayout::new(table);
        StatisticsPageBuilder {
            zone_bytes_min: layout.bound_bytes() * BLOCK_BYTES_PER_BOUND_BYTE,
            layout,
            batch: Vec::new(),
            measured: 0,
            spans: Vec::new(),
            open_bytes: 0,
            zones: Vec::new(),
        }
    }

    /// Takes the rows that the next blocks hold: their columns as [`Layout::stored_columns`] gives them. No zone
    /// reaches from one batch into the next.
    pub fn begin_batch(&mut self, columns: Vec<ArrayRef>) {
        self.measure();
        self.batch = columns;
        self.measured = 0;
    }

    /// Adds the block of the next `rows` rows of the batch, which takes `bytes` bytes.
    pub fn push_block(&mut self, rows: usize, bytes: usize) {
        match self.spans.last_mut().filter(|_| self.open_bytes > 0) {
            Some(span) => {
                span.rows += rows as u64;
                span.blocks += 1;
            }
            None => self.spans.push(ZoneSpan { rows: rows as u64, blocks: 1 }),
        }
        self.open_bytes += bytes;
        if self.open_bytes >= self.zone_bytes_min {
            self.open_bytes = 0;
        }
    }

    /// Ends the batch and lets go of its columns.
    pub fn end_batch(&mut self) {
        self.measure();
        self.batch.clear();
    }

    /// Encodes the page's payload and starts over with an empty page. There must be a block.
    pub fn finish(&mut self) -> Vec<u8> {
        self.measure();
        let parts: Vec<&Rows> = self.zones.iter().collect();
        let every_row = |(part, rows): (usize, &Rows)| {
            (0..rows.len()).map(move |row| (part, row)).collect::<Vec<_>>()
        };
        let indices: Vec<(usize, usize)> =
            self.zones.iter().enumerate().flat_map(every_row).collect();
        let rows = Rows::interleave(&parts, &indices);
        let mut payload = Vec::new();
        block::encode(&rows, 0, rows.len(), block::Apart::default(), &mut payload);
        self.zones.clear();
        payload
    }

    fn measure(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        self.zones.push(self.layout.measure(&self.batch, self.measured, &self.spans));
        self.measured += self.spans.iter().map(|span| span.rows as usize).sum::<usize>();
        self.spans.clear();
        self.open_bytes = 0;
    }
}
