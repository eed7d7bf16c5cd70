//! Files: the folder a database lives in, its log, its manifest and its segments.
//!
//! Everything here is about bytes that outlive the process and about reading them back as few at a time
//! as the question allows. What a row means, and when to write which file, is left to the engine.
//! Modules, from the ground up:

pub mod sync;
pub mod error;
pub mod standard_streams;
mod permissions;
pub mod directory;
pub mod proven_names;
pub mod open_files;
pub mod lease;
pub mod wal;
pub mod manifest;
pub mod io_counts;
mod shared_loads;
pub mod page_cache;
mod ordinal_list;
pub mod paged_file;
mod page_writer;
pub mod set_postings;
mod set_lists;
pub mod segment;
pub mod segment_writer;
pub mod postings_writer;
pub mod segment_check;
