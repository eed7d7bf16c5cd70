//! Which tables, indexed sets and named snapshots there are: one edit of the manifest each.

pub mod tables;
pub mod set_switches;
pub mod named_snapshot;
pub mod backup_target;
pub mod orphans;
pub mod backup;
