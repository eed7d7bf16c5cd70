//! The door to files, and what stands between it and an operating system: names that last, descriptors, locks.

pub mod standard_streams;
pub(crate) mod permissions;
pub mod process;
pub mod reads;
pub mod read_threads;
pub mod directory;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
pub mod local_directory;
pub mod memory_directory;
pub mod whole_file;
pub mod links;
pub mod proven_names;
pub mod lease;
pub mod open_files;
