//! The session that text is planned in: our names and functions, nothing of the machine around it.

use std::sync::OnceLock;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;

/// What queries call the database and its tables' home.
pub const CATALOG: &str = "drillcore";
pub const SCHEMA: &str = "main";

/// A session without tables, for expressions. Made once: registering all functions takes about a millisecond.
pub fn expressions() -> &'static SessionState {
    static STATE: OnceLock<SessionState> = OnceLock::new();
    STATE.get_or_init(|| builder(1).build())
}

/// A session that works on so many partitions at once.
pub fn builder(threads: usize) -> SessionStateBuilder {
    SessionStateBuilder::new().with_config(config(threads)).with_default_features()
}

fn config(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_information_schema(true);
    let options = config.options_mut();
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
