//! [`Metric`]: what a column of a rollup table is made of.

use std::fmt;
use std::str::FromStr;

use drillcore_format::schema::MetricKind;

use crate::error::{Error, Result};
use crate::schema::expression::name_and_argument;

/// What a rollup table keeps of the events that are folded into a row.
///
/// ```
/// use drillcore::Metric;
///
/// assert_eq!("sum(miles)".parse::<Metric>()?, Metric::sum("miles"));
/// assert_eq!(Metric::max("delay").to_string(), "max(delay)");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// The number of events.
    Count,
    /// The sum of a column's values that are not null. Integers are added exactly.
    Sum(String),
    /// The least of them.
    Min(String),
    /// The greatest of them.
    Max(String),
    /// Their mean.
    Avg(String),
}

const NAMES: [(&str, MetricKind); 5] = [
    ("count", MetricKind::Count),
    ("sum", MetricKind::Sum),
    ("min", MetricKind::Min),
    ("max", MetricKind::Max),
    ("avg", MetricKind::Avg),
];

impl Metric {
    /// The sum of a column.
    pub fn sum(column: impl Into<String>) -> Metric {
        Metric::Sum(column.into())
    }

    /// The least value of a column.
    pub fn min(column: impl Into<String>) -> Metric {
        Metric::Min(column.into())
    }

    /// The greatest value of a column.
    pub fn max(column: impl Into<String>) -> Metric {
        Metric::Max(column.into())
    }

    /// The mean of a column.
    pub fn avg(column: impl Into<String>) -> Metric {
        Metric::Avg(column.into())
    }

    /// The column that is folded; a count has none.
    pub fn column(&self) -> Option<&str> {
        self.kind_and_column().1
    }

    /// The metric of a stored kind; of a column, unless it is a count.
    pub(crate) fn of(kind: MetricKind, column: Option<&str>) -> Metric {
        let column = || column.unwrap_or_default().to_string();
        match kind {
            MetricKind::Count => Metric::Count,
            MetricKind::Sum => Metric::Sum(column()),
            MetricKind::Min => Metric::Min(column()),
            MetricKind::Max => Metric::Max(column()),
            MetricKind::Avg => Metric::Avg(column()),
        }
    }

    pub(crate) fn kind_and_column(&self) -> (MetricKind, Option<&str>) {
        match self {
            Metric::Count => (MetricKind::Count, None),
            Metric::Sum(column) => (MetricKind::Sum, Some(column)),
            Metric::Min(column) => (MetricKind::Min, Some(column)),
            Metric::Max(column) => (MetricKind::Max, Some(column)),
            Metric::Avg(column) => (MetricKind::Avg, Some(column)),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, column) = self.kind_and_column();
        let name = NAMES.iter().find(|(_, known)| *known == kind).expect("every kind has a name").0;
        match column {
            None => f.write_str(name),
            Some(column) => write!(f, "{name}({column})"),
        }
    }
}

/// Parses `count`, `count(*)`, `sum(column)`, `min(column)`, `max(column)` or `avg(column)`. The case of the name
/// does not matter.
///
/// # Errors
/// `NotFound` for another name, `InvalidArgument` for one without its column.
impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Metric> {
        let (name, argument) = name_and_argument("metric", text)?;
        let named = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let &(_, kind) =
            named.ok_or_else(|| Error::unknown("metric", name, NAMES.map(|(known, _)| known)))?;
        match (kind, argument) {
            (MetricKind::Count, None | Some("" | "*")) => Ok(Metric::Count),
            (MetricKind::Count, Some(_)) => Err(Error::invalid(format!(
                "metric {:?}: count takes no column; write \"count\"",
                text.trim()
            ))),
            (_, None | Some("")) => {
                Err(Error::invalid(format!("metric {name:?} needs a column, as in \"sum(delay)\"")))
            }
            (_, column) => Ok(Metric::of(kind, column)),
        }
    }
}
