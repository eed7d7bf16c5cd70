//! What DataFusion says, as our errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use datafusion::common::{SchemaError, TableReference};
use datafusion::error::DataFusionError;
use drillcore::{Error, ErrorKind};

/// Functions that queries may read from.
const TABLE_FUNCTIONS: [&str; 3] = ["sample", "generate_series", "range"];

/// Runs code of a library; a panic in it becomes an error.
pub fn without_panic<T>(
    work: impl FnOnce() -> Result<T, DataFusionError>,
) -> Result<T, DataFusionError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(to_datafusion(from_panic(&*payload))))
}

/// Keeps our own errors as they are; names columns as the engine does; the rest is about the text of the
/// query or about values that an expression met.
pub fn from_datafusion(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => from_datafusion(inner),
                None => Error::new(ErrorKind::InvalidArgument, inner.to_string()),
            },
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            from_datafusion(inner)
        }
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => from_datafusion(&errors[0]),
        DataFusionError::SchemaError(schema_error, _) => from_schema_error(schema_error),
        DataFusionError::ResourcesExhausted(message) => {
            let message = format!(
                "the query needs more memory than it may take; give it more with memory_bytes, or ask for \
                 fewer rows, groups or columns at once: {message}"
            );
            Error::new(ErrorKind::OutOfMemory, message)
        }
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::Configuration(message) => from_message(message),
        DataFusionError::NotImplemented(message)
            if message.starts_with("Unsupported LIMIT expression") =>
        {
            let message = "LIMIT and OFFSET take a whole number that is known beforehand";
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::NotImplemented(message) if is_query_in_expression(message) => {
            let message = "a query in IN, EXISTS, ANY or ALL has to be in a WHERE or HAVING, and if it refers to \
                           a row of the query around it, without LIMIT";
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::NotImplemented(message) => {
            Error::new(ErrorKind::InvalidArgument, format!("not supported: {message}"))
        }
        DataFusionError::SQL(parser_error, _) => {
            let message = parser_error.to_string();
            let message = message.trim_start_matches("sql parser error: ");
            Error::new(ErrorKind::InvalidArgument, format!("not SQL: {message}"))
        }
        DataFusionError::ArrowError(arrow_error, _) => from_arrow(arrow_error),
        DataFusionError::ExecutionJoin(error) => {
            Error::new(ErrorKind::Internal, format!("the query broke off: {error}"))
        }
        DataFusionError::Internal(message) => {
            Error::new(ErrorKind::Internal, format!("internal error of the query: {message}"))
        }
        other => Error::new(ErrorKind::InvalidArgument, other.strip_backtrace()),
    }
}

/// Whether that is why there is no plan.
fn is_query_in_expression(message: &str) -> bool {
    let kinds = ["InSubquery(", "Exists(", "SetComparison("];
    let kind = message.strip_prefix("Physical plan does not support logical expression ");
    kind.is_some_and(|expr| kinds.iter().any(|kind| expr.starts_with(kind)))
}

/// What a panic of a library means: a column that got too long is for the caller to fix, the rest is a bug.
pub fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let error = Error::panicked(payload);
    let is_too_long = ["offset overflow", "offset too large", "capacity overflow"];
    let message = error.to_string();
    if is_too_long.iter().any(|found| message.contains(found)) {
        let message = "a column of text or lists would take more than 2 GiB in one batch; ask for shorter \
                       results, or for fewer rows at once";
        return Error::new(ErrorKind::OutOfMemory, message);
    }
    error
}

