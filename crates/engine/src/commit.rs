//! The way of a written row: from a caller's batch to a visible commit.
//!
//! Everything that takes long (casting, key encoding, sorting, set grouping, encoding for the log) is
//! done by the caller's thread on data of its own. Then one short critical section gives the commit its
//! LSN, enqueues its frame and publishes its runs; after it nothing is left but to write the log.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use drillcore_format::block;
use drillcore_format::frame::encode_commit;
use drillcore_format::ids::{Lsn, LsnRange, TableId};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;

use crate::conform::{Conformed, OnError, Rejected, conform};
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance;
use crate::run::UncommittedRun;
use crate::state::Slot;

/// One commit may take this share of `memory_bytes`.
const COMMIT_SHARE: u64 = 4;
/// Above this share of `memory_bytes`, in percent, writers are slowed, the more the nearer the limit.
const SLOW_FROM_PERCENT: u64 = 75;
/// The longest a writer is slowed before the limit.
const SLOW_MAX: Duration = Duration::from_millis(5);

/// What an append did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendResult {
    /// Rows appended.
    pub rows: u64,
    /// Rows left out, with `OnError::Skip`.
    pub rejected: Vec<Rejected>,
    /// The commit; of an append without rows, the newest visible one.
    pub lsn: u64,
}

/// A table, as a commit names it.
pub struct Target {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    pub layout: Layout,
}

/// Appends one batch to each table in one commit: all become visible together, or none.
pub fn append(
    core: &Arc<Core>,
    batches: &[(Target, &RecordBatch)],
    on_error: OnError,
) -> Result<AppendResult> {
    core.state().check_writable()?;
    let mut rejected = Vec::new();
    let mut runs = Vec::new();
    for (target, batch) in batches {
        let conformed = conform(&target.schema, batch, on_error)?;
        let Conformed { batch, rejected: bad } = conformed;
        rejected.extend(bad);
        if batch.num_rows() > 0 {
            runs.push((target.table, encode(core, target, &batch)?));
        }
    }
    if let Some(probe) = &core.probe.0 {
        probe();
    }
    let rows = runs.iter().map(|(_, run)| run.rows().len() as u64).sum();
    if runs.is_empty() {
        return Ok(AppendResult { rows, rejected, lsn: core.visible().0 });
    }
    let tables: Vec<(TableId, u64)> =
        runs.iter().map(|(table, run)| (*table, run.bytes())).collect();
    let lsn = commit(core, runs)?;
    for (table, bytes) in tables {
        maintenance::join_small_runs(core, table, bytes)?;
    }
    Ok(AppendResult { rows, rejected, lsn: lsn.0 })
}

/// Turns a batch into a sorted, indexed run.
fn encode(core: &Core, target: &Target, batch: &RecordBatch) -> Result<UncommittedRun> {
    let limit = core.options.memory_bytes / COMMIT_SHARE;
    let given = batch.get_array_memory_size() as u64;
    let rows = target.layout.encode(batch);
    let order = rows.sort_permutation();
    // Taking copies even where the order is right: a run owns exactly its bytes, not a slice of the caller's.
    let rows = rows.take(&order);
    let run = UncommittedRun::new(&target.layout, rows, &core.meter, &core.rows_examined)?;
    if run.bytes() > limit.min(1 << 30) {
        return Err(Error::invalid(format!(
            "one commit of {} bytes ({given} as given) exceeds its limit of {} (a quarter of memory_bytes, at most 1 GiB); \
             append in smaller batches",
            run.bytes(),
            limit.min(1 << 30),
        )));
    }
    Ok(run)
}

fn commit(core: &Arc<Core>, runs: Vec<(TableId, UncommittedRun)>) -> Result<Lsn> {
    let frame = core.wal.get().map(|_| encode_frame(&runs));
    let bytes = runs.iter().map(|(_, run)| run.bytes()).sum();
    admit(core, bytes)?;
    let lsn = publish(core, runs, frame).inspect_err(|_| {
        core.state().buffered_bytes -= bytes;
        core.state_changed.notify_all();
    })?;
    if let Some(wal) = core.wal.get()
        && let Err(error) = wal.write_through(lsn)
    {
        let error = Error::from(error);
        core.fail(&error);
        return Err(error);
    }
    {
        // Under the lock: a worker that has just looked for visible runs is either waiting already, and
        // woken below, or has not looked yet.
        let _state = core.state();
        core.show(lsn);
    }
    core.state_changed.notify_all();
    Ok(lsn)
}

fn encode_frame(runs: &[(TableId, UncommittedRun)]) -> Vec<u8> {
    let blocks: Vec<(TableId, Vec<u8>)> = runs
        .iter()
        .map(|(table, run)| {
            let mut bytes = Vec::new();
            block::encode(run.rows(), 0, run.rows().len(), &mut bytes);
            (*table, bytes)
        })
        .collect();
    let borrowed: Vec<(TableId, &[u8])> =
        blocks.iter().map(|(table, bytes)| (*table, bytes.as_slice())).collect();
    let mut frame = Vec::new();
    encode_commit(&borrowed, &mut frame);
    frame
}

/// The critical section: the next LSN, the frame in the log's queue, the runs in their tables' lists.
/// Nothing in it can fail once the LSN is taken, or take long.
fn publish(
    core: &Core,
    runs: Vec<(TableId, UncommittedRun)>,
    frame: Option<Vec<u8>>,
) -> Result<Lsn> {
    let mut state = core.state();
    state.check_writable()?;
    for (table, _) in &runs {
        if !state.tables.contains_key(table) {
            return Err(Error::new(ErrorKind::NotFound, "the table was dropped"));
        }
    }
    let lsn = state.next_lsn;
    state.next_lsn = Lsn(lsn.0 + 1);
    if let (Some(wal), Some(frame)) = (core.wal.get(), frame) {
        wal.enqueue(lsn, frame);
    }
    for (id, run) in runs {
        let table = state.tables.get_mut(&id).expect("checked above, under the same lock");
        table.appended_rows += run.rows().len() as u64;
        table.appended_batches += 1;
        let piece = Arc::new(run.commit(LsnRange { first: lsn, last: lsn }));
        table.runs.push(Slot { piece, taken: false });
    }
    state.changed();
    Ok(lsn)
}

/// Reserves memory for rows about to be published: at once while there is plenty, slower the less is
/// left, and at the limit not before a spill has made room.
pub fn admit(core: &Core, bytes: u64) -> Result<()> {
    let limit = core.options.memory_bytes;
    let started = Instant::now();
    let mut state = core.state();
    loop {
        state.check_writable()?;
        if state.buffered_bytes + bytes <= limit || state.buffered_bytes == 0 {
            break;
        }
        core.state_changed.notify_all();
        state = core.wait(state);
    }
    state.buffered_bytes += bytes;
    let slow_from = limit / 100 * SLOW_FROM_PERCENT;
    let excess = state.buffered_bytes.saturating_sub(slow_from) as f64 / (limit - slow_from) as f64;
    drop(state);
    if excess > 0.0 {
        thread::sleep(SLOW_MAX.mul_f64((excess * excess).min(1.0)));
    }
    let stall = started.elapsed();
    if stall > Duration::from_micros(100) {
        core.state().stall += stall;
    }
    Ok(())
}
