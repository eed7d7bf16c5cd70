//! The manifest: which tables and segments make up the database, as a log of atomic edits.
//!
//! Opening folds the log into a [`ManifestState`] and starts a new file with that state as its first
//! frame, so the log stays short. A file gets its name once that frame is on stable storage, and the one before goes
//! once the name is: so the file with the highest number is the manifest, and an edit that was read from the
//! system's cache only, since its sync had failed, is durable before anything is built upon it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use drillcore_format::frame::{FileHeader, FrameWriter, LogKind};
use drillcore_format::frame_reader::FrameReader;
use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::logged_commit::SourcePosition;
use drillcore_format::manifest_edit::{
    BackupMark, Edit, PinnedTable, PostingsMeta, SegmentMeta, decode_edits, encode_edits,
};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::schema::TableSchema;

use crate::error::{IoContext, Result, StorageError};
use crate::files::directory::{Directory, WriteFile, read_file};
use crate::files::lease::ManifestVersion;
use crate::files::whole_file::create_whole;

/// An edit is refused where it would leave less of the disk: a file system gives out whole blocks, and needs some
/// itself.
const SLACK_BYTES: u64 = 64 << 10;

/// Files of manifests by number and name, the oldest first.
pub type Files = Vec<(u64, String)>;

/// What the manifest says.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestState {
    /// All tables that are not dropped.
    pub tables: BTreeMap<TableId, ManifestTable>,
    /// Named snapshots.
    pub snapshots: BTreeMap<String, PinnedSnapshot>,
    /// Of the segments above, those whose set index lies in a file of its own.
    pub postings: BTreeMap<SegmentId, PostingsMeta>,
    /// How far sources had been read at `next_lsn`.
    pub positions: BTreeMap<String, Vec<u8>>,
    /// Tables get numbers from this one on.
    pub next_table: TableId,
    /// Segments and postings files get numbers from this one on.
    pub next_segment: SegmentId,
    /// The log is needed from this commit on.
    pub next_lsn: Lsn,
    /// The database's own number, since it was first opened for writing.
    pub identity: Option<u128>,
    /// Set in a backup, and in what was one until it was opened for writing.
    pub backup: Option<BackupMark>,
}

/// One table in the manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestTable {
    /// No other table has it.
    pub name: String,
    /// The newest shape. Segments from before it lack what was added since.
    pub schema: TableSchema,
    /// All commits up to here are in `segments`.
    pub flushed: Lsn,
    /// Oldest first.
    pub segments: Vec<SegmentMeta>,
    /// Which rows of these were erased.
    pub erased: BTreeMap<SegmentId, OrdinalIntervals>,
}

/// All tables at one moment, kept for good.
#[derive(Debug, Clone, PartialEq)]
pub struct PinnedSnapshot {
    /// The newest commit that it shows.
    pub lsn: Lsn,
    /// In seconds since 1970.
    pub clock: u64,
    /// Each as it was then; the manifest keeps its segments from being removed.
    pub tables: Vec<PinnedTable>,
}

impl PinnedSnapshot {
    /// The segments of its tables.
    pub fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.tables.iter().flat_map(|table| &table.segments).map(|segment| segment.id)
    }
}

/// The manifest's file, open for further edits.
pub struct Manifest {
    directory: Arc<dyn Directory>,
    file: Box<dyn WriteFile>,
    name: String,
    number: u64,
    frames: FrameWriter,
    failure: Option<String>,
    identity: Option<u128>,
}

/// A manifest as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFound {
    /// What all edits up to `version` make.
    pub state: ManifestState,
    /// The last edit that was read.
    pub version: ManifestVersion,
    /// The length of the file then.
    pub bytes: u64,
}

/// Whether a directory holds a database.
pub fn exists(directory: &dyn Directory) -> Result<bool> {
    Ok(!manifest_files(directory)?.is_empty())
}

