//! The way of a written row: from a caller's batch to a visible commit.
//!
//! Everything that takes long (casting, key encoding, sorting, set grouping, encoding for the log) is
//! done by the caller's thread on data of its own. Then one short critical section finds room for the commit,
//! gives it its LSN, enqueues its frame and publishes its runs. Without a log it also shows them and looks which runs have to be
//! compacted; else a second one does, once the log is written.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;
use drillcore_format::block;
use drillcore_format::frame::{Payload, PayloadBuilder};
use drillcore_format::ids::{Lsn, LsnRange, TableId};
use drillcore_format::key::Keys;
use drillcore_format::logged_commit::{SourcePosition, put_batch, put_source_position};
use drillcore_format::rows::{Layout, Rows};
use drillcore_format::schema::TableSchema;
use drillcore_format::value_bytes::{flat_bytes, flat_bytes_max};
use drillcore_storage::error::Result as StorageResult;
use drillcore_storage::log::wal::Wal;
use drillcore_storage::sync::MutexGuard;

use crate::calls::aside::{aside, finish_aside};
use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::maintenance::room::LogBytes;
use crate::maintenance::scheduler::compact_small_runs;
use crate::pieces::run::UncommittedRun;
use crate::policy::batch_coder::BatchCoder;
use crate::policy::column_changes::with_discovered;
use crate::policy::refusals::check_deletes_by_key;
use crate::policy::table_policy::TablePolicy;
use crate::schema::conform::{AppendOptions, Conformed, Rejected, conform, conform_by_code};
use crate::schema::value_limits::{KEY_BYTES_MAX, first_long_key};
use crate::schema::whole_keys::encode_whole_keys;
use crate::state::core::{Core, Underway};
use crate::state::guarded::State;
#[cfg(feature = "shuttle")]
use crate::state::publication_fault::PublicationFault;
use crate::state::slots::Slot;
use crate::state::version::TableVersion;
use crate::write::admission::{Admitted, has_plenty};
use crate::write::widening::{Widening, widen};

/// One commit may take this share of `memory_bytes`.
const COMMIT_SHARE: u64 = 4;
pub const COMMIT_BYTES_MAX: u64 = 1 << 30;

/// What an append did.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use std::time::Duration;
///
/// use drillcore::OnError;
///
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// let appended = flights.append(&batch, OnError::Raise)?;
/// assert_eq!((appended.rows, appended.rejected.len()), (100, 0));
/// // What a reader in another process waits for.
/// flights.database().refresh_to(appended.lsn, Duration::from_secs(1))?;
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendResult {
    /// Rows appended, before equal keys were folded.
    pub rows: u64,
    /// Rows left out, with `OnError::Skip`.
    pub rejected: Vec<Rejected>,
    /// The commit; of an append without rows, the newest visible one.
    pub lsn: Lsn,
}

/// A table, as a commit names it.
#[derive(Clone)]
pub struct TableShape {
    pub table: TableId,
    pub schema: Arc<TableSchema>,
    pub layout: Layout,
    pub coder: Arc<BatchCoder>,
}

/// Batches on their way into a commit: all that can fail of them is done, and nothing changed yet.
pub struct Prepared {
    pub rows: u64,
    pub rejected: Vec<Rejected>,
    runs: Vec<(TableId, UncommittedRun)>,
    /// The runs, as the log has them, if there is a log.
    logged: Option<PayloadBuilder>,
    /// The tables that need more columns for them.
    widenings: Vec<Widening>,
}

impl TableShape {
    /// The table as it is now.
    pub fn of(core: &Core, table: TableId) -> Result<TableShape> {
        let state = core.open_state()?;
        match state.tables.get(&table) {
            Some(entry) => Ok(TableShape {
                table,
                schema: entry.schema.clone(),
                layout: entry.layout.clone(),
                coder: entry.coder.clone(),
            }),
            None => Err(table_dropped()),
        }
    }

