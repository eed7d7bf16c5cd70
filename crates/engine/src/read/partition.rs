//! Scanning one partition of keys: the selected rows of all pieces, merged by key, streamed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;
use drillcore_format::rows::{Layout, Projection, Rows};
use drillcore_format::weight::stored_units;

use crate::calls::interrupt::Interrupt;
use crate::error::Result;
use crate::merge::disjoint::disjoint_groups;
use crate::merge::merger::{Direction, Merger, RowSource};
use crate::merge::piece_source::PieceSource;
use crate::pieces::weight_index::no_weight;
use crate::policy::fold::Fold;
use crate::policy::table_policy::TablePolicy;
use crate::select::held_pieces::HeldSelected;
use crate::select::partitioning::{PARTITION_BYTES, partition_by_keys, partitions_worth};
use crate::select::predicate::Test;
use crate::select::pruning::Pruning;
use crate::select::read_memory::ReadMemory;
use crate::select::selection::Selected;

/// About as many partitions each of several threads should have, so that none waits long for another's last.
const PARTITIONS_EACH: usize = 8;
/// Rows of a batch, unless they are long: enough that handing it over, to Python above all, costs little beside them.
const BATCH_ROWS: usize = 32_768;
/// Groups of pieces of which rows are read together, at most.
const GROUPS_AT_ONCE_MAX: usize = 64;
/// Rows of a batch that are copied from several pieces, which are few in the processor's caches, or of which few may pass.
const COPIED_ROWS: usize = 8192;

/// How the rows of a scan are read, whichever of them.
#[derive(Clone)]
pub struct ScanPlan {
    layout: Layout,
    fold: Fold,
    direction: Direction,
    /// What is read, and what of it the columns need.
    read: Projection,
    needed: Projection,
    /// Whether a column wanted is in the key.
    shows_keys: bool,
    /// The columns wanted, and behind them those that only the test reads.
    columns: Vec<usize>,
    test: Option<TestPlace>,
    pruning: Option<Pruning>,
    schema: SchemaRef,
    limit: Option<u64>,
    batch_rows: usize,
    memory: Arc<ReadMemory>,
    interrupt: Interrupt,
}

/// A test, with the positions of its columns among those of a batch.
#[derive(Clone)]
struct TestPlace {
    test: Test,
    columns: Vec<usize>,
}

/// Consecutive keys of a scan, which can be scanned by themselves: partitions share no key, and one after the
/// other they give what the whole scan gives. Holding one keeps the snapshot's pieces alive.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::ScanRequest;
///
/// let partitions = flights.snapshot()?.scan_partitions(&ScanRequest::default(), 4)?;
/// let mut rows = 0;
/// for partition in &partitions {
///     // Each could be scanned by a thread of its own.
///     for batch in partition.scan()? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 100);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct KeyPartition {
    selected: Arc<HeldSelected>,
    plan: Arc<ScanPlan>,
}

/// The rows of a partition in key order. Equal keys of different pieces are folded, then rows are tested.
pub struct PartitionScan {
    source: Option<Source>,
    /// What comes after it: the sources of pieces that share keys, group by group.
    later: VecDeque<Vec<PieceSource>>,
    /// How many of the next groups were read together, as far as they have rows of sets, and how many will be at most the next time.
    groups_ahead: usize,
    groups_at_once: usize,
    /// How many of the next groups were opened together, as far as they are read by columns.
    groups_opened: usize,
    plan: Arc<ScanPlan>,
}

/// What a batch was made of: stored rows, of which those are in it that pass.
struct Stored {
    rows: Rows,
    passes: Option<BooleanBuffer>,
}

/// The value of a rollup table's rows that has their numbers of events.
const EVENTS: usize = 0;

/// Where rows come from.
enum Source {
    /// One piece, in which no two rows fold: nothing compares their keys.
    Alone(Box<PieceSource>),
    Merged(Box<Merger<PieceSource>>),
}

