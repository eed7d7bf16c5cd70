//! Fetching: from places to rows, each block read once, in the order asked for.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use drillcore_format::byte_bounds;
use drillcore_format::key::Keys;
use drillcore_format::pick::Pick;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::texts_by_code::Strings;

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::side_by_side;
use crate::error::{Error, Result};
use crate::pieces::piece::{Piece, Wanted, fetch_together};
use crate::select::selection::{Part, Place, Selected};

/// Rows fetched between two looks at the interrupt.
const CHUNK_ROWS: usize = 16_384;
/// Places sorted between two looks at the interrupt.
const SORTED_AT_ONCE: usize = 1 << 18;
/// Chunks that each of several threads should have, so that none waits long for another's last.
const CHUNKS_PER_THREAD: usize = 4;

/// Rows as they were read, and where each that was asked for is among them.
struct Fetched {
    parts: Vec<Rows>,
    picks: Vec<Pick>,
}

/// Columns of a table, by their numbers in its schema.
#[derive(Clone, Copy)]
pub struct TableColumns<'c> {
    pub layout: &'c Layout,
    pub columns: &'c [usize],
}

/// Rows of one piece that are read together, ascending.
struct Chunk {
    piece: usize,
    ordinals: Vec<u32>,
}

/// Fetches the rows at `places`, at least one, in their order; a place may come more than once.
///
/// Rows in memory are copied from where they lie. Where some are on disk, places are sorted so that each piece is visited
/// once and each of its blocks read once; the rows are then put back in order in one pass.
pub fn fetch(
    pieces: &[Piece],
    places: &[Place],
    projection: &Projection,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let mut rows =
        fetch_in_shares(pieces, places, None, projection, 1, interrupt, |_, rows| Ok(rows))?;
    Ok(rows.remove(0))
}

/// The rows at `places`, copied from where they lie in memory. `None` if a row is on disk or not as it is to be shown, or if there are
/// more rows than are copied between two looks at the interrupt.
fn in_memory(
    pieces: &[Piece],
    places: &[Place],
    projection: &Projection,
    columns: Option<TableColumns<'_>>,
) -> Result<Option<Rows>> {
    if places.len() > CHUNK_ROWS {
        return Ok(None);
    }
    let mut part_of: Vec<Option<u32>> = vec![None; pieces.len()];
    places.iter().for_each(|place| part_of[place.piece as usize] = Some(0));
    let mut runs = Vec::new();
    for (piece, part) in pieces.iter().zip(&mut part_of).filter(|(_, part)| part.is_some()) {
        let Some(run) = piece.run() else { return Ok(None) };
        *part = Some(runs.len() as u32);
        runs.push(run);
    }
    let pick = |place: &Place| {
        Pick::of(part_of[place.piece as usize].expect("it is among the parts"), place.ordinal)
    };
    let picks: Vec<Pick> = places.iter().map(pick).collect();
    let parts: Vec<&Rows> = runs.iter().map(|run| run.held_rows()).collect();
    if !Rows::may_be_picked(&parts, projection) {
        return Ok(None);
    }
    let bytes = Rows::picked_bytes(&parts, &picks, projection);
    if bytes > byte_bounds::array() {
        return Err(too_many_string_bytes(picks.len(), bytes));
    }
    // One count has those of all runs.
    runs[0].note_examined(places.len());
    Ok(Some(match columns.filter(|_| projection.keys) {
        Some(TableColumns { layout, columns }) => {
            let key = layout.key_positions(columns);
            Rows::picked_by_columns(&parts, &picks, projection, layout.key_types(), &key)?
        }
        None => Rows::picked(&parts, &picks, projection),
    }))
}

/// Reads the rows at `places`, at least one, with some threads, and gives each thread's share of places and rows, in order, to
/// `each`, which needs of keys no more than some columns of the table, if these are given. See [`fetch`].
pub fn fetch_in_shares<T: Send>(
    pieces: &[Piece],
    places: &[Place],
    columns: Option<TableColumns<'_>>,
    projection: &Projection,
    threads: usize,
    interrupt: &Interrupt,
    each: impl Fn(&[Place], Rows) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    interrupt.check()?;
    if threads == 1
        && let Some(rows) = in_memory(pieces, places, projection, columns)?
    {
        return Ok(vec![each(places, rows)?]);
    }
    let Fetched { parts, picks } = fetch_parts(pieces, places, projection, threads, interrupt)?;
    if threads == 1 {
        return Ok(vec![each(places, gather(parts, &picks)?)?]);
    }
    check_string_bytes(&parts, &picks)?;
    let parts: Vec<&Rows> = parts.iter().collect();
    let share = places.len().div_ceil(threads);
    let shares: Vec<_> = places.chunks(share).zip(picks.chunks(share)).collect();
    side_by_side(shares.len(), threads, |number| {
        let (places, picks) = shares[number];
        each(places, Rows::interleave(&parts, picks))
    })
}

