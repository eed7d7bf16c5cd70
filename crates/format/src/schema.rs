//! A table's shape: its columns, sort key, set column and merge policy.

mod columns;
mod rollup;
mod stored_columns;
mod time_to_live;
mod table_schema;
mod check;
mod expiry;
mod reshaping;

pub use columns::{is_key_type, is_supported, list_of_strings};
pub(crate) use columns::{list_item, put_column, read_column};
pub use expiry::ExpiryLimit;
pub use rollup::{MetricKind, Rollup, StoredGranularity, StoredMetric};
pub use stored_columns::{Retired, StoredColumns};
pub use table_schema::{MergePolicy, SetColumn, Streams, TableSchema};
pub use time_to_live::{TimeToLive, is_time_type};
