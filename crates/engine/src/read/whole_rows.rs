//! Whole rows of a rollup table, combined from the partial rows of all pieces.

use std::collections::HashMap;

use drillcore_format::key::Keys;
use drillcore_format::pick::Pick;
use drillcore_format::rows::{Layout, Rows};

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::pieces::key_lookup::KeyLookup;
use crate::policy::table_policy::TablePolicy;
use crate::read::snapshot::TableSnapshot;
use crate::select::fetch::gather;
use crate::select::selection::{Place, Selected};

/// Whole rows that are combined at once.
const FOLDED_AT_ONCE: usize = 1024;

/// The rows that a list of keys found, with all values.
pub struct WholeRows {
    pub rows: Rows,
    /// For each key its row, if there is one.
    pub positions: Vec<Option<u32>>,
}

/// The whole row of each partial row, at least one: these are given by their places and their keys.
pub fn whole_rows_at(
    table: &TableSnapshot,
    partials: &Selected,
    places: &[Place],
    keys: &Keys,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let found = whole_rows(table, keys, interrupt)?;
    let rows = found.positions.iter().zip(places).map(|(row, place)| match row {
        Some(row) => Ok(Pick::new(0, *row as usize)),
        // Its own piece has the key, if it was not hidden there.
        None => Err(partials.pieces()[place.piece as usize].hides(place.ordinal)),
    });
    gather(vec![found.rows], &rows.collect::<Result<Vec<_>>>()?)
}

/// The whole rows of a rollup table with some keys, each found key once, with all values.
pub fn whole_rows(table: &TableSnapshot, keys: &Keys, interrupt: &Interrupt) -> Result<WholeRows> {
    let layout = &table.table().layout;
    let all = layout.all();
    let lookup = KeyLookup { keys, projection: &all, bytes_max: usize::MAX, interrupt };
    // The keys as they come for the first time, and for each key its number among these.
    let mut number_of: HashMap<&[u8], usize> = HashMap::new();
    let mut distinct: Vec<u32> = Vec::new();
    let mut numbers = Vec::with_capacity(keys.len());
    for key in 0..keys.len() {
        numbers.push(*number_of.entry(keys.value(key)).or_insert_with(|| {
            distinct.push(key as u32);
            distinct.len() - 1
        }));
    }
    let mut whole: Vec<Rows> = Vec::new();
    let mut whole_count = 0;
    let mut row_of: Vec<Option<u32>> = Vec::with_capacity(distinct.len());
    for asked in distinct.chunks(FOLDED_AT_ONCE) {
        interrupt.check()?;
        let mut parts: Vec<Rows> = Vec::new();
        // The key of each partial row and where it is, in this order: older pieces come first.
        let mut partials: Vec<(u32, Pick)> = Vec::new();
        let mut sorted = asked.to_vec();
        sorted.sort_unstable_by_key(|&key| keys.value(key as usize));
        for hits in lookup.of_each(&table.table().pieces.now(), &sorted)? {
            let place = |(key, row): (u32, u32)| (key, Pick::new(parts.len(), row as usize));
            partials.extend(hits.found.into_iter().map(place));
            parts.push(hits.rows);
        }
        partials.sort_unstable();
        let mut groups = partials.chunk_by(|a, b| a.0 == b.0).peekable();
        for &key in asked {
            let is_found = groups.next_if(|group| group[0].0 == key).is_some();
            row_of.push(is_found.then_some(whole_count));
            whole_count += u32::from(is_found);
        }
        if !partials.is_empty() {
            whole.push(fold_partials(layout, parts, &partials)?);
        }
    }
    let positions = numbers.into_iter().map(|number| row_of[number]).collect();
    if whole.is_empty() {
        return Ok(WholeRows { rows: Rows::new(0, None, Vec::new()), positions });
    }
    let picks = Pick::all(whole.iter().map(Rows::len));
    Ok(WholeRows { rows: gather(whole, &picks)?, positions })
}

/// Folds partial rows, each given with the number of its key, sorted.
fn fold_partials(layout: &Layout, parts: Vec<Rows>, partials: &[(u32, Pick)]) -> Result<Rows> {
    let picks: Vec<Pick> = partials.iter().map(|(_, pick)| *pick).collect();
    let mut end = 0;
    let ends = partials.chunk_by(|a, b| a.0 == b.0).map(|group| {
        end += group.len() as u32;
        end
    });
    let ends: Vec<u32> = ends.collect();
    TablePolicy::of(layout).fold().combine(gather(parts, &picks)?, &ends)
}
