//! Making and dropping tables: one edit of the manifest each.

use std::sync::Arc;

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::manifest_edit::Edit;
use drillcore_format::schema::TableSchema;
use drillcore_storage::files::lease::ManifestVersion;
use drillcore_storage::segments::segment::Segment;

use crate::calls::interrupt::Interrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::jobs;
use crate::maintenance::segment_writing::{Input, Written, go_on, within_flush, write_segments};
use crate::pieces::piece::Piece;
use crate::schema::difference::difference;
use crate::schema::name::check_name;
use crate::schema::table_spec::TableSpec;
use crate::state::core::Core;
use crate::state::guarded::State;
use crate::state::slots::{Slot, covered};
use crate::state::table_state::TableState;
use crate::state::version::TableVersion;

/// What a handle on a table is made of.
pub struct Known {
    pub id: TableId,
    pub name: Arc<str>,
    pub schema: Arc<TableSchema>,
}

impl Known {
    fn of(id: TableId, table: &TableState) -> Known {
        Known { id, name: table.name.clone(), schema: table.schema.clone() }
    }
}

/// A table by name, if there is one.
pub fn find(state: &State, name: &str) -> Option<Known> {
    let mut tables = state.tables.iter();
    let (id, table) = tables.find(|(_, table)| &*table.name == name)?;
    Some(Known::of(*id, table))
}

/// Makes a table, or finds the one that is there if the spec takes it.
pub fn create(core: &Core, name: &str, spec: &TableSpec) -> Result<Known> {
    let schema = spec.schema(name)?;
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    let id = {
        let state = core.state();
        state.check_writable()?;
        if let Some(known) = find(&state, name) {
            if spec.exist_ok && known.schema.widens(&schema) {
                return Ok(known);
            }
            let hint = if spec.exist_ok {
                let differs = difference(&TableSpec::of(&known.schema), &TableSpec::of(&schema));
                format!(" with another shape: {differs}; use that shape, or drop the table first")
            } else {
                "; use another name, or open the existing table".to_string()
            };
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("table {name:?} already exists{hint}"),
            ));
        }
        state.next_table
    };
    let create = Edit::CreateTable { table: id, name: name.to_string(), schema: schema.clone() };
    manifest
        .commit(&[create, Edit::NextTable(TableId(id.0 + 1))])
        .map_err(Error::from)
        .inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let table = TableState::new(name, schema, Lsn(0));
    let known = Known::of(id, &table);
    state.tables.insert(id, table);
    state.next_table = TableId(id.0 + 1);
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    Ok(known)
}

/// Removes a table and, once no snapshot reads them, its files.
pub fn drop_table(core: &Core, id: TableId, name: &str) -> Result<()> {
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    let (needed_from, positions) = {
        let state = core.state();
        state.check_writable()?;
        if !state.tables.contains_key(&id) {
            return Err(Error::dropped(&format!("table {name:?}")));
        }
        // What is not in the log yet is needed there.
        let logged_before = Lsn(core.visible().0 + 1);
        let needed_from = state.needed_without(id).min(logged_before);
        (needed_from, state.positions.edits_before(needed_from))
    };
    // The commits of the table go with it, as far as no other table has older ones: the disk may be full. What the manifest
    // says to be past must not be lost in the middle of the log.
    if let Some(wal) = core.wal.get() {
        wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error))?;
    }
    let mut edits = vec![Edit::DropTable { table: id }];
    edits.extend(positions.into_iter().chain([Edit::NextLsn(needed_from)]));
    manifest.commit(&edits).map_err(Error::from).inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    state.positions.note_before(needed_from);
    let given_up = state.give_up_paused(id, |_| true);
    let table = state.tables.remove(&id).expect("tables are dropped under the manifest's lock");
    // Runs that a job works on are given back by the job.
    let free = table.runs.iter().filter(|slot| !slot.taken);
    state.buffered_bytes -= free.map(|slot| slot.piece.bytes()).sum::<u64>();
    let runs: Vec<_> = table.runs.iter().map(|slot| slot.piece.clone()).collect();
    state.note_left(id, &runs);
    let replaced = state.reshaped();
    core.wake_all();
    drop(state);
    drop((replaced, given_up));
    let segments = table.segments.iter().map(|slot| &slot.piece);
    let version = manifest.version();
    jobs::remove_unless_pinned(core, segments, version);
    drop(manifest);
    if let Some(wal) = core.wal.get() {
        jobs::remove_log_before(core, wal, needed_from, version);
    }
    // Dropping the last handle of a segment removes its file, which takes long.
    core.removals.in_one_sweep(|| drop(table));
    Ok(())
}