    /// The columns that a batch for it may have.
    pub fn columns(&self) -> SchemaRef {
        TablePolicy::of(&self.layout).batches().0.columns.clone()
    }

    /// Whether a batch may add columns to it.
    pub fn discovers(&self) -> bool {
        self.schema.discovers()
    }
}

/// A batch as an append would take it, without appending it. What adds columns to its table stays as it is: which are
/// new is not known before the commit.
pub fn fitted(
    shape: &TableShape,
    batch: &RecordBatch,
    options: AppendOptions,
) -> Result<Conformed> {
    if shape.discovers() {
        return Ok(Conformed { batch: batch.clone(), rejected: Vec::new() });
    }
    let (wanted, keyed) = TablePolicy::of(&shape.layout).batches();
    conform(&wanted, &keyed, batch, options)
}

/// Appends one batch to each table in one commit: all become visible together, or none.
///
/// A caller that wants out while the rows are prepared, or wait for memory, has appended nothing. Later the
/// commit goes on, without the caller where a disk is waited for.
pub fn append(
    core: &Arc<Core>,
    batches: Vec<(TableShape, RecordBatch)>,
    options: AppendOptions,
    interrupt: &Interrupt,
) -> Result<AppendResult> {
    // A new column is an edit of the manifest.
    if !batches.iter().any(|(shape, _)| shape.discovers()) {
        return append_here(core, &batches, options, interrupt);
    }
    let core = core.clone();
    aside(interrupt, move |interrupt| append_here(&core, &batches, options, interrupt))
}

fn append_here(
    core: &Arc<Core>,
    batches: &[(TableShape, RecordBatch)],
    options: AppendOptions,
    interrupt: &Interrupt,
) -> Result<AppendResult> {
    let underway = core.begin()?;
    let prepared = prepare(core, batches, options, interrupt)?;
    commit_underway(core, &underway, batches, options, prepared, &[], interrupt)
}

/// Commits what was prepared of these batches, and how far their sources have been read.
pub fn commit_prepared(
    core: &Arc<Core>,
    batches: &[(TableShape, RecordBatch)],
    options: AppendOptions,
    prepared: Prepared,
    positions: &[SourcePosition],
    interrupt: &Interrupt,
) -> Result<AppendResult> {
    let underway = core.begin()?;
    commit_underway(core, &underway, batches, options, prepared, positions, interrupt)
}

/// [`commit_prepared`] in a call that has begun.
fn commit_underway(
    core: &Arc<Core>,
    _underway: &Underway<&Core>,
    batches: &[(TableShape, RecordBatch)],
    options: AppendOptions,
    mut prepared: Prepared,
    positions: &[SourcePosition],
    interrupt: &Interrupt,
) -> Result<AppendResult> {
    while !widen(core, &prepared.widenings)? {
        // Another thread was faster and found the same column, or another one.
        let again = |(shape, batch): &(TableShape, RecordBatch)| {
            Ok((TableShape::of(core, shape.table)?, batch.clone()))
        };
        let batches = batches.iter().map(again).collect::<Result<Vec<_>>>()?;
        prepared = prepare(core, &batches, options, interrupt)?;
    }
    let Prepared { rows, rejected, runs, logged, .. } = prepared;
    interrupt.check()?;
    if runs.is_empty() && positions.is_empty() {
        return Ok(AppendResult { rows, rejected, lsn: core.visible() });
    }
    let lsn = commit(core, Changes { runs, positions, is_exclusive: false }, logged, interrupt)?;
    Ok(AppendResult { rows, rejected, lsn })
}

