//! The rows of sets without an index: one pass over the set column of a piece.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use drillcore_format::byte_bounds;
use drillcore_format::dictionary::Dictionary;
use drillcore_format::key::encode_value;
use drillcore_format::overlap::overlap;
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::statistics_page::ColumnZones;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::{side_by_side, threads_for};
use crate::error::Result;
use crate::pieces::piece::Piece;
use crate::pieces::sequential_reader::SequentialReader;

/// Rows that a thread looks at before it takes the next ones. A multiple of what scans read at once.
const STEP_ROWS: u64 = 1 << 16;
/// Rows that are worth a thread's while.
const THREAD_ROWS: u64 = 32 << 10;

/// As many codes are looked for one after the other.
const FEW_CODES: usize = 4;

/// The set column of a piece, to be read once.
pub struct SetColumn<'p> {
    layout: &'p Layout,
    piece: &'p Piece,
    /// For the step with the first row, and which that is.
    reader: Mutex<Option<SequentialReader>>,
    first: u64,
    /// The texts that codes stand for, where it is a stream of texts.
    dictionary: Option<Arc<Dictionary>>,
}

/// The set columns of some pieces, one after the other.
pub struct SetColumns<'p> {
    layout: &'p Layout,
    /// Those that were not opened, with the rows that will be read.
    left: Vec<(&'p Piece, Range<u64>)>,
    opened: VecDeque<SetColumn<'p>>,
}

impl<'p> SetColumns<'p> {
    pub fn new(
        layout: &'p Layout,
        pieces: impl Iterator<Item = (&'p Piece, Range<u64>)>,
    ) -> SetColumns<'p> {
        SetColumns { layout, left: pieces.collect(), opened: VecDeque::new() }
    }

    /// The next one. What it and some of those behind it need first is read together.
    pub fn open_next(&mut self) -> Result<Option<SetColumn<'p>>> {
        if self.opened.is_empty() && !self.left.is_empty() {
            let pieces: Vec<Piece> = self.left.iter().map(|(piece, _)| (*piece).clone()).collect();
            let mut readers = set_readers(self.layout, &pieces)?;
            let opened: Vec<_> = self.left.drain(..readers.len()).collect();
            let rows = opened.iter().map(|(_, range)| (range.start, range.end - range.start));
            let to_read = readers.iter_mut().zip(rows).filter(|(_, (_, rows))| *rows > 0);
            SequentialReader::read_columns_ahead(
                to_read.map(|(reader, (first, rows))| (reader, first, rows)),
            );
            let column = |(reader, (piece, range)): (SequentialReader, (&'p Piece, Range<u64>))| {
                let dictionary = reader.dictionary().cloned();
                let (reader, first) = (Mutex::new(Some(reader)), range.start);
                SetColumn { layout: self.layout, piece, reader, first, dictionary }
            };
            self.opened = readers.into_iter().zip(opened).map(column).collect();
        }
        Ok(self.opened.pop_front())
    }
}

impl SetColumn<'_> {
    /// Reads from a row on.
    fn reader(&self, from: u64) -> Result<SequentialReader> {
        if from / STEP_ROWS == self.first / STEP_ROWS {
            let opened = self.reader.lock().take();
            if let Some(reader) = opened {
                return Ok(reader);
            }
        }
        let mut readers = set_readers(self.layout, std::slice::from_ref(self.piece))?;
        Ok(readers.pop().expect("the first is opened"))
    }
}

/// Lists the rows of each of some sets, given by their encoded values in order, among the ordinals `range`:
/// four bytes per row. Reads the set column there with all cores: its stream, or else blocks, but for those in which statistics
/// say that no such value is.
pub fn list_members(
    column: &SetColumn<'_>,
    sets: &[&[u8]],
    range: Range<u64>,
    interrupt: &Interrupt,
) -> Result<Vec<Arc<[u32]>>> {
    let note = |members: &mut Vec<u32>, ordinal| members.push(ordinal);
    let of_steps: Vec<Vec<Vec<u32>>> = note_members(column, sets, range, interrupt, note)?;
    let of_set = |set: usize| of_steps.iter().flat_map(|members| &members[set]).copied().collect();
    Ok((0..sets.len()).map(of_set).collect())
}

/// How many rows each of some sets has there: as [`list_members`], without a list.
pub fn count_members(
    column: &SetColumn<'_>,
    sets: &[&[u8]],
    range: Range<u64>,
    interrupt: &Interrupt,
) -> Result<Vec<u64>> {
    let note = |members: &mut u64, _| *members += 1;
    let of_steps: Vec<Vec<u64>> = note_members(column, sets, range, interrupt, note)?;
    Ok((0..sets.len()).map(|set| of_steps.iter().map(|members| members[set]).sum()).collect())
}

