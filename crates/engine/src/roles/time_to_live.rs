//! How long rows of a table are kept, and their end.
//!
//! What has expired is left out of every snapshot at once. Where stored rows tell by themselves, they are marked as erased, piece
//! by piece, and merges leave them out as they do other erased rows. In an upsert table with the time outside the key the newest
//! version of a row tells: there snapshots test rows, and now and then the keys of those that have expired are deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::key::Keys;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::{ExpiryLimit, TableSchema, TimeToLive};
use drillcore_storage::sync::Mutex;
use drillcore_storage::sync::thread::{Builder, JoinHandle};

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::scheduler::{FLUSH_SHARE, flush_table};
use crate::roles::deleting::{keys_at, table, wait_until_all_is_visible};
use crate::schema::table_spec::checked_ttl;
use crate::select::expiry::expired;
use crate::state::core::Core;
use crate::state::table_state::TableState;
use crate::write::commit::{TableShape, bury, table_dropped};
use crate::write::erase::{Exclusive, erase_for_good};

/// How often it is looked for what expires next.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// How far ahead, in seconds: a snapshot should not have to.
const LOOK_AHEAD: u64 = 3;
/// Rows of upsert tables are deleted a share of their time to live after its end, but between these bounds.
const LATE_SHARE: u64 = 20;
const LATE_SECONDS_MAX: u64 = 3_600;
/// Keys deleted by one commit: writers wait for no more.
const KEYS_AT_ONCE: u64 = 16 << 10;

/// Changes how long rows of a table are kept; `None` is for good. What has expired by then stays so. Writers of the table wait
/// for the last of the work.
pub fn set_ttl(
    core: &Arc<Core>,
    table: TableId,
    ttl: Option<(&str, Duration)>,
    interrupt: &Interrupt,
) -> Result<()> {
    let _underway = core.begin()?;
    let (stopped, shape) = StoppedClock::stop(core, table, interrupt)?;
    let ttl =
        ttl.map(|(column, lasting)| checked_ttl(&shape.schema, column, lasting)).transpose()?;
    if shape.schema.ttl == ttl {
        return Ok(());
    }
    let expiring = shape.schema.expiry_limit(stopped.clock);
    let tells = shape.schema.expires_by_stored_row();
    if let Some(limit) = expiring.filter(|_| !tells) {
        // Most of the work, beside writers.
        delete_expired(core, &shape, limit, None, interrupt)?;
    }
    let exclusive = Exclusive::take(core, table, interrupt)?;
    wait_until_all_is_visible(core, &shape, interrupt)?;
    check_is_same(core, &shape)?;
    match expiring {
        None => {}
        Some(limit) if tells => {
            let question = expired(&shape.schema, limit)?;
            erase_for_good(core, &shape, &question, &exclusive, interrupt)?;
        }
        Some(limit) => delete_expired(core, &shape, limit, Some(&exclusive), interrupt)?,
    }
    // Without a log, this is what makes it last.
    let published = Lsn(core.state().next_lsn.0 - 1);
    if expiring.is_some() && (tells || core.wal.get().is_none()) {
        flush_table(core, table, published, interrupt)?;
    }
    let mut manifest = core.manifest();
    if let Some(wal) = core.wal.get() {
        // Else a power cut might take from the log what was erased, and leave the edit.
        wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error))?;
    }
    check_is_same(core, &shape)?;
    let mut edits = vec![Edit::SetTtl { table, ttl }];
    // What had expired while it was in memory may be in the log alone, which is not to be read for this table again.
    let flushed = (expiring.is_some() && tells).then_some(published);
    edits.extend(flushed.map(|lsn| Edit::Flushed { table, lsn }));
    manifest.commit(&edits).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let entry = state.tables.get_mut(&table);
    let entry = entry.expect("tables are dropped under the manifest's lock");
    entry.flushed = entry.flushed.max(flushed.unwrap_or_default());
    entry.set_ttl(ttl);
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    drop((manifest, exclusive, stopped));
    core.wake_all();
    Ok(())
}

/// Looks for what has expired and what will next, in a thread of its own, if it is time for that and none is at it. What fails
/// is tried again the next time. `thread` has the last one.
pub fn expire_now_and_then(core: &Arc<Core>, thread: &Mutex<Option<JoinHandle<()>>>) {
    let now = Instant::now();
    {
        let mut state = core.state();
        if !state.is_expiry_due(now) {
            return;
        }
        state.next_expiry = now + EXPIRY_INTERVAL;
        if state.is_expiring {
            return;
        }
        state.is_expiring = true;
    }
    let expiring = Expiry(core.clone());
    let work = move || {
        let core = &expiring.0;
        let Ok(_underway) = core.begin() else { return };
        let _ = look_ahead(core);
        let _ = delete_what_is_due(core, now);
    };
    let mut thread = thread.lock();
    // The last one has done its work. It must not be let go of: see `calls::threads_beside`.
    let _ = thread.take().map(JoinHandle::join);
    // If none can be started, it is tried again.
    *thread = Builder::new().name("drillcore-expiry".to_string()).spawn(work).ok();
}

/// While it lasts, no other thread looks for what has expired.
struct Expiry(Arc<Core>);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.state().is_expiring = false;
    }
}

