//! Drillcore is an embedded database for live data. Many threads append to it, and at any moment you can read a row, a
//! range of keys or a set, or draw a uniform random sample, with error bars where an answer is an estimate.
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
//! - [`Database`] opens a directory for writing, or for reading beside the process that writes it. `examples/` has a program
//!   for each.
//! - [`Table`] appends, deletes and switches set indexes; [`TableSpec`] says what a table is.
//! - [`Snapshot`] and [`TableSnapshot`] read: [`get`](TableSnapshot::get), [`scan`](TableSnapshot::scan),
//!   [`count`](TableSnapshot::count), [`sample`](TableSnapshot::sample), [`estimate`](TableSnapshot::estimate).
//! - [`Error::kind`] says what a caller can do about an error.
//!
//! Each type has an example. Most of them go on from this one, with a column `delay` besides.
//!
//! Conditions and queries in SQL are in the crate `drillcore-sql`, and so is what reads aggregates and metrics from text.
//!
//! # Inside
//!
//! Everything that can be read is a list of sorted, immutable pieces (runs in memory, segments on disk).
//! A question is answered in two steps: *select* turns it into ordinals of pieces, *fetch* reads exactly
//! those rows. `ARCHITECTURE.md` gives the tour. Modules, from the ground up:

#![forbid(unsafe_code)]

mod error;
pub mod directory;
mod calls;
mod schema;
mod policy;
mod pieces;
mod select;
mod merge;
mod state;
mod maintenance;
mod catalog;
mod write;
mod read;
mod reports;
mod roles;
mod database;

pub use arrow_array;
pub use arrow_schema;
pub use calls::aside::aside;
pub use calls::interrupt::Interrupt;
pub use calls::progress::Progress;
pub use catalog::backup_target::BackupResult;
pub use database::background_writer::database_writer::DatabaseWriter;
pub use database::background_writer::failed_rows::FailedRows;
pub use database::background_writer::row_queue::AddStats;
pub use database::background_writer::table_writer::TableWriter;
pub use database::background_writer::writer_options::WriterOptions;
pub use database::backups::restore;
pub use database::handles::{Database, MaintenanceHold, Table};
pub use drillcore_storage::files::standard_streams::open_closed_streams;
pub use error::{Error, ErrorKind, Result, without_panic};
pub use read::estimate::aggregate::Aggregate;
pub use read::estimate::computed::{Computed, Expression};
pub use read::estimate::request::{EstimateRequest, HalfWidth, Stop, Watch};
pub use read::estimate::result::{AggregateEstimate, Estimate, Unreached};
pub use read::fresh_seed::fresh_seed;
pub use read::get::Found;
pub use read::partition::KeyPartition;
pub use read::request::{SampleReport, SampleRequest, ShareRequest};
pub use read::scan::{Scan, ScanRequest};
pub use read::sets::Sets;
pub use read::snapshot::{Snapshot, TableSnapshot};
pub use read::splits::KeySplit;
pub use reports::stats::{IndexedSetsStats, Stats, TableStats, WriterStats};
pub use reports::verify::VerifyReport;
pub use roles::deleting::DeleteResult;
pub use roles::updating::{Missing, UpdateResult};
pub use schema::conform::{AppendOptions, OnError, Rejected};
pub use schema::granularity::Granularity;
pub use schema::metric::Metric;
pub use schema::table_spec::{Merge, RollupSpec, TableSpec};
pub use schema::unit::Unit;
pub use select::key_range::{Between, Closed, SplitRange};
pub use select::predicate::Predicate;
pub use select::selection::Selection;
pub use state::moment::{At, Moment};
pub use state::options::{Durability, Options, ReadOptions};
// For tests of this crate alone.
#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub use state::publication_fault::PublicationFault;
pub use write::commit::AppendResult;
pub use write::prepared_append::PreparedAppend;

