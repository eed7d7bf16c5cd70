//! The arguments of `drillcore ingest`.

use std::path::PathBuf;
use std::time::Duration;

use arrow_schema::DataType;
use clap::{Args, ValueEnum};
use drillcore::{Error, ErrorKind, Granularity, Metric};
use drillcore_sql::{parse_granularity, parse_metric};

use crate::arguments::shared_options::Format;
use crate::column_type::column_type;
use crate::duration::parse_duration;

pub const NOTES: &str = "\
Files:
  - The column types of a new table are guessed from the first 10,000 rows, or 4 MiB if that is less. --type overrides
    a guess. A column without values there is a string.
  - CSV cannot hold lists or binary. JSONL has one object per line, with binary in hex.
  - Field b of an object in column a is column a.b, down to 32 levels. An array of strings is a list. Any other array
    is text as JSON, and so is each array or object of a column that has such an array or stores strings.
  - Times with an offset, such as 2013-07-04T09:00:00Z, need a column with a time zone; a new one is in UTC. Times
    without an offset fit any time column; in one with a time zone they are local times there.
  - A text record may have up to 32 MiB.

Examples:
  drillcore ingest flights.drill flights 2013.csv --key time_hour,flight --set carrier --weights distance
  drillcore ingest fleet.drill planes planes.jsonl --key tailnum --merge upsert
  drillcore ingest flights.drill hourly 2013.csv --merge rollup --time time_hour --granularity 1h \\
      --dimension carrier --metric flights=count --metric \"delay=sum(dep_delay)\"
  zcat 2014.csv.gz | drillcore ingest flights.drill flights - --key time_hour,flight --type flight=int32";

#[derive(Debug, Args)]
pub struct Ingest {
    /// The database directory. Created if it does not exist.
    pub database: PathBuf,
    /// The table's name.
    pub table: String,
    /// CSV, JSONL, Parquet or Arrow files, also compressed (.gz, .zst); - is standard input.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Format of the files; by default their names decide, and standard input is CSV.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The character between the cells of CSV, such as ';'; \t is a tab. By default a comma, and a tab in files named .tsv.
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    pub separator: Option<u8>,
    /// Number of threads that parse and sort rows; by default as many as cores. Rows are committed in the order of the
    /// files, whatever their number.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: Option<u8>,
    /// Rows per commit.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_rows: u32,
    /// What to do with lines that cannot be parsed, and rows that do not fit the table. skip leaves them out, and
    /// reports the first 20 on standard error.
    #[arg(long, value_enum, default_value_t = OnErrorName::Raise)]
    pub on_error: OnErrorName,
    /// Store null where rows of an upsert table lack a column. Without it, they must have every column that the table
    /// was created with, because an upsert replaces whole rows. Weights are never filled.
    #[arg(long)]
    pub fill_nulls: bool,
    /// Continue an ingest of these files into this table, however it ended. Each commit stores how far its file was read, so
    /// no row is lost or stored twice. Fails if a file has changed since, or if it is standard input. Files that an ingest
    /// without this option has read to their end are known for 1,000 more files.
    #[arg(long)]
    pub resume: bool,
    /// Show no progress bar.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub shape: Shape,
}

/// What a new table looks like.
#[derive(Debug, Args)]
#[command(next_help_heading = "For a new table (for one that exists, they must agree with it)")]
pub struct Shape {
    /// Columns of the sort key. In a rollup table, --time and --dimension are added if it lacks them.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub key: Vec<String>,
    /// The type of a column, instead of the one guessed; add-column lists the types. A column of JSONL for which this is
    /// string takes numbers, booleans, arrays and objects too, as text. Can be repeated.
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = typed_column)]
    pub column_types: Vec<(String, DataType)>,
    /// What happens to rows with equal keys; by default append.
    #[arg(long, value_enum)]
    pub merge: Option<MergeName>,
    /// The column whose values name the sets.
    #[arg(long, value_name = "COLUMN")]
    pub set: Option<String>,
    /// Do not index sets; see index-sets.
    #[arg(long, requires = "set")]
    pub no_set_index: bool,
    /// Columns that samples can be weighted by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub weights: Vec<String>,
    /// Columns to store a second time by themselves, which makes scans of few columns faster. By default: numbers,
    /// times, booleans and strings that repeat.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub streams: Vec<String>,
    /// Store no column by itself. This takes less disk space.
    #[arg(long, conflicts_with = "streams")]
    pub no_streams: bool,
    /// How long after the time in a column rows are kept, as in ts=7d; by default for good. See set-ttl.
    #[arg(long, value_name = "COLUMN=TIME", value_parser = time_to_live)]
    pub ttl: Option<(String, Duration)>,
    #[command(flatten)]
    pub rollup: Rollup,
}

/// How a new rollup table folds.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "For a new table with --merge rollup (columns that it does not use are skipped)"
)]
pub struct Rollup {
    /// The time column, which is truncated to the granularity.
    #[arg(long, value_name = "COLUMN", requires = "granularity")]
    pub time: Option<String>,
    /// The granularity: 1s, 1m, 5m, 15m, 30m, 1h, 1d, or none.
    #[arg(long, value_name = "STEP", requires = "time", value_parser = parse_granularity)]
    pub granularity: Option<Granularity>,
    /// Columns to group by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub dimension: Vec<String>,
    /// Make a dimension of every column that is neither in the key nor read by a metric.
    #[arg(long)]
    pub discover: bool,
    /// A metric: a name, and count, or sum, min, max or avg of a column. Can be repeated.
    #[arg(long, value_name = "NAME=EXPRESSION", value_parser = metric)]
    pub metric: Vec<(String, Metric)>,
}

/// "zip=string".
fn typed_column(text: &str) -> Result<(String, DataType), String> {
    match text.split_once('=') {
        Some((name, type_name)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), column_type(type_name)?))
        }
        _ => {
            Err("expected COLUMN=TYPE, such as zip=string or landed=\"timestamp[us, UTC]\""
                .to_string())
        }
    }
}

/// "ts=7d".
fn time_to_live(text: &str) -> Result<(String, Duration), String> {
    match text.split_once('=') {
        Some((name, duration)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), parse_duration(duration)?))
        }
        _ => Err("expected COLUMN=TIME, such as ts=7d or ts=\"1h 30m\"".to_string()),
    }
}

/// "delay=sum(dep_delay)".
fn metric(text: &str) -> Result<(String, Metric), Error> {
    match text.split_once('=') {
        Some((name, expression)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), parse_metric(expression)?))
        }
        _ => {
            let message = "expected NAME=EXPRESSION, such as n=count or delay=sum(dep_delay)";
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

impl Rollup {
    /// The options that were given.
    pub fn given(&self) -> Vec<&'static str> {
        let options = [
            ("--time", self.time.is_some()),
            ("--granularity", self.granularity.is_some()),
            ("--dimension", !self.dimension.is_empty()),
            ("--discover", self.discover),
            ("--metric", !self.metric.is_empty()),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MergeName {
    /// Keep all rows, in commit order.
    Append,
    /// Keep the newest row; rows can also be deleted by key and updated.
    Upsert,
    /// Fold rows into counts, sums, minima, maxima and averages.
    Rollup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorName {
    /// Stop at the first bad row. Earlier commits remain.
    Raise,
    /// Leave bad rows out, and report why.
    Skip,
}

/// A character that may stand between the cells of CSV.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => {
            Err("expected one ASCII character other than a quote or a line break, or \\t"
                .to_string())
        }
    }
}
