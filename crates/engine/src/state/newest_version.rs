//! The newest snapshot, and what of it the next one can take over.
//!
//! A commit changes a table or two of many, so snapshots share the others: their lists of pieces, and what reads have found out
//! of them. The map of tables is persistent ([`rpds`]), which makes a snapshot cost the tables that have changed since the last
//! one, and the logarithm of all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use drillcore_format::ids::{Lsn, TableId};

use crate::pieces::run::Run;
use crate::select::read_memory::ReadMemory;
use crate::state::table_state::TableState;
use crate::state::version::{TableVersion, Tables, Version};
use crate::state::work_signal::WorkSignal;

/// See the module.
#[derive(Default)]
pub struct NewestVersion {
    /// The newest snapshot, while it is current.
    version: Arc<ShownVersion>,
    /// What holds of all tables, unless which there are, or the shape of one, has changed since.
    shared: Option<Shared>,
    /// The clock of the last snapshot.
    clock: u64,
    handed_out: HandedOut,
}

/// The newest snapshot, while it is current: to be had without the lock of the state, under which alone it changes.
#[derive(Default)]
pub struct ShownVersion(ArcSwapOption<Version>);

impl ShownVersion {
    /// The newest snapshot, if it is one at `visible` and `clock`.
    pub fn at(&self, visible: Lsn, clock: u64) -> Option<Arc<Version>> {
        let shown = self.0.load();
        let shown = shown.as_ref().filter(|version| version.lsn() == visible)?;
        (shown.clock >= clock || !shown.expires).then(|| shown.clone())
    }

    fn take(&self) -> Option<Arc<Version>> {
        self.0.swap(None)
    }
}

/// What the next snapshot can take over.
struct Shared {
    /// Tables that have not changed since they were shown.
    tables: Tables,
    names: Arc<BTreeMap<Arc<str>, TableId>>,
    /// The others, and those with commits that are not visible yet.
    changed: BTreeSet<TableId>,
    /// Tables whose rows expire.
    expiring: Vec<TableId>,
}

/// What was handed out in snapshots, while it may be held.
#[derive(Default)]
struct HandedOut {
    moments: Vec<Weak<Lsn>>,
    /// Tables as they were, including those that were dropped since.
    tables: Vec<Weak<TableVersion>>,
    /// Runs that have left their table.
    runs: Vec<(TableId, Weak<Run>)>,
}

/// Versions that the newest snapshot no longer shows. To be dropped without the lock of the state: with the last handle of a
/// version go its pieces and the lists that reads left with it, which takes long.
#[must_use = "what is no longer shown is dropped once the state is unlocked"]
#[derive(Default)]
pub struct Replaced {
    _version: Option<Arc<Version>>,
    _shared: Option<Shared>,
    tables: Vec<Arc<TableVersion>>,
}

/// The oldest snapshot that is held.
pub struct OldestSnapshot {
    pub lsn: Lsn,
    /// Tables of that moment that are held, also by later snapshots if they have not changed until these.
    pub tables: Vec<Arc<TableVersion>>,
}

impl NewestVersion {
    /// To be called after any change to a table's pieces: what the next snapshot shows of it is looked up anew. Returns what
    /// was shown of it. O(log tables).
    pub fn changed(&mut self, id: TableId) -> Option<Arc<TableVersion>> {
        let shared = self.shared.as_mut()?;
        let shown = shared.tables.get(&id).cloned();
        // The other tables of the last snapshot are shared.
        drop(self.version.take());
        shared.tables.remove_mut(&id);
        shared.changed.insert(id);
        shown
    }

    /// To be called after a table has come, gone, or got another shape, name or time to live.
    pub fn reshaped(&mut self) -> Replaced {
        Replaced { _version: self.version.take(), _shared: self.shared.take(), tables: Vec::new() }
    }

    /// The newest snapshot.
    pub fn shown(&self) -> &Arc<ShownVersion> {
        &self.version
    }

    /// Has it looked up anew, whatever it is.
    pub fn hide(&self) {
        drop(self.version.take());
    }

