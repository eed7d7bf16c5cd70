//! Segments that a job wrote, on their way into the manifest and into their table.
//!
//! Until the manifest names them they can be removed again: the job is then put off, and its inputs are as they were.

use std::sync::Arc;

use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::manifest_edit::Edit;
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::manifest::Manifest;
use drillcore_storage::segments::segment::Segment;
use drillcore_storage::sync::MutexGuard;

use crate::error::{Error, Result};
use crate::maintenance::fresh_pieces::FreshPieces;
use crate::pieces::piece::Piece;
use crate::state::core::Core;
use crate::state::erasures::Unnoted;
use crate::state::guarded::State;

/// Segments that a job wrote for a table.
pub struct FreshSegments<'a> {
    pub core: &'a Core,
    pub table: TableId,
    pub pieces: FreshPieces<'a>,
    /// Those of the pieces, in their order.
    pub segments: Vec<Arc<Segment>>,
}

impl<'a> FreshSegments<'a> {
    /// Segments of rows that knew of erasures up to `since`.
    pub fn new(
        core: &'a Core,
        table: TableId,
        since: Lsn,
        pieces: Vec<Piece>,
    ) -> FreshSegments<'a> {
        let segments = segments_of(&pieces);
        let pieces = FreshPieces::new(core, table, since, pieces);
        FreshSegments { core, table, pieces, segments }
    }

    /// [`FreshPieces::catch_up`] before anything names the segments. If they cannot be read, they go, and why is returned.
    pub fn caught_up(&mut self) -> Result<std::result::Result<MutexGuard<'a, State>, Error>> {
        match self.pieces.catch_up() {
            Ok(state) => Ok(Ok(state)),
            Err(error) => {
                let why = error.if_postponed()?;
                self.remove();
                Ok(Err(why))
            }
        }
    }

    /// Has the manifest name them: edits about them, what was erased of them and of the segments that are `unnoted`, and last
    /// some other edits. Gives the newest commit whose erasures are named; or why there was no room, and then nothing has changed,
    /// and they go.
    pub fn note(
        &self,
        manifest: &mut Manifest,
        unnoted: Unnoted,
        mut edits: Vec<Edit>,
        last: Vec<Edit>,
    ) -> Result<std::result::Result<Lsn, Error>> {
        let (mut erased, noted) = self.pieces.erased();
        erased.extend(unnoted.segments());
        edits.extend(edit_of_erased(self.core, self.table, erased)?);
        edits.extend(last);
        let Some(why) = not_noted(self.core, manifest, &edits, &self.segments)? else {
            return Ok(Ok(noted));
        };
        if let Some(entry) = self.core.state().tables.get_mut(&self.table) {
            entry.put_back_unnoted(unnoted);
        }
        Ok(Err(why))
    }

    /// Removes them, which never got into the manifest.
    pub fn remove(&self) {
        self.segments.iter().for_each(|segment| never_was(self.core, segment));
    }

    /// Their rows.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows()).sum()
    }
}

/// The segments among some pieces.
pub fn segments_of(pieces: &[Piece]) -> Vec<Arc<Segment>> {
    pieces.iter().filter_map(Piece::segment).cloned().collect()
}

/// Notes in the manifest what became of some pieces. Where there is no room for the edits, nothing was changed, the new
/// segment is removed, and that is why.
///
/// # Errors
/// On any other failure the file stays: the edit may have reached the disk. The next opening knows.
pub fn not_noted(
    core: &Core,
    manifest: &mut Manifest,
    edits: &[Edit],
    fresh: &[Arc<Segment>],
) -> Result<Option<Error>> {
    let Err(error) = manifest.commit(edits) else { return Ok(None) };
    let why = Error::from(error).if_lacking()?;
    fresh.iter().for_each(|segment| never_was(core, segment));
    Ok(Some(why))
}

/// Says in the manifest which rows of segments were erased. The commits that did it are made durable before: what the
/// manifest says outlives a power cut.
fn edit_of_erased(
    core: &Core,
    table: TableId,
    segments: Vec<(SegmentId, OrdinalIntervals)>,
) -> Result<Option<Edit>> {
    if segments.is_empty() {
        return Ok(None);
    }
    if let Some(wal) = core.wal.get() {
        wal.make_durable()?;
    }
    Ok(Some(Edit::EraseRows { table, segments }))
}

/// Removes a segment that never got into the manifest.
fn never_was(core: &Core, segment: &Segment) {
    segment.remove_when_unused(&core.removals, ManifestVersion::EVERYTHING);
}
