//! Committing a batch, such that one bad row does not keep the others out.

use std::borrow::Cow;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use drillcore_format::ids::Lsn;

use crate::calls::interrupt::Interrupt;
use crate::database::background_writer::add::{Add, Part};
use crate::database::background_writer::failed_rows::FailedRows;
use crate::database::background_writer::gone_columns::without_gone_columns;
use crate::database::handles::Table;
use crate::error::{Error, ErrorKind, Result, without_panic};
use crate::schema::conform::{AppendOptions, OnError};
use crate::write::commit::{self, AppendResult};

/// What came of a batch.
#[derive(Default)]
pub struct Outcome {
    pub rows: u64,
    pub commits: u64,
    pub lsn: Option<Lsn>,
    pub failed: Vec<FailedRows>,
}

/// Commits adds, all in one commit if all of them fit. If not, those that do go in, in their order, in as few commits as
/// halving finds. So one bad one of n costs about `2 log n` more tries.
///
/// With `keeps_adds_whole`, each add is in one commit or left out. Without, rows that cannot be stored are left out one by one.
pub fn commit_adds(adds: &[Add], keeps_adds_whole: bool, outcome: &mut Outcome) {
    let appended = without_panic(|| append(adds, keeps_adds_whole));
    match appended {
        Ok((result, failed)) => {
            outcome.rows += result.rows;
            outcome.commits += u64::from(result.rows > 0);
            outcome.lsn = outcome.lsn.max(Some(result.lsn));
            outcome.failed.extend(failed);
        }
        Err(error)
            if error.kind() == ErrorKind::NotFound
                && let Ok(Some((kept, failed))) = without_gone_columns(adds, keeps_adds_whole) =>
        {
            outcome.failed.extend(failed);
            if !kept.is_empty() {
                commit_adds(&kept, keeps_adds_whole, outcome);
            }
        }
        Err(error) => match halves(adds) {
            Some(halves) if is_about_the_rows(&error) => {
                for half in halves {
                    commit_adds(&half, keeps_adds_whole, outcome);
                }
            }
            _ => {
                let failed = merged(adds).unwrap_or_default().into_iter().map(|(table, rows)| {
                    FailedRows { table: table.name().to_string(), rows, error: error.clone() }
                });
                outcome.failed.extend(failed);
            }
        },
    }
}

/// The first and the second half of the adds, or of the rows of a lone one that is of several calls.
fn halves(adds: &[Add]) -> Option<[Cow<'_, [Add]>; 2]> {
    if adds.len() > 1 {
        let (first, others) = adds.split_at(adds.len() / 2);
        return Some([first, others].map(Cow::Borrowed));
    }
    let [Add { parts, is_gathered: true }] = adds else { return None };
    let [Part { table, batch }] = &parts[..] else { return None };
    let rows = batch.num_rows();
    if rows < 2 {
        return None;
    }
    Some([(0, rows / 2), (rows / 2, rows - rows / 2)].map(|(from, count)| {
        let half = Part { table: table.clone(), batch: batch.slice(from, count) };
        Cow::Owned(vec![Add { parts: vec![half], is_gathered: true }])
    }))
}

/// Whether other rows might be stored.
pub fn is_about_the_rows(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidArgument
            | ErrorKind::NotFound
            | ErrorKind::OutOfRange
            | ErrorKind::Internal
    )
}

fn append(adds: &[Add], keeps_adds_whole: bool) -> Result<(AppendResult, Vec<FailedRows>)> {
    let merged = merged(adds)?;
    let mut batches = Vec::with_capacity(merged.len());
    for (table, batch) in &merged {
        batches.push((table.shape()?, batch.clone()));
    }
    let on_error = if keeps_adds_whole { OnError::Raise } else { OnError::Skip };
    // Columns that rows may not lack were asked for when they were added.
    let options = AppendOptions { on_error, fill_nulls: true };
    let (table, rows) = merged.first().expect("a batch that is committed has rows");
    let core = table.database().core()?;
    let result = commit::append(core, batches, options, &Interrupt::never())?;
    let failed = result.rejected.iter().map(|rejected| FailedRows {
        table: table.name().to_string(),
        rows: rows.slice(rejected.row as usize, 1),
        error: Error::invalid(rejected.reason.clone()),
    });
    let failed = failed.collect();
    Ok((result, failed))
}

/// The rows of adds, one batch for each table.
fn merged(adds: &[Add]) -> Result<Vec<(&Table, RecordBatch)>> {
    let mut tables: Vec<(&Table, Vec<&RecordBatch>)> = Vec::new();
    for part in adds.iter().flat_map(|add| &add.parts) {
        match tables.iter_mut().find(|(table, _)| table.id() == part.table.id()) {
            Some((_, batches)) => batches.push(&part.batch),
            None => tables.push((&part.table, vec![&part.batch])),
        }
    }
    let merge = |(table, batches): (_, Vec<&RecordBatch>)| {
        if let [only] = batches[..] {
            return Ok((table, only.clone()));
        }
        // They have the same columns: `OpenBatch::has_room`.
        let whole = concat_batches(batches[0].schema_ref(), batches);
        let too_long = |error: arrow_schema::ArrowError| {
            Error::invalid(format!("the rows cannot be committed together: {error}"))
                .with_source(error)
        };
        Ok((table, whole.map_err(too_long)?))
    };
    tables.into_iter().map(merge).collect()
}
