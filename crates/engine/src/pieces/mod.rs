//! Sorted, immutable arrays of rows: runs in memory, segments on disk, and the indexes that a run carries.

pub mod memory_meter;
pub mod rows_examined;
pub mod set_index;
pub mod weight_index;
pub mod member_weights;
pub mod extremes;
pub mod times;
pub mod run;
pub mod live_weights;
pub mod erased_rows;
pub mod alive_rows;
pub mod live_rows;
pub mod liveness;
pub mod piece;
pub mod key_lookup;
pub mod sequential_reader;
