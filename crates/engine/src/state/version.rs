//! All tables at one moment, as snapshots hold them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use drillcore_format::ids::{Lsn, TableId};
use drillcore_format::rows::Layout;
use drillcore_format::schema::TableSchema;
use drillcore_storage::segments::segment::Segment;
use parking_lot::Mutex;
use rpds::RedBlackTreeMapSync;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::known_dead::KnownDead;
use crate::pieces::alive_rows::AliveRows;
use crate::pieces::erased_rows::ErasedRows;
use crate::pieces::memory_meter::MemoryMeter;
use crate::pieces::piece::Piece;
use crate::select::expiry::unexpired;
use crate::select::held_pieces::HeldPieces;
use crate::select::predicate::Test;
use crate::select::read_memory::ReadMemory;
use crate::select::resolved_selections::ResolvedSelections;
use crate::state::expiring::Expiring;
use crate::state::run_demand::RunDemand;

/// The tables of a version, by number. Versions share what they have in common.
pub type Tables = RedBlackTreeMapSync<TableId, Arc<TableVersion>>;

/// All tables at one LSN. Immutable; holding it keeps its pieces alive.
pub struct Version {
    /// The newest commit that is shown. Every snapshot of this version holds it, also one of a single table.
    pub moment: Arc<Lsn>,
    /// What had expired then is not shown, in seconds since 1970.
    pub clock: u64,
    pub tables: Tables,
    /// The tables by name.
    pub names: Arc<BTreeMap<Arc<str>, TableId>>,
    /// Whether rows of some table expire.
    pub expires: bool,
}

/// One table in a version: its pieces, oldest first.
pub struct TableVersion {
    pub id: TableId,
    pub name: Arc<str>,
    /// The commit at which it was first shown: versions show it until it changes.
    pub lsn: Lsn,
    pub layout: Layout,
    pub schema: Arc<TableSchema>,
    pub pieces: HeldPieces,
    /// What a row must pass to be shown, beside what any question asks: where stored rows do not tell by themselves whether
    /// they have expired.
    pub unexpired: Option<Test>,
    pub resolved: ResolvedSelections,
    /// Where keys fold.
    pub liveness: TableLiveness,
    /// Where there are several runs that could be compacted.
    pub run_demand: Option<RunDemand>,
    /// Rows of sets without an index that were looked for.
    pub passed: ResolvedSelections,
    /// What all reads may hold together.
    pub reads: Arc<ReadMemory>,
    /// Whether all pieces listed all sets when this was first asked.
    pub lists_every_set: OnceLock<bool>,
}

/// What is found out of which rows of a version are alive.
#[derive(Default)]
pub struct TableLiveness {
    /// What is known, once that was asked for.
    pub known: Mutex<Option<Arc<KnownDead>>>,
    /// Held while that is found out.
    pub finding: Mutex<()>,
    /// The rows that are alive and were not erased, by piece; `None` for all rows of one.
    pub alive: OnceLock<Vec<Option<Arc<AliveRows>>>>,
    /// By calls on all versions of the table.
    pub demand: Arc<LivenessDemand>,
}

/// How much knowing which rows of a table are alive would have saved.
#[derive(Default)]
pub struct LivenessDemand {
    /// Steps that calls have taken for want of it.
    pub steps: AtomicU64,
    /// A thread is finding it out.
    is_served: AtomicBool,
}

/// Held by the one thread that finds out which rows of a table are alive. Once it is dropped, steps are counted anew.
pub struct Serving(Arc<LivenessDemand>);

impl LivenessDemand {
    /// Has the caller find it out, unless another does.
    pub fn serve(self: &Arc<LivenessDemand>) -> Option<Serving> {
        (!self.is_served.swap(true, Ordering::Acquire)).then(|| Serving(self.clone()))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.steps.store(0, Ordering::Relaxed);
        self.0.is_served.store(false, Ordering::Release);
    }
}

impl Version {
    /// Some tables at one moment.
    pub fn of(lsn: Lsn, clock: u64, tables: impl IntoIterator<Item = TableVersion>) -> Version {
        let tables: Tables = tables.into_iter().map(|table| (table.id, Arc::new(table))).collect();
        let names = tables.iter().map(|(id, table)| (table.name.clone(), *id)).collect();
        let expires = tables.values().any(|table| table.schema.ttl.is_some());
        Version { moment: Arc::new(lsn), clock, tables, names: Arc::new(names), expires }
    }

    /// The newest commit that is shown.
    pub fn lsn(&self) -> Lsn {
        *self.moment
    }

