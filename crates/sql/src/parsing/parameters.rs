//! Parameters of a query: values that take the places of its placeholders.
//!
//! A placeholder is `?`, `$1` or `$name`. Its value takes its place among the tokens of the text, before these are
//! parsed, so a parameter can stand wherever a literal can, and indexes are used as they are for literals. It is
//! never read as SQL: a string is one token, whatever it contains. Values that no token spells, such as times, bytes
//! and decimals, stand as calls of functions without arguments, and become literals as soon as there is a plan.

use std::collections::BTreeSet;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use drillcore::{Error, ErrorKind};

use crate::error::to_datafusion;
use crate::trees::{change_parts, change_plans_up};

/// The values of a query's placeholders. Each is an array of one value.
///
/// ```
/// # let flights: drillcore::Table = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/doc/flights.rs"));
/// use std::sync::Arc;
///
/// use drillcore::arrow_array::StringArray;
/// use drillcore_sql::{Parameters, QueryOptions, query};
///
/// let carrier = Arc::new(StringArray::from(vec!["UA"])) as _;
/// let parameters = Parameters::Named(vec![("carrier".to_string(), carrier)]);
/// let options = QueryOptions { parameters, ..QueryOptions::default() };
/// let snapshot = flights.database().snapshot()?;
/// let mut rows = query(&snapshot, "select id from flights where carrier = $carrier", &options)?;
/// assert_eq!(rows.next().expect("there are some")?.num_rows(), 30);
/// # drillcore::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
pub enum Parameters {
    /// The text has no placeholders.
    #[default]
    None,
    /// Those of each `?` from left to right, or of `$1`, `$2` and so on.
    Listed(Vec<ArrayRef>),
    /// Those of `$name`, each with its name.
    Named(Vec<(String, ArrayRef)>),
}

/// The tokens of a query with values in the places of placeholders, and the functions that they call.
///
/// A placeholder without a value, and a value without a placeholder, are `InvalidArgument`.
pub fn substituted(
    tokens: Vec<TokenWithSpan>,
    parameters: &Parameters,
) -> Result<(Vec<TokenWithSpan>, Vec<ScalarUDF>)> {
    let mut places = Places::new(parameters);
    let mut functions: Vec<ScalarUDF> = Vec::new();
    let mut with_values = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens {
        let Token::Placeholder(placeholder) = token else {
            with_values.push(TokenWithSpan { token, span });
            continue;
        };
        let value = places.take(&placeholder)?;
        let spelled = match spelled(&value) {
            Some(spelled) => spelled,
            None => {
                let name = format!("${}", functions.len() + 1);
                let function = Constant::new(name.clone(), value);
                functions.push(ScalarUDF::new_from_impl(function));
                vec![Token::make_word(&name, Some('"')), Token::LParen, Token::RParen]
            }
        };
        with_values.extend(spelled.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    places.check_all_used()?;
    Ok((with_values, functions))
}

/// The plan with literals for the calls of those functions.
pub fn with_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    change_plans_up(plan, &mut |plan| change_parts(plan, &mut as_literal))
}

fn as_literal(expr: Expr) -> Result<Transformed<Expr>> {
    if let Expr::Placeholder(placeholder) = &expr {
        // Other databases write `:name`, which the parser makes one of.
        return Err(invalid(format!(
            "the placeholder {} is not supported; use ?, $1 or $name",
            placeholder.id
        )));
    }
    if let Expr::ScalarFunction(call) = &expr {
        let function: &dyn std::any::Any = call.func.inner().as_ref();
        if let Some(constant) = function.downcast_ref::<Constant>() {
            return Ok(Transformed::yes(Expr::Literal(constant.value.clone(), None)));
        }
    }
    Ok(Transformed::no(expr))
}

/// Which parameter takes which place, and which took one.
struct Places<'a> {
    parameters: &'a Parameters,
    /// How many `?` there were so far; `None` until one is met.
    questions: Option<usize>,
    /// Positions of those used.
    used: BTreeSet<usize>,
    /// The first placeholder with a name or a number.
    numbered: Option<String>,
}

