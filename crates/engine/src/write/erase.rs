//! The way of an erasure: from a question to a commit after which snapshots do not show the rows.
//!
//! Rows are not touched. What is erased of each piece is found first, in the caller's thread, and one short critical section
//! gives the commit its LSN and hands that to the table. Flushes and merges leave the rows out.
//!
//! The log has the ends of a key range, so that is erased at once. What other questions take is named by segment and
//! ordinal. So for these the rows in memory are flushed before, and writers of the table wait while the last of them are.
//! Without a log that is the way of a key range, too: then all older commits are on disk once an erasure is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use drillcore_format::frame::{Payload, PayloadBuilder};
use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::logged_commit::{self, Erased, put_erasure};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::manifest::Manifest;
use drillcore_storage::sync::MutexGuard;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::maintenance::room::LogBytes;
use crate::maintenance::scheduler::flush_table;
use crate::pieces::piece::{Piece, SortedArray};
use crate::select::key_range::KeyRange;
use crate::select::selection::Question;
use crate::state::core::Core;
use crate::state::erasing::erased_by;
use crate::state::erasures::Erasure;
use crate::state::guarded::State;
use crate::state::version::TableVersion;
use crate::write::commit::{
    COMMIT_BYTES_MAX, TableShape, log_and_show, ready_to_log, table_dropped,
};

/// What an erasure did.
pub struct ErasedCommit {
    /// The commit, or the newest visible one if there was nothing to erase.
    pub lsn: Lsn,
    /// Stored rows that are not shown any more.
    pub stored_rows: u64,
    /// The table right before.
    pub before: TableVersion,
}

/// What is erased of pieces, by their addresses, which stay theirs meanwhile.
type Found = HashMap<usize, (SortedArray, OrdinalIntervals)>;

/// Which rows are erased.
#[derive(Clone, Copy)]
struct Erasing<'a> {
    shape: &'a TableShape,
    question: &'a Question,
    /// Also those that no snapshot shows any more, so that nothing shows them again.
    again: bool,
}

/// Erases the rows of a key range.
pub fn erase_range(
    core: &Arc<Core>,
    shape: &TableShape,
    range: &KeyRange,
    interrupt: &Interrupt,
) -> Result<ErasedCommit> {
    let question = Question::of_range(range.clone());
    if core.wal.get().is_none() {
        // Else a merge might leave out rows, and a crash might take commits that came before the erasure.
        return erase_rows(core, shape, &question, interrupt);
    }
    let _underway = core.begin()?;
    let KeyRange { low, high } = range.clone();
    let rows = Erased::Range { low, high };
    let erasing = Erasing { shape, question: &question, again: false };
    let mut found = Found::new();
    loop {
        find(core, erasing, &mut found, interrupt)?;
        let logged = logged(shape, rows.clone());
        if let Some(done) = publish(core, erasing, &mut found, logged, None, interrupt)? {
            return Ok(done);
        }
    }
}

/// Erases what any question takes. It is about columns of which all rows with one key have the same values, or else no key
/// folds.
pub fn erase_rows(
    core: &Arc<Core>,
    shape: &TableShape,
    question: &Question,
    interrupt: &Interrupt,
) -> Result<ErasedCommit> {
    let _underway = core.begin()?;
    let erasing = Erasing { shape, question, again: false };
    let mut found = Found::new();
    // Most of the work, beside writers.
    flush_table(core, shape.table, core.visible(), interrupt)?;
    find(core, erasing, &mut found, interrupt)?;
    let exclusive = Exclusive::take(core, shape.table, interrupt)?;
    let done = erase_exclusively(core, erasing, found, interrupt);
    drop(exclusive);
    done
}

/// [`erase_rows`] for a caller that alone may publish commits of the table, also of what has expired already: so it never comes
/// back.
pub fn erase_for_good(
    core: &Arc<Core>,
    shape: &TableShape,
    question: &Question,
    _exclusive: &Exclusive<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let erasing = Erasing { shape, question, again: true };
    erase_exclusively(core, erasing, Found::new(), interrupt).map(|_| ())
}

