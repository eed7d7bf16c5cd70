//! Arguments of the verbs that read rows, and of those that list what there is.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::shared_options::{Columns, Moment, Output, Selection, Source};

#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    pub source: Source,
    /// The key: one value per key column.
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    pub source: Source,
    /// Print at most this many rows.
    #[arg(long)]
    pub limit: Option<u64>,
    /// Print rows from the highest key to the lowest.
    #[arg(long)]
    pub reverse: bool,
    /// Number of threads that read; by default one per core.
    #[arg(long)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub selection: Selection,
}

#[derive(Debug, Args)]
pub struct Count {
    #[command(flatten)]
    pub source: Source,
    /// Count the events of a rollup table instead of its rows.
    #[arg(long)]
    pub events: bool,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub selection: Selection,
}

#[derive(Debug, Args)]
pub struct Sample {
    #[command(flatten)]
    pub source: Source,
    /// The number of rows.
    pub n: u64,
    /// Draw rows in proportion to this weight column.
    #[arg(long, value_name = "COLUMN")]
    pub weight: Option<String>,
    /// Draw with replacement: a row may be drawn more than once.
    #[arg(long)]
    pub replace: bool,
    /// If there are fewer rows, print those instead of failing.
    #[arg(long)]
    pub at_most: bool,
    /// Add a column with the probability of each row.
    #[arg(long)]
    pub with_probability: bool,
    /// Seed: repeats the sample on the same named snapshot (--at).
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of threads that read the drawn rows, at least 16,384 rows per thread; by default one.
    #[arg(long)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub selection: Selection,
}

#[derive(Debug, Args)]
pub struct Estimate {
    #[command(flatten)]
    pub source: Source,
    /// What to estimate: count, count(x), avg(x), sum(x), ratio(x, y), variance(x), stddev(x), quantile(x, 0.95), median(x),
    /// distinct(x), min(x) or max(x), where x is a column or an expression; each may have a filter, as in
    /// "avg(delay) filter (where miles > 500)" or "count(*) filter (where miles > 500)". Quantiles, min and max also take
    /// dates and timestamps.
    #[arg(required = true)]
    pub aggregates: Vec<String>,
    /// Group by this column or expression, such as "date_trunc('hour', ts)". Give it several times for several.
    #[arg(long, value_name = "COLUMN")]
    pub by: Vec<String>,
    /// In a rollup table, estimate events instead of rows: each event has the values of the row it was folded into.
    #[arg(long)]
    pub events: bool,
    /// Stop after drawing this many rows; by default 10,000.
    #[arg(short, long, conflicts_with_all = ["error", "seconds"])]
    pub n: Option<u64>,
    /// Stop when the half-width of every interval is at most this: 0.5, or 2% of the estimate. Of dates a number of days, of
    /// timestamps one of the column's unit.
    #[arg(long, value_name = "HALF-WIDTH", conflicts_with = "seconds")]
    pub error: Option<String>,
    /// Stop after this many seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Confidence level of each interval, between 0 and 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub confidence: f64,
    /// Apply the confidence level to all intervals together, over groups and aggregates.
    #[arg(long)]
    pub simultaneous: bool,
    /// Seed: repeats the estimate on the same named snapshot (--at).
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub selection: Selection,
}

#[derive(Debug, Args)]
pub struct Sets {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Tables {
    /// The database directory.
    pub database: PathBuf,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Describe {
    /// The database directory.
    pub database: PathBuf,
    /// The table's name; without it, all tables are listed.
    pub table: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Sql {
    /// The database directory.
    pub database: PathBuf,
    /// The query; - reads it from standard input. Without it, a prompt begins in a terminal; otherwise, the statements
    /// on standard input run up to the first that fails, each ended by a semicolon.
    pub query: Option<String>,
    /// Number of threads; by default one per core.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Memory budget of joins, sorts and aggregates, in bytes; by default 1 GiB.
    #[arg(long)]
    pub memory_bytes: Option<u64>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
}
