//! Options that several verbs share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Database {
    /// The database directory.
    pub database: PathBuf,
}

/// A table of a database.
#[derive(Debug, Args)]
pub struct Source {
    /// The database directory.
    pub database: PathBuf,
    /// The table's name.
    pub table: String,
}

/// Which snapshot to read.
#[derive(Debug, Args)]
pub struct Moment {
    /// Read as of this named snapshot instead of now.
    #[arg(long, value_name = "NAME")]
    pub at: Option<String>,
}

/// Which rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which rows")]
pub struct Selection {
    /// Lowest key: values of the first key columns, separated by commas.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Highest key; includes every key that begins with it.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only rows of this set. Can be repeated.
    #[arg(long, allow_negative_numbers = true)]
    pub set: Vec<String>,
    /// The rows that are null in the set column.
    #[arg(long)]
    pub null_set: bool,
    /// Only rows that meet this SQL condition, such as "dep_delay > 15 and origin = 'JFK'".
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
}

/// Which columns.
#[derive(Debug, Args)]
pub struct Columns {
    /// Columns to return, in this order, separated by commas; by default all.
    #[arg(long, value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
}

/// How to print.
#[derive(Debug, Args)]
pub struct Output {
    /// Output format.
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Table)]
    pub output: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// A table to read; printed once all rows are known.
    Table,
    /// CSV, with binary in hex; cannot hold lists.
    Csv,
    /// One JSON object per line, with binary in hex.
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
