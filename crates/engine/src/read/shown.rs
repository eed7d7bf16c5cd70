//! Rows at places of a selection, as they are shown: of a rollup table whole rows, put together from all pieces.

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use drillcore_format::rows::{Projection, Rows};

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::threads_for;
use crate::error::{Error, Result};
use crate::policy::table_policy::TablePolicy;
use crate::read::snapshot::TableSnapshot;
use crate::read::whole_rows::whole_rows_at;
use crate::select::fetch::{TableColumns, fetch_in_shares, no_rows, rows_at_once};
use crate::select::predicate::Test;
use crate::select::selection::{Place, Selected};

/// Rows drawn that are worth a thread.
const PLACES_PER_THREAD: u64 = 16_384;

/// Which of the rows at some places pass a test.
pub fn rows_pass(
    table: &TableSnapshot,
    selected: &Selected,
    test: &Test,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Vec<bool>> {
    let mut passed = Vec::with_capacity(places.len());
    for places in places.chunks(rows_at_a_time(table, selected, test.columns())) {
        let rows = show(table, selected, test.columns(), places, None, interrupt)?;
        passed.extend(test.passes(&rows)?.values().iter());
    }
    Ok(passed)
}

/// The rows at some places, as they are shown, read by one thread unless more are asked for and there are many.
pub fn show(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    places: &[Place],
    threads: Option<usize>,
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let layout = &table.table().layout;
    let policy = TablePolicy::of(layout);
    let threads = threads_of(threads, places.len() as u64)?;
    if places.is_empty() {
        return Ok(no_rows(layout, columns));
    }
    let pieces = selected.pieces();
    let mut batches = if policy.combines() {
        // By the keys all parts of the rows are found.
        let keys = Projection { keys: true, ..Default::default() };
        let shown = |places: &[Place], rows: Rows| {
            let whole = whole_rows_at(table, selected, places, rows.keys(), interrupt)?;
            policy.shown(&whole, columns)
        };
        fetch_in_shares(pieces, places, None, &keys, threads, interrupt, shown)?
    } else {
        let needed = policy.projection(columns);
        let read = Some(TableColumns { layout, columns });
        let shown = |_: &[Place], rows: Rows| policy.shown(&rows, columns);
        fetch_in_shares(pieces, places, read, &needed, threads, interrupt, shown)?
    };
    if batches.len() == 1 {
        return Ok(batches.remove(0));
    }
    concat_batches(&batches[0].schema(), &batches).map_err(|error| {
        let message = format!(
            "{} rows do not fit in one batch: {error}; select fewer rows or columns",
            places.len()
        );
        Error::invalid(message).with_source(error)
    })
}

/// How many threads read some rows: one, unless more are asked for and the rows are many.
///
/// # Errors
/// `InvalidArgument` if none is asked for.
pub fn threads_of(threads: Option<usize>, rows: u64) -> Result<usize> {
    threads_for(Some(threads.unwrap_or(1)), rows, PLACES_PER_THREAD)
}

/// How many rows of a selection, drawn at random, [`rows_at`] gives at once without taking much memory.
pub fn rows_at_a_time(table: &TableSnapshot, selected: &Selected, columns: &[usize]) -> usize {
    rows_at_once(selected, &TablePolicy::of(&table.table().layout).projection(columns))
}

/// The rows with the given numbers of a selection, in that order, as they are shown.
pub fn rows_at(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    numbers: &[u64],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let places = selected.places(numbers, interrupt)?;
    show(table, selected, columns, &places, None, interrupt)
}
