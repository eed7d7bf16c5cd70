//! Closing: everything that writes ends, then the lock is free.
//!
//! What counts as writing, calls and jobs alike, is counted as under way ([`Core::begin`], [`Picked`]). Closing
//! refuses what begins, lets what is under way end, and frees the lock only then: once it returns, nothing of
//! this opening is written any more. Merges and calls under way give up at their next step; what they would have
//! written is in the log, or in memory, from where closing writes it if there is no log. Where the disk is full then, calls are
//! let in again.
//!
//! [`Picked`]: crate::maintenance::jobs::Picked

use std::mem;

use drillcore_format::ids::Lsn;
use drillcore_format::manifest_edit::Edit;
use drillcore_storage::sync::Mutex;
use drillcore_storage::sync::thread::JoinHandle;

use crate::calls::interrupt::Interrupt;
use crate::error::{ErrorKind, Result};
use crate::maintenance::scheduler;
use crate::state::core::Core;
use crate::state::options::Durability;

/// The threads of a database that is open for writing.
#[derive(Default)]
pub struct Workers {
    /// Those that do maintenance.
    pub maintenance: Mutex<Vec<JoinHandle<()>>>,
    /// The last that looked for rows that expire; one of maintenance starts it.
    pub expiry: Mutex<Option<JoinHandle<()>>>,
}

/// What closing does where rows that are in memory alone have no room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutRoom {
    /// The database stays open, as it was.
    StayOpen,
    /// It is closed without them.
    Close,
}

/// Closes a database. Snapshots go on reading its segments, under a lease if there are any; `nonce` tells that from
/// other leases. A second call waits until it is closed.
///
/// # Errors
/// With durability `none`, why rows could not be written out; with `os`, why the log could not be synced. The
/// database is closed all the same, unless it is to stay open without room.
pub fn close(core: &Core, workers: &Workers, nonce: u64, without_room: WithoutRoom) -> Result<()> {
    {
        let mut state = core.state();
        while state.closing && !state.is_shut {
            state = core.wait(state);
        }
        if state.is_shut {
            return Ok(());
        }
        state.closing = true;
        core.underway.refuse();
        if core.options.durability == Durability::None {
            // Without a log, published is as good as logged: appends at this point count as done.
            core.show(Lsn(state.next_lsn.0 - 1));
        }
    }
    // Its drop frees the lock and wakes calls that wait for the end, also after a panic below.
    let shut = Shut(core);
    // Appends that wait at the memory limit give up.
    core.wake_all();
    let flushed = if core.is_kept_by_closing() { write_out(core) } else { Ok(()) };
    if let Err(error) = &flushed
        && without_room == WithoutRoom::StayOpen
        && error.kind() == ErrorKind::StorageFull
        && error.clone().if_lacking().is_ok()
    {
        mem::forget(shut);
        stay_open(core);
        return flushed;
    }
    core.state().close();
    core.wake_all();
    for worker in mem::take(&mut *workers.maintenance.lock()) {
        // A worker that panicked has failed its job; its inputs are still in the log.
        let _ = worker.join();
    }
    let expiry = workers.expiry.lock().take();
    let _ = expiry.map(JoinHandle::join);
    let reads = core.state().reads.clone();
    reads.threads.end();
    let mut state = core.state();
    while core.underway.count() > 0 {
        state = core.wait(state);
    }
    drop(state);
    core.manifest().close();
    let ended = core.wal.get().map_or(Ok(()), |wal| Ok(wal.close()?));
    core.removals.sweep();
    let pieces = core.state().take_pieces();
    drop(pieces);
    core.lease_segments(nonce);
    drop(shut);
    flushed.and(ended)
}

/// Takes back that the database is being closed.
fn stay_open(core: &Core) {
    let mut state = core.state();
    state.closing = false;
    core.underway.accept();
    drop(state);
    core.wake_all();
}

/// What a log would otherwise keep: all rows, how far sources were read, and how far commits have counted. The count
/// is in no segment where the last commits were to tables since dropped.
fn write_out(core: &Core) -> Result<()> {
    scheduler::flush_through(core, core.visible(), &Interrupt::never())?;
    let mut manifest = core.manifest();
    let (next_lsn, mut edits) = {
        let state = core.state();
        (state.next_lsn, state.positions.edits_before(state.next_lsn))
    };
    edits.push(Edit::NextLsn(next_lsn));
    Ok(manifest.commit(&edits)?)
}

/// The last step, when dropped: from then on others may open the database.
struct Shut<'a>(&'a Core);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        let core = self.0;
        core.removals.close();
        core.lock.lock().take();
        let mut state = core.state();
        state.close();
        state.is_shut = true;
        drop(state);
        core.wake_all();
    }
}
