//! [`Granularity`]: the steps to which a rollup table truncates time.

use std::fmt;
use std::str::FromStr;

use drillcore_format::schema;

use crate::error::{Error, Result};

/// The steps to which a rollup table truncates time, counted from 1970-01-01 00:00 UTC.
///
/// ```
/// use drillcore::Granularity;
///
/// assert_eq!("1h".parse::<Granularity>()?, Granularity::HOUR);
/// assert_eq!(Granularity::QUARTER_HOUR.to_string(), "15m");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Granularity {
    /// None if 0.
    seconds: u32,
}

const NAMES: [(&str, Granularity); 8] = [
    ("none", Granularity::NONE),
    ("1s", Granularity::SECOND),
    ("1m", Granularity::MINUTE),
    ("5m", Granularity::FIVE_MINUTES),
    ("15m", Granularity::QUARTER_HOUR),
    ("30m", Granularity::HALF_HOUR),
    ("1h", Granularity::HOUR),
    ("1d", Granularity::DAY),
];

impl Granularity {
    /// Time is left as it is.
    pub const NONE: Granularity = Granularity { seconds: 0 };
    /// One second.
    pub const SECOND: Granularity = Granularity { seconds: 1 };
    /// One minute.
    pub const MINUTE: Granularity = Granularity { seconds: 60 };
    /// Five minutes.
    pub const FIVE_MINUTES: Granularity = Granularity { seconds: 300 };
    /// Fifteen minutes.
    pub const QUARTER_HOUR: Granularity = Granularity { seconds: 900 };
    /// Thirty minutes.
    pub const HALF_HOUR: Granularity = Granularity { seconds: 1800 };
    /// One hour.
    pub const HOUR: Granularity = Granularity { seconds: 3600 };
    /// One day of 24 hours.
    pub const DAY: Granularity = Granularity { seconds: 86_400 };

    pub(crate) fn of(stored: schema::Granularity) -> Granularity {
        match stored {
            schema::Granularity::None => Granularity::NONE,
            schema::Granularity::Seconds(seconds) => Granularity { seconds },
        }
    }

    pub(crate) fn stored(self) -> schema::Granularity {
        match self.seconds {
            0 => schema::Granularity::None,
            seconds => schema::Granularity::Seconds(seconds),
        }
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, known)| known == self) {
            Some((name, _)) => f.pad(name),
            None => write!(f, "{}s", self.seconds),
        }
    }
}

/// Parses `none`, `1s`, `1m`, `5m`, `15m`, `30m`, `1h` or `1d`.
///
/// # Errors
/// `NotFound` for another name.
impl FromStr for Granularity {
    type Err = Error;

    fn from_str(name: &str) -> Result<Granularity> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        let unknown = || Error::unknown("granularity", name, NAMES.map(|(known, _)| known));
        named.map(|(_, granularity)| *granularity).ok_or_else(unknown)
    }
}