impl Manifest {
    /// Opens the manifest, or starts one in a directory without. Returns also the files that it replaces, by number and
    /// name, which the caller removes: a newer one is what counts. `fresh` is a random number that becomes the identity of
    /// a database that has none yet. Segments get numbers from `unused` on, at least: so those that lie there and that the
    /// manifest does not name are known to be of no account.
    pub fn open(
        directory: Arc<dyn Directory>,
        fresh: u128,
        unused: SegmentId,
    ) -> Result<(Manifest, ManifestState, Files)> {
        let files = manifest_files(directory.as_ref())?;
        let mut state = newest(directory.as_ref(), &files)?.state;
        state.identity.get_or_insert(fresh);
        state.next_segment = state.next_segment.max(unused);
        if let Some(backup) = &mut state.backup {
            backup.was_opened = true;
        }
        let number = match files.last() {
            None => 1,
            Some((last, name)) => last.checked_add(1).ok_or_else(|| {
                let (file, detail) =
                    (name.clone(), "no number is left for the next manifest file".into());
                StorageError::Inconsistent { file, detail }
            })?,
        };
        let manifest = Manifest::begin(directory, number, &state)?;
        Ok((manifest, state, files))
    }

    /// Starts the file of a number with what a state says. On stable storage, with its name, when this returns.
    pub fn begin(
        directory: Arc<dyn Directory>,
        number: u64,
        state: &ManifestState,
    ) -> Result<Manifest> {
        let name = file_name(number);
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        // Another one than those of the files before.
        let header = FileHeader { kind: LogKind::Manifest, nonce: number as u32 };
        header.put(&mut bytes);
        let mut frames = FrameWriter::new(header, 0, 0);
        encode_edits(&state.as_edits(), &mut payload);
        frames.put(&payload, &mut bytes);
        let file = create_whole(directory.as_ref(), &name, &bytes).context("create", &name)?;
        frames.note_synced();
        let identity = state.identity;
        Ok(Manifest { directory, file, name, number, frames, failure: None, identity })
    }

    /// The database's own number. Only a backup that was not opened has none.
    pub fn identity(&self) -> Option<u128> {
        self.identity
    }

    /// Reads the manifest without touching it; that of a directory without one is empty.
    ///
    /// A writer that starts meanwhile replaces the file: the error is then one of a missing file, and the
    /// caller tries again.
    pub fn read(directory: &dyn Directory) -> Result<ManifestFound> {
        newest(directory, &manifest_files(directory)?)
    }

    /// What the manifest said at an earlier version, or says now, and which version it has now. `None` if the file of the
    /// version is gone, or holds no such edit.
    pub fn read_at(
        directory: &dyn Directory,
        version: ManifestVersion,
    ) -> Result<(Option<ManifestFound>, ManifestVersion)> {
        let files = manifest_files(directory)?;
        let now = newest(directory, &files)?;
        if now.version == version {
            return Ok((Some(now), version));
        }
        let Some((number, name)) = files.iter().find(|(number, _)| *number == version.file) else {
            return Ok((None, now.version));
        };
        let found = read_state(directory, *number, name, version.edit)?;
        Ok((Some(found).filter(|found| found.version == version), now.version))
    }

    /// How long the file is now from which a version was read.
    pub fn byte_len(directory: &dyn Directory, version: ManifestVersion) -> Result<u64> {
        let name = file_name(version.file);
        directory.open(&name).and_then(|file| file.byte_len()).context("measure", &name)
    }

    /// The version that the last commit made.
    pub fn version(&self) -> ManifestVersion {
        ManifestVersion { file: self.number, edit: self.frames.next_sequence() - 1 }
    }

    /// Makes a list of edits durable, all or none. After a failure nothing more is accepted.
    ///
    /// # Errors
    /// `NoRoom` is no failure: then nothing was written. Any other error says nothing of what was
    /// [lacking](StorageError::lack), as the file may hold a part of it.
    pub fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if let Some(first) = &self.failure {
            return Err(StorageError::LogFailed { first: first.clone() });
        }
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        encode_edits(edits, &mut payload);
        let needed = payload.len() as u64 + SLACK_BYTES;
        if let Ok(Some(free)) = self.directory.free_bytes()
            && free < needed
        {
            return Err(StorageError::NoRoom { file: self.name.clone(), needed, free });
        }
        self.frames.put(&payload, &mut bytes);
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync());
        let written = written.map_err(|error| io::Error::other(error.to_string()));
        if let Err(error) = written.context("append to", &self.name) {
            self.failure = Some(error.to_string());
            return Err(error);
        }
        self.frames.note_synced();
        Ok(())
    }

    /// Notes behind the last edit that all of them are synced, so that nothing of them can be taken for the end of the
    /// manifest later.
    pub fn close(&mut self) {
        if self.failure.is_none() {
            let mut closing = Vec::new();
            self.frames.put_closing(&mut closing);
            // Without it the manifest says the same.
            let _ = self.file.write_all(&closing);
        }
    }

    /// The directory the database lives in.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }
}

