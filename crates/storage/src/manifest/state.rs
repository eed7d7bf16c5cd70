//! What a manifest says: the tables, segments and named snapshots that its edits add up to.
//!
//! An edit that does not fit what was there before is refused, with what is wrong. Where the edits are stored is left to
//! the [manifest](crate::manifest::Manifest).

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::FieldRef;
use drillcore_format::ids::{Lsn, SegmentId, TableId};
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::logged_commit::SourcePosition;
use drillcore_format::manifest_edit::{BackupMark, Edit, PinnedTable, PostingsMeta, SegmentMeta};
use drillcore_format::ordinal_intervals::OrdinalIntervals;
use drillcore_format::schema::{TableSchema, TimeToLive};

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

    /// The edits that make this state of an empty one.
    pub(super) fn as_edits(&self) -> Vec<Edit> {
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
    pub fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match edit {
            Edit::CreateTable { table, name, schema } => self.create_table(*table, name, schema)?,
            Edit::DropTable { table } => self.drop_table(*table)?,
            Edit::RenameTable { table, name } => self.rename_table(*table, name)?,
            Edit::AddColumn { table, column } => self.add_column(*table, column)?,
            Edit::IndexSets { table, indexed } => self.index_sets(*table, indexed)?,
            Edit::SetTtl { table, ttl } => self.set_ttl(*table, *ttl)?,
            Edit::Reshape { table, schema } => self.reshape(*table, schema)?,
            Edit::AddSegment { table, segment } => self.add_segment(*table, segment)?,
            Edit::ReplaceSegments { table, removed, added } => {
                self.replace_segments(*table, removed, added)?;
            }
            Edit::EraseRows { table, segments } => self.erase_rows(*table, segments)?,
            Edit::Flushed { table, lsn } => self.entry_mut(*table)?.flushed = *lsn,
            Edit::AttachPostings { segment, postings } => {
                self.attach_postings(*segment, *postings)?;
            }
            Edit::PinSnapshot { name, lsn, clock, tables } => {
                let pinned = PinnedSnapshot { lsn: *lsn, clock: *clock, tables: tables.clone() };
                self.pin_snapshot(name, pinned)?;
            }
            Edit::DropSnapshot { name } => self.drop_snapshot(name)?,
            Edit::SetPosition(position) => self.set_position(position),
            Edit::Identify { database } => self.identity = Some(*database),
            Edit::MarkBackup(mark) => self.backup = Some(*mark),
            Edit::NextTable(table) => self.next_table = self.next_table.max(*table),
            Edit::NextSegment(segment) => self.next_segment = self.next_segment.max(*segment),
            Edit::NextLsn(lsn) => self.next_lsn = self.next_lsn.max(*lsn),
        }
        Ok(())
    }

    fn create_table(
        &mut self,
        table: TableId,
        name: &str,
        schema: &TableSchema,
    ) -> Result<(), String> {
        if self.has_table_named(name) {
            return Err(format!("a second table {name:?} is created"));
        }
        let entry = ManifestTable {
            name: name.to_string(),
            schema: schema.clone(),
            flushed: Lsn(0),
            segments: Vec::new(),
            erased: BTreeMap::new(),
        };
        self.next_table = self.next_table.max(TableId(table.0 + 1));
        match self.tables.insert(table, entry) {
            None => Ok(()),
            Some(_) => Err(format!("table {} is created twice", table.0)),
        }
    }

    fn drop_table(&mut self, table: TableId) -> Result<(), String> {
        self.tables.remove(&table).ok_or_else(|| unknown(table))?;
        self.forget_postings();
        Ok(())
    }

    fn rename_table(&mut self, table: TableId, name: &str) -> Result<(), String> {
        if self.has_table_named(name) {
            return Err(format!("a second table gets the name {name:?}"));
        }
        self.entry_mut(table)?.name = name.to_string();
        Ok(())
    }

    fn add_column(&mut self, table: TableId, column: &FieldRef) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        if entry.schema.columns.column_with_name(column.name()).is_some() {
            let (name, table) = (column.name(), table.0);
            return Err(format!("column {name:?} is added to table {table} twice"));
        }
        entry.schema = entry.schema.with_column(column.clone());
        entry.schema.check()
    }

    fn index_sets(&mut self, table: TableId, indexed: &IndexedSets) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        if entry.schema.set.is_none() {
            return Err(format!("sets of table {} are indexed, but it has no set column", table.0));
        }
        entry.schema = entry.schema.with_indexed(indexed.clone());
        Ok(())
    }

    fn set_ttl(&mut self, table: TableId, ttl: Option<TimeToLive>) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        entry.schema = entry.schema.with_ttl(ttl);
        entry.schema.check()
    }

    fn reshape(&mut self, table: TableId, schema: &TableSchema) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        if !schema.continues(&entry.schema) {
            return Err(format!("table {} gets a shape that its rows do not have", table.0));
        }
        entry.schema = schema.clone();
        Ok(())
    }

    fn add_segment(&mut self, table: TableId, segment: &SegmentMeta) -> Result<(), String> {
        self.entry_mut(table)?.segments.push(segment.clone());
        self.take_number(segment.id);
        Ok(())
    }

    /// What was merged stands where the first of the merged segments stood.
    fn replace_segments(
        &mut self,
        table: TableId,
        removed: &[SegmentId],
        added: &[SegmentMeta],
    ) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        let mut first = entry.segments.len();
        for id in removed {
            let place = entry.segments.iter().position(|segment| segment.id == *id);
            let place = place.ok_or_else(|| format!("segment {id} is removed but unknown"))?;
            entry.segments.remove(place);
            entry.erased.remove(id);
            first = first.min(place);
        }
        entry.segments.splice(first..first, added.iter().cloned());
        added.iter().for_each(|segment| self.take_number(segment.id));
        self.forget_postings();
        Ok(())
    }

    fn erase_rows(
        &mut self,
        table: TableId,
        segments: &[(SegmentId, OrdinalIntervals)],
    ) -> Result<(), String> {
        let entry = self.entry_mut(table)?;
        for (id, rows) in segments {
            check_erased(&entry.segments, *id, rows)?;
            let erased = entry.erased.entry(*id).or_default();
            *erased = erased.union(rows);
        }
        Ok(())
    }

    fn attach_postings(
        &mut self,
        segment: SegmentId,
        postings: PostingsMeta,
    ) -> Result<(), String> {
        if !self.segments().any(|known| known == segment) {
            return Err(format!("postings are attached to unknown segment {segment}"));
        }
        self.take_number(postings.file);
        self.postings.insert(segment, postings);
        Ok(())
    }

    fn pin_snapshot(&mut self, name: &str, pinned: PinnedSnapshot) -> Result<(), String> {
        for PinnedTable { segments, erased, .. } in &pinned.tables {
            erased.iter().try_for_each(|(id, rows)| check_erased(segments, *id, rows))?;
        }
        pinned.segments().for_each(|segment| self.take_number(segment));
        match self.snapshots.insert(name.to_string(), pinned) {
            None => Ok(()),
            Some(_) => Err(format!("snapshot {name:?} is pinned twice")),
        }
    }

    fn drop_snapshot(&mut self, name: &str) -> Result<(), String> {
        let dropped = self.snapshots.remove(name);
        dropped.ok_or_else(|| format!("snapshot {name:?} is dropped but unknown"))?;
        self.forget_postings();
        Ok(())
    }

    fn set_position(&mut self, SourcePosition { source, position }: &SourcePosition) {
        match position.is_empty() {
            true => self.positions.remove(source),
            false => self.positions.insert(source.clone(), position.clone()),
        };
    }

    fn has_table_named(&self, name: &str) -> bool {
        self.tables.values().any(|known| known.name == name)
    }

    fn entry_mut(&mut self, table: TableId) -> Result<&mut ManifestTable, String> {
        self.tables.get_mut(&table).ok_or_else(|| unknown(table))
    }

    /// Has no segment or postings file get a number again.
    fn take_number(&mut self, taken: SegmentId) {
        self.next_segment = self.next_segment.max(SegmentId(taken.0 + 1));
    }

    /// What is wrong with the state that all edits add up to, though each of them could be carried out.
    pub(super) fn check(&self) -> Result<(), String> {
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

fn unknown(table: TableId) -> String {
    format!("an edit names table {}, which does not exist", table.0)
}

/// Whether rows of a segment can have been erased: those that it has.
fn check_erased(
    segments: &[SegmentMeta],
    id: SegmentId,
    rows: &OrdinalIntervals,
) -> Result<(), String> {
    match segments.iter().find(|segment| segment.id == id) {
        None => Err(format!("rows of segment {id} are erased, but it is unknown")),
        Some(segment) if u64::from(rows.end()) > segment.rows => {
            let (last, rows) = (rows.end() - 1, segment.rows);
            Err(format!("row {last} of segment {id} is erased, but it has {rows} rows"))
        }
        Some(_) => Ok(()),
    }
}
