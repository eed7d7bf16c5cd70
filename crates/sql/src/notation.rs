//! How aggregates, metrics and granularities are written in every face: `avg(delay)`, `1h`.
//!
//! This is what the engine's types show, read back. Expressions and filters in aggregates are left to
//! [`aggregates`](crate::conditions::aggregates()).

use drillcore::{Aggregate, Error, ErrorKind, Granularity, Metric, Result};

const METRICS: [&str; 5] = ["count", "sum", "min", "max", "avg"];

const AGGREGATES: [&str; 11] = [
    "count", "avg", "sum", "ratio", "variance", "stddev", "quantile", "median", "distinct", "min",
    "max",
];

/// Reads a metric: `count`, `count(*)`, `sum(column)`, `min(column)`, `max(column)` or `avg(column)`. The case of the
/// name does not matter.
///
/// ```
/// assert_eq!(drillcore_sql::parse_metric("sum(miles)")?, drillcore::Metric::sum("miles"));
/// # drillcore::Result::Ok(())
/// ```
///
/// # Errors
/// `NotFound` for another name, `InvalidArgument` for one without its column.
pub fn parse_metric(text: &str) -> Result<Metric> {
    let (name, argument) = name_and_argument("metric", text)?;
    let of_column: fn(String) -> Metric = match name.to_ascii_lowercase().as_str() {
        "count" if matches!(argument, None | Some("" | "*")) => return Ok(Metric::Count),
        "count" => {
            let text = text.trim();
            return Err(invalid(format!(
                "metric {text:?}: count takes no column; write \"count\""
            )));
        }
        "sum" => Metric::Sum,
        "min" => Metric::Min,
        "max" => Metric::Max,
        "avg" => Metric::Avg,
        _ => return Err(Error::unknown("metric", name, METRICS)),
    };
    match argument {
        None | Some("") => {
            Err(invalid(format!("metric {name:?} needs a column, as in \"sum(delay)\"")))
        }
        Some(column) => Ok(of_column(column.to_string())),
    }
}

/// Reads a granularity: `none`, `1s`, `1m`, `5m`, `15m`, `30m`, `1h` or `1d`.
///
/// ```
/// assert_eq!(drillcore_sql::parse_granularity("1h")?, drillcore::Granularity::HOUR);
/// # drillcore::Result::Ok(())
/// ```
///
/// # Errors
/// `NotFound` for another name.
pub fn parse_granularity(name: &str) -> Result<Granularity> {
    let names = Granularity::ALL.map(|granularity| granularity.to_string());
    match names.iter().position(|known| known == name) {
        Some(at) => Ok(Granularity::ALL[at]),
        None => Err(Error::unknown("granularity", name, names.iter().map(String::as_str))),
    }
}

/// Reads an aggregate of columns: a name with columns in parentheses, such as `count`, `count(*)`, `avg(column)`,
/// `ratio(column, column)` or `quantile(column, 0.95)`. The case of the name does not matter.
///
/// # Errors
/// `NotFound` for another name, `InvalidArgument` for an argument that does not go with it.
pub(crate) fn parse_aggregate(text: &str) -> Result<Aggregate> {
    let (name, argument) = name_and_argument("aggregate", text)?;
    let arguments: Vec<&str> =
        argument.map_or(Vec::new(), |argument| argument.split(',').map(str::trim).collect());
    aggregate_of(name, &arguments)
}

