//! Switching set indexes on and off, on a live table: one edit of the manifest at once, and the postings of
//! segments that lack them afterwards, segment by segment, by whoever does maintenance.
//!
//! No row is written again. What is appended from the edit on is indexed as it is written, a segment's list
//! is used once it is whole, and until then its sets are found by a pass over it: answers never differ. A
//! crash loses what was listed of one segment.

use std::time::Duration;

use drillcore_format::ids::TableId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::Edit;
use drillcore_storage::sync::thread;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::error::{Error, ErrorKind, Result};
use crate::state::core::Core;

/// How often a wait for the postings of segments looks.
const POLL: Duration = Duration::from_millis(5);

/// Changes which sets of a table are indexed; when this returns, the change outlasts a power cut.
///
/// # Errors
/// `InvalidArgument` if the table has no set column, `NotFound` if it was dropped, `ReadOnly`, `Closed`, `Io`.
pub fn change(
    core: &Core,
    table: TableId,
    change: impl FnOnce(&IndexedSets) -> IndexedSets,
) -> Result<()> {
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    let indexed = {
        let state = core.state();
        state.check_writable()?;
        let entry = state.tables.get(&table).ok_or_else(dropped)?;
        let set = entry.schema.set.as_ref().ok_or_else(Error::no_set_column)?;
        let indexed = change(&set.indexed);
        if indexed == set.indexed {
            return Ok(());
        }
        indexed
    };
    let edit = Edit::IndexSets { table, indexed: indexed.clone() };
    manifest.commit(&[edit]).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let entry = state.tables.get_mut(&table);
    let entry = entry.expect("tables are dropped under the manifest's lock");
    entry.set_schema(entry.schema.with_indexed(indexed));
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    core.wake_all();
    Ok(())
}

/// Returns once the postings of all segments are whole. `progress` hears now and then how many rows of
/// segments wait to be indexed.
pub fn wait(core: &Core, table: TableId, interrupt: &Interrupt, progress: &Progress) -> Result<()> {
    core.check_process()?;
    let mut total = 0;
    loop {
        interrupt.check()?;
        let (waiting, is_idle) = {
            let state = core.open_state()?;
            state.check_writable()?;
            let entry = state.tables.get(&table).ok_or_else(dropped)?;
            if entry.schema.set.is_none() {
                return Err(Error::no_set_column());
            }
            if let Some(fault) = &entry.index_fault {
                return Err(fault.clone());
            }
            if let Some(put_off) =
                entry.merge_put_off.as_ref().filter(|put_off| put_off.is_lasting())
            {
                return Err(put_off.why().clone());
            }
            (entry.rows_to_index(), entry.indexing.is_empty())
        };
        // Segments that come up meanwhile wait, too.
        total = waiting.max(total);
        progress.expect(total);
        progress.reach(total - waiting);
        if waiting == 0 && is_idle {
            return Ok(());
        }
        thread::sleep(POLL);
    }
}

fn dropped() -> Error {
    Error::new(ErrorKind::NotFound, "the table was dropped")
}