fn erase_exclusively(
    core: &Arc<Core>,
    erasing: Erasing<'_>,
    mut found: Found,
    interrupt: &Interrupt,
) -> Result<ErasedCommit> {
    let shape = erasing.shape;
    loop {
        let published = Lsn(core.state().next_lsn.0 - 1);
        flush_table(core, shape.table, published, interrupt)?;
        let pieces = find(core, erasing, &mut found, interrupt)?;
        let of_segment = |piece: &Piece| {
            let (_, ordinals) = &found[&piece.array.address()];
            Some((piece.segment()?.id(), ordinals.clone()))
        };
        let listed = pieces.iter().filter_map(of_segment);
        let segments = listed.filter(|(_, ordinals)| !ordinals.is_empty()).collect();
        // Segments that are listed must not be replaced in the manifest already, and here not yet: a crash would find the
        // one and miss the others.
        let manifest = core.manifest();
        let ManifestVersion { file, edit } = manifest.version();
        let logged = logged(shape, Erased::Listed { manifest: (file, edit), segments });
        let locked = Some(manifest);
        if let Some(done) = publish(core, erasing, &mut found, logged, locked, interrupt)? {
            return Ok(done);
        }
    }
}

/// Refuses to read a table by a shape that it had before columns were dropped or widened.
pub fn check_stored_alike(shape: &TableSchema, now: &TableSchema) -> Result<()> {
    match shape.stored == now.stored {
        true => Ok(()),
        false => Err(Error::invalid(
            "another call dropped or widened a column during this call, and nothing was changed; try again",
        )),
    }
}

/// While it is held, no other call publishes a commit of the table.
pub struct Exclusive<'a> {
    core: &'a Core,
    table: TableId,
}

impl<'a> Exclusive<'a> {
    /// Waits for others that hold it.
    pub fn take(core: &'a Core, table: TableId, interrupt: &Interrupt) -> Result<Exclusive<'a>> {
        let mut state = core.state();
        loop {
            state.check_writable()?;
            let entry = state.tables.get_mut(&table).ok_or_else(table_dropped)?;
            if !entry.is_exclusive {
                entry.is_exclusive = true;
                return Ok(Exclusive { core, table });
            }
            state = core.wait_or_stop(state, interrupt)?;
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.core.state().tables.get_mut(&self.table) {
            entry.is_exclusive = false;
        }
        self.core.wake_all();
    }
}

/// Finds what is erased of the table's pieces as they are now, but of those that are known. Returns the pieces.
fn find(
    core: &Core,
    Erasing { shape, question, again }: Erasing<'_>,
    found: &mut Found,
    interrupt: &Interrupt,
) -> Result<Vec<Piece>> {
    let pieces = {
        let mut state = core.state();
        let entry = state.tables.get_mut(&shape.table).ok_or_else(table_dropped)?;
        if question.key_range().is_none() {
            check_stored_alike(&shape.schema, &entry.schema)?;
        }
        entry.settle(core.visible());
        entry.pieces()
    };
    let there: HashSet<usize> = pieces.iter().map(|piece| piece.array.address()).collect();
    found.retain(|address, _| there.contains(address));
    for piece in &pieces {
        interrupt.check()?;
        let address = piece.array.address();
        if let Entry::Vacant(place) = found.entry(address) {
            let erased = piece.erased.clone().filter(|_| !again);
            let piece = &Piece { erased, ..piece.clone() };
            let ordinals = erased_by(question, &shape.layout, piece, interrupt)?;
            place.insert((piece.array.clone(), ordinals));
        }
    }
    Ok(pieces)
}

/// An erasure as the log has it.
fn logged(shape: &TableShape, rows: Erased) -> Payload {
    let mut payload = PayloadBuilder::new(0);
    put_erasure(&logged_commit::LoggedErasure { table: shape.table, rows }, payload.out());
    payload.finish()
}

/// Publishes an erasure and shows it, for a caller with the manifest's lock as the only one who may; or `None` if pieces have come since, of which it must be found what is erased.
fn publish(
    core: &Arc<Core>,
    erasing: Erasing<'_>,
    found: &mut Found,
    logged: Payload,
    manifest: Option<MutexGuard<'_, Manifest>>,
    interrupt: &Interrupt,
) -> Result<Option<ErasedCommit>> {
    let bytes = logged.frame_bytes() as u64;
    let reserved = LogBytes::reserve(core, if core.wal.get().is_some() { bytes } else { 0 })?;
    if bytes > COMMIT_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the rows to delete take {bytes} bytes in the log; the limit per commit is {COMMIT_BYTES_MAX}. Delete them in \
             parts, by key range and condition"
        )));
    }
    ready_to_log(core, interrupt)?;
    let Erasing { shape, question, again } = erasing;
    let mut state = once_settled(core, shape.table, manifest.is_some(), interrupt)?;
    let (lsn, clock, reads) = (state.next_lsn, state.clock(), state.reads.clone());
    let entry = state.tables.get_mut(&shape.table).expect("looked up under the same lock");
    let pieces = entry.pieces();
    let Some(ToHide { ordinals, stored_rows }) = to_hide(erasing, &pieces, found)? else {
        return Ok(None);
    };
    let before = |lsn: Lsn| {
        let (name, layout) = (entry.name.clone(), entry.layout.clone());
        TableVersion::new(shape.table, name, layout, lsn, clock, pieces.into(), reads)
    };
    if stored_rows == 0 && (!again || ordinals.is_empty()) {
        let visible = core.visible();
        return Ok(Some(ErasedCommit { lsn: visible, stored_rows, before: before(visible) }));
    }
    let before = before(Lsn(lsn.0 - 1));
    let (question, layout) = (question.clone(), shape.layout.clone());
    entry.erasures.publish(Erasure { lsn, question, layout }, ordinals);
    state.next_lsn = Lsn(lsn.0 + 1);
    if let Some(wal) = core.wal.get() {
        wal.enqueue(lsn, logged);
    }
    let replaced = state.changed(shape.table);
    drop(state);
    drop(replaced);
    drop(manifest);
    drop(log_and_show(core, lsn, reserved, interrupt)?);
    // Segments may hold little else now.
    core.wake_workers();
    Ok(Some(ErasedCommit { lsn, stored_rows, before }))
}

