//! The command line: verbs, arguments and options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use arrow_schema::DataType;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use drillcore::{Error, ErrorKind, Granularity, Metric};
use drillcore_sql::{parse_granularity, parse_metric};

pub use crate::altering_arguments::{
    AddColumn, DropColumn, DropTable, RenameColumn, SetTtl, SwitchSets, TwoTables,
};
use crate::backup_arguments::{self as backup, Backup, Restore};
use crate::column_type::column_type;
use crate::duration::parse_duration;
use crate::export_arguments::{self, Export};
pub use crate::shared_options::{
    Columns, Database, Format, Moment, Output, Selection, Source, Style,
};

/// An embedded database for live data: ingest, read, and draw uniform random samples, with estimates and error bars.
///
/// A database is a directory. One process writes it; any number of processes read it. Read-only commands work while
/// another process writes; commands that write fail.
#[derive(Debug, Parser)]
#[command(name = "drillcore", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    no match: get found no row, verify found damage, or two engines or tables disagree
  2    the command line or an argument is invalid, or names a database, table or column that
       does not exist; the message says how to fix it, and what was changed, if anything
  3    the database or a file cannot be used: another process writes, it is damaged,
       an input file cannot be read, or the disk is full
  4    an internal error: this is a bug, and stored data is not damaged; please report it
  130  stopped by Ctrl-C

Try it:
  drillcore demo
  drillcore ingest flights.drill flights 2013.csv --key time_hour,flight --set carrier
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --by carrier";

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Append files to a table. Creates the table if it does not exist.
    #[command(after_help = INGEST_NOTES)]
    Ingest(Ingest),
    /// Delete rows by key, key range, set or condition, and print how many were deleted. Deletes by key need an upsert table.
    #[command(after_help = "\
Examples:
  drillcore delete fleet.drill planes N14228
  drillcore delete fleet.drill planes --keys scrapped.csv
  drillcore delete flights.drill flights --to 2013-06-30
  drillcore delete flights.drill flights --set UA --where \"dep_delay is null\"
  drillcore delete flights.drill flights --all")]
    Delete(Delete),
    /// Add a column after the others. Existing rows are null there. In a rollup table, the column is a dimension.
    #[command(after_help = "\
Types: bool, int8 to int64, uint8 to uint64, float32, float64, string, binary, date32, list<string>,
  \"timestamp[us]\", \"timestamp[us, UTC]\" (also s, ms and ns), \"decimal128(10, 2)\"

Examples:
  drillcore add-column flights.drill flights gate string
  drillcore add-column flights.drill flights landed \"timestamp[us, UTC]\"")]
    AddColumn(AddColumn),
    /// Change how long rows of a table are kept.
    #[command(after_help = "\
A row expires when the time in the column is older than this. An expired row never comes back.

Examples:
  drillcore set-ttl flights.drill flights ts 30d
  drillcore set-ttl flights.drill flights --none")]
    SetTtl(SetTtl),
    /// Rename a column, also a key, set or weight column. No row is rewritten.
    #[command(after_help = "\
Example:
  drillcore rename-column flights.drill flights dep_delay delay")]
    RenameColumn(RenameColumn),
    /// Drop a column, other than a key, set or weight column; in a rollup table a metric. No row is rewritten.
    #[command(after_help = "\
Example:
  drillcore drop-column flights.drill flights gate")]
    DropColumn(DropColumn),
    /// Give a column a wider type: a longer integer, or float64 instead of float32. No row is rewritten.
    #[command(after_help = "\
In a rollup table it is a column of the files that metrics are made of; metrics have 64 bits already.

Example:
  drillcore widen flights.drill flights distance int64")]
    Widen(AddColumn),
    /// Rename a table. No row is rewritten.
    #[command(after_help = "\
Example:
  drillcore rename-table flights.drill flights flights_2013")]
    RenameTable(TwoTables),
    /// Make a table with the columns and the rows that another one has.
    #[command(after_help = "\
An ingest with --resume continues in the original table; into the copy, it starts from the beginning of the file.

Example:
  drillcore copy-table flights.drill flights before")]
    CopyTable(TwoTables),
    /// Drop a table with all its rows. Asks for the table's name first; without a terminal, --yes is needed.
    #[command(after_help = "\
Named snapshots keep the table as it was.

Examples:
  drillcore drop-table flights.drill before
  drillcore drop-table flights.drill before --yes")]
    DropTable(DropTable),
    /// Print the row with a key. The exit code is 1 if there is none.
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
    /// Write rows to a Parquet, Arrow, CSV or JSONL file, in key order.
    #[command(after_help = export_arguments::EXAMPLES)]
    Export(Export),
    /// Print estimates with error bars.
    #[command(after_help = "\
Examples:
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --by carrier
  drillcore estimate flights.drill flights \"avg(dep_delay)\" --error 2% --where \"month = 7\"
  drillcore estimate flights.drill flights \"median(dep_delay)\" \"quantile(dep_delay, 0.95)\" --by carrier --by origin")]
    Estimate(Estimate),
    /// Print every set with its number of rows.
    #[command(after_help = "\
Example:
  drillcore sets flights.drill flights --output csv")]
    Sets(Sets),
    /// Index sets, so that reading one costs time proportional to its size. Waits until existing rows are indexed.
    #[command(after_help = "\
