//! Rows of an upsert table that say of a key that it is deleted.
//!
//! Their first value, a flag, tells them from other rows. So who must know whether a row is one reads that value
//! beside what is wanted.

use arrow_array::BooleanArray;
use arrow_array::cast::AsArray;
use drillcore_format::rows::{Layout, Projection, Rows};

/// Keys and, where there are tombstones, their flags.
pub fn keys_and_flags(layout: &Layout) -> Projection {
    with_flags(layout, &layout.stored(true, Vec::new()))
}

/// What must be read to keep the newest rows and drop tombstones: the projection, keys and flags.
pub fn with_flags(layout: &Layout, projection: &Projection) -> Projection {
    let mut values = projection.values.clone();
    if layout.has_tombstones() && values.first() != Some(&0) {
        values.insert(0, 0);
    }
    layout.stored(true, values)
}

/// [`with_flags`], if rows can be tombstones.
pub fn flagged(layout: &Layout, projection: &Projection) -> Option<Projection> {
    layout.has_tombstones().then(|| with_flags(layout, projection))
}

/// The flags of rows that were read with them; `None` in a table without tombstones.
pub fn flags<'r>(layout: &Layout, rows: &'r Rows) -> Option<&'r BooleanArray> {
    layout.has_tombstones().then(|| rows.value(0).as_boolean())
}

/// The rows that are no tombstones, of rows that were read with their flags.
pub fn without_tombstones(layout: &Layout, rows: Rows) -> Rows {
    let Some(deleted) = flags(layout, &rows).filter(|deleted| deleted.true_count() > 0) else {
        return rows;
    };
    let kept: Vec<u32> =
        (0..rows.len() as u32).filter(|&row| !deleted.value(row as usize)).collect();
    rows.take(&kept)
}
