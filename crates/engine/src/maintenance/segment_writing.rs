//! Writing pieces, merged, as segments: a level of them, in key partitions that threads write side by side.

use std::sync::Arc;

use drillcore_format::byte_bounds;
use drillcore_format::ids::{LsnRange, SegmentId, TableId};
use drillcore_format::manifest_edit::Edit;
use drillcore_format::rows::Layout;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::segments::segment_writer::SegmentWriter;
use parking_lot::Mutex;

use crate::calls::interrupt::Interrupt;
use crate::calls::side_by_side::side_by_side;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::merge_choice::small_bytes;
use crate::maintenance::room::{self, Spare};
use crate::merge::carried_liveness::CarriedLiveness;
use crate::merge::merger::{Direction, Merger};
use crate::merge::piece_source::PieceSource;
use crate::pieces::liveness::Liveness;
use crate::pieces::piece::{Piece, SortedArray};
use crate::policy::table_policy::TablePolicy;
use crate::policy::tombstones::without_tombstones;
use crate::select::partitioning::partition_into_segments;
use crate::select::selection::Selected;
use crate::state::core::Core;

/// Rows that are moved at once, unless they are long.
const BATCH_ROWS: usize = 4096;
/// How many chunks are read ahead of all inputs together. Of more inputs they are smaller, but no smaller than this share: else blocks that
/// are read together would be read twice.
const CHUNKS_AHEAD: usize = 4;
const CHUNK_SHARE_MIN: usize = 16;
/// Bytes that are written between two looks at what the disk has left.
const LOOK_BYTES: u64 = 1 << 20;
/// Ordinals of a segment are 32-bit. Partitions are about equal only, so they are made of fewer rows than that.
const PARTITION_ROWS_MAX: u64 = 1 << 30;

/// Parts of `segment_bytes` that a thread should have of a flush, where several share it, or of `memory_bytes`, if that is
/// less, ...
const FLUSH_PARTS: u64 = 64;
const FLUSH_PARTS_OF_MEMORY: u64 = 32;
/// ... but never fewer bytes than this. Of a merge, which fewer wait for, a thread should have [`small_bytes`].
const FLUSH_BYTES_MIN: u64 = 1 << 20;

/// Pieces that become one level.
pub struct Input {
    pub pieces: Vec<Piece>,
    /// The commits that these hold together.
    pub lsns: LsnRange,
    /// No older row has one of their keys, so tombstones have nothing left to hide.
    pub is_oldest: bool,
}

/// What came of writing pieces out.
pub enum Written {
    /// For each input. None, if all rows were erased, or if tombstones were all there was, and nothing is left for them to hide.
    Segments(Vec<Vec<Piece>>),
    /// Room or file descriptors were lacking, or the pieces, or what was written, could not be read. What was written was removed.
    Nothing(Error),
}

/// What bounds the writing of segments, and who hears of it.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    /// The room that it must leave on the disk.
    pub spare: Spare,
    /// Asked before each batch of rows, by any thread; its error ends the writing, and nothing stays.
    pub go_on: &'a (dyn Fn() -> Result<()> + Sync),
    /// Hears how many rows were written, from any thread.
    pub written: &'a (dyn Fn(u64) + Sync),
    /// Threads that write side by side ...
    pub threads: usize,
    /// ... if each has at least this many bytes of input.
    pub bytes_per_thread: u64,
    /// How long a segment may be.
    pub segment_bytes: u64,
    /// Segments list their sets, whatever lists of others take: else these may be listed later.
    pub needs_sets: bool,
}

/// What bounds the writing of runs.
pub fn within_flush<'a>(
    core: &Core,
    go_on: &'a (dyn Fn() -> Result<()> + Sync),
    written: &'a (dyn Fn(u64) + Sync),
) -> Within<'a> {
    let of_memory = core.options.memory_bytes / FLUSH_PARTS_OF_MEMORY;
    let of_segment = core.options.segment_bytes / FLUSH_PARTS;
    Within {
        spare: Spare::Commits,
        go_on,
        written,
        threads: core.options.maintenance_threads,
        bytes_per_thread: of_segment.min(of_memory).max(FLUSH_BYTES_MIN),
        segment_bytes: core.options.segment_bytes,
        needs_sets: false,
    }
}

/// What bounds the writing of merged segments.
pub fn within_merge<'a>(
    core: &Core,
    go_on: &'a (dyn Fn() -> Result<()> + Sync),
    written: &'a (dyn Fn(u64) + Sync),
) -> Within<'a> {
    Within {
        spare: Spare::Flushes,
        go_on,
        written,
        threads: core.options.maintenance_threads,
        bytes_per_thread: small_bytes(core),
        segment_bytes: core.options.segment_bytes,
        needs_sets: false,
    }
}

