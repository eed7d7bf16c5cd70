//! The commits that may not be in segments yet.

pub mod log_files;
pub mod wal;
