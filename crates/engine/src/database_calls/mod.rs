//! Calls of the public handles that stand by themselves: a file per subject.

pub mod backups;
pub mod reshaping;