    /// The segments of all tables.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        let segments = |table: &Arc<TableVersion>| -> Vec<Arc<Segment>> {
            table.pieces.now().iter().filter_map(Piece::segment).cloned().collect()
        };
        self.tables.values().flat_map(segments).collect()
    }

    /// The same tables at a later time. `expiring` is what is known of the pieces of each, in their order, and stays right
    /// for what this returns.
    pub fn at_clock(
        &self,
        clock: u64,
        expiring: &mut BTreeMap<TableId, Vec<Option<Expiring>>>,
        meter: &MemoryMeter,
        interrupt: &Interrupt,
    ) -> Result<Version> {
        let tables = self.tables.iter().map(|(id, table)| {
            let expiring = expiring.entry(*id).or_default();
            Ok((*id, table.at_clock(clock, expiring, meter, interrupt)?))
        });
        let (moment, names) = (self.moment.clone(), self.names.clone());
        let tables = tables.collect::<Result<_>>()?;
        Ok(Version { moment, clock, tables, names, expires: self.expires })
    }
}

impl Drop for TableVersion {
    /// Segments that were replaced meanwhile are removed with their last version: all together, as a sweep lists the directory.
    fn drop(&mut self) {
        let pieces = self.pieces.take();
        let mut segments = pieces.iter().filter_map(Piece::segment);
        let removals = segments.find_map(|segment| segment.removals()).cloned();
        let selected = (self.resolved.take(), self.passed.take());
        let let_go = || drop((pieces, selected));
        match removals {
            Some(removals) => removals.in_one_sweep(let_go),
            None => let_go(),
        }
    }
}

impl TableVersion {
    /// Goes on with the files of runs that were spilled, and hands out what held these, if some were: also lists that reads left
    /// with it. To be dropped without a lock.
    pub fn let_go_of_spilled(&self) -> Option<impl Sized + use<>> {
        let pieces = self.pieces.let_go_of_spilled();
        let lists = [&self.resolved, &self.passed].map(ResolvedSelections::take_spilled);
        let holds_some = pieces.is_some() || lists.iter().any(|list| !list.is_empty());
        holds_some.then_some((pieces, lists))
    }

    /// Counts searches of all pieces, of which reads would have saved some, had the table fewer runs.
    pub fn note_searches(&self, searches: u64) {
        self.run_demand.iter().for_each(|demand| demand.note(searches));
    }

    /// A table at one LSN, without the rows that have expired at `clock` but that stored rows tell of: who gives the pieces
    /// has these erased. What reads find out of it counts in `reads`.
    pub fn new(
        id: TableId,
        name: Arc<str>,
        layout: Layout,
        lsn: Lsn,
        clock: u64,
        pieces: Arc<[Piece]>,
        reads: Arc<ReadMemory>,
    ) -> TableVersion {
        let schema = layout.shared_schema().clone();
        let resolved = ResolvedSelections::new(reads.clone());
        let passed = ResolvedSelections::new(reads.clone());
        let lists_every_set = OnceLock::new();
        let limit = schema.expiry_limit(clock).filter(|_| !schema.expires_by_stored_row());
        let unexpired = limit.map(|limit| unexpired(&schema, limit).expect("the column is there"));
        TableVersion {
            id,
            name,
            lsn,
            layout,
            schema,
            pieces: HeldPieces::new(pieces),
            unexpired,
            resolved,
            liveness: TableLiveness::default(),
            run_demand: None,
            passed,
            reads,
            lists_every_set,
        }
    }

    /// The same table at a later time.
    fn at_clock(
        self: &Arc<TableVersion>,
        clock: u64,
        expiring: &mut Vec<Option<Expiring>>,
        meter: &MemoryMeter,
        interrupt: &Interrupt,
    ) -> Result<Arc<TableVersion>> {
        let Some(limit) = self.schema.expiry_limit(clock) else { return Ok(self.clone()) };
        let mut pieces = self.pieces.now().to_vec();
        if self.schema.expires_by_stored_row() {
            expiring.resize_with(pieces.len(), || None);
            for (piece, known) in pieces.iter_mut().zip(expiring) {
                let gone = match known.as_mut().and_then(|known| known.take(limit.before)) {
                    Some(gone) => gone,
                    None => {
                        let layout = &self.layout;
                        let (gone, next) = Expiring::find(piece, layout, limit, meter, interrupt)?;
                        *known = Some(next);
                        gone
                    }
                };
                piece.erased = ErasedRows::with(piece.erased.as_ref(), &gone);
            }
        }
        let (name, layout) = (self.name.clone(), self.layout.clone());
        let (lsn, reads) = (self.lsn, self.reads.clone());
        let mut version =
            TableVersion::new(self.id, name, layout, lsn, clock, pieces.into(), reads);
        version.run_demand = self.run_demand.clone();
        Ok(Arc::new(version))
    }
}
