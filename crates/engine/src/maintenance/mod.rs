//! What happens in the background: flushes, merges and lists of sets, and how it ends.

pub mod tiering;
pub mod room;
pub mod merge_choice;
pub mod progress;
pub mod yield_points;
pub mod segment_writing;
pub mod fresh_pieces;
pub mod fresh_segments;
pub mod set_indexing;
pub mod spilling;
pub mod jobs;
pub mod run_compaction;
pub mod scheduler;
pub mod closing;
