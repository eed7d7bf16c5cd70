//! From a batch to a commit that snapshots show, and from a table's shape to the next.

pub mod widening;
pub mod admission;
pub mod commit;
pub mod prepared_append;
pub mod erase;
pub mod reshaping;
