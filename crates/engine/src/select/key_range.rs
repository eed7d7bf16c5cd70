//! Key ranges: what callers give, and the two places in the key order that it comes to.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use drillcore_format::key::{self, Bound, RankSearch, search_together};
use drillcore_format::schema::TableSchema;
use drillcore_storage::segments::segment::Segment;

use crate::error::{Error, Result};
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::schema::conform::cast;

/// A key range. An end is a key prefix, one array of length one per column; `None` is unbounded.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, Int64Array};
/// use drillcore::{Between, Closed, Selection};
///
/// let key = |id: i64| Some(vec![Arc::new(Int64Array::from(vec![id])) as ArrayRef]);
/// let between = Some(Between { low: key(10), high: key(20), closed: Closed::Left });
/// let teens = Selection { between, ..Selection::default() };
/// assert_eq!(flights.snapshot()?.count(&teens)?, 10);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Between {
    /// The lower end.
    pub low: Option<Vec<ArrayRef>>,
    /// The upper end.
    pub high: Option<Vec<ArrayRef>>,
    /// Which ends belong to the range.
    pub closed: Closed,
}

/// Which ends of a range belong to it. A prefix stands for every key that begins with it.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, Int64Array};
/// use drillcore::{Between, Closed, Selection};
///
/// let count = |closed: Closed| {
///     let key = |id: i64| Some(vec![Arc::new(Int64Array::from(vec![id])) as ArrayRef]);
///     let between = Some(Between { low: key(10), high: key(20), closed });
///     flights.snapshot()?.count(&Selection { between, ..Selection::default() })
/// };
/// assert_eq!((count(Closed::Both)?, count(Closed::Neither)?), (11, 9));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Closed {
    /// `low <= key <= high`.
    #[default]
    Both,
    /// `low <= key < high`.
    Left,
    /// `low < key <= high`.
    Right,
    /// `low < key < high`.
    Neither,
}

/// Keys from one to another, as the bytes that a snapshot's keys are compared by: `low <= key < high`, where `None` is
/// unbounded. [`TableSnapshot::splits`](crate::TableSnapshot::splits) makes them.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Selection, SplitRange};
///
/// let splits = flights.snapshot()?.splits(2, &Selection::default())?;
/// let SplitRange { low, high } = &splits[0].range;
/// assert!(low.is_none() && *high == splits[1].range.low);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SplitRange {
    /// The first key, or a beginning of it.
    pub low: Option<Vec<u8>>,
    /// What the keys lie before.
    pub high: Option<Vec<u8>>,
}

/// The places in the key order where a range begins and ends; `None` is unbounded. Empty if the end does
/// not lie behind the begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyRange {
    pub low: Option<Bound>,
    pub high: Option<Bound>,
}