/// The aggregate of a name, of arguments that were read already: columns, and the share of a quantile. Errors are those of
/// [`parse_aggregate`].
pub(crate) fn aggregate_of(name: &str, arguments: &[&str]) -> Result<Aggregate> {
    let lower = name.to_ascii_lowercase();
    let arguments: &[&str] = match arguments {
        [""] => &[],
        some => some,
    };
    let one = |make: fn(String) -> Aggregate| match arguments {
        [column] => Ok(make(column.to_string())),
        _ => Err(invalid(format!("{lower} needs a column, as in {lower}(delay)"))),
    };
    match lower.as_str() {
        "count" => match arguments {
            [] | ["*"] => Ok(Aggregate::Count),
            [column] => Ok(Aggregate::Values(column.to_string())),
            _ => Err(invalid("count takes one column, or none, as in count(delay)")),
        },
        "avg" | "mean" => one(Aggregate::Avg),
        "sum" => one(Aggregate::Sum),
        "variance" | "var_samp" | "var" => one(Aggregate::Variance),
        "stddev" | "stddev_samp" => one(Aggregate::StdDev),
        "distinct" => one(Aggregate::Distinct),
        "min" => one(Aggregate::Min),
        "max" => one(Aggregate::Max),
        "median" => one(|column| Aggregate::Quantile(column, 0.5)),
        "ratio" => match arguments {
            [x, y] => Ok(Aggregate::Ratio(x.to_string(), y.to_string())),
            _ => Err(invalid("ratio needs two columns, as in ratio(delay, miles)")),
        },
        "quantile" => match arguments {
            [column, share] => Ok(Aggregate::Quantile(column.to_string(), share_of(share)?)),
            _ => Err(invalid("quantile needs a column and a share, as in quantile(delay, 0.95)")),
        },
        _ => Err(Error::unknown("aggregate", name, AGGREGATES)),
    }
}

fn share_of(text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(invalid(format!(
            "a quantile takes a share from 0 to 1, such as 0.95, not {:?}",
            text.trim()
        ))),
    }
}

/// The name in front of parentheses, and the argument in them if there are such. Errors call the text `what`.
fn name_and_argument<'a>(what: &str, text: &'a str) -> Result<(&'a str, Option<&'a str>)> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else { return Ok((text, None)) };
    let argument = rest
        .strip_suffix(')')
        .ok_or_else(|| invalid(format!("{what} {text:?} has no closing parenthesis; add it")))?;
    Ok((name.trim_end(), Some(argument.trim())))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_read_as_it_is_shown() {
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
            assert_eq!(parse_aggregate(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_aggregate("COUNT(*)").unwrap(), Aggregate::Count);
    }

    #[test]
    fn what_does_not_go_together_is_an_invalid_argument() {
        for text in [
            "avg",
            "avg(",
            "avg()",
            "avg(price) + 1",
            "ratio(x)",
            "quantile(x)",
            "quantile(x, 95)",
            "quantile(x, -0.1)",
            "quantile(x, nan)",
            "quantile(x, y)",
            "median(x, 0.5)",
            "sum(x",
        ] {
            let error = parse_aggregate(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
        }
        for text in ["skewness(x)", "", "(price)"] {
            assert_eq!(parse_aggregate(text).unwrap_err().kind(), ErrorKind::NotFound);
        }
        let unknown = parse_aggregate("avgg(price)").unwrap_err().to_string();
        assert_eq!(unknown, r#"unknown aggregate "avgg"; did you mean "avg"?"#);
    }

    #[test]
    fn metrics_and_granularities_are_read_as_they_are_shown() {
        for text in ["count", "sum(delay)", "min(delay)", "max(delay)", "avg(delay)"] {
            assert_eq!(parse_metric(text).unwrap().to_string(), text);
        }
        for text in ["none", "1s", "1m", "5m", "15m", "30m", "1h", "1d"] {
            assert_eq!(parse_granularity(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_metric(" SUM ( delay ) ").unwrap(), Metric::sum("delay"));
        assert_eq!(parse_metric("count(*)").unwrap(), Metric::Count);
        let refused = |text: &str| parse_metric(text).unwrap_err().to_string();
        assert_eq!(refused("sun(delay)"), r#"unknown metric "sun"; did you mean "sum"?"#);
        assert_eq!(refused("avg"), r#"metric "avg" needs a column, as in "sum(delay)""#);
        assert!(refused("count(delay)").contains("count takes no column"));
        assert!(refused("sum(delay").contains("has no closing parenthesis; add it"));
        let granularity = parse_granularity("2h").unwrap_err();
        assert_eq!(granularity.to_string(), r#"unknown granularity "2h"; did you mean "1h"?"#);
    }
}
