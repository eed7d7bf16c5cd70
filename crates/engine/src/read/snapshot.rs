//! Snapshots: the read face of the engine. What they answer is beside this file, a verb each.
//!
//! A snapshot is a handle to lists of immutable pieces. Taking one copies no rows; holding one keeps its
//! pieces alive; reading one never waits for writers.

use std::fmt;
use std::sync::Arc;

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::schema::TableSchema;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::select::predicate::{Test, column};
use crate::select::selection::{Question, Scope, Selection};
use crate::state::version::{TableVersion, Version};

/// All tables of a database at one moment.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let db = flights.database();
/// let kept = db.named_snapshot("training")?; // lasts over restarts; the same call opens it again
/// assert_eq!(kept.tables(), ["flights"]);
/// assert_eq!(kept.table("flights")?.rows()?, 100);
/// assert_eq!(db.snapshots()?, [("training".to_string(), kept.lsn())]);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    version: Arc<Version>,
    interrupt: Interrupt,
}

/// One table at one moment.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{OnError, ScanRequest};
///
/// let before = flights.snapshot()?;
/// let batch = before.scan(ScanRequest::default())?.next().expect("there are rows")?;
/// flights.append(&batch, OnError::Raise)?;
/// assert_eq!((before.rows()?, flights.snapshot()?.rows()?), (100, 200));
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct TableSnapshot {
    table: Arc<TableVersion>,
    /// The newest commit that is shown: that of the version it was taken from.
    moment: Arc<Lsn>,
    interrupt: Interrupt,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TableSnapshot");
        shown.field("name", &self.name()).field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn new(version: Arc<Version>) -> Snapshot {
        Snapshot { version, interrupt: Interrupt::never() }
    }

    /// The same snapshot, through a handle whose reads end early once `interrupt` says stop, and so do those of its tables:
    /// see [`Database::interrupted_by`](crate::Database::interrupted_by).
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> Snapshot {
        Snapshot { version: self.version.clone(), interrupt }
    }

    /// What ends reads through this handle early.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The newest commit that the snapshot shows.
    pub fn lsn(&self) -> Lsn {
        self.version.lsn()
    }

    /// The names of all tables, in order.
    pub fn tables(&self) -> Vec<String> {
        self.version.names.keys().map(|name| name.to_string()).collect()
    }

    /// The table of that number, whatever it is called.
    pub(crate) fn table_of(&self, id: TableId) -> Option<TableSnapshot> {
        let (table, moment) = (self.version.tables.get(&id)?, &self.version.moment);
        let (table, moment, interrupt) = (table.clone(), moment.clone(), self.interrupt.clone());
        Some(TableSnapshot { table, moment, interrupt })
    }

    /// One of the tables.
    ///
    /// # Errors
    /// `NotFound` with the nearest name.
    pub fn table(&self, name: &str) -> Result<TableSnapshot> {
        let names = &self.version.names;
        let unknown = || Error::unknown("table", name, names.keys().map(AsRef::as_ref));
        names.get(name).and_then(|id| self.table_of(*id)).ok_or_else(unknown)
    }
}

impl TableSnapshot {
    /// A table as it was, whatever the others were like.
    pub(crate) fn alone(table: TableVersion) -> TableSnapshot {
        let moment = Arc::new(table.lsn);
        TableSnapshot { table: Arc::new(table), moment, interrupt: Interrupt::never() }
    }

    /// The same snapshot, through a handle whose reads end early once `interrupt` says stop, with an error of kind
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted); so does each [`Scan`](crate::Scan) that it starts.
    #[must_use]
    pub fn interrupted_by(&self, interrupt: Interrupt) -> TableSnapshot {
        TableSnapshot { interrupt, ..self.clone() }
    }

    /// What ends reads through this handle early.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// The table's shape at this moment.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.table.schema.clone()
    }

    /// The table's number in its database, which no other table ever has: names can be given again.
    pub fn number(&self) -> u32 {
        self.table.id.0
    }

    /// The newest commit that the snapshot shows.
    pub fn lsn(&self) -> Lsn {
        *self.moment
    }

    /// The number of sorted arrays that hold the rows, in memory and on disk.
    // For tests and benches.
    #[doc(hidden)]
    pub fn pieces(&self) -> usize {
        self.table.pieces.now().len()
    }

    /// Whether the rows of every set were listed in every piece when this was first asked of the snapshot: what
    /// rests on it stays the same.
    pub(crate) fn lists_every_set(&self) -> bool {
        let all = || self.table.pieces.now().iter().all(|piece| piece.indexed().is_all());
        *self.table.lists_every_set.get_or_init(all)
    }

    pub(crate) fn table(&self) -> &TableVersion {
        &self.table
    }

    /// What a selection asks of the rows that are shown.
    pub(crate) fn question(&self, selection: &Selection) -> Result<Question> {
        let Question { scope, test } = selection.check(&self.table.schema)?;
        Ok(Question { scope, test: Test::both(self.table.unexpired.as_ref(), test) })
    }

    /// All rows of a scope that are shown.
    pub(crate) fn shown(&self, scope: Scope) -> Question {
        Question { scope, test: self.table.unexpired.clone() }
    }

    /// The index of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        column(&self.table.schema, name)
    }

    pub(crate) fn columns(&self, names: Option<&[String]>) -> Result<Vec<usize>> {
        match names {
            None => Ok((0..self.table.schema.columns.fields().len()).collect()),
            Some(names) => names.iter().map(|name| self.column(name)).collect(),
        }
    }
}
