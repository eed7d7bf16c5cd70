//! Pages of immutable files: written in order, read one by one, cached for all readers.

pub mod io_counts;
mod shared_loads;
mod shares;
mod closed_files;
mod joined_reads;
pub mod paged_file;
pub mod files_ahead;
pub(crate) mod page_writer;
pub mod page_cache;
pub(crate) mod held_dictionary;