impl ScanPlan {
    /// Plans to read some columns of the rows that pass a test.
    pub fn new(
        layout: &Layout,
        columns: Vec<usize>,
        test: Option<Test>,
        fold: Fold,
        direction: Direction,
        memory: Arc<ReadMemory>,
        interrupt: Interrupt,
    ) -> ScanPlan {
        let schema = layout.schema().columns.project(&columns).expect("columns were resolved");
        let mut columns = columns;
        let pruning = Pruning::new(layout, test.as_ref());
        let test = test.map(|test| TestPlace::new(test, &mut columns));
        let wanted = TablePolicy::of(layout).projection(&columns);
        let shows_keys = wanted.keys;
        // Merging compares keys, so they are read even where no key column is asked for.
        let needed = Projection { keys: true, ..wanted };
        ScanPlan {
            layout: layout.clone(),
            read: fold.read(layout, &needed),
            fold,
            direction,
            needed,
            shows_keys,
            columns,
            test,
            pruning,
            schema: schema.into(),
            limit: None,
            batch_rows: BATCH_ROWS,
            memory,
            interrupt,
        }
    }

    /// Returns no more than `limit` rows, and no more than `batch_rows` in a batch.
    pub fn limited(self, limit: Option<u64>, batch_rows: Option<usize>) -> ScanPlan {
        let worth = match (limit, &self.test) {
            (Some(limit), None) => usize::try_from(limit).unwrap_or(usize::MAX),
            // Who knows how many rows pass.
            (Some(_), Some(_)) => COPIED_ROWS,
            (None, _) => BATCH_ROWS,
        };
        let batch_rows = batch_rows.unwrap_or(BATCH_ROWS).min(worth).clamp(1, BATCH_ROWS);
        ScanPlan { limit, batch_rows, ..self }
    }
}

impl KeyPartition {
    pub(crate) fn new(selected: Arc<Selected>, plan: ScanPlan) -> KeyPartition {
        KeyPartition { selected: HeldSelected::new(selected, &plan.memory), plan: Arc::new(plan) }
    }

    /// The rows that indexes find, of which some may be dead, fold or fail the test.
    pub fn candidates(&self) -> u64 {
        self.selected.now().len()
    }

