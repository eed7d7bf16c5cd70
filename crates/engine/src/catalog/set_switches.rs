//! Switching set indexes on and off, on a live table: one edit of the manifest at once, and the postings of
//! segments that lack them afterwards, segment by segment, by background maintenance.
//!
//! No row is written again. What is appended from the edit on is indexed as it is written, a segment's list
//! is used once it is whole, and until then its sets are found by a pass over it: answers never differ. A
//! crash loses what was listed of one segment.

use std::time::{Duration, Instant};

use drillcore_format::ids::TableId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::Edit;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::thread;

use crate::calls::interrupt::Interrupt;
use crate::calls::progress::Progress;
use crate::error::{Error, Result};
use crate::state::core::Core;
use crate::state::put_off::PutOff;
use crate::state::table_state::TableState;

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
    {
        let mut state = core.open_state()?;
        if let Some(entry) = state.tables.get_mut(&table) {
            entry.hurry_merges(Instant::now());
            state.worklist.add(table);
        }
    }
    core.wake_all();
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
            let waiting = entry.rows_to_index();
            if waiting > 0
                && let Some(why) = why_in_vain(entry)
            {
                return Err(why.clone());
            }
            (waiting, entry.indexing.is_empty())
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

/// Why segments that lack postings were tried in vain some times.
fn why_in_vain(table: &TableState) -> Option<&Error> {
    let lacks = |segment: &Segment| {
        let wanted = table.schema.set.as_ref().map(|set| &set.indexed);
        wanted.is_some_and(|wanted| !segment.indexed().cover(wanted))
    };
    let of_segments = table.unreadable().filter(|(segment, _)| lacks(segment));
    let mut put_off = table.merge_put_off.iter().chain(of_segments.map(|(_, put_off)| put_off));
    put_off.find(|put_off| put_off.is_lasting()).map(PutOff::why)
}

fn dropped() -> Error {
    Error::dropped("the table")
}