/// Does all that takes long of an append, without a lock.
pub fn prepare(
    core: &Core,
    batches: &[(TableShape, RecordBatch)],
    options: AppendOptions,
    interrupt: &Interrupt,
) -> Result<Prepared> {
    let (rejected, runs, logged, widenings) = Default::default();
    let mut prepared = Prepared { rows: 0, rejected, runs, logged, widenings };
    for (shape, batch) in batches {
        interrupt.check()?;
        let (shape, batch, widening) = with_discovered_columns(shape, batch)?;
        let (wanted, keyed) = TablePolicy::of(&shape.layout).batches();
        let Conformed { batch, rejected } = conform_by_code(&wanted, &keyed, &batch, options)?;
        prepared.rejected.extend(rejected);
        prepared.rows += batch.num_rows() as u64;
        interrupt.check()?;
        if batch.num_rows() > 0 {
            prepared.runs.push((shape.table, encode(core, &shape, &batch)?));
            prepared.widenings.extend(widening);
        }
    }
    // Together, too: flushes start at half the budget, so a larger commit could wait for room for ever.
    check_size(core, prepared.runs.iter().map(|(_, run)| run))?;
    prepared.logged = logged_runs(core, &prepared.runs);
    Ok(prepared)
}

/// The table as it must be for the batch, and the batch without columns that say nothing.
fn with_discovered_columns<'a>(
    shape: &'a TableShape,
    batch: &RecordBatch,
) -> Result<(Cow<'a, TableShape>, RecordBatch, Option<Widening>)> {
    if !shape.discovers() {
        return Ok((Cow::Borrowed(shape), batch.clone(), None));
    }
    let (wider, columns) = with_discovered(&shape.schema, batch)?;
    let is_taken = |name: &str| {
        let is_new = columns.iter().any(|column| column.name() == name);
        is_new || shape.schema.batch_columns().column_with_name(name).is_some()
    };
    let fields = batch.schema_ref().fields();
    let taken: Vec<usize> =
        (0..fields.len()).filter(|&column| is_taken(fields[column].name())).collect();
    let batch = batch.project(&taken).expect("the columns are the batch's");
    if columns.is_empty() {
        return Ok((Cow::Borrowed(shape), batch, None));
    }
    let from = shape.schema.clone();
    let shape = TableShape {
        table: shape.table,
        layout: Layout::new(&wider),
        schema: Arc::new(wider.clone()),
        coder: shape.coder.clone(),
    };
    let widening = Widening { table: shape.table, from, to: wider, columns };
    Ok((Cow::Owned(shape), batch, Some(widening)))
}

/// The given keys of the upsert table `name`, one array per key column, encoded, but those that no row can have.
pub fn keys_to_delete(name: &str, shape: &TableShape, keys: &[ArrayRef]) -> Result<Keys> {
    check_deletes_by_key(name, &shape.layout)?;
    if let Some((row, bytes)) = first_long_key(keys) {
        return Err(Error::invalid(format!(
            "key {row}: the strings of the key have {bytes} bytes; the limit is {KEY_BYTES_MAX}. Shorten them"
        )));
    }
    Ok(without_impossible(&shape.schema, keys, encode_whole_keys(&shape.schema, keys)?))
}

/// Deletes the rows of an upsert table with some encoded keys, in one commit; with `is_exclusive` for the caller that alone
/// may publish commits of the table.
pub fn bury(
    core: &Arc<Core>,
    shape: &TableShape,
    keys: Keys,
    is_exclusive: bool,
    interrupt: &Interrupt,
) -> Result<Lsn> {
    let _underway = core.begin()?;
    if keys.is_empty() {
        return Ok(core.visible());
    }
    let run = sorted_run(core, &shape.layout, &shape.layout.tombstones(keys))?;
    check_size(core, [&run])?;
    let runs = vec![(shape.table, run)];
    let logged = logged_runs(core, &runs);
    commit(core, Changes { runs, positions: &[], is_exclusive }, logged, interrupt)
}

/// Writes rows in the shape of an upsert table over those with their keys, for the caller that alone may publish commits of
/// the table.
pub fn replace(
    core: &Arc<Core>,
    shape: &TableShape,
    rows: &RecordBatch,
    interrupt: &Interrupt,
) -> Result<Lsn> {
    let _underway = core.begin()?;
    let runs = vec![(shape.table, encode(core, shape, rows)?)];
    let logged = logged_runs(core, &runs);
    commit(core, Changes { runs, positions: &[], is_exclusive: true }, logged, interrupt)
}