/// Notes each row of some sets in what is known of its set in one step of a range. Steps come in order.
fn note_members<T: Default + Clone + Send>(
    column: &SetColumn<'_>,
    sets: &[&[u8]],
    range: Range<u64>,
    interrupt: &Interrupt,
    note: impl Fn(&mut T, u32) + Sync,
) -> Result<Vec<Vec<T>>> {
    let SetColumn { layout, piece, dictionary, .. } = column;
    let by_code = dictionary.as_ref().map(|texts| sets_by_code(texts.texts(), sets)).transpose()?;
    let codes = by_code.iter().flat_map(|(by_code, _)| by_code.iter().zip(0u64..));
    let wanted: Vec<u64> = codes.filter(|(set, _)| **set != NO_SET).map(|(_, code)| code).collect();
    // Few codes are found without unpacking them all, but not those of nulls, which are any.
    let few = match by_code {
        Some((_, None)) if wanted.len() <= FEW_CODES => Some(wanted.as_slice()),
        _ => None,
    };
    for_each_step(range, |step| {
        let mut members = vec![T::default(); sets.len()];
        // Codes are read in less time than statistics.
        let parts = match by_code {
            Some(_) => vec![step],
            None => may_hold(layout, piece, sets, step)?,
        };
        for ordinals in parts {
            for_each_chunk(column, ordinals, few, interrupt, |chunk| match (chunk, &by_code) {
                (Chunk::Found { ordinal, code }, Some((by_code, _))) => {
                    note(&mut members[by_code[code as usize] as usize], ordinal as u32);
                    Ok(())
                }
                (Chunk::Codes { first, codes, is_null }, Some((by_code, of_null))) => {
                    for (row, &code) in codes.iter().enumerate() {
                        let set = by_code[code as usize];
                        if set == NO_SET && of_null.is_none() {
                            continue;
                        }
                        let set = if is_null(row) { *of_null } else { Some(set) };
                        if let Some(set) = set.filter(|&set| set != NO_SET) {
                            note(&mut members[set as usize], (first + row as u64) as u32);
                        }
                    }
                    Ok(())
                }
                (chunk, _) => {
                    let (first, rows) = chunk.into_rows()?;
                    Ok(layout.for_each_in_sets(&rows, sets, |row, set| {
                        note(&mut members[set], (first + row as u64) as u32);
                    })?)
                }
            })?;
        }
        Ok(members)
    })
}

/// Counts the rows of every set of a piece that are live by their ordinals into `rows_of`, by encoded value. Reads the whole
/// set column, with all cores.
pub fn count_sets(
    column: &SetColumn<'_>,
    is_live: impl Fn(u32) -> bool + Sync,
    rows_of: &mut BTreeMap<Box<[u8]>, u64>,
    interrupt: &Interrupt,
) -> Result<()> {
    let SetColumn { layout, piece, dictionary, .. } = column;
    let texts = dictionary.as_ref().map(|dictionary| dictionary.texts());
    let of_steps = for_each_step(0..piece.rows(), |step| {
        let mut rows_of: HashMap<Box<[u8]>, u64> = HashMap::new();
        let (mut by_code, mut nulls) = (vec![0u64; texts.map_or(0, Array::len)], 0u64);
        for_each_chunk(column, step, None, interrupt, |chunk| {
            let is_live = |ordinal: u64| is_live(ordinal as u32);
            if let Chunk::Codes { first, codes, is_null } = chunk {
                let live = codes.iter().enumerate().filter(|(row, _)| is_live(first + *row as u64));
                for (row, &code) in live {
                    let is_null = is_null(row);
                    nulls += u64::from(is_null);
                    by_code[code as usize] += u64::from(!is_null);
                }
                return Ok(());
            }
            let (first, rows) = chunk.into_rows()?;
            let codes = layout.set_codes(&rows)?.expect("the table has a set column");
            let mut counts = vec![0; codes.values.len()];
            let live = (first..).zip(codes.codes.iter()).filter(|(ordinal, _)| is_live(*ordinal));
            live.for_each(|(_, &code)| counts[code as usize] += 1);
            let counted = codes.values.into_iter().zip(counts).filter(|(_, count)| *count > 0);
            for (value, count) in counted {
                match rows_of.get_mut(&value) {
                    Some(rows) => *rows += count,
                    None => drop(rows_of.insert(value, count)),
                }
            }
            Ok(())
        })?;
        let of_texts = by_code.iter().enumerate().filter(|(_, count)| **count > 0);
        for (code, count) in of_texts {
            let texts = texts.expect("there are codes of its texts");
            *rows_of.entry(encoded(texts, code)).or_default() += count;
        }
        if nulls > 0 {
            let value = encoded(&StringArray::new_null(1), 0);
            *rows_of.entry(value).or_default() += nulls;
        }
        Ok(rows_of)
    })?;
    for (value, rows) in of_steps.into_iter().flatten() {
        *rows_of.entry(value).or_default() += rows;
    }
    Ok(())
}

