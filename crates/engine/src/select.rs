//! Selecting: from a question to ordinals in pieces.
//!
//! A selection is a list of parts, each an interval of ordinals or of a set's members in one piece. Its
//! rows are numbered through, 0 to `len`, so a sample is drawn by number and a count needs no rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use drillcore_format::key::{self, Bound};
use drillcore_format::schema::TableSchema;
use drillcore_sample::fences::Fences;

use crate::conform::cast;
use crate::error::{Error, Result};
use crate::piece::{Members, Piece};

/// Which rows a call is about. All of them by default.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// A key range.
    pub between: Option<Between>,
    /// Values of the set column; a null element stands for the rows without a value.
    pub sets: Option<ArrayRef>,
}

/// A key range. An end is a key prefix, one array of length one a column; `None` is unbounded.
#[derive(Debug, Clone)]
pub struct Between {
    pub low: Option<Vec<ArrayRef>>,
    pub high: Option<Vec<ArrayRef>>,
    pub closed: Closed,
}

/// Which ends of a range belong to it. A prefix stands for every key that begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Closed {
    #[default]
    Both,
    Left,
    Right,
    Neither,
}

/// A selection, checked and encoded for one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    low: Option<Bound>,
    high: Option<Bound>,
    /// Encoded values, each once.
    sets: Option<Vec<Vec<u8>>>,
}

/// The rows of some pieces that pass a filter.
pub struct Selected {
    pieces: Arc<[Piece]>,
    parts: Vec<Part>,
    fences: Fences,
}

/// The ordinals `from..to` of a piece, or of a set's members in it.
#[derive(Clone)]
pub struct Part {
    pub piece: usize,
    pub members: Option<Members>,
    pub from: u64,
    pub to: u64,
}

/// One row of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub piece: usize,
    pub ordinal: u32,
}

impl Filter {
    /// Whether every row passes.
    pub fn is_everything(&self) -> bool {
        self.low.is_none() && self.high.is_none() && self.sets.is_none()
    }

    /// Whether rows are chosen by set, not only by key.
    pub fn is_by_set(&self) -> bool {
        self.sets.is_some()
    }

    /// Checks a selection against a table.
    pub fn new(schema: &TableSchema, selection: &Selection) -> Result<Filter> {
        let (low, high) = match &selection.between {
            None => (None, None),
            Some(between) => bounds(schema, between)?,
        };
        let sets = selection.sets.as_ref().map(|values| encode_sets(schema, values)).transpose()?;
        Ok(Filter { low, high, sets })
    }

    /// Finds the rows of `pieces` that pass. On disk, a range end costs one index page and one block a
    /// piece, a set one directory page.
    pub fn select(&self, pieces: Arc<[Piece]>) -> Result<Selected> {
        let mut parts = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            let from = self.low.as_ref().map_or(Ok(0), |bound| piece.rank(bound))?;
            let to = self.high.as_ref().map_or(Ok(piece.rows()), |bound| piece.rank(bound))?;
            let to = to.max(from);
            let Some(sets) = &self.sets else {
                parts.push(Part { piece: number, members: None, from, to });
                continue;
            };
            for set in sets {
                let members = piece.members(set)?;
                let whole = from == 0 && to == piece.rows();
                let (from, to) = if whole {
                    (0, members.len())
                } else {
                    (piece.member_rank(&members, from)?, piece.member_rank(&members, to)?)
                };
                parts.push(Part { piece: number, members: Some(members), from, to });
            }
        }
        parts.retain(|part| part.from < part.to);
        let fences = Fences::from_counts(parts.iter().map(Part::len));
        Ok(Selected { pieces, parts, fences })
    }
}

impl Selected {
    /// Some rows of each piece, by ordinals that ascend.
    pub fn listed(pieces: Arc<[Piece]>, ordinals: Vec<Vec<u32>>) -> Selected {
        assert_eq!(pieces.len(), ordinals.len());
        let part = |(piece, ordinals): (usize, Vec<u32>)| {
            let to = ordinals.len() as u64;
            Part { piece, members: Some(Members::Listed(ordinals.into())), from: 0, to }
        };
        let parts = ordinals.into_iter().enumerate().filter(|(_, ordinals)| !ordinals.is_empty());
        let parts: Vec<Part> = parts.map(part).collect();
        let fences = Fences::from_counts(parts.iter().map(Part::len));
        Selected { pieces, parts, fences }
    }

