//! What a snapshot answers: rows, samples of them, and estimates.

pub mod partitioning;
pub mod passing;
pub mod partition;
pub mod scan_ahead;
pub mod scan;
pub mod weighted;
pub mod snapshot;
pub mod request;
pub mod shown;
pub mod draw;
pub mod sample;
pub mod estimate;
