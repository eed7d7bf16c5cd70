//! Several runs as one, and the memory that it takes to make it.

use std::mem;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use drillcore_format::ids::LsnRange;
use drillcore_format::key::KeyCodes;
use drillcore_format::rows::{Layout, Projection, Rows, RowsConcat};
use drillcore_format::texts_by_code::{are_one, is_by_code, texts_of};

use crate::error::Result;
use crate::merge::carried_liveness::{CarriedLiveness, CarryingSource};
use crate::merge::disjoint::disjoint_groups;
use crate::merge::merger::{Direction, Merger, PICK_BYTES};
use crate::merge::piece_source::PieceSource;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::{Piece, SortedArray};
use crate::pieces::rows_examined::RowsExamined;
use crate::pieces::run::{Run, UncommittedRun};
use crate::policy::table_policy::TablePolicy;

/// Rows that are merged at once: a moment's work, ...
const BATCH_ROWS: usize = 1 << 14;
/// ... unless no more than these are merged, without being combined. Then no row is copied twice.
const ONE_BATCH_ROWS: u64 = 1 << 16;

/// The bytes of memory that [`compacted`] takes beside those of the runs, until it is done. O(runs * (log runs + columns)).
pub fn compaction_bytes(layout: &Layout, runs: &[Arc<Run>]) -> u64 {
    let codes = coding_bytes(layout, runs) + text_coding_bytes(layout, runs);
    let copy = total_bytes(runs) + codes + widening_bytes(layout, runs);
    let ends: Vec<_> = runs.iter().map(|run| run.key_ends()).collect();
    let rows = runs.iter().map(|run| run.rows()).sum();
    copy + match Copying::of(layout, &disjoint_groups(&ends), runs.len(), rows) {
        Copying::Behind => 0,
        Copying::ByPlaces => rows * PICK_BYTES as u64,
        Copying::InBatches => total_bytes(runs),
    }
}

/// How the rows of some runs come to be those of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    /// No keys overlap: one run behind the other, as they are held.
    Behind,
    /// Once, by their places in the order of the keys, as they are few.
    ByPlaces,
    /// In batches, each in the narrowest types for it, and these together.
    InBatches,
}

impl Copying {
    /// That of some runs, which are in `groups` of those that overlap.
    fn of(layout: &Layout, groups: &[Vec<usize>], runs: usize, rows: u64) -> Copying {
        match TablePolicy::of(layout).combines() {
            true => Copying::InBatches,
            false if groups.len() == runs => Copying::Behind,
            false if rows <= ONE_BATCH_ROWS => Copying::ByPlaces,
            false => Copying::InBatches,
        }
    }
}

/// Bytes for each value of a list that is merged with others.
const MERGED_VALUE_BYTES: u64 = 64;

/// The bytes that it takes to bring the keys of some runs into the same codes: other keys, a code for each text that had none, and what
/// is known of each value while lists are merged.
fn coding_bytes(layout: &Layout, runs: &[Arc<Run>]) -> u64 {
    let texts = layout.key_types().iter().filter(|of| **of == DataType::Utf8).count() as u64;
    if texts == 0 {
        return 0;
    }
    let first = runs.iter().find_map(|run| run.held_rows().key_codes());
    let of_run = |run: &Arc<Run>| {
        let rows = run.held_rows();
        let more = match (rows.key_codes(), first) {
            (Some(codes), Some(first)) => codes.values_apart(first) as u64 * MERGED_VALUE_BYTES,
            _ => texts * size_of::<u32>() as u64 * run.rows(),
        };
        rows.keys().allocated_bytes() as u64 + more
    };
    runs.iter().map(of_run).sum()
}

/// The same for texts outside of keys: other codes and, of columns of which most rows are plain, the texts of all, or more. O(runs *
/// columns).
fn text_coding_bytes(layout: &Layout, runs: &[Arc<Run>]) -> u64 {
    let (mut codes, mut are_spelled) = (0, false);
    let texts = layout.value_types().iter().enumerate().filter(|(_, of)| **of == DataType::Utf8);
    for (at, _) in texts {
        let columns = || runs.iter().filter_map(|run| run.held_rows().values().get(at));
        let Some(first) = columns().find_map(|column| texts_of(column)) else { continue };
        let (mut by_code, mut plain, mut apart) = (0, 0, 0);
        for column in columns() {
            match texts_of(column) {
                None => plain += column.len() as u64,
                Some(list) => {
                    by_code += column.len() as u64;
                    apart += if are_one(list, first) { 0 } else { list.len() as u64 };
                }
            }
        }
        if plain + apart > 0 {
            codes += (plain + by_code) * size_of::<u32>() as u64 + apart * MERGED_VALUE_BYTES;
        }
        are_spelled |= plain > by_code;
    }
    let strings: u64 = runs.iter().map(|run| run.string_bytes()).sum();
    codes + if are_spelled { strings } else { 0 }
}

