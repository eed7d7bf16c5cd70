//! Tables and their snapshots.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use drillcore::{
    AppendOptions, AppendResult, DeleteResult, Error, ErrorKind, Interrupt, KeySplit, Missing,
    OnError, SampleRequest, ScanRequest, SplitRange, TableSchema, Unit, UpdateResult,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PyDataType, PyRecordBatch, PySchema};

use crate::arrow_data::{ArrowArray, ArrowData, into_arrays};
use crate::duration::DurationArgument;
use crate::error;
use crate::estimate::{Estimate, EstimateArgument};
use crate::estimate_looks::EstimateLooks;
use crate::plain_row::PlainRow;
use crate::progress::Progress;
use crate::rows::Scan;
use crate::selection::{ColumnValues, SelectionArgument};
use crate::signals::{self, Signals};

/// The encoded keys that a split lies between, and its rows where indexes say how many.
type SplitTuple = (Option<Cow<'static, [u8]>>, Option<Cow<'static, [u8]>>, Option<u64>);

/// What an append did: rows stored, `(row, reason)` of each refused one, LSN.
pub type AppendTuple = (u64, Vec<(u64, String)>, u64);

/// A table of an open database.
#[pyclass(module = "drillcore._native", frozen)]
pub struct Table {
    inner: drillcore::Table,
    /// The writer's budget, of which a commit may take a share.
    memory_bytes: u64,
    /// The newest shape that was seen, and how many there were.
    shape: Mutex<(Option<Arc<TableSchema>>, u64)>,
    /// How dicts become rows of a shape.
    plain_row: Mutex<Option<(Arc<TableSchema>, Arc<PlainRow>)>>,
}

impl Table {
    pub fn new(inner: drillcore::Table, memory_bytes: u64) -> Table {
        Table { inner, memory_bytes, shape: Mutex::default(), plain_row: Mutex::default() }
    }

    /// The table, for the call named `what`, which writes.
    pub fn writer(&self, py: Python<'_>, what: &str) -> PyResult<&drillcore::Table> {
        match self.inner.database().is_read_only() {
            false => Ok(&self.inner),
            true => Err(error::read_only(py, what)),
        }
    }

    /// How dicts become rows of the newest shape, made once for each.
    fn plain_row(&self, py: Python<'_>) -> Arc<PlainRow> {
        let now = self.inner.schema();
        match &*self.plain_row.lock() {
            // Held, so that no other shape gets its address.
            Some((shape, row)) if Arc::ptr_eq(shape, &now) => return Arc::clone(row),
            _ => {}
        }
        let row = Arc::new(PlainRow::new(py, &now));
        let outdated = self.plain_row.lock().replace((now, Arc::clone(&row)));
        // Not under the lock, since it belongs to Python in part.
        drop(outdated);
        row
    }

    fn append_batch(
        &self,
        py: Python<'_>,
        batch: &RecordBatch,
        skip: bool,
        fill_nulls: bool,
    ) -> PyResult<AppendTuple> {
        let writer = self.writer(py, "append")?;
        let on_error = if skip { OnError::Skip } else { OnError::Raise };
        let options = AppendOptions { on_error, fill_nulls };
        let append = |interrupt| writer.interrupted_by(interrupt).append(batch, options);
        Ok(append_tuple(signals::call(py, append)?))
    }

    /// Makes the call named `what`, which deletes rows, and returns how many there were, and the commit.
    fn deleting(
        &self,
        py: Python<'_>,
        what: &str,
        delete: impl Fn(&drillcore::Table) -> drillcore::Result<DeleteResult> + Send + Sync,
    ) -> PyResult<(u64, u64)> {
        let writer = self.writer(py, what)?;
        let call = |interrupt| delete(&writer.interrupted_by(interrupt));
        let DeleteResult { rows, lsn, .. } = signals::call(py, call)?;
        Ok((rows, lsn.into()))
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> String {
        // It may have been renamed.
        let now = self.inner.snapshot().map(|table| table.name().to_string());
        now.unwrap_or_else(|_| self.inner.name().to_string())
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(&self.inner.schema().columns))
    }

