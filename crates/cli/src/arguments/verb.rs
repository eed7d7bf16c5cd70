//! The verbs of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::arguments::altering::{
    AddColumn, Delete, DropColumn, DropTable, RenameColumn, SetTtl, SwitchSets, TwoTables,
};
use crate::arguments::backup::{self, Backup, Restore};
use crate::arguments::export::{self, Export};
use crate::arguments::ingest::{self, Ingest};
use crate::arguments::reading::{Count, Describe, Estimate, Get, Sample, Scan, Sets, Sql, Tables};
use crate::arguments::shared_options::{Database, Output};

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
    #[command(after_help = ingest::NOTES)]
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
    #[command(after_help = export::EXAMPLES)]
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
