//! Rows by their keys.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use drillcore_format::byte_bounds;
use drillcore_format::key::Keys;
use drillcore_format::pick::Pick;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_storage::segments::lookup::Hits;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::key_lookup::KeyLookup;
use crate::policy::table_policy::TablePolicy;
use crate::policy::tombstones::flagged;
use crate::read::snapshot::TableSnapshot;
use crate::read::whole_rows::whole_rows;
use crate::schema::whole_keys::encode_whole_keys;
use crate::select::fetch::{gather, no_rows, too_many_string_bytes};
use crate::select::predicate::Test;

/// The rows that a list of keys found.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::{ArrayRef, Int64Array};
///
/// let keys: ArrayRef = Arc::new(Int64Array::from(vec![7, 1_000, 8]));
/// let found = flights.snapshot()?.get(&[keys], None)?;
/// assert_eq!(found.positions, [Some(0), None, Some(1)]);
/// assert_eq!(found.rows.num_rows(), 2);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The rows.
    pub rows: RecordBatch,
    /// For each key its row in `rows`, if there is one.
    pub positions: Vec<Option<u32>>,
}

impl TableSnapshot {
    /// The newest row of each key. `keys` holds one array per key column, all of one length.
    ///
    /// Pieces are searched newest first until one has the key: in each on disk one index page, one page of its filter if
    /// an older piece may have the key as well, and the block where the key is. Of many keys these are read together, of up to
    /// four segments at first, then of eight, and so on.
    ///
    /// # Errors
    /// `NotFound` for an unknown column, `InvalidArgument` for keys that do not fit the table or more strings than a batch can
    /// hold, `OutOfRange` if a sum of a rollup table does not fit its type, `Corrupt`, `Io`.
    pub fn get(&self, keys: &[ArrayRef], columns: Option<&[String]>) -> Result<Found> {
        let columns = self.columns(columns)?;
        let keys = encode_whole_keys(&self.table().schema, keys)?;
        self.get_encoded(&keys, &columns, self.interrupt())
    }

    /// [`TableSnapshot::get`] by encoded keys.
    pub(crate) fn get_encoded(
        &self,
        keys: &Keys,
        columns: &[usize],
        interrupt: &Interrupt,
    ) -> Result<Found> {
        let layout = &self.table().layout;
        let policy = TablePolicy::of(layout);
        if policy.combines() {
            let whole = whole_rows(self, keys, interrupt)?;
            let rows = match whole.rows.is_empty() {
                true => no_rows(layout, columns),
                false => policy.shown(&whole.rows, columns)?,
            };
            return Ok(Found { rows, positions: whole.positions });
        }
        let needed = layout.projection(columns);
        let unexpired = self.table().unexpired.as_ref();
        if keys.len() == 1 && unexpired.is_none() {
            return self.get_one(keys, columns, &needed, interrupt);
        }
        let Newest { parts, found } = self.newest(keys, &needed, unexpired, interrupt)?;
        let picks: Vec<Pick> = found.iter().flatten().copied().collect();
        let mut numbers = 0..picks.len() as u32;
        let positions = found.iter().map(|place| place.and_then(|_| numbers.next())).collect();
        if picks.is_empty() {
            return Ok(Found { rows: no_rows(layout, columns), positions });
        }
        Ok(Found { rows: layout.decode(&gather(parts, &picks)?, columns)?, positions })
    }

    /// [`TableSnapshot::get_encoded`] of one key, where rows are neither combined nor expire: with as little as that needs.
    fn get_one(
        &self,
        key: &Keys,
        columns: &[usize],
        needed: &Projection,
        interrupt: &Interrupt,
    ) -> Result<Found> {
        let layout = &self.table().layout;
        let with_flag = flagged(layout, needed);
        let read = with_flag.as_ref().unwrap_or(needed);
        self.table().note_searches(1);
        let bytes_max = usize::MAX;
        let lookup = KeyLookup { keys: key, projection: read, bytes_max, interrupt };
        let is_deleted = |hits: &Hits| {
            with_flag.is_some() && hits.rows.value(0).as_boolean().value(hits.found[0].1 as usize)
        };
        let found = lookup.newest_of_one(&self.table().pieces.now(), 0)?;
        let Some(Hits { rows, found, .. }) = found.filter(|hits| !is_deleted(hits)) else {
            return Ok(Found { rows: no_rows(layout, columns), positions: vec![None] });
        };
        let rows = match &with_flag {
            Some(with_flag) => rows.narrow(with_flag, needed),
            None => rows,
        };
        let rows = match rows.len() {
            1 => rows,
            _ => gather(vec![rows], &[Pick::new(0, found[0].1 as usize)])?,
        };
        Ok(Found { rows: layout.decode(&rows, columns)?, positions: vec![Some(0)] })
    }

