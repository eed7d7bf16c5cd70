//! Rows at places of a selection, as they are shown: of a rollup table whole rows, put together from all pieces.

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use drillcore_format::rows::{Layout, Projection, Rows};

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::{Error, Result};
use crate::merge::rollup::shown;
use crate::read::passing::pass;
use crate::read::snapshot::TableSnapshot;
use crate::select::fetch::{
    Fetched, check_string_bytes, fetch, fetch_parts, gather, no_rows, rows_at_once,
};
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
    let layout = &table.table().layout;
    match layout.rollup() {
        Some(rollup) if !places.is_empty() => {
            let whole = whole_rows_at(table, selected, places, interrupt)?;
            let passes = test.passes(&shown(layout, rollup, &whole, test.columns())?)?;
            Ok(passes.values().iter().collect())
        }
        _ => pass(selected, layout, test, places, interrupt),
    }
}

/// The rows at some places, as they are shown. Several threads read where there are many.
pub fn show(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    places: &[Place],
    threads: Option<usize>,
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let layout = &table.table().layout;
    let threads = threads_for(Some(threads.unwrap_or(1)), places.len() as u64, PLACES_PER_THREAD)?;
    if places.is_empty() {
        return Ok(no_rows(layout, columns));
    }
    match layout.rollup() {
        None => rows_at_places(selected, layout, columns, places, threads, interrupt),
        Some(rollup) => in_shares(places, threads, |places| {
            let whole = whole_rows_at(table, selected, places, interrupt)?;
            shown(layout, rollup, &whole, columns)
        }),
    }
}

/// The rows of all items, of which each thread works on a share.
fn in_shares<T: Sync>(
    items: &[T],
    threads: usize,
    rows: impl Fn(&[T]) -> Result<RecordBatch> + Sync,
) -> Result<RecordBatch> {
    let shares: Vec<&[T]> = items.chunks(items.len().div_ceil(threads)).collect();
    let mut batches = side_by_side(shares.len(), threads, |share| rows(shares[share]))?;
    match batches.len() {
        1 => Ok(batches.remove(0)),
        _ => {
            let columns = batches[0].schema();
            concat_batches(&columns, &batches).map_err(|error| {
                Error::invalid(format!(
                    "{} rows do not fit in one batch: {error}; select fewer rows or columns",
                    items.len()
                ))
            })
        }
    }
}

/// The whole row of each partial row, at least one.
fn whole_rows_at(
    table: &TableSnapshot,
    partials: &Selected,
    places: &[Place],
    interrupt: &Interrupt,
) -> Result<Rows> {
    let only_keys = Projection { keys: true, ..Default::default() };
    let keys = fetch(partials.pieces(), places, &only_keys, interrupt)?;
    let found = table.whole_rows(keys.keys(), interrupt)?;
    let rows = found.positions.iter().zip(places).map(|(row, place)| match row {
        Some(row) => Ok((0, *row as usize)),
        // Its own piece has the key, if it was not hidden there.
        None => Err(partials.pieces()[place.piece].hides(place.ordinal)),
    });
    gather(vec![found.rows], &rows.collect::<Result<Vec<_>>>()?)
}

/// How many rows of a selection, drawn at random, [`rows_at`] gives at once without taking much memory.
pub fn rows_at_a_time(table: &TableSnapshot, selected: &Selected, columns: &[usize]) -> usize {
    let layout = &table.table().layout;
    match layout.rollup() {
        None => rows_at_once(selected, &layout.projection(columns)),
        Some(_) => rows_at_once(selected, &layout.all()),
    }
}

/// The rows with the given numbers of a selection, in that order, as they are shown.
pub fn rows_at(
    table: &TableSnapshot,
    selected: &Selected,
    columns: &[usize],
    numbers: &[u64],
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let places = places_of(selected, numbers, interrupt)?;
    show(table, selected, columns, &places, Some(1), interrupt)
}

fn places_of(selected: &Selected, numbers: &[u64], interrupt: &Interrupt) -> Result<Vec<Place>> {
    let mut places = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(Interrupt::LOOKUPS) {
        interrupt.check()?;
        for &number in chunk {
            places.push(selected.place(number)?);
        }
    }
    Ok(places)
}

pub fn rows_at_places(
    selected: &Selected,
    layout: &Layout,
    columns: &[usize],
    places: &[Place],
    threads: usize,
    interrupt: &Interrupt,
) -> Result<RecordBatch> {
    let projection = layout.projection(columns);
    if threads == 1 {
        let rows = fetch(selected.pieces(), places, &projection, interrupt)?;
        return Ok(layout.decode(&rows, columns)?);
    }
    let Fetched { parts, picks } =
        fetch_parts(selected.pieces(), places, &projection, threads, interrupt)?;
    check_string_bytes(&parts, &picks)?;
    let parts: Vec<&Rows> = parts.iter().collect();
    in_shares(
        &picks,
        threads,
        |picks| Ok(layout.decode(&Rows::interleave(&parts, picks), columns)?),
    )
}