/// Says in fewer words, or in better ones, what DataFusion says often.
fn from_message(message: &str) -> Error {
    let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
    if let Some((name, near)) = between(message, "Invalid function '", "'.\nDid you mean '") {
        let near = near.trim_end_matches("'?");
        let unknown = Error::unknown("function", name, [near]);
        // DataFusion names one, however far it is.
        return match unknown.to_string().contains("did you mean") {
            true => unknown,
            false => Error::new(ErrorKind::NotFound, format!("unknown function {name:?}")),
        };
    }
    if let Some((name, _)) = between(message, "table function '", "' not found") {
        return Error::unknown("table function", name, TABLE_FUNCTIONS);
    }
    if let Some((call, rest)) = between(message, "name and argument types '", "'. You might") {
        let candidates = rest.split_once("Candidate functions:").map_or("", |(_, list)| list);
        let candidates: Vec<&str> =
            candidates.lines().map(str::trim).filter(|c| !c.is_empty()).collect();
        // Some check their arguments themselves.
        let hint =
            match candidates.iter().any(|c| c.contains("UserDefined")) || candidates.is_empty() {
                true => String::new(),
                false => format!("; there is {}", candidates.join(", ")),
            };
        return invalid(format!("there is no {call}{hint}"));
    }
    if let Some((column, _)) = between(message, "column \"", "\" must appear in the GROUP BY") {
        return invalid(format!(
            "{column} is neither in GROUP BY nor in an aggregate; min({column}) takes one of its values"
        ));
    }
    // Those that a query cannot be are refused by name before; these stand inside of one.
    if message.starts_with("DML not supported") || message.starts_with("DDL not supported") {
        return invalid(
            "a query only reads; create_table, append and delete change tables".to_string(),
        );
    }
    // What does not fit its type; Arrow and functions tell so in words alone.
    let out_of_range = |message: String| Error::new(ErrorKind::OutOfRange, message);
    if let Some(found) = message.strip_prefix("Can't cast value ") {
        return out_of_range(found.replacen(" to type ", " does not fit ", 1));
    }
    if message == "Arithmetic Overflow in AvgAccumulator" {
        return out_of_range(
            "an average of decimals has four digits more behind the point than they have, and one of these has no room \
             for all its digits before it; average the values as double where an approximation will do"
                .to_string(),
        );
    }
    if let Some((of, found)) = message.split_once("Array overflow on ") {
        return out_of_range(format!("{found} does not fit {of}"));
    }
    let is_beyond_nanoseconds = message.contains(" to Nanosecond")
        || message.contains("to Timestamp(ns): converted value exceeds");
    if is_beyond_nanoseconds {
        let found = message.split(". The dates").next().unwrap_or(message);
        return out_of_range(format!(
            "{found}; a timestamp is in nanoseconds, from 1677-09-21 to 2262-04-11, unless it is cast to timestamp(6), \
             which is in microseconds and holds all years"
        ));
    }
    let overflows = ["Overflow ", "Signed integer overflow ", "Date arithmetic overflow"];
    if overflows.iter().any(|start| message.starts_with(start))
        || message.contains(" to store in a Decimal")
    {
        return out_of_range(message.to_string());
    }
    invalid(message.split(", got ScalarFunction(").next().unwrap_or(message).to_string())
}

/// Of the text behind `start`, what stands before `end` and what behind.
fn between<'a>(message: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    message.split_once(start)?.1.split_once(end)
}

/// What Arrow says of values.
fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ArithmeticOverflow(found) => {
            let found = found.trim_start_matches("Overflow happened on: ");
            Error::new(ErrorKind::OutOfRange, format!("{found} does not fit its type"))
        }
        ArrowError::DivideByZero => Error::new(ErrorKind::InvalidArgument, "division by zero"),
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message) => from_message(message),
        other => Error::new(ErrorKind::InvalidArgument, other.to_string()),
    }
}

/// Adds to an error about a column what to tell whoever put a text in the quotes of names.
pub fn with_quotes_told(error: Error, text: &str) -> Error {
    let message = error.to_string();
    let rest = message.strip_prefix("unknown column ");
    let unknown =
        rest.and_then(|rest| rest.split("; did you mean").next()?.split("; there").next());
    if !unknown.is_some_and(|quoted| text.contains(quoted)) {
        return error;
    }
    let hint = "text stands in single quotes, double ones are for names";
    Error::new(error.kind(), format!("{message}; {hint}"))
}

/// Wraps one of our errors for its way through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn from_schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names = once_each(valid_fields.iter().map(|column| column.name.as_str()));
            let relations = valid_fields.iter().filter_map(|column| column.relation.as_ref());
            let relations = once_each(relations.map(TableReference::table));
            match &field.relation {
                Some(relation) if names.contains(&field.name.as_str()) && relations.is_empty() => {
                    let message = format!(
                        "a condition is about the columns of one table: write {} without {relation}",
                        field.name
                    );
                    Error::new(ErrorKind::NotFound, message)
                }
                Some(relation)
                    if !relations.is_empty() && !relations.contains(&relation.table()) =>
                {
                    Error::unknown("table", relation.table(), relations)
                }
                _ if names.is_empty() => {
                    let message = format!("no column can be named here: {}", field.name);
                    Error::new(ErrorKind::InvalidArgument, message)
                }
                _ => Error::unknown("column", &field.name, names),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            let message =
                format!("{name} is a column of several tables; say of which, as in t.{name}");
            Error::new(ErrorKind::InvalidArgument, message)
        }
        other => Error::new(ErrorKind::InvalidArgument, other.to_string()),
    }
}

fn once_each<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
