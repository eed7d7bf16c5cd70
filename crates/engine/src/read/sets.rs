//! The sets of a table with their numbers of rows.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use drillcore_format::key::{decode_values, encode_value};

use crate::error::{Error, Result};
use crate::read::scan::ScanRequest;
use crate::read::snapshot::TableSnapshot;
use crate::select::unindexed_sets::{SetColumns, count_sets};
use crate::state::version::TableVersion;

/// The sets of a table, in order of their values, with their numbers of rows.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let sets = flights.snapshot()?.sets()?;
/// assert_eq!(sets.rows, [70, 30]); // of DL and UA
/// assert_eq!(sets.values.len(), 2);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sets {
    /// Values of the set column; null stands for the rows without a value.
    pub values: ArrayRef,
    /// How many rows each set has.
    pub rows: Vec<u64>,
}

impl TableSnapshot {
    /// Every set with its exact number of rows. Reads the set directories of all pieces; of a piece of which not all sets are
    /// indexed, or not all rows are alive, the set column. Where keys fold it must be known which are, as for
    /// [`TableSnapshot::rows`].
    ///
    /// # Errors
    /// `InvalidArgument` if the table has no set column, `Corrupt`, `Io`.
    pub fn sets(&self) -> Result<Sets> {
        let interrupt = self.interrupt();
        let column = self.table().schema.set_column().ok_or_else(Error::no_set_column)?;
        let mut rows_of: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
        let TableVersion { layout, pieces, unexpired, .. } = self.table();
        let pieces = pieces.now();
        let is_folded = !self.indexes_suffice(None);
        // A scan would merge the keys, too.
        let alive = match is_folded && unexpired.is_none() {
            true => Some(self.alive(interrupt)?),
            false => None,
        };
        if is_folded && alive.is_none() {
            self.scan_sets(column, &mut rows_of)?;
        } else {
            let mut unlisted = Vec::new();
            for (number, piece) in pieces.iter().enumerate() {
                interrupt.check()?;
                let add = |value: &[u8], rows| *rows_of.entry(value.into()).or_default() += rows;
                let alive = alive.and_then(|alive| alive[number].as_ref());
                if alive.is_some() || !piece.list_sets(interrupt, add)? {
                    unlisted.push((piece, alive));
                }
            }
            let whole = unlisted.iter().map(|(piece, _)| (*piece, 0..piece.rows()));
            let mut columns = SetColumns::new(layout, whole);
            for &(piece, alive) in &unlisted {
                let column = columns.open_next()?.expect("there is one for each");
                let is_live = |at: u32| match alive {
                    Some(alive) => alive.contains(at),
                    None => !piece.erased.as_ref().is_some_and(|erased| erased.contains(at)),
                };
                count_sets(&column, is_live, &mut rows_of, interrupt)?;
            }
        }
        let encoded: Vec<&[u8]> = rows_of.keys().map(AsRef::as_ref).collect();
        let values =
            decode_values(&encoded, self.table().schema.columns.field(column).data_type())?;
        Ok(Sets { values, rows: rows_of.into_values().collect() })
    }

    /// Whether sizes of sets take a look at the set column of rows that no index lists.
    pub(crate) fn looks_for_sets(&self) -> bool {
        self.indexes_suffice(None) && !self.lists_every_set()
    }

    /// Reads the sets of folded rows: directories count dead and partial rows, too.
    fn scan_sets(&self, column: usize, rows_of: &mut BTreeMap<Box<[u8]>, u64>) -> Result<()> {
        let name = self.table().schema.columns.field(column).name().clone();
        let request = ScanRequest { columns: Some(vec![name]), ..Default::default() };
        for batch in self.scan(request)? {
            let batch = batch?;
            let mut value = Vec::new();
            for row in 0..batch.num_rows() {
                value.clear();
                encode_value(batch.column(0), row, &mut value);
                match rows_of.get_mut(value.as_slice()) {
                    Some(rows) => *rows += 1,
                    None => *rows_of.entry(value.as_slice().into()).or_default() += 1,
                }
            }
        }
        Ok(())
    }
}
