//! SQLite, set up as its users would: a write-ahead log, prepared statements, a transaction for each batch,
//! and an index on what is looked for.

use std::path::Path;

use arrow_array::RecordBatch;
use drillcore::Options;
use rusqlite::{Connection, Params, Row, Statement};

use crate::error::Result;
use crate::rows::event::{Answer, Event, events};

/// The name of the engine in figures.
pub const SQLITE: &str = "sqlite";

const CREATE_EVENTS: &str = "create table events (id integer primary key, at integer not null, \
    city text not null, units integer not null, price real not null, note text not null)";
const CREATE_MINUTES: &str = "create table minutes (at integer, city text, n integer not null, \
    units integer not null, most integer not null, primary key (at, city)) without rowid";
const INSERT: &str = "insert into events values (?1, ?2, ?3, ?4, ?5, ?6)";
const UPSERT: &str = "insert into minutes values (?1, ?2, 1, ?3, ?3) on conflict do update set \
    n = n + 1, units = units + excluded.units, most = max(most, excluded.most)";
const MS_PER_MINUTE: i64 = 60_000;

/// One connection: it writes, or one thread reads by it.
pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Opens a database file, or makes one. It keeps as many bytes of pages as Drillcore does by default.
    ///
    /// At synchronous=normal a log is synced only when it is copied into the database, so a killed process
    /// loses nothing that was committed, and a power cut may.
    pub fn open(path: &Path) -> Result<Sqlite> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        let cache_kib = Options::default().cache_bytes / 1024;
        connection.pragma_update(None, "cache_size", -(cache_kib as i64))?;
        Ok(Sqlite { connection })
    }

    pub fn create_events(&self, has_sets: bool) -> Result<()> {
        self.connection.execute_batch(CREATE_EVENTS)?;
        if has_sets {
            self.connection.execute_batch("create index by_city on events (city)")?;
        }
        Ok(())
    }

    pub fn create_minutes(&self) -> Result<()> {
        Ok(self.connection.execute_batch(CREATE_MINUTES)?)
    }

    /// Inserts batches, one a transaction.
    pub fn insert_all(&self, batches: &[RecordBatch]) -> Result<()> {
        self.write_all(batches, INSERT, |statement, Event { id, at, city, units, price, note }| {
            statement.execute((id, at, city, units, price, note))
        })
    }

    /// Folds batches by minute and city, one a transaction.
    pub fn fold_all(&self, batches: &[RecordBatch]) -> Result<()> {
        self.write_all(batches, UPSERT, |statement, Event { at, city, units, .. }| {
            statement.execute((at - at % MS_PER_MINUTE, city, units))
        })
    }

    /// Copies the log into the database.
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.connection.query_row("pragma wal_checkpoint(truncate)", (), |_| Ok(()))?)
    }

    /// Packs the pages in key order, and counts what the planner wants to know.
    pub fn settle(&self) -> Result<()> {
        self.connection.execute_batch("vacuum; analyze")?;
        self.checkpoint()
    }

    /// The rows of the table of minutes, as [`answer_of_minutes`](crate::tables::engine::answer_of_minutes) shows
    /// them.
    pub fn answer_of_minutes(&self) -> Result<Answer> {
        let sql = "select n, at, city, units, cast(most as real), '' from minutes";
        answer(&mut self.prepare(sql)?, ())
    }

    /// Does several reads, or writes, as one.
    pub fn in_transaction(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let transaction = self.connection.unchecked_transaction()?;
        work()?;
        Ok(transaction.commit()?)
    }

    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(self.connection.prepare(sql)?)
    }

    fn write_all(
        &self,
        batches: &[RecordBatch],
        sql: &str,
        mut write: impl FnMut(&mut Statement, Event) -> rusqlite::Result<usize>,
    ) -> Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        for batch in batches {
            self.in_transaction(|| {
                events(batch).try_for_each(|event| {
                    write(&mut statement, event)?;
                    Ok(())
                })
            })?;
        }
        Ok(())
    }
}

/// The rows of a query for all columns of events.
pub fn answer(statement: &mut Statement, parameters: impl Params) -> Result<Answer> {
    let mut answer = Answer::default();
    each(statement, parameters, |event| answer.add(&event))?;
    Ok(answer)
}

/// Shows every row of a query for all columns of events.
pub fn each(
    statement: &mut Statement,
    parameters: impl Params,
    mut show: impl FnMut(Event),
) -> Result<()> {
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        show(event(row)?);
    }
    Ok(())
}

/// A row with all columns of events, its text not copied.
fn event<'a>(row: &'a Row) -> rusqlite::Result<Event<'a>> {
    Ok(Event {
        id: row.get(0)?,
        at: row.get(1)?,
        city: row.get_ref(2)?.as_str()?,
        units: row.get(3)?,
        price: row.get(4)?,
        note: row.get_ref(5)?.as_str()?,
    })
}