    /// All rows of some pieces.
    pub fn whole(pieces: Arc<[Piece]>) -> Selected {
        let part = |(piece, rows): (usize, u64)| Part { piece, members: None, from: 0, to: rows };
        let parts: Vec<Part> = pieces.iter().map(Piece::rows).enumerate().map(part).collect();
        let fences = Fences::from_counts(parts.iter().map(Part::len));
        Selected { pieces, parts, fences }
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.fences.total()
    }

    pub fn pieces(&self) -> &Arc<[Piece]> {
        &self.pieces
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The row with the given number, below `len`.
    pub fn place(&self, number: u64) -> Result<Place> {
        let (part, position) = self.fences.locate(number);
        let part = &self.parts[part];
        let ordinal = part.ordinal(&self.pieces[part.piece], part.from + position)?;
        Ok(Place { piece: part.piece, ordinal: ordinal as u32 })
    }
}

impl Part {
    pub fn len(&self) -> u64 {
        self.to - self.from
    }

    /// The ordinal at `position`, which lies in `from..to`.
    pub fn ordinal(&self, piece: &Piece, position: u64) -> Result<u64> {
        match &self.members {
            None => Ok(position),
            Some(members) => piece.member(members, position),
        }
    }
}

/// The places in the key order where a range begins and ends.
fn bounds(schema: &TableSchema, between: &Between) -> Result<(Option<Bound>, Option<Bound>)> {
    let low = between.low.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
    let high = between.high.as_ref().map(|prefix| key_prefix(schema, prefix)).transpose()?;
    if let (Some(low), Some(high)) = (&low, &high) {
        let (low, high) = (encode_prefix(low), encode_prefix(high));
        if low > high && !low.starts_with(&high) {
            return Err(Error::invalid("between is reversed: its low end lies above its high end"));
        }
    }
    let low = low.map(|prefix| match between.closed {
        Closed::Both | Closed::Left => Bound::before(&prefix),
        Closed::Right | Closed::Neither => Bound::after(&prefix),
    });
    let high = high.map(|prefix| match between.closed {
        Closed::Both | Closed::Right => Bound::after(&prefix),
        Closed::Left | Closed::Neither => Bound::before(&prefix),
    });
    Ok((low, high))
}

/// Brings a prefix to the key's types.
fn key_prefix(schema: &TableSchema, prefix: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    if prefix.is_empty() || prefix.len() > schema.key.len() {
        let (found, columns) = (prefix.len(), schema.key.len());
        let message =
            format!("an end of between has {found} values, but the key has {columns} columns");
        return Err(Error::invalid(message));
    }
    let mut cast_prefix = Vec::with_capacity(prefix.len());
    for (values, &column) in prefix.iter().zip(&schema.key) {
        let field = schema.columns.field(column);
        if values.len() != 1 {
            return Err(Error::invalid(format!(
                "an end of between gives {} values for {:?}",
                values.len(),
                field.name()
            )));
        }
        if is_nan(values) {
            return Err(Error::invalid(format!(
                "an end of between is NaN for column {:?}",
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

fn encode_sets(schema: &TableSchema, values: &ArrayRef) -> Result<Vec<Vec<u8>>> {
    let Some(column) = schema.set else {
        return Err(Error::invalid(
            "the table has no set column; name one in create_table(set=...)",
        ));
    };
    let field = schema.columns.field(column);
    let values = cast(values, field.data_type(), field.name())?;
    let mut sets: Vec<Vec<u8>> = (0..values.len())
        .map(|row| {
            let mut bytes = Vec::new();
            key::encode_value(&values, row, &mut bytes);
            bytes
        })
        .collect();
    sets.sort_unstable();
    sets.dedup();
    Ok(sets)
}