    /// The most rows wanted of it.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.plan.limit
    }

    /// The schema of every batch.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.plan.schema.clone()
    }

    /// What it may hold together with other reads.
    pub(crate) fn memory(&self) -> &Arc<ReadMemory> {
        &self.plan.memory
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.plan.interrupt
    }

    /// The same, with another interrupt.
    pub(crate) fn interrupted_by(&self, interrupt: Interrupt) -> KeyPartition {
        let plan = ScanPlan { interrupt, ..(*self.plan).clone() };
        KeyPartition { selected: self.selected.clone(), plan: Arc::new(plan) }
    }

    /// How many partitions it is worth cutting into, at least one: each of `rows`, if that is given.
    pub(crate) fn worth(&self, rows: Option<u64>) -> usize {
        partitions_worth(&self.selected.now(), rows)
    }

    /// Rows of a partition for threads that share the scan, where these have few bytes each: to cut a partition off takes looks at
    /// keys, and to hand it over wakes a thread. Never fewer than by the bytes that are stored of a row, and `None`, which means
    /// by these, where the columns that are read do not tell how long they are.
    pub(crate) fn rows_worth(&self, threads: usize) -> Option<u64> {
        let ScanPlan { layout, columns, limit, .. } = &*self.plan;
        let width = |column: &usize| match layout.schema().columns.field(*column).data_type() {
            DataType::Boolean => Some(1),
            other => other.primitive_width(),
        };
        let row_bytes: usize = columns.iter().map(width).sum::<Option<_>>()?;
        let most = PARTITION_BYTES / row_bytes.max(1) as u64;
        let wanted = self.candidates().min(limit.unwrap_or(u64::MAX));
        let share = wanted / (threads * PARTITIONS_EACH) as u64;
        let least = self.candidates() / self.worth(None) as u64;
        Some(share.min(most).max(least).max(1))
    }

    /// Whether each batch takes no longer than its rows, as none is left out by a test.
    pub(crate) fn shows_all(&self) -> bool {
        self.plan.test.is_none()
    }

    /// Up to `count` partitions in the order of the scan, none of them empty.
    pub(crate) fn partition_by_keys(&self, count: usize) -> Result<Vec<KeyPartition>> {
        let mut partitions: Vec<KeyPartition> =
            partition_by_keys(&self.selected.now(), count, &self.plan.interrupt)?
                .into_iter()
                .map(|selected| HeldSelected::new(selected.into(), &self.plan.memory))
                .map(|selected| KeyPartition { selected, plan: self.plan.clone() })
                .collect();
        if self.plan.direction == Direction::Reverse {
            partitions.reverse();
        }
        Ok(partitions)
    }

    /// Starts to read it, in the thread that asks for batches.
    pub(crate) fn start(&self) -> PartitionScan {
        let ScanPlan { read, direction, pruning, interrupt, .. } = &*self.plan;
        let selected = self.selected.now();
        let sources = PieceSource::of(&selected, read, *direction, pruning.as_ref(), interrupt);
        let (numbers, sources): (Vec<usize>, Vec<PieceSource>) = sources.unzip();
        let pieces = selected.pieces();
        let ends: Vec<_> = numbers.iter().map(|&number| pieces[number].key_ends()).collect();
        let mut sources: Vec<Option<PieceSource>> = sources.into_iter().map(Some).collect();
        let mut take = |at: usize| sources[at].take().expect("each is in one group");
        let groups = disjoint_groups(&ends).into_iter();
        let mut later: VecDeque<Vec<PieceSource>> =
            groups.map(|group| group.into_iter().map(&mut take).collect()).collect();
        if *direction == Direction::Reverse {
            later.make_contiguous().reverse();
            later.iter_mut().for_each(|group| group.reverse());
        }
        let plan = self.plan.clone();
        // Who wants few rows has read at most twice as many. Others read no more than they would of a single piece.
        let groups_at_once = if plan.limit.is_some() { 1 } else { GROUPS_AT_ONCE_MAX };
        let (groups_ahead, groups_opened) = (0, 0);
        PartitionScan { source: None, later, groups_ahead, groups_at_once, groups_opened, plan }
    }
}

impl fmt::Debug for KeyPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPartition")
            .field("candidates", &self.candidates())
            .finish_non_exhaustive()
    }
}

