//! The command line: verbs, arguments and options.

pub mod shared_options;
pub mod export;
pub mod backup;
pub mod ingest;
pub mod altering;
pub mod reading;
pub mod verb;
