//! Lengths of time, as Python has them.

use std::time::Duration;

use drillcore::{Error, ErrorKind, Result};
use pyo3::prelude::*;

/// A text such as "7d" or "1h 30m", or a `timedelta`.
#[derive(FromPyObject)]
pub enum Lasting {
    Text(String),
    Time(Duration),
}

impl Lasting {
    /// The length.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that is none.
    pub fn duration(&self) -> Result<Duration> {
        match self {
            Lasting::Time(duration) => Ok(*duration),
            Lasting::Text(text) => drillcore_cli::parse_lasting(text)
                .map_err(|message| Error::new(ErrorKind::InvalidArgument, message)),
        }
    }
}
