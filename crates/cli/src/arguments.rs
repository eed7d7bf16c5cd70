//! What can be typed: verbs, arguments and options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// An embedded store for live data: ingest, read, and draw truly random samples with error bars.
#[derive(Debug, Parser)]
#[command(name = "drillcore", version, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Append files to a table; makes the table if it is missing.
    Ingest(Ingest),
    /// Print the row with a key. Exit code 1 if there is none.
    Get(Get),
    /// Print rows in key order.
    Scan(Scan),
    /// Print the exact number of rows.
    Count(Count),
    /// Print random rows.
    Sample(Sample),
    /// Print estimates with error bars.
    Estimate(Estimate),
    /// Print every set with its number of rows.
    Sets(Of),
    /// Print the result of a SQL query over all tables as of now.
    Sql(Sql),
    /// Print tables, sizes and counters as JSON.
    Stats(Database),
    /// Check every checksum, order, count and index. Exit code 1 if something is damaged.
    Verify(Database),
    /// Write all rows out and merge each table into one segment.
    Compact(Database),
    /// Measure this build beside SQLite on this machine.
    Bench(drillcore_bench::Arguments),
}

#[derive(Debug, Args)]
pub struct Database {
    /// The database's folder.
    pub database: PathBuf,
}

#[derive(Debug, Args)]
pub struct Of {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Sql {
    /// The database's folder.
    pub database: PathBuf,
    /// Such as "select carrier, avg(dep_delay) from flights group by carrier"; - reads it from standard input.
    pub query: String,
    /// Threads that work at once; by default one a core.
    #[arg(long)]
    pub threads: Option<usize>,
    #[arg(long, value_enum, default_value_t = Style::Table)]
    pub output: Style,
}

#[derive(Debug, Args)]
pub struct Ingest {
    /// The database's folder; made if it is missing.
    pub database: PathBuf,
    pub table: String,
    /// CSV, JSONL, Parquet or Arrow files, also .gz and .zst; - is standard input. CSV holds neither lists
    /// nor binary; JSONL holds binary in hex.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Columns of the sort key, for a new table.
    #[arg(long, value_delimiter = ',')]
    pub key: Vec<String>,
    /// What equal keys mean, for a new table.
    #[arg(long, value_enum, default_value_t = MergeName::Append)]
    pub merge: MergeName,
    /// The column whose values name the sets, for a new table.
    #[arg(long)]
    pub set: Option<String>,
    /// Columns that rows can be drawn by, for a new table.
    #[arg(long, value_delimiter = ',')]
    pub weights: Vec<String>,
    /// What the files hold; by default their names tell, and standard input is CSV.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Threads that append.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// Rows of a commit.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_rows: u32,
    /// What to do with rows that do not fit the table.
    #[arg(long, value_enum, default_value_t = OnErrorName::Raise)]
    pub on_error: OnErrorName,
    /// No progress bar.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Get {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    /// The key's values, one a key column.
    #[arg(required = true)]
    pub key: Vec<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Scan {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    #[command(flatten)]
    pub selection: Selection,
    /// At most so many rows.
    #[arg(long)]
    pub limit: Option<u64>,
    /// From the highest key down.
    #[arg(long)]
    pub reverse: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Count {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    #[command(flatten)]
    pub selection: Selection,
    /// Count the events of a rollup table instead of its rows.
    #[arg(long)]
    pub events: bool,
}

#[derive(Debug, Args)]
pub struct Sample {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    /// The number of rows.
    pub n: u64,
    #[command(flatten)]
    pub selection: Selection,
    /// Draw in proportion to this column.
    #[arg(long)]
    pub weight: Option<String>,
    /// Let a row be drawn more than once.
    #[arg(long)]
    pub replace: bool,
    /// Print what there is where there are fewer rows.
    #[arg(long)]
    pub at_most: bool,
    /// Add each row's probability.
    #[arg(long)]
    pub with_probability: bool,
    /// The same seed on unchanged data gives the same rows.
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Estimate {
    /// The database's folder.
    pub database: PathBuf,
    pub table: String,
    /// Such as "count" or "avg(delay)".
    #[arg(required = true)]
    pub aggregates: Vec<String>,
    /// One result for each value of this column.
    #[arg(long)]
    pub by: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    /// Stop after so many rows (the default is 10,000) ...
    #[arg(long, conflicts_with_all = ["error", "seconds"])]
    pub n: Option<u64>,
    /// ... or when every interval is this narrow: 0.5, or 2% of the estimate ...
    #[arg(long, conflicts_with = "seconds")]
    pub error: Option<String>,
    /// ... or after so many seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    #[arg(long, default_value_t = 0.95)]
    pub confidence: f64,
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub output: Output,
}

/// Which rows.
#[derive(Debug, Args)]
pub struct Selection {
    /// The lowest key: values of the first key columns, separated by commas.
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// The highest key, which includes every key that begins with it.
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only these sets; may come several times.
    #[arg(long)]
    pub set: Vec<String>,
    /// The rows that have no value in the set column.
    #[arg(long)]
    pub null_set: bool,
    /// Only rows that meet this SQL condition, such as "dep_delay > 15 and origin = 'JFK'".
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
}

/// What is printed, and how.
#[derive(Debug, Args)]
pub struct Output {
    /// The columns, in that order; all by default.
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    #[arg(long, value_enum, default_value_t = Style::Table)]
    pub output: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    Table,
    /// Binary in hex; cannot hold lists.
    Csv,
    /// Binary in hex.
    Jsonl,
    /// An Arrow IPC stream.
    Arrow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Csv,
    Jsonl,
    Parquet,
    /// An Arrow IPC file or stream.
    Arrow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MergeName {
    Append,
    Upsert,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorName {
    Raise,
    Skip,
}