    /// Those of some encoded keys that have a row that is shown, each once and in order. Not for tables whose rows are
    /// combined.
    pub(crate) fn find_keys(&self, keys: &Keys, interrupt: &Interrupt) -> Result<Keys> {
        self.find_keys_that(keys, self.table().unexpired.as_ref(), interrupt)
    }

    /// [`TableSnapshot::find_keys`] of rows that are no tombstones and pass a test, whether they have expired or not.
    pub(crate) fn find_keys_that(
        &self,
        keys: &Keys,
        pass: Option<&Test>,
        interrupt: &Interrupt,
    ) -> Result<Keys> {
        let mut sorted: Vec<&[u8]> = keys.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let sorted = Keys::from_iter(sorted);
        let nothing = self.table().layout.stored(false, Vec::new());
        let Newest { found, .. } = self.newest(&sorted, &nothing, pass, interrupt)?;
        let with_row = sorted.iter().zip(&found).filter(|(_, row)| row.is_some());
        Ok(with_row.map(|(key, _)| key).collect())
    }

    /// The newest row of each key, which is no tombstone and passes a test.
    fn newest(
        &self,
        keys: &Keys,
        needed: &Projection,
        pass: Option<&Test>,
        interrupt: &Interrupt,
    ) -> Result<Newest> {
        let layout = &self.table().layout;
        let with_tested = pass.map(|test| {
            let tested = layout.projection(test.columns()).values;
            let mut values = [tested, needed.values.clone()].concat();
            values.sort_unstable();
            values.dedup();
            layout.stored(needed.keys, values)
        });
        let with_flags = flagged(layout, with_tested.as_ref().unwrap_or(needed));
        let read = with_flags.as_ref().unwrap_or(needed);
        let mut parts: Vec<Rows> = Vec::new();
        // Where the row of each key is that has one.
        let mut found: Vec<Option<Pick>> = vec![None; keys.len()];
        // In their order, so that keys of one block come one after the other, and it is read once.
        let mut asked: Vec<u32> = (0..keys.len() as u32).collect();
        if !keys.iter().is_sorted() {
            asked.sort_by_key(|&number| keys.value(number as usize));
        }
        self.table().note_searches(keys.len() as u64);
        // Keys, and any column of strings: if all are full, one of them is more than full.
        let bytes_max = byte_bounds::array().saturating_mul(read.values.len() + 1);
        let lookup = KeyLookup { keys, projection: read, bytes_max, interrupt };
        let pieces = &**self.table().pieces.now();
        let mut bytes = 0;
        for hits in lookup.newest(pieces, &asked)? {
            if pieces[hits.of].segment().is_some() {
                bytes += hits.rows.string_bytes();
            }
            for &(key, row) in &hits.found {
                found[key as usize] = Some(Pick::new(parts.len(), row as usize));
            }
            parts.push(hits.rows);
        }
        if bytes > bytes_max {
            return Err(too_many_string_bytes(keys.len(), bytes));
        }
        if let Some(with_flags) = &with_flags {
            let is_deleted =
                |pick: Pick| parts[pick.part()].value(0).as_boolean().value(pick.row());
            found.iter_mut().for_each(|place| *place = place.filter(|&place| !is_deleted(place)));
            if let Some(test) = pass {
                leave_out_failing(layout, test, with_flags, &parts, &mut found)?;
            }
            parts.iter_mut().for_each(|rows| *rows = rows.narrow(with_flags, needed));
        }
        Ok(Newest { parts, found })
    }
}

/// Leaves out rows that fail a test of columns outside the key, of parts that were read with `read`.
fn leave_out_failing(
    layout: &Layout,
    test: &Test,
    read: &Projection,
    parts: &[Rows],
    found: &mut [Option<Pick>],
) -> Result<()> {
    let picks: Vec<Pick> = found.iter().flatten().copied().collect();
    if picks.is_empty() {
        return Ok(());
    }
    let tested = layout.projection(test.columns());
    let parts = parts.iter().map(|rows| rows.narrow(read, &tested)).collect();
    let rows = layout.decode(&gather(parts, &picks)?, test.columns())?;
    let stays = test.passes(&rows)?;
    let mut stays = stays.values().iter();
    for place in found.iter_mut().filter(|place| place.is_some()) {
        place.take_if(|_| !stays.next().expect("one answer for each that was found"));
    }
    Ok(())
}

/// The newest row of each key that was looked for, if there is one.
struct Newest {
    parts: Vec<Rows>,
    /// Where it is among them.
    found: Vec<Option<Pick>>,
}
