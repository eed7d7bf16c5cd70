//! Listing the rows of a segment's sets after it was written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drillcore_format::ids::{SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::{Edit, PostingsMeta};
use drillcore_storage::error::StorageError;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::pages::files_ahead::FilesAhead;
use drillcore_storage::postings::set_postings::SetPostings;
use drillcore_storage::segments::postings_writer::{Listed, write_postings};
use drillcore_storage::segments::segment::Segment;

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::merge_choice::is_to_be_merged;
use crate::maintenance::room::{self, Spare};
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::put_off::Done;
use crate::state::slots::release;

/// Bytes that a row takes in postings of few sets, at most about.
const ROW_BYTES: u64 = 4;
/// How long a job goes on before it looks whether the segment is to be merged, and whether the disk has room.
const TURN: Duration = Duration::from_millis(100);

/// Lists the rows of the indexed sets of a segment, and attaches the list to it. Gives up without a word when
/// the database closes, when the segment is to be merged, or when the list would not help any more. What keeps it from being written is noted with
/// the table, and no failure of the database: answers do without. If that is too little room, or a file that cannot be read
/// or written, it is put off. `rows_done` hears how many rows are done with, between batches.
///
/// # Errors
/// The manifest or the directory could not be written.
pub fn index(
    core: &Core,
    table: TableId,
    segment: &Arc<Segment>,
    indexed: &IndexedSets,
    rows_done: &dyn Fn(u64),
) -> Result<Done> {
    if let Err(why) = check_room(core, segment.rows().saturating_mul(ROW_BYTES)) {
        return Ok(Done::PutOff(why));
    }
    let listing = Listing { core, table, segment, indexed, file: core.new_segment_id() };
    let (written, without_room) = listing.write(rows_done);
    if let Some(why) = without_room {
        never_was(core, listing.file, 0);
        return Ok(Done::PutOff(why));
    }
    // Before the edit: nothing that cannot be opened gets into the manifest.
    let opened = written.and_then(|meta| meta.map(|meta| listing.open(meta)).transpose());
    match opened {
        Ok(Some((meta, fresh))) => listing.attach(meta, fresh),
        Ok(None) => {
            never_was(core, listing.file, 0);
            Ok(Done::GaveWay)
        }
        Err(error @ StorageError::FolderSync { .. }) => Err(error.into()),
        Err(error) => Ok(listing.fail(error)),
    }
}

/// The listing of the sets of a segment.
struct Listing<'a> {
    core: &'a Core,
    table: TableId,
    segment: &'a Arc<Segment>,
    indexed: &'a IndexedSets,
    /// The postings get the file with this number.
    file: SegmentId,
}

impl Listing<'_> {
    /// Writes the postings, unless that is given up. Gives also what room was lacking, if it was that.
    fn write(
        &self,
        rows_done: &dyn Fn(u64),
    ) -> (std::result::Result<Option<PostingsMeta>, StorageError>, Option<Error>) {
        let Listing { core, table, segment, indexed, file } = *self;
        let (mut next_look, mut without_room) = (Instant::now(), None);
        let mut lists = core.meter.charge_set_lists();
        let go_on = |listed: Listed| {
            lists.resize(listed.bytes as u64);
            let now = Instant::now();
            let state = core.state();
            if !self.helps(&state) {
                return None;
            }
            if now >= next_look {
                next_look = now + TURN;
                let entry = state.tables.get(&table).expect("it helps a table that is there");
                if is_to_be_merged(core, &state, entry, segment) {
                    return None;
                }
                without_room = check_room(core, listed.bytes as u64).err();
                if without_room.is_some() {
                    return None;
                }
            }
            drop(state);
            rows_done(listed.rows);
            let room = core.room_for_later_set_lists(lists.bytes());
            Some(usize::try_from(room).unwrap_or(usize::MAX))
        };
        let written = write_postings(core.directory.clone(), file, segment, indexed, go_on);
        (written, without_room)
    }

    /// Whether a list would be of use now.
    fn helps(&self, state: &State) -> bool {
        let set = state.tables.get(&self.table).and_then(|entry| entry.schema.set.as_ref());
        let is_wanted = |wanted: &IndexedSets| {
            !wanted.is_none() && (wanted.cover(self.indexed) || self.indexed.cover(wanted))
        };
        !state.closing && set.is_some_and(|set| is_wanted(&set.indexed))
    }

    fn open(
        &self,
        meta: PostingsMeta,
    ) -> std::result::Result<(PostingsMeta, SetPostings), StorageError> {
        let files = &mut FilesAhead::none(self.core.directory.as_ref());
        Ok((meta, self.segment.open_postings(files, meta)?))
    }

    /// Notes with the table why there is no list, or says that it is put off.
    fn fail(&self, error: StorageError) -> Done {
        let Listing { core, table, segment, file, .. } = *self;
        never_was(core, file, 0);
        // A device that failed once may not fail again.
        let fault = match Error::from(error) {
            why if why.kind() == ErrorKind::Io => why.of_input().if_postponed(),
            fault => fault.if_lacking(),
        };
        let fault = match fault {
            Ok(why) => return Done::PutOff(why),
            Err(fault) => fault,
        };
        if let Some(entry) = core.state().tables.get_mut(&table) {
            entry.index_fault = Some(fault);
        }
        give_back(core, table, segment);
        Done::Installed
    }

    /// Has the manifest name the postings, and reads use them.
    fn attach(&self, meta: PostingsMeta, fresh: SetPostings) -> Result<Done> {
        let Listing { core, table, segment, file, .. } = *self;
        let mut manifest = core.manifest();
        if !core.state().tables.contains_key(&table) {
            drop((manifest, fresh));
            never_was(core, file, meta.bytes);
            return Ok(Done::Installed);
        }
        // On failure the file stays: the edit may have reached the disk. The next opening knows.
        let edit = Edit::AttachPostings { segment: segment.id(), postings: meta };
        if let Err(error) = manifest.commit(&[edit]) {
            let why = Error::from(error).if_lacking()?;
            drop((manifest, fresh));
            never_was(core, file, meta.bytes);
            return Ok(Done::PutOff(why));
        }
        let before = segment.attach_postings(fresh);
        if let Some(before) = &before {
            before.remove_when_unused(&core.removals, manifest.version());
        }
        drop(manifest);
        // Dropping the last handle removes the file, which takes long.
        drop(before);
        core.state().counts.segments_indexed += 1;
        give_back(core, table, segment);
        Ok(Done::Installed)
    }
}

fn check_room(core: &Core, bytes: u64) -> Result<()> {
    room::check(core, Spare::Flushes, "a set index", bytes)
}

/// Removes a file of postings that never got into the manifest.
fn never_was(core: &Core, file: SegmentId, bytes: u64) {
    core.removals.defer(SetPostings::file_name(file), bytes, ManifestVersion::EVERYTHING);
    core.removals.sweep();
}

/// Puts a segment back into play, with what it lists now.
pub fn give_back(core: &Core, table: TableId, segment: &Arc<Segment>) {
    let mut state = core.state();
    if let Some(entry) = state.tables.get_mut(&table) {
        entry.indexing.retain(|indexing| !Arc::ptr_eq(&indexing.segment, segment));
        release(&mut entry.segments, std::slice::from_ref(segment));
        entry.is_indexed = false;
        let replaced = state.changed(table);
        drop(state);
        drop(replaced);
    }
}