impl KeyRange {
    /// The rows of each piece that lie in the range. On disk one index page and one block for each end, which are read together; runs are
    /// searched together.
    pub fn ordinals(&self, pieces: &[Piece]) -> Result<Vec<Range<u64>>> {
        let bounds = || self.low.iter().chain(&self.high);
        let runs = || pieces.iter().filter_map(Piece::run);
        // As large as it gets: searches would be moved as it grows.
        let mut searches: Vec<RankSearch<'_>> = Vec::with_capacity(2 * pieces.len());
        let held: Vec<(&Run, Cow<'_, Bound>)> = runs()
            .flat_map(|run| bounds().map(move |bound| (&**run, run.held_bound(bound))))
            .collect();
        searches.extend(held.iter().map(|(run, bound)| run.rank_search(bound)));
        let mut compared = 0;
        search_together(&mut searches, &mut compared);
        runs().take(1).for_each(|run| run.note_examined(compared));
        let in_segments: Vec<(&Segment, &Bound)> = pieces
            .iter()
            .filter_map(Piece::segment)
            .flat_map(|segment| bounds().map(move |bound| (&**segment, bound)))
            .collect();
        let mut in_runs = searches.iter().map(|search| search.rank() as u64);
        let mut in_segments = Segment::ranks(&in_segments)?.into_iter();
        let mut rank = |piece: &Piece| {
            let rank = if piece.run().is_some() { in_runs.next() } else { in_segments.next() };
            rank.expect("each end was searched in each piece")
        };
        let of_piece = |piece: &Piece| {
            let from = if self.low.is_some() { rank(piece) } else { 0 };
            let to = if self.high.is_some() { rank(piece) } else { piece.rows() };
            from..to.max(from)
        };
        Ok(pieces.iter().map(of_piece).collect())
    }

    /// Checks a range against a table's key. Ends in the wrong order are an error.
    pub fn new(schema: &TableSchema, between: &Between) -> Result<KeyRange> {
        let low = between.low.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
        let high = between.high.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
        if let (Some(low), Some(high)) = (&low, &high) {
            let (low, high) = (encode_prefix(low), encode_prefix(high));
            if low > high && !low.starts_with(&high) {
                return Err(Error::invalid(
                    "between is reversed: its low end is above its high end; swap the ends",
                ));
            }
        }
        Ok(KeyRange::encoded(low, high, between.closed))
    }

    /// [`KeyRange::new`] where ends in the wrong order mean that nothing lies between them.
    pub fn or_empty(schema: &TableSchema, between: &Between) -> Result<KeyRange> {
        let low = between.low.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
        let high = between.high.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
        Ok(KeyRange::encoded(low, high, between.closed))
    }

    fn encoded(
        low: Option<Vec<ArrayRef>>,
        high: Option<Vec<ArrayRef>>,
        closed: Closed,
    ) -> KeyRange {
        let low = low.map(|prefix| match closed {
            Closed::Both | Closed::Left => Bound::before(&prefix),
            Closed::Right | Closed::Neither => Bound::after(&prefix),
        });
        let high = high.map(|prefix| match closed {
            Closed::Both | Closed::Right => Bound::after(&prefix),
            Closed::Left | Closed::Neither => Bound::before(&prefix),
        });
        KeyRange { low, high }
    }

    /// The keys of a split.
    pub fn of_split(split: &SplitRange) -> KeyRange {
        let bound = |key: &Option<Vec<u8>>| key.as_deref().map(Bound::at_key);
        KeyRange { low: bound(&split.low), high: bound(&split.high) }
    }

    /// What lies in both.
    pub fn and(self, other: KeyRange) -> KeyRange {
        let low = match (self.low, other.low) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        KeyRange { low, high }
    }

    /// Whether every key lies in it.
    pub fn is_everything(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }
}

/// Brings a prefix to the key's types.
fn key_prefix(schema: &TableSchema, prefix: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    if prefix.is_empty() || prefix.len() > schema.key.len() {
        let (found, columns) = (prefix.len(), schema.key.len());
        let message = format!(
            "an end of between has {found} values; it must have 1 to {columns}, one per key column"
        );
        return Err(Error::invalid(message));
    }
    let mut cast_prefix = Vec::with_capacity(prefix.len());
    for (values, &column) in prefix.iter().zip(&schema.key) {
        let field = schema.columns.field(column);
        if values.len() != 1 {
            return Err(Error::invalid(format!(
                "an end of between has {} values for column {:?}; it must have one",
                values.len(),
                field.name()
            )));
        }
        if is_nan(values) {
            return Err(Error::invalid(format!(
                "an end of between is NaN for column {:?}; use a number",
                field.name()
            )));
        }
        cast_prefix.push(cast(values, field.data_type(), field.name())?);
    }
    Ok(cast_prefix)
}

fn encode_prefix(prefix: &[ArrayRef]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in prefix {
        key::encode_value(value, 0, &mut bytes);
    }
    bytes
}

fn is_nan(values: &ArrayRef) -> bool {
    match values.data_type() {
        DataType::Float64 => {
            values.is_valid(0) && values.as_primitive::<Float64Type>().value(0).is_nan()
        }
        DataType::Float32 => {
            values.is_valid(0) && values.as_primitive::<Float32Type>().value(0).is_nan()
        }
        _ => false,
    }
}
