//! Drillcore is an embedded store for live data. Many threads append to it, and at any moment you can read a row, a
//! range of keys or a set, or draw a truly random sample, with error bars where an answer is an estimate.
//!
//! ```
//! use std::sync::Arc;
//!
//! use drillcore::arrow_array::{Int64Array, RecordBatch, StringArray};
//! use drillcore::arrow_schema::{DataType, Field, Schema};
//! use drillcore::{Database, OnError, Options, SampleRequest, Selection, TableSpec};
//!
//! # fn main() -> drillcore::Result<()> {
//! let db = Database::in_memory(Options::default())?;
//! let columns = Arc::new(Schema::new(vec![
//!     Field::new("id", DataType::Int64, false),
//!     Field::new("carrier", DataType::Utf8, true),
//! ]));
//! // Sorted by `id`; the rows of one carrier are a set.
//! let flights = db.create_table("flights", TableSpec::new(columns.clone(), ["id"]).set("carrier"))?;
//! let ids = Int64Array::from_iter_values(0..100);
//! let carriers = StringArray::from_iter_values((0..100).map(|id| if id < 30 { "UA" } else { "DL" }));
//! let batch = RecordBatch::try_new(columns, vec![Arc::new(ids), Arc::new(carriers)]).unwrap();
//! flights.append(&batch, OnError::Raise)?;
//!
//! // A snapshot shows one moment, whatever is appended meanwhile.
//! let now = flights.snapshot()?;
//! let united = Selection { sets: Some(Arc::new(StringArray::from(vec!["UA"]))), ..Selection::default() };
//! assert_eq!(now.count(&united)?, 30);
//! let drawn = now.sample(&SampleRequest { n: 5, selection: united, ..SampleRequest::default() })?;
//! assert_eq!(drawn.num_rows(), 5);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Database`] opens a folder for writing, or for reading beside the process that writes it. `examples/` has a program
//!   for each.
//! - [`Table`] appends, deletes and switches set indexes; [`TableSpec`] says what a table is.
//! - [`Snapshot`] and [`TableSnapshot`] read: [`get`](TableSnapshot::get), [`scan`](TableSnapshot::scan),
//!   [`count`](TableSnapshot::count), [`sample`](TableSnapshot::sample), [`estimate`](TableSnapshot::estimate).
//! - [`Error::kind`] says what a caller can do about an error.
//!
//! Conditions and queries in SQL are in the crate `drillcore-sql`.
//!
//! # Inside
//!
//! Everything that can be read is a list of sorted, immutable pieces (runs in memory, segments on disk).
//! A question is answered in two steps: *select* turns it into ordinals of pieces, *fetch* reads exactly
//! those rows. `ARCHITECTURE.md` gives the tour. Modules, from the ground up:

#![warn(missing_docs)]

mod error;
mod calls;
mod options;
mod schema;
mod pieces;
mod select;
mod merge;
mod state;
mod maintenance;
mod catalog;
mod write;
mod opening;
mod read;
mod reports;
mod reader;
mod writer;
mod database;

pub use arrow_array;
pub use arrow_schema;
pub use calls::aside::aside;
pub use calls::interrupt::Interrupt;
pub use database::{Database, MaintenanceHold, Table};
pub use drillcore_format::ids::Lsn;
pub use drillcore_format::schema::{MergePolicy, TableSchema};
pub use drillcore_format::statistics_page::{ColumnZones, Zones};
pub use drillcore_sample::interval::{Bounds, Interval, Method};
pub use drillcore_storage::files::directory;
pub use drillcore_storage::files::standard_streams::open_closed_streams;
pub use error::{Error, ErrorKind, Result, without_panic};
pub use options::{Durability, Options, ReadOptions};
pub use read::estimate::aggregate::Aggregate;
pub use read::estimate::request::{EstimateRequest, HalfWidth, Stop, Watch};
pub use read::estimate::result::{AggregateEstimate, Estimate};
pub use read::partition::KeyPartition;
pub use read::request::{SampleReport, SampleRequest, ShareRequest, Unit};
pub use read::sample::fresh_seed;
pub use read::scan::{Scan, ScanRequest};
pub use read::snapshot::{Found, Sets, Snapshot, TableSnapshot};
pub use reports::stats::{IndexedSetsStats, Stats, TableStats, WriterStats};
pub use reports::verify::VerifyReport;
pub use schema::conform::{AppendOptions, OnError, Rejected};
pub use schema::granularity::Granularity;
pub use schema::metric::Metric;
pub use schema::table_spec::{Merge, RollupSpec, TableSpec};
pub use select::key_range::{Between, Closed};
pub use select::predicate::Predicate;
pub use select::selection::Selection;
#[cfg(shuttle)]
pub use state::publication_fault::PublicationFault;
pub use write::commit::AppendResult;

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
