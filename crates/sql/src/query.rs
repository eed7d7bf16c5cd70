//! Queries over one snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::{SQLOptions, SessionContext};
use datafusion::sql::parser::Statement;
use drillcore::{Error, ErrorKind, Interrupt, Result, Snapshot};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{JoinError, JoinHandle};

use crate::ended_queries;
use crate::error::{from_datafusion, from_panic, with_quotes_told};
use crate::estimates::estimated_calls::with_estimates;
use crate::files::file_table::{ReadFile, Reads};
use crate::functions::checked_arithmetic::CheckedArithmetic;
use crate::functions::checked_decimals::CheckedDecimals;
use crate::functions::checked_sum::{CheckedAvg, CheckedSum};
use crate::functions::exact_percentiles::{ExactMedian, ExactPercentileCont};
use crate::functions::float_extremes::{FloatMax, FloatMin};
use crate::parsing::cast_names::{is_about_names, name_casts};
use crate::parsing::columns_first::ColumnsFirst;
use crate::parsing::from_first::with_all_columns;
use crate::parsing::parameters::{Parameters, with_literals};
use crate::parsing::syntax;
use crate::parsing::wrong_forms::without_wrong_forms;
use crate::result_names::{distinct_names, with_names};
use crate::rules::clock_times::ClockTimes;
use crate::rules::compared_decimals::ComparedDecimals;
use crate::rules::compared_literals::ComparedLiterals;
use crate::rules::computed_keys::ComputedKeys;
use crate::rules::computed_lists::ComputedLists;
use crate::rules::constants::CountedConstants;
use crate::rules::correlated_subqueries::CorrelatedSubqueries;
use crate::rules::exact_lists::ExactLists;
use crate::rules::null_safe_joins::NullSafeKeys;
use crate::rules::one_nan::OneNan;
use crate::rules::optimizers;
use crate::rules::subquery_names::SubqueryNames;
use crate::rules::union_names::UnionNames;
use crate::rules::unknown_memberships::UnknownMemberships;
use crate::rules::window_frames::RangeFrames;
use crate::session::{self, CATALOG, SCHEMA};
use crate::tables::key_order::KeyOrder;
use crate::tables::scan_exec::Threads;
use crate::tables::table::Tables;
use crate::tables::table_sample::{FilterBeforeSample, SampleFunction, SamplePlanner};

/// How often a waiting caller's interrupt is asked.
const POLL: Duration = Duration::from_millis(20);

/// More threads than any machine has use for may not be had.
const THREADS_MAX: usize = 512;

/// Batches of the result that may wait for the caller.
const BATCHES_AHEAD: usize = 2;

/// The share of the memory that groups may take while they wait to be merged.
const WAITING_SHARE: usize = 16;

/// The default budget of a query.
pub const MEMORY_BYTES: u64 = 1 << 30;

/// How a query runs.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore_sql::{QueryOptions, query};
///
/// // One thread, and at most 64 MiB for sorts and aggregates.
/// let options = QueryOptions { threads: Some(1), memory_bytes: Some(64 << 20), ..QueryOptions::default() };
/// let snapshot = flights.database().snapshot()?;
/// let rows = query(&snapshot, "select * from flights order by delay desc limit 5", &options)?;
/// assert_eq!(rows.map(|batch| Ok(batch?.num_rows())).sum::<drillcore::Result<usize>>()?, 5);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Threads that work at once; by default one per core.
    pub threads: Option<usize>,
    /// What joins, sorts and aggregates may hold at once; by default [`MEMORY_BYTES`]. Sorts and aggregates
    /// go on in files of the system's temporary directory, a join that needs more is an error.
    pub memory_bytes: Option<u64>,
    /// About how many rows of a table a thread reads at once; by default as many as are worth it.
    pub partition_rows: Option<u64>,
    /// The values of the placeholders in the text: each must have one, and each must be used.
    pub parameters: Parameters,
}

/// The result of a query, streamed. Dropping it stops the query.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore_sql::{QueryOptions, query};
///
/// let snapshot = flights.database().snapshot()?;
/// let mut counts = query(
///     &snapshot,
///     "select carrier, count(*) as n from flights group by carrier order by carrier",
///     &QueryOptions::default(),
/// )?;
/// assert_eq!(counts.schema().field(1).name(), "n");
/// let batch = counts.next().expect("there are two carriers")?;
/// assert_eq!(batch.num_rows(), 2);
/// # drillcore::Result::Ok(())
/// ```
pub struct Query {
    /// Batches on their way, and the task that sends them; `None` once there are no more.
    running: Option<Running>,
    runtime: Option<Runtime>,
    schema: SchemaRef,
    /// Whether batches come with other names.
    is_renamed: bool,
    stop: Arc<AtomicBool>,
    interrupt: Interrupt,
}

struct Running {
    batches: Receiver<std::result::Result<RecordBatch, DataFusionError>>,
    sender: JoinHandle<()>,
}