impl PartitionScan {
    /// The next rows that pass, as they are shown, at least one; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.next_shown()?.map(|(batch, _)| batch))
    }

    /// The same of a rollup table, with the number of events of each row.
    pub fn next_with_events(&mut self) -> Result<Option<(RecordBatch, Vec<u64>)>> {
        let Some((batch, Stored { rows, passes })) = self.next_shown()? else { return Ok(None) };
        let events = stored_units(rows.value(EVENTS)).map_err(no_weight)?;
        let events = match passes {
            None => events,
            Some(passes) => passes.set_indices().map(|row| events[row]).collect(),
        };
        Ok(Some((batch, events)))
    }

    /// Goes on with the files of runs that were spilled. A run whose file cannot be read just now is held on to.
    pub fn let_go_of_spilled(&mut self) {
        let waiting = self.later.iter_mut().flatten();
        let current = match &mut self.source {
            Some(Source::Merged(merger)) => {
                merger.let_go_of_spilled();
                None
            }
            Some(Source::Alone(source)) => Some(&mut **source),
            None => None,
        };
        for source in waiting.chain(current) {
            let _ = source.let_go_of_spilled(0);
        }
    }

    fn next_shown(&mut self) -> Result<Option<(RecordBatch, Stored)>> {
        self.plan.interrupt.check()?;
        while let Some(rows) = self.next_rows()? {
            let ScanPlan { layout, columns, schema, .. } = &*self.plan;
            let batch = TablePolicy::of(layout).shown(&rows, columns)?;
            let Some(TestPlace { test, columns }) = &self.plan.test else {
                return Ok(Some((batch, Stored { rows, passes: None })));
            };
            let tested = batch.project(columns).expect("the batch has the test's columns");
            let passes = test.passes(&tested)?;
            if passes.true_count() > 0 {
                let wanted: Vec<usize> = (0..schema.fields().len()).collect();
                let batch = batch.project(&wanted).expect("the batch has the columns wanted");
                let batch = filter_record_batch(&batch, &passes).expect("one answer per row");
                let passes = Some(passes.values().clone());
                return Ok(Some((batch, Stored { rows, passes })));
            }
            self.plan.interrupt.check()?;
        }
        Ok(None)
    }

    /// The next rows, of whatever group of pieces.
    fn next_stored(&mut self) -> Result<Option<Rows>> {
        loop {
            if let Some(source) = &mut self.source
                && let Some(rows) = source.next_rows()?
            {
                return Ok(Some(rows));
            }
            if self.groups_ahead == 0 {
                let groups = self.later.iter_mut().take(self.groups_at_once);
                self.groups_ahead = PieceSource::read_together(groups)?.max(1);
                self.groups_at_once = GROUPS_AT_ONCE_MAX.min(2 * self.groups_at_once);
            }
            if self.groups_opened == 0 {
                self.groups_opened = self.open_alone(self.groups_ahead)?;
            }
            self.groups_ahead -= 1;
            self.groups_opened -= 1;
            let Some(group) = self.later.pop_front() else { return Ok(None) };
            self.source = Some(Source::new(group, &self.plan)?);
        }
    }

    /// Opens the first of some groups together, as far as they are pieces to be read by columns, or else the first is merged. Says how
    /// many that are, at least one.
    fn open_alone(&mut self, groups: usize) -> Result<usize> {
        let ScanPlan { layout, columns, batch_rows, .. } = &*self.plan;
        let is_alone = |group: &&Vec<PieceSource>| is_by_columns(group);
        let count = self.later.iter().take(groups).take_while(is_alone).count();
        let mut alone: VecDeque<PieceSource> = self.later.drain(..count).flatten().collect();
        let opened = PieceSource::some_by_columns(&mut alone, layout, columns, *batch_rows as u64)?;
        alone.into_iter().rev().for_each(|source| self.later.push_front(vec![source]));
        Ok(opened.max(1))
    }

    fn next_rows(&mut self) -> Result<Option<Rows>> {
        while let Some(rows) = self.next_stored()? {
            let ScanPlan { layout, fold, read, needed, .. } = &*self.plan;
            let rows = fold.live(layout, rows, read, needed);
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
            self.plan.interrupt.check()?;
        }
        Ok(None)
    }
}

/// Whether rows of a group are read by columns: those of one piece on disk, or of a run with codes. Other rows of a run are copied, as a
/// merge does: a batch that shares them would count as all of the run.
fn is_by_columns(group: &[PieceSource]) -> bool {
    matches!(group, [alone] if alone.is_on_disk() || alone.is_by_code())
}

impl Source {
    /// Reads pieces that share keys, or one, which was opened by its columns.
    fn new(mut group: Vec<PieceSource>, plan: &ScanPlan) -> Result<Source> {
        let ScanPlan { fold, direction, batch_rows, .. } = plan;
        let is_alone = is_by_columns(&group);
        match group.pop() {
            Some(alone) if is_alone => Ok(Source::Alone(alone.into())),
            last => {
                group.extend(last);
                let group = group.into_iter().map(PieceSource::in_held_types).collect();
                let batch_rows = (*batch_rows).min(COPIED_ROWS);
                let merger = Merger::new(group, *direction, fold.clone(), batch_rows)?;
                let merger = if plan.shows_keys { merger } else { merger.without_keys() };
                Ok(Source::Merged(merger.in_copies().into()))
            }
        }
    }

    fn next_rows(&mut self) -> Result<Option<Rows>> {
        match self {
            Source::Alone(source) => source.next_rows(),
            Source::Merged(merger) => merger.next_rows(),
        }
    }
}

impl TestPlace {
    /// Adds to `columns` what the test reads besides.
    fn new(test: Test, columns: &mut Vec<usize>) -> TestPlace {
        let place = |&column: &usize| {
            columns.iter().position(|&known| known == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            })
        };
        let places = test.columns().iter().map(place).collect();
        TestPlace { test, columns: places }
    }
}
