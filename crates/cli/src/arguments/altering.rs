//! Arguments of the verbs that change a table while it is in use.

use std::time::Duration;

use arrow_schema::DataType;
use clap::Args;

use crate::arguments::shared_options::{Format, Selection, Source};
use crate::column_type::column_type;
use crate::duration::parse_duration;

#[derive(Debug, Args)]
pub struct AddColumn {
    #[command(flatten)]
    pub source: Source,
    /// The column's name.
    pub name: String,
    /// The column's type; see below.
    #[arg(value_name = "TYPE", value_parser = column_type)]
    pub column_type: DataType,
}

#[derive(Debug, Args)]
pub struct SetTtl {
    #[command(flatten)]
    pub source: Source,
    /// The timestamp or date column that sets when rows expire.
    #[arg(required_unless_present = "none", requires = "duration")]
    pub column: Option<String>,
    /// How long after it, as in 7d or "1h 30m".
    #[arg(value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Keep rows for good.
    #[arg(long, conflicts_with = "column")]
    pub none: bool,
}

#[derive(Debug, Args)]
pub struct RenameColumn {
    #[command(flatten)]
    pub source: Source,
    /// The column's name.
    pub old: String,
    /// Its new name.
    pub new: String,
}

#[derive(Debug, Args)]
pub struct DropColumn {
    #[command(flatten)]
    pub source: Source,
    /// The column's name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct TwoTables {
    #[command(flatten)]
    pub source: Source,
    /// The new name.
    pub new: String,
}

#[derive(Debug, Args)]
pub struct DropTable {
    #[command(flatten)]
    pub source: Source,
    /// Drop it without asking.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct SwitchSets {
    #[command(flatten)]
    pub source: Source,
    /// Names of sets; a set may have no rows yet.
    pub sets: Vec<String>,
    /// All sets, including those that appear later.
    #[arg(long, conflicts_with_all = ["sets", "null_set"])]
    pub all: bool,
    /// The rows that are null in the set column.
    #[arg(long)]
    pub null_set: bool,
    /// Show no progress bar.
    #[arg(long)]
    pub quiet: bool,
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
