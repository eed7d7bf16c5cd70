//! What DataFusion says, as our errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_schema::ArrowError;
use datafusion::common::{SchemaError, TableReference};
use datafusion::error::DataFusionError;
use drillcore::{Error, ErrorKind};
use tokio::task::JoinError;

use crate::advice::{Advice, with_advice};
use crate::type_names::with_type_names;

/// Functions that queries may read from.
const TABLE_FUNCTIONS: [&str; 5] =
    ["sample", "read_parquet", "read_csv", "generate_series", "range"];

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
                None => match inner.downcast_ref::<Arc<JoinError>>() {
                    Some(error) => from_task(error),
                    None => Error::new(ErrorKind::InvalidArgument, inner.to_string()),
                },
            },
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            from_datafusion(inner)
        }
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => from_datafusion(&errors[0]),
        DataFusionError::SchemaError(schema_error, _) => from_schema_error(schema_error),
        DataFusionError::ResourcesExhausted(message) => {
            let found = format!("the query needs more memory than its budget ({message})");
            with_advice(ErrorKind::OutOfMemory, found, Advice::MoreMemory)
        }
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::Configuration(message) => from_message(message),
        DataFusionError::NotImplemented(message)
            if message.starts_with("Unsupported LIMIT expression") =>
        {
            let message = "LIMIT and OFFSET need a constant whole number";
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::NotImplemented(message) if query_in_expression(message).is_some() => {
            let message = query_in_expression(message).unwrap_or_default();
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::NotImplemented(message) => {
            let message = format!("not supported: {}", with_type_names(without_debug(message)));
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::SQL(parser_error, _) => {
            let message = parser_error.to_string();
            let message = message.trim_start_matches("sql parser error: ");
            let message = format!("invalid SQL: {}", of_parser(message));
            Error::new(ErrorKind::InvalidArgument, message)
        }
        DataFusionError::ArrowError(arrow_error, _) => from_arrow(arrow_error),
        DataFusionError::ExecutionJoin(error) => from_task(error),
        DataFusionError::Internal(message) => {
            Error::new(ErrorKind::Internal, format!("internal error in the query: {message}"))
        }
        other => Error::new(ErrorKind::InvalidArgument, other.strip_backtrace()),
    }
}

/// What to say if a subquery is why there is no plan.
fn query_in_expression(message: &str) -> Option<&'static str> {
    let expr = message.strip_prefix("Physical plan does not support logical expression ")?;
    if expr.starts_with("ScalarSubquery(") {
        return Some(
            "the value of a subquery that uses the query around it is supported where it compares their columns with = \
             only; join with a query that computes it instead, as in t left join (select ... group by ...) on ...",
        );
    }
    let kinds = ["InSubquery(", "Exists(", "SetComparison("];
    kinds.iter().any(|kind| expr.starts_with(kind)).then_some(
        "a subquery in IN, EXISTS, ANY or ALL is supported in WHERE and HAVING only, and without LIMIT if it refers \
         to the outer query",
    )
}

/// What the parser says, in better words where the text ends too early.
fn of_parser(message: &str) -> String {
    let expected = message.strip_prefix("Expected: ");
    match expected.and_then(|expected| expected.split_once(", found: EOF")) {
        Some((expected, _)) => {
            let expected = if expected == "identifier" { "an identifier" } else { expected };
            format!("the text ends where {expected} is expected; complete it")
        }
        None => message.to_string(),
    }
}

/// What a panic of a library means: a column that got too long is for the caller to fix, the rest is a bug.
pub fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let error = Error::panicked(payload);
    too_long(&error.to_string()).unwrap_or(error)
}

/// What it means that a thread's work ended early.
fn from_task(error: &JoinError) -> Error {
    let stopped = format!("the query stopped: {error}");
    too_long(&stopped).unwrap_or_else(|| Error::new(ErrorKind::Internal, stopped))
}

