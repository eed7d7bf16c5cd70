//! [`Granularity`]: the steps to which a rollup table truncates time.

use std::fmt;

use drillcore_format::schema::StoredGranularity;

/// The steps to which a rollup table truncates time, counted from 1970-01-01 00:00 UTC.
///
/// ```
/// use drillcore::Granularity;
///
/// assert_eq!(Granularity::QUARTER_HOUR.to_string(), "15m");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Granularity {
    /// None if 0.
    seconds: u32,
}

/// Of [`Granularity::ALL`], in its order.
const NAMES: [&str; 8] = ["none", "1s", "1m", "5m", "15m", "30m", "1h", "1d"];

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
    /// Those above, the finest first.
    pub const ALL: [Granularity; 8] = [
        Granularity::NONE,
        Granularity::SECOND,
        Granularity::MINUTE,
        Granularity::FIVE_MINUTES,
        Granularity::QUARTER_HOUR,
        Granularity::HALF_HOUR,
        Granularity::HOUR,
        Granularity::DAY,
    ];

    pub(crate) fn of(stored: StoredGranularity) -> Granularity {
        match stored {
            StoredGranularity::None => Granularity::NONE,
            StoredGranularity::Seconds(seconds) => Granularity { seconds },
        }
    }

    pub(crate) fn stored(self) -> StoredGranularity {
        match self.seconds {
            0 => StoredGranularity::None,
            seconds => StoredGranularity::Seconds(seconds),
        }
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Granularity::ALL.iter().position(|known| known == self) {
            Some(at) => f.pad(NAMES[at]),
            None => write!(f, "{}s", self.seconds),
        }
    }
}