/// Runs one SQL query, `EXPLAIN`, `SHOW TABLES` or `DESCRIBE` over the tables of a snapshot. Statements that
/// would change something are errors.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use drillcore::arrow_array::cast::AsArray;
/// use drillcore::arrow_array::types::Int64Type;
/// use drillcore_sql::{QueryOptions, query};
///
/// let snapshot = flights.database().snapshot()?;
/// let mut late = query(&snapshot, "select count(*) from flights where delay > 50", &QueryOptions::default())?;
/// let batch = late.next().expect("a count is one row")?;
/// assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 9);
/// # drillcore::Result::Ok(())
/// ```
///
/// The snapshot's interrupt stops the query, while it is planned and while its rows are read.
///
/// Tables are scanned by the snapshot's own scans, in as many partitions as there are `threads` where they are
/// large; joins, sorts and aggregates use them too. Memory is that of DataFusion: sorts and aggregates of many groups hold their state.
pub fn query(snapshot: &Snapshot, text: &str, options: &QueryOptions) -> Result<Query> {
    let threads = options.threads.unwrap_or_else(session::available_threads);
    if !(1..=THREADS_MAX).contains(&threads) {
        let message = format!("threads must be from 1 to {THREADS_MAX}, got {threads}");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("drillcore-sql")
        .thread_stack_size(session::STACK_BYTES)
        .enable_time()
        .build()
        .map_err(|error| Error::io("cannot start a thread", error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let scans_stop = Interrupt::new(Arc::new(move || stopped.load(Ordering::Relaxed)));
    let of_scans = Threads { count: threads, partition_rows: options.partition_rows };
    let tables = Arc::new(Tables::new(snapshot.interrupted_by(scans_stop), of_scans));
    let mut query = Query {
        running: None,
        runtime: Some(runtime),
        schema: SchemaRef::new(arrow_schema::Schema::empty()),
        is_renamed: false,
        stop,
        interrupt: snapshot.interrupt().clone(),
    };
    // The caller's thread only waits, so that it can be interrupted whatever an operator does.
    let memory_bytes = options.memory_bytes.unwrap_or(MEMORY_BYTES);
    let (of_task, planned_tables) = (text.to_string(), tables.clone());
    let parameters = options.parameters.clone();
    let planned = query.runtime().spawn(async move {
        let (statement, constants) =
            session::with_stack(|| syntax::statement(&of_task, &parameters))?;
        plan(planned_tables, statement, constants, threads, memory_bytes).await
    });
    let planned = query.wait(planned)?.map_err(broken)?;
    let mut stream =
        planned.map_err(|error| with_quotes_told(explain(&error, snapshot, &tables), text))?;
    let renamed = distinct_names(&stream.schema());
    query.is_renamed = renamed.is_some();
    query.schema = renamed.unwrap_or_else(|| stream.schema());
    let (sender, batches) = channel(BATCHES_AHEAD);
    let sender = query.runtime().spawn(async move {
        while let Some(batch) = stream.next().await {
            // Nothing comes behind an error, and operators need not bear to be asked.
            let is_last = batch.is_err();
            if sender.send(batch).await.is_err() || is_last {
                break;
            }
        }
    });
    query.running = Some(Running { batches, sender });
    Ok(query)
}

/// A task that ended in a panic: a bug, which must not pass for the end of the rows.
fn broken(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(payload) => from_panic(&*payload),
        Err(error) => Error::new(ErrorKind::Internal, format!("the query stopped: {error}")),
    }
}

async fn plan(
    tables: Arc<Tables>,
    mut statement: Statement,
    parameters: Vec<ScalarUDF>,
    threads: usize,
    memory_bytes: u64,
) -> std::result::Result<SendableRecordBatchStream, DataFusionError> {
    let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    let memory = FairSpillPool::new(memory_bytes);
    let memory: Arc<dyn MemoryPool> = Arc::new(memory);
    let constants = CountedConstants::new(&memory);
    let memory = RuntimeEnvBuilder::new().with_memory_pool(memory).build_arc()?;
    // Of all threads together.
    let waiting_bytes = memory_bytes / WAITING_SHARE / threads;
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(CorrelatedSubqueries),
        Arc::new(RangeFrames),
        Arc::new(ComparedLiterals),
        Arc::new(ComparedDecimals),
    ];
    rules.extend(Analyzer::new().rules);
    let state = session::builder(threads, memory_bytes as u64)
        .with_runtime_env(memory)
        .with_relation_planners(vec![Arc::new(SamplePlanner)])
        .with_analyzer_rules(rules)
        .with_analyzer_rule(Arc::new(ClockTimes))
        .with_analyzer_rule(Arc::new(CheckedDecimals))
        .with_analyzer_rule(Arc::new(CheckedArithmetic))
        .with_analyzer_rule(Arc::new(OneNan))
        .with_analyzer_rule(Arc::new(ColumnsFirst))
        .with_analyzer_rule(Arc::new(FilterBeforeSample))
        .with_analyzer_rule(Arc::new(SubqueryNames))
        .with_analyzer_rule(Arc::new(UnknownMemberships))
        .with_analyzer_rule(Arc::new(ExactLists))
        .with_analyzer_rule(Arc::new(ComputedLists))
        .with_analyzer_rule(Arc::new(UnionNames))
        .with_optimizer_rules(optimizers::rules())
        .with_optimizer_rule(Arc::new(ComputedKeys))
        .with_optimizer_rule(Arc::new(constants))
        .with_query_planner(Arc::new(NullSafeKeys))
        .with_physical_optimizer_rules(optimizers::physical_rules())
        .with_physical_optimizer_rule(Arc::new(KeyOrder { waiting_bytes }))
        .build();
    let context = SessionContext::new_with_state(state);
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(SCHEMA, tables.clone())?;
    context.register_catalog(CATALOG, Arc::new(catalog));
    context.register_udaf(AggregateUDF::new_from_impl(CheckedSum::default()));
    context.register_udaf(AggregateUDF::new_from_impl(CheckedAvg::default()));
    context.register_udaf(AggregateUDF::new_from_impl(FloatMin::default()));
    context.register_udaf(AggregateUDF::new_from_impl(FloatMax::default()));
    context.register_udaf(AggregateUDF::new_from_impl(ExactPercentileCont::default()));
    context.register_udaf(AggregateUDF::new_from_impl(ExactMedian::default()));
    for reads in [Reads::Parquet, Reads::Csv] {
        let function = ReadFile::new(reads, threads, tables.interrupt().clone());
        context.register_udtf(reads.name(), Arc::new(function));
    }
    session::with_stack(|| with_estimates(&mut statement, &tables))?;
    context.register_udtf("sample", Arc::new(SampleFunction { tables }));
    with_all_columns(&mut statement);
    session::with_stack(|| without_wrong_forms(&mut statement))?;
    parameters.into_iter().for_each(|parameter| context.register_udf(parameter));
    match planned(&context, statement.clone()).await {
        Err(error) if is_about_names(&error.to_string()) && name_casts(&mut statement)? => {
            // What is still wrong is said of the query as it was given.
            planned(&context, statement).await.map_err(|_| error)
        }
        planned => planned,
    }
}

/// The stream of a statement that was looked through.
async fn planned(
    context: &SessionContext,
    statement: Statement,
) -> std::result::Result<SendableRecordBatchStream, DataFusionError> {
    let reads_only =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let plan = with_literals(context.state().statement_to_plan(statement).await?)?;
    reads_only.verify_plan(&plan)?;
    if plan.schema().fields().is_empty() {
        let message = "the query selects no columns; name some, or use select *";
        return Err(DataFusionError::Plan(message.to_string()));
    }
    context.execute_logical_plan(plan).await?.execute_stream().await
}

/// Says which table does not exist, if that is the reason.
fn explain(error: &DataFusionError, snapshot: &Snapshot, tables: &Tables) -> Error {
    if let DataFusionError::Plan(_) = error.find_root() {
        for name in tables.unknown() {
            let is_named = error.to_string().contains(&format!("{SCHEMA}.{name}'"));
            if let (true, Err(unknown)) = (is_named, snapshot.table(&name)) {
                return unknown;
            }
        }
    }
    from_datafusion(error)
}

impl Query {
    /// The schema of every batch. Where the query has several columns of one name, they are `id`, `id_1`, `id_2` and so on.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it lives as long as the query")
    }

    /// Waits until a future is done or the caller interrupts.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        // With a clock of its own: that of the workers stands still while all of them are busy.
        let waiting = Builder::new_current_thread().enable_time().build();
        let waiting = waiting.map_err(|error| Error::io("cannot wait for the query", error))?;
        waiting.block_on(async {
            let mut future = std::pin::pin!(future);
            loop {
                match tokio::time::timeout(POLL, &mut future).await {
                    Ok(done) => return Ok(done),
                    Err(_) => self.interrupt.check()?,
                }
            }
        })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.interrupt.check()?;
        let Some(mut running) = self.running.take() else { return Ok(None) };
        match self.wait(running.batches.recv())? {
            Some(batch) => {
                let batch = batch.map_err(|error| from_datafusion(&error))?;
                self.running = Some(running);
                Ok(Some(match self.is_renamed {
                    true => with_names(&batch, &self.schema)
                        .map_err(|error| from_datafusion(&error.into()))?,
                    false => batch,
                }))
            }
            None => {
                self.wait(running.sender)?.map_err(broken)?;
                Ok(None)
            }
        }
    }
}

impl Iterator for Query {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.next_batch().transpose()
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.running = None;
        if let Some(runtime) = self.runtime.take() {
            // What is in the middle of a batch stops after it.
            ended_queries::end(runtime);
        }
    }
}
