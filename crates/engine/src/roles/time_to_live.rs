//! How long rows of a table are kept, and their end.
//!
//! What has expired is left out of every snapshot at once. Where stored rows tell by themselves, they are marked as erased, piece
//! by piece, and merges leave them out as they do other erased rows. In an upsert table with the time outside the key the newest
//! version of a row tells: there snapshots test rows, and now and then the keys of those that have expired are deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::Array;
use drillcore_format::ids::TableId;
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::{ExpiryLimit, TableSchema, TimeToLive};

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::roles::deleting::{select_exclusively, wait_until_all_is_visible};
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
/// Keys deleted by one commit.
const KEYS_AT_ONCE: usize = 64 << 10;

/// Changes how long rows of a table are kept; `None` is for good. What has expired by then stays so. Writers of the table wait
/// meanwhile.
pub fn set_ttl(
    core: &Arc<Core>,
    shape: &TableShape,
    ttl: Option<(&str, Duration)>,
    interrupt: &Interrupt,
) -> Result<()> {
    let _underway = core.begin()?;
    let ttl =
        ttl.map(|(column, lasting)| checked_ttl(&shape.schema, column, lasting)).transpose()?;
    if shape.schema.ttl == ttl {
        return Ok(());
    }
    let stopped = StoppedClock::stop(core, shape.table)?;
    let limit = shape.schema.expiry_limit(stopped.clock);
    let exclusive = match limit {
        None => Exclusive::take(core, shape.table, interrupt)?,
        Some(limit) if shape.schema.expires_by_stored_row() => {
            let exclusive = Exclusive::take(core, shape.table, interrupt)?;
            wait_until_all_is_visible(core, shape, interrupt)?;
            let question = expired(&shape.schema, limit)?;
            erase_for_good(core, shape, &question, &exclusive, interrupt)?;
            exclusive
        }
        Some(limit) => delete_expired(core, shape, limit, interrupt)?,
    };
    let mut manifest = core.manifest();
    if let Some(wal) = core.wal.get() {
        // Else a power cut might take from the log what was erased, and leave the edit.
        wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error))?;
    }
    {
        let state = core.state();
        state.check_writable()?;
        let entry = state.tables.get(&shape.table).ok_or_else(table_dropped)?;
        if entry.schema != shape.schema {
            let message = "another call changed the table meanwhile; look at it, and try again";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    let edit = Edit::SetTtl { table: shape.table, ttl };
    manifest.commit(&[edit]).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let entry = state.tables.get_mut(&shape.table);
    entry.expect("tables are dropped under the manifest's lock").set_ttl(ttl);
    state.changed();
    drop(state);
    drop((manifest, exclusive, stopped));
    core.state_changed.notify_all();
    Ok(())
}

/// Looks for what has expired and what will next, if it is time for that. What fails is tried again the next time.
pub fn expire_now_and_then(core: &Arc<Core>) {
    let now = Instant::now();
    {
        let mut state = core.state();
        if !state.is_expiry_due(now) {
            return;
        }
        state.next_expiry = now + EXPIRY_INTERVAL;
    }
    let _ = look_ahead(core);
    let Ok(state) = core.open_state() else { return };
    let due: Vec<(TableId, ExpiryLimit)> = state
        .tables
        .iter()
        .filter(|(_, table)| is_deletion_due(&table.schema, table.last_expiry, now))
        .filter_map(|(id, table)| Some((*id, table.schema.expiry_limit(state.clock())?)))
        .collect();
    drop(state);
    let closing = core.clone();
    let interrupt = Interrupt::new(Arc::new(move || closing.state().closing));
    for (id, limit) in due {
        if let Some(table) = core.state().tables.get_mut(&id) {
            table.last_expiry = Some(now);
        }
        let Ok(shape) = TableShape::of(core, id) else { continue };
        let _ = delete_expired(core, &shape, limit, &interrupt);
    }
}

/// Marks what has expired, so that merges know, and finds what will in a moment, so that snapshots need not.
fn look_ahead(core: &Core) -> Result<()> {
    let _newest = core.version()?;
    let clock = core.clock.now();
    let unknown: Vec<_> = {
        let state = core.open_state()?;
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
    core.find_expired(unknown)
}

fn is_deletion_due(schema: &TableSchema, last: Option<Instant>, now: Instant) -> bool {
    let Some(TimeToLive { seconds, .. }) = schema.ttl else { return false };
    let late = Duration::from_secs((seconds / LATE_SHARE).clamp(1, LATE_SECONDS_MAX));
    !schema.expires_by_stored_row() && last.is_none_or(|last| now - last >= late)
}

/// Deletes the keys of an upsert table's rows that have expired, in commits of a few. Until the guard is dropped, no other call
/// changes the table.
fn delete_expired<'a>(
    core: &'a Arc<Core>,
    shape: &TableShape,
    limit: ExpiryLimit,
    interrupt: &Interrupt,
) -> Result<Exclusive<'a>> {
    let question = expired(&shape.schema, limit)?;
    let (exclusive, keys) = select_exclusively(core, shape, question, interrupt)?;
    for from in (0..keys.len()).step_by(KEYS_AT_ONCE) {
        let some = keys.slice(from, KEYS_AT_ONCE.min(keys.len() - from));
        bury(core, shape, some, true, interrupt)?;
    }
    Ok(exclusive)
}

/// While it lasts, no more rows of the table expire.
struct StoppedClock<'a> {
    core: &'a Core,
    table: TableId,
    clock: u64,
}

impl<'a> StoppedClock<'a> {
    fn stop(core: &'a Core, table: TableId) -> Result<StoppedClock<'a>> {
        let now = core.clock.now();
        let mut state = core.open_state()?;
        // Snapshots may have shown what is gone by then.
        let clock = state.clock().max(now);
        let entry = state.tables.get_mut(&table).ok_or_else(table_dropped)?;
        if entry.clock_stopped.is_some() {
            let message = "another call changes how long rows are kept; wait for it, and try again";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        entry.clock_stopped = Some(clock);
        Ok(StoppedClock { core, table, clock })
    }
}

impl Drop for StoppedClock<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.core.state().tables.get_mut(&self.table) {
            entry.clock_stopped = None;
        }
    }
}