/// Whether to go on with what need not be finished.
pub fn go_on(core: &Core, interrupt: &Interrupt) -> Result<()> {
    interrupt.check()?;
    core.state().check_not_closing()
}

/// Rows that become one segment, and of which input they are.
struct Partition {
    id: SegmentId,
    input: usize,
    rows: Selected,
}

/// Writes each input, merged, as segments that are durable but not yet in the manifest.
pub fn write_segments(
    core: &Core,
    table: TableId,
    layout: &Layout,
    inputs: Vec<Input>,
    within: Within<'_>,
) -> Result<Written> {
    (within.go_on)()?;
    let partitions = match partitions(core, &inputs, &within) {
        Ok(partitions) => partitions,
        // The keys to cut at are read from segments.
        Err(error) => return Ok(Written::Nothing(error.of_input().if_postponed()?)),
    };
    if let Some(why) = outlive_a_crash(core, &partitions)? {
        return Ok(Written::Nothing(why));
    }
    let failure: Mutex<Option<Error>> = Mutex::default();
    let go_on = || failure.lock().clone().map_or_else(within.go_on, Err);
    let written = side_by_side(partitions.len(), within.threads, |number| {
        let partition = &partitions[number];
        let within = Within { go_on: &go_on, ..within };
        let written =
            write_partition(core, table, layout, &inputs[partition.input], partition, within);
        // The others end with the first that fails, and of its error; unless theirs is one that work cannot be tried again after.
        written.inspect_err(|error: &Error| {
            let mut failure = failure.lock();
            let is_worse = |first: &Error| first.clone().if_postponed().is_ok();
            if failure.as_ref().is_none_or(is_worse) {
                *failure = Some(error.clone());
            }
        })
    });
    match written.map_err(|error| failure.into_inner().unwrap_or(error)) {
        Ok(segments) => {
            let mut of_inputs = vec![Vec::new(); inputs.len()];
            for (partition, piece) in partitions.iter().zip(segments) {
                let segment = piece.iter().filter_map(Piece::segment);
                segment.for_each(|segment| core.note_segment(segment));
                of_inputs[partition.input].extend(piece);
            }
            Ok(Written::Segments(of_inputs))
        }
        Err(error) => remove_of(core, &partitions, error).map(Written::Nothing),
    }
}

/// Makes durable what a later opening needs in order to recognise segments that a crash left without an edit: it must not take them
/// for segments whose edit was lost. Returns the error if there is no room for that.
fn outlive_a_crash(core: &Core, partitions: &[Partition]) -> Result<Option<Error>> {
    match core.wal.get() {
        // Of what is in the segments, and of what is older, nothing may be lost that these outlive. So a
        // whole segment that no edit names has its commits in the log, too, or its edit was lost.
        Some(wal) => wal.make_durable()?,
        // Without a log this edit tells a segment whose own edit a crash kept from being written.
        None => {
            let next = partitions.iter().map(|partition| partition.id.0 + 1).max().unwrap_or(0);
            if let Err(error) = core.manifest().commit(&[Edit::NextSegment(SegmentId(next))]) {
                return Ok(Some(Error::from(error).if_lacking()?));
            }
        }
    }
    Ok(None)
}

/// Writes a partition of an input as a segment, unless it has no rows.
fn write_partition(
    core: &Core,
    table: TableId,
    layout: &Layout,
    &Input { lsns, is_oldest, .. }: &Input,
    partition: &Partition,
    within: Within<'_>,
) -> Result<Option<Piece>> {
    let directory = core.directory.clone();
    let writer = SegmentWriter::create(directory, partition.id, table, layout, lsns)?;
    let (has_rows, liveness) =
        write_rows(core, layout, writer, &partition.rows, is_oldest, within)?;
    if !has_rows {
        core.removals.defer(Segment::file_name(partition.id), 0, ManifestVersion::EVERYTHING);
        core.removals.sweep();
        return Ok(None);
    }
    let directory = core.directory.as_ref();
    let segment = Segment::open(directory, partition.id, layout, core.cache.clone());
    // Nothing names it yet: what cannot be read is written anew.
    let segment = segment.map_err(|error| Error::from(error).of_input())?;
    let piece = Piece::from(Arc::new(segment));
    liveness.into_iter().for_each(|liveness| piece.liveness.note(liveness));
    Ok(Some(piece))
}

