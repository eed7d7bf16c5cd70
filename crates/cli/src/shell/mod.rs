//! The prompt for queries.

pub mod statements;
pub mod completion;
pub mod prompt;
