//! Functions and aggregates in the place of DataFusion's, and those that it lacks.

pub mod checked_decimals;
pub mod checked_arithmetic;
pub mod bounded_functions;
pub mod checked_results;
pub mod plain_arguments;
pub mod guarded_functions;
pub mod moments;
pub mod sliding_floats;
pub mod checked_sum;
pub mod float_extremes;
pub mod exact_percentiles;