impl<'a> Places<'a> {
    fn new(parameters: &'a Parameters) -> Places<'a> {
        Places { parameters, questions: None, used: BTreeSet::new(), numbered: None }
    }

    /// The value of a placeholder.
    fn take(&mut self, placeholder: &str) -> Result<ScalarValue> {
        let at = match self.parameters {
            Parameters::None => {
                return Err(invalid(format!(
                    "the placeholder {placeholder} has no value; pass a parameter for it, or write the value instead"
                )));
            }
            Parameters::Listed(values) => self.position(placeholder, values.len())?,
            Parameters::Named(values) => named(placeholder, values)?,
        };
        self.used.insert(at);
        let value = match self.parameters {
            Parameters::None => unreachable!("it has no values"),
            Parameters::Listed(values) => &values[at],
            Parameters::Named(values) => &values[at].1,
        };
        ScalarValue::try_from_array(value, 0)
    }

    /// The position in a list of the value of a placeholder.
    fn position(&mut self, placeholder: &str, count: usize) -> Result<usize> {
        let at = match placeholder.strip_prefix(['?', '$']) {
            Some("") if placeholder == "?" => {
                let at = self.questions.unwrap_or(0);
                self.questions = Some(at + 1);
                at
            }
            number => {
                let number = number.and_then(|number| number.parse::<usize>().ok());
                let Some(at) = number.and_then(|number| number.checked_sub(1)) else {
                    return Err(invalid(format!(
                        "the placeholder {placeholder} has a name, but the parameters are a list; use ? or $1, or \
                         name the parameters"
                    )));
                };
                self.numbered.get_or_insert_with(|| placeholder.to_string());
                at
            }
        };
        if let (Some(_), Some(numbered)) = (self.questions, &self.numbered) {
            return Err(invalid(format!(
                "the query has both ? and {numbered}; use one kind of placeholder"
            )));
        }
        if at < count {
            return Ok(at);
        }
        let given = counted(count, "parameter");
        Err(invalid(match self.questions {
            Some(place) => format!(
                "placeholder {place} (?) has no value, because the list has {given}; give a value for each ?"
            ),
            None => format!(
                "the placeholder {placeholder} has no value, because the list has {given}; add its value"
            ),
        }))
    }

    fn check_all_used(&self) -> Result<()> {
        let count = match self.parameters {
            Parameters::None => 0,
            Parameters::Listed(values) => values.len(),
            Parameters::Named(values) => values.len(),
        };
        let Some(unused) = (0..count).find(|at| !self.used.contains(at)) else { return Ok(()) };
        Err(invalid(match self.parameters {
            Parameters::Named(values) => {
                let name = &values[unused].0;
                format!(
                    "the parameter {name:?} is not used; write ${name} in the query, or leave it out"
                )
            }
            _ if self.numbered.is_some() => {
                let place = unused + 1;
                format!(
                    "parameter {place} is not used; write ${place} in the query, or leave it out"
                )
            }
            _ => format!(
                "parameter {} of {count} is not used, because the query has {}; leave it out, or add ? where it \
                 belongs",
                unused + 1,
                counted(self.questions.unwrap_or(0), "placeholder"),
            ),
        }))
    }
}

/// The position of the value of a placeholder with a name.
fn named(placeholder: &str, values: &[(String, ArrayRef)]) -> Result<usize> {
    let name = placeholder.strip_prefix('$').filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(invalid(format!(
            "the placeholder {placeholder} has no name, but the parameters have names; use $name, or give a list"
        )));
    };
    values.iter().position(|(given, _)| given == name).ok_or_else(|| {
        let names = values.iter().map(|(name, _)| name.as_str());
        let unknown = Error::unknown("parameter", name, names).to_string();
        let hint = match values.is_empty() {
            true => "add it to the parameters",
            false => unknown.split_once("; ").map_or("", |(_, hint)| hint),
        };
        invalid(format!("the placeholder {placeholder} has no value; {hint}"))
    })
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn invalid(message: String) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::InvalidArgument, message))
}

/// The tokens that a value is read from, if there are any that mean just it.
fn spelled(value: &ScalarValue) -> Option<Vec<Token>> {
    let number = |text: String| match text.strip_prefix('-') {
        None => vec![Token::Number(text, false)],
        // In parentheses: a minus before it must not make a comment of both.
        Some(digits) => {
            let digits = Token::Number(digits.to_string(), false);
            vec![Token::LParen, Token::Minus, digits, Token::RParen]
        }
    };
    Some(match value {
        _ if value.is_null() && *value == ScalarValue::Null => vec![Token::make_keyword("NULL")],
        ScalarValue::Boolean(Some(true)) => vec![Token::make_keyword("TRUE")],
        ScalarValue::Boolean(Some(false)) => vec![Token::make_keyword("FALSE")],
        ScalarValue::Int64(Some(value)) => number(value.to_string()),
        // Smaller ones would be read as signed.
        ScalarValue::UInt64(Some(value)) if i64::try_from(*value).is_err() => {
            number(value.to_string())
        }
        ScalarValue::Float64(Some(value)) if value.is_finite() => number(format!("{value:?}")),
        ScalarValue::Utf8(Some(text)) => vec![Token::SingleQuotedString(text.clone())],
        _ => return None,
    })
}

/// A function without arguments that gives one value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: String,
    value: ScalarValue,
    signature: Signature,
}

impl Constant {
    fn new(name: String, value: ScalarValue) -> Constant {
        Constant { name, value, signature: Signature::nullary(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(&self.name, self.value.data_type(), self.value.is_null()).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
