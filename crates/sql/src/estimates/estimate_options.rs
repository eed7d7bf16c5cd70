//! How `approx_avg_ci(x, n => 50000, confidence => 0.99)` and its like are to be estimated.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, Value,
};
use drillcore::{Error, ErrorKind, EstimateRequest, HalfWidth, Stop};

use crate::error::to_datafusion;

/// What every option is called.
const NAMES: [&str; 5] = ["n", "error", "seconds", "confidence", "seed"];

/// The options of all calls of a `select`, which are answered from one sample. So an option is given once, or alike.
#[derive(Debug, Default)]
pub struct EstimateOptions {
    stop: Option<(String, Stop)>,
    confidence: Option<f64>,
    seed: Option<u64>,
}

impl EstimateOptions {
    /// Takes the options out of the arguments of a call.
    ///
    /// # Errors
    /// `InvalidArgument` for other names, for values that do not fit, and for what contradicts another call.
    pub fn take(&mut self, list: &mut FunctionArgumentList) -> Result<(), DataFusionError> {
        let mut rest = Vec::with_capacity(list.args.len());
        for argument in std::mem::take(&mut list.args) {
            let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = &argument
            else {
                rest.push(argument);
                continue;
            };
            self.set(&name.value.to_ascii_lowercase(), value)?;
        }
        list.args = rest;
        Ok(())
    }

    /// What they ask for; the rest is as usual.
    pub fn request(&self) -> EstimateRequest {
        let usual = EstimateRequest::default();
        EstimateRequest {
            stop: self.stop.as_ref().map_or(usual.stop, |(_, stop)| *stop),
            confidence: self.confidence.unwrap_or(usual.confidence),
            seed: self.seed,
            ..usual
        }
    }

    fn set(&mut self, name: &str, value: &Expr) -> Result<(), DataFusionError> {
        let text = literal(name, value)?;
        let number = |what: &str| {
            text.parse::<f64>().map_err(|_| invalid(format!("{name} => {value}: expected {what}")))
        };
        let whole = || {
            text.parse::<u64>().map_err(|_| {
                invalid(format!("{name} => {value}: expected a whole number from 0 on"))
            })
        };
        let stop = match name {
            "n" => Stop::Rows(whole()?),
            "seconds" => Stop::Seconds(number("a number of seconds")?),
            "error" => Stop::Error(match text.strip_suffix('%') {
                None => HalfWidth::Absolute(number("a number, or a percentage such as '2%'")?),
                Some(percent) => {
                    let share = percent.trim().parse::<f64>().map_err(|_| {
                        invalid(format!("error => {value}: expected a percentage such as '2%'"))
                    })?;
                    HalfWidth::Relative(share / 100.0)
                }
            }),
            "confidence" => {
                return alike(name, &mut self.confidence, number("a share such as 0.99")?);
            }
            "seed" => return alike(name, &mut self.seed, whole()?),
            other => return Err(to_datafusion(Error::unknown("option", other, NAMES))),
        };
        match &self.stop {
            Some((known, _)) if known != name => Err(invalid(format!(
                "{known} and {name} cannot be combined; give one of n, error and seconds"
            ))),
            Some((_, known)) if *known != stop => Err(contradiction(name)),
            _ => {
                self.stop = Some((name.to_string(), stop));
                Ok(())
            }
        }
    }
}

fn alike<T: PartialEq>(
    name: &str,
    option: &mut Option<T>,
    value: T,
) -> Result<(), DataFusionError> {
    match option {
        Some(known) if *known != value => Err(contradiction(name)),
        _ => {
            *option = Some(value);
            Ok(())
        }
    }
}

fn contradiction(name: &str) -> DataFusionError {
    invalid(format!(
        "all estimates of a select are made from one sample, but two of them differ in {name}; give it once, or use two queries"
    ))
}

/// A number or a text.
fn literal(name: &str, value: &Expr) -> Result<String, DataFusionError> {
    if let Expr::Value(value) = value {
        match &value.value {
            Value::Number(number, _) => return Ok(number.to_string()),
            Value::SingleQuotedString(text) => return Ok(text.trim().to_string()),
            _ => {}
        }
    }
    if let Expr::UnaryOp { expr, .. } = value
        && matches!(**expr, Expr::Value(_))
    {
        return Ok(value.to_string());
    }
    Err(invalid(format!("{name} => {value}: expected a number, or a text such as '2%'")))
}

fn invalid(message: String) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}