/// The state, once an erasure may be published: no other call holds the table alone, and its pieces know of all erasures
/// before.
fn once_settled<'a>(
    core: &'a Core,
    table: TableId,
    is_alone: bool,
    interrupt: &Interrupt,
) -> Result<MutexGuard<'a, State>> {
    let mut state = core.state();
    loop {
        state.check_writable()?;
        let visible = core.visible();
        let entry = state.tables.get_mut(&table).ok_or_else(table_dropped)?;
        entry.settle(visible);
        let is_held = entry.is_exclusive && !is_alone;
        // Of an erasure that is being logged the pieces do not know yet.
        if !is_held && entry.erasures.first_unsettled().is_none() {
            return Ok(state);
        }
        state = core.wait_or_stop(state, interrupt)?;
    }
}

/// What an erasure hides.
struct ToHide {
    /// Of each piece that has some of it.
    ordinals: Vec<(SortedArray, OrdinalIntervals)>,
    /// The rows among them that were shown before.
    stored_rows: u64,
}

/// What is hidden of some pieces; `None` if one has come since it was found what is erased.
fn to_hide(
    Erasing { shape, question, .. }: Erasing<'_>,
    pieces: &[Piece],
    found: &Found,
) -> Result<Option<ToHide>> {
    let mut hidden = ToHide { ordinals: Vec::new(), stored_rows: 0 };
    for piece in pieces {
        let known = found.get(&piece.array.address()).map(|(_, ordinals)| ordinals.clone());
        let ordinals = match (known, piece.run()) {
            (Some(ordinals), None) => ordinals,
            // In memory the ends of a range are found at once.
            (known, Some(_)) if question.key_range().is_some() => match known {
                Some(ordinals) => ordinals,
                None => erased_by(question, &shape.layout, piece, &Interrupt::never())?,
            },
            _ => return Ok(None),
        };
        if !ordinals.is_empty() {
            hidden.stored_rows += u64::from(ordinals.len()) - erased_among(piece, &ordinals);
            hidden.ordinals.push((piece.array.clone(), ordinals));
        }
    }
    Ok(Some(hidden))
}

/// How many of some rows of a piece were erased already.
fn erased_among(piece: &Piece, ordinals: &OrdinalIntervals) -> u64 {
    let Some(erased) = &piece.erased else { return 0 };
    let parts = ordinals.iter();
    parts.map(|part| erased.count_in(&(u64::from(part.start)..u64::from(part.end)))).sum()
}
