//! What can be typed: verbs, arguments and options.

use std::path::PathBuf;

use arrow_schema::DataType;
use clap::{Args, Parser, Subcommand, ValueEnum};
use drillcore::{Aggregate, Error, ErrorKind, Granularity, Metric};

use crate::column_type::column_type;

/// An embedded store for live data: ingest, read, and draw truly random samples with error bars.
///
/// A database is a folder. One process writes to it, any number read beside it. Verbs that read may run at any
/// time; those that write wait for nobody: they fail while another process writes.
#[derive(Debug, Parser)]
#[command(name = "drillcore", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the answer is no: get found no row, verify found damage, two engines or tables disagree
  2    the call is wrong: there is no such database, table or column, or too few rows; nothing was changed,
       or it says how much was
  3    the database or a file cannot be used: another process writes, damage, a full disk,
       a file that ends too early
  130  stopped by Ctrl-C

Try it:
  drillcore demo
  drillcore ingest flights.drill flights 2013.csv --key time_hour,flight --set carrier
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --by carrier";

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Append files to a table; makes the table if it is missing.
    #[command(after_help = INGEST_EXAMPLES)]
    Ingest(Ingest),
    /// Delete rows of an upsert table by key, and print how many there were.
    #[command(after_help = "\
Examples:
  drillcore delete fleet.drill planes N14228
  drillcore delete fleet.drill planes --keys scrapped.csv")]
    Delete(Delete),
    /// Add a column to a table, behind the others; older rows are null there. A rollup table gets a dimension.
    #[command(after_help = "\
Types: bool, int8 to int64, uint8 to uint64, float32, float64, string, binary, date32, list<string>,
  \"timestamp[us]\", \"timestamp[us, UTC]\" (also s, ms and ns), \"decimal128(10, 2)\"

Examples:
  drillcore add-column flights.drill flights gate string
  drillcore add-column flights.drill flights landed \"timestamp[us, UTC]\"")]
    AddColumn(AddColumn),
    /// Print the row with a key. Exit code 1 if there is none.
    #[command(after_help = "\
Example:
  drillcore get flights.drill flights 2013-01-01T05:00:00 1545 --output jsonl")]
    Get(Get),
    /// Print rows in key order.
    #[command(after_help = "\
Examples:
  drillcore scan flights.drill flights --from 2013-07-04 --to 2013-07-04T12:00:00 --set UA
  drillcore scan flights.drill flights --where \"dep_delay > 300\" --columns flight,dep_delay --output csv")]
    Scan(Scan),
    /// Print the exact number of rows.
    #[command(after_help = "\
Example:
  drillcore count flights.drill flights --set UA --where \"dep_delay > 60\"")]
    Count(Count),
    /// Print random rows.
    #[command(after_help = "\
Examples:
  drillcore sample flights.drill flights 5 --set UA
  drillcore sample flights.drill flights 1000 --weight distance --seed 7 --output arrow > rows.arrow")]
    Sample(Sample),
    /// Print estimates with error bars.
    #[command(after_help = "\
Examples:
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --by carrier
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --error 2% --where \"month = 7\"")]
    Estimate(Estimate),
    /// Print every set with its number of rows.
    #[command(after_help = "\
Example:
  drillcore sets flights.drill flights --output csv")]
    Sets(Sets),
    /// Index sets of a table: finding their rows costs what they cost. Returns when older rows are indexed, too.
    #[command(after_help = "\
The work goes on in whatever process writes next if this one is stopped. No answer depends on it.

Examples:
  drillcore index-sets flights.drill flights --all
  drillcore index-sets flights.drill flights UA \"9E\"")]
    IndexSets(SwitchSets),
    /// Index sets of a table no more: appends save the cost, and finding their rows takes a pass over the set column.
    #[command(after_help = "\
Example:
  drillcore unindex-sets flights.drill flights --all")]
    UnindexSets(SwitchSets),
    /// Print the result of a SQL query over all tables as of one moment.
    #[command(after_help = "\
Examples:
  drillcore sql flights.drill \"select carrier, avg(dep_delay) from flights group by carrier\"
  drillcore sql flights.drill \"describe flights\"
  drillcore sql flights.drill - --output csv < query.sql")]
    Sql(Sql),
    /// Print all tables: what equal keys mean, key, set column, number of rows.
    #[command(after_help = "\
Example:
  drillcore tables flights.drill")]
    Tables(Tables),
    /// Keep all tables as they are now under a name, for --at; a name that is taken stays as it is.
    #[command(after_help = "\
Example:
  drillcore snapshot flights.drill training
  drillcore sample flights.drill flights 1000 --at training --seed 7")]
    Snapshot(SnapshotName),
    /// Print the named snapshots with the commits that they show.
    #[command(after_help = "\
Example:
  drillcore snapshots flights.drill")]
    Snapshots(Snapshots),
    /// Forget a named snapshot, and remove the files that only it needed.
    #[command(after_help = "\
