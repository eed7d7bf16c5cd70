//! Appends to several tables in one commit, at once or in two steps.

use arrow_array::RecordBatch;

use crate::database::handles::{Database, Table};
use crate::error::{Error, Result};
use crate::schema::conform::{AppendOptions, OnError};
use crate::write::commit::{self, AppendResult, TableShape};
use crate::write::prepared_append::PreparedAppend;

impl Database {
    /// Appends to several tables in one commit: all batches become visible together, or none.
    ///
    /// # Errors
    /// As [`Table::append`](crate::Table::append), of the first batch that does not fit.
    pub fn append(&self, batches: &[(&str, &RecordBatch)]) -> Result<AppendResult> {
        self.append_batches(batches, false)
    }

    /// As [`Database::append`], with nulls in the columns that batches lack; see
    /// [`AppendOptions::fill_nulls`].
    pub fn append_with_nulls(&self, batches: &[(&str, &RecordBatch)]) -> Result<AppendResult> {
        self.append_batches(batches, true)
    }

    /// Makes an append ready, which takes most of its time, without storing anything yet. So several threads can prepare
    /// appends that are then [committed](PreparedAppend::commit) in an order, and with the positions of their sources.
    ///
    /// # Errors
    /// As [`Table::append`](crate::Table::append), of the first batch that does not fit.
    pub fn prepare(
        &self,
        batches: &[(&str, &RecordBatch)],
        options: impl Into<AppendOptions>,
    ) -> Result<PreparedAppend> {
        let (core, shaped) = (self.core()?, self.shaped(batches)?);
        PreparedAppend::new(core, shaped, options.into(), self.interrupt().clone())
    }

    fn append_batches(
        &self,
        batches: &[(&str, &RecordBatch)],
        fill_nulls: bool,
    ) -> Result<AppendResult> {
        let (core, shaped) = (self.core()?, self.shaped(batches)?);
        let options = AppendOptions { on_error: OnError::Raise, fill_nulls };
        commit::append(core, shaped, options, self.interrupt())
    }

    fn shaped(&self, batches: &[(&str, &RecordBatch)]) -> Result<Vec<(TableShape, RecordBatch)>> {
        let mut shaped: Vec<(TableShape, RecordBatch)> = Vec::with_capacity(batches.len());
        for (name, batch) in batches {
            let shape = self.table(name)?.shape()?;
            if shaped.iter().any(|(known, _)| known.table == shape.table) {
                return Err(Error::invalid(format!(
                    "table {name:?} is listed twice in one append; give each table one batch"
                )));
            }
            shaped.push((shape, (*batch).clone()));
        }
        Ok(shaped)
    }
}

impl Table {
    /// [`Database::prepare`] of an append to this table.
    ///
    /// # Errors
    /// As [`Table::append`].
    pub fn prepare(
        &self,
        batch: &RecordBatch,
        options: impl Into<AppendOptions>,
    ) -> Result<PreparedAppend> {
        let db = self.database();
        let batches = vec![(self.shape()?, batch.clone())];
        PreparedAppend::new(db.core()?, batches, options.into(), db.interrupt().clone())
    }
}
