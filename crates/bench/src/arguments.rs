//! What can be typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

/// The least number of rows, which the sets that are scanned need.
const ROWS_MIN: u64 = 2_000;

/// What the command line asks for.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Which benches to run; by default all.
    #[arg(value_enum)]
    pub benches: Vec<Bench>,
    /// Rows of the table, of about 100 bytes each. They are also held in memory, but for `load`, `readers` and `draws`.
    #[arg(long, default_value_t = 300_000, value_parser = value_parser!(u64).range(ROWS_MIN..=1_000_000_000))]
    pub rows: u64,
    /// MiB of rows that the engines of `load`, `readers` and `draws` hold in memory while they load.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=65_536))]
    pub memory: u32,
    /// MiB of page cache in `cold`.
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u32).range(1..=65_536))]
    pub cache: u32,
    /// Leave the other engines out, as for a profile.
    #[arg(long)]
    pub without_peers: bool,
    /// Only the cases whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub cases: Option<String>,
    /// Maximum number of threads that append or read.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Minimum number of threads that append or read, as for a profile.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=256))]
    pub threads_from: u32,
    /// Number of timed rounds per case, after one round to warm up.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Seed: the same seed gives the same table and the same keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory for the databases; a new directory in it is removed at the end.
    /// By default the directory for temporary files.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// File for the figures as JSON lines; - prints them after the tables.
    #[arg(long, default_value = "-")]
    pub json: PathBuf,
}

/// One of the benches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Appends, and folding into a rollup table.
    Ingest,
    /// Rows that come a few at a time, through a writer.
    Writer,
    /// More records than memory holds, until they are written out and merged.
    Load,
    /// As many records, half of which replace others, and counts of them.
    Upserts,
    /// What the log costs, and how fast it is read after a crash.
    Durability,
    /// What a commit costs, by its rows and the tables there are.
    Commits,
    /// Single rows by key.
    Reads,
    /// Single records by key, by many readers at once, past the system's cache.
    Readers,
    /// All rows of one set.
    Sets,
    /// One column of all rows, in key order.
    Columns,
    /// Random rows of a table, a key range and a set.
    Sampling,
    /// Random rows of narrow key ranges, in memory as they arrived.
    Ranges,
    /// Random rows in proportion to a weight, of a table, a key range, a set, and a set in a key range.
    Weights,
    /// Random rows of narrow key ranges while another thread appends.
    Beside,
    /// Random records of a table that is larger than memory, from a database that was just opened.
    Draws,
    /// Rows that are in no cache, many in a call, beside as many reads of the device.
    Cold,
}

impl Bench {
    /// All of them, in the order in which they run.
    pub const ALL: [Bench; 16] = [
        Bench::Ingest,
        Bench::Writer,
        Bench::Load,
        Bench::Upserts,
        Bench::Durability,
        Bench::Commits,
        Bench::Reads,
        Bench::Readers,
        Bench::Sets,
        Bench::Columns,
        Bench::Sampling,
        Bench::Ranges,
        Bench::Weights,
        Bench::Beside,
        Bench::Draws,
        Bench::Cold,
    ];
}