Example:
  drillcore drop-snapshot flights.drill training")]
    DropSnapshot(SnapshotName),
    /// Print sizes and counters as JSON. Those that only the process that writes knows are null.
    #[command(after_help = "\
Example:
  drillcore stats flights.drill | python -m json.tool")]
    Stats(Database),
    /// Check every checksum, order, count and index. Exit code 1 if something is damaged.
    #[command(after_help = "\
Example:
  drillcore verify flights.drill")]
    Verify(Database),
    /// Write all rows out and merge each table into one segment.
    #[command(after_help = "\
Example:
  drillcore compact flights.drill")]
    Compact(Database),
    /// Show what the store does, on departures that are made up on the spot.
    ///
    /// Four threads append them to a table and an hourly rollup while another estimates; then every answer is
    /// checked. Takes about ten seconds. Needs neither files nor a network.
    #[command(after_help = "\
Examples:
  drillcore demo
  drillcore demo --rows 200000 --database made-up.drill")]
    Demo(Demo),
    /// Measure this build beside SQLite on this machine.
    #[command(after_help = "\
Examples:
  drillcore bench sampling --rows 1000000
  drillcore bench --json figures.jsonl")]
    Bench(drillcore_bench::Arguments),
}

const INGEST_EXAMPLES: &str = "\
Examples:
  drillcore ingest flights.drill flights 2013.csv --key time_hour,flight --set carrier --weights distance
  drillcore ingest fleet.drill planes planes.jsonl --key tailnum --merge upsert
  drillcore ingest flights.drill hourly 2013.csv --merge rollup --time time_hour --granularity 1h \\
      --dimension carrier --metric flights=count --metric \"delay=sum(dep_delay)\"
  zcat 2014.csv.gz | drillcore ingest flights.drill flights -";

#[derive(Debug, Args)]
pub struct Database {
    /// The database's folder.
    pub database: PathBuf,
}

/// A table of a database.
#[derive(Debug, Args)]
pub struct Source {
    /// The database's folder.
    pub database: PathBuf,
    /// The table's name.
    pub table: String,
}

/// As of when.
#[derive(Debug, Args)]
pub struct Moment {
    /// Read as of this named snapshot instead of now.
    #[arg(long, value_name = "NAME")]
    pub at: Option<String>,
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
    /// The database's folder.
    pub database: PathBuf,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Sql {
    /// The database's folder.
    pub database: PathBuf,
    /// The query; - reads it from standard input.
    pub query: String,
    /// Threads that work at once; by default one a core.
    #[arg(long)]
    pub threads: Option<usize>,
    /// What joins, sorts and aggregates may hold at once, in bytes; by default 1 GiB.
    #[arg(long)]
    pub memory_bytes: Option<u64>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct SnapshotName {
    /// The database's folder.
    pub database: PathBuf,
    /// The snapshot's name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Snapshots {
    /// The database's folder.
    pub database: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// A folder that is missing or empty, to keep the database in; by default it is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub database: Option<PathBuf>,
    /// How many departures.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub rows: u64,
}

#[derive(Debug, Args)]
pub struct Ingest {
    /// The database's folder; made if it is missing.
    pub database: PathBuf,
    /// The table's name.
    pub table: String,
    /// CSV, JSONL, Parquet or Arrow files, also .gz and .zst; - is standard input. CSV holds neither lists
    /// nor binary; JSONL holds one object a line, and binary in hex. A pipe goes into tables that exist.
    /// A new table's columns are guessed from the first 10,000 rows; one without values there is text. Times with
    /// an offset, "2013-07-04T09:00:00Z", make a column in UTC, and go into columns with a time zone only; times
    /// without go into columns with and without, as the clock there shows them. A record has at most 32 MiB.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// What the files hold; by default their names tell, and standard input is CSV.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Threads that append.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    pub threads: u8,
    /// Rows of a commit.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_rows: u32,
    /// What to do with lines that cannot be parsed and rows that do not fit the table. With skip they are told
    /// on standard error, the first 20 of them one by one.
    #[arg(long, value_enum, default_value_t = OnErrorName::Raise)]
    pub on_error: OnErrorName,
    /// Store null in the columns that rows lack. An upsert replaces whole rows, so without this its rows have all
    /// columns that the table was made with; those added later may be missing.
    #[arg(long)]
    pub fill_nulls: bool,
    /// No progress bar.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub shape: Shape,
}

/// What a new table looks like.
#[derive(Debug, Args)]
#[command(next_help_heading = "For a new table (of one that exists, they have to say what it is)")]
pub struct Shape {
    /// Columns of the sort key. In a rollup table, --time and --dimension follow where it lacks them.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub key: Vec<String>,
    /// What equal keys mean; by default append.
    #[arg(long, value_enum)]
    pub merge: Option<MergeName>,
    /// The column whose values name the sets.
    #[arg(long, value_name = "COLUMN")]
    pub set: Option<String>,
    /// Index no sets for now; see index-sets.
    #[arg(long, requires = "set")]
    pub no_set_index: bool,
    /// Columns that rows can be drawn by.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub weights: Vec<String>,
    #[command(flatten)]
    pub rollup: Rollup,
}

/// How a new rollup table folds.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "For a new table with --merge rollup (columns that it does not use are skipped)"
)]
pub struct Rollup {
    /// The column of time, which is truncated.
    #[arg(long, value_name = "COLUMN", requires = "granularity")]
    pub time: Option<String>,
    /// The step that time is truncated to: 1s, 1m, 5m, 15m, 30m, 1h, 1d, or none.
    #[arg(long, value_name = "STEP", requires = "time")]
    pub granularity: Option<Granularity>,
    /// Columns that tell rows apart.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub dimension: Vec<String>,
    /// Make a dimension of every column that is neither in the key nor read by a metric.
    #[arg(long)]
    pub discover: bool,
    /// A metric's name, and what it is: count, or sum, min, max or avg of a column. May come several times.
    #[arg(long, value_name = "NAME=EXPRESSION", value_parser = metric)]
    pub metric: Vec<(String, Metric)>,
}