/// Reads the rows at `places`, at least one, with some threads. A block on the border of two threads' chunks
/// is read by both.
///
/// # Errors
/// `InvalidArgument` once they have more strings than a batch can hold; the rest is not read then.
fn fetch_parts(
    pieces: &[Piece],
    places: &[Place],
    projection: &Projection,
    threads: usize,
    interrupt: &Interrupt,
) -> Result<Fetched> {
    assert!(!places.is_empty());
    let chunk_rows = match threads {
        1 => CHUNK_ROWS,
        _ => places.len().div_ceil(threads * CHUNKS_PER_THREAD).min(CHUNK_ROWS),
    };
    let (chunks, mut picks) = chunks(places, chunk_rows, interrupt)?;
    let groups = groups(&chunks, chunk_rows);
    // Keys, and any column of strings: if all are full, one of them is more than full.
    let all_bytes_max = byte_bounds::array().saturating_mul(projection.values.len() + 1);
    let total = AtomicUsize::new(0);
    let parts_of = side_by_side(groups.len(), threads, |number| {
        let chunks = &chunks[groups[number].clone()];
        let wanted: Vec<Wanted<'_>> = chunks
            .iter()
            .map(|Chunk { piece, ordinals }| Wanted { piece: &pieces[*piece], ordinals })
            .collect();
        let mut parts: Vec<Vec<Rows>> = vec![Vec::new(); chunks.len()];
        fetch_together(&wanted, projection, byte_bounds::batch(), interrupt, |chunk, rows| {
            let bytes = rows.string_bytes();
            if total.fetch_add(bytes, Ordering::Relaxed) + bytes > all_bytes_max {
                return Err(too_many_string_bytes(places.len(), all_bytes_max));
            }
            parts[chunk].push(rows);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(parts)
    })?;
    let parts_of: Vec<Vec<Rows>> = parts_of.into_iter().flatten().collect();
    if parts_of.iter().any(|parts| parts.len() > 1) {
        renumber(&mut picks, &parts_of);
    }
    Ok(Fetched { parts: parts_of.into_iter().flatten().collect(), picks })
}

/// Which chunks are read together: neighbours, as long as they have the rows of one large chunk. So the rows of many
/// pieces are read at once, however few each has.
fn groups(chunks: &[Chunk], chunk_rows: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut rows = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        rows += chunk.ordinals.len();
        match groups.last_mut().filter(|_| rows <= chunk_rows) {
            Some(group) => group.end = number + 1,
            None => {
                groups.push(number..number + 1);
                rows = chunk.ordinals.len();
            }
        }
    }
    groups
}

/// Makes chunks and rows in them into parts, of which a chunk may have several, and rows in these.
fn renumber(picks: &mut [Pick], parts_of: &[Vec<Rows>]) {
    // For each chunk its first part, and where its parts begin.
    let mut first_part = 0;
    let begins: Vec<(usize, Vec<usize>)> = parts_of
        .iter()
        .map(|parts| {
            let mut row = 0;
            let begin = |part: &Rows| {
                row += part.len();
                row - part.len()
            };
            first_part += parts.len();
            (first_part - parts.len(), parts.iter().map(begin).collect())
        })
        .collect();
    for pick in picks {
        let (first, begins) = &begins[pick.part()];
        let part = begins.partition_point(|&begin| begin <= pick.row()) - 1;
        *pick = Pick::new(first + part, pick.row() - begins[part]);
    }
}

/// How many of a selection's rows, drawn at random, are fetched at once where they need not be one batch: about as
/// many as have the bytes of a batch.
pub fn rows_at_once(selected: &Selected, projection: &Projection) -> usize {
    let is_string = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Binary);
    if !projection.keys && !projection.types.iter().any(is_string) {
        return usize::MAX;
    }
    let bytes_of = |part: &Part| part.len() * selected.pieces()[part.piece].mean_row_bytes();
    let bytes: u64 = selected.parts().iter().map(bytes_of).sum();
    let mean = (bytes / selected.len().max(1)).max(1);
    (byte_bounds::batch() as u64 / mean).max(1) as usize
}

