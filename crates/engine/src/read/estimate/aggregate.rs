//! [`Aggregate`]: what can be estimated.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::schema::expression::name_and_argument;

/// What to estimate of the selected rows, or of each group of them. Nulls are left out, as in SQL.
///
/// ```
/// use drillcore::Aggregate;
///
/// assert_eq!("avg(delay)".parse::<Aggregate>()?, Aggregate::avg("delay"));
/// assert_eq!("median(delay)".parse::<Aggregate>()?, Aggregate::Quantile("delay".into(), 0.5));
/// assert_eq!(Aggregate::Count.to_string(), "count");
/// # drillcore::Result::Ok(())
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

/// Names of the aggregates that can be estimated.
const NAMES: [&str; 11] = [
    "count", "avg", "sum", "ratio", "variance", "stddev", "quantile", "median", "distinct", "min",
    "max",
];

impl Aggregate {
    /// The mean of a column.
    pub fn avg(column: impl Into<String>) -> Aggregate {
        Aggregate::Avg(column.into())
    }

    /// The sum of a column.
    pub fn sum(column: impl Into<String>) -> Aggregate {
        Aggregate::Sum(column.into())
    }

    /// The aggregate of a name, of arguments that were read already: columns, and the share of a quantile.
    ///
    /// # Errors
    /// `NotFound` for another name, `InvalidArgument` for arguments that do not go with it.
    pub fn from_parts(name: &str, arguments: &[&str]) -> Result<Aggregate> {
        let lower = name.to_ascii_lowercase();
        let arguments: &[&str] = match arguments {
            [""] => &[],
            some => some,
        };
        let one = |make: fn(String) -> Aggregate| match arguments {
            [column] => Ok(make(column.to_string())),
            _ => Err(Error::invalid(format!("{lower} needs a column, as in {lower}(delay)"))),
        };
        match lower.as_str() {
            "count" => match arguments {
                [] | ["*"] => Ok(Aggregate::Count),
                [column] => Ok(Aggregate::Values(column.to_string())),
                _ => Err(Error::invalid("count takes one column, or none, as in count(delay)")),
            },
            "avg" | "mean" => one(Aggregate::Avg),
            "sum" => one(Aggregate::Sum),
            "variance" | "var_samp" | "var" => one(Aggregate::Variance),
            "stddev" | "stddev_samp" => one(Aggregate::StdDev),
            "distinct" => one(Aggregate::Distinct),
            "min" => one(Aggregate::Min),
            "max" => one(Aggregate::Max),
            "median" => match arguments {
                [column] => Ok(Aggregate::Quantile(column.to_string(), 0.5)),
                _ => Err(Error::invalid("median needs a column, as in median(delay)")),
            },
            "ratio" => match arguments {
                [x, y] => Ok(Aggregate::Ratio(x.to_string(), y.to_string())),
                _ => Err(Error::invalid("ratio needs two columns, as in ratio(delay, miles)")),
            },
            "quantile" => match arguments {
                [column, share] => Ok(Aggregate::Quantile(column.to_string(), share_of(share)?)),
                _ => Err(Error::invalid(
                    "quantile needs a column and a share, as in quantile(delay, 0.95)",
                )),
            },
            _ => Err(Error::unknown("aggregate", name, NAMES)),
        }
    }
}

fn share_of(text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(Error::invalid(format!(
            "a quantile takes a share from 0 to 1, such as 0.95, not {:?}",
            text.trim()
        ))),
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

/// Parses a name with columns in parentheses, such as `count`, `count(*)`, `avg(column)`, `ratio(column, column)` or
/// `quantile(column, 0.95)`. The case of the name does not matter. For expressions and filters, see the crate `drillcore-sql`.
///
/// # Errors
/// `NotFound` for another name, `InvalidArgument` for an argument that does not go with it.
impl FromStr for Aggregate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Aggregate> {
        let (name, argument) = name_and_argument("aggregate", text)?;
        let arguments: Vec<&str> =
            argument.map_or(Vec::new(), |argument| argument.split(',').map(str::trim).collect());
        Aggregate::from_parts(name, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn an_aggregate_reads_what_it_shows() {
        for text in [
            "count",
            "count(x)",
            "avg(x)",
            "sum(x)",
            "ratio(x, y)",
            "variance(x)",
            "stddev(x)",
            "median(x)",
            "quantile(x, 0.95)",
            "distinct(x)",
            "min(x)",
            "max(x)",
        ] {
            assert_eq!(text.parse::<Aggregate>().unwrap().to_string(), text);
        }
        assert_eq!("COUNT(*)".parse::<Aggregate>().unwrap(), Aggregate::Count);
    }

    #[test]
    fn what_does_not_go_together_is_an_invalid_argument() {
        for text in [
            "avg",
            "avg()",
            "ratio(x)",
            "quantile(x)",
            "quantile(x, 95)",
            "quantile(x, -0.1)",
            "quantile(x, nan)",
            "quantile(x, y)",
            "median(x, 0.5)",
            "sum(x",
        ] {
            let error = text.parse::<Aggregate>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
        }
        assert_eq!("skewness(x)".parse::<Aggregate>().unwrap_err().kind(), ErrorKind::NotFound);
    }
}