/// "delay=sum(dep_delay)".
fn metric(text: &str) -> Result<(String, Metric), Error> {
    match text.split_once('=') {
        Some((name, expression)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), expression.parse()?))
        }
        _ => {
            let message = "a metric has a name: n=count, delay=sum(dep_delay)";
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// "avg(delay)", which is its name, too.
fn aggregate(text: &str) -> Result<(String, Aggregate), Error> {
    Ok((text.to_string(), text.parse()?))
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

#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    pub source: Source,
    /// The key's values, one a key column.
    #[arg(required_unless_present = "keys")]
    pub key: Vec<String>,
    /// A file with the key's columns; others are skipped. - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub keys: Option<String>,
    /// What that file holds; by default its name tells, and standard input is CSV.
    #[arg(long, value_enum, requires = "keys")]
    pub format: Option<Format>,
}

#[derive(Debug, Args)]
pub struct AddColumn {
    #[command(flatten)]
    pub source: Source,
    /// The column's name.
    pub name: String,
    /// Its type; see below.
    #[arg(value_name = "TYPE", value_parser = column_type)]
    pub column_type: DataType,
}

#[derive(Debug, Args)]
pub struct SwitchSets {
    #[command(flatten)]
    pub source: Source,
    /// Names of sets, also such as no row has yet.
    #[arg(required_unless_present_any = ["all", "null_set"])]
    pub sets: Vec<String>,
    /// All sets, also those that come up later.
    #[arg(long, conflicts_with_all = ["sets", "null_set"])]
    pub all: bool,
    /// The rows that have no value in the set column.
    #[arg(long)]
    pub null_set: bool,
    /// No progress bar.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    pub source: Source,
    /// The key's values, one a key column.
    #[arg(required = true)]
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
    /// At most so many rows.
    #[arg(long)]
    pub limit: Option<u64>,
    /// From the highest key down.
    #[arg(long)]
    pub reverse: bool,
    /// Threads that read at once; by default one a core.
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
    /// Draw in proportion to this column.
    #[arg(long, value_name = "COLUMN")]
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
    /// Threads that read the rows drawn, each at least 16,384.
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
    /// Such as "count" or "avg(delay)".
    #[arg(required = true, value_parser = aggregate)]
    pub aggregates: Vec<(String, Aggregate)>,
    /// One result for each value of this column.
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    /// Stop after so many rows (the default is 10,000) ...
    #[arg(long, conflicts_with_all = ["error", "seconds"])]
    pub n: Option<u64>,
    /// ... or when every interval is this narrow: 0.5, or 2% of the estimate ...
    #[arg(long, value_name = "HALF-WIDTH", conflicts_with = "seconds")]
    pub error: Option<String>,
    /// ... or after so many seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// How often an interval shall hold the truth.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub confidence: f64,
    /// Let all intervals, of every group and aggregate, hold together so often.
    #[arg(long)]
    pub simultaneous: bool,
    /// The same seed on unchanged data gives the same estimate.
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub selection: Selection,
}

/// Which rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which rows")]
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

/// Which columns.
#[derive(Debug, Args)]
pub struct Columns {
    /// The columns, in that order; all by default.
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
}

/// How it is printed.
#[derive(Debug, Args)]
pub struct Output {
    /// How rows are printed.
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Table)]
    pub output: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// For people; laid out when all rows are there.
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
    /// All rows stay, in commit order.
    Append,
    /// The newest row wins; rows can be deleted.
    Upsert,
    /// Rows fold into counts, sums, minima, maxima and averages.
    Rollup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorName {
    /// Stop. Commits before stay.
    Raise,
    /// Leave them out, and say why.
    Skip,
}