    /// The tables that may hold erasures which their pieces do not know of; `None` for all.
    pub fn changed_tables(&self) -> Option<&BTreeSet<TableId>> {
        self.shared.as_ref().map(|shared| &shared.changed)
    }

    /// The tables whose rows expire, if they are known.
    pub fn expiring(&self) -> Option<&[TableId]> {
        self.shared.as_ref().map(|shared| shared.expiring.as_slice())
    }

    /// All tables at `visible` and `clock`, of which none was dropped or made since [`NewestVersion::reshaped`]. What had been
    /// erased and had expired by then, the pieces know of. Returns also the tables of the last snapshot of which rows have expired
    /// since. O(pieces of the tables that have changed, or whose rows expire).
    pub fn make(
        &mut self,
        tables: &BTreeMap<TableId, TableState>,
        visible: Lsn,
        clock: u64,
        work: &Arc<WorkSignal>,
        reads: &Arc<ReadMemory>,
    ) -> (Arc<Version>, Replaced) {
        let shared = self.shared.get_or_insert_with(|| Shared::nothing_of(tables));
        let then = self.clock;
        let is_outdated = |id: &&TableId| {
            let known = shared.tables.get(*id);
            known.is_some_and(|known| !tables[*id].is_shown_by(known, then, clock))
        };
        let mut to_make = std::mem::take(&mut shared.changed);
        // Where only time has passed, what reads found out is lost of no table but those whose rows have expired.
        to_make.extend(shared.expiring.iter().filter(is_outdated));
        let (mut not_whole, mut replaced) = (BTreeSet::new(), Replaced::default());
        for id in to_make {
            // A job may have ended whose table was dropped.
            let Some(table) = tables.get(&id) else { continue };
            let made = Arc::new(table.version(id, visible, clock, work, reads));
            self.handed_out.note_table(&made);
            replaced.tables.extend(shared.tables.get(&id).cloned());
            shared.tables.insert_mut(id, made);
            if !table.is_whole_at(visible) {
                not_whole.insert(id);
            }
        }
        shared.changed = not_whole;
        let before = self.version.take().filter(|before| before.lsn() == visible);
        let moment = match before {
            // Only time has passed.
            Some(before) => before.moment.clone(),
            None => self.handed_out.new_moment(visible),
        };
        let (tables, names) = (shared.tables.clone(), shared.names.clone());
        let expires = !shared.expiring.is_empty();
        let version = Arc::new(Version { moment, clock, tables, names, expires });
        self.clock = clock;
        self.version.0.store(Some(version.clone()));
        (version, replaced)
    }

    /// Gives up what it holds.
    pub fn take(&mut self) -> impl Sized + use<> {
        (self.version.take(), std::mem::take(self))
    }

    /// The oldest snapshot that is held, if it is not the newest. O(snapshots and tables held).
    pub fn oldest_held(&self) -> Option<OldestSnapshot> {
        let newest = self.version.0.load();
        let newest = newest.as_ref().map(|version| Arc::as_ptr(&version.moment));
        let moments = self.handed_out.moments.iter().filter_map(Weak::upgrade);
        let lsn = *moments.filter(|moment| Some(Arc::as_ptr(moment)) != newest).min()?;
        let tables = self.held_tables().filter(|table| table.lsn <= lsn).collect();
        Some(OldestSnapshot { lsn, tables })
    }

    /// Notes runs that have left their table.
    pub fn note_left(&mut self, table: TableId, runs: &[Arc<Run>]) {
        let held = &mut self.handed_out.runs;
        for run in runs {
            make_room(held, |(_, run)| run.strong_count() > 0);
            held.push((table, Arc::downgrade(run)));
        }
    }

    /// Those of them that are held.
    pub fn held_runs(&self) -> impl Iterator<Item = (TableId, Arc<Run>)> {
        self.handed_out.runs.iter().filter_map(|(table, run)| Some((*table, run.upgrade()?)))
    }

