//! The arguments of `drillcore export`.

use clap::Args;

use crate::arguments::shared_options::{Columns, Format, Moment, Selection, Source};

pub const EXAMPLES: &str = "\
Examples:
  drillcore export flights.drill flights flights.parquet
  drillcore export flights.drill flights july.csv.zst --from 2013-07-01 --to 2013-07-31 --where \"dep_delay > 60\"
  drillcore export flights.drill flights training.arrow --sample 100000 --weight distance --seed 7
  drillcore export flights.drill flights - --format jsonl | gzip > flights.jsonl.gz";

#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub source: Source,
    /// The file to write: .parquet, .arrow, .arrows (an Arrow stream), .csv or .jsonl, the last two also compressed
    /// (.gz, .zst); - is standard output. It appears under its name once it is complete. CSV cannot hold lists, and
    /// has one text for null and for an empty string. Parquet has no times in seconds; they are written in milliseconds.
    pub file: String,
    /// Format of the file; by default its name decides, and standard output is CSV.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Replace the file if it exists. It stays as it is until the new one is complete.
    #[arg(long)]
    pub force: bool,
    /// Write at most this many rows.
    #[arg(long)]
    pub limit: Option<u64>,
    /// Write rows from the highest key to the lowest.
    #[arg(long)]
    pub reverse: bool,
    /// Number of threads that read, and of those that encode Parquet; by default one per core.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Show no progress bar.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub sample: SampleOptions,
}

/// Random rows in place of all.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Random rows (they are held in memory, and written in the order of the draws)"
)]
pub struct SampleOptions {
    /// Write this many random rows instead of all.
    #[arg(long = "sample", value_name = "N", conflicts_with_all = ["limit", "reverse"])]
    pub n: Option<u64>,
    /// Draw rows in proportion to this weight column.
    #[arg(long, value_name = "COLUMN", requires = "n")]
    pub weight: Option<String>,
    /// Draw with replacement: a row may be drawn more than once.
    #[arg(long, requires = "n")]
    pub replace: bool,
    /// If there are fewer rows, write those instead of failing.
    #[arg(long, requires = "n")]
    pub at_most: bool,
    /// Add a column with the probability of each row.
    #[arg(long, requires = "n")]
    pub with_probability: bool,
    /// Seed: repeats the sample on the same named snapshot (--at).
    #[arg(long, requires = "n")]
    pub seed: Option<u64>,
}
