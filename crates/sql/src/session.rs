//! The session that text is planned in: our names and functions, nothing of the machine around it.

use std::sync::{Arc, OnceLock};

use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SessionStateBuilder, SessionStateDefaults};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;

use crate::functions::checked_arithmetic::CheckedConstants;
use crate::functions::guarded_functions::guarded;
use crate::functions::moments::{MomentsApart, with_moment};

/// What queries call the database and its tables' home.
pub const CATALOG: &str = "drillcore";
pub const SCHEMA: &str = "main";

/// A session without tables, for expressions. Made once: registering all functions takes about a millisecond.
pub fn expressions() -> &'static SessionState {
    static STATE: OnceLock<SessionState> = OnceLock::new();
    STATE.get_or_init(|| builder(1, CONDITION_BYTES).build())
}

/// What one function of a condition may make at once; the condition is then tested on fewer rows at a time.
pub const CONDITION_BYTES: u64 = 256 << 20;

/// What a thread that sorts keeps free to merge what it wrote to files, if memory allows for it.
const MERGE_BYTES: usize = 10 << 20;

/// The share of a thread's memory that it keeps free at most. With 10 MiB in any case, a sort of two threads within 20 MiB failed.
const MERGE_SHARE: usize = 8;

/// A session that works on `threads` partitions at once, in which no function makes more than `result_bytes` of
/// one batch.
pub fn builder(threads: usize, result_bytes: u64) -> SessionStateBuilder {
    // Without the formats of files that come with it, and what reads and writes them: files are read by this crate.
    let mut builder = SessionStateBuilder::new()
        .with_config(config(threads, result_bytes))
        .with_expr_planners(SessionStateDefaults::default_expr_planners())
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_function_list(SessionStateDefaults::default_table_functions());
    let functions = builder.scalar_functions().get_or_insert_default();
    let ours = |function| guarded(with_moment(function), result_bytes);
    *functions = functions.drain(..).map(ours).collect();
    let planners = builder.expr_planners().get_or_insert_default();
    // Each hands on what it does not plan to the one before it in the list.
    planners.extend([Arc::new(MomentsApart) as Arc<dyn ExprPlanner>, Arc::new(CheckedConstants)]);
    builder
}

/// The stack that the deepest text needs that is let through, taken where less is left.
pub const STACK_BYTES: usize = 64 << 20;
const STACK_LEFT_BYTES: usize = 4 << 20;

/// Runs `work` with room on the stack for what [`syntax`](crate::parsing::syntax) lets through.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, work)
}

fn config(threads: usize, memory_bytes: u64) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_information_schema(true);
    let options = config.options_mut();
    let of_thread = usize::try_from(memory_bytes).unwrap_or(usize::MAX) / threads;
    options.execution.sort_spill_reservation_bytes = MERGE_BYTES.min(of_thread / MERGE_SHARE);
    // The operators of some expressions that are never null, such as `x is true` and `coalesce(x, true)`, say that they may
    // be. What is grouped by them comes out right, and the check of what they say was an internal error.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Columns are called what they are called: DepDelay need not be quoted.
    options.sql_parser.enable_ident_normalization = false;
    // Strings stay of the type that tables have.
    options.sql_parser.map_string_types_to_utf8view = false;
    config
}

/// The default number of threads: one a core.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
