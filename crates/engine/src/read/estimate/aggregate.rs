//! [`Aggregate`]: what can be estimated.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::schema::expression::name_and_argument;

/// What to estimate of the selected rows, or of each group of them.
///
/// ```
/// use drillcore::Aggregate;
///
/// assert_eq!("avg(delay)".parse::<Aggregate>()?, Aggregate::avg("delay"));
/// assert_eq!(Aggregate::Count.to_string(), "count");
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aggregate {
    /// The number of rows.
    Count,
    /// The mean of a column of integers or floats, over its values that are not null.
    Avg(String),
}

/// Names of the aggregates that can be estimated.
const NAMES: [&str; 2] = ["count", "avg"];

impl Aggregate {
    /// The mean of a column.
    pub fn avg(column: impl Into<String>) -> Aggregate {
        Aggregate::Avg(column.into())
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aggregate::Count => f.write_str("count"),
            Aggregate::Avg(column) => write!(f, "avg({column})"),
        }
    }
}

/// Parses `count`, `count(*)` or `avg(column)`. The case of the name does not matter.
///
/// # Errors
/// `NotFound` for another name, `InvalidArgument` for an argument that does not go with it.
impl FromStr for Aggregate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Aggregate> {
        let (name, argument) = name_and_argument("aggregate", text)?;
        match (name.to_ascii_lowercase().as_str(), argument) {
            ("count", None | Some("*" | "")) => Ok(Aggregate::Count),
            ("count", Some(column)) => Err(Error::invalid(format!(
                "count({column}) is not supported yet; count counts rows, null or not"
            ))),
            ("avg", Some(column)) if !column.is_empty() => Ok(Aggregate::avg(column)),
            ("avg", _) => Err(Error::invalid("avg needs a column, as in avg(delay)")),
            _ => Err(Error::unknown("aggregate", name, NAMES)),
        }
    }
}
