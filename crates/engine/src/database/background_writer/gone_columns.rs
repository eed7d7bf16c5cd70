//! Columns that tables had when rows were added, and have no more when these are committed: dropped, or called otherwise.
//!
//! Rows that were given no value for them are stored, whatever other rows they are together with.

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use drillcore_format::ids::TableId;

use crate::database::background_writer::add::{Add, Part};
use crate::database::background_writer::failed_rows::FailedRows;
use crate::error::{Error, Result};

/// Adds without columns that their tables lack, and the rows that have a value there: with all rows of their adds, if these are
/// kept whole. `None` if the tables have all columns.
pub fn without_gone_columns(
    adds: &[Add],
    keeps_adds_whole: bool,
) -> Result<Option<(Vec<Add>, Vec<FailedRows>)>> {
    let mut tables: Vec<GoneColumns> = Vec::new();
    for part in adds.iter().flat_map(|add| &add.parts) {
        if tables.iter().all(|gone| gone.table != part.table.id()) {
            tables.push(GoneColumns::of(part)?);
        }
    }
    if tables.iter().all(|gone| gone.columns.is_empty()) {
        return Ok(None);
    }
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for Add { parts, is_gathered } in adds {
        let (mut parts_kept, mut failed_here) = (Vec::new(), Vec::new());
        for part in parts {
            let gone = tables.iter().find(|gone| gone.table == part.table.id());
            let gone = gone.expect("looked at above");
            parts_kept.extend(gone.split(part, &mut failed_here)?);
        }
        if let (true, Some(first)) = (keeps_adds_whole, failed_here.first()) {
            let error = first.error.clone();
            failed.extend(parts.iter().map(|part| part.failed(part.batch.clone(), error.clone())));
            continue;
        }
        failed.extend(failed_here);
        if !parts_kept.is_empty() {
            kept.push(Add { parts: parts_kept, is_gathered: *is_gathered });
        }
    }
    Ok(Some((kept, failed)))
}

/// The columns of batches for a table that it lacks now, each with what a value there fails with.
struct GoneColumns {
    table: TableId,
    columns: Vec<(usize, Error)>,
}

impl GoneColumns {
    /// All batches for a table that are committed together have the same columns.
    fn of(part: &Part) -> Result<GoneColumns> {
        let shape = part.table.shape()?;
        let table = part.table.id();
        if shape.discovers() {
            // To it they are new ones.
            return Ok(GoneColumns { table, columns: Vec::new() });
        }
        let columns = shape.columns();
        let known = || columns.fields().iter().map(|field| field.name().as_str());
        let given = part.batch.schema_ref().fields().iter().enumerate();
        let gone = given.filter(|(_, field)| known().all(|known| known != field.name()));
        let gone = gone.map(|(at, field)| (at, Error::unknown("column", field.name(), known())));
        Ok(GoneColumns { table, columns: gone.collect() })
    }

    /// The rows of a part that have no value there, if there are any. The others are noted.
    fn split(&self, part: &Part, failed: &mut Vec<FailedRows>) -> Result<Option<Part>> {
        let batch = &part.batch;
        let mut stays = BooleanBuffer::new_set(batch.num_rows());
        for (at, error) in &self.columns {
            let column = batch.column(*at);
            let is_null = match column.logical_nulls() {
                Some(nulls) => !nulls.inner(),
                None => BooleanBuffer::new_unset(batch.num_rows()),
            };
            let fails = &stays & &!&is_null;
            if fails.count_set_bits() > 0 {
                failed.push(part.failed(rows_where(batch, fails)?, error.clone()));
            }
            stays = &stays & &is_null;
        }
        if stays.count_set_bits() == 0 {
            return Ok(None);
        }
        let is_gone = |at: &usize| self.columns.iter().any(|(gone, _)| gone == at);
        let known: Vec<usize> = (0..batch.num_columns()).filter(|at| !is_gone(at)).collect();
        let batch = rows_where(batch, stays)?.project(&known).map_err(unforeseen)?;
        Ok(Some(Part { table: part.table.clone(), batch }))
    }
}

impl Part {
    fn failed(&self, rows: RecordBatch, error: Error) -> FailedRows {
        FailedRows { table: self.table.name().to_string(), rows, error }
    }
}

fn rows_where(batch: &RecordBatch, rows: BooleanBuffer) -> Result<RecordBatch> {
    filter_record_batch(batch, &BooleanArray::new(rows, None)).map_err(unforeseen)
}

fn unforeseen(error: ArrowError) -> Error {
    Error::invalid(format!("the rows cannot be taken apart: {error}")).with_source(error)
}
