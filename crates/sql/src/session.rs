//! The session that text is planned in: our names and functions, nothing of the machine around it.

use std::sync::{Arc, OnceLock};

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;

use crate::bounded_functions::bounded;
use crate::checked_arithmetic::CheckedConstants;

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

/// A session that works on so many partitions at once, in which no function makes more than `result_bytes` of
/// one batch.
pub fn builder(threads: usize, result_bytes: u64) -> SessionStateBuilder {
    let mut builder =
        SessionStateBuilder::new().with_config(config(threads)).with_default_features();
    let functions = builder.scalar_functions().get_or_insert_default();
    *functions = functions.drain(..).map(|function| bounded(function, result_bytes)).collect();
    builder.expr_planners().get_or_insert_default().push(Arc::new(CheckedConstants));
    builder
}

/// Parsing, planning and testing recurse as deep as conditions are joined: this deep they go.
const JOINED_MAX: usize = 2_000;
/// The stack for that, taken where less is left.
pub const STACK_BYTES: usize = 64 << 20;
const STACK_LEFT_BYTES: usize = 4 << 20;

/// Refuses text with more conditions joined than the stack is made for.
pub fn check_joined(text: &str) -> Result<(), DataFusionError> {
    let tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize()
        .map_err(|error| DataFusionError::SQL(Box::new(error.into()), None))?;
    let joins = |token: &&Token| match token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::StringConcat => true,
        _ => false,
    };
    let found = tokens.iter().filter(joins).count();
    if found <= JOINED_MAX {
        return Ok(());
    }
    let message = format!(
        "{found} operators are more than the {JOINED_MAX} that are taken; for a choice of values, IN (...) \
         needs none"
    );
    Err(DataFusionError::Plan(message))
}

/// Runs `work` with room on the stack for what [`check_joined`] lets through.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, work)
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
