//! [`Metric`]: what a column of a rollup table is made of.

use std::fmt;

use drillcore_format::schema::MetricKind;

/// What a rollup table keeps of the events that are folded into a row.
///
/// ```
/// use drillcore::Metric;
///
/// assert_eq!(Metric::max("delay").to_string(), "max(delay)");
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