/// Sorts places into chunks, and tells for each in which it lies and where.
fn chunks(
    places: &[Place],
    chunk_rows: usize,
    interrupt: &Interrupt,
) -> Result<(Vec<Chunk>, Vec<Pick>)> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut picks = vec![Pick::new(0, 0); places.len()];
    for (at, (Place { piece, ordinal }, i)) in in_order(places, interrupt)?.into_iter().enumerate()
    {
        if at.is_multiple_of(SORTED_AT_ONCE) {
            interrupt.check()?;
        }
        let piece = piece as usize;
        match chunks.last_mut().filter(|chunk| chunk.piece == piece) {
            Some(chunk) if chunk.ordinals.last() == Some(&ordinal) => {}
            Some(chunk) if chunk.ordinals.len() < chunk_rows => chunk.ordinals.push(ordinal),
            _ => chunks.push(Chunk { piece, ordinals: vec![ordinal] }),
        }
        let chunk = chunks.len() - 1;
        picks[i as usize] = Pick::new(chunk, chunks[chunk].ordinals.len() - 1);
    }
    Ok((chunks, picks))
}

/// Places in order, each with its number. Sorted in parts, which are merged two by two: so the interrupt is asked now and then,
/// and a comparison looks at what lies in the cache.
fn in_order(places: &[Place], interrupt: &Interrupt) -> Result<Vec<(Place, u32)>> {
    let mut sorted: Vec<(Place, u32)> = places.iter().copied().zip(0..).collect();
    for part in sorted.chunks_mut(SORTED_AT_ONCE) {
        interrupt.check()?;
        part.sort_unstable();
    }
    let mut of_part = SORTED_AT_ONCE;
    while of_part < sorted.len() {
        for two in sorted.chunks_mut(2 * of_part) {
            interrupt.check()?;
            // It knows runs in order, and merges them.
            two.sort();
        }
        of_part *= 2;
    }
    Ok(sorted)
}

/// The rows at `picks`, of at least one part: copied, unless they are all of one part in its order.
/// An error if their strings fit no array.
pub fn gather(mut parts: Vec<Rows>, picks: &[Pick]) -> Result<Rows> {
    if parts.len() == 1 && is_identity(picks, parts[0].len()) {
        return Ok(parts.remove(0));
    }
    check_string_bytes(&parts, picks)?;
    Ok(Rows::interleave(&parts.iter().collect::<Vec<_>>(), picks))
}

/// Refuses rows whose keys, or strings of a column, are more than one array holds.
fn check_string_bytes(parts: &[Rows], picks: &[Pick]) -> Result<()> {
    let bytes = |at: usize| -> Option<usize> {
        let strings: Vec<Strings<'_>> =
            parts.iter().map(|part| Strings::of(part.value(at))).collect::<Option<_>>()?;
        Some(picks.iter().map(|pick| strings[pick.part()].byte_len(pick.row())).sum())
    };
    let keys = parts[0].has_keys().then(|| {
        let keys: Vec<_> = parts.iter().map(Rows::keys).collect();
        Keys::picked_bytes(&keys, picks)
    });
    let strings = (0..parts[0].values().len()).map(bytes);
    match strings.chain([keys]).flatten().max() {
        Some(bytes) if bytes > byte_bounds::array() => {
            Err(too_many_string_bytes(picks.len(), bytes))
        }
        _ => Ok(()),
    }
}

/// An error for a caller whose rows must be in one batch.
pub fn too_many_string_bytes(rows: usize, bytes: usize) -> Error {
    Error::invalid(format!(
        "{rows} rows have at least {bytes} bytes of strings; the limit per column of a batch is {}. Select \
         fewer rows or fewer columns",
        byte_bounds::array()
    ))
}

fn is_identity(picks: &[Pick], len: usize) -> bool {
    picks.len() == len && picks.iter().enumerate().all(|(i, pick)| pick.row() == i)
}

/// A batch without rows.
pub(crate) fn no_rows(layout: &Layout, columns: &[usize]) -> RecordBatch {
    let schema = layout.schema().columns.project(columns).expect("columns were resolved");
    RecordBatch::new_empty(schema.into())
}
