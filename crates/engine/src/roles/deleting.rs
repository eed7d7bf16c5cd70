//! Deleting what a condition selects, in a table of any merge policy.
//!
//! A key range is erased from every table alike. Other rows are erased where each stored row tells by itself whether it is
//! selected: in an append table, and in a rollup table by its dimensions. The rows of an upsert table are selected as they
//! are shown, and their keys are deleted.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use drillcore_format::ids::Lsn;
use drillcore_format::key::Keys;
use drillcore_format::rows::Projection;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::merge::passing::passing;
use crate::merge::resolving::are_live;
use crate::pieces::key_lookup::KeyLookup;
use crate::pieces::piece::Piece;
use crate::policy::refusals::check_tests_stored_rows;
use crate::policy::table_policy::TablePolicy;
use crate::read::snapshot::{Snapshot, TableSnapshot};
use crate::select::fetch::fetch;
use crate::select::selection::{Part, Place, Question, Selected, Selection};
use crate::state::core::Core;
use crate::write::commit::{TableShape, bury, keys_to_delete, table_dropped};
use crate::write::erase::{Exclusive, check_stored_alike, erase_range, erase_rows};

/// Rows whose keys are read at once.
const KEYS_AT_ONCE: usize = 16 << 10;

/// What a delete did.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::arrow_array::{ArrayRef, StringArray};
/// use drillcore::Selection;
///
/// let sets = Some(std::sync::Arc::new(StringArray::from(vec!["UA"])) as ArrayRef);
/// let deleted = flights.delete_selected(&Selection { sets, ..Selection::default() })?;
/// assert_eq!(deleted.rows, 30);
/// assert_eq!(flights.snapshot()?.rows()?, 70);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// Rows deleted, as they were shown.
    pub rows: u64,
    /// The commit; where nothing was deleted, the newest visible one.
    pub lsn: Lsn,
}

/// Refuses a selection of everything, which may be a mistake.
pub fn check_selects(selection: &Selection) -> Result<()> {
    let Selection { between, sets, predicate, split } = selection;
    let has_end = between.as_ref().is_some_and(|range| range.low.is_some() || range.high.is_some());
    if has_end || sets.is_some() || predicate.is_some() || split.is_some() {
        return Ok(());
    }
    Err(Error::invalid(
        "the delete has no selection and would delete all rows; give a key range, sets or a condition, or truncate the \
         table",
    ))
}

/// Deletes the selected rows in one commit.
pub fn delete_selected(
    core: &Arc<Core>,
    shape: &TableShape,
    selection: &Selection,
    interrupt: &Interrupt,
) -> Result<DeleteResult> {
    // What has expired so far is not deleted once more, nor counted.
    let shown = table(core, shape)?;
    let question = selection.check(&shape.schema)?;
    let policy = TablePolicy::of(&shape.layout);
    let erased = match question.key_range() {
        Some(range) => erase_range(core, shape, range, interrupt)?,
        None if policy.deletes() => {
            return delete_shown(core, shape, shown.question(selection)?, interrupt);
        }
        None => {
            let tested = question.test.iter().flat_map(|test| test.columns());
            check_tests_stored_rows(&shape.layout, tested.copied())?;
            erase_rows(core, shape, &question, interrupt)?
        }
    };
    let rows = match shown.indexes_suffice(None) || erased.stored_rows == 0 {
        true => erased.stored_rows,
        false => {
            let before = TableSnapshot::alone(erased.before);
            before.resolved(before.question(selection)?, interrupt)?.len()
        }
    };
    Ok(DeleteResult { rows, lsn: erased.lsn })
}

/// Deletes the rows of the upsert table `name` with the given keys, one array per key column, in one commit. Keys without a
/// row are passed over. Writers of the table wait while the keys are looked up.
pub fn delete_keys(
    core: &Arc<Core>,
    name: &str,
    shape: &TableShape,
    keys: &[ArrayRef],
    interrupt: &Interrupt,
) -> Result<DeleteResult> {
    let keys = keys_to_delete(name, shape, keys)?;
    let _underway = core.begin()?;
    let exclusive = Exclusive::take(core, shape.table, interrupt)?;
    wait_until_all_is_visible(core, shape, interrupt)?;
    let found = table(core, shape)?.find_keys(&keys, interrupt)?;
    let rows = found.len() as u64;
    let lsn = bury(core, shape, found, true, interrupt)?;
    drop(exclusive);
    Ok(DeleteResult { rows, lsn })
}

/// Deletes rows of an upsert table as they are shown.
fn delete_shown(
    core: &Arc<Core>,
    shape: &TableShape,
    question: Question,
    interrupt: &Interrupt,
) -> Result<DeleteResult> {
    let _underway = core.begin()?;
    let (exclusive, keys) = select_exclusively(core, shape, question, interrupt)?;
    let rows = keys.len() as u64;
    let lsn = bury(core, shape, keys, true, interrupt)?;
    drop(exclusive);
    Ok(DeleteResult { rows, lsn })
}

/// Which of some keys have a row or a tombstone in some pieces.
fn are_in(pieces: &[Piece], keys: &[Vec<u8>], interrupt: &Interrupt) -> Result<Vec<bool>> {
    let mut are_in = vec![false; keys.len()];
    let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
    sorted.sort_by_key(|&number| &keys[number as usize]);
    let nothing = Projection::default();
    let keys = &Keys::from_iter(keys);
    let lookup = KeyLookup { keys, projection: &nothing, bytes_max: usize::MAX, interrupt };
    for hits in lookup.newest(pieces, &sorted)? {
        hits.found.iter().for_each(|(key, _)| are_in[*key as usize] = true);
    }
    Ok(are_in)
}