    /// Tables as they are or were that are held.
    pub fn held_tables(&self) -> impl Iterator<Item = Arc<TableVersion>> {
        self.handed_out.tables.iter().filter_map(Weak::upgrade)
    }
}

impl Shared {
    /// All have to be looked up.
    fn nothing_of(tables: &BTreeMap<TableId, TableState>) -> Shared {
        let names = tables.iter().map(|(id, table)| (table.name.clone(), *id)).collect();
        let expires = |(_, table): &(&TableId, &TableState)| table.schema.ttl.is_some();
        Shared {
            tables: Tables::default(),
            names: Arc::new(names),
            changed: tables.keys().copied().collect(),
            expiring: tables.iter().filter(expires).map(|(id, _)| *id).collect(),
        }
    }
}

impl HandedOut {
    fn new_moment(&mut self, lsn: Lsn) -> Arc<Lsn> {
        let moment = Arc::new(lsn);
        push(&mut self.moments, &moment);
        moment
    }

    fn note_table(&mut self, table: &Arc<TableVersion>) {
        push(&mut self.tables, table);
    }
}

/// Adds one that is held, and now and then forgets those that no longer are: a look at all for as many new ones.
fn push<T>(held: &mut Vec<Weak<T>>, new: &Arc<T>) {
    make_room(held, |held| held.strong_count() > 0);
    held.push(Arc::downgrade(new));
}

fn make_room<T>(held: &mut Vec<T>, is_held: impl Fn(&T) -> bool) {
    if held.len() == held.capacity() {
        held.retain(is_held);
        held.reserve(held.len() + 1);
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};
    use drillcore_format::schema::TableSchema;

    use super::*;
    use crate::state::guarded::State;

    const ID: TableId = TableId(1);

    /// A state with one table, and the version of the table that its newest snapshot shows. Only the state holds that version.
    fn shown() -> (State, Weak<TableVersion>) {
        let mut state = State::new(Lsn(1), ReadMemory::new(0, false));
        let columns = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        let schema = TableSchema::new(Arc::new(columns), vec![0]);
        state.tables.insert(ID, TableState::new("points", schema, Lsn(0)));
        drop(state.reshaped());
        let (version, _) = state.version(Lsn(0));
        let table = Arc::downgrade(&version.tables[&ID]);
        (state, table)
    }

    /// A list of rows that reads left with a version can take a quarter of `memory_bytes`. It was freed under the lock of the
    /// state: a commit behind it, and all snapshots, waited for that.
    #[test]
    fn what_a_snapshot_showed_of_a_table_is_handed_to_whoever_changes_it() {
        let (mut state, table) = shown();
        let replaced = state.changed(ID);
        assert_eq!(table.strong_count(), 1, "only the caller holds it");
        drop(replaced);
        assert_eq!(table.strong_count(), 0);

        let (mut state, table) = shown();
        let replaced = state.reshaped();
        assert_eq!(table.strong_count(), 1, "only the caller holds it");
        drop(replaced);
        assert_eq!(table.strong_count(), 0);
    }

    /// Each commit made a copy of the schema, with as many columns as there are, under the lock of the state.
    #[test]
    fn snapshots_share_the_schema_of_a_table() {
        let (state, table) = shown();
        let table = table.upgrade().unwrap();
        assert!(Arc::ptr_eq(&table.schema, &state.tables[&ID].schema));
    }

    /// Reads of a table take one each: they would wait for each other.
    #[test]
    fn the_newest_snapshot_is_had_without_the_lock() {
        let db = crate::Database::in_memory(crate::Options::default()).unwrap();
        let core = db.core().unwrap();
        let locked = || core.locked.load(std::sync::atomic::Ordering::Relaxed);
        let of_snapshot = || {
            let before = locked();
            db.snapshot().unwrap();
            locked() - before
        };
        // A worker may look for something to do meanwhile.
        assert_eq!((0..30).map(|_| of_snapshot()).min(), Some(0));
        db.close().unwrap();
        assert_eq!(db.snapshot().unwrap_err().kind(), crate::ErrorKind::Closed);
    }
}
