//! The door to files, and what stands between it and an operating system: names that last, descriptors, locks.

pub mod standard_streams;
pub(crate) mod permissions;
pub mod directory;
pub mod proven_names;
pub mod lease;
pub mod open_files;