/// Selects rows of an upsert table as they are shown, and returns their encoded keys. Until the guard is dropped, no other call
/// changes the table. Most of the work is done beside writers; then they wait while the rows that changed meanwhile are
/// looked up.
pub fn select_exclusively<'a>(
    core: &'a Core,
    shape: &TableShape,
    question: Question,
    interrupt: &Interrupt,
) -> Result<(Exclusive<'a>, Keys)> {
    let seen = table(core, shape)?;
    check_stored_alike(&shape.schema, &seen.schema())?;
    let selected = seen.resolved(question.clone(), interrupt)?;
    let mut keys = keys_of(&selected, interrupt)?;
    let exclusive = Exclusive::take(core, shape.table, interrupt)?;
    wait_until_all_is_visible(core, shape, interrupt)?;
    let now = table(core, shape)?;
    check_stored_alike(&shape.schema, &now.schema())?;
    let pieces = now.table().pieces.now();
    let changed: Vec<usize> =
        (0..pieces.len()).filter(|&number| pieces[number].lsns().last > seen.lsn()).collect();
    if !changed.is_empty() {
        let changed_pieces = changed.iter().map(|&number| pieces[number].clone());
        let changed_pieces: Vec<Piece> = changed_pieces.collect();
        let mut is_changed = are_in(&changed_pieces, &keys, interrupt)?.into_iter();
        keys.retain(|_| !is_changed.next().expect("one answer for each key"));
        let fresh = selected_in(&now, &question, &changed, interrupt)?;
        keys.extend(keys_of(&fresh, interrupt)?);
    }
    let keys = Keys::from_iter(keys);
    let known = |piece: &Piece| (piece.array.address(), piece.erased_rows());
    let seen = seen.table().pieces.now();
    // A key range that was deleted meanwhile may have taken some of them.
    let keys = match seen.iter().map(known).eq(pieces.iter().map(known)) {
        true => keys,
        false => now.find_keys_that(&keys, None, interrupt)?,
    };
    Ok((exclusive, keys))
}

/// The table of that shape as it is now.
pub fn table(core: &Core, shape: &TableShape) -> Result<TableSnapshot> {
    Snapshot::new(core.version()?).table_of(shape.table).ok_or_else(table_dropped)
}

/// Waits for commits of the table that are being logged.
pub fn wait_until_all_is_visible(
    core: &Core,
    shape: &TableShape,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut state = core.state();
    loop {
        state.check_writable()?;
        let entry = state.tables.get(&shape.table).ok_or_else(table_dropped)?;
        let newest = entry.runs.last().map(|slot| slot.piece.lsns().last);
        let newest = newest.max(entry.erasures.newest());
        if newest.is_none_or(|newest| newest <= core.visible()) {
            return Ok(());
        }
        state = core.wait_or_stop(state, interrupt)?;
    }
}

/// The selected rows that are shown of some pieces.
fn selected_in(
    table: &TableSnapshot,
    question: &Question,
    numbers: &[usize],
    interrupt: &Interrupt,
) -> Result<Selected> {
    let layout = &table.table().layout;
    let pieces = table.table().pieces.now();
    let pieces = pieces.all();
    let candidates = question.scope.select(layout, pieces.clone(), interrupt)?;
    let mut ordinals = vec![Vec::new(); pieces.len()];
    for part in candidates.parts().iter().filter(|part| numbers.contains(&part.piece)) {
        ordinals[part.piece].extend(live_of(table, pieces, part, interrupt)?);
    }
    ordinals.iter_mut().for_each(|ordinals| ordinals.sort_unstable());
    let live = Selected::listed(pieces.clone(), ordinals);
    match &question.test {
        None => Ok(live),
        Some(test) => passing(&live, layout, test, interrupt),
    }
}

fn live_of(
    table: &TableSnapshot,
    pieces: &[Piece],
    part: &Part,
    interrupt: &Interrupt,
) -> Result<Vec<u32>> {
    let mut ordinals = Vec::new();
    part.ordinals(&pieces[part.piece], part.from..part.to, &mut ordinals)?;
    let place = |&ordinal: &u32| Place::new(part.piece, ordinal);
    let places: Vec<Place> = ordinals.iter().map(place).collect();
    let live = are_live(&table.table().layout, pieces, &table.known_dead(), &places, interrupt)?;
    Ok(ordinals.into_iter().zip(live).filter(|(_, is_live)| *is_live).map(|(at, _)| at).collect())
}

/// The encoded keys of some rows.
fn keys_of(selected: &Selected, interrupt: &Interrupt) -> Result<Vec<Vec<u8>>> {
    keys_at(selected, 0..selected.len(), interrupt)
}

/// The encoded keys of the rows with some numbers.
pub fn keys_at(
    selected: &Selected,
    numbers: Range<u64>,
    interrupt: &Interrupt,
) -> Result<Vec<Vec<u8>>> {
    let only_keys = Projection { keys: true, ..Default::default() };
    let numbers: Vec<u64> = numbers.collect();
    let mut keys = Vec::with_capacity(numbers.len());
    for numbers in numbers.chunks(KEYS_AT_ONCE) {
        let places = selected.places(numbers, interrupt)?;
        let rows = fetch(selected.pieces(), &places, &only_keys, interrupt)?;
        keys.extend((0..rows.len()).map(|row| rows.key(row).to_vec()));
    }
    Ok(keys)
}
