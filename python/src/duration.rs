//! Lengths of time, as Python has them.

use std::time::Duration;

use drillcore::{Error, ErrorKind, Result};
use pyo3::prelude::*;

/// A text such as "7d" or "1h 30m", or a `timedelta`.
#[derive(FromPyObject)]
pub enum DurationArgument {
    Text(String),
    Time(Duration),
}

impl DurationArgument {
    /// The length.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that is none.
    pub fn parsed(&self) -> Result<Duration> {
        match self {
            DurationArgument::Time(duration) => Ok(*duration),
            DurationArgument::Text(text) => drillcore_cli::parse_duration(text)
                .map_err(|message| Error::new(ErrorKind::InvalidArgument, message)),
        }
    }
}