/// Leaves out the keys that have a null in a column without nulls. No row has such a key, and its tombstone could not be decoded.
fn without_impossible(schema: &TableSchema, keys: &[ArrayRef], encoded: Keys) -> Keys {
    let columns = keys.iter().zip(&schema.key);
    let whole = columns.filter(|(_, column)| !schema.columns.field(**column).is_nullable());
    let nulls = whole
        .filter_map(|(values, _)| values.logical_nulls())
        .fold(None, |nulls, more| NullBuffer::union(nulls.as_ref(), Some(&more)));
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return encoded };
    nulls.valid_indices().map(|row| encoded.value(row)).collect()
}

/// A run of a batch's stored rows.
fn sorted_run(core: &Core, layout: &Layout, rows: &Rows) -> Result<UncommittedRun> {
    let rows = TablePolicy::of(layout).sorted(rows)?;
    UncommittedRun::new(layout, rows, &core.meter, &core.rows_examined)
}

/// Refuses a batch whose keys may not fit one array: encoded they take up to twice their bytes.
fn check_encodable(batch: &RecordBatch) -> Result<()> {
    let sum = |bytes: fn(&dyn Array) -> usize| {
        batch.columns().iter().map(|column| bytes(column)).fold(0, usize::saturating_add)
    };
    if (sum(flat_bytes_max) as u64) < COMMIT_BYTES_MAX {
        return Ok(());
    }
    let bytes = sum(flat_bytes);
    if bytes as u64 >= COMMIT_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the batch has {bytes} bytes; the limit per commit is {COMMIT_BYTES_MAX}. Append in smaller \
             batches"
        )));
    }
    Ok(())
}

/// Turns a batch into a sorted, indexed run.
fn encode(core: &Core, shape: &TableShape, batch: &RecordBatch) -> Result<UncommittedRun> {
    check_encodable(batch)?;
    let rows = TablePolicy::of(&shape.layout).stored(batch, &shape.coder);
    let run = sorted_run(core, &shape.layout, &rows)?;
    check_size(core, [&run])?;
    Ok(run)
}

/// Refuses what memory has no room for, as it is held or as it is logged, which is without codes.
fn check_size<'r>(core: &Core, runs: impl IntoIterator<Item = &'r UncommittedRun>) -> Result<()> {
    let limit = (core.options.memory_bytes / COMMIT_SHARE).min(COMMIT_BYTES_MAX);
    let bytes: u64 = runs.into_iter().map(|run| run.bytes_or_logged(limit)).sum();
    if bytes > limit {
        return Err(Error::invalid(format!(
            "the commit has {bytes} bytes; the limit is {limit} (a quarter of memory_bytes, at most 1 GiB). \
             Append in smaller batches, or change fewer rows in one call"
        )));
    }
    Ok(())
}

/// What a commit changes, once all that can fail of it is done.
struct Changes<'a> {
    runs: Vec<(TableId, UncommittedRun)>,
    positions: &'a [SourcePosition],
    /// Whether the caller alone may publish commits of the tables.
    is_exclusive: bool,
}

/// Publishes changes, logs them and shows them, and compacts the runs that have become too many by them.
///
/// The lock of the state is taken once where nothing is logged, and twice where a log is written in between, unless
/// something has to be waited for.
fn commit(
    core: &Arc<Core>,
    changes: Changes<'_>,
    logged: Option<PayloadBuilder>,
    interrupt: &Interrupt,
) -> Result<Lsn> {
    let payload = logged.map(|logged| with_positions(logged, changes.positions));
    let appended: Vec<(TableId, u64)> =
        changes.runs.iter().map(|(table, run)| (*table, run.bytes())).collect();
    let (state, reserved) = enter(core, &changes, &appended, payload.as_ref(), interrupt)?;
    let (lsn, state, replaced) = publish(core, state, changes, payload);
    #[cfg(feature = "shuttle")]
    if PublicationFault::ShowBeforeLogging.is_injected() {
        core.show(lsn);
    }
    let compacted = match core.wal.get() {
        None => {
            let compacted = compact_small_runs(core, show_in(core, state, lsn), &appended);
            drop(replaced);
            compacted
        }
        Some(_) => {
            drop(state);
            drop(replaced);
            let shown = log_and_show(core, lsn, reserved, interrupt)?;
            compact_small_runs(core, shown.unwrap_or_else(|| core.state()), &appended)
        }
    };
    if appended.is_empty() {
        // The log has become longer.
        core.wake_workers();
    }
    compacted.map(|()| lsn)
}