If this command is stopped, the next process that writes continues the work. Answers do not depend on it.

Examples:
  drillcore index-sets flights.drill flights --all
  drillcore index-sets flights.drill flights UA \"9E\"")]
    IndexSets(SwitchSets),
    /// Stop indexing sets. Appends are cheaper; reading a set scans the set column.
    #[command(after_help = "\
Example:
  drillcore unindex-sets flights.drill flights --all")]
    UnindexSets(SwitchSets),
    /// Print the result of a SQL query, which reads one snapshot of all tables; or begin a prompt for queries.
    #[command(after_help = "\
Examples:
  drillcore sql flights.drill
  drillcore sql flights.drill \"select carrier, avg(dep_delay) from flights group by carrier\"
  drillcore sql flights.drill \"describe flights\"
  drillcore sql flights.drill --output csv < queries.sql")]
    Sql(Sql),
    /// Print a table's columns, types, key, merge policy, set, weights, rows, segments and bytes, or a line per table.
    #[command(after_help = "\
Examples:
  drillcore describe flights.drill
  drillcore describe flights.drill flights")]
    Describe(Describe),
    /// Print all tables with their merge policy, key, set column and number of rows.
    #[command(after_help = "\
Example:
  drillcore tables flights.drill")]
    Tables(Tables),
    /// Create a named snapshot of all tables, for --at. A snapshot that exists is not changed.
    #[command(after_help = "\
Example:
  drillcore snapshot flights.drill training
  drillcore sample flights.drill flights 1000 --at training --seed 7")]
    Snapshot(SnapshotName),
    /// Print the named snapshots with the commit that each shows.
    #[command(after_help = "\
Example:
  drillcore snapshots flights.drill")]
    Snapshots(Snapshots),
    /// Drop a named snapshot, and remove the files that only it needs.
    #[command(after_help = "\
Example:
  drillcore drop-snapshot flights.drill training")]
    DropSnapshot(SnapshotName),
    /// Copy a database to a new directory, also while another process writes; or bring a backup of it up to date.
    #[command(after_help = backup::BACKUP_EXAMPLES)]
    Backup(Backup),
    /// Make a new database from a backup.
    #[command(after_help = backup::RESTORE_EXAMPLES)]
    Restore(Restore),
    /// Print sizes and counters as JSON. Those that only the writing process knows are null.
    #[command(after_help = "\
Example:
  drillcore stats flights.drill | python -m json.tool")]
    Stats(Database),
    /// Check every checksum, order, count and index. The exit code is 1 if something is damaged.
    #[command(after_help = "\
Example:
  drillcore verify flights.drill")]
    Verify(Database),
    /// Flush all rows, and merge the segments of each table into one.
    #[command(after_help = "\
Example:
  drillcore compact flights.drill")]
    Compact(Database),
    /// Show what Drillcore does, on generated flight departures.
    ///
    /// Four threads append them to a table and to an hourly rollup, while another thread estimates. Then the demo
    /// checks every answer. It takes about ten seconds and needs neither files nor a network.
    #[command(after_help = "\
Examples:
  drillcore demo
  drillcore demo --rows 200000 --database made-up.drill")]
    Demo(Demo),
    /// Print a script that completes verbs and options in a shell.
    #[command(after_help = "\
Examples:
  drillcore completions bash > ~/.local/share/bash-completion/completions/drillcore
  drillcore completions zsh > ~/.zfunc/_drillcore    # ~/.zfunc must be in fpath, before compinit
  drillcore completions fish > ~/.config/fish/completions/drillcore.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages to a directory, a page per verb.
    #[command(after_help = "\
Example:
  drillcore man ~/.local/share/man/man1")]
    Man {
        /// The directory. Created if it does not exist; pages in it are replaced.
        directory: PathBuf,
    },
    /// Compare the speed of this build with SQLite on this machine. Runs the program drillcore-bench.
    ///
    /// The benches are a program of their own, because they contain SQLite. It must be beside this one or on the
    /// PATH. In a checkout, `make bench` builds and runs it.
    #[command(after_help = "\
Examples:
  drillcore bench sampling --rows 1000000
  drillcore bench --json figures.jsonl")]
    Bench {
        /// Arguments of drillcore-bench; `drillcore-bench --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

const INGEST_NOTES: &str = "\
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

#[derive(Debug, Args)]
pub struct SnapshotName {
    /// The database directory.
    pub database: PathBuf,
    /// The snapshot's name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Snapshots {
    /// The database directory.
    pub database: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the database in this directory, which must be missing or empty. By default it is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub database: Option<PathBuf>,
    /// Number of departures.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub rows: u64,
}

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

#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    pub source: Source,
    /// The key: one value per key column.
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["keys", "all", "from", "to", "set", "null_set", "condition"])]
    pub key: Vec<String>,
    /// A file with the key columns; other columns are skipped. - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "from", "to", "set", "null_set", "condition"])]
    pub keys: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    /// Delete all rows.
    #[arg(long, conflicts_with_all = ["from", "to", "set", "null_set", "condition"])]
    pub all: bool,
    /// Format of that file; by default its name decides, and standard input is CSV.
    #[arg(long, value_enum, requires = "keys")]
    pub format: Option<Format>,
}

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
