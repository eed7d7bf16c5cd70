//! A table's part of a physical plan: a scan of the engine, or a sample.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, SchemaRef, SortOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use drillcore::{
    KeyPartition, Predicate, SampleRequest, ScanRequest, Selection, ShareRequest, TableSnapshot,
    Unit,
};

use crate::conditions::predicate::Condition;
use crate::error::to_datafusion;
use crate::rules::one_nan::normalised_rows;

/// Batches that may wait for their reader.
const BATCHES_AHEAD: usize = 2;
/// Rows handed on at once, which operators go over several times: those of a few columns fit a processor's cache.
const BATCH_ROWS: usize = 8192;

/// Which of the rows that pass are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    /// All, in key order.
    All,
    /// `n` at random, or all if there are fewer.
    Rows { n: u64, unit: Unit, seed: u64 },
    /// Each with this chance.
    Share { share: f64, seed: u64 },
}

/// How many read a table at once.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    pub count: usize,
    /// About how many rows each reads at once; by default as many as are worth it.
    pub partition_rows: Option<u64>,
}

/// Reads one table of a snapshot.
#[derive(Debug, Clone)]
pub struct ScanExec {
    table: TableSnapshot,
    columns: Vec<String>,
    condition: Option<Arc<Condition>>,
    wanted: Wanted,
    limit: Option<usize>,
    threads: Threads,
    /// What each partition reads; nothing where there is one.
    partitions: Vec<KeyPartition>,
    /// Whether one partition is known to have work for all threads.
    reads_ahead: bool,
    rows: Precision<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// Plans a read of some columns, by index. Counts the rows where indexes know their number.
    pub fn new(
        table: TableSnapshot,
        projection: &[usize],
        condition: Option<Condition>,
        wanted: Wanted,
        limit: Option<usize>,
        threads: Threads,
    ) -> Result<ScanExec> {
        let schema: SchemaRef = Arc::new(table.schema().columns.project(projection)?);
        let fixed = condition.as_ref().map_or(&[][..], |condition| condition.fixed());
        let mut equivalence = EquivalenceProperties::new(schema.clone());
        equivalence.add_constants(fixed.iter().filter_map(|name| {
            let index = schema.index_of(name).ok()?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
            Some(ConstExpr::new(column, AcrossPartitions::Uniform(None)))
        }))?;
        if wanted == Wanted::All {
            equivalence.add_orderings(key_orders(&table, &schema, fixed));
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let condition = condition.map(Arc::new);
        let rows = known_rows(&table, condition.as_ref(), wanted, limit)?;
        Ok(ScanExec {
            columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
            table,
            condition,
            wanted,
            limit,
            threads,
            partitions: Vec::new(),
            reads_ahead: false,
            rows,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same rows, or the first of them, in one partition, read by as many threads as there were; `None` if
    /// there is only one.
    pub fn in_key_order(&self, limit: Option<usize>) -> Option<ScanExec> {
        let count = self.partitions.len();
        (count > 0).then(|| ScanExec {
            limit,
            threads: Threads { count, ..self.threads },
            partitions: Vec::new(),
            reads_ahead: limit.is_none(),
            rows: self.rows.map(|rows| rows.min(limit.unwrap_or(usize::MAX))),
            properties: self.partitioned(1),
            ..self.clone()
        })
    }

    fn partitioned(&self, count: usize) -> Arc<PlanProperties> {
        let properties = PlanProperties::clone(&self.properties);
        properties.with_partitioning(Partitioning::UnknownPartitioning(count)).into()
    }

    fn selection(&self) -> Selection {
        selection(self.condition.as_ref())
    }

    fn request(&self) -> ScanRequest {
        ScanRequest {
            selection: self.selection(),
            columns: Some(self.columns.clone()),
            limit: self.limit.map(|limit| limit as u64),
            threads: Some(self.threads.count),
            partition_rows: self.threads.partition_rows,
            batch_rows: Some(BATCH_ROWS),
            ..Default::default()
        }
    }

    /// Calls `send` with batch after batch of a partition until it says that no more are wanted.
    fn read(
        &self,
        partition: usize,
        mut send: impl FnMut(RecordBatch) -> bool,
    ) -> std::result::Result<(), drillcore::Error> {
        let (selection, columns) = (self.selection(), Some(self.columns.clone()));
        let rows = match self.wanted {
            Wanted::All => {
                let mut scan = match self.partitions.get(partition) {
                    None => self.table.scan(self.request())?,
                    Some(partition) => partition.scan()?,
                };
                while let Some(batch) = scan.next().transpose()? {
                    if !send(normalised_rows(batch)) {
                        break;
                    }
                }
                return Ok(());
            }
            Wanted::Rows { n, unit, seed } => self.table.sample(&SampleRequest {
                n,
                selection,
                unit,
                at_most: true,
                seed: Some(seed),
                columns,
                ..Default::default()
            })?,
            Wanted::Share { share, seed } => {
                let seed = Some(seed);
                self.table.sample_share(&ShareRequest { share, selection, seed, columns })?
            }
        };
        // A sample is drawn whole, whatever the limit, so that the limit does not change its rows.
        let rows = normalised_rows(rows);
        let end = rows.num_rows().min(self.limit.unwrap_or(usize::MAX));
        for from in (0..end).step_by(BATCH_ROWS) {
            if !send(rows.slice(from, BATCH_ROWS.min(end - from))) {
                break;
            }
        }
        Ok(())
    }
}

fn selection(condition: Option<&Arc<Condition>>) -> Selection {
    let predicate = condition.map(|condition| condition.clone() as Arc<dyn Predicate>);
    Selection { predicate, ..Default::default() }
}

/// The order of the key columns that are read, as far as they lead the key; those with one value need not be
/// read. Where there are no nulls, they are both first and last.
fn key_orders(
    table: &TableSnapshot,
    schema: &SchemaRef,
    fixed: &[String],
) -> Vec<Vec<PhysicalSortExpr>> {
    let whole = table.schema();
    let order = |nulls_first: bool| -> Vec<PhysicalSortExpr> {
        let options = SortOptions { descending: false, nulls_first };
        let column = |field: &Field| -> Option<PhysicalSortExpr> {
            if !nulls_first && field.is_nullable() {
                return None;
            }
            let index = schema.index_of(field.name()).ok()?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            Some(PhysicalSortExpr::new(column, options))
        };
        let fields = whole.key.iter().map(|&key| whole.columns.field(key));
        fields.filter(|field| !fixed.contains(field.name())).map_while(column).collect()
    };
    [order(true), order(false)].into_iter().filter(|order| !order.is_empty()).collect()
}

/// The share of rows that pass a test, where nothing is known of it, as a divisor: what DataFusion supposes of its own filters.
const TEST_DIVISOR: usize = 5;

/// The number of rows, where no row has to be read to know it, or else about how many: so that of two sides of a join the smaller
/// one is held.
fn known_rows(
    table: &TableSnapshot,
    condition: Option<&Arc<Condition>>,
    wanted: Wanted,
    limit: Option<usize>,
) -> Result<Precision<usize>> {
    let is_indexed = condition.is_none_or(|condition| condition.is_exact());
    let (selection, limit) = (selection(condition), limit.unwrap_or(usize::MAX));
    let size = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    if wanted == Wanted::All && table.counts_by_indexes(&selection).map_err(to_datafusion)? {
        let rows = table.count(&selection).map_err(to_datafusion)?;
        return Ok(Precision::Exact(size(rows).min(limit)));
    }
    let Some(rows) = table.count_at_most(&selection).map_err(to_datafusion)? else {
        return Ok(Precision::Absent);
    };
    let passing = size(rows) / if is_indexed { 1 } else { TEST_DIVISOR };
    let rows = match wanted {
        Wanted::All => passing,
        Wanted::Rows { n, .. } => passing.min(size(n)),
        Wanted::Share { share, .. } => (passing as f64 * share) as usize,
    };
    Ok(Precision::Inexact(rows.min(limit)))
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let mut parts = vec![("table", self.table.name().to_string())];
        parts.push(("columns", format!("[{}]", self.columns.join(", "))));
        let conditions = self.condition.iter().flat_map(|condition| condition.parts());
        parts.extend(conditions.map(|(name, text)| (name, format!("[{text}]"))));
        match self.wanted {
            Wanted::All => {}
            Wanted::Rows { n, .. } => parts.push(("sample", format!("{n} rows"))),
            Wanted::Share { share, .. } => {
                parts.push(("sample", format!("{} percent", share * 100.0)));
            }
        }
        parts.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        match self.partitions.len() {
            0 if self.reads_ahead => parts.push(("threads", self.threads.count.to_string())),
            0 => {}
            partitions => parts.push(("key_partitions", partitions.to_string())),
        }
        show_scan("DrillcoreScan", &parts, format, f)
    }
}

/// Shows a scan in a plan: its name, and the names of its parts with their texts.
pub fn show_scan(
    name: &str,
    parts: &[(&str, String)],
    format: DisplayFormatType,
    f: &mut fmt::Formatter,
) -> fmt::Result {
    if let DisplayFormatType::TreeRender = format {
        return parts.iter().try_for_each(|(name, text)| writeln!(f, "{name}={text}"));
    }
    let parts: Vec<String> = parts.iter().map(|(name, text)| format!("{name}={text}")).collect();
    write!(f, "{name}: {}", parts.join(", "))
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "DrillcoreScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a table scan has no children") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    /// A key partition for each partition of the plan, where there is enough to read. What is limited is read in key order.
    fn repartitioned(
        &self,
        count: usize,
        _: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_whole = self.wanted == Wanted::All && self.limit.is_none();
        if !is_whole || count < 2 || !self.partitions.is_empty() {
            return Ok(None);
        }
        // That is left to who runs the plan.
        if self.table.resolves_before_scan(&self.selection()).map_err(to_datafusion)? {
            return Ok(None);
        }
        let partitions =
            self.table.scan_partitions(&self.request(), count).map_err(to_datafusion)?;
        if partitions.len() < 2 {
            return Ok(None);
        }
        let properties = self.partitioned(partitions.len());
        Ok(Some(Arc::new(ScanExec { partitions, properties, ..self.clone() })))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let scan = self.clone();
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema(), BATCHES_AHEAD);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            let read = scan.read(partition, |batch| {
                metrics.record_output(batch.num_rows());
                sender.blocking_send(Ok(batch)).is_ok()
            });
            metrics.done();
            read.map_err(to_datafusion)
        });
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let is_tested = self.condition.as_ref().is_some_and(|condition| !condition.is_exact());
        let rows = match partition.and_then(|partition| self.partitions.get(partition)) {
            // Where all rows are counted without reading them, each that is found is one.
            Some(partition) => self.rows.map(|_| {
                partition.candidates() as usize / if is_tested { TEST_DIVISOR } else { 1 }
            }),
            None => self.rows,
        };
        let statistics = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(statistics.with_num_rows(rows)))
    }
}
