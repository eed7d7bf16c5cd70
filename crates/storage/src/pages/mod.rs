//! Pages of immutable files: written in order, read one by one, cached for all readers.

pub mod io_counts;
pub mod shared_loads;
pub mod page_cache;
pub mod paged_file;
pub mod page_writer;
