//! Changing tables as a whole, and their columns, without touching rows.

use arrow_schema::DataType;

use crate::calls::aside::aside;
use crate::catalog::tables;
use crate::database::handles::{Database, Table};
use crate::error::Result;
use crate::write::reshaping;

impl Database {
    /// Gives a table another name. Rows, handles on it and snapshots taken before stay as they are; those show the old
    /// name.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` if there is a table of that name, `InvalidArgument` for what is no name, `ReadOnly`,
    /// `Closed`, `Io`. A failed call changes nothing.
    pub fn rename_table(&self, old: &str, new: &str) -> Result<Table> {
        let core = self.core()?.clone();
        let (id, renamed) = (self.table(old)?.id(), new.to_string());
        aside(&self.interrupt, move |_| tables::rename_table(&core, id, &renamed))?;
        self.table(new)
    }

    /// Makes a table with the shape and the rows that another one has now. Rows are written to new segments, beside writers
    /// of both; the table is there with all of them, or not at all. Positions of sources belong to the database, and are
    /// not copied.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` if there is a table of that name, `InvalidArgument` for what is no name, `StorageFull`,
    /// `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn copy_table(&self, source: &str, target: &str) -> Result<Table> {
        let core = self.core()?.clone();
        let (id, name) = (self.table(source)?.id(), target.to_string());
        aside(&self.interrupt, move |interrupt| tables::copy_table(&core, id, &name, interrupt))?;
        self.table(target)
    }
}

impl Table {
    /// Gives a column another name, also of the key, the sets or a weight. Writes nothing but one edit of the manifest.
    /// Snapshots taken before have the old name. A batch that has the old name is refused from now on, as any other with an
    /// unknown column; but a rollup table that discovers dimensions takes it for a new one.
    ///
    /// ```
    /// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
    /// use drillcore::arrow_schema::DataType;
    ///
    /// flights.add_column("seats", &DataType::Int16)?;
    /// flights.rename_column("seats", "places")?;
    /// flights.widen("places", &DataType::Int32)?; // older rows have their values still
    /// flights.drop_column("places")?; // a later column of that name is another one
    /// assert_eq!(flights.schema().columns.fields().len(), 3);
    /// # drillcore::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such column, `AlreadyExists` if there is one of the new name, `InvalidArgument` for what is
    /// no name, `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn rename_column(&self, old: &str, new: &str) -> Result<()> {
        let (core, id) = (self.database().core()?.clone(), self.id());
        let (old, new) = (old.to_string(), new.to_string());
        aside(&self.database().interrupt, move |interrupt| {
            reshaping::rename_column(&core, id, &old, &new, interrupt)
        })
    }

    /// Drops a column. Writes nothing but one edit of the manifest: from now on its values are not read, and merges leave
    /// them out. Snapshots taken before show it. A column that gets the name later is another one. In a rollup table the
    /// column is a metric; batches may lack what no metric is made of any more.
    ///
    /// # Errors
    /// `NotFound` if there is no such column, `InvalidArgument` of a column of the key, so of a dimension, the set column
    /// and weights, `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn drop_column(&self, name: &str) -> Result<()> {
        let (core, id, name) = (self.database().core()?.clone(), self.id(), name.to_string());
        aside(&self.database().interrupt, move |interrupt| {
            reshaping::drop_column(&core, id, &name, interrupt)
        })
    }

    /// Gives a column a wider type: a signed or unsigned integer a longer one of its kind, or `Float64` to a column of
    /// `Float32`. Writes nothing but one edit of the manifest: older rows are read with their values in the wider type,
    /// and merges write them so. Snapshots taken before have the old type. In a rollup table the column is one of the
    /// events that metrics are made of; metrics have 64 bits already.
    ///
    /// # Errors
    /// `NotFound` if there is no such column, `InvalidArgument` for another type, a column of the key, so a dimension, a
    /// metric, and the set column, `ReadOnly`, `Closed`, `Io`. A failed call changes nothing.
    pub fn widen(&self, name: &str, data_type: &DataType) -> Result<()> {
        let (core, id) = (self.database().core()?.clone(), self.id());
        let (name, data_type) = (name.to_string(), data_type.clone());
        aside(&self.database().interrupt, move |interrupt| {
            reshaping::widen_column(&core, id, &name, &data_type, interrupt)
        })
    }
}
