//! The commits that may not be in segments yet.

pub mod wal;