// Types of the floors below, each with an example here, where its callers see it.
/// A commit's number in the order of commits, as [`AppendResult::lsn`] and [`Snapshot::lsn`] give it.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::Lsn;
///
/// let newest = flights.snapshot()?.lsn();
/// assert!(newest > Lsn::default());
/// assert_eq!(Lsn::from(u64::from(newest)), newest);
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::ids::Lsn;
/// Which sets are indexed, as [`SetColumn::indexed`] has it.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// flights.unindex_all_sets()?;
/// let indexed = flights.schema().set.as_ref().unwrap().indexed.clone();
/// assert!(indexed.is_none() && !indexed.is_all());
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::indexed_sets::IndexedSets;
/// How far a source of rows has been read: [`PreparedAppend::commit`] stores it with rows of the source.
///
/// ```
/// use drillcore::SourcePosition;
///
/// let position = SourcePosition { source: "topic-0".into(), position: b"123".to_vec() };
/// let forgotten = SourcePosition { position: vec![], ..position };
/// # assert_eq!(forgotten.source, "topic-0");
/// ```
pub use drillcore_format::logged_commit::SourcePosition;
/// What rows with equal keys mean, as it is stored: [`TableSchema::merge`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::MergePolicy;
///
/// assert_eq!(flights.schema().merge, MergePolicy::Append);
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::MergePolicy;
/// How a metric folds values: [`StoredMetric::kind`].
///
/// ```
/// use drillcore::MetricKind;
///
/// let reads_a_column = |kind| !matches!(kind, MetricKind::Count);
/// assert!(reads_a_column(MetricKind::Avg));
/// ```
pub use drillcore_format::schema::MetricKind;
/// How a rollup table folds events into rows, as it is stored: [`MergePolicy::Rollup`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// # use drillcore::{Merge, RollupSpec, TableSpec};
/// use drillcore::{MergePolicy, Metric};
///
/// # let spec = RollupSpec::default().metric("worst", Metric::max("delay"));
/// # let spec = TableSpec::new(flights.schema().columns.clone(), ["id", "carrier"]).merge(Merge::Rollup(spec));
/// # let worst = flights.database().create_table("worst", spec)?;
/// let schema = worst.schema();
/// let MergePolicy::Rollup(rollup) = &schema.merge else { panic!("it is a rollup table") };
/// assert_eq!((rollup.declared, rollup.metrics.len()), (2, 1));
/// assert!(rollup.time.is_none() && !rollup.discovers);
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::Rollup;
/// The column whose values name the sets of a table: [`TableSchema::set`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let schema = flights.schema();
/// let set = schema.set.as_ref().expect("the table has sets");
/// assert_eq!(schema.columns.field(set.column).name(), "carrier");
/// assert!(set.indexed.is_all());
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::SetColumn;
/// Where rows have the columns of a table, once columns were dropped or widened: [`TableSchema::stored`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let number = |column| flights.schema().stored.number(column);
/// assert_eq!(number(1), 1);
/// flights.add_column("gate", &drillcore::arrow_schema::DataType::Utf8)?;
/// flights.drop_column("gate")?;
/// flights.add_column("gate", &drillcore::arrow_schema::DataType::Int64)?;
/// assert_eq!(number(3), 4); // 3 stays the number of the dropped column
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::StoredColumns;
/// The steps of a rollup table's time column, as they are stored: [`Rollup::granularity`]. [`Granularity`] has their names.
///
/// ```
/// use drillcore::StoredGranularity;
///
/// let hour = StoredGranularity::Seconds(3_600);
/// assert_ne!(hour, StoredGranularity::None);
/// ```
pub use drillcore_format::schema::StoredGranularity;
/// What a metric is made of, as it is stored: [`Rollup::metrics`]. [`Metric`] names its column instead.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// # use drillcore::{Merge, RollupSpec, TableSpec};
/// use drillcore::{MergePolicy, Metric, MetricKind, StoredMetric};
///
/// # let spec = RollupSpec::default().metric("worst", Metric::max("delay"));
/// # let spec = TableSpec::new(flights.schema().columns.clone(), ["id", "carrier"]).merge(Merge::Rollup(spec));
/// # let worst = flights.database().create_table("worst", spec)?;
/// let schema = worst.schema();
/// let MergePolicy::Rollup(rollup) = &schema.merge else { panic!("it is a rollup table") };
/// let StoredMetric { kind, input } = rollup.metrics[0];
/// assert_eq!(kind, MetricKind::Max);
/// assert_eq!(rollup.events.field(input.unwrap()).name(), "delay");
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::StoredMetric;
/// Which columns new segments also store by themselves: [`TableSchema::streams`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::Streams;
///
/// match &flights.schema().streams {
///     Streams::BySize => println!("those that make segments small enough"),
///     Streams::Only(columns) => println!("{} columns", columns.len()),
/// }
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::Streams;
/// A table's shape, as [`Table::schema`] gives it.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// let schema = flights.schema();
/// let key = schema.key.iter().map(|&column| schema.columns.field(column).name().as_str());
/// assert_eq!(key.collect::<Vec<_>>(), ["id"]);
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_format::schema::TableSchema;
/// How long rows are kept after the time in a column: [`TableSchema::ttl`].
///
/// ```
/// use drillcore::TimeToLive;
///
/// let week = TimeToLive { column: 0, seconds: 7 * 86_400 };
/// assert!(week.seconds < TimeToLive::SECONDS_MAX);
/// ```
pub use drillcore_format::schema::TimeToLive;
/// What is known of a column in some zones, for [`Predicate::may_match`].
///
/// ```
/// use drillcore::ColumnZones;
/// use drillcore::arrow_array::cast::AsArray;
/// use drillcore::arrow_array::types::Int64Type;
/// use drillcore::arrow_array::BooleanArray;
///
/// /// Which zones may hold a row whose delay is above 30.
/// fn may_be_late(delays: &ColumnZones) -> BooleanArray {
///     let maxes = delays.maxes.as_primitive::<Int64Type>();
///     maxes.iter().map(|most| most.map(|most| most > 30)).collect()
/// }
/// ```
pub use drillcore_format::statistics_page::ColumnZones;
/// Zones, which are consecutive blocks of rows, for [`Predicate::may_match`].
///
/// ```
/// use drillcore::Zones;
/// use drillcore::arrow_array::{Array, BooleanArray};
///
/// /// Leaves out the zones in which the first of the zone columns is null in all rows.
/// fn may_match(zones: &Zones) -> BooleanArray {
///     match zones.column(0) {
///         None => BooleanArray::from(vec![true; zones.len()]),
///         Some(known) => {
///             let nulls = known.null_counts.iter().zip(zones.rows());
///             nulls.map(|(nulls, rows)| Some(nulls? < rows?)).collect()
///         }
///     }
/// }
/// ```
pub use drillcore_format::statistics_page::Zones;
/// The name of a type, as users write it in schemas and as messages have it.
///
/// ```
/// use drillcore::arrow_schema::{DataType, TimeUnit};
/// use drillcore::type_name;
///
/// let moment = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
/// assert_eq!(type_name(&moment), "timestamp[us, UTC]");
/// ```
pub use drillcore_format::type_name::type_name;
/// What an average's interval allows values to be: [`AggregateEstimate::bounds`].
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::{Aggregate, EstimateRequest};
///
/// let aggregates = vec![("mean".into(), Aggregate::avg("delay"))];
/// let request = EstimateRequest { aggregates, ..EstimateRequest::default() };
/// let estimate = flights.snapshot()?.estimate(&request)?;
/// if let Some(bounds) = estimate.aggregates[0].bounds {
///     println!("its interval allows for delays from {} to {}", bounds.low, bounds.high);
/// }
/// # drillcore::Result::Ok(())
/// ```
pub use drillcore_sample::interval::Bounds;
/// An estimate with its error bars, as [`AggregateEstimate::intervals`] has them.
///
/// ```
/// use drillcore::{Interval, Method};
///
/// let mean = Interval { value: 12.0, low: 11.0, high: 13.5, method: Method::StudentT };
/// assert!(mean.contains(13.0) && mean.half_width() == 1.5);
/// ```
pub use drillcore_sample::interval::Interval;
/// How an [`Interval`] was found.
///
/// ```
/// use drillcore::Method;
///
/// assert_eq!(Method::Hypergeometric.to_string(), "hypergeometric");
/// ```
pub use drillcore_sample::interval::Method;

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