/// Removes what was written of some partitions before an error. Gives that, if they may be written again later.
fn remove_of(core: &Core, partitions: &[Partition], error: Error) -> Result<Error> {
    for Partition { id, .. } in partitions {
        core.removals.defer(Segment::file_name(*id), 0, ManifestVersion::EVERYTHING);
    }
    core.removals.sweep();
    let why = error.if_postponed()?;
    for Partition { id, .. } in partitions {
        // At once: what it takes is lacking.
        let _ = core.directory.remove(&Segment::file_name(*id));
    }
    Ok(why)
}

/// Cuts inputs between keys, so that no segment is longer than it should be, and all threads have some of the work.
fn partitions(core: &Core, inputs: &[Input], within: &Within<'_>) -> Result<Vec<Partition>> {
    let bytes_max = within.segment_bytes.max(1);
    let mut partitions = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        let whole = Selected::whole(input.pieces.clone().into());
        if whole.len() == 0 {
            // All of it was erased.
            continue;
        }
        let bytes: u64 = input.pieces.iter().map(stored_bytes).sum();
        let worth = (bytes / within.bytes_per_thread.max(1)).min(within.threads as u64);
        let long = bytes.div_ceil(bytes_max).max(whole.len().div_ceil(PARTITION_ROWS_MAX));
        let rows = match usize::try_from(worth.max(long)).unwrap_or(usize::MAX) {
            0 | 1 => vec![whole],
            count => partition_into_segments(&whole, count, &Interrupt::never())?,
        };
        partitions.extend(rows.into_iter().map(|rows| Partition {
            id: core.new_segment_id(),
            input: number,
            rows,
        }));
    }
    Ok(partitions)
}

/// Writes some rows, merged, as a segment. Says whether there were any but tombstones with nothing to hide, and what is known of
/// which of them are alive.
fn write_rows(
    core: &Core,
    layout: &Layout,
    mut writer: SegmentWriter,
    rows: &Selected,
    is_oldest: bool,
    within: Within<'_>,
) -> Result<(bool, Option<Liveness>)> {
    let parts = rows.parts().iter();
    let share = parts.map(|part| {
        let piece = &rows.pieces()[part.piece];
        (stored_bytes(piece) as f64 * part.len() as f64 / piece.rows() as f64) as u64
    });
    let total: u64 = share.sum();
    let all = layout.all();
    let interrupt = Interrupt::never();
    let chunk = byte_bounds::chunk();
    let share = chunk * CHUNKS_AHEAD / rows.by_piece().count().max(1);
    let chunk_bytes = share.clamp(chunk / CHUNK_SHARE_MIN, chunk);
    let sources = PieceSource::of(rows, &all, Direction::Forward, None, &interrupt)
        .map(|(piece, source)| (piece, source.in_checked_order().in_chunks_of(chunk_bytes)));
    let fold = TablePolicy::of(layout).fold();
    let (mut carried, sources) = CarriedLiveness::of(layout, rows.pieces(), sources);
    let merger = Merger::new(sources, Direction::Forward, fold, BATCH_ROWS);
    let mut merger = merger.map_err(Error::of_input)?.in_batches_of(chunk);
    let mut lists = core.meter.charge_set_lists();
    let mut looked_for = 0;
    while let Some(rows) = merger.next_rows().map_err(Error::of_input)? {
        (within.go_on)()?;
        let rows = if is_oldest { without_tombstones(layout, rows) } else { rows };
        let rows = carried.take(rows);
        let here = rows.string_bytes() as u64;
        if writer.bytes() + here >= looked_for {
            looked_for = writer.bytes() + here + LOOK_BYTES;
            let rest = total.saturating_sub(writer.bytes());
            let ahead = (here + LOOK_BYTES).min(rest.max(here));
            room::check(core, within.spare, "the next part of a segment", ahead)?;
        }
        // It writes, and rows may turn out not to decode.
        writer.append(&rows).map_err(Error::from).map_err(|error| match error.kind() {
            ErrorKind::Corrupt => error.of_input(),
            _ => error,
        })?;
        lists.resize(writer.list_bytes() as u64);
        if !within.needs_sets && core.lacks_room_for_set_lists(lists.bytes()) {
            writer.leave_sets_out();
            lists.resize(writer.list_bytes() as u64);
        }
        (within.written)(rows.len() as u64);
    }
    let has_rows = writer.rows() > 0;
    if has_rows {
        writer.finish()?;
    }
    Ok((has_rows, carried.finish(&core.meter)))
}

/// What a piece takes on disk, or would at most about.
fn stored_bytes(piece: &Piece) -> u64 {
    match &piece.array {
        SortedArray::Run(run) => run.mean_row_bytes() * run.rows(),
        SortedArray::Segment(segment) => segment.disk_bytes(),
    }
}