/// The error of a column that got too long, if a panic was about that.
fn too_long(message: &str) -> Option<Error> {
    let found = ["offset overflow", "offset too large", "capacity overflow"];
    found.iter().any(|found| message.contains(found)).then(|| {
        let message = "a column of text or lists needs more than 2 GiB in one batch; select shorter values or fewer \
                       rows";
        Error::new(ErrorKind::OutOfMemory, message)
    })
}

/// What DataFusion says, with the names that schemas have for types.
fn from_message(message: &str) -> Error {
    let said = reworded(message);
    Error::new(said.kind(), with_type_names(&said.to_string()))
}

/// Says in fewer words, or in better ones, what DataFusion says often.
fn reworded(message: &str) -> Error {
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
                false => format!("; use {}", candidates.join(", ")),
            };
        return invalid(format!("no function matches {call}{hint}"));
    }
    if let Some((column, _)) = between(message, "column \"", "\" must appear in the GROUP BY") {
        return invalid(format!(
            "{column} is neither in GROUP BY nor in an aggregate; add it to GROUP BY, or use min({column})"
        ));
    }
    // Those that a query cannot be are refused by name before; these stand inside of one.
    if message.starts_with("DML not supported") || message.starts_with("DDL not supported") {
        return invalid(
            "queries are read-only; remove the statement that changes a table".to_string(),
        );
    }
    if let Some(name) = name_of_two_columns(message) {
        return invalid(format!("two result columns have the name {name:?}; name one with AS"));
    }
    if let Some((text, wanted)) = text_of_no_value(message) {
        let wanted = with_type_names(wanted);
        return invalid(format!(
            "{text:?} is not a valid {wanted}; use a value of that type, or try_cast to get null instead"
        ));
    }
    if message.contains("error computing timezone offset")
        || message == "Cannot cast timezone to different timezone"
    {
        let time = between(message, "Error parsing timestamp from '", "'");
        let time = time.map_or("such a time".to_string(), |(time, _)| format!("'{time}'"));
        return invalid(format!(
            "clocks are put forward or back in the zone, so they do not show {time}, or show it twice; add the offset from \
             UTC, as in '2020-03-29T02:30:00+02:00', or compare dates, as in cast(at as date) = day"
        ));
    }
    // What does not fit its type; Arrow and functions tell so in words alone.
    let out_of_range = |message: String| Error::new(ErrorKind::OutOfRange, message);
    if let Some(found) = message.strip_prefix("Can't cast value ") {
        return out_of_range(found.replacen(" to type ", " does not fit ", 1));
    }
    if message == "Arithmetic Overflow in AvgAccumulator" {
        return out_of_range(
            "an average of decimals has four more decimal places than the values, and one of these averages does not \
             fit; average the values as double if an approximation will do"
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
            "{found}; nanosecond timestamps reach from 1677-09-21 to 2262-04-11; cast to timestamp(6), in \
             microseconds, for other years"
        ));
    }
    if let Some(function) = message.strip_prefix("Decimal overflow while applying ") {
        return out_of_range(format!(
            "a result of {function} has more digits than its type; cast what it is given to a decimal of more digits"
        ));
    }
    if message == "Timestamp out of range" {
        return out_of_range(
            "a time computed is out of the range of its type, or is one that the clocks of its zone skip or show twice; \
             there, add hours instead of days"
                .to_string(),
        );
    }
    if message.starts_with("Timestamp ") && message.contains(" out of range") {
        return out_of_range(format!(
            "{message}; it is computed in nanoseconds, which reach from 1677-09-21 to 2262-04-11: keep such times from \
             it, as in case when ... then ... end"
        ));
    }
    let overflows = ["Overflow ", "Signed integer overflow ", "Date arithmetic overflow"];
    if overflows.iter().any(|start| message.starts_with(start))
        || message.contains(" to store in a Decimal")
    {
        return out_of_range(message.to_string());
    }
    if let Some((name, _)) = between(message, "The window ", " is not defined!") {
        let name = name.trim_matches('"');
        return Error::new(
            ErrorKind::NotFound,
            format!("unknown window {name:?}; define it with WINDOW {name} AS (...)"),
        );
    }
    let said = message.split(", got ScalarFunction(").next().unwrap_or(message);
    invalid(without_debug(said).to_string())
}