/// Marks what has expired, so that merges know, and finds what will in a moment, so that snapshots need not.
fn look_ahead(core: &Core) -> Result<()> {
    let _newest = core.version()?;
    let unknown: Vec<_> = {
        let state = core.open_state()?;
        // Nothing is marked that snapshots may show.
        let clock = state.clock();
        let of_table = |(id, table): (&TableId, &TableState)| {
            let (now, later) =
                (table.expiry_limit(clock)?, table.expiry_limit(clock + LOOK_AHEAD)?);
            // There a search is all it takes.
            let is_searched = table.schema.key[0] == now.column;
            let pieces = if is_searched { Vec::new() } else { table.unknown_at(later) };
            Some(pieces.into_iter().map(|piece| (*id, now, piece)).collect::<Vec<_>>())
        };
        state.tables.iter().filter_map(of_table).flatten().collect()
    };
    core.find_expired(unknown, &Interrupt::never())
}

/// Deletes what has expired of upsert tables whose stored rows do not tell, where that is due.
fn delete_what_is_due(core: &Arc<Core>, now: Instant) -> Result<()> {
    let tables: Vec<TableId> = core.open_state()?.tables.keys().copied().collect();
    let of_core = core.clone();
    let stop = move || {
        let state = of_core.state();
        state.closing || state.holds > 0
    };
    let interrupt = Interrupt::new(Arc::new(stop));
    for id in tables {
        let Ok(shape) = TableShape::of(core, id) else { continue };
        let limit = {
            let mut state = core.open_state()?;
            let clock = state.clock();
            let Some(table) = state.tables.get_mut(&id) else { continue };
            if table.schema != shape.schema
                || !is_deletion_due(&table.schema, table.last_expiry, now)
            {
                continue;
            }
            table.last_expiry = Some(now);
            table.schema.expiry_limit(clock)
        };
        let Some(limit) = limit else { continue };
        delete_expired(core, &shape, limit, None, &interrupt)?;
    }
    Ok(())
}

fn is_deletion_due(schema: &TableSchema, last: Option<Instant>, now: Instant) -> bool {
    let Some(TimeToLive { seconds, .. }) = schema.ttl else { return false };
    let late = Duration::from_secs((seconds / LATE_SHARE).clamp(1, LATE_SECONDS_MAX));
    !schema.expires_by_stored_row() && last.is_none_or(|last| now - last >= late)
}

/// Deletes the keys of an upsert table's rows that have expired, a few in each commit. Unless the caller has the table for
/// itself, other writers go on between these; under another time to live nothing more is deleted.
fn delete_expired(
    core: &Arc<Core>,
    shape: &TableShape,
    limit: ExpiryLimit,
    exclusive: Option<&Exclusive<'_>>,
    interrupt: &Interrupt,
) -> Result<()> {
    let question = expired(&shape.schema, limit)?;
    let seen = table(core, shape)?;
    let selected = seen.resolved(question.clone(), interrupt)?;
    for from in (0..selected.len()).step_by(KEYS_AT_ONCE as usize) {
        let numbers = from..selected.len().min(from + KEYS_AT_ONCE);
        let keys = Keys::from_iter(keys_at(&selected, numbers, interrupt)?);
        if exclusive.is_some() {
            bury(core, shape, keys, true, interrupt)?;
            continue;
        }
        make_room(core, shape.table, interrupt)?;
        let for_these = Exclusive::take(core, shape.table, interrupt)?;
        wait_until_all_is_visible(core, shape, interrupt)?;
        check_is_same(core, shape)?;
        // Some may have newer rows, which have not expired.
        let keys = table(core, shape)?.find_keys_that(&keys, question.test.as_ref(), interrupt)?;
        bury(core, shape, keys, true, interrupt)?;
        drop(for_these);
    }
    Ok(())
}

/// Tombstones take memory that writers wait for, so this flushes where there is too much of them.
fn make_room(core: &Core, table: TableId, interrupt: &Interrupt) -> Result<()> {
    let most = core.options.memory_bytes / FLUSH_SHARE;
    let is_much = |table: &TableState| table.run_bytes() > most;
    if core.state().tables.get(&table).is_some_and(is_much) {
        flush_table(core, table, core.visible(), interrupt)?;
    }
    Ok(())
}

/// Refuses to go on where the table has changed since the call began.
fn check_is_same(core: &Core, shape: &TableShape) -> Result<()> {
    let state = core.state();
    state.check_writable()?;
    let entry = state.tables.get(&shape.table).ok_or_else(table_dropped)?;
    if entry.schema == shape.schema {
        return Ok(());
    }
    let message = "another call changed the table; check its columns, then retry";
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// While it lasts, no more rows of the table expire.
struct StoppedClock<'a> {
    core: &'a Core,
    table: TableId,
    clock: u64,
}

impl<'a> StoppedClock<'a> {
    /// Stops it once no other call has it stopped. Returns also the shape that the table has then.
    fn stop(
        core: &'a Core,
        table: TableId,
        interrupt: &Interrupt,
    ) -> Result<(StoppedClock<'a>, TableShape)> {
        let mut state = core.open_state()?;
        loop {
            state.check_writable()?;
            // Snapshots may have shown what is gone by then.
            let clock = state.clock().max(core.clock.now());
            let entry = state.tables.get_mut(&table).ok_or_else(table_dropped)?;
            if entry.clock_stopped.is_none() {
                entry.clock_stopped = Some(clock);
                let (schema, layout) = (entry.schema.clone(), entry.layout.clone());
                let shape = TableShape { table, schema, layout, coder: entry.coder.clone() };
                return Ok((StoppedClock { core, table, clock }, shape));
            }
            state = core.wait_or_stop(state, interrupt)?;
        }
    }
}

impl Drop for StoppedClock<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state();
        if let Some(entry) = state.tables.get_mut(&self.table) {
            entry.clock_stopped = None;
        }
        // The newest snapshot may be of before.
        let replaced = state.reshaped();
        drop(state);
        drop(replaced);
        self.core.wake_all();
    }
}
