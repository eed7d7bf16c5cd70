//! What a snapshot answers: rows, samples of them, and estimates.

pub mod snapshot;
pub mod alive;
pub mod resolved;
pub mod partition;
pub mod held_scan;
pub mod scan_ahead;
pub mod scan;
pub mod grouped_weights;
pub mod arrivals;
pub mod weighted;
pub mod count;
pub mod sets;
pub mod whole_rows;
pub mod get;
pub mod request;
pub mod fresh_seed;
pub mod shown;
pub mod staying;
pub mod draw;
pub mod splits;
pub mod sample;
pub mod estimate;
