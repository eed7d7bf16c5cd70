//! What a table's merge policy makes of its rows. Other folders call what stands here instead of telling policies apart. In ten
//! lines they still ask whether rows are all kept, combined, or deleted by key, where that changes what is read.

pub mod batch_coder;
pub mod rollup;
pub mod tombstones;
pub mod fold;
pub mod table_policy;
pub mod refusals;
pub mod column_changes;
