//! What a database and its tables are open on: the one writer of a folder, or a reader beside it.
//!
//! Python has one class for both. Reads go to either; everything else asks for the writer here, and a
//! reader answers with the error that says so.

use std::sync::Arc;

use drillcore::{
    Database, Error, Interrupt, Reader, Snapshot, Stats, Table, TableSchema, TableSnapshot,
    VerifyReport,
};
use pyo3::prelude::*;

use crate::error;
use crate::signals;

/// An open database.
pub enum DatabaseHandle {
    Writer(Database),
    Reader(Reader),
}

impl DatabaseHandle {
    /// The writer, for the call named `what`.
    pub fn writer(&self, py: Python<'_>, what: &str) -> PyResult<&Database> {
        match self {
            DatabaseHandle::Writer(database) => Ok(database),
            DatabaseHandle::Reader(_) => Err(error::read_only(py, what)),
        }
    }

    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        match self {
            DatabaseHandle::Writer(database) => database.snapshot(),
            DatabaseHandle::Reader(reader) => reader.snapshot(),
        }
    }

    /// The snapshot of that name; a writer makes it if there is none.
    pub fn named_snapshot(&self, name: &str, interrupt: Interrupt) -> Result<Snapshot, Error> {
        match self {
            DatabaseHandle::Writer(database) => {
                database.interrupted_by(interrupt).named_snapshot(name)
            }
            DatabaseHandle::Reader(reader) => reader.named_snapshot(name),
        }
    }

    pub fn snapshots(&self) -> Result<Vec<(String, u64)>, Error> {
        match self {
            DatabaseHandle::Writer(database) => database.snapshots(),
            DatabaseHandle::Reader(reader) => reader.snapshots(),
        }
    }

    pub fn verify(&self, interrupt: &Interrupt) -> Result<VerifyReport, Error> {
        match self {
            DatabaseHandle::Writer(database) => database.verify(interrupt),
            DatabaseHandle::Reader(reader) => reader.verify(interrupt),
        }
    }

    pub fn stats(&self) -> Result<Stats, Error> {
        match self {
            DatabaseHandle::Writer(database) => database.stats(),
            DatabaseHandle::Reader(reader) => reader.stats(),
        }
    }

    pub fn table(&self, name: &str) -> Result<TableHandle, Error> {
        Ok(match self {
            DatabaseHandle::Writer(database) => TableHandle::Writer(database.table(name)?),
            DatabaseHandle::Reader(reader) => {
                let first = reader.snapshot()?.table(name)?;
                TableHandle::Reader { reader: reader.clone(), name: name.to_string(), first }
            }
        })
    }

    pub fn tables(&self) -> Result<Vec<String>, Error> {
        match self {
            DatabaseHandle::Writer(database) => database.tables(),
            DatabaseHandle::Reader(reader) => Ok(reader.snapshot()?.tables()),
        }
    }

    pub fn close(&self, interrupt: Interrupt) -> Result<(), Error> {
        match self {
            DatabaseHandle::Writer(database) => database.interrupted_by(interrupt).close(),
            DatabaseHandle::Reader(reader) => {
                reader.close();
                Ok(())
            }
        }
    }
}

/// A table of an open database.
pub enum TableHandle {
    Writer(Table),
    /// A reader's table has no more than its name and what it was at `first`; what it is, the newest
    /// refresh says.
    Reader {
        reader: Reader,
        name: String,
        first: TableSnapshot,
    },
}

impl TableHandle {
    /// The writer's table, for the call named `what`.
    pub fn writer(&self, py: Python<'_>, what: &str) -> PyResult<&Table> {
        match self {
            TableHandle::Writer(table) => Ok(table),
            TableHandle::Reader { .. } => Err(error::read_only(py, what)),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            TableHandle::Writer(table) => table.name(),
            TableHandle::Reader { name, .. } => name,
        }
    }

    /// The table's shape now; of one that is gone, when this handle was made.
    pub fn schema(&self) -> Arc<TableSchema> {
        match self {
            TableHandle::Writer(table) => table.schema(),
            TableHandle::Reader { reader, name, first } => {
                let found = reader.snapshot().and_then(|snapshot| snapshot.table(name));
                found
                    .ok()
                    .filter(|found| found.id() == first.id())
                    .as_ref()
                    .unwrap_or(first)
                    .schema()
            }
        }
    }

    /// The table as of the newest commit or, of a reader, of the last refresh.
    pub fn snapshot(&self, py: Python<'_>) -> PyResult<TableSnapshot> {
        match self {
            TableHandle::Writer(table) => signals::run(py, || table.snapshot()),
            TableHandle::Reader { reader, name, first } => {
                let found = signals::run(py, || reader.snapshot()?.table(name))?;
                // The writer may have dropped it meanwhile and made another.
                if found.id() != first.id() {
                    let message = format!(
                        "table {name:?} was dropped, and another one has its name now; \
                         use db.table({name:?}) to open that one"
                    );
                    return Err(error::not_found(py, &message));
                }
                Ok(found)
            }
        }
    }
}
