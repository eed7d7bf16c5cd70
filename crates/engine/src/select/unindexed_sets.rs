//! The rows of sets without an index: one pass over the set column of a piece.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use drillcore_format::key::encode_value;
use drillcore_format::rows::{Layout, SetCodes};
use drillcore_format::statistics_page::ColumnZones;

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::pieces::sequential_reader::SequentialReader;

/// Rows that a thread looks at before it takes the next ones. A multiple of what scans read at once.
const STEP_ROWS: u64 = 1 << 16;
/// Rows that are worth a thread's while.
const THREAD_ROWS: u64 = 32 << 10;

/// Lists the rows of each of some sets, given by their encoded values in order, among the ordinals `range`:
/// four bytes a row. Reads the set column there, but for blocks in which statistics say that no such value is,
/// with all cores.
pub fn list_members(
    layout: &Layout,
    piece: &Piece,
    sets: &[&[u8]],
    range: Range<u64>,
    interrupt: &Interrupt,
) -> Result<Vec<Arc<[u32]>>> {
    let of_steps = for_each_step(range, |step| {
        let mut members = vec![Vec::new(); sets.len()];
        for ordinals in may_hold(layout, piece, sets, step)? {
            for_each_chunk(layout, piece, ordinals, interrupt, |first, codes| {
                let wanted: Vec<Option<usize>> =
                    codes.values.iter().map(|value| sets.binary_search(&&**value).ok()).collect();
                if wanted.iter().all(Option::is_none) {
                    return;
                }
                for (row, &code) in codes.codes.iter().enumerate() {
                    if let Some(set) = wanted[code as usize] {
                        members[set].push((first + row as u64) as u32);
                    }
                }
            })?;
        }
        Ok(members)
    })?;
    let of_set = |set: usize| of_steps.iter().flat_map(|members| &members[set]).copied().collect();
    Ok((0..sets.len()).map(of_set).collect())
}

/// Counts the rows of every set of a piece into `rows_of`, by encoded value. Reads the whole set column, with
/// all cores.
pub fn count_sets(
    layout: &Layout,
    piece: &Piece,
    rows_of: &mut BTreeMap<Box<[u8]>, u64>,
    interrupt: &Interrupt,
) -> Result<()> {
    let of_steps = for_each_step(0..piece.rows(), |step| {
        let mut rows_of: HashMap<Box<[u8]>, u64> = HashMap::new();
        for_each_chunk(layout, piece, step, interrupt, |_, codes| {
            let mut counts = vec![0; codes.values.len()];
            codes.codes.iter().for_each(|&code| counts[code as usize] += 1);
            for (value, count) in codes.values.into_iter().zip(counts) {
                match rows_of.get_mut(&value) {
                    Some(rows) => *rows += count,
                    None => drop(rows_of.insert(value, count)),
                }
            }
        })?;
        Ok(rows_of)
    })?;
    for (value, rows) in of_steps.into_iter().flatten() {
        *rows_of.entry(value).or_default() += rows;
    }
    Ok(())
}

/// The results of some work on consecutive steps of a range, in order.
fn for_each_step<T: Send>(
    range: Range<u64>,
    work: impl Fn(Range<u64>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let rows = range.end - range.start;
    // Steps end at multiples, so that no block but the first is read for two of them.
    let first = range.start / STEP_ROWS;
    let steps = range.end.div_ceil(STEP_ROWS).saturating_sub(first) as usize;
    side_by_side(steps, threads_for(None, rows, THREAD_ROWS)?, |step| {
        let start = (first + step as u64) * STEP_ROWS;
        work(start.max(range.start)..(start + STEP_ROWS).min(range.end))
    })
}

/// Calls `each` with the first ordinal of each chunk and with the sets of its rows.
fn for_each_chunk(
    layout: &Layout,
    piece: &Piece,
    range: Range<u64>,
    interrupt: &Interrupt,
    mut each: impl FnMut(u64, SetCodes),
) -> Result<()> {
    let columns = [set_column(layout)];
    let projection = layout.projection(&columns);
    let mut reader = SequentialReader::of_columns(piece.clone(), projection, layout, &columns)?;
    let mut from = range.start;
    while from < range.end {
        interrupt.check()?;
        let chunk = reader.chunk_rows();
        let to = (from + chunk - from % chunk).min(range.end);
        let rows = match reader.read_columns(from..to, range.end - from)? {
            Some(rows) => rows,
            None => reader.read_rows(from..to)?,
        };
        each(from, layout.set_codes(&rows)?.expect("the table has a set column"));
        from = to;
    }
    Ok(())
}

/// The parts of a range whose zones may hold one of the sets: ascending, not touching.
fn may_hold(
    layout: &Layout,
    piece: &Piece,
    sets: &[&[u8]],
    range: Range<u64>,
) -> Result<Vec<Range<u64>>> {
    let column = set_column(layout);
    let zones = piece.zones(layout, range.clone(), &[column])?;
    let Some((zones, of_column)) = zones.as_ref().and_then(|all| Some((all, all.column(column)?)))
    else {
        return Ok(vec![range]);
    };
    let mut kept: Vec<Range<u64>> = Vec::new();
    for zone in (0..zones.len()).filter(|&zone| zone_may_hold(of_column, zone, sets)) {
        let ordinals = zones.ordinals(zone);
        let (from, to) = (ordinals.start.max(range.start), ordinals.end.min(range.end));
        match kept.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => kept.push(from..to),
        }
    }
    Ok(kept)
}

fn zone_may_hold(of_column: &ColumnZones, zone: usize, sets: &[&[u8]]) -> bool {
    let ColumnZones { mins, maxes, null_counts } = of_column;
    if null_counts.value(zone) > 0 || mins.is_null(zone) || maxes.is_null(zone) {
        return true;
    }
    // Encoded values have the order of values.
    let encoded = |bounds: &dyn Array| {
        let mut bytes = Vec::new();
        encode_value(bounds, zone, &mut bytes);
        bytes
    };
    let (min, max) = (encoded(mins), encoded(maxes));
    let first = sets.partition_point(|set| *set < min.as_slice());
    sets.get(first).is_some_and(|set| *set <= max.as_slice())
}

fn set_column(layout: &Layout) -> usize {
    layout.schema().set_column().expect("the selection was checked against the schema")
}