/// Waits until changes may be published: until there is room for them in memory, and in the log. From then on nothing can fail as
/// long as the state is locked.
fn enter<'a>(
    core: &'a Arc<Core>,
    changes: &Changes<'_>,
    appended: &[(TableId, u64)],
    payload: Option<&Payload>,
    interrupt: &Interrupt,
) -> Result<(MutexGuard<'a, State>, LogBytes)> {
    let bytes = appended.iter().map(|(_, bytes)| bytes).sum();
    let logged_bytes = payload.map_or(0, |payload| payload.frame_bytes() as u64);
    // What is lacking, like room on the disk, may be there once memory was waited for.
    if let Ok(reserved) = LogBytes::reserve(core, logged_bytes)
        && is_ready_to_log(core)
    {
        let mut state = publishable(core, changes, interrupt)?;
        if changes.is_exclusive || has_plenty(core, &state, appended, bytes) {
            state.buffered_bytes += bytes;
            return Ok((state, reserved));
        }
    }
    let admitted = if changes.is_exclusive {
        // Those whom it keeps from publishing may hold all the memory.
        Admitted::at_once(core, bytes)?
    } else {
        Admitted::wait(core, appended, bytes, interrupt)?
    };
    let reserved = LogBytes::reserve(core, logged_bytes)?;
    ready_to_log(core, interrupt)?;
    let state = publishable(core, changes, interrupt)?;
    admitted.keep();
    Ok((state, reserved))
}

/// The state, once no other call holds the tables of these changes.
fn publishable<'a>(
    core: &'a Core,
    changes: &Changes<'_>,
    interrupt: &Interrupt,
) -> Result<MutexGuard<'a, State>> {
    let mut state = core.state();
    loop {
        state.check_writable()?;
        let mut is_held = false;
        for (table, _) in &changes.runs {
            let table = state.tables.get(table);
            is_held |= table.ok_or_else(table_dropped)?.is_exclusive;
        }
        if changes.is_exclusive || !is_held {
            return Ok(state);
        }
        state = core.wait_or_stop(state, interrupt)?;
    }
}

/// Gives changes the next LSN, puts their frame into the log's queue and their runs into the lists of their tables. Returns
/// also what was shown of these before, which is dropped without the lock.
fn publish<'a>(
    core: &Core,
    mut state: MutexGuard<'a, State>,
    changes: Changes<'_>,
    payload: Option<Payload>,
) -> (Lsn, MutexGuard<'a, State>, Vec<Option<Arc<TableVersion>>>) {
    let lsn = state.next_lsn;
    state.next_lsn = Lsn(lsn.0 + 1);
    if let (Some(wal), Some(payload)) = (core.wal.get(), payload) {
        wal.enqueue(lsn, payload);
    }
    let mut replaced = Vec::with_capacity(changes.runs.len());
    for (id, run) in changes.runs {
        let table = state.tables.get_mut(&id).expect("it was there under the same lock");
        table.appended_rows += run.rows();
        table.appended_batches += 1;
        table.runs.push(Slot::new(run.commit(LsnRange { first: lsn, last: lsn }), None));
        replaced.push(state.changed(id));
    }
    state.positions.add(lsn, changes.positions.iter().cloned());
    (lsn, state, replaced)
}

