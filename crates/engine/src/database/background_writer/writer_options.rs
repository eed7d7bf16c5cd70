//! When a writer commits the rows that it gathered.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::schema::conform::OnError;
use crate::state::options::Options;

/// Options of [`Table::writer`](crate::Table::writer) and [`Database::writer`](crate::Database::writer).
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/flights.rs"));
/// use drillcore::WriterOptions;
///
/// let often = WriterOptions { rows: 100, seconds: 0.01, ..WriterOptions::default() };
/// let writer = flights.writer(often)?;
/// # let batch = flights.snapshot()?.scan(Default::default())?.next().unwrap()?;
/// writer.add(&batch)?;
/// writer.close()?;
/// assert_eq!(flights.snapshot()?.rows()?, 200);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Rows of a commit at most, unless one `add` has more. 8,192 by default.
    pub rows: usize,
    /// How long a row waits at most before its commit begins, unless an earlier commit is still under way. A tenth of
    /// a second by default.
    pub seconds: f64,
    /// Bytes of a commit at most, as Arrow counts them, unless one `add` has more. By default a 32nd of `memory_bytes`, up to
    /// 32 MiB.
    pub bytes: Option<u64>,
    /// What an `add` does with rows that do not fit. `Raise` refuses all of its rows. `Skip` takes the others of a
    /// table's writer; one of a database leaves out the whole `add`, so that its tables stay in step.
    pub on_error: OnError,
    /// As of [`AppendOptions`](crate::AppendOptions::fill_nulls).
    pub fill_nulls: bool,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        let on_error = OnError::Raise;
        WriterOptions { rows: 8_192, seconds: 0.1, bytes: None, on_error, fill_nulls: false }
    }
}

/// Of the memory budget, a batch takes this part by default: a commit may take a quarter, indexes and keys included.
const BYTES_SHARE: u64 = 32;
const BYTES_MAX: u64 = 32 << 20;

/// [`WriterOptions`] that were checked.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub rows: usize,
    pub bytes: u64,
    pub age: Duration,
    pub on_error: OnError,
    pub fill_nulls: bool,
}

impl Limits {
    /// # Errors
    /// `InvalidArgument`.
    pub fn new(options: &WriterOptions, of_database: &Options) -> Result<Limits> {
        let &WriterOptions { rows, seconds, bytes, on_error, fill_nulls } = options;
        if rows == 0 {
            return Err(Error::invalid("rows must be at least 1, got 0"));
        }
        if bytes == Some(0) {
            return Err(Error::invalid("bytes must be at least 1, got 0"));
        }
        let bytes = bytes.unwrap_or((of_database.memory_bytes / BYTES_SHARE).min(BYTES_MAX));
        if !(seconds > 0.0 && seconds.is_finite()) {
            return Err(Error::invalid(format!(
                "seconds must be a positive number, got {seconds}"
            )));
        }
        // What no clock can count is for ever.
        let age = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Ok(Limits { rows, bytes, age, on_error, fill_nulls })
    }
}