impl ManifestState {
    /// Of a directory without a manifest.
    pub fn empty() -> ManifestState {
        ManifestState {
            tables: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            postings: BTreeMap::new(),
            positions: BTreeMap::new(),
            next_table: TableId(1),
            next_segment: SegmentId(1),
            next_lsn: Lsn(1),
            identity: None,
            backup: None,
        }
    }

    fn as_edits(&self) -> Vec<Edit> {
        let mut edits = vec![
            Edit::NextTable(self.next_table),
            Edit::NextSegment(self.next_segment),
            Edit::NextLsn(self.next_lsn),
        ];
        for (&table, entry) in &self.tables {
            let (name, schema) = (entry.name.clone(), entry.schema.clone());
            edits.push(Edit::CreateTable { table, name, schema });
            edits.push(Edit::Flushed { table, lsn: entry.flushed });
            let segments = entry.segments.iter().cloned();
            edits.extend(segments.map(|segment| Edit::AddSegment { table, segment }));
            if !entry.erased.is_empty() {
                let erased = entry.erased.iter().map(|(id, rows)| (*id, rows.clone()));
                edits.push(Edit::EraseRows { table, segments: erased.collect() });
            }
        }
        for (name, PinnedSnapshot { lsn, clock, tables }) in &self.snapshots {
            let (name, tables) = (name.clone(), tables.clone());
            edits.push(Edit::PinSnapshot { name, lsn: *lsn, clock: *clock, tables });
        }
        for (&segment, &postings) in &self.postings {
            edits.push(Edit::AttachPostings { segment, postings });
        }
        edits.extend(self.identity.map(|database| Edit::Identify { database }));
        edits.extend(self.backup.map(Edit::MarkBackup));
        let positions = self.positions.clone().into_iter();
        edits.extend(
            positions
                .map(|(source, position)| Edit::SetPosition(SourcePosition { source, position })),
        );
        edits
    }

