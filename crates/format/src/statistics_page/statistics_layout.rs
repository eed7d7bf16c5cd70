//! Which value of a statistics page says what, and measuring it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field, Schema};

use crate::key::Keys;
use crate::rows::{Layout, Rows};
use crate::schema::TableSchema;
use crate::statistics_page::bounds::{bounds, width};

/// How far a zone reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneSpan {
    /// Rows in the zone, at least 1.
    pub rows: u64,
    /// Blocks in the zone, at least 1.
    pub blocks: u64,
}

/// Which value of a statistics page tells what.
#[derive(Debug, Clone)]
pub(super) struct StatisticsLayout {
    pub table: Layout,
    /// The rows of the page, one per zone, without keys.
    pub page: Layout,
    /// One per column of the table.
    pub columns: Vec<ColumnPlace>,
    /// One per column that is stored, or was: the column that it is, its type, and whether it has bounds.
    stored: Vec<(Option<usize>, DataType, bool)>,
    /// Of the columns that got wider types, where older pages describe them; the last one first.
    earlier: Vec<(usize, ColumnPlace)>,
}

/// The page's values about one column of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnPlace {
    pub nulls: usize,
    /// Whether the minimum and the maximum follow.
    pub has_bounds: bool,
}

/// The page's first values: rows and blocks of each zone.
pub(super) const ROWS: usize = 0;
pub(super) const BLOCKS: usize = 1;

impl StatisticsLayout {
    pub fn new(table: &Layout) -> StatisticsLayout {
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
    pub fn earlier_places(&self, column: usize) -> impl Iterator<Item = ColumnPlace> {
        let of_column = self.earlier.iter().filter(move |(of, _)| *of == column);
        of_column.map(|(_, place)| *place)
    }

    /// Bytes of a zone's bounds, written plainly.
    pub fn bound_bytes(&self) -> usize {
        let fields = self.table.schema().columns.fields().iter().zip(&self.columns);
        let bounded = fields.filter(|(_, place)| place.has_bounds);
        bounded.map(|(field, _)| 2 * width(field.data_type()).unwrap_or(0)).sum()
    }

    /// One row of statistics for each of the zones, which follow each other from row `from` on. `columns`
    /// are the table's, as stored.
    pub fn measure(&self, columns: &[ArrayRef], from: usize, spans: &[ZoneSpan]) -> Rows {
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
