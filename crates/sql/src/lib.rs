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
mod parameters;
mod syntax;
mod plan_schema;
mod one_nan;
mod checked_arithmetic;
mod bounded_functions;
mod moments;
mod constants;
mod session;
mod sliding_floats;
mod checked_sum;
mod float_extremes;
mod narrow;
mod zones;
mod finer_times;
mod compared_literals;
mod compared_decimals;
mod computed_lists;
mod exact_lists;
mod predicate;
mod aggregates;
mod subqueries;
mod null_safe_joins;
mod subquery_names;
mod unknown_memberships;
mod computed_keys;
mod scan_exec;
mod key_order;
mod table;
mod table_sample;
mod parquet_file;
mod packing;
mod csv_file;
mod file_table;
mod columns_first;
mod from_first;
mod estimate_options;
mod estimated_calls;
mod ended_queries;
mod query;
mod delete;
mod parquet_writer;

pub use advice::{Advice, advised};
pub use aggregates::{Aggregates, aggregates};
pub use delete::delete;
pub use notation::{parse_granularity, parse_metric};
pub use packing::Packing;
pub use parameters::Parameters;
pub use parquet_writer::{ParquetCompression, ParquetWriteError, ParquetWriter};
pub use predicate::{predicate, predicate_interruptibly};
pub use query::{MEMORY_BYTES, Query, QueryOptions, query};
pub use syntax::is_delete;
pub use type_names::with_type_names;
