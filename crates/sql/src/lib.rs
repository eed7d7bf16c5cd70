//! SQL over snapshots: conditions for reads of one table, and queries over all tables of one snapshot.
//!
//! Text is parsed, planned and executed by DataFusion; what is ours is how its plans reach the engine. A
//! table scan takes along the columns and conditions it needs: comparisons of key columns become key
//! ranges, those of the set column become sets, and the rest is tested in the scan, on folded rows.
//! `TABLESAMPLE` samples what the `WHERE` leaves of its table. Rows of any read become a Parquet file. The crate also reads how
//! aggregates, metrics and granularities are written, for all faces.
//!
//! DataFusion's types stay inside this crate. Modules, from the ground up:

#![forbid(unsafe_code)]

mod type_names;
mod notation;
mod advice;
mod error;
mod trees;
mod parsing;
mod rules;
mod functions;
mod session;
mod conditions;
mod tables;
mod files;
mod estimates;
mod ended_queries;
mod result_names;
mod query;
mod delete;

pub use advice::{Advice, advised};
pub use conditions::aggregates::{Aggregates, aggregates};
pub use conditions::predicate::{predicate, predicate_interruptibly};
pub use delete::delete;
pub use files::packing::Packing;
pub use files::parquet_file::parquet_metadata;
pub use files::parquet_writer::{ParquetCompression, ParquetWriteError, ParquetWriter};
pub use notation::{parse_granularity, parse_metric};
pub use parsing::parameters::Parameters;
pub use parsing::syntax::is_delete;
pub use query::{MEMORY_BYTES, Query, QueryOptions, query};
pub use type_names::with_type_names;