    /// Carries out one edit; an edit that does not fit the state is described in the error.
    pub fn apply(&mut self, edit: &Edit) -> std::result::Result<(), String> {
        let unknown =
            |table: TableId| format!("an edit names table {}, which does not exist", table.0);
        match edit {
            Edit::CreateTable { table, name, schema } => {
                if self.tables.values().any(|known| known.name == *name) {
                    return Err(format!("a second table {name:?} is created"));
                }
                let entry = ManifestTable {
                    name: name.clone(),
                    schema: schema.clone(),
                    flushed: Lsn(0),
                    segments: Vec::new(),
                    erased: BTreeMap::new(),
                };
                self.next_table = self.next_table.max(TableId(table.0 + 1));
                if self.tables.insert(*table, entry).is_some() {
                    return Err(format!("table {} is created twice", table.0));
                }
            }
            Edit::DropTable { table } => {
                self.tables.remove(table).ok_or_else(|| unknown(*table))?;
                self.forget_postings();
            }
            Edit::AddSegment { table, segment } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                self.next_segment = self.next_segment.max(SegmentId(segment.id.0 + 1));
                entry.segments.push(segment.clone());
            }
            Edit::ReplaceSegments { table, removed, added } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                let mut first = entry.segments.len();
                for id in removed {
                    let place = entry.segments.iter().position(|segment| segment.id == *id);
                    let place =
                        place.ok_or_else(|| format!("segment {id} is removed but unknown"))?;
                    entry.segments.remove(place);
                    entry.erased.remove(id);
                    first = first.min(place);
                }
                for segment in added {
                    self.next_segment = self.next_segment.max(SegmentId(segment.id.0 + 1));
                }
                entry.segments.splice(first..first, added.iter().cloned());
                self.forget_postings();
            }
            Edit::Flushed { table, lsn } => {
                self.tables.get_mut(table).ok_or_else(|| unknown(*table))?.flushed = *lsn;
            }
            Edit::PinSnapshot { name, lsn, clock, tables } => {
                for PinnedTable { segments, erased, .. } in tables {
                    erased.iter().try_for_each(|(id, rows)| check_erased(segments, *id, rows))?;
                }
                let ids = tables.iter().flat_map(|table| &table.segments).map(|s| s.id.0 + 1);
                let next = SegmentId(ids.max().unwrap_or(0));
                self.next_segment = self.next_segment.max(next);
                let pinned = PinnedSnapshot { lsn: *lsn, clock: *clock, tables: tables.clone() };
                if self.snapshots.insert(name.clone(), pinned).is_some() {
                    return Err(format!("snapshot {name:?} is pinned twice"));
                }
            }
            Edit::DropSnapshot { name } => {
                let dropped = self.snapshots.remove(name);
                dropped.ok_or_else(|| format!("snapshot {name:?} is dropped but unknown"))?;
                self.forget_postings();
            }
            Edit::AddColumn { table, column } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                if entry.schema.columns.column_with_name(column.name()).is_some() {
                    let (name, table) = (column.name(), table.0);
                    return Err(format!("column {name:?} is added to table {table} twice"));
                }
                entry.schema = entry.schema.with_column(column.clone());
                entry.schema.check()?;
            }
            Edit::IndexSets { table, indexed } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                if entry.schema.set.is_none() {
                    return Err(format!(
                        "sets of table {} are indexed, but it has no set column",
                        table.0
                    ));
                }
                entry.schema = entry.schema.with_indexed(indexed.clone());
            }
            Edit::AttachPostings { segment, postings } => {
                if !self.segments().any(|known| known == *segment) {
                    return Err(format!("postings are attached to unknown segment {segment}"));
                }
                self.next_segment = self.next_segment.max(SegmentId(postings.file.0 + 1));
                self.postings.insert(*segment, *postings);
            }
            Edit::EraseRows { table, segments } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                for (id, rows) in segments {
                    check_erased(&entry.segments, *id, rows)?;
                    let erased = entry.erased.entry(*id).or_default();
                    *erased = erased.union(rows);
                }
            }
            Edit::SetTtl { table, ttl } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                entry.schema = entry.schema.with_ttl(*ttl);
                entry.schema.check()?;
            }
            Edit::RenameTable { table, name } => {
                if self.tables.values().any(|known| known.name == *name) {
                    return Err(format!("a second table gets the name {name:?}"));
                }
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                entry.name.clone_from(name);
            }
            Edit::Reshape { table, schema } => {
                let entry = self.tables.get_mut(table).ok_or_else(|| unknown(*table))?;
                if !schema.continues(&entry.schema) {
                    return Err(format!(
                        "table {} gets a shape that its rows do not have",
                        table.0
                    ));
                }
                entry.schema = schema.clone();
            }
            Edit::Identify { database } => self.identity = Some(*database),
            Edit::MarkBackup(mark) => self.backup = Some(*mark),
            Edit::SetPosition(SourcePosition { source, position }) => {
                match position.is_empty() {
                    true => self.positions.remove(source),
                    false => self.positions.insert(source.clone(), position.clone()),
                };
            }
            Edit::NextTable(table) => self.next_table = self.next_table.max(*table),
            Edit::NextSegment(segment) => self.next_segment = self.next_segment.max(*segment),
            Edit::NextLsn(lsn) => self.next_lsn = self.next_lsn.max(*lsn),
        }
        Ok(())
    }

    /// What is wrong with the state that all edits add up to, though each of them could be carried out.
    fn check(&self) -> std::result::Result<(), String> {
        for table in self.tables.values() {
            let mut ids = BTreeSet::new();
            if let Some(segment) = table.segments.iter().find(|segment| !ids.insert(segment.id)) {
                return Err(format!("segment {} of {:?} is listed twice", segment.id, table.name));
            }
            let last = table.segments.iter().map(|segment| segment.lsns.last).max();
            if let Some(last) = last
                && last > table.flushed
            {
                let (name, flushed) = (&table.name, table.flushed);
                return Err(format!(
                    "segments of {name:?} have commit {last}, but only {flushed} is flushed"
                ));
            }
        }
        let mut shapes: BTreeMap<TableId, Vec<&TableSchema>> = BTreeMap::new();
        for (id, table) in &self.tables {
            shapes.entry(*id).or_default().push(&table.schema);
        }
        for (name, snapshot) in &self.snapshots {
            let mut names = BTreeSet::new();
            for table in &snapshot.tables {
                shapes.entry(table.table).or_default().push(&table.schema);
                let mut ids = BTreeSet::new();
                let is_of_snapshot = |segment: &SegmentMeta| segment.lsns.last <= snapshot.lsn;
                let is_consistent = (table.segments.iter())
                    .all(|segment| is_of_snapshot(segment) && ids.insert(segment.id));
                if !is_consistent || !names.insert(&table.name) {
                    return Err(format!(
                        "snapshot {name:?} has an inconsistent table {:?}",
                        table.name
                    ));
                }
            }
        }
        // Segments that several of them have are opened once, as one of them.
        for (table, mut shapes) in shapes {
            shapes.sort_by_key(|schema| (schema.stored_count(), schema.stored.retired().len()));
            if !shapes.is_sorted_by(|earlier, later| later.continues(earlier)) {
                return Err(format!("table {} has several shapes", table.0));
            }
        }
        Ok(())
    }

    /// The segments of tables and named snapshots; one of both comes twice.
    pub fn segments(&self) -> impl Iterator<Item = SegmentId> {
        let of_tables = self.tables.values().flat_map(|table| &table.segments);
        let pinned = self.snapshots.values().flat_map(PinnedSnapshot::segments);
        of_tables.map(|segment| segment.id).chain(pinned)
    }

    /// Leaves out postings of segments that are gone.
    fn forget_postings(&mut self) {
        if !self.postings.is_empty() {
            let known: BTreeSet<SegmentId> = self.segments().collect();
            self.postings.retain(|segment, _| known.contains(segment));
        }
    }
}

