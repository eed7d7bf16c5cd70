//! Changing what a table is while it is in use: its columns, which sets are indexed, how long rows are kept.

use std::time::Duration;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use drillcore_format::indexed_sets::IndexedSets;

use crate::calls::aside::aside;
use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::catalog::set_switches;
use crate::database::handles::Table;
use crate::error::Result;
use crate::roles::time_to_live;
use crate::select::selection::encode_sets;
use crate::write::widening::add_column;

impl Table {
    /// Adds a nullable column behind the others; in a rollup table it is a dimension, the last of the key. Rows
    /// appended before, and batches without the column, hold null there; snapshots taken before do not show
    /// it. Writes nothing but one edit of the manifest, however many rows there are, while others append and
    /// read; when the call returns, the column outlasts a power cut.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a column of that name, `InvalidArgument` for a type that is not stored (or in
    /// a rollup table cannot be in a key) and for what a metric reads, `NotFound` if the table was dropped,
    /// `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn add_column(&self, name: &str, data_type: &DataType) -> Result<()> {
        let (core, id, table) =
            (self.database().core()?.clone(), self.id(), self.name().to_string());
        let (name, data_type) = (name.to_string(), data_type.clone());
        let add = move |_: &Interrupt| add_column(&core, id, &table, &name, &data_type);
        aside(self.database().interrupt(), add)
    }

    /// Indexes some sets, given as values of the set column's type; null is the rows without a value. Rows
    /// appended from now on are indexed as they are written, also those of sets that come up later; older
    /// ones, that is segments, by maintenance, in the background. Nothing but where a set's rows are looked
    /// up changes: until a segment's list is whole, they are found by a pass over its set column. When the
    /// call returns, the change outlasts a power cut and a restart goes on with the work.
    ///
    /// # Errors
    /// `InvalidArgument` if the table has no set column or a value is of another type, `NotFound` if it was
    /// dropped, `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn index_sets(&self, sets: &ArrayRef) -> Result<()> {
        let sets = encode_sets(&self.shape()?.schema, sets)?;
        self.change_indexed(|indexed| indexed.with(sets))
    }

    /// Indexes all sets, also those that come up later; see [`Table::index_sets`].
    pub fn index_all_sets(&self) -> Result<()> {
        self.change_indexed(|_| IndexedSets::all())
    }

    /// Indexes some sets no more: appends, flushes and merges do without from now on. Lists of segments that
    /// are there are used until a merge.
    ///
    /// # Errors
    /// As [`Table::index_sets`].
    pub fn unindex_sets(&self, sets: &ArrayRef) -> Result<()> {
        let sets = encode_sets(&self.shape()?.schema, sets)?;
        self.change_indexed(|indexed| indexed.without(sets))
    }

    /// Indexes no set any more; see [`Table::unindex_sets`].
    pub fn unindex_all_sets(&self) -> Result<()> {
        self.change_indexed(|_| IndexedSets::none())
    }

    /// Returns once every segment lists the rows of all sets that are to be indexed.
    ///
    /// # Errors
    /// As [`Table::index_sets`], and what kept maintenance from going on.
    pub fn wait_for_set_index(&self) -> Result<()> {
        self.wait_for_set_index_with(&Progress::default())
    }

    /// [`Table::wait_for_set_index`], with `progress` in rows of segments.
    pub fn wait_for_set_index_with(&self, progress: &Progress) -> Result<()> {
        set_switches::wait(
            self.database().core()?,
            self.id(),
            self.database().interrupt(),
            progress,
        )
    }

    /// Keeps rows for some whole seconds after the time in a column, a timestamp or a date, from now on; `None` keeps them for good. Rows
    /// without a time never expire. When the call returns, the change outlasts a power cut.
    ///
    /// A snapshot does not show what has expired when it is taken, by the system's clock in whole seconds, which to a database
    /// never goes back; what it shows stays. In a rollup table rows expire by the end of their time step, and the time must be in
    /// the key; rows with a date expire by the end of the day in UTC. An expired row never comes back, even if the time to live is
    /// extended later. Older rows that are appended are not shown, as long as they would have expired.
    ///
    /// Space comes back by merges: a segment goes, unread, within seconds once all of its rows have expired, and is written anew
    /// once half of them have. In an upsert table with the time outside the key, keys of what has expired are deleted in the background,
    /// a twentieth of the time to live later, but an hour at most. The call waits for the rows that are expired by then; writers
    /// of the table wait meanwhile.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::{Duration, SystemTime};
    /// use drillcore::arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
    /// use drillcore::{Database, OnError, Options, TableSpec};
    ///
    /// # let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    /// let db = Database::in_memory(Options::default())?;
    /// let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![now - 7200, now]));
    /// let batch = RecordBatch::try_from_iter([("at", times)]).unwrap();
    /// let events = db.create_table("events", TableSpec::new(batch.schema(), ["at"]))?;
    /// events.append(&batch, OnError::Raise)?;
    /// events.set_ttl(Some(("at", Duration::from_secs(3600))))?;
    /// assert_eq!(events.snapshot()?.rows()?, 1);
    /// events.set_ttl(None)?; // what has expired does not come back
    /// assert_eq!(events.snapshot()?.rows()?, 1);
    /// # drillcore::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a column without times, a metric, or a time that is not of whole seconds; `NotFound` for a column that
    /// is not there, or if the table was dropped; `ReadOnly`, `Closed`, `Io`, `StorageFull`. A failed call leaves the time to live
    /// as it was.
    pub fn set_ttl(&self, ttl: Option<(&str, Duration)>) -> Result<()> {
        let (core, id) = (self.database().core()?.clone(), self.shape()?.table);
        let ttl = ttl.map(|(column, lasting)| (column.to_string(), lasting));
        let set = move |interrupt: &Interrupt| {
            let ttl = ttl.as_ref().map(|(column, lasting)| (column.as_str(), *lasting));
            time_to_live::set_ttl(&core, id, ttl, interrupt)
        };
        aside(self.database().interrupt(), set)
    }

    fn change_indexed(
        &self,
        change: impl FnOnce(&IndexedSets) -> IndexedSets + Send + 'static,
    ) -> Result<()> {
        let (core, id) = (self.database().core()?.clone(), self.id());
        aside(self.database().interrupt(), move |_| set_switches::change(&core, id, change))
    }
}
