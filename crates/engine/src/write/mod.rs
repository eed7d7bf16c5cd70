//! From a batch to a commit that snapshots show.

pub mod admission;
pub mod commit;
pub mod prepared_append;
pub mod erase;
pub mod reshaping;