    /// No other table of the database ever has it.
    #[getter]
    fn number(&self) -> u32 {
        self.inner.number()
    }

    /// Rises when columns have changed: tells whether a schema is still the newest.
    #[getter]
    fn schema_version(&self) -> u64 {
        let now = self.inner.schema();
        let mut seen = self.shape.lock();
        // Held, so that no other shape gets its address.
        if !seen.0.as_ref().is_some_and(|known| Arc::ptr_eq(known, &now)) {
            *seen = (Some(now), seen.1 + 1);
        }
        seen.1
    }

    fn rename_column(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        let writer = self.writer(py, "rename_column")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).rename_column(old, new))
    }

    fn drop_column(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let writer = self.writer(py, "drop_column")?;
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).drop_column(name))
    }

    fn widen(&self, py: Python<'_>, name: &str, data_type: PyDataType) -> PyResult<()> {
        let writer = self.writer(py, "widen")?;
        let data_type = data_type.into_inner();
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).widen(name, &data_type))
    }

    fn add_column(&self, py: Python<'_>, name: &str, data_type: PyDataType) -> PyResult<()> {
        let writer = self.writer(py, "add_column")?;
        let data_type = data_type.into_inner();
        signals::call(py, |interrupt| writer.interrupted_by(interrupt).add_column(name, &data_type))
    }

    /// Indexes some sets, or all.
    fn index_sets(&self, py: Python<'_>, sets: Option<ArrowArray>) -> PyResult<()> {
        let writer = self.writer(py, "index_sets")?;
        let sets = sets.map(ArrowArray::into_inner);
        signals::call(py, |interrupt| {
            let writer = writer.interrupted_by(interrupt);
            match &sets {
                None => writer.index_all_sets(),
                Some(sets) => writer.index_sets(sets),
            }
        })
    }

    /// Indexes some sets, or all, no more.
    fn unindex_sets(&self, py: Python<'_>, sets: Option<ArrowArray>) -> PyResult<()> {
        let writer = self.writer(py, "unindex_sets")?;
        let sets = sets.map(ArrowArray::into_inner);
        signals::call(py, |interrupt| {
            let writer = writer.interrupted_by(interrupt);
            match &sets {
                None => writer.unindex_all_sets(),
                Some(sets) => writer.unindex_sets(sets),
            }
        })
    }

    /// Waits until all segments are indexed.
    fn wait_for_set_index(&self, py: Python<'_>, progress: &Progress) -> PyResult<()> {
        let writer = self.writer(py, "index_sets")?;
        let wait =
            |interrupt| writer.interrupted_by(interrupt).wait_for_set_index_with(progress.counts());
        signals::call(py, wait)
    }

    #[getter]
    fn key(&self) -> Vec<String> {
        key_names(&self.inner.schema())
    }

    #[getter]
    fn set(&self) -> Option<String> {
        set_name(&self.inner.schema())
    }

    /// The columns of an appended batch: in a rollup table those of the events.
    #[getter]
    fn append_schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.inner.schema().batch_columns()))
    }

    /// The key columns that every appended row has: in a rollup table those that it was made with.
    #[getter]
    fn required(&self) -> Vec<String> {
        let schema = self.inner.schema();
        let mut key = key_names(&schema);
        key.truncate(schema.key_columns_min());
        key
    }

    /// Weights, and other columns that are not of the key, in which no appended row has null.
    #[getter]
    fn never_null(&self) -> Vec<String> {
        let schema = self.inner.schema();
        let name = |column| schema.batch_columns().field(column).name().clone();
        schema.never_null().into_iter().map(name).collect()
    }

    /// The other columns that every appended row has, because it replaces one that has them: of an upsert table those
    /// that it was made with.
    #[getter]
    fn whole_row(&self) -> Vec<String> {
        let schema = self.inner.schema();
        let key = key_names(&schema);
        let columns = schema.whole_row_columns().iter().enumerate();
        let takes_null = columns.filter(|(column, _)| schema.takes_null(*column));
        let names = takes_null.map(|(_, field)| field.name().clone());
        names.filter(|name| !key.contains(name)).collect()
    }

    /// Whether unknown columns of appended rows become dimensions.
    #[getter]
    fn discovers(&self) -> bool {
        self.inner.schema().discovers()
    }

    #[getter]
    fn merge(&self) -> &'static str {
        self.inner.schema().merge.name()
    }

    #[getter]
    fn weights(&self) -> Vec<String> {
        let schema = self.inner.schema();
        let names = schema.weights.iter();
        names.map(|&column| schema.columns.field(column).name().clone()).collect()
    }

    /// The column that sets when rows expire, and how many seconds after it.
    #[getter]
    fn ttl(&self) -> Option<(String, u64)> {
        let schema = self.inner.schema();
        let ttl = schema.ttl?;
        Some((schema.columns.field(ttl.column).name().clone(), ttl.seconds))
    }

    fn set_ttl(&self, py: Python<'_>, ttl: Option<(String, DurationArgument)>) -> PyResult<()> {
        let writer = self.writer(py, "set_ttl")?;
        let duration = ttl.as_ref().map(|(_, duration)| signals::run(py, || duration.parsed()));
        let duration = duration.transpose()?;
        let column = ttl.as_ref().map(|(column, _)| column.as_str());
        signals::call(py, |interrupt| {
            writer.interrupted_by(interrupt).set_ttl(column.zip(duration))
        })
    }

    /// The budget of a load, which only a writer has.
    fn load_budget_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.writer(py, "load")?;
        Ok(self.memory_bytes)
    }

    fn append(
        &self,
        py: Python<'_>,
        data: ArrowData,
        skip: bool,
        fill_nulls: bool,
    ) -> PyResult<AppendTuple> {
        self.writer(py, "append")?;
        if !skip {
            let batch = data.read_all(py)?;
            return self.append_batch(py, &batch, skip, fill_nulls);
        }
        let (batch, unsound) = data.read_sound(py)?;
        let (rows, rejected, lsn) = self.append_batch(py, &batch, skip, fill_nulls)?;
        Ok((rows, among_all(rejected, unsound), lsn))
    }

    /// Appends a list of one dict of plain values; returns nothing, and does nothing, for other data.
    fn append_plain(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        skip: bool,
        fill_nulls: bool,
    ) -> PyResult<Option<AppendTuple>> {
        let batch = self.plain_row(py).batch(data);
        batch.map(|batch| self.append_batch(py, &batch, skip, fill_nulls)).transpose()
    }

    /// Deletes by key, one array per key column; returns the number of rows and the commit.
    fn delete(&self, py: Python<'_>, keys: Vec<ArrowArray>) -> PyResult<(u64, u64)> {
        let keys = into_arrays(keys);
        self.deleting(py, "delete", |writer| writer.delete(&keys))
    }

    /// Deletes what is selected; returns what `delete` does.
    fn delete_selected(
        &self,
        py: Python<'_>,
        selection: SelectionArgument,
    ) -> PyResult<(u64, u64)> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        self.deleting(py, "delete", |writer| writer.delete_selected(&selection))
    }

    /// Deletes all rows; returns what `delete` does.
    fn truncate(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.deleting(py, "truncate", drillcore::Table::truncate)
    }

    /// Changes the rows whose keys the batches have; returns the number of rows and the commit.
    fn update(
        &self,
        py: Python<'_>,
        batches: Vec<ArrowData>,
        missing: &str,
    ) -> PyResult<(u64, u64)> {
        let writer = self.writer(py, "update")?;
        let missing = match missing {
            "skip" => Missing::Skip,
            "insert" => Missing::Insert,
            _ => Missing::Error,
        };
        let batches: Vec<RecordBatch> =
            batches.into_iter().map(|batch| batch.read_all(py)).collect::<PyResult<_>>()?;
        let call = |interrupt| writer.interrupted_by(interrupt).update(&batches, missing);
        let UpdateResult { rows, lsn, .. } = signals::call(py, call)?;
        Ok((rows, lsn.into()))
    }

    /// Gives the selected rows the values of a batch of one row; returns what `update` does.
    fn update_selected(
        &self,
        py: Python<'_>,
        selection: SelectionArgument,
        values: ArrowData,
    ) -> PyResult<(u64, u64)> {
        let writer = self.writer(py, "update")?;
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let values = values.read_all(py)?;
        let call =
            |interrupt| writer.interrupted_by(interrupt).update_selected(&selection, &values);
        let UpdateResult { rows, lsn, .. } = signals::call(py, call)?;
        Ok((rows, lsn.into()))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<TableSnapshot> {
        let name = self.inner.name();
        let snapshot = |interrupt| {
            let table = self.inner.interrupted_by(interrupt);
            table.snapshot().map_err(|error| match self.inner.database().table(name) {
                // The table is gone, and there is one of that name: the engine says to open that.
                Ok(_) if error.kind() == ErrorKind::NotFound => {
                    Error::new(error.kind(), format!("{error} with db.table({name:?})"))
                }
                _ => error,
            })
        };
        Ok(TableSnapshot::new(signals::call(py, snapshot)?))
    }
}

