//! Estimates inside of queries.

pub mod estimate_options;
pub mod estimated_calls;