/// Writes a published commit to the log, for which room is reserved, and shows it. A caller that wants out need not wait for that.
/// Returns the state as it is then, if the caller's thread showed the commit.
pub fn log_and_show<'a>(
    core: &'a Arc<Core>,
    lsn: Lsn,
    reserved: LogBytes,
    interrupt: &Interrupt,
) -> Result<Option<MutexGuard<'a, State>>> {
    match core.wal.get() {
        None => Ok(Some(show(core, lsn))),
        Some(_) if !interrupt.may_stop() => log(core, lsn).map(Some),
        Some(wal) if or_fail(core, wal.write_through_at_once(lsn))? => Ok(Some(show(core, lsn))),
        Some(_) => {
            // It has its place among the commits, so it is written also if the caller does not wait for that.
            let rest = Underway::rest_of_call(core.clone());
            finish_aside(interrupt, move |_| {
                let _reserved = reserved;
                let logged = log(&rest, lsn).map(drop);
                // The caller may not come to look whether there is something for workers to do.
                rest.wake_workers();
                logged
            })?;
            Ok(None)
        }
    }
}

/// Writes a published commit to the log and shows it.
fn log(core: &Core, lsn: Lsn) -> Result<MutexGuard<'_, State>> {
    let wal = core.wal.get().expect("there is a log to write to");
    or_fail(core, wal.write_through(lsn))?;
    Ok(show(core, lsn))
}

/// What came of a write to the log, whose failure is the database's.
fn or_fail<T>(core: &Core, written: StorageResult<T>) -> Result<T> {
    written.map_err(Error::from).inspect_err(|error| core.fail(error))
}

/// The error of a commit to a table that is gone.
pub fn table_dropped() -> Error {
    Error::dropped("the table")
}

fn show(core: &Core, lsn: Lsn) -> MutexGuard<'_, State> {
    show_in(core, core.state(), lsn)
}

/// Shows a commit under the lock: a call that has just looked for visible runs is either waiting already, and woken here, or has
/// not looked yet. Workers are woken once it is known that there is something for them to do.
fn show_in<'a>(core: &Core, state: MutexGuard<'a, State>, lsn: Lsn) -> MutexGuard<'a, State> {
    core.show(lsn);
    core.wake_calls();
    state
}

fn is_ready_to_log(core: &Core) -> bool {
    core.wal.get().is_none_or(Wal::is_open)
}

/// Has the log begin a file if it has none. Once a commit is published it has to be logged, so what may be
/// lacking, like a file descriptor, is asked for before.
pub fn ready_to_log(core: &Arc<Core>, interrupt: &Interrupt) -> Result<()> {
    if is_ready_to_log(core) {
        return Ok(());
    }
    let rest = Underway::rest_of_call(core.clone());
    aside(interrupt, move |_| {
        let wal = rest.wal.get().expect("there is one to open");
        let next = Lsn(rest.visible().0 + 1);
        match wal.make_ready(next).map_err(|error| Error::from(error).if_lacking()) {
            Ok(()) => Ok(()),
            Err(Ok(why)) => Err(why),
            Err(Err(error)) => {
                rest.fail(&error);
                Err(error)
            }
        }
    })
}

/// The runs of a commit as the log has them, if there is a log.
fn logged_runs(core: &Core, runs: &[(TableId, UncommittedRun)]) -> Option<PayloadBuilder> {
    core.wal.get()?;
    let bytes: u64 = runs.iter().map(|(_, run)| run.bytes()).sum();
    let mut payload = PayloadBuilder::new(bytes as usize);
    for (table, run) in runs {
        let rows = run.logged_rows();
        let put = |out: &mut Vec<u8>| {
            block::encode(&rows, 0, rows.len(), block::Effort::Quick, out);
        };
        put_batch(*table, put, payload.out());
    }
    Some(payload)
}

fn with_positions(mut logged: PayloadBuilder, positions: &[SourcePosition]) -> Payload {
    positions.iter().for_each(|position| put_source_position(position, logged.out()));
    logged.finish()
}
