//! Named snapshots: all tables at one moment, kept under a name over restarts and merges.
//!
//! Pinning writes the rows that are still in memory into segments of the snapshot's own and notes in the
//! manifest which segments it is made of. So the snapshot has the same pieces for ever, and the same seed
//! draws the same sample from it. Its segments stay until it is dropped.

use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId};
use drillcore_format::manifest_edit::{Edit, PinnedTable};
use drillcore_storage::files::lease::ManifestVersion;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::segment_writing::{Input, Written, go_on, within_flush, write_segments};
use crate::pieces::piece::Piece;
use crate::schema::name::check_name;
use crate::state::core::Core;
use crate::state::slots::covered;
use crate::state::version::{TableVersion, Version};

/// The snapshot of that name, if it was pinned.
pub fn find(core: &Core, name: &str) -> Result<Option<Arc<Version>>> {
    check_name("snapshot", name)?;
    Ok(core.open_state()?.named.get(name).cloned())
}

/// The snapshot of that name, made now if there is none.
pub fn open_or_pin(core: &Core, name: &str, interrupt: &Interrupt) -> Result<Arc<Version>> {
    let _underway = core.begin()?;
    loop {
        wait_for_clocks(core, interrupt)?;
        let version = on_disk(core, &*core.version()?, interrupt)?;
        if let Some(pinned) = pin(core, name, version)? {
            return Ok(pinned);
        }
    }
}

/// Waits until the time to live of no table is being changed: a snapshot keeps one time of day.
fn wait_for_clocks(core: &Core, interrupt: &Interrupt) -> Result<()> {
    let mut state = core.state();
    loop {
        state.check_writable()?;
        if state.tables.values().all(|table| table.clock_stopped.is_none()) {
            return Ok(());
        }
        state = core.wait_or_stop(state, interrupt)?;
    }
}

/// The names of all named snapshots with their LSNs, in order.
pub fn list(core: &Core) -> Result<Vec<(String, Lsn)>> {
    let state = core.open_state()?;
    Ok(state.named.iter().map(|(name, version)| (name.clone(), version.lsn())).collect())
}

/// Forgets a named snapshot. Files that only it needed go once no reader needs them.
pub fn unpin(core: &Core, name: &str) -> Result<()> {
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    {
        let state = core.state();
        state.check_writable()?;
        if !state.named.contains_key(name) {
            return Err(Error::unknown("snapshot", name, state.named.keys().map(String::as_str)));
        }
    }
    manifest
        .commit(&[Edit::DropSnapshot { name: name.to_string() }])
        .map_err(Error::from)
        .inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let version = state.named.remove(name).expect("snapshots go under the manifest's lock");
    let in_tables = |id: SegmentId| {
        let slots = state.tables.values().flat_map(|table| &table.segments);
        slots.into_iter().any(|slot| slot.piece.id() == id)
    };
    for segment in version.segments() {
        if !in_tables(segment.id()) && !state.is_pinned(segment.id()) {
            segment.remove_when_unused(&core.removals, manifest.version());
        }
    }
    drop(state);
    drop(manifest);
    // Dropping the last handle of a segment removes its file, which takes long.
    drop(version);
    Ok(())
}

/// The same rows, in segments alone. The new ones are in no table and not yet in the manifest.
pub fn on_disk(core: &Core, version: &Version, interrupt: &Interrupt) -> Result<Version> {
    let mut tables = Vec::new();
    let written = write_runs(core, version, &mut tables, interrupt);
    let on_disk = Version::of(version.lsn(), version.clock, tables);
    written.inspect_err(|_| discard(core, &on_disk))?;
    Ok(on_disk)
}

fn write_runs(
    core: &Core,
    version: &Version,
    on_disk: &mut Vec<TableVersion>,
    interrupt: &Interrupt,
) -> Result<()> {
    let go_on = || go_on(core, interrupt);
    for table in version.tables.values() {
        let pieces = table.pieces.now();
        // Also one that was spilled, while others were written: no manifest names its file.
        let first_run = pieces.iter().position(Piece::is_of_run).unwrap_or(pieces.len());
        let (segments, runs) = pieces.split_at(first_run);
        let mut pieces = segments.to_vec();
        if !runs.is_empty() {
            let lsns = covered(runs.iter().map(Piece::lsns));
            let is_oldest = segments.is_empty();
            let input = Input { pieces: runs.to_vec(), lsns, is_oldest };
            let within = within_flush(core, &go_on, &|_| ());
            match write_segments(core, table.id, &table.layout, vec![input], within)? {
                Written::Nothing(why) => return Err(why),
                Written::Segments(written) => {
                    pieces.extend(written.into_iter().flatten());
                }
            }
        }
        let (name, layout) = (table.name.clone(), table.layout.clone());
        let (lsn, clock) = (version.lsn(), version.clock);
        let (pieces, reads) = (pieces.into(), table.reads.clone());
        on_disk.push(TableVersion::new(table.id, name, layout, lsn, clock, pieces, reads));
    }
    Ok(())
}

/// Notes the version in the manifest. `None` if a merge has replaced one of its segments meanwhile: then it
/// must be made anew.
fn pin(core: &Core, name: &str, version: Version) -> Result<Option<Arc<Version>>> {
    let mut manifest = core.manifest();
    let known = {
        let state = core.state();
        state.check_writable()?;
        state.named.get(name).cloned()
    };
    if let Some(known) = known {
        // Another call was faster; what was written for this one is not needed.
        discard(core, &version);
        return Ok(Some(known));
    }
    if version.segments().iter().any(|segment| segment.is_to_be_removed()) {
        discard(core, &version);
        return Ok(None);
    }
    if let Some(wal) = core.wal.get() {
        // The snapshot must not show commits that a power cut takes from the log.
        wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error))?;
    }
    let tables = version.tables.values().map(|table| PinnedTable {
        table: table.id,
        name: table.name.to_string(),
        schema: (*table.schema).clone(),
        segments: table.pieces.now().iter().filter_map(Piece::segment).map(|s| s.meta()).collect(),
        erased: table.pieces.now().iter().filter_map(Piece::erased_of_segment).collect(),
    });
    let (lsn, clock) = (version.lsn(), version.clock);
    let edit = Edit::PinSnapshot { name: name.to_string(), lsn, clock, tables: tables.collect() };
    manifest.commit(&[edit]).map_err(Error::from).inspect_err(|error| match error.kind() {
        ErrorKind::StorageFull => discard(core, &version),
        _ => core.fail(error),
    })?;
    let version = Arc::new(version);
    core.state().named.insert(name.to_string(), version.clone());
    Ok(Some(version))
}

/// Removes the segments of a version that are in no table.
pub fn discard(core: &Core, version: &Version) {
    let state = core.state();
    for segment in version.segments() {
        let mut slots = state.tables.values().flat_map(|table| &table.segments);
        if !slots.any(|slot| slot.piece.id() == segment.id()) && !state.is_pinned(segment.id()) {
            segment.remove_when_unused(&core.removals, ManifestVersion::EVERYTHING);
        }
    }
}