/// Rows whose set column is read at once.
const ROWS_AT_ONCE: u64 = 8192;

/// What a code of no set that is wanted stands for.
const NO_SET: u32 = u32::MAX;

/// Some consecutive rows, as their set column lies.
enum Chunk<'a> {
    /// The first ordinal, codes into the segment's dictionary, and whether a row has none.
    Codes { first: u64, codes: &'a [u64], is_null: &'a dyn Fn(usize) -> bool },
    /// One row, whose code is among those that were sought.
    Found { ordinal: u64, code: u64 },
    /// The first ordinal, and rows with the set column.
    Rows { first: u64, rows: Rows },
}

impl Chunk<'_> {
    fn into_rows(self) -> Result<(u64, Rows)> {
        match self {
            Chunk::Rows { first, rows } => Ok((first, rows)),
            Chunk::Codes { .. } | Chunk::Found { .. } => {
                unreachable!("codes come of a dictionary that was asked for")
            }
        }
    }
}

/// Those of the first pieces.
fn set_readers(layout: &Layout, pieces: &[Piece]) -> Result<Vec<SequentialReader>> {
    let columns = [set_column(layout)];
    let projection = layout.projection(&columns);
    SequentialReader::of_columns_of_some(pieces, &projection, layout, &columns, ROWS_AT_ONCE)
}

/// For each text the position of its set among those wanted, and that of the set of nulls.
fn sets_by_code(texts: &StringArray, sets: &[&[u8]]) -> Result<(Vec<u32>, Option<u32>)> {
    let position = |value: &[u8]| sets.binary_search(&value).ok().map(|set| set as u32);
    let of_null = position(&encoded(&StringArray::new_null(1), 0));
    let mut value = Vec::new();
    let of_text = |code: usize| {
        value.clear();
        encode_value(texts, code, &mut value);
        position(&value).unwrap_or(NO_SET)
    };
    Ok(((0..texts.len()).map(of_text).collect(), of_null))
}

fn encoded(array: &dyn Array, row: usize) -> Box<[u8]> {
    let mut value = Vec::new();
    encode_value(array, row, &mut value);
    value.into()
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

/// Calls `each` with the rows of a range, some at a time; or, where they lie as codes, with those that have one of the codes
/// sought.
fn for_each_chunk(
    column: &SetColumn<'_>,
    range: Range<u64>,
    sought: Option<&[u64]>,
    interrupt: &Interrupt,
    mut each: impl FnMut(Chunk<'_>) -> Result<()>,
) -> Result<()> {
    let mut reader = column.reader(range.start)?;
    let has_codes = reader.dictionary().is_some();
    let mut from = range.start;
    while from < range.end {
        interrupt.check()?;
        let chunk = reader.chunk_rows();
        let mut to = (from + chunk - from % chunk).min(range.end);
        let in_sequence = range.end - from;
        let mut done = Ok(());
        let mut each_of = |chunk: Chunk<'_>| {
            if done.is_ok() {
                done = each(chunk);
            }
        };
        let by_code = match sought {
            _ if !has_codes => false,
            Some(sought) => reader.find_codes(from..to, in_sequence, sought, |ordinal, code| {
                each_of(Chunk::Found { ordinal, code });
            })?,
            None => reader.read_codes(from..to, in_sequence, |first, codes, is_null| {
                each_of(Chunk::Codes { first, codes, is_null });
            })?,
        };
        done?;
        if !by_code {
            let rows = match reader.read_columns(from..to, in_sequence, range.end)? {
                Some(rows) => rows,
                None => {
                    // Set names of kilobytes are read a few at a time.
                    let rows = reader.read_some(from..to, byte_bounds::chunk(), range.end)?;
                    to = from + rows.len() as u64;
                    rows
                }
            };
            each(Chunk::Rows { first: from, rows })?;
        }
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
        let part = overlap(&zones.ordinals(zone), &range);
        match kept.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => kept.push(part),
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
