//! Spilling: rows in memory that only snapshots hold go to files of their own, once all rows in memory take too much.
//!
//! A run that was compacted or flushed stays in memory while a snapshot shows it. Its file has the same rows in the same order, so
//! the snapshot goes on with that: what it answers stays the same, also to the same seed. No manifest names the file, which goes
//! with the last snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use drillcore_format::ids::TableId;
use drillcore_storage::files::lease::ManifestVersion;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::maintenance::room::Spare;
use crate::maintenance::segment_writing::{
    Input, Within, Written, go_on, within_flush, write_segments,
};
use crate::pieces::piece::Piece;
use crate::pieces::run::Run;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::put_off::Done;
use crate::state::spilling::Held;

/// Rows are spilled while all rows in memory take more than this number of eighths of the budget. Those of tables alone take three quarters
/// at most, and what flushes have written since.
const SPILL_FROM_EIGHTHS: u64 = 7;
/// What one job writes is this share of the budget, so that memory is freed bit by bit.
const JOB_SHARE: u64 = 8;
/// A run of fewer bytes than this share of the budget is not worth a file ...
const WORTH_SHARE: u64 = 4096;
/// ... nor one of fewer than these.
const WORTH_BYTES_MIN: u64 = 8 << 10;

/// Whether rows in memory take so much that those of snapshots have to go.
pub fn is_too_much_held(core: &Core, state: &State) -> bool {
    let held = core.held_row_bytes(state);
    held >= worth_bytes(core)
        && held + state.buffered_bytes > core.memory_for_rows() / 8 * SPILL_FROM_EIGHTHS
}

/// Writes runs that have left their tables, the largest first, and has what holds them go on with the files.
pub fn spill(core: &Core) -> Result<Done> {
    let held = held_by_snapshots(core);
    let done = write_runs(core, &held, worth_bytes(core), core.options.memory_bytes / JOB_SHARE);
    let_go(core, &held);
    // Before it is looked what there is left.
    drop(held);
    let mut state = core.state();
    let now = Instant::now();
    match &done {
        Ok((Done::Installed, spilled)) => {
            state.counts.snapshot_spills += u64::from(*spilled > 0);
            state.spilling.done(*spilled > 0, now);
        }
        Ok((Done::PutOff(why), _)) => state.spilling.failed(Some(why.clone()), now),
        _ => state.spilling.failed(None, now),
    }
    done.map(|(done, _)| done)
}

/// Writes all runs that have left their tables, however few and short they are.
pub fn spill_all(core: &Core) -> Result<()> {
    let held = held_by_snapshots(core);
    let (done, _) = write_runs(core, &held, 0, u64::MAX)?;
    let_go(core, &held);
    done.or_error()
}

/// What snapshots hold, and not only the database for a moment.
fn held_by_snapshots(core: &Core) -> Held {
    let retired = core.state().retired.take_all();
    drop(retired);
    core.state().held()
}

fn let_go(core: &Core, held: &Held) {
    for version in &held.versions {
        drop(version.let_go_of_spilled());
    }
    let reads = core.state().reads.clone();
    reads.let_go_of_spilled();
}

/// A run of fewer bytes is not worth a file.
pub fn worth_bytes(core: &Core) -> u64 {
    (core.options.memory_bytes / WORTH_SHARE).max(WORTH_BYTES_MIN)
}

/// Writes runs of `least` bytes or more, the first and others up to `most` in all, and says how many.
fn write_runs(core: &Core, held: &Held, least: u64, most: u64) -> Result<(Done, usize)> {
    let is_worth = |run: &Run| run.may_be_spilled() && run.bytes() >= least;
    let mut runs: Vec<_> = held.runs.iter().filter(|(_, run)| is_worth(run)).collect();
    runs.sort_by_key(|(_, run)| Reverse(run.bytes()));
    let mut bytes = 0;
    let fits = |(_, run): &&(TableId, Arc<Run>)| {
        bytes += run.bytes();
        bytes == run.bytes() || bytes <= most
    };
    let mut by_shape: BTreeMap<(TableId, usize), Vec<&Arc<Run>>> = BTreeMap::new();
    for (table, run) in runs.into_iter().take_while(fits) {
        let shape = Arc::as_ptr(run.layout().shared_schema()).addr();
        by_shape.entry((*table, shape)).or_default().push(run);
    }
    let mut spilled = 0;
    for ((table, _), runs) in by_shape {
        match write_runs_of(core, table, &runs)? {
            Done::Installed => spilled += runs.iter().filter(|run| run.spilled().is_some()).count(),
            other => return Ok((other, spilled)),
        }
    }
    Ok((Done::Installed, spilled))
}

/// Writes runs of one shape.
fn write_runs_of(core: &Core, table: TableId, runs: &[&Arc<Run>]) -> Result<Done> {
    // All rows, whichever were erased: ordinals stay as they are.
    let inputs = runs.iter().map(|run| Input {
        pieces: vec![Piece::from(Arc::clone(run))],
        lsns: run.lsns(),
        is_oldest: false,
    });
    let go_on = || go_on(core, &Interrupt::never());
    let within = within_flush(core, &go_on, &|_| ());
    // One file for each. Rows of tables have to leave memory beside them.
    let (spare, no_bound) = (Spare::Flushes, u64::MAX);
    let within = Within {
        spare,
        bytes_per_thread: no_bound,
        segment_bytes: no_bound,
        needs_sets: true,
        ..within
    };
    match write_segments(core, table, runs[0].layout(), inputs.collect(), within)? {
        Written::Nothing(why) => Ok(Done::PutOff(why)),
        Written::Segments(written) => {
            for (run, pieces) in runs.iter().zip(written) {
                for segment in pieces.iter().filter_map(Piece::segment) {
                    segment.remove_when_unused(&core.removals, ManifestVersion::EVERYTHING);
                    // From one that lists fewer sets, as they have no room, rows would be drawn in another way.
                    match segment.indexed().cover(&run.indexed()) {
                        true => run.spill_to(segment.clone()),
                        false => run.stays_in_memory(),
                    }
                }
            }
            Ok(Done::Installed)
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::*;
    use crate::{Database, OnError, Options, TableSpec};

    /// A flush can list sets later, a spilled run cannot.
    #[test]
    fn sets_are_listed_for_snapshots_even_where_lists_of_others_have_filled_their_share() {
        let db = Database::in_memory(Options::default()).unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60_000));
        let names = (0..60_000).map(|id| format!("of a set by itself, {id}"));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let rows = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
        let table =
            db.create_table("t", TableSpec::new(rows.schema(), ["id"]).set("name")).unwrap();
        table.append(&rows, OnError::Raise).unwrap();
        let snapshot = table.snapshot().unwrap();
        let hold = db.hold_maintenance();
        let core = db.core().unwrap();
        let mut others = core.meter.charge_set_lists();
        others.resize(core.options.memory_bytes);
        db.flush().unwrap();
        let stats = || db.stats().unwrap();
        let to_index = || stats().tables[0].indexed_sets.as_ref().unwrap().rows_to_index;
        assert_eq!(to_index(), 60_000, "they are listed later");
        db.spill_snapshots().unwrap();
        assert_eq!(stats().writer.unwrap().snapshot_row_bytes, 0, "the run is in a file");
        assert_eq!(stats().writer.unwrap().set_list_bytes, core.options.memory_bytes);
        drop((others, hold));
        assert_eq!(snapshot.sets().unwrap().rows.len(), 60_000);
        db.compact().unwrap();
        table.wait_for_set_index().unwrap();
        assert_eq!((to_index(), stats().writer.unwrap().set_list_bytes), (0, 0));
    }
}
