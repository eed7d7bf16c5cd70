//! Drillcore: an embedded store for live data that many threads pour into and that can be read, ranged,
//! grouped into sets and truly randomly sampled at any moment, with error bars where an answer is an
//! estimate.
//!
//! Everything that can be read is a list of sorted, immutable pieces (runs in memory, segments on disk).
//! A question is answered in two steps: *select* turns it into ordinals of pieces, *fetch* reads exactly
//! those rows. `ARCHITECTURE.md` gives the tour. Modules, from the ground up:

mod error;
mod interrupt;
mod aside;
mod side_by_side;
mod options;
mod memory_meter;
mod database_path;
mod name;
mod table_spec;
mod schema_difference;
mod rows_examined;
mod exact_cast;
mod value_limits;
mod conform;
mod set_index;
mod weight_index;
mod extremes;
mod run;
mod piece;
mod unindexed_sets;
mod key_range;
mod predicate;
mod select;
mod resolved_selections;
mod fetch;
mod cut;
mod rollup;
mod merge;
mod pruning;
mod piece_source;
mod live;
mod passing;
mod ladder;
mod put_off;
mod state;
#[cfg(shuttle)]
mod publication_fault;
mod core;
mod room;
mod indexing;
mod jobs;
mod maintenance;
mod closing;
mod admission;
mod widening;
mod set_indexing;
mod tables;
mod commit;
mod named_snapshot;
mod recovery;
mod stretch;
mod scan_ahead;
mod scan;
mod weighted;
mod snapshot;
mod sample;
mod estimate;
mod stats;
mod verify;
mod reader;
mod database;

pub use arrow_array;
pub use arrow_schema;
pub use aside::aside;
pub use commit::AppendResult;
pub use conform::{AppendOptions, OnError, Rejected};
pub use database::{Database, MaintenanceHold, Table};
pub use drillcore_format::schema::{MergePolicy, TableSchema};
pub use drillcore_format::statistics_page::{ColumnZones, Zones};
pub use drillcore_sample::interval::{Bounds, Interval, Method};
pub use drillcore_storage::directory;
pub use drillcore_storage::standard_streams::open_closed_streams;
pub use error::{Error, ErrorKind, Result, without_panic};
pub use estimate::{AggregateEstimate, Estimate, EstimateRequest, HalfWidth, Stop, Watch};
pub use interrupt::Interrupt;
pub use key_range::{Between, Closed};
pub use options::{Durability, Options};
pub use predicate::Predicate;
#[cfg(shuttle)]
pub use publication_fault::PublicationFault;
pub use reader::Reader;
pub use sample::{SampleReport, SampleRequest, ShareRequest, Unit, fresh_seed};
pub use scan::{Scan, ScanRequest};
pub use select::Selection;
pub use snapshot::{Found, Sets, Snapshot, TableSnapshot};
pub use stats::{IndexedSetsStats, Stats, TableStats, WriterStats};
pub use stretch::Stretch;
pub use table_spec::{Merge, RollupSpec, TableSpec};
pub use verify::VerifyReport;
