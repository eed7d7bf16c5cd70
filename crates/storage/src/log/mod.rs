//! The commits that may not be in segments yet.

pub mod log_files;
mod synced_before;
pub mod reading;
mod turns;
pub mod wal;
pub mod recovery;