/// A table as it was at one LSN.
#[pyclass(module = "drillcore._native", frozen)]
pub struct TableSnapshot {
    inner: drillcore::TableSnapshot,
}

impl TableSnapshot {
    pub fn new(inner: drillcore::TableSnapshot) -> TableSnapshot {
        TableSnapshot { inner }
    }
}

#[pymethods]
impl TableSnapshot {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(&self.inner.schema().columns))
    }

    #[getter]
    fn key(&self) -> Vec<String> {
        key_names(&self.inner.schema())
    }

    #[getter]
    fn set(&self) -> Option<String> {
        set_name(&self.inner.schema())
    }

    #[getter]
    fn lsn(&self) -> u64 {
        self.inner.lsn().into()
    }

    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        signals::call(py, |interrupt| self.inner.interrupted_by(interrupt).rows())
    }

    /// Events of the selected rows, of a rollup table.
    fn count_events(&self, py: Python<'_>, selection: SelectionArgument) -> PyResult<u64> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let count = |interrupt| self.inner.interrupted_by(interrupt).count_events(&selection);
        signals::call(py, count)
    }

    /// The rows found, in the order of the keys; a key without a row contributes none.
    fn get(
        &self,
        py: Python<'_>,
        keys: Vec<ColumnValues>,
        columns: Option<Vec<String>>,
    ) -> PyResult<PyRecordBatch> {
        let keys = ColumnValues::into_arrays(keys);
        let get = |interrupt: Interrupt| {
            let found = self.inner.interrupted_by(interrupt).get(&keys, columns.as_deref())?;
            let positions = found.positions.into_iter().flatten().collect::<Vec<_>>();
            Ok(take_record_batch(&found.rows, &UInt32Array::from(positions)))
        };
        let rows = signals::call(py, get)?;
        Ok(PyRecordBatch::new(rows.map_err(|error| error::from_arrow(py, error))?))
    }

    fn scan(
        &self,
        py: Python<'_>,
        selection: SelectionArgument,
        columns: Option<Vec<String>>,
        limit: Option<u64>,
        reverse: bool,
        threads: Option<usize>,
    ) -> PyResult<Scan> {
        let signals = Signals::new();
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let request =
            ScanRequest { selection, columns, limit, reverse, threads, ..Default::default() };
        let table = self.inner.interrupted_by(signals.interrupt());
        let scan = signals.run(py, || table.scan(request))?;
        Ok(Scan::new(scan.schema(), scan, signals))
    }

    fn count(&self, py: Python<'_>, selection: SelectionArgument) -> PyResult<u64> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        signals::call(py, |interrupt| self.inner.interrupted_by(interrupt).count(&selection))
    }

    /// Up to `count` key ranges, each with its rows where indexes say how many.
    fn splits(
        &self,
        py: Python<'_>,
        count: usize,
        selection: SelectionArgument,
    ) -> PyResult<Vec<SplitTuple>> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let splits = |interrupt| self.inner.interrupted_by(interrupt).splits(count, &selection);
        let splits = signals::call(py, splits)?;
        let split = |split: KeySplit| {
            let SplitRange { low, high } = split.range;
            (low.map(Cow::Owned), high.map(Cow::Owned), split.rows)
        };
        Ok(splits.into_iter().map(split).collect())
    }

    /// The sum of a weight column, in units.
    fn weight(&self, py: Python<'_>, column: &str, selection: SelectionArgument) -> PyResult<u128> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let weight = |interrupt| self.inner.interrupted_by(interrupt).weight(column, &selection);
        signals::call(py, weight)
    }

    /// The rows, how many were drawn for them, and whether the selection had to be resolved.
    #[allow(clippy::too_many_arguments)] // one argument an option, as in the request
    fn sample(
        &self,
        py: Python<'_>,
        n: u64,
        selection: SelectionArgument,
        weight: Option<String>,
        replace: bool,
        at_most: bool,
        with_probability: bool,
        arrival_times: bool,
        seed: Option<u64>,
        columns: Option<Vec<String>>,
        threads: Option<usize>,
    ) -> PyResult<(PyRecordBatch, u64, bool)> {
        let selection = selection.into_selection(py, &self.inner.schema())?;
        let request = SampleRequest {
            n,
            selection,
            unit: Unit::Events,
            weight,
            replace,
            at_most,
            with_probability,
            arrival_times,
            seed,
            columns,
            threads,
        };
        let sample = |interrupt| self.inner.interrupted_by(interrupt).sample_with_report(&request);
        let (rows, report) = signals::call(py, sample)?;
        Ok((PyRecordBatch::new(rows), report.attempts, report.resolved))
    }

    fn estimate(&self, py: Python<'_>, request: EstimateArgument) -> PyResult<Estimate> {
        let signals = Signals::new();
        let request = request.into_request(py, &self.inner.schema(), &signals)?;
        let table = self.inner.interrupted_by(signals.interrupt());
        Ok(Estimate::new(signals.run(py, || table.estimate(&request))?))
    }

    /// The same, look by look.
    fn estimate_looks(&self, py: Python<'_>, request: EstimateArgument) -> PyResult<EstimateLooks> {
        let request = request.into_request(py, &self.inner.schema(), &Signals::new())?;
        EstimateLooks::start(py, self.inner.clone(), request)
    }

    /// The set values in order, and the rows of each.
    fn sets(&self, py: Python<'_>) -> PyResult<(PyArray, Vec<u64>)> {
        let sets = signals::call(py, |interrupt| self.inner.interrupted_by(interrupt).sets())?;
        Ok((PyArray::from_array_ref(sets.values), sets.rows))
    }
}

pub fn append_tuple(result: AppendResult) -> AppendTuple {
    let rejected = result.rejected.into_iter().map(|one| (one.row, one.reason));
    (result.rows, rejected.collect(), result.lsn.into())
}

/// Rows that were refused once others had been left out, and these, by their places among all.
fn among_all(rejected: Vec<(u64, String)>, left_out: Vec<(u64, String)>) -> Vec<(u64, String)> {
    let mut before = left_out.iter().map(|(row, _)| *row).peekable();
    let mut skipped = 0;
    let rejected: Vec<(u64, String)> = rejected
        .into_iter()
        .map(|(row, reason)| {
            while before.next_if(|left_out| *left_out <= row + skipped).is_some() {
                skipped += 1;
            }
            (row + skipped, reason)
        })
        .collect();
    let mut all: Vec<(u64, String)> = rejected.into_iter().chain(left_out).collect();
    all.sort_by_key(|(row, _)| *row);
    all
}

fn key_names(schema: &TableSchema) -> Vec<String> {
    schema.key.iter().map(|&column| schema.columns.field(column).name().clone()).collect()
}

fn set_name(schema: &TableSchema) -> Option<String> {
    schema.set_column().map(|column| schema.columns.field(column).name().clone())
}
