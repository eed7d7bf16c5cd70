//! Rows of several parts, each given as part and row: what gathers rows goes through a list of them once per column.

use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

/// A row of one of several parts, in the order of the parts. Eight bytes, as many of them lie between a draw and its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pick {
    part: u32,
    row: u32,
}

impl Pick {
    /// Panics if there are 2^32 parts, or as many rows in one.
    #[inline]
    pub fn new(part: usize, row: usize) -> Pick {
        let number = |number: usize| u32::try_from(number).expect("parts and rows have 32 bits");
        Pick { part: number(part), row: number(row) }
    }

    /// The same of numbers that have 32 bits.
    #[inline]
    pub fn of(part: u32, row: u32) -> Pick {
        Pick { part, row }
    }

    /// The number of the part.
    #[inline]
    pub fn part(self) -> usize {
        self.part as usize
    }

    /// The number of the row in its part.
    #[inline]
    pub fn row(self) -> usize {
        self.row as usize
    }

    /// All rows of some parts, given by their lengths, one part behind the other.
    pub fn all(lens: impl IntoIterator<Item = usize>) -> Vec<Pick> {
        let of_part = |(part, len): (usize, usize)| (0..len).map(move |row| Pick::new(part, row));
        lens.into_iter().enumerate().flat_map(of_part).collect()
    }
}

/// Which of the rows at `picks` are null, of a column's parts; `None` if none is.
pub(crate) fn nulls_at(parts: &[&dyn Array], picks: &[Pick]) -> Option<NullBuffer> {
    // Arrays of the type of nulls say nothing of single rows.
    let has_values = |part: &dyn Array| *part.data_type() != DataType::Null;
    if parts.iter().all(|part| part.null_count() == 0 && has_values(*part)) {
        return None;
    }
    let nulls: Vec<(bool, Option<&NullBuffer>)> =
        parts.iter().map(|part| (has_values(*part), part.nulls())).collect();
    let is_valid = |pick: &Pick| {
        let (has_values, nulls) = nulls[pick.part()];
        has_values && nulls.is_none_or(|nulls| nulls.is_valid(pick.row()))
    };
    // Mostly so: of rows that were deleted, which have no values, none is picked to be shown.
    if picks.iter().all(is_valid) {
        return None;
    }
    let validity = BooleanBuffer::collect_bool(picks.len(), |at| is_valid(&picks[at]));
    Some(NullBuffer::new(validity))
}