/// What numbers of runs that hold them in narrow types may take more in a type that holds those of all, with a bit per row for those
/// that are null. O(runs * columns).
fn widening_bytes(layout: &Layout, runs: &[Arc<Run>]) -> u64 {
    let of_column = |at: usize| {
        let columns = || runs.iter().filter_map(move |run| run.held_rows().values().get(at));
        let width = |column: &ArrayRef| column.data_type().primitive_width().unwrap_or(0);
        let widest = columns().map(width).max().unwrap_or(0);
        let are_null =
            |column: &ArrayRef| column.nulls().is_none() && column.logical_null_count() > 0;
        let bits = if columns().any(are_null) { 1 } else { 0 };
        let more = |column: &ArrayRef| {
            column.len() * (widest - width(column)) + bits * column.len().div_ceil(8)
        };
        columns().map(more).sum::<usize>() as u64
    };
    (0..layout.value_types().len()).map(of_column).sum()
}

/// Runs that are held in the same way, so that keys compare and rows fit together.
struct HeldAlike {
    runs: Vec<Piece>,
    /// What codes in keys stand for.
    codes: Option<Arc<KeyCodes>>,
    /// All columns, of texts in the types in which the runs hold them.
    all: Projection,
}

/// Brings runs into one form, without writing any value anew that they hold alike.
fn held_alike(layout: &Layout, runs: &[Piece]) -> HeldAlike {
    let mut all = layout.all();
    let run = |piece: &Piece| piece.run().expect("runs are compacted").clone();
    let held: Vec<Arc<Run>> = runs.iter().map(run).collect();
    let rows: Vec<&Rows> = held.iter().map(|run| run.held_rows()).collect();
    let keys = Rows::keys_coded_alike(&rows, layout.key_types());
    let values = Rows::texts_coded_alike(&rows, layout.value_types());
    if keys.is_none() && values.is_none() {
        return HeldAlike { runs: runs.to_vec(), codes: None, all };
    }
    for column in values.iter().flatten() {
        for (at, array) in column.iter().enumerate() {
            // What was dropped since is not read.
            if is_by_code(array) && all.types[at] == DataType::Utf8 {
                all.types[at] = array.data_type().clone();
            }
        }
    }
    let (mut keys, codes) = match keys {
        Some((keys, codes)) => (keys.into_iter().map(Some).collect(), Some(codes)),
        None => (vec![None; runs.len()], None),
    };
    let mut values = values.unwrap_or_default();
    let alike = runs.iter().zip(&held).enumerate().map(|(at, (piece, run))| {
        let rows = match values.get_mut(at).map(std::mem::take) {
            Some(values) => run.held_rows().with_values(values),
            None => run.held_rows().clone(),
        };
        let rows = match keys[at].take() {
            // One form has no need of codes to tell keys apart.
            Some(keys) => rows.with_keys(keys, None),
            None => rows,
        };
        Piece { array: SortedArray::Run(Arc::new(run.as_held(rows))), ..piece.clone() }
    });
    HeldAlike { runs: alike.collect(), codes, all }
}

/// Several neighbouring runs that are becoming one, a batch of rows at a time. Any thread may go on with it.
pub struct RunMerge {
    layout: Layout,
    lsns: LsnRange,
    /// What codes in keys stand for.
    codes: Option<Arc<KeyCodes>>,
    carried: CarriedLiveness,
    /// How many rows there are, if all are merged at once.
    one_batch: Option<usize>,
    /// What is still to come, in the order of the keys, the last first.
    rest: Vec<Stretch>,
    merger: Option<Merger<CarryingSource>>,
    /// The rows so far.
    parts: Vec<Rows>,
    /// All rows, once they are merged and no longer in parts.
    concat: Option<RowsConcat>,
}

/// Rows of runs whose keys overlap no others.
enum Stretch {
    /// Those of one run, as they are held.
    AsHeld(Rows),
    Merged(Vec<CarryingSource>),
}

