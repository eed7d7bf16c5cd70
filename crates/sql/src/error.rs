//! What DataFusion says, as our errors.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use drillcore::{Error, ErrorKind};

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
        | DataFusionError::Configuration(message) => {
            Error::new(ErrorKind::InvalidArgument, message.clone())
        }
        DataFusionError::NotImplemented(message) => {
            Error::new(ErrorKind::InvalidArgument, format!("not supported: {message}"))
        }
        DataFusionError::SQL(parser_error, _) => {
            let message = parser_error.to_string();
            let message = message.trim_start_matches("sql parser error: ");
            Error::new(ErrorKind::InvalidArgument, format!("not SQL: {message}"))
        }
        DataFusionError::ArrowError(arrow_error, _) => {
            Error::new(ErrorKind::InvalidArgument, arrow_error.to_string())
        }
        other => Error::new(ErrorKind::InvalidArgument, other.strip_backtrace()),
    }
}

/// Wraps one of our errors for its way through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn from_schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names = valid_fields.iter().map(|column| column.name.as_str());
            Error::unknown("column", &field.name, names)
        }
        other => Error::new(ErrorKind::InvalidArgument, other.to_string()),
    }
}
