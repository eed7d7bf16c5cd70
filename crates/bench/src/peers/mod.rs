//! What Drillcore is measured beside: files without any structure, SQLite, and other engines.

pub mod file_pages;
pub mod sqlite;
pub mod row_objects;
pub mod read_peer;
#[cfg(feature = "redb")]
pub mod redb_reads;
#[cfg(feature = "rocksdb")]
pub mod rocksdb_load;
#[cfg(feature = "rocksdb")]
pub mod rocksdb_reads;