impl RunMerge {
    /// Brings the runs into one form. O(bytes of keys and texts) of those that are by other codes.
    pub fn begin(layout: &Layout, runs: &[Piece]) -> RunMerge {
        let lsns = runs.iter().map(Piece::lsns).reduce(LsnRange::join);
        // What is compacted is less than an array can hold, as it is held.
        let HeldAlike { runs, codes, all } = held_alike(layout, runs);
        let source = |run: &Piece| {
            PieceSource::whole(run.clone(), all.clone(), Direction::Forward).in_held_types()
        };
        let sources = runs.iter().map(source).enumerate();
        let (carried, sources) = CarriedLiveness::of(layout, &runs, sources);
        let mut sources: Vec<Option<_>> = sources.into_iter().map(Some).collect();
        let mut take = |run: usize| sources[run].take().expect("a run is read once");
        let ends: Vec<_> = runs.iter().map(Piece::key_ends).collect();
        let groups = disjoint_groups(&ends);
        let rows = runs.iter().map(Piece::rows).sum();
        let copying = Copying::of(layout, &groups, runs.len(), rows);
        let is_one_batch = copying == Copying::ByPlaces;
        let groups = if is_one_batch { vec![(0..runs.len()).collect()] } else { groups };
        let stretch = |group: Vec<usize>| match (&group[..], runs[group[0]].run()) {
            ([alone], Some(run)) if runs[*alone].erased.is_none() && carried.is_nothing() => {
                Stretch::AsHeld(run.held(&all))
            }
            _ => Stretch::Merged(group.into_iter().map(&mut take).collect()),
        };
        let rest = groups.into_iter().rev().map(stretch).collect();
        let (layout, lsns) = (layout.clone(), lsns.expect("at least one run"));
        let one_batch = is_one_batch.then_some(rows as usize);
        RunMerge {
            layout,
            lsns,
            codes,
            carried,
            one_batch,
            rest,
            merger: None,
            parts: Vec::new(),
            concat: None,
        }
    }

    /// Merges one batch of rows or, once all are merged, copies some of them to where they stay. Says about how many bytes they take;
    /// `None` if there is no more to do.
    pub fn go_on(&mut self) -> Result<Option<u64>> {
        if let Some(bytes) = self.merge_some()? {
            return Ok(Some(bytes));
        }
        // The arrays of a single batch are as long as its rows.
        if self.one_batch.is_none() && !self.parts.is_empty() {
            self.concat = Some(RowsConcat::new(mem::take(&mut self.parts)));
        }
        Ok(self.concat.as_mut().and_then(RowsConcat::go_on).map(|bytes| bytes as u64))
    }

    fn merge_some(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some(merger) = &mut self.merger {
                if let Some(rows) = merger.next_rows()? {
                    let rows = self.carried.take(rows).narrowed();
                    let bytes = rows.allocated_bytes() as u64;
                    self.parts.push(rows);
                    return Ok(Some(bytes));
                }
                self.merger = None;
            }
            match self.rest.pop() {
                None => return Ok(None),
                Some(Stretch::AsHeld(rows)) => self.parts.push(rows),
                Some(Stretch::Merged(sources)) => {
                    let fold = TablePolicy::of(&self.layout).fold();
                    let merger = Merger::new(sources, Direction::Forward, fold, BATCH_ROWS)?;
                    self.merger = Some(match self.one_batch {
                        Some(rows) => merger.in_one_batch(rows),
                        None => merger,
                    });
                }
            }
        }
    }

    /// The run, once there is no more to do but to index it; none if all rows were erased. O(rows).
    pub fn finish(self, meter: &MemoryMeter, examined: &RowsExamined) -> Result<Option<Piece>> {
        let RunMerge { layout, lsns, codes, carried, mut parts, concat, .. } = self;
        let Some(rows) = concat.map(RowsConcat::finish).or_else(|| parts.pop()) else {
            return Ok(None);
        };
        let rows = rows.with_keys(rows.keys().clone(), codes);
        let rows = rows.with_settled_codes(layout.key_types());
        let rows = TablePolicy::of(&layout).settled(rows);
        let run = UncommittedRun::new(&layout, rows, meter, examined)?.commit(lsns);
        let piece = Piece::from(run);
        carried.finish(meter).into_iter().for_each(|liveness| piece.liveness.note(liveness));
        Ok(Some(piece))
    }
}

/// One run with the rows of several neighbours; none if all of them were erased.
pub fn compacted(
    layout: &Layout,
    runs: &[Piece],
    meter: &MemoryMeter,
    examined: &RowsExamined,
) -> Result<Option<Piece>> {
    let mut merge = RunMerge::begin(layout, runs);
    while merge.go_on()?.is_some() {}
    merge.finish(meter, examined)
}