/// Whether rows of a segment can have been erased: those that it has.
fn check_erased(
    segments: &[SegmentMeta],
    id: SegmentId,
    rows: &OrdinalIntervals,
) -> std::result::Result<(), String> {
    match segments.iter().find(|segment| segment.id == id) {
        None => Err(format!("rows of segment {id} are erased, but it is unknown")),
        Some(segment) if u64::from(rows.end()) > segment.rows => {
            let (last, rows) = (rows.end() - 1, segment.rows);
            Err(format!("row {last} of segment {id} is erased, but it has {rows} rows"))
        }
        Some(_) => Ok(()),
    }
}

fn file_name(number: u64) -> String {
    format!("manifest-{number:08}.log")
}

fn manifest_files(directory: &dyn Directory) -> Result<Files> {
    let names = directory.list().context("list", "the database directory")?;
    let number = |name: &str| name.strip_prefix("manifest-")?.strip_suffix(".log")?.parse().ok();
    let mut files: Files =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    files.sort_unstable();
    Ok(files)
}

/// What the newest file says.
fn newest(directory: &dyn Directory, files: &[(u64, String)]) -> Result<ManifestFound> {
    match files.last() {
        Some((number, name)) => read_state(directory, *number, name, u64::MAX),
        None => Ok(ManifestFound {
            state: ManifestState::empty(),
            version: ManifestVersion::EVERYTHING,
            bytes: 0,
        }),
    }
}

/// The state that a file's frames add up to, up to an edit.
fn read_state(
    directory: &dyn Directory,
    number: u64,
    name: &str,
    to: u64,
) -> Result<ManifestFound> {
    let bytes = read_file(directory, name).context("read", name)?;
    let damaged = |offset: usize, source| StorageError::Damaged {
        file: name.to_string(),
        offset: offset as u64,
        source,
    };
    let (_, mut frames) =
        FrameReader::new(&bytes, LogKind::Manifest, 0).map_err(|e| damaged(0, e))?;
    // The file got its name with the first one in it.
    frames.expect_synced(1);
    let inconsistent = |detail| StorageError::Inconsistent { file: name.to_string(), detail };
    let mut state = ManifestState::empty();
    let mut last = None;
    while last.is_none_or(|last| last < to) {
        let at = frames.at();
        // What a frame cut short would have said was never acknowledged.
        let Some(frame) = frames.next_frame().map_err(|e| damaged(at, e))? else { break };
        for edit in decode_edits(frame.payload).map_err(|e| damaged(at, e))? {
            state.apply(&edit).map_err(inconsistent)?;
        }
        last = Some(frame.sequence);
    }
    let Some(edit) = last else {
        let detail = "the manifest is cut off: it has no edit".to_string();
        return Err(StorageError::Inconsistent { file: name.to_string(), detail });
    };
    state.check().map_err(inconsistent)?;
    let version = ManifestVersion { file: number, edit };
    Ok(ManifestFound { state, version, bytes: bytes.len() as u64 })
}