/// The name that two columns of a result have, if that is why there is no plan.
fn name_of_two_columns(message: &str) -> Option<&str> {
    let start = "Projections require unique expression names but the expression \"";
    let (first, rest) = between(message, start, "\" at position ")?;
    let (second, _) = between(rest, " and \"", "\" at position ")?;
    // A cast keeps the name of what it casts.
    [first, second].map(named).into_iter().min_by_key(|name| name.len())
}

/// The alias of an expression, or all of it.
fn named(expr: &str) -> &str {
    match expr.rsplit_once(" AS ") {
        // Not that of a cast, which stands in parentheses.
        Some((_, alias)) if !alias.contains(')') => alias,
        _ => expr,
    }
}

/// A text that was cast and is no value of the type, and the type.
fn text_of_no_value(message: &str) -> Option<(&str, &str)> {
    let found = message.strip_prefix("Cannot cast string '")?.strip_suffix(" type")?;
    found.rsplit_once("' to value of ")
}

/// A message up to where a structure of the planner is printed, as in `Substring { expr: Value(...) }`.
fn without_debug(message: &str) -> &str {
    let is_structure = |(brace, _): &(usize, &str)| {
        let name = message[..*brace].rsplit(' ').next().unwrap_or_default();
        let field = message[*brace + " { ".len()..].split(": ").next().unwrap_or_default();
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
        // What users wrote stands in quotes.
        let is_outside = |quote: char| message[..*brace].matches(quote).count().is_multiple_of(2);
        is_name
            && message[..*brace].contains(' ')
            && ['\'', '"'].into_iter().all(is_outside)
            && field.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    match message.match_indices(" { ").find(is_structure) {
        Some((brace, _)) => {
            let start = message[..brace].rfind(' ').unwrap_or(0);
            message[..start].trim_end_matches([' ', ',', ':'])
        }
        None => message,
    }
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
            Error::new(
                ErrorKind::OutOfRange,
                format!("{found} does not fit its type; cast to a wider type"),
            )
        }
        ArrowError::DivideByZero => Error::new(
            ErrorKind::InvalidArgument,
            "division by zero; use nullif(divisor, 0) to get null instead",
        ),
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message) => from_message(message),
        other => Error::new(ErrorKind::InvalidArgument, other.to_string()),
    }
}

/// Adds to an error about a column which quotes are for strings, if the text has the name in those for identifiers.
pub fn with_quotes_told(error: Error, text: &str) -> Error {
    let message = error.to_string();
    let rest = message.strip_prefix("unknown column ");
    let unknown =
        rest.and_then(|rest| rest.split("; did you mean").next()?.split("; there").next());
    if !unknown.is_some_and(|quoted| text.contains(quoted)) {
        return error;
    }
    let end = if message.ends_with('?') { "" } else { "." };
    let hint = "Use single quotes for strings; double quotes are for identifiers";
    Error::new(error.kind(), format!("{message}{end} {hint}"))
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
                        "a condition names the columns of one table: write {} without {relation}",
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
                    let message = format!(
                        "columns cannot be used here, but found {}; use a constant",
                        field.name
                    );
                    Error::new(ErrorKind::InvalidArgument, message)
                }
                _ => Error::unknown("column", &field.name, names),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            let message = format!(
                "several tables have a column {name}; add the name of the table, as in t.{name}"
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_thread_that_panicked_is_no_fault_of_the_query() {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let error_of = |message: &'static str| {
            let panicked = async move { panic!("{message}") };
            let task = runtime.block_on(runtime.spawn(panicked)).map(|(): ()| ());
            let shared = DataFusionError::External(Box::new(Arc::new(task.unwrap_err())));
            from_datafusion(&DataFusionError::Context("Join Error".into(), Box::new(shared)))
        };
        let error = error_of("left == right");
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert!(error.to_string().contains("left == right"), "{error}");
        assert_eq!(error_of("offset overflow").kind(), ErrorKind::OutOfMemory);
    }
}