/// Gives a table another name.
pub fn rename_table(core: &Core, id: TableId, name: &str) -> Result<()> {
    check_name("table", name)?;
    let _underway = core.begin()?;
    let mut manifest = core.manifest();
    {
        let state = core.state();
        state.check_writable()?;
        if !state.tables.contains_key(&id) {
            return Err(Error::dropped("the table"));
        }
        check_is_free(&state, name)?;
    }
    manifest
        .commit(&[Edit::RenameTable { table: id, name: name.to_string() }])
        .map_err(Error::from)
        .inspect_err(|error| core.fail(error))?;
    let mut state = core.state();
    let table = state.tables.get_mut(&id).expect("tables are dropped under the manifest's lock");
    table.name = Arc::from(name);
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    Ok(())
}

fn check_is_free(state: &State, name: &str) -> Result<()> {
    match find(state, name) {
        None => Ok(()),
        Some(_) => {
            let message = format!("table {name:?} already exists; use another name");
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
    }
}

/// Makes a table with the shape and the rows of another one as they are now.
pub fn copy_table(core: &Core, source: TableId, name: &str, interrupt: &Interrupt) -> Result<()> {
    check_name("table", name)?;
    let _underway = core.begin()?;
    let version = core.version()?;
    let found = version.tables.get(&source);
    let table = found.ok_or_else(|| Error::dropped("the table"))?;
    // A number that another table gets meanwhile is in the way: taken from the start, it stays this call's.
    let id = {
        let mut manifest = core.manifest();
        let id = {
            let state = core.state();
            state.check_writable()?;
            check_is_free(&state, name)?;
            state.next_table
        };
        manifest
            .commit(&[Edit::NextTable(TableId(id.0 + 1))])
            .map_err(Error::from)
            .inspect_err(|error| core.fail(error))?;
        core.state().next_table = TableId(id.0 + 1);
        id
    };
    let segments = written(core, id, table, interrupt)?;
    let mut manifest = core.manifest();
    let ready = check_copied(core, name).inspect_err(|_| discard_segments(core, &segments));
    ready?;
    let (schema, lsn) = ((*table.schema).clone(), version.lsn());
    let create = Edit::CreateTable { table: id, name: name.to_string(), schema: schema.clone() };
    let add = |segment: &Arc<Segment>| Edit::AddSegment { table: id, segment: segment.meta() };
    let mut edits = vec![create, Edit::Flushed { table: id, lsn }];
    edits.extend(segments.iter().map(add));
    manifest.commit(&edits).map_err(Error::from).inspect_err(|error| match error.kind() {
        ErrorKind::StorageFull => discard_segments(core, &segments),
        // The edit may be there, and then it needs them.
        _ => core.fail(error),
    })?;
    let mut made = TableState::new(name, schema, lsn);
    made.segments = segments.iter().map(|of| Slot::new(of.clone(), None)).collect();
    made.segments_changed();
    let mut state = core.state();
    state.tables.insert(id, made);
    let replaced = state.reshaped();
    drop(state);
    drop(replaced);
    core.wake_all();
    Ok(())
}

/// Whether a copied table can get its name now, and its segments do not outlive the commits that they hold.
fn check_copied(core: &Core, name: &str) -> Result<()> {
    {
        let state = core.state();
        state.check_writable()?;
        check_is_free(&state, name)?;
    }
    match core.wal.get() {
        None => Ok(()),
        Some(wal) => wal.make_durable().map_err(Error::from).inspect_err(|error| core.fail(error)),
    }
}

/// The rows of a table in segments of another one, which are in no table yet.
fn written(
    core: &Core,
    id: TableId,
    table: &TableVersion,
    interrupt: &Interrupt,
) -> Result<Vec<Arc<Segment>>> {
    let pieces = table.pieces.now();
    if pieces.is_empty() {
        return Ok(Vec::new());
    }
    let lsns = covered(pieces.iter().map(Piece::lsns));
    let input = Input { pieces: pieces.to_vec(), lsns, is_oldest: true };
    let go_on = || go_on(core, interrupt);
    let within = within_flush(core, &go_on, &|_| ());
    match write_segments(core, id, &table.layout, vec![input], within)? {
        Written::Nothing(why) => Err(why),
        // What is known of their rows is of the other table.
        Written::Segments(written) => {
            Ok(written.iter().flatten().filter_map(Piece::segment).cloned().collect())
        }
    }
}

fn discard_segments(core: &Core, segments: &[Arc<Segment>]) {
    for segment in segments {
        segment.remove_when_unused(&core.removals, ManifestVersion::EVERYTHING);
    }
}
