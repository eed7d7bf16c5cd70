//! [`Aggregate`]: what can be estimated.

use std::fmt;

/// What to estimate of the selected rows, or of each group of them. Nulls are left out, as in SQL.
///
/// ```
/// use drillcore::Aggregate;
///
/// assert_eq!(Aggregate::avg("delay").to_string(), "avg(delay)");
/// assert_eq!(Aggregate::median("delay").to_string(), "median(delay)");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Aggregate {
    /// The number of rows.
    Count,
    /// The number of values of a column that are not null.
    Values(String),
    /// The mean of a column of integers or floats.
    Avg(String),
    /// The sum of a column of integers or floats.
    Sum(String),
    /// The sum of the first column over the sum of the second.
    Ratio(String, String),
    /// The variance of a column, with one less than the number of values below the line.
    Variance(String),
    /// The square root of the variance.
    StdDev(String),
    /// The value that this share of the values is below, from 0 to 1; between two neighbours in proportion, as `percentile_cont`.
    /// Of numbers, dates or timestamps.
    Quantile(String, f64),
    /// The number of different values. Of a sample it is a lower bound.
    Distinct(String),
    /// The least number, date or timestamp of a column: exact, or refused.
    Min(String),
    /// The greatest number, date or timestamp of a column: exact, or refused.
    Max(String),
}

impl Aggregate {
    /// The mean of a column.
    pub fn avg(column: impl Into<String>) -> Aggregate {
        Aggregate::Avg(column.into())
    }

    /// The sum of a column.
    pub fn sum(column: impl Into<String>) -> Aggregate {
        Aggregate::Sum(column.into())
    }

    /// The number of values of a column that are not null.
    pub fn values(column: impl Into<String>) -> Aggregate {
        Aggregate::Values(column.into())
    }

    /// The sum of one column over the sum of another.
    pub fn ratio(above: impl Into<String>, below: impl Into<String>) -> Aggregate {
        Aggregate::Ratio(above.into(), below.into())
    }

    /// The variance of a column.
    pub fn variance(column: impl Into<String>) -> Aggregate {
        Aggregate::Variance(column.into())
    }

    /// The standard deviation of a column.
    pub fn std_dev(column: impl Into<String>) -> Aggregate {
        Aggregate::StdDev(column.into())
    }

    /// A quantile of a column; `share` is from 0 to 1, else the estimate is refused.
    pub fn quantile(column: impl Into<String>, share: f64) -> Aggregate {
        Aggregate::Quantile(column.into(), share)
    }

    /// The median of a column, which is its quantile of 0.5.
    pub fn median(column: impl Into<String>) -> Aggregate {
        Aggregate::quantile(column, 0.5)
    }

    /// The number of different values of a column.
    pub fn distinct(column: impl Into<String>) -> Aggregate {
        Aggregate::Distinct(column.into())
    }

    /// The least value of a column.
    pub fn min(column: impl Into<String>) -> Aggregate {
        Aggregate::Min(column.into())
    }

    /// The greatest value of a column.
    pub fn max(column: impl Into<String>) -> Aggregate {
        Aggregate::Max(column.into())
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aggregate::Count => f.write_str("count"),
            Aggregate::Values(column) => write!(f, "count({column})"),
            Aggregate::Avg(column) => write!(f, "avg({column})"),
            Aggregate::Sum(column) => write!(f, "sum({column})"),
            Aggregate::Ratio(x, y) => write!(f, "ratio({x}, {y})"),
            Aggregate::Variance(column) => write!(f, "variance({column})"),
            Aggregate::StdDev(column) => write!(f, "stddev({column})"),
            Aggregate::Quantile(column, 0.5) => write!(f, "median({column})"),
            Aggregate::Quantile(column, share) => write!(f, "quantile({column}, {share})"),
            Aggregate::Distinct(column) => write!(f, "distinct({column})"),
            Aggregate::Min(column) => write!(f, "min({column})"),
            Aggregate::Max(column) => write!(f, "max({column})"),
        }
    }
}
