//! Drillcore: an embedded store for live data that many threads pour into and that can be read, ranged,
//! grouped into sets and truly randomly sampled at any moment, with error bars where an answer is an
//! estimate.
//!
//! Everything that can be read is a list of sorted, immutable pieces (runs in memory, segments on disk).
//! A question is answered in two steps: *select* turns it into ordinals of pieces, *fetch* reads exactly
//! those rows. `ARCHITECTURE.md` gives the tour. Modules, from the ground up:

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
mod database;

pub use arrow_array;
pub use arrow_schema;
pub use calls::aside::aside;
pub use calls::interrupt::Interrupt;
pub use database::{Database, MaintenanceHold, Table};
pub use drillcore_format::schema::{MergePolicy, TableSchema};
pub use drillcore_format::statistics_page::{ColumnZones, Zones};
pub use drillcore_sample::interval::{Bounds, Interval, Method};
pub use drillcore_storage::files::directory;
pub use drillcore_storage::files::standard_streams::open_closed_streams;
pub use error::{Error, ErrorKind, Result, without_panic};
pub use options::{Durability, Options};
pub use read::estimate::request::{EstimateRequest, HalfWidth, Stop, Watch};
pub use read::estimate::result::{AggregateEstimate, Estimate};
pub use read::partition::KeyPartition;
pub use read::sample::{SampleReport, SampleRequest, ShareRequest, Unit, fresh_seed};
pub use read::scan::{Scan, ScanRequest};
pub use read::snapshot::{Found, Sets, Snapshot, TableSnapshot};
pub use reader::Reader;
pub use reports::stats::{IndexedSetsStats, Stats, TableStats, WriterStats};
pub use reports::verify::VerifyReport;
pub use schema::conform::{AppendOptions, OnError, Rejected};
pub use schema::table_spec::{Merge, RollupSpec, TableSpec};
pub use select::key_range::{Between, Closed};
pub use select::predicate::Predicate;
pub use select::selection::Selection;
#[cfg(shuttle)]
pub use state::publication_fault::PublicationFault;
pub use write::commit::AppendResult;