pub fn total_bytes(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{Field, Schema};
    use drillcore_format::ids::{Lsn, LsnRange};
    use drillcore_format::schema::TableSchema;

    use super::*;

    #[test]
    fn what_is_reserved_holds_numbers_in_the_type_of_the_largest_of_all_runs() {
        let fields = ["id", "n"].map(|name| Field::new(name, DataType::Int64, false));
        let columns = Arc::new(Schema::new(fields.to_vec()));
        let layout = Layout::new(&TableSchema::new(columns.clone(), vec![0]));
        let (meter, examined) = (MemoryMeter::default(), RowsExamined::default());
        let run_of = |lsn: u64, number: i64| {
            let numbers = [(0..1_000).collect::<Vec<i64>>(), vec![number; 1_000]];
            let arrays = numbers.map(|of| Arc::new(Int64Array::from(of)) as ArrayRef).to_vec();
            let rows = layout.encode(&RecordBatch::try_new(columns.clone(), arrays).unwrap());
            let run = UncommittedRun::new(&layout, rows, &meter, &examined).unwrap();
            run.commit(LsnRange { first: Lsn(lsn), last: Lsn(lsn) })
        };
        let runs: Vec<_> = (1..).zip([1, 1 << 40, 2, 300]).map(|(lsn, n)| run_of(lsn, n)).collect();
        let reserved = compaction_bytes(&layout, &runs);
        let rows: u64 = runs.iter().map(|run| run.rows()).sum();
        let narrow = total_bytes(&runs) + rows * PICK_BYTES as u64;
        // Of two runs from one byte to eight, of one from two.
        assert_eq!(reserved, narrow + 1_000 * (7 + 7 + 6));
        let pieces: Vec<Piece> = runs.into_iter().map(Piece::from).collect();
        let one = compacted(&layout, &pieces, &meter, &examined).unwrap().unwrap();
        let bytes = one.run().unwrap().bytes() + rows * PICK_BYTES as u64;
        assert!((narrow..=reserved).contains(&bytes), "{bytes} of {reserved}");
    }

    #[test]
    fn many_rows_are_compacted_in_batches_within_what_is_reserved() {
        let fields = ["id", "n"].map(|name| Field::new(name, DataType::Int64, false));
        let columns = Arc::new(Schema::new(fields.to_vec()));
        let layout = Layout::new(&TableSchema::new(columns.clone(), vec![0]));
        let (meter, examined) = (MemoryMeter::default(), RowsExamined::default());
        // Of one batch all numbers are small, of others not.
        let run_of = |lsn: u64| {
            let ids: Vec<i64> = (0..20_000).map(|row| row * 4 + lsn as i64 % 4).collect();
            let numbers = ids.iter().map(|id| if id % 7 == 0 { id * id } else { id % 5 });
            let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
            let arrays = vec![Arc::new(Int64Array::from(ids)) as ArrayRef, numbers];
            let rows = layout.encode(&RecordBatch::try_new(columns.clone(), arrays).unwrap());
            let run = UncommittedRun::new(&layout, rows, &meter, &examined).unwrap();
            run.commit(LsnRange { first: Lsn(lsn), last: Lsn(lsn) })
        };
        let runs: Vec<_> = (1..=4).map(run_of).collect();
        let reserved = compaction_bytes(&layout, &runs);
        let pieces: Vec<Piece> = runs.into_iter().map(Piece::from).collect();
        let mut merge = RunMerge::begin(&layout, &pieces);
        let mut batches = Vec::new();
        while let Some(bytes) = merge.go_on().unwrap() {
            batches.push(bytes);
        }
        let (merged, copied) = batches.split_at(80_000_usize.div_ceil(BATCH_ROWS));
        // Keys and numbers, a batch of each at a time.
        assert_eq!(copied.len(), 2 * merged.len());
        let one = merge.finish(&meter, &examined).unwrap().unwrap();
        let run = one.run().unwrap();
        assert!(run.bytes() + merged.iter().sum::<u64>() <= reserved, "{merged:?} of {reserved}");
        let rows = layout.decode(run.held_rows(), &[0, 1]).unwrap();
        let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>().values();
        assert!(numbers(0).iter().copied().eq(0..80_000));
        let is_right = |(&id, &n): (&i64, &i64)| n == if id % 7 == 0 { id * id } else { id % 5 };
        assert!(numbers(0).iter().zip(numbers(1)).all(is_right));
    }
}
